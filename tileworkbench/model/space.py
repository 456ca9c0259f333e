"""Iteration spaces: where a statement runs, and what its index expressions are there.

A *lane* is a set of points of the iteration space that are handled alike. Each variable is either known on a lane (one value) or ranges
over an interval (all points of the interval are meant). `Lanes` holds many lanes as NumPy columns, so a whole grid is evaluated at once.

>>> from tileworkbench.ir.expr import Binary, Const, Var
>>> lanes = Lanes.single().ranged("k", 0, 15)            # one lane that stands for the 16 iterations k = 0 .. 15
>>> start = Binary("mul", Var("k"), Const(64))
>>> lo, hi = Evaluator().bounds(start, lanes)
>>> lo.tolist(), hi.tolist(), lanes.points.tolist()
([0], [960], [16.0])
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..ir.expr import Binary, Cast, Const, Expr, Load, Reinterpret, Select, Unary, Var

Array = NDArray[Any]
Bounds = tuple[Any, Any]  # lowest and highest value, each a scalar or one value a lane; the same object twice where they are one
ANY: Bounds = (-np.inf, np.inf)


@dataclass(frozen=True, slots=True)
class Lanes:
    """`size` lanes. `values`: a variable's value on each lane, None where it depends on data. `ranges`: inclusive intervals.

    `points` is how many executions a lane stands for: the product of its ranges' lengths, times what sampling left out.
    """

    size: int
    values: Mapping[str, Array | None]
    ranges: Mapping[str, tuple[Array, Array]]
    points: Array

    @staticmethod
    def single(values: Mapping[str, Any] | None = None) -> Lanes:
        """One lane that runs once, with some variables known."""
        known = {name: np.asarray([value]) for name, value in (values or {}).items()}
        return Lanes(1, known, {}, np.ones(1))

    def bind(self, name: str, value: Bounds | None) -> Lanes:
        """The lanes with one more variable, known, ranging, or (None) dependent on data."""
        if value is None:
            return replace(self, values={**self.values, name: None})
        lo, hi = value
        if lo is hi:
            return replace(self, values={**self.values, name: self.column(lo)})
        return replace(self, ranges={**self.ranges, name: (self.column(lo), self.column(hi))})

    def ranged(self, name: str, lo: Any, hi: Any) -> Lanes:
        """The lanes where `name` runs over `lo..hi` without being told apart; points grow by the length. Lanes with an empty range must be gone."""
        low, high = self.column(lo), self.column(hi)
        length = np.maximum(high - low + 1, 0)
        return replace(self, ranges={**self.ranges, name: (low, high)}, points=self.points * length)

    def expanded(self, name: str, start: Any, count: Any, step: int = 1) -> tuple[Lanes, Array]:
        """A lane for every iteration `start, start + step, ...` (`count` of them), in order, and the index of each one's old lane."""
        counts = np.maximum(self.column(count).astype(np.int64), 0)
        parent = np.repeat(np.arange(self.size), counts)
        first = np.cumsum(counts) - counts
        offset = np.arange(parent.size) - first[parent]
        taken = self.take(parent)
        value = self.column(start).astype(np.int64)[parent] + step * offset
        return replace(taken, values={**taken.values, name: value}), parent

    def take(self, index: Array) -> Lanes:
        """The lanes of `index` (positions or a mask), in that order."""
        values = {k: None if v is None else v[index] for k, v in self.values.items()}
        ranges = {k: (lo[index], hi[index]) for k, (lo, hi) in self.ranges.items()}
        points = self.points[index]
        return Lanes(len(points), values, ranges, points)

    def scaled(self, factor: Any) -> Lanes:
        """The lanes, each standing for `factor` times as many executions."""
        return replace(self, points=self.points * factor)

    def column(self, value: Any) -> Array:
        """`value` as one number a lane."""
        array = np.asarray(value)
        return array if array.shape == (self.size,) else np.broadcast_to(array, (self.size,))


class Evaluator:
    """Values of expressions on lanes, as intervals. `arrays` may hold the contents of global buffers, so that bounds read from data are known."""

    def __init__(self, arrays: Mapping[str, Array] | None = None) -> None:
        self.arrays = arrays or {}
        self.definitions: dict[str, Expr] = {}  # what each `Let` variable stands for, for lanes that do not hold its value
        self.steps: dict[str, int] = {}  # the step of each loop variable that has one other than 1

    def bounds(self, expr: Expr, lanes: Lanes) -> Bounds | None:
        """Lowest and highest value of `expr` on each lane; None if it depends on data that is not known.

        The interval holds every value but may be wider than needed. When `lo is hi` the value is exact.
        """
        match expr:
            case Const(value):
                return value, value
            case Var(name):
                return self._variable(name, lanes)
            case Binary(op, a, b):
                return _binary(op, self.bounds(a, lanes), self.bounds(b, lanes))
            case Unary(op, x):
                return _unary(op, self.bounds(x, lanes))
            case Select(cond, then, other):
                return self._select(cond, then, other, lanes)
            case Cast(x, dtype):
                found = self.bounds(x, lanes)
                if found is None or not dtype.is_int or x.dtype.is_int:
                    return found
                return _map(np.trunc, found)
            case Load():
                return self._load(expr, lanes)
            case Reinterpret():
                return None
            case _:
                return None

    def _variable(self, name: str, lanes: Lanes) -> Bounds | None:
        if name in lanes.ranges:
            return lanes.ranges[name]
        if name not in lanes.values:
            return self.bounds(self.definitions[name], lanes) if name in self.definitions else None
        value = lanes.values[name]
        return None if value is None else (value, value)

    def _select(self, cond: Expr, then: Expr, other: Expr, lanes: Lanes) -> Bounds | None:
        chosen, a, b = self.bounds(cond, lanes), self.bounds(then, lanes), self.bounds(other, lanes)
        if chosen is None or a is None or b is None:
            return None
        if _exact(chosen) and _exact(a) and _exact(b):
            value = np.where(chosen[0], a[0], b[0])
            return value, value
        return np.minimum(a[0], b[0]), np.maximum(a[1], b[1])

    def _load(self, load: Load, lanes: Lanes) -> Bounds | None:
        array = self.arrays.get(load.buffer.name)
        if array is None or array.ndim != len(load.indices):
            return None
        indices = [self.bounds(i, lanes) for i in load.indices]
        if any(i is None for i in indices):
            return None
        if not all(_exact(i) for i in indices if i is not None):
            return ANY
        columns = [np.asarray(i[0]) for i in indices if i is not None]
        inside = np.all([(c >= 0) & (c < n) for c, n in zip(np.broadcast_arrays(*columns), array.shape, strict=True)], axis=0)
        clipped = tuple(np.clip(c, 0, max(n - 1, 0)).astype(np.int64) for c, n in zip(columns, array.shape, strict=True))
        value = np.where(inside, array[clipped], load.buffer.safe_value or 0) if array.size else np.zeros(inside.shape)
        return value, value


def is_exact(bounds: Bounds) -> bool:
    """Whether an interval is a single value on every lane."""
    return _exact(bounds)


def _exact(bounds: Bounds) -> bool:
    return bounds[0] is bounds[1]


def _map(function: Any, x: Bounds) -> Bounds:
    """A rising function of an interval."""
    lo = function(x[0])
    return (lo, lo) if _exact(x) else (lo, function(x[1]))


def _unary(op: str, x: Bounds | None) -> Bounds | None:
    if x is None:
        return None
    if op == "neg":
        lo = np.negative(x[1])
        return (lo, lo) if _exact(x) else (lo, np.negative(x[0]))
    if op == "not":
        lo = np.logical_not(x[1])
        return (lo, lo) if _exact(x) else (lo, np.logical_not(x[0]))
    if op == "abs" and _exact(x):
        lo = np.abs(x[0])
        return lo, lo
    return ANY if not _exact(x) else None


_EXACT: dict[str, Any] = {
    "bitand": np.bitwise_and, "bitor": np.bitwise_or, "bitxor": np.bitwise_xor, "shl": np.left_shift, "shr": np.right_shift,
    "truncmod": np.fmod, "div": np.true_divide, "pow": np.power,
}  # fmt: skip


def _binary(op: str, a: Bounds | None, b: Bounds | None) -> Bounds | None:
    if op in ("and", "or"):
        return _logical(op, a, b)
    if a is None or b is None:
        return None
    exact = _exact(a) and _exact(b)
    match op:
        case "add":
            lo = np.add(a[0], b[0])
            return (lo, lo) if exact else (lo, np.add(a[1], b[1]))
        case "sub":
            lo = np.subtract(a[0], b[1])
            return (lo, lo) if exact else (lo, np.subtract(a[1], b[0]))
        case "mul":
            return _corners(np.multiply, a, b, exact)
        case "min" | "max":
            function = np.minimum if op == "min" else np.maximum
            lo = function(a[0], b[0])
            return (lo, lo) if exact else (lo, function(a[1], b[1]))
        case "floordiv" | "truncdiv" | "floormod":
            return _divide(op, a, b, exact)
        case "lt" | "le" | "gt" | "ge" | "eq" | "ne":
            return _compare(op, a, b, exact)
        case _ if exact and op in _EXACT:
            lo = _EXACT[op](a[0], b[0])
            return lo, lo
        case _:
            return ANY if not exact else None


def _corners(function: Any, a: Bounds, b: Bounds, exact: bool) -> Bounds:
    lo = function(a[0], b[0])
    if exact:
        return lo, lo
    corners = [lo, function(a[0], b[1]), function(a[1], b[0]), function(a[1], b[1])]
    return np.minimum.reduce(np.broadcast_arrays(*corners)), np.maximum.reduce(np.broadcast_arrays(*corners))


def _divide(op: str, a: Bounds, b: Bounds, exact: bool) -> Bounds:
    """Integer division and remainder; by zero gives 0, as in the language."""
    if not exact and not (_exact(b) and np.all(np.asarray(b[0]) > 0)):
        return ANY
    divisor = np.where(np.asarray(b[0]) == 0, 1, b[0])
    zero = np.asarray(b[0]) == 0
    if op == "floordiv" or op == "truncdiv":
        divide = np.floor_divide if op == "floordiv" else lambda x, y: np.trunc(np.true_divide(x, y)).astype(np.int64)
        lo = np.where(zero, 0, divide(a[0], divisor))
        return (lo, lo) if exact else (lo, divide(a[1], divisor))
    low = np.where(zero, 0, np.mod(a[0], divisor))
    if exact:
        return low, low
    same = np.floor_divide(a[0], divisor) == np.floor_divide(a[1], divisor)
    return np.where(same, low, 0), np.where(same, np.mod(a[1], divisor), divisor - 1)


_NEGATED = {"gt": "le", "ge": "lt", "ne": "eq"}


def _compare(op: str, a: Bounds, b: Bounds, exact: bool) -> Bounds:
    """(certainly, possibly) true."""
    if op in _NEGATED:
        certain, possible = _compare(_NEGATED[op], a, b, exact)
        lo = np.logical_not(possible)
        return (lo, lo) if exact else (lo, np.logical_not(certain))
    if op == "eq":
        lo = np.logical_and(np.equal(a[0], b[1]), np.equal(a[1], b[0]))
        return (lo, lo) if exact else (lo, np.logical_and(np.less_equal(a[0], b[1]), np.less_equal(b[0], a[1])))
    less = np.less if op == "lt" else np.less_equal
    lo = less(a[1], b[0])
    return (lo, lo) if exact else (lo, less(a[0], b[1]))


def _logical(op: str, a: Bounds | None, b: Bounds | None) -> Bounds | None:
    if a is None and b is None:
        return None
    if a is None or b is None:
        known = a if a is not None else b
        assert known is not None
        settled = not np.any(known[1]) if op == "and" else np.all(known[0])  # the known side decides alone
        return known if settled else None
    function = np.logical_and if op == "and" else np.logical_or
    lo = function(a[0], b[0])
    return (lo, lo) if _exact(a) and _exact(b) else (lo, function(a[1], b[1]))
