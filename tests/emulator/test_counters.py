"""Counters against closed forms: transposes, strided copies, wide accesses, broadcasts, matrix loads; against the rule of `layout.banks`."""

from __future__ import annotations

import numpy as np
import pytest

from tileworkbench.emulator import LineCounters
from tileworkbench.layout.banks import pieces, wavefronts
from tileworkbench.runtime import emulating

K = 'extern "C" __global__ void __launch_bounds__(256) k'


def count(text: str, args: list, grid: object = 1, block: int = 256, shared: int = 0, arch: str = "sm_80") -> dict[int, LineCounters]:
    result = emulating.load(text, arch)["k"].run(grid, block, args, shared_bytes=shared, count=True)
    assert not result.findings
    return {where.line: c for where, c in result.counters.by_line.items() if where}


TRANSPOSE = (
    K
    + """(twb_global<const float> a, twb_global<float> b, int32_t n) {
    TWB_SHARED_MEMORY(memory);
    twb_shared<float> t = twb_tile<float>(memory, 0, 32 * PITCH);
    uint32_t x = twb_thread_x() % 32, y = twb_thread_x() / 32;
    for (uint32_t i = y; i < 32; i += 8) {
        /* t.py:3: load */ t[AT(i, x)] = a[(twb_block_y() * 32 + i) * n + twb_block_x() * 32 + x];
    }
    /* t.py:4: barrier */ twb_sync();
    for (uint32_t i = y; i < 32; i += 8) {
        /* t.py:5: store */ b[(twb_block_x() * 32 + i) * n + twb_block_y() * 32 + x] = t[AT(x, i)];
    }
}"""
)


@pytest.mark.parametrize(
    ("pitch", "at", "fronts"),
    [(32, "(r) * 32 + (c)", 32), (33, "(r) * 33 + (c)", 1), (32, "(r) * 32 + ((c) ^ (r))", 1)],
    ids=["naive", "padded", "swizzled"],
)
def test_transposes(pitch: int, at: str, fronts: int) -> None:
    n = 128
    a = np.arange(n * n, dtype=np.float32).reshape(n, n)
    b = np.zeros_like(a)
    text = f"#define PITCH {pitch}\n#define AT(r, c) ({at})\n{TRANSPOSE}"
    lines = count(text, [a, b, n], (4, 4), shared=4 * 32 * pitch)
    assert np.array_equal(b, a.T)
    requests = n * n // 32
    load, store = lines[3], lines[5]
    assert (load.global_loads, load.global_load_sectors, load.global_load_bytes) == (requests, 4 * requests, 4 * n * n)
    assert (load.shared_stores, load.shared_store_wavefronts, load.shared_store_ideal) == (requests, requests, requests)
    assert (store.shared_loads, store.shared_load_wavefronts, store.shared_load_ideal) == (requests, fronts * requests, requests)
    assert (store.global_stores, store.global_store_sectors, store.global_store_bytes) == (requests, 4 * requests, 4 * n * n)
    assert load.dram_bytes == store.dram_bytes == 4 * n * n
    assert load.l2_bytes == store.l2_bytes == 4 * n * n
    assert load.shared_bytes + store.shared_bytes == 8 * n * n
    assert lines[4].barriers == lines[4].barrier_waits == 16 * 8


@pytest.mark.parametrize("stride", [1, 2, 3, 8, 32])
def test_strided_copies(stride: int) -> None:
    text = (
        K
        + "(twb_global<const float> a, twb_global<float> b, int32_t s) { int i = twb_block_x() * 256 + twb_thread_x(); /* f.py:2: copy */ b[i] = a[i * s]; }"
    )
    lines = count(text, [np.zeros(512 * stride, np.float32), np.zeros(512, np.float32), stride], 2)
    wanted = sum(pieces(np.arange(32 * w, 32 * w + 32) * 4 * stride, 4).touched for w in range(16))
    assert lines[2].global_load_sectors == wanted
    assert lines[2].global_loads == lines[2].global_stores == 16
    assert lines[2].global_store_sectors == 16 * 4


@pytest.mark.parametrize("n", [1, 2, 4])
def test_wide_accesses(n: int) -> None:
    """16 bytes a thread are 4 phases and 16 sectors; rows of 128 bytes put all of a phase into the same banks."""
    text = (
        K
        + f"""(twb_global<const float> a, twb_global<float> b) {{ TWB_SHARED_MEMORY(memory); twb_shared<float> s = twb_tile<float>(memory, 0, 2048); int i = twb_thread_x();
        /* f.py:2 */ twb_store<{n}>(s + {n} * i, twb_load<{n}>(a + {n} * i)); twb_sync();
        /* f.py:3 */ twb_vec<float, {n}> v = twb_load<{n}>(s + 32 * (i % 32) % 1024); twb_store<{n}>(b + {n} * i, v); }}"""
    )
    lines = count(text, [np.zeros(1024, np.float32), np.zeros(1024, np.float32)], shared=8192, block=256)
    flat, rows = wavefronts(np.arange(32) * 4 * n, 4 * n), wavefronts(np.arange(32) * 128, 4 * n)
    assert (lines[2].shared_store_wavefronts, lines[2].shared_store_ideal) == (8 * flat.total, 8 * flat.ideal)
    assert (lines[3].shared_load_wavefronts, lines[3].shared_load_ideal) == (8 * rows.total, 8 * rows.ideal)
    assert lines[2].global_load_sectors == 8 * 4 * n
    assert lines[2].shared_store_bytes == 256 * 4 * n


def test_the_phase_rule_on_any_addresses() -> None:
    """Random addresses, some lanes out: the runtime's own rule and the package's give the same."""
    for width, kind in ((1, "uint8_t"), (2, "uint16_t"), (4, "uint32_t"), (8, "uint64_t")):
        rows = np.random.default_rng(width).integers(0, 1024 // width, 32)
        rows[::5] = -1
        text = (
            K
            + f"(twb_global<const int32_t> at, twb_global<{kind}> b) {{ TWB_SHARED_MEMORY(memory); twb_shared<{kind}> s = twb_tile<{kind}>(memory, 0, {1024 // width}); int i = at[twb_thread_x()]; if (i >= 0) {{ /* f.py:2 */ b[twb_thread_x()] = s[i]; }} }}"
        )
        got = count(text, [rows.astype(np.int32), np.zeros(32, f"u{width}")], block=32, shared=1024)[2]
        want = wavefronts(np.where(rows >= 0, rows * width, -1), width)
        assert (got.shared_load_wavefronts, got.shared_load_ideal) == (want.total, want.ideal)


def test_lanes_that_loop_differently_still_form_requests() -> None:
    """The n-th access of a place is one request: lane i makes i + 1 of them, so request n has 32 - n lanes."""
    text = (
        K
        + "(twb_global<const float> a, twb_global<float> b) { float x = 0; for (int j = 0; j <= (int)twb_lane(); ++j) { /* f.py:2 */ x += a[j * 32 + twb_lane()]; } /* f.py:3 */ b[twb_lane()] = x; }"
    )
    got = count(text, [np.ones(1024, np.float32), np.zeros(32, np.float32)], block=32)
    assert got[2].global_loads == 32
    assert got[2].global_load_bytes == 4 * 32 * 33 // 2


def test_a_long_loop_is_counted_in_pieces() -> None:
    """More accesses than the log holds, by lanes that are not at one place: the number of requests stays right."""
    text = (
        K
        + "(twb_global<const float> a, twb_global<float> b) { float x = 0; for (int j = 0; j < 5000; ++j) { /* f.py:2 */ x += a[twb_lane()]; } /* f.py:3 */ b[twb_lane()] = x; }"
    )
    got = count(text, [np.ones(32, np.float32), np.zeros(32, np.float32)], block=64)
    assert (got[2].global_loads, got[2].global_load_sectors) == (2 * 5000, 2 * 5000 * 4)


def test_matrix_loads_and_products() -> None:
    """Rows of 128 bytes: all 8 rows of a matrix lie in the same banks (8 wavefronts); swizzled, in all of them (1)."""
    text = (
        K
        + """(twb_global<uint32_t> out) { TWB_SHARED_MEMORY(memory); twb_shared<uint8_t> s = twb_tile<uint8_t>(memory, 0, 4096); int l = twb_lane(); uint32_t r[4], d[2] = {0, 0}, b[2] = {0, 0};
        for (int i = l; i < 1024; i += 32) twb_cast<uint32_t>(s)[i] = 0; twb_sync_warp();
        /* f.py:2 */ twb_ldmatrix_x4(r, twb_cast<uint16_t>(s + l * 128));
        /* f.py:3 */ twb_ldmatrix_x4(r, twb_cast<uint16_t>(s + twb_swizzle(l * 128, 128)));
        /* f.py:4 */ twb_mma_m16n8k16_f16_f16(d, r, b);
        /* f.py:5 */ d[0] = twb_shfl_xor(d[0], 1); d[1] = twb_ballot(d[0]); out[l] = d[0] + d[1];
        /* f.py:6 */ twb_atomic_add_u32(out, 1u); }"""
    )
    got = count(text, [np.zeros(32, np.uint32)], block=32, shared=4096)
    assert (got[2].matrix_loads, got[2].shared_load_wavefronts, got[2].shared_load_ideal, got[2].shared_load_bytes) == (1, 32, 4, 512)
    assert got[3].shared_load_wavefronts == 4
    assert (got[4].mma, got[4].mma_flops) == (1, 2 * 16 * 8 * 16)
    assert (got[5].shuffles, got[5].votes, got[5].global_stores) == (1, 1, 1)
    assert got[6].atomics == 1


def test_asynchronous_copies() -> None:
    text = (
        K
        + """(twb_global<const float> a, twb_global<float> b) { TWB_SHARED_MEMORY(memory); twb_shared<float> s = twb_tile<float>(memory, 0, 128); int i = twb_thread_x();
        /* f.py:2 */ twb_cp_async<16>(s + 4 * i, a + 4 * i); twb_cp_async_wait_all(); twb_sync();
        b[i] = s[i]; }"""
    )
    got = count(text, [np.zeros(128, np.float32), np.zeros(32, np.float32)], block=32, shared=512)[2]
    assert (got.async_copies, got.async_bytes, got.global_load_sectors, got.shared_store_wavefronts) == (1, 512, 16, 4)


def test_what_is_read_again_counts_at_l2_and_not_in_memory() -> None:
    text = K + "(twb_global<const float> a, twb_global<float> b) { /* f.py:2 */ b[twb_block_x() * 32 + twb_lane()] = a[twb_lane()]; }"
    got = count(text, [np.zeros(32, np.float32), np.zeros(320, np.float32)], 10, 32)[2]
    assert (got.l2_bytes, got.dram_bytes) == (2 * 1280, 1280 + 128)


def test_approximations_take_the_special_unit() -> None:
    text = K + "(twb_global<float> a) { /* f.py:2 */ a[twb_lane()] = twb_exp2_approx(a[twb_lane()]) * twb_rcp_approx(2.0f); }"
    assert count(text, [np.ones(32, np.float32)], block=32)[2].specials == 64


def test_nothing_is_counted_unless_asked() -> None:
    program = emulating.load(K + "(twb_global<float> a) { /* f.py:2 */ a[0] = 1; }", "sm_80")
    assert program["k"].run(1, 1, [np.zeros(1, np.float32)]).counters.by_line == {}
