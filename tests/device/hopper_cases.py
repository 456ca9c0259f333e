"""mbarriers, bulk copies and wgmma. Operand layouts and descriptors are those of the checks that pass on an H200."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
from device.suite import Case, rng
from device.tile_cases import ACCUMULATOR, values_of

from tileworkbench.emulator import TensorMap

K = 'extern "C" __global__ void __launch_bounds__(128) k'
WGMMA = r"""template <int W, bool MN> TWB_DEVICE uint32_t place(int mn, int k) {
    constexpr int E = W / 2;
    int inner = MN ? mn : k, outer = MN ? k : mn;
    return twb_swizzle((uint32_t)(inner / E) * (64 * W) + outer * W + (inner % E) * 2, W);
}
template <int W, bool MN> TWB_DEVICE uint64_t operand(uint32_t base, int k16) {
    constexpr int span = W == 16 ? 0 : W;
    if (MN) {
        uint32_t a = base + k16 * 16 * W;
        return W == 16 ? twb_descriptor(a, 8 * W, 64 * W, span) : twb_descriptor(a, 64 * W, 8 * W, span);
    }
    constexpr int E = W / 2;
    uint32_t a = base + (k16 * 16 / E) * (64 * W) + (k16 * 16 % E) * 2;
    return W == 16 ? twb_descriptor(a, 64 * W, 8 * W, span) : twb_descriptor(a, 16, 8 * W, span);
}
template <int W, bool AMN, bool BMN> TWB_DEVICE void mode(twb_shared<uint8_t> ga, twb_shared<uint8_t> gb, twb_global<const uint16_t> A, twb_global<const uint16_t> B, float (&d)[32]) {
    for (int i = twb_thread_x(); i < 64 * 64; i += 128) {
        twb_cast<uint16_t>(ga + place<W, AMN>(i / 64, i % 64))[0] = A[i];
        twb_cast<uint16_t>(gb + place<W, BMN>(i / 64, i % 64))[0] = B[i];
    }
    twb_fence_proxy_async(); twb_sync();
    twb_keep_f32x32(d); twb_wgmma_fence();
    uint64_t x[4], y[4];
    for (int k = 0; k < 4; ++k) { x[k] = operand<W, AMN>(twb_shared_address(ga), k); y[k] = operand<W, BMN>(twb_shared_address(gb), k); }
    if (W != 64) twb_wgmma_m64n64k16x4_f32_bf16_bf16<AMN, BMN>(d, x[0], x[1], x[2], x[3], y[0], y[1], y[2], y[3], 0);
    else for (int k = 0; k < 4; ++k) twb_wgmma_m64n64k16_f32_bf16_bf16<AMN, BMN>(d, x[k], y[k], 1);
    twb_wgmma_commit(); twb_computed(twb_thread_x(), twb_shared_address(ga)); twb_wgmma_wait<0>(); twb_keep_f32x32(d);
}
extern "C" __global__ void __launch_bounds__(128) k(twb_global<const uint16_t> A, twb_global<const uint16_t> B, twb_global<float> C, int32_t m) {
    TWB_SHARED_MEMORY(memory);
    twb_shared<uint8_t> ga = twb_tile<uint8_t>(memory, 0, 8192), gb = twb_tile<uint8_t>(memory, 8192, 8192);
    float d[32];
    for (int i = 0; i < 32; ++i) d[i] = 0.f; // products in a row begin by themselves
#define MODE(ID, W, X, Y) if (m == ID) mode<W, X, Y>(ga, gb, A, B, d);
    MODE(0,128,false,false) MODE(1,128,false,true) MODE(2,128,true,false) MODE(3,128,true,true)
    MODE(4,64,false,false)  MODE(5,64,false,true)  MODE(6,64,true,false)  MODE(7,64,true,true)
    MODE(8,32,false,false)  MODE(9,32,false,true)  MODE(10,32,true,false) MODE(11,32,true,true)
    MODE(12,16,false,false) MODE(13,16,false,true) MODE(14,16,true,false) MODE(15,16,true,true)
    if (m >= 16) {
        for (int i = twb_thread_x(); i < 4096; i += 128)
            twb_cast<uint16_t>(gb + (m == 16 ? place<128, false>(i / 64, i % 64) : place<128, true>(i / 64, i % 64)))[0] = B[i];
        uint32_t a[16]; int w = twb_warp(), l = twb_lane(), r = w * 16 + l / 4, c = (l % 4) * 2;
        for (int k = 0; k < 4; ++k) for (int i = 0; i < 4; ++i)
            a[4 * k + i] = twb_cast<const uint32_t>(A + ((r + (i & 1) * 8) * 64 + k * 16 + c + (i >> 1) * 8))[0];
        twb_fence_proxy_async(); twb_sync();
        twb_keep_f32x32(d); twb_wgmma_fence();
        uint64_t y[4];
        for (int k = 0; k < 4; ++k) y[k] = m == 16 ? operand<128, false>(twb_shared_address(gb), k) : operand<128, true>(twb_shared_address(gb), k);
        if (m == 16) twb_wgmma_rs_m64n64k16x4_f32_bf16_bf16<0>(d, a, y[0], y[1], y[2], y[3], 0);
        else for (int k = 0; k < 4; ++k) twb_wgmma_rs_m64n64k16_f32_bf16_bf16<1>(d, twb_registers<uint32_t, 4>(a + 4 * k), y[k], 1);
        twb_wgmma_commit(); twb_wgmma_wait<0>(); twb_keep_f32x32(d);
    }
    int w = twb_warp(), l = twb_lane();
    for (int j = 0; j < 8; ++j) for (int h = 0; h < 2; ++h) for (int e = 0; e < 2; ++e)
        C[(w * 16 + h * 8 + l / 4) * 64 + j * 8 + (l % 4) * 2 + e] = d[4 * j + 2 * h + e];
}
"""


def _modes(m: int) -> Case:
    """m: 0..15 = (swizzle 128, 64, 32, none) * 4 + (a with m innermost) * 2 + (b with n innermost); 16, 17: a from registers."""
    a, b = (rng(i).standard_normal((64, 64)).astype(ml_dtypes.bfloat16) for i in (0, 1))
    want = a.astype(np.float64) @ b.astype(np.float64).T
    return Case(
        f"wgmma mode {m}",
        WGMMA,
        lambda: [a.view(np.uint16), b.view(np.uint16), np.zeros((64, 64), np.float32), m],
        lambda args: {2: want},
        arch="sm_90a",
        block=128,
        shared=16384,
        rtol=1e-5,
        atol=1e-4,
    )


def _types(n: int, k: int, d: str, a: str, b: str, from_registers: bool = False) -> Case:
    """One 64 x n x k product of the matrices as they lie, 32 bytes a row; run with and without the sum before."""
    t, dtype = ACCUMULATOR[d]
    count = n // 2 if d != "f16" else n // 4
    sides = "" if a not in ("f16", "bf16") else "<0>" if from_registers else "<0, 0>"
    first = "x" if from_registers else "twb_descriptor(twb_shared_address(s), 16, 256, 32)"
    keep = f"twb_keep_{ {'f16': 'u32'}.get(d, d) }x{count}"
    name = f"twb_wgmma_{'rs_' if from_registers else ''}m64n{n}k{k}_{d}_{a}_{b}"
    text = (
        K
        + f"""(twb_global<const uint32_t> a, twb_global<const uint32_t> b, twb_global<{t}> c) {{
        TWB_SHARED_MEMORY(memory);
        twb_shared<uint8_t> s = twb_tile<uint8_t>(memory, 0, 2048), u = twb_tile<uint8_t>(memory, 2048, {32 * n});
        int i = twb_thread_x(), l = twb_lane(), w = twb_warp();
        for (int j = i; j < 512; j += 128) twb_cast<uint32_t>(s + twb_swizzle(4 * j, 32))[0] = a[j];
        for (int j = i; j < {8 * n}; j += 128) twb_cast<uint32_t>(u + twb_swizzle(4 * j, 32))[0] = b[j];
        uint32_t x[4]; for (int j = 0; j < 4; ++j) x[j] = a[(16 * w + l / 4 + j % 2 * 8) * 8 + j / 2 * 4 + l % 4];
        twb_fence_proxy_async(); twb_sync();
        {t} d[{count}]; for (int j = 0; j < {count}; ++j) d[j] = 12345;
        uint64_t db = twb_descriptor(twb_shared_address(u), 16, 256, 32);
        {keep}(d); twb_wgmma_fence();
        {name}{sides}(d, {first}, db, 0);
        twb_wgmma_commit();
        {name}{sides}(d, {first}, db, 1);
        twb_wgmma_commit(); twb_wgmma_wait<1>(); twb_wgmma_wait<0>(); {keep}(d);
        for (int j = 0; j < {count}; ++j) c[i * {count} + j] = d[j];
    }}"""
    )
    x, y = values_of(a, (64, k), 2), values_of(b, (n, k), 3)

    def expected(args: list[Any]) -> dict[int, np.ndarray]:
        c = 2 * (x.astype(np.float64) @ y.astype(np.float64).T)
        out = np.zeros((128, n // 8, 2, 2), dtype)
        for i in range(128):
            for j in range(n // 8):
                for h in range(2):
                    out[i, j, h] = c[i // 32 * 16 + 8 * h + i % 32 // 4, 8 * j + 2 * (i % 4) : 8 * j + 2 * (i % 4) + 2]
        return {2: out.view(np.uint32).reshape(128, -1) if d == "f16" else out.reshape(128, -1)}

    start = np.zeros((128, count), np.uint32 if d == "f16" else dtype)
    return Case(name, text, lambda: [x.view(np.uint32), y.view(np.uint32), start.copy()], expected, arch="sm_90a", block=128, shared=2048 + 32 * n)


TMA = (
    K
    + """(const __grid_constant__ twb_tensor_map in, const __grid_constant__ twb_tensor_map out, twb_global<uint8_t> dump, int32_t x, int32_t y, int32_t bytes) {
    TWB_SHARED_MEMORY(memory);
    twb_shared<uint8_t> s = twb_tile<uint8_t>(memory, 0, 16384);
    twb_shared<uint64_t> bar = twb_tile<uint64_t>(memory, 16384, 1);
    for (int i = twb_thread_x(); i < 16384; i += 128) s[i] = 0xEE;
    if (twb_thread_x() == 0) { twb_tma_prefetch(&in); twb_mbarrier_init(bar, 1); twb_fence_mbarrier_init(); }
    twb_fence_proxy_async(); twb_sync();
    if (twb_thread_x() == 0) { twb_mbarrier_arrive_expect(bar, bytes); twb_tma_load_2d(s, &in, bar, x, y, twb_evict_first()); }
    twb_mbarrier_wait(bar, 0);
    for (int i = twb_thread_x(); i < 16384; i += 128) dump[i] = s[i];
    twb_sync();
    if (twb_thread_x() == 0) { twb_fence_proxy_async(); twb_tma_store_2d(&out, s, x < 0 ? 0 : x, y < 0 ? 0 : y); twb_bulk_commit(); twb_bulk_wait<0>(); }
}"""
)


def _tma(span: int, box: tuple[int, int], x: int, y: int) -> Case:
    """Load a box that leaves the tensor, show the raw tile, store it again; stores cannot begin before the tensor, so from its edge on."""
    source = rng(4).integers(0, 60000, (128, 96)).astype(np.uint16)

    def args() -> list[Any]:
        return [TensorMap(source, box, span), TensorMap(np.zeros_like(source), box, span), np.zeros(16384, np.uint8), x, y, box[0] * box[1] * 2]

    def expected(_args: list[Any]) -> dict[int, np.ndarray]:
        tile, stored, dump = np.zeros((box[1], box[0]), np.uint16), np.zeros_like(source), np.full(16384, 0xEE, np.uint8)
        for j in range(box[1]):
            for i in range(box[0]):
                if 0 <= y + j < 128 and 0 <= x + i < 96:
                    tile[j, i] = source[y + j, x + i]
                if max(y, 0) + j < 128 and max(x, 0) + i < 96:
                    stored[max(y, 0) + j, max(x, 0) + i] = tile[j, i]
        at = np.arange(tile.nbytes)
        dump[at ^ (at >> 3 & {128: 0x70, 64: 0x30, 32: 0x10, 0: 0}[span])] = tile.view(np.uint8).ravel()
        return {1: stored, 2: dump}

    return Case(f"tma swizzle {span}", TMA, args, expected, arch="sm_90a", block=128, shared=16384 + 8)


def _ranks(rank: int) -> Case:
    """Load, store, add, min and max of a box of each rank, at an odd place; the multicast goes to the block itself."""
    shape, box = (3, 4, 3, 4, 16)[5 - rank :], (16, 2, 2, 2, 2)[:rank]
    cs = ", ".join(["4", "1", "2", "3", "2"][:rank])
    bytes_ = 4 * int(np.prod(box))
    maps = ", ".join(f"const __grid_constant__ twb_tensor_map {n}" for n in ("in", "copy", "sum", "low", "high", "cast"))
    text = (
        K
        + f"""({maps}) {{
        TWB_SHARED_MEMORY(memory);
        twb_shared<int32_t> s = twb_tile<int32_t>(memory, 0, {bytes_ // 4}), u = twb_tile<int32_t>(memory, 2048, {bytes_ // 4});
        twb_shared<uint64_t> bar = twb_tile<uint64_t>(memory, 4096, 1);
        if (twb_thread_x() == 0) {{
            twb_mbarrier_init(bar, 1); twb_fence_mbarrier_init(); twb_fence_proxy_async_all();
            twb_mbarrier_expect(bar, {bytes_}); twb_tma_load_{rank}d(s, &in, bar, {cs}, twb_evict_last());
            twb_mbarrier_arrive_expect(bar, {bytes_}); twb_tma_load_multicast_{rank}d(u, &in, bar, (uint16_t)1, {cs}, twb_evict_normal());
            twb_mbarrier_wait(bar, 0);
            twb_tma_store_{rank}d(&copy, s, {cs}); twb_tma_reduce_add_{rank}d(&sum, s, {cs}); twb_tma_reduce_min_{rank}d(&low, s, {cs}); twb_bulk_commit();
            twb_tma_reduce_max_{rank}d(&high, s, {cs}); twb_tma_store_{rank}d(&cast, u, {cs}); twb_bulk_commit();
            twb_bulk_wait<1>(); twb_bulk_wait_read<0>(); twb_bulk_wait<0>();
        }}
    }}"""
    )
    source = rng(5).integers(-50, 50, shape).astype(np.int32)
    start = rng(6).integers(-50, 50, shape).astype(np.int32)

    def expected(_args: list[Any]) -> dict[int, np.ndarray]:
        at = tuple(slice(c, min(c + b, d)) for c, b, d in zip((4, 1, 2, 3, 2)[:rank], box, reversed(shape), strict=True))[::-1]
        out = {i: start.copy() for i in range(1, 6)}
        out[1][at] = out[5][at] = source[at]
        out[2][at] += source[at]
        out[3][at], out[4][at] = np.minimum(start[at], source[at]), np.maximum(start[at], source[at])
        return out

    text = text.replace("__global__ void", "__global__ void __cluster_dims__(1, 1, 1)")
    return Case(
        f"tma rank {rank}",
        text,
        lambda: [TensorMap(source, box), *(TensorMap(start.copy(), box) for _ in range(5))],
        expected,
        arch="sm_90a",
        block=128,
        shared=4104,
    )


def _bulk() -> Case:
    text = (
        K
        + """(twb_global<const float> a, twb_global<float> b) {
        TWB_SHARED_MEMORY(memory);
        twb_shared<float> s = twb_tile<float>(memory, 0, 128); twb_shared<uint64_t> bar = twb_tile<uint64_t>(memory, 512, 1);
        twb_grid_wait(); twb_grid_launch();
        if (twb_thread_x() == 0) { twb_mbarrier_init(bar, 1); twb_fence_mbarrier_init(); twb_mbarrier_arrive_expect(bar, 512); twb_bulk_load(s, a, 512, bar); }
        twb_sync();
        while (!twb_mbarrier_try_wait(bar, 0)) {}
        float v = s[127 - twb_thread_x()]; bool over = twb_mbarrier_test_wait(bar, 0) && !twb_mbarrier_test_wait(bar, 1);
        twb_sync();
        s[twb_thread_x()] = over ? v : -1; twb_fence_proxy_async(); twb_sync();
        if (twb_thread_x() == 0) { twb_bulk_store(b, s, 512); twb_bulk_commit(); twb_bulk_wait<0>(); twb_mbarrier_invalidate(bar); }
    }"""
    )
    a = rng(7).standard_normal(128).astype(np.float32)
    return Case("bulk copies", text, lambda: [a, np.zeros(128, np.float32)], lambda args: {1: a[::-1]}, arch="sm_90a", block=128, shared=520)


def _ring() -> Case:
    """A producer warp and consumers over a ring of two stages; cp.async arrivals count too, registers change hands."""
    text = (
        'extern "C" __global__ void __launch_bounds__(384, 1) k'
        + """(twb_global<const float> a, twb_global<float> b) {
        TWB_SHARED_MEMORY(memory);
        twb_shared<float> s = twb_tile<float>(memory, 0, 256); twb_shared<uint64_t> full = twb_tile<uint64_t>(memory, 1024, 2), empty = twb_tile<uint64_t>(memory, 1040, 2);
        if (twb_thread_x() == 0) { for (int i = 0; i < 2; ++i) { twb_mbarrier_init(full + i, 32); twb_mbarrier_init(empty + i, 4); } twb_fence_mbarrier_init(); }
        twb_sync();
        if (twb_warp() >= 4) {
            twb_set_max_registers_dec<40>();
            if (twb_warp() == 4) for (int t = 0; t < 5; ++t) {
                int stage = t % 2, phase = t / 2 % 2;
                twb_mbarrier_wait(empty + stage, phase ^ 1);
                twb_cp_async<16>(s + stage * 128 + 4 * twb_lane(), a + t * 128 + 4 * twb_lane());
                twb_cp_async_arrive(full + stage);
            }
        } else {
            twb_set_max_registers_inc<232>();
            for (int t = 0; t < 5; ++t) {
                int stage = t % 2, phase = t / 2 % 2;
                twb_mbarrier_wait(full + stage, phase);
                b[t * 128 + twb_thread_x()] = s[stage * 128 + 127 - twb_thread_x()];
                twb_sync_warp();
                if (twb_elect()) twb_mbarrier_arrive(empty + stage);
            }
        }
    }"""
    )
    a = rng(8).standard_normal((5, 128)).astype(np.float32)
    return Case("ring", text, lambda: [a, np.zeros((5, 128), np.float32)], lambda args: {1: a[:, ::-1]}, arch="sm_90a", block=384, shared=1056)


def _warps() -> Case:
    """A barrier that warps arrive at: all of them, then the first one for all; registers seen as words."""
    text = (
        K
        + """(twb_global<int32_t> out) {
        TWB_SHARED_MEMORY(memory);
        twb_shared<int32_t> s = twb_tile<int32_t>(memory, 0, 128);
        twb_shared<uint64_t> bar = twb_tile<uint64_t>(memory, 512, 1);
        int i = twb_thread_x();
        if (i == 0) { twb_mbarrier_init(bar, 4); twb_fence_mbarrier_init(); }
        twb_sync();
        s[i] = i;
        twb_mbarrier_arrive_warp(bar); twb_mbarrier_wait(bar, 0);
        out[i] = s[127 - i];
        for (int turn = 0; turn < 4; ++turn) twb_mbarrier_arrive_warp_if(bar, i < 32);
        twb_mbarrier_wait(bar, 1);
        alignas(16) twb_f16 halves[8];
        for (int j = 0; j < 8; ++j) halves[j].bits = (uint16_t)(i * 8 + j);
        auto &words = twb_registers<uint32_t, 2>(halves + 4);
        out[128 + i] = words[1];
        auto &kept = twb_registers<twb_f16, 8>(halves);
        out[256 + i] = kept[3].bits;
    }"""
    )
    i = np.arange(128)
    wanted = np.concatenate([127 - i, (i * 8 + 7) << 16 | i * 8 + 6, i * 8 + 3]).astype(np.int32)
    return Case("warps arrive", text, lambda: [np.zeros(384, np.int32)], lambda _args: {0: wanted}, arch="sm_90a", block=128, shared=520)


def _turns() -> Case:
    """Three groups, each of which adds its number when its turn comes."""
    text = (
        K.replace("128", "384")
        + """(twb_global<int32_t> out) {
        TWB_SHARED_MEMORY(memory);
        twb_shared<int32_t> count = twb_tile<int32_t>(memory, 0, 1);
        int i = twb_thread_x();
        if (i == 0) count[0] = 0;
        twb_sync();
        twb_turn_begin(2);
        for (int turn = 0; turn < 4; ++turn) {
            twb_turn_wait(2);
            if (i % 128 == 0) { out[count[0]] = i / 128; count[0] = count[0] + 1; }
            twb_turn_pass(2, 3);
        }
    }"""
    )
    wanted = np.tile(np.arange(3, dtype=np.int32), 4)
    return Case("groups in turn", text, lambda: [np.full(12, -1, np.int32)], lambda _args: {0: wanted}, arch="sm_90a", block=384, shared=4)


CASES = (
    *(_modes(m) for m in range(18)), *(_types(n, 16, "f32", "bf16", "bf16") for n in (8, 24, 256)), _types(16, 16, "f32", "f16", "f16"), _types(16, 16, "f16", "f16", "f16", True), _types(16, 8, "f32", "tf32", "tf32"),
    _types(8, 8, "f32", "tf32", "tf32", True), *(_types(16, 32, d, a, b) for d in ("f32", "f16") for a in ("e4m3", "e5m2") for b in ("e4m3", "e5m2")),
    *(_types(16, 32, "s32", a, b) for a in ("s8", "u8") for b in ("s8", "u8")), _types(16, 32, "s32", "s8", "s8", True),
    _tma(128, (64, 64), 0, 0), _tma(64, (32, 100), 40, -3), _tma(32, (16, 64), -8, 20), _tma(0, (24, 64), 16, 100), *(_ranks(r) for r in range(1, 6)),
    _bulk(), _ring(), _warps(), _turns(),
)  # fmt: skip
