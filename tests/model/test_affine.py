"""Intervals of affine indices, against visiting every iteration."""

from __future__ import annotations

from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from tileworkbench.base.dtypes import FLOAT32
from tileworkbench.ir.expr import Binary, Buffer, Const, Expr, Load, Var
from tileworkbench.model.affine import interval_of, linear
from tileworkbench.model.space import Evaluator, Lanes

NAMES = ("i", "j", "k")


def plus(*terms: Expr) -> Expr:
    out = terms[0]
    for term in terms[1:]:
        out = Binary("add", out, term)
    return out


@given(
    st.lists(st.integers(-9, 9), min_size=3, max_size=3),
    st.lists(st.tuples(st.integers(-4, 4), st.integers(1, 6)), min_size=3, max_size=3),
    st.integers(1, 8),
    st.integers(-20, 20),
)
def test_an_interval_is_what_all_iterations_cover(factors: list[int], ranges: list[tuple[int, int]], extent: int, constant: int) -> None:
    lane = Lanes.single()
    for name, (low, count) in zip(NAMES, ranges, strict=True):
        lane = lane.ranged(name, low, low + count - 1)
    expr = plus(Const(constant), *(Binary("mul", Const(f), Var(n)) for f, n in zip(factors, NAMES, strict=True)))
    covered = set()
    for at in product(*(range(low, low + count) for low, count in ranges)):
        first = constant + sum(f * x for f, x in zip(factors, at, strict=True))
        covered |= set(range(first, first + extent))
    found = interval_of(expr, extent, lane, Evaluator())
    if found is not None:
        assert covered == set(range(*found))


def test_tiles_side_by_side_are_one_interval() -> None:
    lane = Lanes.single().ranged("i", 0, 63).ranged("bx", 0, 9).ranged("k", 0, 3)
    tile = plus(Binary("mul", Var("bx"), Const(256)), Binary("mul", Var("k"), Const(64)), Var("i"))
    assert interval_of(tile, 1, lane, Evaluator()) == (0, 2560)


def test_steps_of_loops_and_lets_are_followed() -> None:
    evaluate = Evaluator()
    evaluate.steps["k"] = 4
    evaluate.definitions["row"] = Binary("mul", Var("k"), Const(8))
    lane = Lanes.single({"n": 3}).ranged("k", 0, 8)
    assert interval_of(Var("row"), 32, lane, evaluate) == (0, 96)
    assert interval_of(Var("row"), 31, lane, evaluate) is None, "k is 0, 4, 8: gaps of one element"
    assert interval_of(Binary("sub", Var("n"), Var("k")), 4, lane, evaluate) == (-5, 7)


def test_what_is_no_sum_is_left_to_others() -> None:
    lane = Lanes.single().ranged("i", 0, 7)
    table = Buffer("t", (Const(8),), FLOAT32)
    for expr in (Binary("floordiv", Var("i"), Const(2)), Binary("mul", Var("i"), Var("i")), Load(table, (Var("i"),)), Var("unknown")):
        assert linear(expr, lane, Evaluator()) is None and interval_of(expr, 1, lane, Evaluator()) is None
