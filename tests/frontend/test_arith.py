"""Promotion, folding and affine differences of expressions."""

from __future__ import annotations

import math
import operator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tileworkbench.base.dtypes import BOOL, FLOAT16, FLOAT32, INDEX, INT32, INT64, DType
from tileworkbench.base.errors import TileTypeError
from tileworkbench.frontend import arith
from tileworkbench.ir.expr import Binary, Cast, Const, Expr, Unary, Var, const
from tileworkbench.ir.printer import print_expr

U8, F8 = DType("uint8"), DType("float8_e4m3fn")
NAMES = "ijk"


@pytest.mark.parametrize(
    ("value", "other", "expected"),
    [
        (2, FLOAT16, FLOAT16), (0.5, FLOAT16, FLOAT16), (1.5, INT32, FLOAT32), (300, U8, INT32), (255, U8, U8), (-1, U8, INT32),
        (1 << 40, INT32, INT64), (3, BOOL, INT32), (True, INT32, INT32), (2, None, INDEX), (2.0, None, FLOAT32), (np.float64(0.1), FLOAT16, FLOAT16),
    ],
)  # fmt: skip
def test_a_literal_takes_the_dtype_beside_it_if_that_can_hold_it(value, other, expected):
    found = arith.literal(value, other)
    assert found.type == expected
    assert float(found.value) == float(value) or expected == FLOAT16


@pytest.mark.parametrize(
    ("op", "a", "b", "expected"),
    [
        ("add", FLOAT16, FLOAT32, FLOAT32), ("add", FLOAT16, DType("bfloat16"), FLOAT32), ("mul", INT32, FLOAT16, FLOAT16),
        ("div", INT32, INT32, FLOAT32), ("add", U8, DType("int8"), DType("int8")), ("add", BOOL, BOOL, INT32), ("lt", INT32, FLOAT32, BOOL),
        ("bitand", BOOL, BOOL, BOOL), ("shl", U8, INT32, INT32), ("max", BOOL, BOOL, BOOL), ("pow", INT32, FLOAT32, FLOAT32),
        ("add", F8, FLOAT16, FLOAT16),
    ],
)  # fmt: skip
def test_promotion(op, a, b, expected):
    assert arith.binary(op, Var("a", a), Var("b", b)).dtype == expected


def test_both_operands_have_one_dtype():
    e = arith.binary("add", Var("a", INT32), Var("b", FLOAT16))
    assert e == Binary("add", Cast(Var("a", INT32), FLOAT16), Var("b", FLOAT16))


# ---------------------------------------------------------------------------------------------- folding
def evaluate(e: Expr, env: dict[str, int]) -> int:
    ops = {"add": operator.add, "sub": operator.sub, "mul": operator.mul, "min": min, "max": max,
           "floordiv": lambda a, b: a // b if b else 0, "floormod": lambda a, b: a % b if b else 0}  # fmt: skip
    match e:
        case Const(value, _):
            return int(value)
        case Var(name):
            return env[name]
        case Unary("neg", x):
            return -evaluate(x, env)
        case Binary(op, a, b):
            return ops[op](evaluate(a, env), evaluate(b, env))
    raise AssertionError(e)


def trees(depth: int) -> st.SearchStrategy:
    """(built through arith, the same computed in Python)."""
    numbers = st.integers(-70, 70).map(lambda n: (const(n), lambda env: n))
    leaf = st.one_of(numbers, st.sampled_from(NAMES).map(lambda n: (Var(n), lambda env: env[n])))
    if depth == 0:
        return leaf
    python = {"add": operator.add, "sub": operator.sub, "mul": operator.mul, "min": min, "max": max,
              "floordiv": lambda a, b: a // b if b else 0, "floormod": lambda a, b: a % b if b else 0}  # fmt: skip

    def join(op, a, b):
        return arith.binary(op, a[0], b[0]), lambda env: python[op](a[1](env), b[1](env))

    below = trees(depth - 1)
    return st.one_of(leaf, st.builds(join, st.sampled_from(sorted(python)), below, below))


ENV = st.fixed_dictionaries({n: st.integers(-50, 50) for n in NAMES})


@settings(max_examples=300, deadline=None)
@given(trees(4), ENV)
def test_simplification_keeps_the_value(tree, env):
    assert evaluate(tree[0], env) == tree[1](env)


@settings(max_examples=300, deadline=None)
@given(trees(3), trees(3), ENV)
def test_difference_keeps_the_value(a, b, env):
    assert evaluate(arith.difference(a[0], b[0]), env) == a[1](env) - b[1](env)
    equal = arith.is_equal(a[0], b[0])
    assert equal is None or equal == (a[1](env) == b[1](env))


def test_difference_finds_the_length_of_a_slice():
    k, n, s = Var("k"), Var("n"), Cast(Var("s", INT32), INDEX)
    one = arith.binary("mul", k, const(64))
    two = arith.binary("mul", arith.binary("add", k, const(1)), const(64))
    assert print_expr(arith.difference(two, one)) == "64"
    assert print_expr(arith.difference(arith.binary("add", s, two), arith.binary("add", s, one))) == "64"
    symbolic = arith.binary("sub", arith.binary("mul", arith.binary("add", k, const(1)), n), arith.binary("mul", k, n))
    assert print_expr(arith.difference(symbolic, const(0))) == "n"


@pytest.mark.parametrize("dtype", [FLOAT16, FLOAT32, DType("bfloat16"), DType("float64")])
def test_folded_float_arithmetic_rounds_once(dtype):
    rng = np.random.default_rng(0)
    for x, y in rng.standard_normal((50, 2)):
        a, b = const(x, dtype), const(y, dtype)
        for op, f in (("add", operator.add), ("mul", operator.mul), ("div", operator.truediv)):
            found = arith.binary(op, a, b)
            wide = np.longdouble if dtype == "float64" else np.float64
            expected = f(wide(a.value), wide(b.value)).astype(dtype.to_numpy())
            assert isinstance(found, Const) and found.value == float(expected)


@pytest.mark.parametrize(
    ("value", "dtype", "expected"),
    [
        (1e30, INT32, 2147483647), (-5.7, U8, 0), (300.0, U8, 255), (math.nan, INT32, 0), (-math.inf, DType("int8"), -128), (2.9, INT32, 2),
        (1e20, INT64, (1 << 63) - 1),
    ],
)  # fmt: skip
def test_constant_casts_truncate_and_saturate(value, dtype, expected):
    assert arith.cast(Const(value, FLOAT32), dtype) == Const(expected, dtype)


def test_constant_int_casts_wrap():
    assert arith.cast(const(300, INT32), U8) == const(44, U8)
    assert arith.cast(const(-1, INT32), U8) == const(255, U8)


def test_small_powers_are_products():
    x = Var("x", FLOAT32)
    assert print_expr(arith.binary("pow", x, const(2, FLOAT32))) == "x * x"
    assert print_expr(arith.binary("pow", x, const(3, FLOAT32))) == "x * x * x"
    assert print_expr(arith.binary("pow", x, const(0.5, FLOAT32))) == "pow(x, 0.5f32)"
    assert arith.binary("pow", const(2, INT32), const(10, INT32)) == const(1024, INT32)


def test_negative_zero_and_nan_survive():
    minus = arith.unary("neg", const(0.0, FLOAT32))
    assert math.copysign(1, minus.value) == -1
    assert print_expr(arith.binary("add", Var("x", FLOAT32), const(0.0, FLOAT32))) == "x + 0.0f32"
    assert print_expr(arith.binary("mul", Var("x", FLOAT32), const(0.0, FLOAT32))) == "x * 0.0f32"


def test_conditions_on_bools_become_logic():
    a, b = Var("a", BOOL), Var("b", BOOL)
    assert print_expr(arith.binary("bitand", a, b)) == "a and b"
    assert print_expr(arith.unary("bitnot", a)) == "not a"
    assert arith.binary("and", const(True, BOOL), a) is a
    assert arith.binary("or", const(True, BOOL), a) == const(True, BOOL)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: arith.binary("bitand", Var("x", FLOAT32), Var("i")), "& needs integers, got float32 & int64"),
        (lambda: arith.binary("pow", Var("i"), Var("j")), "an integer power needs a constant exponent from 0 to 64, got int64 ** int64"),
        (lambda: arith.unary("popcount", Var("x", FLOAT32)), "popcount needs an integer, got float32"),
        (lambda: arith.as_index(Var("x", FLOAT32)), "an index must be an integer, got float32"),
    ],
)
def test_errors(build, message):
    with pytest.raises(TileTypeError) as caught:
        build()
    assert caught.value.message == message
