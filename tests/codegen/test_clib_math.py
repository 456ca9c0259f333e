"""The C library's math against NumPy: within a few units in the last place, vector code, rows."""

from __future__ import annotations

import ctypes
import math
import re
import subprocess
from collections.abc import Callable

import numpy as np
import pytest
from codegen.c_harness import COMPILERS, MARCHES, apply, build, loop_text
from codegen.clib_values import EVERYWHERE, SPECIAL, plain_names, random_floats

from tileworkbench.codegen import clib


# ---------------------------------------------------------------------------------------------- math
def ulps(got: np.ndarray, want: np.ndarray) -> np.ndarray:
    """|got - want| in units in the last place of float32; infinity where one is special and the other is not."""
    rounded = want.astype(np.float32)
    same = (got == rounded) | (np.isnan(got) & np.isnan(rounded))
    unit = np.exp2(np.maximum(np.frexp(want)[1] - 24, -149).astype(np.float64))
    near = np.abs(got.astype(np.float64) - want) / unit
    return np.where(same, 0, np.where(np.isfinite(got) & np.isfinite(want), near, np.inf))


def sigmoid(x: np.ndarray) -> np.ndarray:
    e = np.exp(-np.abs(x))
    return np.where(x < 0, e, 1) / (1 + e)


MATH: dict[str, tuple[Callable[[np.ndarray], np.ndarray], float, float, float]] = {
    "exp": (np.exp, -110, 95, 1.1), "exp2": (np.exp2, -155, 130, 2.1), "exp10": (lambda x: np.power(10.0, x), -47, 40, 1.3),
    "expm1": (np.expm1, -30, 90, 1.5),
    "log": (np.log, 0, 4, 1.0), "log2": (np.log2, 0, 4, 2.0), "log10": (np.log10, 0, 4, 2.0), "log1p": (np.log1p, -1, 3, 1.0),
    "sinh": (np.sinh, -92, 92, 2.0), "cosh": (np.cosh, -92, 92, 1.6), "tanh": (np.tanh, -10, 10, 2.6), "sigmoid": (sigmoid, -110, 100, 2.5),
    "erf": (np.vectorize(math.erf, otypes=[float]), -4.5, 4.5, 4.0), "sin": (np.sin, -100, 100, 1.6), "cos": (np.cos, -100, 100, 1.6),
    "tan": (np.tan, -100, 100, 4.0),
    "asin": (np.arcsin, -1, 1, 2.0), "acos": (np.arccos, -1, 1, 1.5), "atan": (np.arctan, -6, 6, 1.5), "asinh": (np.arcsinh, -9, 9, 2.0),
    "acosh": (np.arccosh, 1, 9, 2.0), "atanh": (np.arctanh, -1, 1, 2.2), "sqrt": (np.sqrt, 0, 9, 0.5), "rsqrt": (lambda x: 1 / np.sqrt(x), 0, 9, 1.5),
}  # fmt: skip
POWERS: dict[str, Callable[[np.ndarray], np.ndarray]] = {"exp": np.exp, "exp2": np.exp2, "exp10": lambda x: np.power(10.0, x)}  # 0 below 2**-126
LEAST_NORMAL = 2.0**-126
BINARY: dict[str, tuple[Callable[[np.ndarray, np.ndarray], np.ndarray], float]] = {
    "pow": (np.power, 0.6), "atan2": (np.arctan2, 1.6), "hypot": (np.hypot, 0.6), "fmod": (np.fmod, 0.5), "copysign": (np.copysign, 0),
}  # fmt: skip


@EVERYWHERE
def test_float32_functions_are_accurate(compiler, isa):
    worst = {}
    names = [f"twb_{n}_f32" for n in MATH]
    for name, (exact, low, high, limit) in MATH.items():
        x = random_floats(len(name), low, high)
        with np.errstate(all="ignore"):
            want = exact(x.astype(np.float64))
            want = np.where(want < LEAST_NORMAL, 0, want) if name in POWERS or name == "sigmoid" else want
            errors = ulps(apply(f"twb_{name}_f32", x, isa=isa, compiler=compiler, names=names), want)
        if errors.max() > limit:
            worst[name] = (float(errors.max()), float(x[errors.argmax()]))
    assert not worst


@EVERYWHERE
@pytest.mark.parametrize("name", POWERS)
def test_powers_end_where_float32_does(name, compiler, isa):
    """Around the first result that overflows and the last normal one, every float32; far beyond them; every kind of NaN."""
    base = {"exp": math.e, "exp2": 2, "exp10": 10}[name]
    ends = np.array([np.log(2.0**e) / np.log(base) for e in (-149.5, -126.5, -126, -125.5, 127, 127.5, 128)], np.float32)
    near = (ends.view(np.int32)[:, None] + np.arange(-300, 300, dtype=np.int32)).ravel().view(np.float32)
    nans = np.concatenate([np.arange(0x7F800001, 0x7F800401, dtype=np.uint32), np.array([0x7FC00000, 0x7FFFFFFF, 0x7FC001FF], np.uint32)])
    x = np.concatenate([near, np.array([-np.inf, np.inf, 3e38, -3e38, 2.0**23, -(2.0**23), 2.0**31, -(2.0**31)], np.float32)])
    with np.errstate(all="ignore"):
        want = POWERS[name](x.astype(np.float64))
    got = apply(f"twb_{name}_f32", x, isa=isa, compiler=compiler, names=[f"twb_{n}_f32" for n in POWERS])
    assert not got[want < LEAST_NORMAL].any() and not np.signbit(got).any()
    assert np.isinf(got[want >= 2.0**128]).all() and np.isfinite(got[want < 2.0**128 * (1 - 2.0**-24)]).all()
    normal = (want >= LEAST_NORMAL) & (want < 2.0**128)
    assert ulps(got[normal], want[normal]).max() <= 2.1
    every_nan = np.concatenate([nans, nans | np.uint32(1 << 31)]).view(np.float32)
    assert np.isnan(apply(f"twb_{name}_f32", every_nan, isa=isa, compiler=compiler, names=[f"twb_{n}_f32" for n in POWERS])).all()
    exact = apply("twb_exp2_f32", np.arange(-126, 128, dtype=np.float32), isa=isa, compiler=compiler, names=[f"twb_{n}_f32" for n in POWERS])
    assert np.array_equal(exact, np.exp2(np.arange(-126, 128)).astype(np.float32))


@EVERYWHERE
def test_erf_ends_at_one(compiler, isa):
    """Every float32 around the point from which on it is 1, and far beyond: never more, and odd."""
    last = np.float32(3.87).view(np.int32)
    x = np.concatenate([np.arange(last - (1 << 19), last + 5000, dtype=np.int32).view(np.float32), np.array([5, 1e30, np.inf], np.float32)])
    got = apply("twb_erf_f32", x, isa=isa, compiler=compiler)
    assert got.max() == 1 and (got[x >= np.float32(3.87)] == 1).all() and ulps(got, np.vectorize(math.erf)(x.astype(np.float64))).max() <= 4
    np.testing.assert_array_equal(apply("twb_erf_f32", -x, isa=isa, compiler=compiler), -got)
    zeros = apply("twb_erf_f32", np.array([0.0, -0.0], np.float32), isa=isa, compiler=compiler)
    assert not zeros.any() and list(np.signbit(zeros)) == [False, True]


@EVERYWHERE
def test_float32_functions_of_two_values_are_accurate(compiler, isa):
    rng = np.random.default_rng(5)
    n = 1 << 14
    some = random_floats(6, 0, 20, n)
    x = np.concatenate([some, some, np.repeat(SPECIAL, SPECIAL.size)])
    y = np.concatenate([rng.uniform(-120, 120, some.size), rng.integers(-9, 9, some.size), np.tile(SPECIAL, SPECIAL.size)]).astype(np.float32)
    worst = {}
    for name, (exact, limit) in BINARY.items():
        with np.errstate(all="ignore"):
            errors = ulps(
                apply(f"twb_{name}_f32", x, y, isa=isa, compiler=compiler, names=[f"twb_{n}_f32" for n in BINARY]),
                exact(x.astype(np.float64), y.astype(np.float64)),
            )
        if errors.max() > limit:
            worst[name] = (float(errors.max()), float(x[errors.argmax()]), float(y[errors.argmax()]))
    assert not worst


@pytest.mark.parametrize("short", ["f32", "f64"])
def test_choices_ignore_nan_and_keep_the_number(short):
    a, b = (g.ravel() for g in np.meshgrid(SPECIAL, SPECIAL))
    for name, exact in (("min", np.fmin), ("max", np.fmax)):
        assert np.array_equal(apply(f"twb_{name}_{short}", a, b), exact(a, b).astype({"f32": np.float32, "f64": np.float64}[short]), equal_nan=True)


def test_floor_division_of_floats_follows_python():
    x, y = np.array([7, -7, 7, -7, 0, 6], np.float32), np.array([2, 2, -2, -2, 3, 0.5], np.float32)
    assert apply("twb_floordiv_f32", x, y).tolist() == [a // b for a, b in zip(x.tolist(), y.tolist(), strict=True)]
    assert apply("twb_floormod_f32", x, y).tolist() == [a % b for a, b in zip(x.tolist(), y.tolist(), strict=True)]
    assert apply("twb_truncmod_f32", x, y).tolist() == np.fmod(x, y).tolist()


@pytest.mark.parametrize("isa", [i for i in MARCHES if i.name != "generic"], ids=lambda i: i.name)
@pytest.mark.skipif("gcc" not in COMPILERS, reason="asks gcc for its vectorisation report")
def test_loops_over_float32_functions_become_vector_code(isa, tmp_path):
    scalar = {"twb_fmod_f32", "twb_truncmod_f32", "twb_floormod_f32", "twb_floordiv_f32"}  # the C library's fmod
    names = [n for n in plain_names() if n.endswith("_f32") or re.fullmatch(r"twb_f32_to_(f16|bf16|e4m3|e5m2|i8|u8|i16|u16|i32|u32)", n)]
    text = loop_text(names)
    (tmp_path / "loops.c").write_text(text)
    command = ["gcc", "-O2", "-fopenmp-simd", *isa.march, *clib.FLAGS, "-fopt-info-vec", "-S", "loops.c", "-o", "loops.s"]
    report = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True).stderr
    lines = text.split("\n")
    vectorised = set()
    for match in re.finditer(r"loops.c:(\d+):\d+: optimized: loop vectorized", report):
        start = next(i for i in range(int(match[1]) - 1, -1, -1) if lines[i].startswith("void loop_"))
        vectorised.add(re.match(r"void loop_(\w+)\(", lines[start])[1])
    assert set(names) - vectorised <= scalar
    called = set(re.findall(r"\bcall\s+(\w+)", (tmp_path / "loops.s").read_text()))
    assert called <= {"fmodf"}


# ---------------------------------------------------------------------------------------------- rows
ROWS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "sum": lambda x: x.sum(), "abssum": lambda x: np.abs(x).sum(), "max": np.fmax.reduce, "min": np.fmin.reduce,
    "absmax": lambda x: np.fmax.reduce(np.abs(x)), "max_nan": np.max, "min_nan": np.min, "absmax_nan": lambda x: np.abs(x).max(),
}  # fmt: skip


@EVERYWHERE
def test_row_reductions_of_every_length(compiler, isa):
    names = [f"twb_row_{op}_f32" for op in ROWS]
    lib = build(clib.library(names) + "".join(f"float {n}_(const float *x, int64_t n) {{ return {n}(x, n); }}\n" for n in names), isa, compiler)
    rng = np.random.default_rng(7)
    for length in [*range(1, 70), 127, 128, 1000]:
        plain = rng.standard_normal(length).astype(np.float32)
        holes = np.where(rng.random(length) < 0.3, np.float32(np.nan), plain)
        low = np.where(rng.random(length) < 0.5, -np.float32(np.inf), plain)
        for x in (plain, holes, low, np.full(length, np.nan, np.float32)):
            for op, exact in ROWS.items():
                call = getattr(lib, f"twb_row_{op}_f32_")
                call.restype = ctypes.c_float
                got = call(ctypes.c_void_p(x.ctypes.data), ctypes.c_int64(length))
                with np.errstate(all="ignore"):
                    want = exact(x.astype(np.float64))
                    size = np.abs(x.astype(np.float64)).sum()
                assert got == want or (np.isnan(got) and np.isnan(want)) or abs(got - want) <= length * 2.0**-24 * size, (op, length)
