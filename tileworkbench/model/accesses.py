"""The accesses of a kernel in launch order: which box of which buffer each statement reads or writes, block after block.

Serial loops and the grid are followed one iteration after the other; an element-wise loop is one access of the box that it covers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..base.span import Span
from ..ir.expr import Buffer, Const, Expr, Load
from ..ir.node import walk
from ..ir.stmt import Atomic, Body, Copy, Fill, For, Gemm, Kernel, Launch, PipelinedFor, Reduce, Region, Scan, Stmt, Store
from .counts import REGISTERS
from .space import Array, Lanes
from .walk import Assumption, Walk


@dataclass(frozen=True, slots=True)
class Boxes:
    """Accesses of one buffer by one statement: `starts`, `stops` (accesses, rank), clipped to the buffer. `asked` are the elements wanted of each.

    An element that many iterations want (a bias of every row) counts in `asked` as often as it is wanted, as in `Counts`. `weight` is how many
    accesses each stands for, where loops were thinned.
    """

    buffer: Buffer
    shape: tuple[int, ...]
    is_write: bool
    span: Span | None
    starts: Array
    stops: Array
    asked: Array
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class Trace:
    """Accesses in order: entry i is row `rows[i]` of `boxes[tables[i]]`."""

    boxes: tuple[Boxes, ...]
    tables: Array
    rows: Array
    assumptions: tuple[Assumption, ...]

    def __len__(self) -> int:
        return len(self.tables)


@dataclass(frozen=True, slots=True)
class _Stream:
    """Accesses of some lanes, sorted by lane."""

    lane: Array
    table: Array
    row: Array


_FAR = 1 << 40
_EMPTY = _Stream(*(np.zeros(0, dtype=np.int64) for _ in range(3)))


def trace_accesses(
    kernel: Kernel,
    dims: Mapping[str, int],
    scalars: Mapping[str, Any] | None = None,
    arrays: Mapping[str, Array] | None = None,
    *,
    blocks: Callable[[int], Array] | None = None,
    on_chip: bool = True,
    in_flight: Callable[[Launch], int] | None = None,
    kept: float = 1.0,
    has_panels: bool = False,
) -> Trace:
    """The accesses of the blocks that `blocks` picks (all, if None); `on_chip=False` leaves out the tiles.

    `in_flight` says how many blocks of a launch run at once: their accesses then alternate, the first of each block before the second of any.
    `kept` is the share of iterations of innermost loops that are followed, the same ones in every block. `has_panels`: blocks start in the panels
    that `T.use_swizzle` asked for.
    """
    tracer = Tracer(kernel, dims, scalars, arrays, ordered=True)
    tracer.blocks, tracer.on_chip, tracer.in_flight, tracer.kept, tracer.has_panels = blocks, on_chip, in_flight, kept, has_panels
    stream = tracer.run()
    return Trace(tuple(tracer.tables), stream.table, stream.row, tuple(tracer.assumptions))


class Tracer(Walk[_Stream]):
    """The walk that lists accesses; `tables` grows by one entry for each buffer of each statement."""

    tables: list[Boxes]
    on_chip: bool
    in_flight: Callable[[Launch], int] | None
    kept: float

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.tables, self.on_chip, self.in_flight, self.kept = [], True, None, 1.0
        self._thinned = ""  # the innermost loop that runs now, if it is thinned
        self._random = np.random.default_rng(0)
        self._shapes: dict[str, tuple[int, ...]] = {}

    def join(self, parts: list[_Stream], lanes: Lanes) -> _Stream:
        parts = [p for p in parts if len(p.lane)]
        if len(parts) < 2:
            return parts[0] if parts else _EMPTY
        lane = np.concatenate([p.lane for p in parts])
        order = np.argsort(lane, kind="stable")
        return _Stream(lane[order], np.concatenate([p.table for p in parts])[order], np.concatenate([p.row for p in parts])[order])

    def lift(self, part: _Stream, parent: Array) -> _Stream:
        lane = parent[part.lane] if len(part.lane) else part.lane
        if np.all(lane[1:] >= lane[:-1]):
            return _Stream(lane, part.table, part.row)
        order = np.argsort(lane, kind="stable")
        return _Stream(lane[order], part.table[order], part.row[order])

    def _loop(self, name: str, start: Expr, stop: Expr, step: int, body: Body, lanes: Lanes, span: Span | None) -> _Stream:
        is_innermost = not any(isinstance(n, For | PipelinedFor) for s in body for n in walk(s))
        self._thinned = name if self.kept < 1 and is_innermost else ""
        stream = super()._loop(name, start, stop, step, body, lanes, span)
        self._thinned = ""
        return stream

    def _expanded(self, name: str, start: Array, trips: Array, step: int, lanes: Lanes, inside: Callable[[Lanes], _Stream]) -> _Stream:
        if name != self._thinned:
            return super()._expanded(name, start, trips, step, lanes, inside)
        child, parent = lanes.expanded(name, start, trips, step)
        number = np.asarray(child.values[name]) // abs(step)
        keep = np.floor((number + 1) * self.kept) > np.floor(number * self.kept)
        return self.lift(inside(child.take(keep)), parent[keep])

    def _block(self, launch: Launch, lanes: Lanes) -> _Stream:
        stream = super()._block(launch, lanes)
        return stream if self.in_flight is None else _alternated(stream, self.in_flight(launch))

    def work(self, stmt: Stmt, lanes: Lanes) -> _Stream:
        return self.join([self._box(is_write, region, lanes, stmt) for is_write, region in _regions(stmt)], lanes)

    def _box(self, is_write: bool, region: Region, lanes: Lanes, stmt: Stmt) -> _Stream:
        buffer = region.buffer
        if buffer.scope in REGISTERS or (buffer.is_on_chip and not self.on_chip):
            return _EMPTY
        shape = self._shape(buffer)
        starts, stops, reach = (np.zeros((lanes.size, buffer.rank), dtype=np.int64) for _ in range(3))
        wanted = np.ones(lanes.size)
        for d, (start, extent) in enumerate(zip(region.starts, region.extents, strict=True)):
            size = self._int(extent)
            wanted = wanted * size
            found = self.evaluate.bounds(start, lanes)
            if found is None:
                self.assume(f"accesses of {buffer.name} at an index that depends on data are spread at random", stmt.span)
                at = self._random.integers(0, max(shape[d] - size + 1, 1), lanes.size)
                found = (at, at)
            starts[:, d] = np.clip(lanes.column(found[0]), 0, shape[d])
            stops[:, d] = np.clip(lanes.column(np.asarray(found[1]) + size), 0, shape[d])
            reach[:, d] = np.clip(lanes.column(np.asarray(found[1]) + size - found[0]), 0, _FAR)
        points = np.prod([hi - lo + 1 for lo, hi in lanes.ranges.values()] or [np.ones(lanes.size)], axis=0)
        volume = np.prod(stops - starts, axis=1)
        asked = wanted * points * volume / np.maximum(np.prod(reach, axis=1), 1)  # what lies outside moves nothing
        wanted = np.minimum(wanted * points, volume)
        keep = np.flatnonzero(wanted > 0)
        stops = self._dense(buffer, starts, stops, wanted, stmt)
        self.tables.append(Boxes(buffer, shape, is_write, stmt.span, starts[keep], stops[keep], asked[keep], 1 / self.kept if self._thinned else 1.0))
        return _Stream(keep, np.full(keep.size, len(self.tables) - 1), np.arange(keep.size))

    def _dense(self, buffer: Buffer, starts: Array, stops: Array, wanted: Array, stmt: Stmt) -> Array:
        """Boxes of which few elements are wanted shrink to that many elements: their place is a guess, their bytes are not."""
        volume = np.prod(stops - starts, axis=1)
        sparse = (volume > 4 * wanted) & (wanted > 0)
        if not sparse.any():
            return stops
        self.assume(f"accesses of {buffer.name} with gaps are taken as one piece", stmt.span)
        stops, left = stops.copy(), wanted[sparse]
        for d in range(starts.shape[1] - 1, -1, -1):
            length = np.clip(np.ceil(left), 1, (stops - starts)[sparse, d]).astype(np.int64)
            stops[sparse, d] = starts[sparse, d] + length
            left = left / length
        return stops

    def _shape(self, buffer: Buffer) -> tuple[int, ...]:
        if buffer.name not in self._shapes:
            self._shapes[buffer.name] = tuple(self._int(d) for d in buffer.shape)
        return self._shapes[buffer.name]

    def _int(self, expr: Expr) -> int:
        if isinstance(expr, Const):
            return int(expr.value)
        found = self.evaluate.bounds(expr, Lanes.single(self.known))
        return int(np.max(found[1])) if found is not None else 1


def _alternated(stream: _Stream, in_flight: int) -> _Stream:
    """The accesses of `in_flight` blocks at a time, one of each in turn."""
    first = np.concatenate(([True], stream.lane[1:] != stream.lane[:-1])) if len(stream.lane) else np.zeros(0, dtype=bool)
    begin = np.flatnonzero(first)
    step = np.arange(len(stream.lane)) - np.repeat(begin, np.diff(np.append(begin, len(stream.lane))))
    order = np.lexsort((stream.lane, step, stream.lane // max(in_flight, 1)))
    return _Stream(stream.lane[order], stream.table[order], stream.row[order])


def _regions(stmt: Stmt) -> Iterator[tuple[bool, Region]]:
    """(is a write, region) of one execution of `stmt`, in order."""
    match stmt:
        case Copy(src, dst):
            yield False, src
            yield True, dst
        case Fill(dst):
            yield True, dst
        case Gemm(a, b, c):
            yield from ((False, a), (False, b), (False, c), (True, c))
        case Reduce(_, src, dst) | Scan(_, src, dst):
            yield from ((False, src), (True, dst))
        case Atomic(_, dst, value):
            if isinstance(value, Region):
                yield False, value
            yield from ((False, dst), (True, dst))
        case Store(buffer, indices):
            yield from _loads(stmt)
            yield True, _point(buffer, indices)
        case _:
            yield from _loads(stmt)


def _loads(stmt: Stmt) -> Iterator[tuple[bool, Region]]:
    for node in walk(stmt):
        if isinstance(node, Load):
            yield False, _point(node.buffer, node.indices)


def _point(buffer: Buffer, indices: tuple[Expr, ...]) -> Region:
    return Region(buffer, indices, tuple(Const(1) for _ in indices))
