"""Proofs about integers: what is provable, and that nothing false is ever proved."""

from __future__ import annotations

import itertools
import random

import pytest
from codegen.ir_kit import Cast, Var, add, ix, lt, mul, op

from tileworkbench.analysis.aliasing import is_one_index
from tileworkbench.analysis.bounds import Bounds
from tileworkbench.analysis.linear import linear, to_expr
from tileworkbench.base.dtypes import INT32, DType
from tileworkbench.ir.expr import Binary, Const, Expr, Select, Unary

I, J, K, BX, M, N = (Var(n) for n in ("i", "j", "k", "bx", "m", "n"))


def scope(**ranges: int) -> Bounds:
    b = Bounds()
    for name, extent in ranges.items():
        b.bind(Var(name), ix(0), ix(extent))
    return b


def test_intervals() -> None:
    b = scope(i=8, j=16)
    assert b.interval(add(mul(I, 16), J)) == (0, 127)
    assert b.interval(op("sub", I, mul(J, 2))) == (-30, 7)
    assert b.interval(op("floordiv", add(mul(I, 16), J), 5)) == (0, 25)
    assert b.interval(op("floormod", op("sub", I, 20), 5)) == (0, 4)
    assert b.interval(op("min", I, op("sub", J, 3))) == (-3, 7)
    assert b.interval(op("max", I, 3)) == (3, 7)
    assert b.interval(op("bitand", J, 3)) == (0, 3)
    assert b.interval(op("bitxor", I, J)) == b.interval(op("bitor", I, J)) == (0, 15)
    assert b.interval(op("bitxor", I, op("sub", J, 1))) == (None, None)
    assert b.interval(op("shr", J, 2)) == (0, 3)
    assert b.interval(Select(lt(I, 3), ix(-5), J)) == (-5, 15)


def test_narrow_integers_wrap() -> None:
    """A sum of int32 values is not a sum of numbers."""
    b, x = Bounds(), Var("x", INT32)
    assert b.interval(x) == (-(1 << 31), (1 << 31) - 1)
    assert b.interval(Cast(op("add", x, 1), DType("int64"))) == (-(1 << 31), (1 << 31) - 1)
    assert b.interval(Cast(x, DType("uint8"))) == (0, 255)


def test_divisible_tiles_are_inside() -> None:
    b = scope(bx=16, i=64)
    assert b.is_inside(add(mul(BX, 64), I), ix(1024)) == (True, True)
    assert b.is_inside(add(mul(BX, 64), I), ix(1023)) == (True, False)
    assert b.is_inside(op("sub", add(mul(BX, 64), I), 1), ix(1024)) == (False, True)


def test_equal_indices() -> None:
    b = scope(bx=16, i=1, j=8)
    assert is_one_index(add(mul(BX, 4), J), add(J, mul(BX, 4)), b)
    assert is_one_index(BX, add(BX, I), b), "a loop of one turn"
    assert not any(is_one_index(i, j, b) for i, j in ((BX, add(BX, J)), (BX, add(BX, 1)), (I, J)))


def test_a_symbolic_grid_of_whole_tiles() -> None:
    """by < M // 64 and i < 64 put by*64 + i inside M; by < ceildiv(M, 64) does not."""
    b = Bounds()
    b.bind_dim(M)
    b.bind(BX, ix(0), op("floordiv", M, 64))
    b.bind(I, ix(0), ix(64))
    assert b.is_inside(add(mul(BX, 64), I), M) == (True, True)
    b = Bounds()
    b.bind_dim(M)
    b.bind(BX, ix(0), op("floordiv", add(M, 63), 64))
    b.bind(I, ix(0), ix(64))
    assert b.is_inside(add(mul(BX, 64), I), M) == (True, False)


def test_conditions_are_facts_until_popped() -> None:
    b = scope(bx=10, i=64)
    b.bind_dim(M)
    row = add(mul(BX, 64), I)
    b.push()
    b.assume(Binary("and", lt(row, M), op("ge", row, 1)))
    assert b.is_inside(row, M) == (True, True)
    assert b.is_inside(op("sub", row, 1), M) == (True, True)
    assert not b.is_inside(add(row, 1), M)[1]
    b.pop()
    assert not b.is_inside(row, M)[1]
    b.push()
    b.assume(Binary("or", op("ge", row, M), lt(I, 5)), holds=False)
    assert b.is_inside(row, M)[1]
    assert b.is_inside(op("sub", I, 5), ix(64))[0]


def test_definitions_are_seen_through() -> None:
    b = scope(bx=4, i=8)
    b.define(K, add(mul(BX, 8), I))
    assert b.interval(K) == (0, 31)
    assert repr(b.sum(op("floordiv", K, 8))) == "bx"
    assert repr(b.sum(op("floormod", K, 8))) == "i"


def test_truth() -> None:
    b = scope(i=8)
    assert b.truth(lt(I, 8)) is True
    assert b.truth(op("ge", I, 8)) is False
    assert b.truth(lt(I, 7)) is None
    assert b.truth(op("eq", I, 9)) is False
    assert b.truth(op("ne", I, I)) is False
    assert b.truth(Binary("or", lt(I, 7), lt(I, 8))) is True
    assert b.truth(Unary("not", lt(I, 8))) is False


def random_index(rng: random.Random, depth: int) -> Expr:
    if depth == 0 or rng.random() < 0.2:
        return rng.choice([I, J, K, ix(rng.randint(-6, 6))])
    kind = rng.choice(
        ["add", "sub", "mul", "floordiv", "floormod", "min", "max", "truncdiv", "truncmod", "bitand", "bitor", "bitxor", "shr", "select"]
    )
    a, b = random_index(rng, depth - 1), random_index(rng, depth - 1)
    if kind in ("floordiv", "floormod", "truncdiv", "truncmod"):
        return op(kind, a, rng.choice([1, 2, 3, 4, 7, -3]))
    if kind == "shr":
        return op("shr", a, rng.randint(0, 3))
    return Select(lt(a, b), b, a) if kind == "select" else op(kind, a, b)


def value(e: Expr, env: dict[str, int]) -> int:
    match e:
        case Const(v):
            return int(v)
        case Var(name):
            return env[name]
        case Unary("neg", x):
            return -value(x, env)
        case Select(c, a, b):
            return value(a, env) if value(c, env) else value(b, env)
        case Binary(name, a, b):
            x, y = value(a, env), value(b, env)
            quotient = abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1) if name.startswith("trunc") else 0
            return {
                "add": lambda: x + y, "sub": lambda: x - y, "mul": lambda: x * y, "floordiv": lambda: x // y, "floormod": lambda: x % y,
                "min": lambda: min(x, y), "max": lambda: max(x, y), "bitand": lambda: x & y, "shr": lambda: x >> y, "lt": lambda: int(x < y),
                "bitor": lambda: x | y, "bitxor": lambda: x ^ y, "truncdiv": lambda: quotient, "truncmod": lambda: x - quotient * y,
            }[name]()  # fmt: skip
    raise AssertionError(e)


@pytest.mark.parametrize("seed", range(300))
def test_nothing_false_is_proved(seed: int) -> None:
    """Every value of a random index lies in the interval, under a random condition too, and sums are rewritten to equals."""
    rng = random.Random(seed)
    e, cond = random_index(rng, 3), lt(random_index(rng, 1), random_index(rng, 1))
    b = scope(i=4, j=5)
    b.bind(K, ix(2), ix(-2), -1)
    b.push()
    b.assume(cond)
    low, high = b.interval(e)
    same = to_expr(b.sum(e))
    at_least = b.at_least_zero(b.sum(e))
    for i, j, k in itertools.product(range(4), range(5), range(2, -2, -1)):
        env = {"i": i, "j": j, "k": k}
        if not value(cond, env):
            continue
        found = value(e, env)
        assert low is None or low <= found
        assert high is None or found <= high
        assert value(same, env) == found
        assert found >= 0 or not at_least


def test_sums_print_and_return() -> None:
    form = linear(op("sub", add(mul(I, 3), 5), mul(add(J, 1), 4)))
    assert repr(form) == "3*i - 4*j + 1"
    assert linear(to_expr(form)).key() == form.key()
