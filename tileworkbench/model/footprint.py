"""Which elements of a buffer a set of accesses touches at least once.

An access is a box whose start varies with loop variables. Per dim the starts are enumerated and merged to intervals; the union of all boxes is
counted exactly on the grid of their edges.

>>> union_volume([np.array([[0, 0]]), np.array([[2, 0]])], [np.array([[4, 4]]), np.array([[6, 4]])])   # two 4 x 4 boxes, overlapping by half
24
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import product

import numpy as np

from ..ir.expr import Expr, Var
from ..ir.node import walk
from .affine import interval_of
from .space import Array, Evaluator, Lanes

POINT_CAP = 2_000_000  # starts enumerated for one access; beyond it the bounding box is taken
CELL_CAP = 20_000_000  # cells of the grid of edges


@dataclass(slots=True)
class Footprint:
    """Collects the accesses of one buffer in one direction (read or write), and counts the elements that they touch.

    `shape` are the buffer's dims. `is_bound` turns true when the answer is only an upper bound, because there was too much to enumerate.
    """

    shape: tuple[int, ...]
    evaluate: Evaluator
    is_bound: bool = False
    _starts: list[Array] = field(default_factory=list)
    _stops: list[Array] = field(default_factory=list)

    def add(self, starts: tuple[Expr, ...], extents: tuple[int, ...], lanes: Lanes) -> None:
        """Touch the box at `starts` of size `extents` on every point of `lanes`."""
        for one in _lone_lanes(lanes, starts, self.evaluate):
            intervals = self._intervals(starts, extents, one)
            if intervals is None:
                self.is_bound = True
                self._put([[(0, n)] for n in self.shape])
            else:
                self._put(intervals)

    def add_boxes(self, starts: Array, stops: Array) -> None:
        """Touch boxes given as (boxes, rank) columns of first and last-plus-one elements; they may reach outside."""
        edge = np.asarray(self.shape, dtype=np.int64)
        low, high = np.clip(starts, 0, edge), np.clip(stops, 0, edge)
        keep = np.all(high > low, axis=1)
        self._starts.append(low[keep].astype(np.int64))
        self._stops.append(high[keep].astype(np.int64))

    def elements(self) -> int:
        """How many elements were touched."""
        return union_volume(self._starts, self._stops)

    def union_with(self, other: Footprint) -> int:
        """How many elements either of two footprints of one buffer touches."""
        return union_volume(self._starts + other._starts, self._stops + other._stops)

    def _put(self, intervals: list[list[tuple[int, int]]]) -> None:
        boxes = np.asarray(list(product(*intervals)), dtype=np.int64).reshape(-1, len(self.shape), 2)
        if len(boxes):
            self.add_boxes(boxes[:, :, 0], boxes[:, :, 1])

    def _intervals(self, starts: tuple[Expr, ...], extents: tuple[int, ...], lane: Lanes) -> list[list[tuple[int, int]]] | None:
        """Per dim the merged intervals of one lane, whose dims vary with different loops; None if a start depends on data."""
        out: list[list[tuple[int, int]]] = []
        for expr, extent in zip(starts, extents, strict=True):
            at_once = interval_of(expr, extent, lane, self.evaluate)
            if at_once is not None:
                out.append([at_once])
                continue
            value = self._starts_of(expr, lane)
            if value is None:
                return None
            out.append(_merge(value, extent))
        return out

    def _starts_of(self, expr: Expr, lane: Lanes) -> Array | None:
        for name in sorted(_varies(expr, lane, self.evaluate)):
            lane = _enumerate(name, lane, self.evaluate)
            if lane.size > POINT_CAP:
                return None
        found = self.evaluate.bounds(expr, lane)
        return None if found is None or not np.all(np.isfinite(np.asarray(found[0], dtype=float))) else np.unique(found[0])


def _lone_lanes(lanes: Lanes, starts: tuple[Expr, ...], evaluate: Evaluator) -> Iterator[Lanes]:
    """One lane at a time, with the loops that two dims share told apart and every `Let` taken back to the loops it comes from."""
    loops = {name for name in lanes.ranges if name not in evaluate.definitions}
    values = {k: v for k, v in lanes.values.items() if k not in lanes.ranges}
    bare = replace(lanes, ranges={k: v for k, v in lanes.ranges.items() if k in loops}, values=values)
    seen: set[str] = set()
    for expr in starts:
        names = _varies(expr, bare, evaluate)
        for name in sorted(names & seen):
            if name in bare.ranges:
                bare = _enumerate(name, bare, evaluate)
        seen |= names
    rows = _signature(bare, frozenset(seen), starts, evaluate)
    for index in rows:
        yield bare.take(np.asarray([index]))


def _signature(lanes: Lanes, names: frozenset[str], starts: tuple[Expr, ...], evaluate: Evaluator) -> Iterable[int]:
    """The lanes that differ in what the starts depend on: repeated boxes are dropped early."""
    used = {n.name for expr in starts for n in _variables(expr, evaluate)}
    columns = [c for k, c in lanes.values.items() if k in used and c is not None]
    columns += [side for k, pair in lanes.ranges.items() if k in names | used for side in pair]
    if not columns:
        return range(min(lanes.size, 1))
    table = np.stack([np.asarray(c, dtype=np.float64) for c in columns], axis=1)
    return [int(i) for i in np.unique(table, axis=0, return_index=True)[1]]


def _variables(expr: Expr, evaluate: Evaluator) -> Iterator[Var]:
    for node in walk(expr):
        if isinstance(node, Var):
            yield node
            if node.name in evaluate.definitions:
                yield from _variables(evaluate.definitions[node.name], evaluate)


def _varies(expr: Expr, lanes: Lanes, evaluate: Evaluator) -> set[str]:
    """The loops that still range and that `expr` varies with, seen through `Let`s."""
    return {v.name for v in _variables(expr, evaluate) if v.name in lanes.ranges}


def _enumerate(name: str, lanes: Lanes, evaluate: Evaluator) -> Lanes:
    lo, hi = lanes.ranges[name]
    step = abs(evaluate.steps.get(name, 1))
    rest = replace(lanes, ranges={k: v for k, v in lanes.ranges.items() if k != name})
    return rest.expanded(name, lo, (hi - lo) // step + 1, step)[0]


def _merge(starts: Array, extent: int) -> list[tuple[int, int]]:
    """Sorted starts of intervals of one length, as disjoint intervals."""
    starts = np.sort(np.ravel(starts)).astype(np.int64)
    if not starts.size or extent <= 0:
        return []
    gap = np.flatnonzero(starts[1:] > starts[:-1] + extent)
    first = starts[np.concatenate(([0], gap + 1))]
    last = starts[np.concatenate((gap, [starts.size - 1]))] + extent
    return list(zip(first.tolist(), last.tolist(), strict=True))


def union_volume(starts: list[Array], stops: list[Array]) -> int:
    """Volume of the union of boxes, each (boxes, rank). Counted on the grid of the boxes' edges; an overlap counts once.

    Where that grid would be too fine the sum of the distinct boxes is returned, which is an upper bound.
    """
    if not starts or not sum(len(s) for s in starts):
        return 0
    boxes = np.unique(np.concatenate([np.concatenate(starts), np.concatenate(stops)], axis=1), axis=0)
    rank = boxes.shape[1] // 2
    if rank == 0:
        return 1
    low, high = boxes[:, :rank], boxes[:, rank:]
    if len(boxes) == 1:
        return int(np.prod(high[0] - low[0]))
    edges = [np.unique(np.concatenate((low[:, d], high[:, d]))) for d in range(rank)]
    if np.prod([float(len(e)) for e in edges]) > CELL_CAP:
        return int(np.prod(high - low, axis=1).sum())
    cover = np.zeros([len(e) for e in edges], dtype=np.int32)
    corners = [(np.searchsorted(e, low[:, d]), np.searchsorted(e, high[:, d])) for d, e in enumerate(edges)]
    for choice in product((0, 1), repeat=rank):  # a difference array in every dim, summed up below
        np.add.at(cover, tuple(corners[d][c] for d, c in enumerate(choice)), (-1) ** sum(choice))
    for d in range(rank):
        np.cumsum(cover, axis=d, out=cover)
    volume = np.ones(())
    for e in edges:
        volume = np.multiply.outer(volume, np.append(np.diff(e), 0))
    return int(volume[cover > 0].sum())
