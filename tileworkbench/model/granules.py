"""Cuts buffers into granules, the pieces that the cache model moves, and turns accesses of boxes into accesses of granules.

A granule is the largest box of which every access of the buffer is made up, but at least a cache line of contiguous elements. Where accesses
overlap so unevenly that it would be tiny, a coarser one is taken and only its share of bytes counted.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .accesses import Boxes, Trace
from .space import Array

PER_BOX = 64  # more granules than this in one access: too fine


@dataclass(frozen=True, slots=True)
class GranuleTrace:
    """Accesses of granules in order. `granule` is a number, unique over all buffers; `table` is the `Boxes` it came from.

    `nbytes` is the granule's size, the same each time, `asked` the bytes of elements wanted by this access; `keeps` marks on-chip tiles.
    """

    granule: Array
    nbytes: Array
    asked: Array
    is_write: Array
    table: Array
    keeps: Array

    def __len__(self) -> int:
        return len(self.granule)

    def take(self, index: Array) -> GranuleTrace:
        return GranuleTrace(*(getattr(self, name)[index] for name in ("granule", "nbytes", "asked", "is_write", "table", "keeps")))


def granule_trace(trace: Trace, line_bytes: int) -> GranuleTrace:
    """The accesses of `trace`, granule by granule."""
    lattices = _lattices(trace.boxes, line_bytes)
    counts = [np.prod(lattices[b.buffer.root.name].spans(b), axis=1).astype(np.int64) for b in trace.boxes]
    per_access = np.zeros(len(trace), dtype=np.int64)
    members = _by_table(trace.tables, len(trace.boxes))
    for table, at in enumerate(members):
        per_access[at] = counts[table][trace.rows[at]]
    ends = np.cumsum(per_access)
    total = int(ends[-1]) if len(ends) else 0
    granule, nbytes, asked = np.zeros(total, np.int64), np.zeros(total), np.zeros(total)
    is_write, table_of, keeps = np.zeros(total, bool), np.zeros(total, np.int64), np.zeros(total, bool)
    for table, at in enumerate(members):
        boxes = trace.boxes[table]
        lattice = lattices[boxes.buffer.root.name]
        number, size, box = lattice.cut(boxes, trace.rows[at])
        place = np.repeat(ends[at] - per_access[at], per_access[at]) + _ramp(per_access[at])
        granule[place], nbytes[place] = number, size
        asked[place] = (boxes.asked[trace.rows[at]] * boxes.buffer.dtype.nbytes / np.maximum(per_access[at], 1))[box]
        is_write[place], table_of[place], keeps[place] = boxes.is_write, table, boxes.buffer.is_on_chip
    return GranuleTrace(granule, nbytes, asked, is_write, table_of, keeps)


@dataclass(frozen=True, slots=True)
class _Lattice:
    """How one buffer is cut: granules of `step` elements per dim, numbered from `first`. Accesses want `share` of a granule's bytes."""

    shape: tuple[int, ...]
    step: tuple[int, ...]
    first: int
    element_bytes: float
    share: float

    def spans(self, boxes: Boxes) -> Array:
        """How many granules each box covers, per dim."""
        step = np.asarray(self.step)
        out: Array = -(-self._fit(boxes.stops) // step) - self._fit(boxes.starts) // step
        return out

    def _fit(self, edges: Array) -> Array:
        """Edges in the lattice's own dims; a view of another rank counts as a list of elements."""
        return edges if edges.shape[1] == len(self.shape) else np.zeros((len(edges), len(self.shape)), dtype=np.int64)

    def cut(self, boxes: Boxes, rows: Array) -> tuple[Array, Array, Array]:
        """Granule numbers and bytes of the boxes `rows`, box after box, and which of the rows each belongs to."""
        step = np.asarray(self.step)
        low = (self._fit(boxes.starts) // step)[rows]
        span = self.spans(boxes)[rows]
        counts = np.prod(span, axis=1).astype(np.int64)
        box = np.repeat(np.arange(len(rows)), counts)
        rest = _ramp(counts)
        number = np.zeros(len(box), dtype=np.int64)
        elements = np.ones(len(box))
        grid = [-(-n // s) for n, s in zip(self.shape, self.step, strict=True)]
        stride = 1
        for d in range(len(self.shape) - 1, -1, -1):
            index = low[box, d] + rest % span[box, d]
            rest = rest // span[box, d]
            number += index * stride
            stride *= max(grid[d], 1)
            elements *= np.minimum(self.step[d], self.shape[d] - index * self.step[d])
        return number + self.first, elements * self.element_bytes * self.share, box

    @property
    def count(self) -> int:
        return int(np.prod([max(-(-n // s), 1) for n, s in zip(self.shape, self.step, strict=True)], dtype=np.int64))


def _lattices(boxes: tuple[Boxes, ...], line_bytes: int) -> dict[str, _Lattice]:
    groups: dict[str, list[Boxes]] = {}
    for b in boxes:
        groups.setdefault(b.buffer.root.name, []).append(b)
    out: dict[str, _Lattice] = {}
    first = 0
    for name, group in groups.items():
        lattice = _lattice(group, line_bytes, first)
        out[name] = lattice
        first += lattice.count
    return out


def _lattice(group: list[Boxes], line_bytes: int, first: int) -> _Lattice:
    buffer, shape = group[0].buffer, group[0].shape
    if any(b.shape != shape or b.buffer.dtype != buffer.dtype for b in group):  # seen through views: the buffer moves as a whole
        size = max(float(np.prod(b.shape)) * b.buffer.dtype.nbytes for b in group)
        return _Lattice((1,), (1,), first, size, 1.0)
    starts, stops = np.concatenate([b.starts for b in group]), np.concatenate([b.stops for b in group])
    if not len(starts):
        return _Lattice(shape, tuple(max(n, 1) for n in shape), first, buffer.dtype.nbytes, 1.0)
    step, need = [1] * len(shape), max(int(line_bytes / buffer.dtype.nbytes), 1)
    for d in range(len(shape) - 1, -1, -1):
        step[d] = max(_common(starts[:, d], stops[:, d], shape[d]), min(need, shape[d]))
        need = -(-need // max(shape[d], 1)) if step[d] >= shape[d] else 1
    exact = _Lattice(shape, tuple(step), first, buffer.dtype.nbytes, 1.0)
    spans = np.concatenate([np.prod(exact.spans(b), axis=1) for b in group])
    if spans.mean() <= PER_BOX:
        return exact
    extent = np.maximum(np.median(stops - starts, axis=0).astype(int), step)
    coarse = _Lattice(shape, tuple(int(e) for e in extent), first, buffer.dtype.nbytes, 1.0)
    covered = np.concatenate([np.prod(coarse.spans(b) * extent, axis=1) for b in group]).sum()
    share = min(1.0, float(np.prod(stops - starts, axis=1).sum() / max(covered, 1)))
    return _Lattice(shape, coarse.step, first, buffer.dtype.nbytes, share)


def _common(starts: Array, stops: Array, size: int) -> int:
    """The largest step that starts and stops are all multiples of; the buffer's own end is always allowed."""
    edges = np.concatenate((starts, stops[stops < size]))
    step = int(np.gcd.reduce(edges)) if len(edges) else 0
    return step if step else max(size, 1)


def _by_table(tables: Array, count: int) -> list[Array]:
    order = np.argsort(tables, kind="stable")
    edges = np.searchsorted(tables[order], np.arange(count + 1))
    return [order[a:b] for a, b in zip(edges[:-1], edges[1:], strict=True)]


def _ramp(counts: Array) -> Array:
    """0..n-1 for each n of `counts`, in a row."""
    ends = np.cumsum(counts)
    out: Array = np.arange(int(ends[-1]) if len(ends) else 0) - np.repeat(ends - counts, counts)
    return out
