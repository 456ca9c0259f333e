"""Products by mma.sync: right for every type, transposition, policy and number of threads, read without bank conflicts, refused by nobody."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tileworkbench.language as T
from tileworkbench import compile
from tileworkbench.base.dtypes import DType
from tileworkbench.device import from_text, library
from tileworkbench.emulator import RunResult
from tileworkbench.frontend.prim_func import PrimFunc
from tileworkbench.runtime import nvrtc, toolchain
from tileworkbench.runtime.cubin import read_cubin
from tileworkbench.runtime.options import Options
from tileworkbench.runtime.target_emulate import EmulateTarget, translate_cuda

pytestmark = pytest.mark.skipif(toolchain.default_compiler() is None, reason="needs a host C++ compiler")
P = T.GemmWarpPolicy
FLOATS = {"float16": 2.0**-11, "float32": 2.0**-23}


def product(
    m: int = 64, n: int = 64, k: int = 32, threads: int = 128, ta: bool = False, tb: bool = False, dtype: str = "float16", b_dtype: str = "",
    sums: str = "float32", policy: Any = P.Square, held: str = "c",
) -> PrimFunc:  # fmt: skip
    """C = A @ B in two steps of k; `held` names the operands ("a", "c") that are fragments."""
    b_dtype = b_dtype or dtype
    a_tile, b_tile = (k, m) if ta else (m, k), (n, k) if tb else (k, n)
    a_all, b_all = (2 * k, m) if ta else (m, 2 * k), (n, 2 * k) if tb else (2 * k, n)

    @T.prim_func
    def mm(A: T.Tensor(a_all, dtype), B: T.Tensor(b_all, b_dtype), C: T.Tensor((m, n), sums)):  # type: ignore[valid-type]
        with T.Kernel(1, threads=threads):
            A_s = T.alloc_shared(a_tile, dtype)
            A_r = T.alloc_fragment(a_tile, dtype)
            B_s = T.alloc_shared(b_tile, b_dtype)
            acc = T.alloc_fragment((m, n), sums) if "c" in held else T.alloc_shared((m, n), sums)
            T.clear(acc)
            for ko in T.serial(2):
                T.copy(A[ko * k, 0] if ta else A[0, ko * k], A_s)
                T.copy(B[0, ko * k] if tb else B[ko * k, 0], B_s)
                if "a" in held:
                    T.copy(A_s, A_r)
                    T.gemm(A_r, B_s, acc, transpose_A=ta, transpose_B=tb, policy=policy)
                else:
                    T.gemm(A_s, B_s, acc, transpose_A=ta, transpose_B=tb, policy=policy)
            T.copy(acc, C)

    result: PrimFunc = mm
    return result


def numbers(seed: int, shape: tuple[int, ...], dtype: str) -> np.ndarray[Any, Any]:
    rng = np.random.default_rng(seed)
    kind = DType(dtype)
    if kind.is_int:
        return rng.integers(int(kind.min), int(kind.max) + 1, shape).astype(kind.to_numpy())
    return rng.standard_normal(shape).astype(kind.to_numpy())


def run(program: PrimFunc, *arrays: np.ndarray[Any, Any], arch: str = "sm_80") -> RunResult:
    """Change `arrays` in place; no fault may be found."""
    made = EmulateTarget().compile(program.kernel, Options(arch=arch))
    (kernel,) = made.made.kernels
    grid = [int(g.value) for g in kernel.grid]  # type: ignore[attr-defined]
    result = made.program[kernel.name].run(grid, kernel.block, arrays, shared_bytes=kernel.shared_bytes, count=True, sanitize=True)
    assert [str(f) for f in result.findings] == []
    return result


def check(program: PrimFunc, arch: str = "sm_80", ta: bool = False, tb: bool = False) -> RunResult:
    """Run a `product` on random numbers against float64; the tolerance is a rounding for each step of the sum."""
    a, b, c = (numbers(i, tuple(p.buffer.static_shape()), str(p.buffer.type)) for i, p in enumerate(program.params))  # type: ignore[union-attr]
    result = run(program, a, b, c, arch=arch)
    x, y = (a.T if ta else a).astype(np.float64), (b.T if tb else b).astype(np.float64)
    depth = x.shape[1]
    eps = FLOATS.get(str(program.params[2].buffer.type), 0.0)  # type: ignore[union-attr]
    np.testing.assert_allclose(c.astype(np.float64), x @ y, rtol=0, atol=float(depth * eps * (abs(x) @ abs(y)).max()))
    assert result.counters.total.mma > 0
    return result


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize(("ta", "tb"), [(False, False), (False, True), (True, False), (True, True)])
def test_transposed_operands_are_read_without_conflicts(ta: bool, tb: bool, dtype: str) -> None:
    total = check(product(ta=ta, tb=tb, dtype=dtype), ta=ta, tb=tb).counters.total
    assert total.mma_flops == 2 * 64 * 64 * 64
    assert total.shared_load_wavefronts == total.shared_load_ideal == 4 * total.matrix_loads


@pytest.mark.parametrize("k", [16, 32, 64, 128, 48, 24, 8])
def test_every_form_is_free_of_conflicts(k: int) -> None:
    total = check(product(k=k, n=48, tb=True), tb=True).counters.total
    assert total.shared_load_wavefronts == total.shared_load_ideal > 0


@pytest.mark.parametrize("policy", [P.Square, P.FullRow, P.FullCol], ids=str)
@pytest.mark.parametrize("threads", [32, 64, 96, 128, 256])
def test_warps_share_the_tile(threads: int, policy: Any) -> None:
    check(product(96, 64, 16, threads=threads, policy=policy))


@pytest.mark.parametrize(("m", "n"), [(16, 8), (16, 24), (48, 40), (32, 8)])
def test_small_and_odd_tiles(m: int, n: int) -> None:
    """Some warps have nothing to do; the last load of b is one of two matrices."""
    assert check(product(m, n, 16)).counters.total.mma_flops == 2 * m * n * 32


@pytest.mark.parametrize("tb", [False, True])
@pytest.mark.parametrize("held", ["ac", "", "a"])
def test_operands_that_are_fragments_or_not(held: str, tb: bool) -> None:
    check(product(held=held, tb=tb), tb=tb)


@pytest.mark.parametrize(("ta", "tb"), [(False, False), (False, True), (True, True)])
@pytest.mark.parametrize(("dtype", "b_dtype"), [("int8", "int8"), ("uint8", "int8")])
def test_bytes(dtype: str, b_dtype: str, ta: bool, tb: bool) -> None:
    """Integers are exact. Operands that do not lie along k are read element by element."""
    check(product(64, 32, 32, dtype=dtype, b_dtype=b_dtype, sums="int32", ta=ta, tb=tb), ta=ta, tb=tb)


@pytest.mark.parametrize(("dtype", "b_dtype", "held"), [("float8_e4m3fn", "float8_e5m2", "c"), ("float8_e5m2", "float8_e5m2", "ac")])
def test_eight_bit_floats(dtype: str, b_dtype: str, held: str) -> None:
    check(product(dtype=dtype, b_dtype=b_dtype, held=held, tb=True), arch="sm_89", tb=True)


@pytest.mark.parametrize(("ta", "tb", "held"), [(False, True, "c"), (False, False, "ac"), (True, False, "c")])
def test_tf32_rounds_to_nearest(ta: bool, tb: bool, held: str) -> None:
    program = product(64, 32, 16, dtype="tfloat32", ta=ta, tb=tb, held=held)
    a, b = numbers(0, (32, 64) if ta else (64, 32), "float32"), numbers(1, (32, 32), "float32")
    c = np.zeros((64, 32), np.float32)
    assert run(program, a, b, c).counters.total.mma > 0
    rounded = [((x.view(np.uint32) + 0x1000) & 0xFFFFE000).view(np.float32).astype(np.float64) for x in (a, b)]
    x, y = rounded[0].T if ta else rounded[0], rounded[1].T if tb else rounded[1]
    np.testing.assert_allclose(c, x @ y, rtol=0, atol=float(32 * 2.0**-23 * (abs(x) @ abs(y)).max()))


def test_products_of_float32_stay_exact() -> None:
    program = product(64, 32, 16, dtype="float32")
    a, b, c = numbers(0, (64, 32), "float32"), numbers(1, (32, 32), "float32"), np.zeros((64, 32), np.float32)
    assert run(program, a, b, c).counters.total.mma == 0
    x, y = a.astype(np.float64), b.astype(np.float64)
    np.testing.assert_allclose(c, x @ y, rtol=0, atol=float(32 * 2.0**-23 * (abs(x) @ abs(y)).max()))


def test_sums_of_float16() -> None:
    check(product(sums="float16"))


def test_turing_has_shorter_steps() -> None:
    assert check(product(), arch="sm_75").counters.total.mma == 2 * 4 * 8 * 4


@pytest.mark.parametrize("row", [0, 16, 3])
@pytest.mark.parametrize("column", [0, 16, 4])
def test_parts_of_tiles(row: int, column: int) -> None:
    """Rows may begin anywhere; columns off 16 bytes are read element by element. The stage is chosen when the kernel runs."""

    @T.prim_func
    def part(A: T.Tensor((2, 64, 64), "float16"), B: T.Tensor((2, 64, 64), "float16"), C: T.Tensor((32, 32), "float32"), turn: T.int32):  # type: ignore[valid-type]
        with T.Kernel(1, threads=64):
            A_s = T.alloc_shared((2, 64, 64), "float16")
            B_s = T.alloc_shared((2, 64, 64), "float16")
            acc = T.alloc_fragment((32, 32), "float32")
            T.copy(A, A_s)
            T.copy(B, B_s)
            for s in T.serial(2):
                T.gemm(
                    A_s[(s + turn) % 2, row : row + 32, column : column + 32], B_s[s, column : column + 32, row : row + 32], acc, clear_accum=s == 0
                )
            T.copy(acc, C)

    a, b, c = numbers(0, (2, 64, 64), "float16"), numbers(1, (2, 64, 64), "float16"), np.zeros((32, 32), np.float32)
    result = run(part, a, b, c, 1)  # type: ignore[arg-type]
    r, k = slice(row, row + 32), slice(column, column + 32)
    want = sum(a[1 - s, r, k].astype(np.float64) @ b[s, k, r].astype(np.float64) for s in range(2))
    np.testing.assert_allclose(c, want, rtol=0, atol=64 * 2.0**-23 * 64)
    total = result.counters.total
    aligned = column % 8 == 0
    assert (total.matrix_loads > 0) == (aligned or row % 8 == 0)
    if aligned and row % 8 == 0:
        assert total.shared_load_wavefronts == total.shared_load_ideal


def test_what_may_be_outside_is_guarded() -> None:
    @T.prim_func
    def beyond(A: T.Tensor((64, 32), "float16"), B: T.Tensor((32, 32), "float16"), C: T.Tensor((32, 32), "float32"), at: T.int32):  # type: ignore[valid-type]
        with T.Kernel(1, threads=32):
            A_s = T.alloc_shared((64, 32), "float16")
            B_s = T.alloc_shared((32, 32), "float16")
            acc = T.alloc_fragment((32, 32), "float32")
            T.copy(A, A_s)
            T.copy(B, B_s)
            T.gemm(A_s[at : at + 32, 0:32], B_s, acc, clear_accum=True)
            T.copy(acc, C)

    a, b, c = numbers(0, (64, 32), "float16"), numbers(1, (32, 32), "float16"), np.zeros((32, 32), np.float32)
    run(beyond, a, b, c, 48)  # type: ignore[arg-type]
    want = np.zeros((32, 32))
    want[:16] = a[48:].astype(np.float64) @ b.astype(np.float64)
    np.testing.assert_allclose(c, want, rtol=0, atol=32 * 2.0**-23 * 64)


def test_a_tile_that_is_factor_and_result() -> None:
    @T.prim_func
    def twice(A: T.Tensor((32, 32), "float16"), C: T.Tensor((32, 32), "float16")):  # type: ignore[valid-type]
        with T.Kernel(1, threads=128):
            tile = T.alloc_shared((32, 32), "float16")
            T.copy(A, tile)
            T.gemm(tile, tile, tile)
            T.copy(tile, C)

    a = (numbers(0, (32, 32), "float16") / 8).astype(np.float16)
    c = np.zeros_like(a)
    run(twice, a, c)
    x = a.astype(np.float64)
    np.testing.assert_allclose(c.astype(np.float64), x + x @ x, rtol=0, atol=33 * 2.0**-11 * float((abs(x) @ abs(x)).max()))


@pytest.mark.parametrize(("rows", "threads"), [(64, 128), (128, 128), (32, 128)])
def test_weights_of_attention_stay_in_registers(rows: int, threads: int) -> None:
    """Where every warp has whole rows, shared memory is touched for q, k and v only, and rows are reduced by shuffles in a quad."""

    @T.prim_func
    def flash(
        Q: T.Tensor((rows, 32), "float16"),
        K: T.Tensor((128, 32), "float16"),
        V: T.Tensor((128, 32), "float16"),
        O: T.Tensor((rows, 32), "float16"),
    ):  # type: ignore[valid-type]
        with T.Kernel(1, threads=threads):
            q, k, v = (T.alloc_shared((n, 32), "float16") for n in (rows, 64, 64))
            s, out = T.alloc_fragment((rows, 64), "float32"), T.alloc_fragment((rows, 32), "float32")
            p = T.alloc_fragment((rows, 64), "float16")
            top, old, part, total = (T.alloc_fragment((rows,), "float32") for _ in range(4))
            T.copy(Q, q)
            T.clear(out)
            T.clear(total)
            T.fill(top, -T.infinity("float32"))
            for step in T.serial(2):
                T.copy(K[step * 64, 0], k)
                T.copy(V[step * 64, 0], v)
                T.gemm(q, k, s, transpose_B=True, clear_accum=True)
                T.copy(top, old)
                T.reduce_max(s, top, dim=1, clear=False)
                for i, j in T.Parallel(rows, 64):
                    s[i, j] = T.exp2(s[i, j] - top[i])
                T.reduce_sum(s, part, dim=1)
                for i in T.Parallel(rows):
                    total[i] = total[i] * T.exp2(old[i] - top[i]) + part[i]
                for i, d in T.Parallel(rows, 32):
                    out[i, d] = out[i, d] * T.exp2(old[i] - top[i])
                T.copy(s, p)
                T.gemm(p, v, out)
            for i, d in T.Parallel(rows, 32):
                out[i, d] = out[i, d] / total[i]
            T.copy(out, O)

    q, k, v = (numbers(i, (n, 32), "float16") for i, n in enumerate((rows, 128, 128)))
    out = np.zeros((rows, 32), np.float16)
    counted = run(flash, q, k, v, out).counters.total
    x, y, z = (a.astype(np.float64) for a in (q, k, v))
    weights = np.exp2(x @ y.T - (x @ y.T).max(1, keepdims=True))
    np.testing.assert_allclose(out.astype(np.float64), weights / weights.sum(1, keepdims=True) @ z, rtol=0, atol=4 * 2.0**-11)
    if rows >= 16 * threads // 32:
        assert counted.shared_loads == 0 and counted.shared_store_bytes == 64 * (rows + 256)
        assert counted.shared_load_wavefronts == counted.shared_load_ideal == 4 * counted.matrix_loads
        assert counted.shuffles == (2 + 1) * 2 * rows // 8 + rows // 2  # of the maxima of two steps, of the sums behind them; trades of results


def test_tiles_that_a_producer_brings() -> None:
    """Too few rows for a warp group: the consumers of tensor copies use mma.sync, and read by matrices as ever."""

    @T.prim_func
    def mm(A: T.Tensor((32, 128), "float16"), B: T.Tensor((64, 128), "float16"), C: T.Tensor((32, 64), "float32")):  # type: ignore[valid-type]
        with T.Kernel(1, threads=128):
            A_s, B_s = T.alloc_shared((32, 32), "float16"), T.alloc_shared((64, 32), "float16")
            acc = T.alloc_fragment((32, 64), "float32")
            T.clear(acc)
            for k in T.Pipelined(4, num_stages=2):
                T.copy(A[0, k * 32], A_s)
                T.copy(B[0, k * 32], B_s)
                T.gemm(A_s, B_s, acc, transpose_B=True)
            T.copy(acc, C)

    kernel = compile(mm, target="emulate:sm_90a")
    a, b, c = numbers(0, (32, 128), "float16"), numbers(1, (64, 128), "float16"), np.zeros((32, 64), np.float32)
    kernel(a, b, c)
    x, y = a.astype(np.float64), b.astype(np.float64)
    np.testing.assert_allclose(c, x @ y.T, rtol=0, atol=float(128 * 2.0**-23 * (abs(x) @ abs(y.T)).max()))
    text = kernel.get_kernel_source()
    assert "twb_ldmatrix_x4" in text and "twb_tma_load" in text and "wgmma" not in text


def test_products_among_threads_of_the_author() -> None:
    @T.prim_func
    def mixed(A: T.Tensor((64, 32), "float16"), B: T.Tensor((32, 32), "float16"), C: T.Tensor((64, 32), "float32")):  # type: ignore[valid-type]
        with T.Kernel(1, threads=64):
            tx = T.get_thread_binding()
            A_s, B_s = T.alloc_shared((64, 32), "float16"), T.alloc_shared((32, 32), "float16")
            acc = T.alloc_fragment((64, 32), "float32")
            for j in T.serial(32):
                A_s[tx, j] = A[tx, j] * T.float16(2)
            T.copy(B, B_s)
            T.gemm(A_s, B_s, acc, clear_accum=True)
            for j in T.serial(32):
                C[tx, j] = acc[tx, j] + T.float32(1)

    a, b, c = numbers(0, (64, 32), "float16"), numbers(1, (32, 32), "float16"), np.zeros((64, 32), np.float32)
    total = run(mixed, a, b, c).counters.total
    assert total.mma > 0
    np.testing.assert_allclose(c, 2 * a.astype(np.float64) @ b.astype(np.float64) + 1, rtol=0, atol=64 * 2.0**-23 * 64)


def test_text_reads_like_the_fields() -> None:
    text = translate_cuda(product(tb=True).kernel, "sm_80")[0].text
    assert "twb_mma_m16n8k16_f32_f16(twb_registers<float, 4>(acc_r + (j * 2 + i) * 4), twb_registers<uint32_t, 4>(a + i * 4)" in text
    assert "* 8 + 0" not in text


@pytest.mark.skipif(nvrtc.find_nvrtc() is None, reason="needs NVRTC")
@pytest.mark.parametrize("arch", ["sm_80", "sm_89"])
def test_a_thread_has_enough_registers(arch: str) -> None:
    source, _ = translate_cuda(product(128, 128, 32, dtype="bfloat16").kernel, arch)
    made = nvrtc.compile_text(library(from_text(source.text), arch, "gpu") + source.text, arch)
    (facts,) = read_cubin(made.cubin, made.log)
    assert not facts.spills and facts.local_bytes == 0
