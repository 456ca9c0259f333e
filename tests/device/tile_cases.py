"""Memory, threads, warps, copies and mma."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
from device.suite import Case, rng

K = 'extern "C" __global__ void k'


def _vectors() -> Case:
    text = (
        K
        + """(twb_global<const float> a, twb_global<float> b, twb_global<const uint8_t> c, twb_global<uint8_t> d, twb_global<uint32_t> e) {
        TWB_SHARED_MEMORY(memory);
        twb_shared<float> s = twb_tile<float>(memory, 512, 128);
        uint32_t i = twb_thread_x();
        float own[6]; twb_read<4>(a + 4 * i, own + 2); twb_write<4>(s + 4 * i, own + 2);
        twb_sync_warp();
        twb_vec<float, 2> two = twb_load<2>(s + 2 * ((i + 5) % 64));
        two[0] += 1;
        twb_store<2>(b + 2 * i, two);
        twb_vec<uint8_t, 2> pair = twb_load<2>(c + 2 * i);
        twb_store<2>(d + 2 * i, pair);
        if (i == 0) {
            d[64] = c[1]; d[64] += 3; twb_store<1>(d + 65, twb_load<1>(c)); *(d + 66) = *(c + 2);
            twb_shared<uint32_t> words = twb_cast<uint32_t>(s);
            e[0] = words[0]; e[1] = twb_shared_address(s + 3) - twb_shared_address(s); e[2] = twb_swizzle(0x380, 128); e[3] = twb_swizzle(0x180, 64) + twb_swizzle(0x80, 32) + twb_swizzle(5, 0);
            twb_store<4>(e + 4, twb_load<4>(twb_cast<const uint32_t>(a)));
        }
    }"""
    )
    a = rng().standard_normal(128).astype(np.float32)
    c = rng(1).integers(0, 250, 64).astype(np.uint8)

    def expected(args: list[Any]) -> dict[int, np.ndarray]:
        b = np.array([[a[2 * ((i + 5) % 64)] + 1, a[2 * ((i + 5) % 64) + 1]] for i in range(32)], np.float32).ravel()
        words = a.view(np.uint32)
        swizzles = [0x380 ^ 0x70, (0x180 ^ 0x30) + (0x80 ^ 0x10) + 5]
        return {1: b, 3: np.array([*c, c[1] + 3, c[0], c[2]], np.uint8), 4: np.array([words[0], 12, *swizzles, *words[:4]], np.uint32)}

    return Case(
        "vectors", text, lambda: [a, np.zeros(64, np.float32), c, np.zeros(67, np.uint8), np.zeros(8, np.uint32)], expected, arch="sm_75", shared=1024
    )


def _places() -> Case:
    names = [f"twb_{what}_{axis}" for axis in "xyz" for what in ("thread", "block", "threads", "blocks")] + ["twb_thread", "twb_lane", "twb_warp"]
    text = K + "(twb_global<uint32_t> out) { uint32_t at = ((twb_block_z() * 2 + twb_block_y()) * 3 + twb_block_x()) * 96 + twb_thread();\n"
    text += "".join(f"out[at * {len(names)} + {i}] = {name}();\n" for i, name in enumerate(names)) + "twb_at(0); }"

    def expected(args: list[Any]) -> dict[int, np.ndarray]:
        rows = []
        for block in range(12):
            bx, by, bz = block % 3, block // 3 % 2, block // 6
            for t in range(96):
                x, y, z = t % 8, t // 8 % 4, t // 32
                rows.append([x, bx, 8, 3, y, by, 4, 2, z, bz, 3, 2, t, t % 32, t // 32])
        return {0: np.array(rows).ravel()}

    return Case("places", text, lambda: [np.zeros(12 * 96 * len(names), np.uint32)], expected, arch="sm_75", grid=(3, 2, 2), block=(8, 4, 3))


def _barriers() -> Case:
    """Warp 0 hands values to warp 1 by a named barrier, warp 1 hands them back by the barrier of the block."""
    text = (
        K
        + """(twb_global<int32_t> out) {
        TWB_SHARED_MEMORY(memory);
        twb_shared<int32_t> s = twb_tile<int32_t>(memory, 0, 32);
        int lane = twb_lane();
        if (twb_warp() == 0) { s[lane] = 3 * lane; twb_bar_arrive(1, 64); }
        else { twb_bar_sync(1, 64); out[lane] = s[31 - lane]; s[lane ^ 0] = out[lane] + 1; }
        twb_sync();
        if (twb_warp() == 0) out[32 + lane] = s[lane];
        twb_sync_warp(); twb_fence_block();
    }"""
    )
    back = 3 * np.arange(31, -1, -1)
    swap = text.replace("out[lane] = s[31 - lane];", "int v = s[31 - lane]; twb_sync_warp(); out[lane] = v;")
    return Case(
        "barriers", swap, lambda: [np.zeros(64, np.int32)], lambda args: {0: np.concatenate([back, back + 1])}, arch="sm_75", block=64, shared=128
    )


def _quads() -> Case:
    """Words of four lanes turn like a matrix."""
    text = K + "(twb_global<uint32_t> c) { uint32_t i = twb_lane(), w[4] = {i, i + 100, i + 200, i + 300};\ntwb_quad_turn(w);\n"
    text += "for (int k = 0; k < 4; k++) c[i * 4 + k] = w[k]; }"
    lane, k = np.arange(32)[:, None], np.arange(4)[None, :]
    return Case("quads", text, lambda: [np.zeros((32, 4), np.uint32)], lambda args: {0: (lane & ~3) + k + 100 * (lane & 3)}, arch="sm_75")


def _shuffles() -> Case:
    calls = (
        "twb_shfl(v, 5)",
        "twb_shfl(v, i + 1)",
        "twb_shfl_up(v, 3)",
        "twb_shfl_down(v, 3)",
        "twb_shfl_xor(v, 9)",
        "twb_shfl(v, 3, 8)",
        "twb_shfl_up(v, 2, 8)",
        "twb_shfl_down(v, 2, 8)",
        "twb_shfl_xor(v, 5, 8)",
    )
    text = (
        K
        + "(twb_global<double> out, twb_global<uint32_t> votes) { int i = twb_lane(); double v = i * 10 + 0.5; float f = (float)v; uint32_t n = (i * 7) % 32 + 1;\n"
    )
    text += "".join(f"out[{r} * 32 + i] = {c};\nout[{r + len(calls)} * 32 + i] = {c.replace('(v', '(f')};\n" for r, c in enumerate(calls))
    votes = ("twb_ballot(i % 3 == 0)", "twb_any(i == 40)", "twb_any(i == 4)", "twb_all(i < 32)", "twb_all(i < 31)", "twb_match_any(i / 5)", "twb_redux_add_u32(n)", "twb_redux_min_u32(n)", "twb_redux_max_u32(n)",
             "(uint32_t)twb_redux_add_i32(-(int)n)", "(uint32_t)twb_redux_min_i32(-(int)n)", "(uint32_t)twb_redux_max_i32(-(int)n)", "twb_redux_and_u32(n | 64)", "twb_redux_or_u32(n)", "twb_redux_xor_u32(n)", "twb_active_mask()")  # fmt: skip
    text += "".join(f"votes[{r} * 32 + i] = {c};\n" for r, c in enumerate(votes))
    text += "if (i < 16) votes[512 + i] = twb_shfl_xor(i, 15, 32, 0xffffu) + (twb_ballot(true, 0xffffu) & 0xff);\n twb_sync_warp(); }"

    def expected(args: list[Any]) -> dict[int, np.ndarray]:
        i = np.arange(32)
        v = i * 10 + 0.5
        low = i & ~7
        source = [
            i * 0 + 5,
            (i + 1) % 32,
            np.where(i >= 3, i - 3, i),
            np.where(i + 3 < 32, i + 3, i),
            i ^ 9,
            low + 3,
            np.where(i - 2 >= low, i - 2, i),
            np.where(i + 2 < low + 8, i + 2, i),
            i ^ 5,
        ]
        n = (i * 7) % 32 + 1
        match = [sum(1 << int(o) for o in i if o // 5 == x // 5) for x in i]
        same = [
            sum(1 << int(x) for x in i if x % 3 == 0),
            0,
            1,
            1,
            0,
            None,
            n.sum(),
            n.min(),
            n.max(),
            -n.sum(),
            -n.max(),
            -n.min(),
            np.bitwise_and.reduce(n | 64),
            np.bitwise_or.reduce(n),
            np.bitwise_xor.reduce(n),
            0xFFFFFFFF,
        ]
        votes = np.array([match if x is None else [int(x) & 0xFFFFFFFF] * 32 for x in same], np.uint32).ravel()
        tail = (np.arange(16) ^ 15) + 0xFF
        rows = np.array([v[s] for s in source])
        return {0: np.concatenate([rows, rows]).ravel(), 1: np.concatenate([votes, tail]).astype(np.uint32)}

    return Case("shuffles and votes", text, lambda: [np.zeros(18 * 32), np.zeros(528, np.uint32)], expected)


def _cp_async() -> Case:
    text = (
        K
        + """(twb_global<const float> a, twb_global<float> b, int32_t n) {
        TWB_SHARED_MEMORY(memory);
        twb_shared<float> s = twb_tile<float>(memory, 0, 128), t = twb_tile<float>(memory, 512, 64), u = twb_tile<float>(memory, 768, 32);
        int i = twb_thread_x();
        twb_cp_async<16>(s + 4 * i, a + 4 * i, 4 * i < n); twb_cp_async_commit();
        twb_cp_async<8>(t + 2 * i, a + 2 * i); twb_cp_async_commit();
        twb_cp_async<4>(u + i, a + i, i != 7);
        twb_cp_async_wait<1>(); twb_sync();
        for (int j = 0; j < 4; ++j) b[32 * j + i] = s[127 - 32 * j - i];
        twb_cp_async_commit(); twb_cp_async_wait<0>(); twb_cp_async_wait_all(); twb_sync();
        b[128 + i] = t[63 - i]; b[160 + i] = u[31 - i];
    }"""
    )
    a = rng(2).standard_normal(128).astype(np.float32)

    def expected(args: list[Any]) -> dict[int, np.ndarray]:
        s, u = a.copy(), a[:32].copy()
        s[80:] = 0
        u[7] = 0
        return {1: np.concatenate([s[::-1], a[32:64][::-1], u[::-1]])}

    return Case("cp.async", text, lambda: [a, np.zeros(192, np.float32), 80], expected, shared=1024)


def _matrices(store: bool) -> Case:
    """Each register goes out as a 32-bit word (loads); tiles come back from registers (stores)."""
    kind = "st" if store else "ld"
    text = (
        K
        + "(twb_global<const uint32_t> a, twb_global<uint32_t> b) { TWB_SHARED_MEMORY(memory); int l = twb_lane(), at = 0;\n twb_shared<uint16_t> s = twb_tile<uint16_t>(memory, 0, 256); twb_shared<uint32_t> w = twb_cast<uint32_t>(s);\n"
    )
    for count in (1, 2, 4):
        for trans in ("", "_trans"):
            row = f"s + (l % {8 * count}) * 8"
            if store:
                text += f"{{ uint32_t r[{count}]; for (int i = 0; i < {count}; ++i) r[i] = a[i * 32 + l]; twb_sync_warp(); twb_stmatrix_x{count}{trans}({row}, r); twb_sync_warp(); for (int i = 0; i < {count}; ++i) b[at + i * 32 + l] = w[i * 32 + l]; at += {32 * count}; twb_sync_warp(); }}\n"
            else:
                text += f"{{ uint32_t r[{count}]; for (int i = 0; i < 4; ++i) w[i * 32 + l] = a[i * 32 + l]; twb_sync_warp(); twb_ldmatrix_x{count}{trans}(r, {row}); for (int i = 0; i < {count}; ++i) b[at + i * 32 + l] = r[i]; at += {32 * count}; twb_sync_warp(); }}\n"
    a = rng(3).integers(0, 1 << 32, 128, dtype=np.uint64).astype(np.uint32)

    def expected(args: list[Any]) -> dict[int, np.ndarray]:
        tiles = a.view(np.uint16).reshape(4, 8, 8)  # register l of a row-major matrix is its word l
        out = []
        for count in (1, 2, 4):
            for trans in (False, True):
                out += [(t.T if trans else t).copy().view(np.uint32).ravel() for t in tiles[:count]]
        return {1: np.concatenate(out)}

    return Case(f"{kind}matrix", text + "}", lambda: [a, np.zeros(14 * 32, np.uint32)], expected, arch="sm_90a" if store else "sm_75", shared=512)


TYPES: dict[str, Any] = {
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "tf32": np.float32,
    "e4m3": ml_dtypes.float8_e4m3fn,
    "e5m2": ml_dtypes.float8_e5m2,
    "s8": np.int8,
    "u8": np.uint8,
}
ACCUMULATOR = {"f32": ("float", np.float32), "s32": ("int32_t", np.int32), "f16": ("uint32_t", np.float16)}


def values_of(kind: str, shape: tuple[int, ...], seed: int) -> np.ndarray:
    """Small numbers that every type holds exactly, so that sums are exact too."""
    low = 0 if kind == "u8" else -4
    return rng(seed).integers(low, 5, shape).astype(TYPES[kind])


def _mma(m: int, k: int, d: str, a: str, b: str, arch: str) -> Case:
    """Operands are read element by element from (m, k) and (n, k) matrices, so the layout of registers is part of the test."""
    es = np.dtype(TYPES[a]).itemsize
    regs_a, regs_b, regs_d = m * k * es // 128, 8 * k * es // 128, m * 8 * (2 if d == "f16" else 4) // 128
    halves, word = m // 8, 16 // es
    t, dtype = ACCUMULATOR[d]
    types = a if a == b else f"{a}_{b}"
    text = (
        K
        + f"""(twb_global<const uint32_t> a, twb_global<const uint32_t> b, twb_global<{t}> c) {{
        int l = twb_lane(), g = l / 4, t = l % 4; uint32_t x[{regs_a}], y[{regs_b}]; {t} d[{regs_d}];
        for (int i = 0; i < {regs_a}; ++i) x[i] = a[(g + i % {halves} * 8) * {k // word * 4} + i / {halves} * 4 + t];
        for (int i = 0; i < {regs_b}; ++i) y[i] = b[g * {k // word * 4} + i * 4 + t];
        for (int i = 0; i < {regs_d}; ++i) d[i] = c[l * {regs_d} + i];
        twb_mma_m{m}n8k{k}_{d}_{types}(d, x, y);
        for (int i = 0; i < {regs_d}; ++i) c[l * {regs_d} + i] = d[i];
    }}"""
    )
    x, y = values_of(a, (m, k), 4), values_of(b, (8, k), 5)
    start = rng(6).integers(-3, 4, (32, halves, 2)).astype(dtype)
    shown = start.view(np.uint32).reshape(32, -1) if d == "f16" else start.reshape(32, -1)

    def expected(args: list[Any]) -> dict[int, np.ndarray]:
        c = x.astype(np.float64) @ y.astype(np.float64).T
        out = start.copy()
        for lane in range(32):
            for h in range(halves):
                for e in range(2):
                    out[lane, h, e] += c[lane // 4 + 8 * h, lane % 4 * 2 + e]
        return {2: out.view(np.uint32).reshape(32, -1) if d == "f16" else out.reshape(32, -1)}

    return Case(f"mma m{m}n8k{k} {d} {types}", text, lambda: [x.view(np.uint32), y.view(np.uint32), shown.copy()], expected, arch=arch)


def _mma_f64() -> Case:
    text = (
        K
        + "(twb_global<const double> a, twb_global<const double> b, twb_global<double> c) { int l = twb_lane(); double d[2] = {c[2 * l], c[2 * l + 1]}; twb_mma_m8n8k4_f64(d, a[l], b[l]); c[2 * l] = d[0]; c[2 * l + 1] = d[1]; }"
    )
    a, b, c = rng(7).integers(-4, 5, (8, 4)).astype(float), rng(8).integers(-4, 5, (8, 4)).astype(float), rng(9).integers(-4, 5, (8, 8)).astype(float)
    return Case("mma m8n8k4 f64", text, lambda: [a, b, c.copy()], lambda args: {2: c + a @ b.T})


def _round_tf32() -> Case:
    """Half of the last bit that is kept rounds away from zero; infinity stays."""
    text = (
        K
        + "(twb_global<uint32_t> a) { int l = twb_lane(); uint32_t r[2] = {a[2 * l], a[2 * l + 1]}; twb_round_tf32<2>(r); a[2 * l] = r[0]; a[2 * l + 1] = r[1]; }"
    )
    a = rng(10).standard_normal(64).astype(np.float32)
    a[:6] = np.inf, -np.inf, 0, 1 + 2**-11, -1 - 2**-11, 1 + 2**-11 - 2**-20
    rounded = np.where(np.isinf(a), a, np.sign(a) * np.floor(abs(a.astype(np.float64)) / _last_bit(a) + 0.5) * _last_bit(a)).astype(np.float32)
    return Case("round tf32", text, lambda: [a.view(np.uint32).copy()], lambda args: {0: rounded.view(np.uint32)})


def _last_bit(a: np.ndarray) -> np.ndarray:
    return np.exp2(np.frexp(np.where(np.isinf(a), 1, a))[1].astype(np.float64) - 11)


CASES = (
    _vectors(), _places(), _barriers(), _shuffles(), _quads(), _cp_async(), _matrices(False), _matrices(True),
    _mma(16, 16, "f32", "f16", "f16", "sm_80"), _mma(16, 16, "f16", "f16", "f16", "sm_80"), _mma(16, 16, "f32", "bf16", "bf16", "sm_80"),
    _mma(16, 8, "f32", "f16", "f16", "sm_75"), _mma(16, 8, "f16", "f16", "f16", "sm_75"), _mma(16, 8, "f32", "bf16", "bf16", "sm_80"), _mma(16, 8, "f32", "tf32", "tf32", "sm_80"),
    *(_mma(16, 32, "s32", a, b, "sm_80") for a in ("s8", "u8") for b in ("s8", "u8")), *(_mma(8, 16, "s32", a, b, "sm_75") for a in ("s8", "u8") for b in ("s8", "u8")),
    *(_mma(16, 32, "f32", a, b, "sm_89") for a in ("e4m3", "e5m2") for b in ("e4m3", "e5m2")), _mma_f64(), _round_tf32(),
)  # fmt: skip
