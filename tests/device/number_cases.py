"""Integers, float functions and conversions, each against NumPy or plain Python."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
from device.suite import Case, rng

INT = {"i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64, "u8": np.uint8, "u16": np.uint16, "u32": np.uint32, "u64": np.uint64}
C = {s: f"{'u' if s[0] == 'u' else ''}int{s[1:]}_t" for s in INT}


def _integer_values(short: str) -> tuple[np.ndarray, np.ndarray]:
    info = np.iinfo(INT[short])
    edge = [0, 1, 2, 3, 7, info.max, info.max - 1, info.min, info.min + (info.min < 0), 31 % (info.max + 1), 5]
    edge += [-1, -2, -7] if info.min < 0 else [8, 9, 10]
    pairs = np.array([(a, b) for a in edge for b in edge], dtype=INT[short])
    return pairs[:, 0].copy(), pairs[:, 1].copy()


def _trunc(a: int, b: int) -> int:
    q = abs(a) // abs(b)
    return q if (a < 0) == (b < 0) else -q


def _integer_rule(op: str, a: int, b: int, bits: int, signed: bool) -> int:
    mask = (1 << bits) - 1
    rules: dict[str, Callable[[], int]] = {
        "truncdiv": lambda: 0 if b == 0 else _trunc(a, b),
        "truncmod": lambda: 0 if b == 0 else a - b * _trunc(a, b),
        "floordiv": lambda: 0 if b == 0 else a // b,
        "floormod": lambda: 0 if b == 0 else a % b,
        "shl": lambda: a << b if 0 <= b < bits else 0,
        "shr": lambda: a >> b if 0 <= b < bits else (-1 if a < 0 else 0),
        "popcount": lambda: (a & mask).bit_count(),
        "clz": lambda: bits - (a & mask).bit_length(),
        "pow": lambda: pow(a, b, 1 << bits) if b >= 0 else (1 if a == 1 else (a if b & 1 else 1) if a == -1 else 0),
        "min": lambda: min(a, b),
        "max": lambda: max(a, b),
        "abs": lambda: abs(a),
    }
    r = rules[op]() & mask
    return r - (1 << bits) if signed and r >> (bits - 1) else r


INTEGER_OPS = ("truncdiv", "truncmod", "floordiv", "floormod", "shl", "shr", "popcount", "clz", "pow", "min", "max", "abs")


def _integer_case(short: str) -> Case:
    a, b = _integer_values(short)
    n, t = len(a), C[short]
    lines = [f"c[{i} * {n} + i] = twb_{op}_{short}(a[i]{'' if op in ('popcount', 'clz', 'abs') else ', b[i]'});" for i, op in enumerate(INTEGER_OPS)]
    text = (
        f'extern "C" __global__ void k(twb_global<const {t}> a, twb_global<const {t}> b, twb_global<{t}> c) {{ for (int i = twb_thread_x(); i < {n}; i += 32) {{\n'
        + "\n".join(lines)
        + "\n} }"
    )

    def expected(args: list[Any]) -> dict[int, np.ndarray]:
        bits, signed = int(short[1:]), short[0] == "i"
        rows = [[_integer_rule(op, int(x), int(y), bits, signed) for x, y in zip(a, b, strict=True)] for op in INTEGER_OPS]
        return {2: np.array(rows, dtype=INT[short])}

    return Case(f"integers {short}", text, lambda: [a, b, np.zeros((len(INTEGER_OPS), n), INT[short])], expected)


def _erf(x: np.ndarray) -> np.ndarray:
    return np.array([math.erf(float(v)) for v in x])


_POSITIVE = {"log", "log2", "log10", "log1p", "sqrt", "rsqrt", "acosh"}
UNARY: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "exp": np.exp, "exp2": np.exp2, "exp10": lambda x: 10.0**x, "expm1": np.expm1, "log": np.log, "log2": np.log2, "log10": np.log10, "log1p": np.log1p,
    "sin": np.sin, "cos": np.cos, "tan": np.tan, "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh,
    "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh, "erf": _erf, "sqrt": np.sqrt, "rsqrt": lambda x: 1 / np.sqrt(x), "floor": np.floor,
    "ceil": np.ceil, "trunc": np.trunc, "nearbyint": np.rint, "round": lambda x: np.trunc(x + np.copysign(0.5, x)), "abs": np.abs, "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "isnan": np.isnan, "isinf": np.isinf, "isfinite": np.isfinite,
}  # fmt: skip
BINARY: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "pow": lambda a, b: np.abs(a) ** b, "atan2": np.arctan2, "fmod": np.fmod, "hypot": np.hypot, "copysign": np.copysign, "min": np.fmin, "max": np.fmax,
    "truncdiv": lambda a, b: np.trunc(a / b), "truncmod": np.fmod, "floordiv": lambda a, b: a // b, "floormod": lambda a, b: a % b,
}  # fmt: skip


def _float_case(short: str) -> Case:
    kind, dtype = ("float", np.float32) if short == "f32" else ("double", np.float64)
    n = 64
    values, others = rng(1).uniform(-0.95, 0.95, n).astype(dtype), rng(2).uniform(0.3, 3, n).astype(dtype)
    lines = []
    for i, op in enumerate(UNARY):
        arg = (
            "1 + twb_abs_{0}(a[i])".format(short)
            if op in _POSITIVE
            else "special[i % 4]"
            if op.startswith("is")
            else "4 * a[i]"
            if op in ("floor", "ceil", "trunc", "nearbyint", "round")
            else "a[i]"
        )
        lines.append(f"c[{i} * {n} + i] = twb_{op}_{short}({arg});")
    for i, op in enumerate(BINARY, len(UNARY)):
        first = f"twb_abs_{short}(a[i])" if op == "pow" else "4 * a[i]"
        lines.append(f"c[{i} * {n} + i] = twb_{op}_{short}({first}, b[i]);")
    rows = len(UNARY) + len(BINARY) + 1
    lines.append(f"c[{rows - 1} * {n} + i] = twb_fma_{short}(a[i], b[i], a[i]);")
    p = f"twb_global<const {kind}>"
    text = (
        f'extern "C" __global__ void k({p} a, {p} b, {p} special, twb_global<{kind}> c) {{ for (int i = twb_thread_x(); i < {n}; i += 32) {{\n'
        + "\n".join(lines)
        + "\n} }"
    )

    def expected(args: list[Any]) -> dict[int, np.ndarray]:
        a, b, special = (x.astype(np.float64) for x in args[:3])
        four = (4 * args[0]).astype(np.float64)
        tests = np.resize(special, n)
        out = [
            f(
                1 + np.abs(a)
                if op in _POSITIVE
                else tests
                if op.startswith("is")
                else four
                if op in ("floor", "ceil", "trunc", "nearbyint", "round")
                else a
            )
            for op, f in UNARY.items()
        ]
        out += [f(a if op == "pow" else four, b) for op, f in BINARY.items()]
        return {3: np.array([*out, a * b + a], dtype=np.float64)}

    special = np.array([0.5, np.nan, np.inf, -np.inf], dtype)
    return Case(
        f"float functions {short}",
        text,
        lambda: [values, others, special, np.zeros((rows, n), dtype)],
        expected,
        rtol=3e-6 if short == "f32" else 1e-14,
        atol=3e-7 if short == "f32" else 1e-15,
    )


APPROX = {"exp2": np.exp2, "log2": np.log2, "rcp": lambda x: 1 / x, "rsqrt": lambda x: 1 / np.sqrt(x), "sin": np.sin, "cos": np.cos, "tanh": np.tanh}


def _approximations() -> Case:
    lines = [f"c[{i} * 32 + i0] = twb_{op}_approx(a[i0]);" for i, op in enumerate(APPROX)]
    text = 'extern "C" __global__ void k(twb_global<const float> a, twb_global<float> c) { int i0 = twb_thread_x();\n' + "\n".join(lines) + "\n}"
    values = rng(3).uniform(0.2, 3, 32).astype(np.float32)
    return Case(
        "approximations",
        text,
        lambda: [values, np.zeros((len(APPROX), 32), np.float32)],
        lambda args: {1: np.array([f(args[0].astype(np.float64)) for f in APPROX.values()])},
        rtol=1e-3,
        atol=1e-5,
    )


def _exp2_at_its_ends() -> Case:
    """Overflow, no number, and 0 where the result is below the least normal number; within 2 units in the last place in between."""
    values = np.concatenate(
        [[np.inf, -np.inf, np.nan, 128, 127.99, -126, -126.01, -127, -149, -1e30, 0, -0.0, 1e-42], rng(8).uniform(-126, 128, 243)]
    )
    given = values.astype(np.float32)
    text = 'extern "C" __global__ void k(twb_global<const float> a, twb_global<float> c) { for (int i = twb_thread_x(); i < 256; i += 32) c[i] = twb_exp2_f32(a[i]); }'

    def expected(args: list[Any]) -> dict[int, np.ndarray]:
        with np.errstate(over="ignore"):
            exact = np.exp2(args[0].astype(np.float64))
            exact[exact >= 2.0**128] = np.inf
        return {1: np.where(exact < 2.0**-126, 0, exact)}

    return Case("exp2 at its ends", text, lambda: [given, np.zeros(256, np.float32)], expected, rtol=2.0**-22)


def _short_functions() -> Case:
    """To 15 bits: ends, and near 0, where a line takes over."""
    ends = [np.inf, -np.inf, np.nan, 0, -0.0, 1e-42, 1e-3, 0.0078124, 0.0078126, -0.0078126, 4, -4, 30, 1e30, -87, -80]
    given = np.concatenate([ends, rng(9).uniform(-4.5, 4.5, 240)]).astype(np.float32)
    names = ("erf", "tanh", "sigmoid")
    text = 'extern "C" __global__ void k(twb_global<const float> a, twb_global<float> c) { for (int i = twb_thread_x(); i < 256; i += 32) {\n'
    text += "".join(f"c[{256 * n} + i] = twb_{name}_short_f32(a[i]);\n" for n, name in enumerate(names)) + "} }"

    def expected(args: list[Any]) -> dict[int, np.ndarray]:
        x = args[0].astype(np.float64)
        with np.errstate(over="ignore"):
            return {1: np.array([_erf(x), np.tanh(x), 1 / (1 + np.exp(-x))])}

    return Case("functions of few digits", text, lambda: [given, np.zeros((3, 256), np.float32)], expected, rtol=2.0**-15, atol=2.0**-126)


NARROW = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2}


def _floats() -> np.ndarray:
    edge = [
        0.0,
        -0.0,
        1.0,
        -1.5,
        65504,
        65519.9,
        65520,
        1e-8,
        5.9e-8,
        6e-5,
        448,
        463,
        464,
        465,
        -470,
        57344,
        61439,
        61440,
        61441,
        1e38,
        3.4e38,
        np.inf,
        -np.inf,
        np.nan,
        2.0**-10,
        2.0**-9 * 1.5,
        3.1e-5,
        0.1,
    ]
    return np.concatenate([np.array(edge), rng(4).standard_normal(250) * np.exp2(rng(5).integers(-20, 18, 250))]).astype(np.float32)


def _narrow_case(short: str, arch: str = "") -> Case:
    values, word = _floats(), np.dtype(NARROW[short]).itemsize
    bits, n = (np.uint16 if word == 2 else np.uint8), len(_floats())
    t, kind = f"uint{8 * word}_t", f"twb_{short}"
    every = 1 << (8 * word)
    text = (
        f'extern "C" __global__ void k(twb_global<const float> a, twb_global<float> down, twb_global<float> up) {{\n'
        f"for (int i = twb_thread_x(); i < {n}; i += 32) down[i] = twb_{short}_to_f32({kind}_bits(twb_bits_{short}(twb_f32_to_{short}(a[i]))));\n"
        f"for (int i = twb_thread_x(); i < {every}; i += 32) up[i] = twb_{short}_to_f32({kind}_bits(({t})i)); }}"
    )

    def expected(args: list[Any]) -> dict[int, np.ndarray]:
        with np.errstate(over="ignore", invalid="ignore"):
            down = values.astype(NARROW[short]).astype(np.float32)
        up = np.arange(every, dtype=bits).view(NARROW[short]).astype(np.float32)
        return {1: down, 2: up}

    how: dict[str, Any] = {"arch": arch} if arch else {}
    name = f"conversion {short} {arch}".rstrip()
    return Case(name, text, lambda: [values, np.zeros(n, np.float32), np.zeros(every, np.float32)], expected, **how)


def _from_double() -> Case:
    """Just above, at and just below the middle of two neighbours: rounding through float32 would make all three a tie."""
    mantissa = {"f16": 10, "bf16": 7, "e4m3": 3, "e5m2": 2}
    ways = [(s, sign * (1 + 2.0 ** -(m + 1) + tiny)) for s, m in mantissa.items() for sign in (1, -1) for tiny in (2.0**-40, 0.0, -(2.0**-40))]
    lines = [f"c[{i}] = twb_{s}_to_f32(twb_f64_to_{s}(a[{i}])); d[{i}] = twb_f64_to_odd_f32(a[{i}]);" for i, (s, _) in enumerate(ways)]
    text = 'extern "C" __global__ void k(twb_global<const double> a, twb_global<float> c, twb_global<float> d) {\n' + "\n".join(lines) + "\n}"
    values = np.array([v for _, v in ways])
    wanted = [np.sign(v) * (1 + (2.0 ** -mantissa[s] if abs(v) > 1 + 2.0 ** -(mantissa[s] + 1) else 0)) for s, v in ways]

    def odd(v: float) -> float:
        near = np.float32(v)
        if float(near) == v or near.view(np.uint32) & 1:
            return float(near)
        return float(np.nextafter(near, np.float32(np.inf if v > float(near) else -np.inf)))

    return Case(
        "float64 to narrow floats", text, lambda: [values, np.zeros(len(ways), np.float32), np.zeros(len(ways), np.float32)],
        lambda _: {1: np.array(wanted, np.float32), 2: np.array([odd(float(v)) for v in values], np.float32)}, block=1,
    )  # fmt: skip


def _pairs() -> Case:
    """Pairs: what the single conversions give; saturation gives the largest number."""
    n = 64
    lines, row = [], 0
    for s in ("f16", "bf16"):
        for call in ("twb_pack_{0}(x, y)", "twb_add_{0}x2(twb_pack_{0}(x, y), twb_pack_{0}(y, y))", "twb_mul_{0}x2(twb_pack_{0}(x, y), twb_pack_{0}(y, y))",
                     "twb_fma_{0}x2(twb_pack_{0}(x, y), twb_pack_{0}(y, y), twb_pack_{0}(y, x))", "twb_min_{0}x2(twb_pack_{0}(x, y), twb_pack_{0}(y, x))", "twb_max_{0}x2(twb_pack_{0}(x, y), twb_pack_{0}(y, x))"):  # fmt: skip
            lines.append(f"twb_unpack_{s}({call.format(s)}, low, high); c[{row} * {n} + i] = low; c[{row + 1} * {n} + i] = high;")
            row += 2
    for s in ("e4m3", "e5m2"):
        lines.append(f"twb_unpack_{s}(twb_pack_{s}_sat(100 * x, y), low, high); c[{row} * {n} + i] = low; c[{row + 1} * {n} + i] = high;")
        row += 2
    for s in ("f16", "e4m3", "e5m2"):
        lines.append(f"c[{row} * {n} + i] = twb_{s}_to_f32(twb_f32_to_{s}_sat(x * 30000));")
        row += 1
    head = 'extern "C" __global__ void k(twb_global<const float> a, twb_global<const float> b, twb_global<float> c) { float low, high; for (int i = twb_thread_x(); i < 64; i += 32) { float x = a[i], y = b[i];\n'
    a, b = (rng(6).standard_normal(n) * 8).astype(np.float32), rng(7).standard_normal(n).astype(np.float32)

    def expected(args: list[Any]) -> dict[int, np.ndarray]:
        rows: list[np.ndarray] = []
        for s in ("f16", "bf16"):

            def r(v: np.ndarray, kind: Any = NARROW[s]) -> np.ndarray:
                return v.astype(kind).astype(np.float32)

            x, y = r(a), r(b)
            exact = [(x.astype(np.float64) * y + y).astype(np.float32), (y.astype(np.float64) * y + x).astype(np.float32)]
            rows += [
                x,
                y,
                r(x + y),
                r(y + y),
                r(x * y),
                r(y * y),
                *(r(e) for e in exact),
                np.minimum(x, y),
                np.minimum(x, y),
                np.maximum(x, y),
                np.maximum(x, y),
            ]
        for s, top in (("e4m3", 448), ("e5m2", 57344)):
            rows += [np.clip(100 * a, -top, top).astype(NARROW[s]).astype(np.float32), b.astype(NARROW[s]).astype(np.float32)]
        for s, top in (("f16", 65504), ("e4m3", 448), ("e5m2", 57344)):
            rows.append(np.clip(a * np.float32(30000), -top, top).astype(NARROW[s]).astype(np.float32))
        return {2: np.array(rows)}

    return Case("pairs", head + "\n".join(lines) + "\n} }", lambda: [a, b, np.zeros((row, n), np.float32)], expected)


def _to_integers() -> Case:
    values = np.array(
        [
            0,
            0.5,
            -0.5,
            1.99,
            -1.99,
            127.5,
            128,
            -129,
            255.9,
            256,
            3e4,
            7e4,
            -4e4,
            2**31,
            -(2.0**31),
            2**32,
            1e19,
            -1e19,
            2e19,
            np.nan,
            np.inf,
            -np.inf,
            1e6,
            -1e6,
        ]
    )
    n, lines, out = len(values), [], []
    for j, (short, dtype) in enumerate(INT.items()):
        for k, f in enumerate(("f32", "f64")):
            lines.append(f"c{short}[{k} * {n} + i] = twb_{f}_to_{short}(({'float' if f == 'f32' else 'double'})a[i]);")
        out.append(dtype)
    outs = ", ".join(f"twb_global<{C[s]}> c{s}" for s in INT)
    bits = "b[i] = twb_f64_bits(twb_bits_f64(a[i])) + twb_f32_bits(twb_bits_f32(0.25f));"
    text = (
        f'extern "C" __global__ void k(twb_global<const double> a, {outs}, twb_global<double> b) {{ int i = twb_thread_x(); if (i < {n}) {{\n'
        + "\n".join(lines)
        + bits
        + "\n} }"
    )

    def expected(args: list[Any]) -> dict[int, np.ndarray]:
        rows = {}
        for j, dtype in enumerate(INT.values(), 1):
            info, both = np.iinfo(dtype), []
            for kind in (np.float32, np.float64):
                both.append([0 if np.isnan(v) else min(max(int(np.clip(float(kind(v)), -1e30, 1e30)), info.min), info.max) for v in values])
            rows[j] = np.array(both, dtype=dtype)
        return {**rows, 9: values + 0.25}

    return Case("floats to integers", text, lambda: [values, *(np.zeros((2, n), d) for d in out), np.zeros(n)], expected)


CASES = (
    *(_integer_case(s) for s in INT), _float_case("f32"), _float_case("f64"), _approximations(), _exp2_at_its_ends(), _short_functions(),
    *(_narrow_case(s) for s in NARROW), *(_narrow_case(s, "sm_89") for s in ("e4m3", "e5m2")), _from_double(), _pairs(), _to_integers(),
)  # fmt: skip
