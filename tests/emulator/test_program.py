"""Running a program: what goes in, what comes out, what is refused; a whole tile of a product; programs that end early or print."""

from __future__ import annotations

import time
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from tileworkbench.base.errors import ArgumentError, CapacityError, CompilerError, DeviceAssertError, TileRuntimeError
from tileworkbench.emulator import TensorMap, source
from tileworkbench.runtime import emulating
from tileworkbench.runtime.toolchain import Compiler, all_compilers

K = 'extern "C" __global__ void __launch_bounds__(128) k'
COPY = (
    K
    + "(twb_global<const float> a, twb_global<float> b, int32_t n, float x) { int i = twb_block_x() * 128 + twb_thread_x(); /* f.py:3: b[i] = a[i] */ if (i < n) b[i] = a[i] * x; }"
)


def test_lines_parameters_and_bounds_are_read_from_the_text() -> None:
    made = source(COPY, "sm_80")
    (kernel,) = made.kernels
    assert [(p.type, p.name) for p in kernel.parameters] == [
        ("twb_global<const float>", "a"),
        ("twb_global<float>", "b"),
        ("int32_t", "n"),
        ("float", "x"),
    ]
    assert kernel.max_threads == 128
    assert [(line.file, line.line, line.text) for line in made.lines] == [("f.py", 3, "b[i] = a[i]")]
    assert "twb_at(1); if (i < n)" in made.text
    assert made.text.count("\n", 0, made.text.index("twb_at(1)")) >= 100  # behind the library


def test_a_new_line_is_a_call_only_in_a_text_that_is_written_down() -> None:
    """Elsewhere it is a store: each line of each thread passes there."""
    head = source(COPY, "sm_80").text.count("twb_from(")
    plain, recording = (source(COPY, "sm_80", record=record).text.partition('#line 1 "kernel.cu"')[2] for record in (False, True))
    assert head == 1 and "twb_at(1);" in plain and "twb_from(1);" in recording and "twb_at(" not in recording and "twbe_step" not in plain


def test_a_text_without_a_kernel_and_a_function_that_is_too_new() -> None:
    with pytest.raises(ValueError, match="no kernel"):
        source("int f() { return 1; }", "sm_80")
    with pytest.raises(ValueError, match="twb_cluster_sync needs sm_90 or newer, not sm_80"):
        source(K + "() { twb_cluster_sync(); }", "sm_80")
    with pytest.raises(ValueError, match="twb_wgmma_fence exists on sm_90a only, not on sm_90"):
        source(K + "() { twb_wgmma_fence(); }", "sm_90")


def test_blocks_threads_and_scalars() -> None:
    a, b = np.arange(300, dtype=np.float32), np.zeros(300, np.float32)
    emulating.load(COPY, "sm_80")["k"](3, 128, [a, b, 290, 0.5])
    assert np.array_equal(b, np.where(np.arange(300) < 290, a / 2, 0).astype(np.float32))


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="needs Linux's list of mappings")
def test_stacks_are_given_back() -> None:
    """A process has some 65,000 mappings; each loaded kernel has a runtime of its own."""
    kernel = emulating.load(COPY.replace("(128) k", "(1024) k").replace("* 128", "* 1024"), "sm_80")["k"]
    a, b = np.ones(1024, np.float32), np.zeros(1024, np.float32)
    kernel(1, 32, [a, b, 1024, 1.0])
    before = len(Path("/proc/self/maps").read_text().splitlines())
    kernel(1, 1024, [a, b, 1024, 2.0])
    assert len(Path("/proc/self/maps").read_text().splitlines()) < before + 100
    np.testing.assert_array_equal(b, 2 * a)


def test_an_empty_grid_does_nothing() -> None:
    b = np.zeros(1, np.float32)
    emulating.load(COPY, "sm_80")["k"](0, 128, [b, b, 1, 1.0])
    assert not b.any()


def test_views_and_null_pointers() -> None:
    base = np.zeros(400, np.float32)
    kernel = emulating.load(COPY, "sm_80")["k"]
    kernel(1, 128, [np.ones(100, np.float32), base[100:200], 100, 2.0])
    assert np.array_equal(np.flatnonzero(base), np.arange(100, 200))
    found = kernel.run(1, 32, [None, base[:32], 32, 1.0]).findings
    assert "through a null pointer" in found[0].text


def test_the_first_fault_is_an_error_at_the_authors_line() -> None:
    with pytest.raises(TileRuntimeError, match=r"k: f.py:3: out of bounds: thread \(100, 0, 0\) of block \(0, 0, 0\)"):
        emulating.load(COPY, "sm_80")["k"](1, 128, [np.ones(100, np.float32), np.zeros(128, np.float32), 128, 1.0])


@pytest.mark.parametrize(
    ("args", "says"),
    [
        ([np.zeros(4, np.float32)], "takes 4 arguments, not 1"),
        ([1, np.zeros(4, np.float32), 4, 1.0], "a is an array, not int"),
        ([np.zeros(4, np.float64), np.zeros(4, np.float32), 4, 1.0], "a has elements of 4 bytes"),
    ],
)
def test_wrong_arguments(args: list, says: str) -> None:
    with pytest.raises(ArgumentError, match=says):
        emulating.load(COPY, "sm_80")["k"](1, 128, args)


def test_wrong_extents() -> None:
    kernel, args = emulating.load(COPY, "sm_80")["k"], [np.zeros(1, np.float32), np.zeros(1, np.float32), 0, 1.0]
    with pytest.raises(ArgumentError, match="a block of 256 threads; it may have 128"):
        kernel(1, 256, args)
    with pytest.raises(ArgumentError, match="cannot be cut into clusters"):
        kernel(3, 128, args, cluster=2)


def test_more_shared_memory_than_there_is() -> None:
    args = [np.zeros(1, np.float32), np.zeros(1, np.float32), 0, 1.0]
    with pytest.raises(CapacityError, match="k: 166913 bytes of shared memory; a block of sm_80 has 166912"):
        emulating.load(COPY, "sm_80")["k"](1, 32, args, shared_bytes=163 * 1024 + 1)
    emulating.load(COPY, "sm_80")["k"](1, 32, args, shared_bytes=163 * 1024)


def test_the_kernel_says_its_cluster() -> None:
    text = 'extern "C" __global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(32) k(twb_global<uint32_t> a) { a[twb_block_x()] = 10 * twb_cluster_size() + twb_cluster_rank(); }'
    a = np.zeros(4, np.uint32)
    emulating.load(text, "sm_90a")["k"](4, 32, [a])
    assert a.tolist() == [20, 21, 20, 21]


def test_fibers_by_the_c_library(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    """Processors without a switch of their own use ucontext."""
    monkeypatch.setattr(emulating, "RUNTIME_FLAGS", (*emulating.RUNTIME_FLAGS, "-DTWBE_UCONTEXT"))
    monkeypatch.setattr(emulating, "KERNEL_FLAGS", (*emulating.KERNEL_FLAGS, "-DTWBE_UCONTEXT"))
    text = (
        K
        + "(twb_global<float> a) { TWB_SHARED_MEMORY(memory); int i = twb_thread_x(); auto s = twb_tile<float>(memory, 0, 128); for (int j = 0; j < 3; ++j) { s[i] = a[i] + 1; twb_sync(); a[i] = s[127 - i] + twb_shfl_xor(0.5f, 1); twb_sync(); } }"
    )
    a = np.arange(128, dtype=np.float32)
    assert emulating.load(text, "sm_80")["k"].run(1, 128, [a], shared_bytes=512, sanitize=True).findings == ()
    assert np.array_equal(a, np.arange(127, -1, -1) + 4.5)


@pytest.mark.parametrize(
    ("box", "swizzle", "says"),
    [
        ((8, 300), 0, "1 to 256"),
        ((3, 8), 0, "multiple of 16"),
        ((64, 8), 128, "at most 128"),
        ((8,), 0, "1 to 5 dimensions"),
        ((8, 8), 16, "0, 32, 64 or 128"),
    ],
)
def test_tensor_maps_that_hardware_refuses(box: tuple[int, ...], swizzle: int, says: str) -> None:
    with pytest.raises(ArgumentError, match=says):
        TensorMap(np.zeros((300, 64), np.float32), box, swizzle)


def test_an_assertion_ends_the_kernel_at_its_line_and_what_was_printed_stays() -> None:
    text = (
        K
        + '(twb_global<int32_t> a) { if (twb_thread_x() == 3) twb_print("i is %d\\n", 3); twb_sync(); /* f.py:8 */ if (a[twb_thread_x()] == 5) twb_fail(42); a[twb_thread_x()] = 1; }'
    )
    a = np.arange(128, dtype=np.int32)
    with pytest.raises(DeviceAssertError, match=r"(?s)assertion 42 did not hold at f.py:8.*i is 3"):
        emulating.load(text, "sm_80")["k"](1, 128, [a])
    fine = np.full(128, 7, np.int32)
    assert emulating.load(text, "sm_80")["k"].run(1, 128, [fine]).printed == "i is 3\n"


def test_text_that_does_not_compile() -> None:
    with pytest.raises(CompilerError, match="not_a_name"):
        emulating.load(K + "() { not_a_name(); }", "sm_80")


@pytest.mark.parametrize("compiler", all_compilers(), ids=lambda c: c.kind)
def test_every_compiler_has_its_cxx(compiler: Compiler) -> None:
    assert emulating.cxx_command(compiler)[-1].rsplit("/", 1)[-1].removesuffix("++") in ("g", "clang", "c")


def test_shared_memory_starts_poisoned() -> None:
    text = K + "(twb_global<float> a) { TWB_SHARED_MEMORY(memory); a[twb_thread_x()] = twb_tile<float>(memory, 0, 128)[twb_thread_x()]; }"
    a = np.zeros(128, np.float32)
    emulating.load(text, "sm_80")["k"](1, 128, [a], shared_bytes=512)
    assert np.isnan(a).all()


PRODUCT = (
    'extern "C" __global__ void __launch_bounds__(384, 1) k'
    + """(const __grid_constant__ twb_tensor_map ma, const __grid_constant__ twb_tensor_map mb, twb_global<float> c, int32_t steps) {
    TWB_SHARED_MEMORY(memory);
    twb_shared<uint8_t> a = twb_tile<uint8_t>(memory, 0, 2 * 16384), b = twb_tile<uint8_t>(memory, 32768, 2 * 16384);
    twb_shared<uint64_t> full = twb_tile<uint64_t>(memory, 65536, 2), empty = twb_tile<uint64_t>(memory, 65552, 2);
    if (twb_thread_x() == 0) { for (int i = 0; i < 2; ++i) { twb_mbarrier_init(full + i, 1); twb_mbarrier_init(empty + i, 8); } twb_fence_mbarrier_init(); }
    twb_sync();
    if (twb_warp() >= 8) {
        twb_set_max_registers_dec<40>();
        if (twb_thread_x() == 256) for (int t = 0; t < steps; ++t) {
            int s = t % 2;
            twb_mbarrier_wait(empty + s, t / 2 % 2 ^ 1);
            twb_mbarrier_arrive_expect(full + s, 32768);
            twb_tma_load_2d(a + s * 16384, &ma, full + s, t * 64, 0); twb_tma_load_2d(b + s * 16384, &mb, full + s, t * 64, 0);
        }
    } else {
        twb_set_max_registers_inc<232>();
        int group = twb_warp() / 4, l = twb_lane();
        float d[64];
        for (int t = 0; t < steps; ++t) {
            int s = t % 2;
            twb_mbarrier_wait(full + s, t / 2 % 2);
            twb_keep_f32x64(d); twb_wgmma_fence();
            uint64_t da = twb_descriptor(twb_shared_address(a + s * 16384 + group * 8192), 16, 1024, 128), db = twb_descriptor(twb_shared_address(b + s * 16384), 16, 1024, 128);
            for (int k = 0; k < 4; ++k) twb_wgmma_m64n128k16_f32_bf16_bf16<0, 0>(d, da + 2 * k, db + 2 * k, t | k);
            twb_wgmma_commit(); twb_wgmma_wait<0>(); twb_keep_f32x64(d);
            if (l == 0) twb_mbarrier_arrive(empty + s);
        }
        for (int j = 0; j < 16; ++j) for (int h = 0; h < 2; ++h) for (int e = 0; e < 2; ++e)
            c[(twb_warp() * 16 + 8 * h + l / 4) * 128 + 8 * j + 2 * (l % 4) + e] = d[4 * j + 2 * h + e];
    }
}"""
)


@pytest.mark.parametrize("sanitize", [False, True])
def test_a_warp_specialised_product_of_one_block(sanitize: bool) -> None:
    """128x128 with 384 threads over 4 steps of 64 takes less than the two seconds that one step may take."""
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((128, 256)).astype(ml_dtypes.bfloat16) for _ in range(2))
    c = np.zeros((128, 128), np.float32)
    kernel = emulating.load(PRODUCT, "sm_90a")["k"]
    begin = time.perf_counter()
    result = kernel.run(1, 384, [TensorMap(a, (64, 128), 128), TensorMap(b, (64, 128), 128), c, 4], shared_bytes=65568, count=True, sanitize=sanitize)
    took = time.perf_counter() - begin
    assert result.findings == ()
    np.testing.assert_allclose(c, a.astype(np.float64) @ b.astype(np.float64).T, rtol=1e-5, atol=1e-3)
    assert result.counters.total.wgmma_flops == 2 * 128 * 128 * 256
    assert result.counters.total.tma_load_bytes == 2 * 128 * 256 * 2
    assert took < 8


TENSOR_CORES = (
    'extern "C" __global__ void __launch_bounds__(128) k'
    + """(twb_global<const twb_f16> a, twb_global<const twb_f16> b, twb_global<float> c, int32_t m, int32_t n, int32_t k) {
    TWB_SHARED_MEMORY(memory);
    const uint32_t STAGE = 64 * 128 * 2;
    twb_shared<uint8_t> s = twb_tile<uint8_t>(memory, 0, 3 * STAGE);
    int i = twb_thread_x(), l = twb_lane(), w = twb_warp(), steps = k / 64, m0 = twb_block_y() * 64, n0 = twb_block_x() * 64;
    float d[8][4];
    for (int j = 0; j < 8; ++j) for (int e = 0; e < 4; ++e) d[j][e] = 0;
    for (int t = 0; t < steps + 2; ++t) {
        if (t >= 2) {
            /* f.py:4: wait */ twb_cp_async_wait<1>(); twb_sync();
            twb_shared<uint8_t> p = s + (t - 2) % 3 * STAGE, q = p + 8192;
            for (int kk = 0; kk < 4; ++kk) {
                uint32_t x[4], y[4];
                /* f.py:5: a */ twb_ldmatrix_x4(x, twb_cast<twb_f16>(p + twb_swizzle((w * 16 + l % 16) * 128 + kk * 32 + l / 16 * 16, 128)));
                for (int j = 0; j < 4; ++j) {
                    /* f.py:6: b */ twb_ldmatrix_x4(y, twb_cast<twb_f16>(q + twb_swizzle((j * 16 + l % 8 + l / 16 * 8) * 128 + kk * 32 + l / 8 % 2 * 16, 128)));
                    uint32_t low[2] = {y[0], y[1]}, high[2] = {y[2], y[3]};
                    /* f.py:7: mma */ twb_mma_m16n8k16_f32_f16(d[2 * j], x, low); twb_mma_m16n8k16_f32_f16(d[2 * j + 1], x, high);
                }
            }
        }
        if (t < steps) {
            twb_shared<uint8_t> p = s + t % 3 * STAGE;
            for (int j = i; j < 512; j += 128) {
                uint32_t row = j / 8, col = j % 8, at = twb_swizzle(row * 128 + col * 16, 128);
                /* f.py:3: copy */ twb_cp_async<16>(p + at, a + ((int64_t)(m0 + row) * k + t * 64 + col * 8), m0 + (int)row < m); twb_cp_async<16>(p + 8192 + at, b + ((int64_t)(n0 + row) * k + t * 64 + col * 8), n0 + (int)row < n);
            }
        }
        twb_cp_async_commit();
    }
    for (int j = 0; j < 8; ++j) for (int h = 0; h < 2; ++h) for (int e = 0; e < 2; ++e) {
        int row = m0 + w * 16 + 8 * h + l / 4, col = n0 + 8 * j + 2 * (l % 4) + e;
        if (row < m && col < n) { /* f.py:8: store */ c[(int64_t)row * n + col] = d[j][2 * h + e]; }
    }
}"""
)


def test_a_pipelined_product_of_sm_80() -> None:
    """Three stages of cp.async, swizzled tiles, ragged edges: right, clean, without a bank conflict, and no more flops than there are."""
    rng = np.random.default_rng(1)
    a, b = rng.standard_normal((100, 256)).astype(np.float16), rng.standard_normal((72, 256)).astype(np.float16)
    c = np.zeros((100, 72), np.float32)
    result = emulating.load(TENSOR_CORES, "sm_80")["k"].run(
        (2, 2), 128, [a, b, c, 100, 72, 256], shared_bytes=3 * 16384, count=True, sanitize=True, fresh=[2]
    )
    assert [str(f) for f in result.findings] == []
    np.testing.assert_allclose(c, a.astype(np.float64) @ b.astype(np.float64).T, rtol=1e-5, atol=1e-3)
    assert result.counters.at(7).mma_flops == 4 * 2 * 64 * 64 * 256
    for line in (3, 5, 6):
        at = result.counters.at(line)
        assert (at.shared_load_wavefronts, at.shared_store_wavefronts) == (at.shared_load_ideal, at.shared_store_ideal)
        assert at.shared_load_ideal + at.shared_store_ideal > 0


def test_a_pipeline_that_waits_for_too_little_is_found() -> None:
    text = TENSOR_CORES.replace("twb_cp_async_wait<1>()", "twb_cp_async_wait<2>()")
    a = np.ones((64, 256), np.float16)
    c = np.zeros((64, 64), np.float32)
    result = emulating.load(text, "sm_80")["k"].run(1, 128, [a, a, c, 64, 64, 256], shared_bytes=3 * 16384, sanitize=True)
    assert {"uninitialised"} <= {f.kind for f in result.findings}
    assert {f.line.line for f in result.findings if f.kind == "uninitialised"} <= {5, 6}
    assert not np.array_equal(c, np.full((64, 64), 256))


SPIN = (
    K
    + """(twb_global<uint32_t> flag, twb_global<float> a) {
    int i = twb_thread_x();
    if (i < 32) {
        /* f.py:4: wait */ while (twb_load_acquire_u32(flag) < 2) {}
        while (twb_atomic_cas_u32(flag + 1, 0, 1)) {}
        a[i] = a[32] + 1;
        twb_atomic_exch_u32(flag + 1, 0);
    }
    else if (i == WHO) { a[32] = 5; twb_fence_gpu(); twb_store_release_u32(flag, 1); twb_atomic_add_u32(flag, 1); }
}"""
)


def test_threads_that_spin_let_others_run() -> None:
    flag, a = np.zeros(2, np.uint32), np.zeros(33, np.float32)
    emulating.load(SPIN.replace("WHO", "100"), "sm_80")["k"](1, 128, [flag, a])
    assert a.tolist() == [6.0] * 32 + [5.0]
    assert flag.tolist() == [2, 0]


def test_a_value_that_never_comes_is_a_deadlock() -> None:
    result = emulating.load(SPIN.replace("WHO", "500"), "sm_80")["k"].run(1, 128, [np.zeros(2, np.uint32), np.zeros(33, np.float32)])
    (found,) = result.findings
    assert (found.kind, found.line.line) == ("deadlock", 4)
    assert "warp 0: all lanes wait at a value in memory that does not change at f.py:4" in found.text


def test_updates_that_change_nothing_are_no_deadlock() -> None:
    text = (
        K
        + "(twb_global<int32_t> a) { for (int j = 0; j < 20000; ++j) twb_atomic_max_i32(a, 7); for (int j = 0; j < 3000; ++j) twb_atomic_add_i32(a + 1, 0); }"
    )
    a = np.array([9, 1], np.int32)
    assert emulating.load(text, "sm_80")["k"].run(1, 32, [a]).findings == ()
    assert a.tolist() == [9, 1]
