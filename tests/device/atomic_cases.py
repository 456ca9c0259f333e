"""Atomics: every thread updates one place, and the result does not depend on the order."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
from device.number_cases import INT, C
from device.suite import Case, rng


def _atomic_integers(short: str) -> Case:
    t, ops = C[short], ("add", "min", "max", "and", "or", "xor", "exch")
    lines = [f"old[{i} * 64 + i0] = twb_atomic_{op}_{short}(c + {i}, v);" for i, op in enumerate(ops)]
    text = (
        f'extern "C" __global__ void k(twb_global<const {t}> a, twb_global<{t}> c, twb_global<{t}> old) {{ TWB_SHARED_MEMORY(memory); twb_shared<{t}> s = twb_tile<{t}>(memory, 0, 1);\n'
        f"int i0 = twb_thread_x(); {t} v = a[i0]; if (i0 == 0) s[0] = 0; twb_sync(); twb_atomic_add_{short}(s, v); twb_sync();\n"
        + "\n".join(lines)
        + f"\nif (i0 == 5) twb_atomic_cas_{short}(c + 7, 9, 11); if (i0 == 6) twb_atomic_cas_{short}(c + 8, 9, 11); if (i0 == 0) c[9] = s[0]; }}"
    )
    values = rng(8).integers(0, 100, 64).astype(INT[short])
    start = np.array([1, 50, 50, 0x7F, 1, 3, 0, 9, 10, 0], INT[short])

    def expected(args: list[Any]) -> dict[int, np.ndarray]:
        red = [f(values, start[i]) for i, f in enumerate((lambda v, s: s + v.sum(), lambda v, s: min(s, v.min()), lambda v, s: max(s, v.max()), lambda v, s: np.bitwise_and.reduce(v) & s,
               lambda v, s: np.bitwise_or.reduce(v) | s, lambda v, s: np.bitwise_xor.reduce(v) ^ s))]  # fmt: skip
        return {1: np.array([*red, args[1][6], 11, 10, values.sum()], INT[short])}

    return Case(f"atomics {short}", text.replace("twb_atomic_exch_" + short + "(c + 6, v)", f"twb_atomic_exch_{short}(c + 6, 77)"), lambda: [values, start.copy(), np.zeros((7, 64), INT[short])],
                lambda args: {1: np.where(np.arange(10) == 6, np.array(77, INT[short]), expected([values, start])[1])}, block=64, shared=16)  # fmt: skip


def _atomic_floats() -> Case:
    text = (
        'extern "C" __global__ void k(twb_global<const float> a, twb_global<float> f, twb_global<double> d, twb_global<twb_f16> h, twb_global<twb_bf16> b, twb_global<uint32_t> p, twb_global<float> v, twb_global<float> o) {\n'
        "int i = twb_thread_x(); float x = a[i];\n"
        "twb_atomic_add_f32(f, x); twb_atomic_min_f32(f + 1, x); twb_atomic_max_f32(f + 2, x); twb_atomic_exch_f32(f + 3, 4.5f);\n"
        "twb_atomic_add_f64(d, (double)x); twb_atomic_min_f64(d + 1, (double)x); twb_atomic_max_f64(d + 2, (double)x); twb_atomic_exch_f64(d + 3, 4.5);\n"
        "twb_atomic_add_f16(h, twb_f32_to_f16(x)); twb_atomic_min_f16(h + 1, twb_f32_to_f16(x)); twb_atomic_max_f16(h + 2, twb_f32_to_f16(x));\n"
        "twb_atomic_add_bf16(b, twb_f32_to_bf16(x)); twb_atomic_min_bf16(b + 1, twb_f32_to_bf16(x)); twb_atomic_max_bf16(b + 2, twb_f32_to_bf16(x));\n"
        "twb_atomic_add_f16x2(p, twb_pack_f16(x, -x)); twb_atomic_add_bf16x2(p + 1, twb_pack_bf16(x, -x));\n"
        "twb_vec<float, 2> two; two[0] = x; two[1] = 1; twb_atomic_add_f32x2(v, two); twb_vec<float, 4> four; for (int j = 0; j < 4; ++j) four[j] = x * j; twb_atomic_add_f32x4(v + 4, four);\n"
        "if (i == 0) { twb_store_relaxed_f32(o, twb_load_relaxed_f32(a) + 1); twb_store_release_f32(o + 1, twb_load_acquire_f32(a + 1) + 1); }\n"
        "if (i == 1) { twb_store_relaxed_u32(p + 2, twb_load_relaxed_u32(p + 3)); twb_store_release_u32(p + 4, twb_load_acquire_u32(p + 3)); }\n"
        "twb_fence_block(); twb_fence_gpu(); twb_fence_system(); }"
    )
    values = rng(9).integers(-8, 9, 32).astype(np.float32)  # small integers: every order of adding gives the same bits

    def args() -> list[Any]:
        return [
            values,
            np.zeros(4, np.float32),
            np.zeros(4),
            np.zeros(3, np.uint16),
            np.zeros(3, np.uint16),
            np.array([0, 0, 0, 42, 0], np.uint32),
            np.zeros(8, np.float32),
            np.zeros(2, np.float32),
        ]

    def expected(_args: list[Any]) -> dict[int, np.ndarray]:
        s, low, high = values.sum(), min(values.min(), 0), max(values.max(), 0)
        pair = [
            int(np.array([s, -s], np.float16).view(np.uint32)[0]),
            int(np.array([s, -s], np.float32).astype(ml_dtypes.bfloat16).view(np.uint32)[0]),
        ]
        three = np.array([s, low, high])
        return {1: np.array([s, low, high, 4.5]), 2: np.array([s, low, high, 4.5]), 3: three.astype(np.float16).view(np.uint16), 4: three.astype(ml_dtypes.bfloat16).view(np.uint16),
                5: np.array([*pair, 42, 42, 42]), 6: np.array([s, 32, 0, 0, 0, s, 2 * s, 3 * s]), 7: values[:2] + 1}  # fmt: skip

    return Case("atomics of floats", text, args, expected)


def _ordered() -> Case:
    text = (
        'extern "C" __global__ void k(twb_global<int32_t> a, twb_global<uint64_t> b) { if (twb_thread_x() == 0) {\n'
        "twb_store_relaxed_i32(a, twb_load_relaxed_i32(a + 1)); twb_store_release_i32(a + 2, twb_load_acquire_i32(a + 1));\n"
        "twb_store_relaxed_u64(b, twb_load_relaxed_u64(b + 1)); twb_store_release_u64(b + 2, twb_load_acquire_u64(b + 1)); } }"
    )
    return Case(
        "ordered",
        text,
        lambda: [np.array([0, -5, 0], np.int32), np.array([0, 1 << 40, 0], np.uint64)],
        lambda args: {0: np.array([-5, -5, -5]), 1: np.array([1 << 40] * 3, np.uint64)},
    )


def _atomic_small(short: str) -> Case:
    """Neighbours in one word are updated by different threads."""
    t, ops = C[short], ("add", "min", "max", "and", "or", "xor", "exch")
    lines = "\n".join(f"twb_atomic_{op}_{short}(c + {8 * i} + i0 % 8, {'(' + t + ')77' if op == 'exch' else 'a[i0]'});" for i, op in enumerate(ops))
    text = (
        f'extern "C" __global__ void k(twb_global<const {t}> a, twb_global<{t}> c) {{ TWB_SHARED_MEMORY(memory); twb_shared<{t}> s = twb_tile<{t}>(memory, 0, 8);\n'
        f"int i0 = twb_thread_x(); if (i0 < 8) s[i0] = 0; twb_sync(); twb_atomic_add_{short}(s + i0 % 8, a[i0]); twb_sync();\n"
        f"{lines}\nif (i0 < 8) c[56 + i0] = s[i0]; }}"
    )
    values, start = rng(10).integers(0, 120, 64).astype(INT[short]), rng(11).integers(0, 120, 64).astype(INT[short])

    def expected(_args: list[Any]) -> dict[int, np.ndarray]:
        by_place, old = values.reshape(8, 8), start.reshape(8, 8)
        reduce = (np.add, np.minimum, np.maximum, np.bitwise_and, np.bitwise_or, np.bitwise_xor)
        rows = [f(old[i], f.reduce(by_place, axis=0, dtype=INT[short])) for i, f in enumerate(reduce)]
        return {1: np.concatenate([*rows, np.full(8, 77, INT[short]), np.add.reduce(by_place, axis=0, dtype=INT[short])])}

    return Case(f"atomics {short}", text, lambda: [values, start.copy()], expected, block=64, shared=16)


def _plain() -> Case:
    kinds = {**C, "f32": "float", "f64": "double", "f16": "twb_f16", "bf16": "twb_bf16"}
    dtypes = {**INT, "f32": np.float32, "f64": np.float64, "f16": np.uint16, "bf16": np.uint16}
    params = ", ".join(f"twb_global<{t}> {s}" for s, t in kinds.items())
    lines = "".join(f"twb_atomic_store_{s}({s} + 1, twb_atomic_load_{s}({s}));\n" for s in kinds)
    lines += "".join(f"{s}[2] = twb_atomic_exch_{s}({s} + 1, {s}[3]);\n" for s in ("f16", "bf16"))
    text = f'extern "C" __global__ void k({params}) {{ if (twb_thread_x() == 0) {{\n{lines}}} }}'

    def args() -> list[Any]:
        return [np.array([97, 3, 5, 7], d) for d in dtypes.values()]

    def expected(_args: list[Any]) -> dict[int, np.ndarray]:
        return {i: np.array([97, 7, 97, 7] if s in ("f16", "bf16") else [97, 97, 5, 7], d) for i, (s, d) in enumerate(dtypes.items())}

    return Case("plain atomics", text, args, expected)


CASES = (
    *(_atomic_integers(s) for s in ("i32", "u32", "i64", "u64")), *(_atomic_small(s) for s in ("i8", "u8", "i16", "u16")), _atomic_floats(), _ordered(),
    _plain(),
)  # fmt: skip
