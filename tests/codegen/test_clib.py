"""The C library against NumPy and ml_dtypes: exact conversions, math within a few units in the last place, vector code, integers that never trap."""

from __future__ import annotations

import ctypes
import math
import re
import subprocess
from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest
from codegen.c_harness import COMPILERS, HOST, ISAS, apply, build, loop_text, types_of

from tileworkbench.base.cpu import AVX2, AVX512
from tileworkbench.base.dtypes import DType
from tileworkbench.codegen import clib

NARROW = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2}
INTEGERS = ["i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64"]
ROUNDING = [f"twb_{a}_to_{b}" for n in NARROW for a, b in (("f32", n), (n, "f32"))]
EVERYWHERE = pytest.mark.parametrize(("compiler", "isa"), [(c, i) for c in COMPILERS for i in ISAS], ids=lambda x: getattr(x, "name", x))
SPECIAL = np.array(
    [0, -0.0, 1, -1, np.inf, -np.inf, np.nan, 1e-45, -1e-45, 1e-40, 1.17549435e-38, 3.4028235e38, -3.4028235e38, 88.72, 88.73, -87.3, -103.9,
     -104, 0.5,
     -0.5, 2, 10, 128, 127.99, -126, -149, -150, 38.6, -45, 89.4, 90, 1 - 2**-24, 1 + 2**-23, -1 + 2**-24, 2.0**31, -(2.0**31), 2.0**63],
    np.float32,
)  # fmt: skip


def random_floats(seed: int, low: float, high: float, count: int = 1 << 15) -> np.ndarray:
    """Values of a range, values of every exponent, and the special ones."""
    rng = np.random.default_rng(seed)
    return np.concatenate([rng.uniform(low, high, count).astype(np.float32), rng.integers(0, 2**32, count, np.uint32).view(np.float32), SPECIAL])


def plain_names() -> list[str]:
    return [n for n, head in clib.FUNCTIONS.items() if re.fullmatch(r"(u?int\d+_t|float|double) \w+\(((u?int\d+_t|float|double) \w+(, )?)+\)", head)]


# ---------------------------------------------------------------------------------------------- text
def test_library_holds_only_what_is_used_callees_first():
    text = clib.library(["twb_exp_f32"])
    defined = re.findall(r"^TWB_FN .*?(twb_\w+)\(", text, re.MULTILINE)
    assert defined[-1] == "twb_exp_f32" and len(defined) == len(set(defined)) == 3
    for i, name in enumerate(defined):
        assert all(name not in line for line in text.split("TWB_FN ")[1 : i + 1]), name
    with pytest.raises(KeyError):
        clib.library(["twb_no_such"])


def test_names_follow_from_operation_and_dtype():
    assert clib.call_name("tanh", DType("float32")) == "twb_tanh_f32"
    assert clib.cast_name(DType("float32"), DType("int8")) == "twb_f32_to_i8"
    assert clib.cast_name(DType("int32"), DType("float32")) == ""  # a C cast does it
    assert clib.atomic_name("max", DType("bfloat16")) == "twb_atomic_max_bf16"
    for op, dtype in (("exp", "int32"), ("exp", "float16")):
        with pytest.raises(KeyError):
            clib.call_name(op, DType(dtype))


@EVERYWHERE
def test_every_function_compiles_without_a_warning(compiler, isa):
    build(clib.library(clib.FUNCTIONS) + "void none(void) {}\n", isa, compiler)


def test_text_needs_no_header():
    assert "#include" not in clib.library(clib.FUNCTIONS)


# ---------------------------------------------------------------------------------------------- conversions
@EVERYWHERE
@pytest.mark.parametrize("short", NARROW)
def test_every_code_of_a_narrow_float_becomes_its_value(short, compiler, isa):
    kind = np.dtype(NARROW[short])
    codes = np.arange(1 << 8 * kind.itemsize).astype(f"u{kind.itemsize}")
    want = codes.view(kind).astype(np.float32)
    got = apply(f"twb_{short}_to_f32", codes, isa=isa, compiler=compiler, names=ROUNDING)
    numbers = ~np.isnan(want)
    assert np.array_equal(got.view(np.uint32)[numbers], want.view(np.uint32)[numbers]) and np.isnan(got[~numbers]).all()


@EVERYWHERE
@pytest.mark.parametrize("short", NARROW)
def test_float32_rounds_to_nearest_even(short, compiler, isa):
    kind = np.dtype(NARROW[short])
    values = np.arange(1 << 8 * kind.itemsize).astype(f"u{kind.itemsize}").view(kind).astype(np.float32)
    known = np.sort(values[np.isfinite(values)])
    middles = ((known[1:].astype(np.float64) + known[:-1]) / 2).astype(np.float32)  # ties, and their neighbours
    x = np.concatenate(
        [
            random_floats(1, -500, 500),
            random_floats(2, -7e4, 7e4),
            middles,
            np.nextafter(middles, np.float32(np.inf)),
            np.nextafter(middles, -np.float32(np.inf)),
            values,
        ]
    )
    with np.errstate(all="ignore"):
        want = x.astype(kind)
    got = apply(f"twb_f32_to_{short}", x, isa=isa, compiler=compiler, names=ROUNDING)
    numbers = ~np.isnan(want.astype(np.float32))
    assert np.array_equal(got[numbers], want.view(got.dtype)[numbers]) and np.isnan(got.view(kind)[~numbers].astype(np.float32)).all()


@pytest.mark.parametrize("short", NARROW)
def test_float64_rounds_once(short):
    """A value just above a tie of the narrow type, which float32 would round onto the tie and then down."""
    kind = np.dtype(NARROW[short])
    one_and_a_half_steps = 1 + 1.5 * float(ml_dtypes.finfo(kind).eps)
    x = np.array(
        [
            one_and_a_half_steps * (1 - 2.0**-40),
            one_and_a_half_steps * (1 + 2.0**-40),
            1 + 0.5 * float(ml_dtypes.finfo(kind).eps) * (1 + 2.0**-30),
            np.nan,
            np.inf,
            0.1,
        ]
    )
    got = apply(f"twb_f64_to_{short}", x).view(kind).astype(np.float64)
    eps = float(ml_dtypes.finfo(kind).eps)
    assert got[:3].tolist() == [1 + eps, 1 + 2 * eps, 1 + eps] and np.isnan(got[3]) and abs(got[5] - 0.1) <= 0.1 * eps


@EVERYWHERE
def test_whole_rows_of_half_convert_exactly(compiler, isa):
    codes = np.arange(1 << 16).astype(np.uint16)[:65533]
    calls = "".join(
        f"void {n}_all({src} *p, {dst} *q, int64_t n) {{ {n}(p, q, n); }}\n"
        for n, src, dst in (("twb_copy_f16_to_f32", "uint16_t", "float"), ("twb_copy_f32_to_f16", "float", "uint16_t"))
    )
    lib = build(clib.library(["twb_copy_f16_to_f32", "twb_copy_f32_to_f16"]) + calls, isa, compiler)
    wide, back = np.empty(codes.size, np.float32), np.empty(codes.size, np.uint16)
    lib.twb_copy_f16_to_f32_all(ctypes.c_void_p(codes.ctypes.data), ctypes.c_void_p(wide.ctypes.data), ctypes.c_int64(codes.size))
    lib.twb_copy_f32_to_f16_all(ctypes.c_void_p(wide.ctypes.data), ctypes.c_void_p(back.ctypes.data), ctypes.c_int64(codes.size))
    half = codes.view(np.float16)
    assert np.array_equal(wide, half.astype(np.float32), equal_nan=True) and np.array_equal(back.view(np.float16), half, equal_nan=True)


@EVERYWHERE
def test_whole_rows_round_to_bfloat16_as_single_numbers_do(compiler, isa):
    """Also where the processor's instruction would not: denormal numbers."""
    name = "twb_copy_f32_to_bf16"
    lib = build(clib.library([name], isa) + f"void all_(const float *p, uint16_t *q, int64_t n) {{ {name}(p, q, n); }}\n", isa, compiler)
    normal = random_floats(31, -500, 500, 4096)
    normal = normal[(np.abs(normal) >= 2.0**-126) | (normal == 0) | np.isnan(normal)]
    small = random_floats(32, -1e-38, 1e-38, 999)
    for x in (normal, *(normal[:n] for n in (31, 32, 1, 0)), small, np.array([1e-40] + [1.5] * 40, np.float32)):
        got = np.full(x.size + 1, 7, np.uint16)
        lib.all_(ctypes.c_void_p(x.ctypes.data), ctypes.c_void_p(got.ctypes.data), ctypes.c_int64(x.size))
        with np.errstate(all="ignore"):
            want = x.astype(ml_dtypes.bfloat16)
        numbers = ~np.isnan(x)
        assert np.array_equal(got[:-1][numbers], want.view(np.uint16)[numbers]) and got[-1] == 7
        assert np.isnan(got[:-1].view(ml_dtypes.bfloat16)[~numbers].astype(np.float32)).all()


@EVERYWHERE
@pytest.mark.parametrize("source", ["f32", "f64"])
@pytest.mark.parametrize("target", INTEGERS)
def test_float_to_integer_truncates_and_saturates(source, target, compiler, isa):
    info = np.iinfo(f"{'u' * (target[0] == 'u')}int{target[1:]}")
    ends = [float(info.max) * f for f in (0.5, 1, 1.5)] + [float(info.min) * f for f in (0.5, 1, 1.5)]
    x = np.concatenate([random_floats(3, -300, 300, 2000), random_floats(4, -5e9, 5e9, 2000), np.array(ends, np.float32)])
    if source == "f64":
        with np.errstate(invalid="ignore"):  # signalling NaNs
            x = np.concatenate([x.astype(np.float64), np.nextafter(ends, np.inf), np.nextafter(ends, -np.inf)])
    want = [saturated(v, int(info.min), int(info.max)) for v in x.tolist()]
    names = [f"twb_{source}_to_{t}" for t in INTEGERS]
    assert apply(f"twb_{source}_to_{target}", x, isa=isa, compiler=compiler, names=names).tolist() == want


def saturated(value: float, low: int, high: int) -> int:
    if math.isnan(value):
        return 0
    return high if value >= high else low if value <= low else math.trunc(value)


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


@pytest.mark.parametrize("isa", [i for i in ISAS if i.name != "generic"], ids=lambda i: i.name)
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


# ---------------------------------------------------------------------------------------------- integers
def expected(op: str, a: int, b: int, bits: int, signed: bool) -> int:
    wrap = (lambda v: (v + (1 << bits - 1)) % (1 << bits) - (1 << bits - 1)) if signed else (lambda v: v % (1 << bits))
    shift_in_range = 0 <= b < bits
    match op:
        case "floordiv" | "floormod" | "truncdiv" | "truncmod" if b == 0:
            return 0
        case "floordiv":
            return wrap(a // b)
        case "floormod":
            return a % b
        case "truncdiv":
            return wrap(abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1))
        case "truncmod":
            return abs(a) % abs(b) * (-1 if a < 0 else 1)
        case "shl":
            return wrap(a << b) if shift_in_range else 0
        case "shr":
            return a >> b if shift_in_range else (-1 if a < 0 else 0)
        case "min" | "max":
            return {"min": min, "max": max}[op](a, b)
    raise AssertionError(op)


@pytest.mark.parametrize("short", INTEGERS)
def test_integer_operations_never_trap_and_follow_the_language(short):
    bits, signed = int(short[1:]), short[0] == "i"
    info = np.iinfo(f"{'' if signed else 'u'}int{bits}")
    if bits == 8:
        values = list(range(info.min, info.max + 1))
    else:
        rng = np.random.default_rng(bits)
        edges = [0, 1, 2, 3, 7, bits - 1, bits, bits + 1, info.max, info.max - 1, info.min, info.min + 1] + ([-1, -2, -7] if signed else [])
        values = sorted({*edges, *rng.integers(info.min, info.max, 40, info.dtype, endpoint=True).tolist()})
    a, b = (g.ravel() for g in np.meshgrid(np.array(values, info.dtype), np.array(values, info.dtype)))
    pairs = list(zip(a.tolist(), b.tolist(), strict=True))
    names = [f"twb_{op}_{short}" for op in ("floordiv", "floormod", "truncdiv", "truncmod", "shl", "shr", "min", "max")]
    for name in names:
        assert apply(name, a, b, names=names).tolist() == [expected(name.split("_")[1], x, y, bits, signed) for x, y in pairs], name
    one = np.array(values, info.dtype)
    mask = (1 << bits) - 1
    assert apply(f"twb_popcount_{short}", one).tolist() == [(v & mask).bit_count() for v in values]
    assert apply(f"twb_clz_{short}", one).tolist() == [bits - (v & mask).bit_length() for v in values]
    assert apply(f"twb_abs_{short}", one).tolist() == [v if v == info.min else abs(v) for v in values]


def test_integer_power_wraps():
    a, b = np.array([2, 3, -2, 10, 5, 0, -1, -1, 4], np.int32), np.array([10, 21, 3, 10, 0, 0, -3, -2, -1], np.int32)
    assert apply("twb_pow_i32", a, b).tolist() == [
        1024,
        (3**21 + 2**31) % 2**32 - 2**31,
        -8,
        10**10 % 2**32 - 2**32 * (10**10 % 2**32 >= 2**31),
        1,
        1,
        -1,
        1,
        0,
    ]


def test_nibbles():
    text = (
        clib.library(["twb_load_i4", "twb_load_u4", "twb_store_i4", "twb_store_i4_shared"])
        + """
void pack(uint8_t *p, const int8_t *v, int64_t n) {
    for (int64_t i = 0; i < n; i++) { if (i % 3) twb_store_i4(p, i, v[i]); else twb_store_i4_shared(p, i, v[i]); }
}
void unpack(const uint8_t *p, int8_t *s, uint8_t *u, int64_t n) {
    for (int64_t i = 0; i < n; i++) { s[i] = twb_load_i4(p, i); u[i] = twb_load_u4(p, i); }
}
"""
    )
    lib = build(text)
    values = np.random.default_rng(0).integers(-8, 8, 101, np.int8)
    packed, signed, unsigned = np.full(51, 0xA5, np.uint8), np.empty(101, np.int8), np.empty(101, np.uint8)
    at = lambda x: ctypes.c_void_p(x.ctypes.data)
    lib.pack(at(packed), at(values), ctypes.c_int64(101))
    lib.unpack(at(packed), at(signed), at(unsigned), ctypes.c_int64(101))
    assert np.array_equal(signed, values) and np.array_equal(unsigned, values.view(np.uint8) & 15)
    assert packed[0] & 15 == values[0] & 15 and packed[50] >> 4 == 0xA  # low half first; the half behind the end is untouched


# ---------------------------------------------------------------------------------------------- atomics
@pytest.mark.parametrize("dtype", ["int8", "uint16", "int32", "uint64", "float16", "bfloat16", "float32", "float64"])
def test_atomics_return_the_old_value(dtype):
    kind = DType(dtype)
    storage, numpy = clib.c_type(kind), kind.to_numpy()
    ops = ["add", "max", "min", "exch"] + ([] if kind.is_float else ["and", "or", "xor"])
    names = [clib.atomic_name(op, kind) for op in (*ops, "load", "store")]
    text = clib.library(names) + "".join(
        f"void do_{op}({storage} *p, {storage} *v, {storage} *old) {{ *old = {clib.atomic_name(op, kind)}(p, *v); }}\n" for op in ops
    )
    text += f"void copy({storage} *p, {storage} *q) {{ {clib.atomic_name('store', kind)}(q, {clib.atomic_name('load', kind)}(p)); }}\n"
    lib = build(text)
    steps = {
        "add": lambda a, b: a + b,
        "max": max,
        "min": min,
        "exch": lambda a, b: b,
        "and": lambda a, b: a & b,
        "or": lambda a, b: a | b,
        "xor": lambda a, b: a ^ b,
    }
    at = lambda x: ctypes.c_void_p(x.ctypes.data)
    for start, value in ((5, 3), (3, 5), (12, 12)):
        for op in ops:
            cell, operand, old = np.array([start], numpy), np.array([value], numpy), np.zeros(1, numpy)
            getattr(lib, f"do_{op}")(at(cell), at(operand), at(old))
            assert (float(cell[0]), float(old[0])) == (steps[op](start, value), start), op
    cell, copy = np.array([7], numpy), np.zeros(1, numpy)
    lib.copy(at(cell), at(copy))
    assert copy[0] == cell[0]


@pytest.mark.parametrize("short", ["f16", "bf16", "f32", "i32"])
def test_atomic_additions_of_two_threads_are_all_counted(short):
    storage, kind = {
        "f16": ("uint16_t", np.float16),
        "bf16": ("uint16_t", ml_dtypes.bfloat16),
        "f32": ("float", np.float32),
        "i32": ("int32_t", np.int32),
    }[short]
    text = (
        clib.library([f"twb_atomic_add_{short}"])
        + f"""
void count({storage} *p, {storage} *one, int64_t n) {{
    #pragma omp parallel for num_threads(2) schedule(static, 1)
    for (int64_t i = 0; i < n; i++) twb_atomic_add_{short}(p, *one);
}}
"""
    )
    total = 200 if short == "bf16" else 2000  # exact in the type
    cell, one = np.zeros(1, kind), np.ones(1, kind)
    build(text, extra=("-fopenmp",)).count(ctypes.c_void_p(cell.ctypes.data), ctypes.c_void_p(one.ctypes.data), ctypes.c_int64(total))
    assert float(cell[0]) == total


def test_signatures_are_what_the_harness_and_emitters_read():
    assert types_of("twb_f32_to_bf16") == ("uint16_t", ["float"])
    assert HOST.flags >= AVX2.flags or AVX512.name != HOST.name
