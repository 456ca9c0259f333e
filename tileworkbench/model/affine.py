"""Index expressions that are sums of loop variables times constants: the interval that they cover, without visiting the iterations.

>>> from tileworkbench.ir.expr import Binary, Const, Var
>>> lane = Lanes.single().ranged("bx", 0, 9).ranged("i", 0, 63)
>>> start = Binary("add", Binary("mul", Var("bx"), Const(64)), Var("i"))
>>> interval_of(start, 1, lane, Evaluator()), interval_of(Binary("mul", Var("bx"), Const(64)), 32, lane, Evaluator())
((0, 640), None)
"""

from __future__ import annotations

from ..ir.expr import Binary, Cast, Const, Expr, Unary, Var
from .space import Evaluator, Lanes

Linear = tuple[int, dict[str, int]]  # a constant, and a factor for each loop variable


def interval_of(expr: Expr, extent: int, lane: Lanes, evaluate: Evaluator) -> tuple[int, int] | None:
    """The elements that boxes of `extent` at every value of `expr` cover together on one lane, as [first, behind the last).

    None where they leave gaps, or where `expr` is not such a sum.
    """
    found = linear(expr, lane, evaluate)
    if found is None or extent <= 0:
        return None
    first, factors = found
    steps = []
    for name, factor in factors.items():
        low, high = (int(side[0]) for side in lane.ranges[name])
        every = abs(evaluate.steps.get(name, 1))
        if factor and high > low:
            steps.append((abs(factor) * every, (high - low) // every))
        first += factor * (low if factor > 0 else low + (high - low) // every * every)
    reach = extent
    for step, times in sorted(steps):
        if step > reach:
            return None
        reach += step * times
    return first, first + reach


def linear(expr: Expr, lane: Lanes, evaluate: Evaluator) -> Linear | None:
    """`expr` as a constant plus factors times the loops that range on `lane`; None if it is none."""
    match expr:
        case Const(value) if isinstance(value, int):
            return int(value), {}
        case Var(name):
            return _variable(name, lane, evaluate)
        case Unary("neg", x):
            inner = linear(x, lane, evaluate)
            return None if inner is None else _scaled(inner, -1)
        case Cast(x, dtype) if dtype.is_int and x.dtype.is_int:
            return linear(x, lane, evaluate)
        case Binary("add" | "sub" as op, a, b):
            left, right = linear(a, lane, evaluate), linear(b, lane, evaluate)
            if left is None or right is None:
                return None
            more = _scaled(right, -1) if op == "sub" else right
            names = {**left[1], **more[1]}
            return left[0] + more[0], {n: left[1].get(n, 0) + more[1].get(n, 0) for n in names}
        case Binary("mul", a, b):
            left, right = linear(a, lane, evaluate), linear(b, lane, evaluate)
            if left is None or right is None or (left[1] and right[1]):
                return None
            return _scaled(left, right[0]) if left[1] else _scaled(right, left[0])
        case _:
            return None


def _variable(name: str, lane: Lanes, evaluate: Evaluator) -> Linear | None:
    if name in lane.ranges:
        return 0, {name: 1}
    known = lane.values.get(name)
    if known is not None and known.dtype.kind in "iu":
        return int(known[0]), {}
    return linear(evaluate.definitions[name], lane, evaluate) if name in evaluate.definitions and known is None else None


def _scaled(x: Linear, factor: int) -> Linear:
    return x[0] * factor, {n: f * factor for n, f in x[1].items()}
