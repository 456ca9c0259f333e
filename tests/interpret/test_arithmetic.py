"""Operators and casts of the interpreter against exact arithmetic on Python numbers."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scalar_reference as reference
from handmade import I, at, buf, elementwise, op, outputs, un, zeros

from tileworkbench.base.dtypes import DType
from tileworkbench.interpret.arithmetic import binary, caster, compute_dtype, from_storage, reinterpreter, scalar, storage_dtype
from tileworkbench.ir.expr import BOOL_UNARY, COMPARE, Cast, Reinterpret

INTS = [DType(f"{u}int{b}") for u in ("", "u") for b in (4, 8, 16, 32, 64)]
FLOATS = [DType(t) for t in ("float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2")]
SOME_FLOATS = [0.0, -0.0, 1.0, -1.0, 0.5, 1.5, 2.5, -2.5, 0.1, 3.0, -7.25, 100.0, 1000.0, 65519.0, 65520.0, 1e-7, 1e-40, 1e30, -1e30, 3.5e38]
SOME_FLOATS += [448.0, 463.0, 465.0, 57344.0, 61440.0, math.inf, -math.inf, math.nan, 2.0**31, 2.0**63, -(2.0**63), 255.5, 0.49999997]


def int_samples(dtype: DType) -> list[int]:
    near = {dtype.min, dtype.max, dtype.min + 1, dtype.max - 1, 0, 1, 2, 3, 5, 7, 8, 31, 33, 63, 64, -1, -2, -3, -7, -64, 100}
    return sorted(x for x in near if dtype.min <= x <= dtype.max)


def float_samples(dtype: DType) -> list[float]:
    return [reference.round_float(x, dtype) for x in SOME_FLOATS]


def samples(dtype: DType) -> list:
    return float_samples(dtype) if dtype.is_float else [False, True] if dtype.is_bool else int_samples(dtype)


def host(values: list, dtype: DType) -> np.ndarray:
    if dtype.bits == 4:
        return np.array(values, np.int8 if dtype.kind == "i" else np.uint8).astype(dtype.to_numpy())
    if dtype.is_float:
        return np.array(values, np.float64).astype(dtype.to_numpy())
    return np.array(values, dtype.to_numpy())


def all_agree(got: np.ndarray, want: list, what: list) -> None:
    wrong = [(w, g, x) for g, x, w in zip(got.tolist(), want, what, strict=True) if not reference.same(g, x)]
    assert not wrong, f"(operands, got, want): {wrong[:5]}"


INT_OPS = ("add", "sub", "mul", "floordiv", "floormod", "truncdiv", "truncmod", "min", "max", "pow", "bitand", "bitor", "bitxor", "shl", "shr")


@pytest.mark.parametrize("name", [*INT_OPS, *COMPARE])
@pytest.mark.parametrize("dtype", INTS, ids=str)
def test_integer_operators(name, dtype):
    pairs = [(a, b) for a in int_samples(dtype) for b in int_samples(dtype) if name != "pow" or abs(b) < 40]
    a, b = buf("a", len(pairs), dtype=dtype), buf("b", len(pairs), dtype=dtype)
    result = "bool" if name in COMPARE else dtype
    k = elementwise(op(name, at(a, I), at(b, I)), [a, b], result, len(pairs))
    got = outputs(k, host([p[0] for p in pairs], dtype), host([p[1] for p in pairs], dtype), zeros(len(pairs), dtype=result))
    all_agree(got, [reference.binary(name, x, y, dtype) for x, y in pairs], pairs)


@pytest.mark.parametrize("name", INT_OPS)
def test_index_operators_on_single_values(name):
    """One value for the whole block is a Python int, which must wrap all the same."""
    dtype = DType("int64")
    for a in int_samples(dtype):
        for b in int_samples(dtype):
            if name == "pow" and abs(b) > 40:
                continue
            got = binary(name, dtype)(a, b)
            assert type(got) is int
            assert got == reference.binary(name, a, b, dtype), (a, b)


@pytest.mark.parametrize("name", ["add", "sub", "mul", "div", "min", "max", "copysign", "fmod", *COMPARE])
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_float_operators(name, dtype):
    pairs = [(a, b) for a in float_samples(dtype) for b in float_samples(dtype)]
    if name in ("min", "max"):
        pairs = [(a, b) for a, b in pairs if not (a == 0 and b == 0)]  # which zero is left open
    a, b = buf("a", len(pairs), dtype=dtype), buf("b", len(pairs), dtype=dtype)
    result = "bool" if name in COMPARE else dtype
    k = elementwise(op(name, at(a, I), at(b, I)), [a, b], result, len(pairs))
    got = outputs(k, host([p[0] for p in pairs], dtype), host([p[1] for p in pairs], dtype), zeros(len(pairs), dtype=result))
    all_agree(got, [reference.binary(name, x, y, dtype) for x, y in pairs], pairs)


@pytest.mark.parametrize("name", ["neg", "abs", "bitnot", "popcount", "clz", "floor", "isnan", "isfinite"])
@pytest.mark.parametrize("dtype", INTS, ids=str)
def test_integer_functions(name, dtype):
    values = int_samples(dtype)
    a = buf("a", len(values), dtype=dtype)
    result = "bool" if name in BOOL_UNARY else dtype
    got = outputs(elementwise(un(name, at(a, I)), [a], result, len(values)), host(values, dtype), zeros(len(values), dtype=result))
    all_agree(got, [reference.unary(name, x, dtype) for x in values], values)


@pytest.mark.parametrize("name", ["neg", "abs", "floor", "ceil", "trunc", "round", "nearbyint", "isnan", "isinf", "isfinite", "sqrt"])
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_float_functions(name, dtype):
    values = float_samples(dtype)
    a = buf("a", len(values), dtype=dtype)
    result = "bool" if name in BOOL_UNARY else dtype
    got = outputs(elementwise(un(name, at(a, I)), [a], result, len(values)), host(values, dtype), zeros(len(values), dtype=result))
    all_agree(got, [reference.unary(name, x, dtype) for x in values], values)


SMOOTH = {
    "exp": math.exp, "exp2": lambda x: 2.0**x, "exp10": lambda x: 10.0**x, "log": math.log, "log2": math.log2, "log10": math.log10,
    "log1p": math.log1p, "expm1": math.expm1, "rsqrt": lambda x: 1 / math.sqrt(x), "sin": math.sin, "cos": math.cos, "tan": math.tan,
    "asin": math.asin, "acos": math.acos, "atan": math.atan, "sinh": math.sinh, "cosh": math.cosh, "tanh": math.tanh,
    "asinh": math.asinh, "acosh": lambda x: math.acosh(x + 1), "atanh": math.atanh, "erf": math.erf, "sigmoid": lambda x: 1 / (1 + math.exp(-x)),
}  # fmt: skip


@pytest.mark.parametrize("name", SMOOTH)
@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
def test_smooth_functions(name, dtype):
    values = [0.0625 * i for i in range(1, 16)]
    shift = 1.0 if name == "acosh" else 0.0
    dtype = DType(dtype)
    a = buf("a", len(values), dtype=dtype)
    got = outputs(elementwise(un(name, at(a, I)), [a], dtype, len(values)), host([v + shift for v in values], dtype), zeros(len(values), dtype=dtype))
    want = np.array([SMOOTH[name](v) for v in values])
    # a few units in the last place of the type that computes, and one rounding to the narrow type
    bound = 4 * max(DType("float32").unit_roundoff, 0.0) * (dtype.bits < 64) + 8 * DType("float64").unit_roundoff + dtype.unit_roundoff
    np.testing.assert_allclose(got.astype(np.float64), want, rtol=bound, atol=0)


@pytest.mark.parametrize("source", [*INTS, *FLOATS, DType("bool")], ids=str)
@pytest.mark.parametrize("target", [*INTS, *FLOATS, DType("bool")], ids=str)
def test_casts(source, target):
    values = samples(source)
    if source.is_int and source.bits == 64 and target in ("bfloat16", "float8_e4m3fn", "float8_e5m2", "float16"):
        values = [v for v in values if abs(v) < 2**53]
    a = buf("a", len(values), dtype=source)
    got = outputs(elementwise(Cast(at(a, I), target), [a], target, len(values)), host(values, source), zeros(len(values), dtype=target))
    all_agree(got, [reference.cast(x, source, target) for x in values], values)
    for x, want in zip(values, [reference.cast(x, source, target) for x in values], strict=True):  # one value for all lanes
        change = caster(source, target)
        with np.errstate(all="ignore"):
            one = scalar(x, source)
            assert reference.same(one if change is None else change(one), want), x


@pytest.mark.parametrize(
    ("exact", "want"), [(259, 260.0), (33000, 33024.0), (257, 256.0), (2**24 + 2**16 + 1, 2.0**24 + 2.0**17), (2**30 + 2**22 + 1, 2.0**30 + 2.0**23)]
)
def test_int_to_bfloat16_rounds_once(exact, want):
    """The last two lie just above a tie that a first rounding to float32 would hide or keep."""
    assert float(caster(DType("int32"), DType("bfloat16"))(np.int32(exact))) == want


@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e4m3fn", "float8_e5m2", "float16"])
def test_double_rounds_once(dtype):
    dtype = DType(dtype)
    random = np.random.default_rng(7)
    values = [float(np.float32(v)) + d for v in random.standard_normal(200) for d in (0.0, 2.0**-40, -(2.0**-40))]
    ties = [1 + dtype.unit_roundoff + d for d in (0.0, 2.0**-30, -(2.0**-30))]
    for x in values + ties:
        assert reference.same(caster(DType("float64"), dtype)(np.float64(x)), reference.round_float(x, dtype)), x


@pytest.mark.parametrize("dtype", [t for t in FLOATS if t.bits == 8], ids=str)
def test_every_float8_code_survives(dtype):
    codes = np.arange(256, dtype=np.uint8)
    values = from_storage(codes.view(storage_dtype(dtype)), dtype)
    back = reinterpreter(dtype, DType("uint8"))(values)
    same = (back == codes) | np.isnan(values)
    assert same.all()
    again = reinterpreter(DType("uint8"), dtype)(codes)
    np.testing.assert_array_equal(again, values)


@pytest.mark.parametrize(
    ("source", "target"), [("float32", "uint32"), ("int16", "float16"), ("uint8", "int8"), ("int4", "uint4"), ("int64", "float64")]
)
def test_reinterpret(source, target):
    source, target = DType(source), DType(target)
    values = samples(source)
    a = buf("a", len(values), dtype=source)
    k = elementwise(Reinterpret(at(a, I), target), [a], target, len(values))
    got = outputs(k, host(values, source), zeros(len(values), dtype=target))
    all_agree(got, [reference.from_bytes(reference.to_bytes(x, source), target) for x in values], values)


def test_compute_dtypes():
    assert compute_dtype(DType("bfloat16")) == np.float32
    assert compute_dtype(DType("uint4")) == np.uint8
    assert compute_dtype(DType("float64")) == np.float64
