"""Statements that tell a recorder what they do."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from ..ir.expr import Buffer, Load
from ..ir.node import walk
from ..ir.stmt import Atomic, Copy, Fill, Gemm, ParallelFor, Reduce, Region, Scan, Stmt, Store, whole
from .expressions import Run, Scope, is_private
from .frame import Frame
from .trace import Array, Operand, TileStep
from .windows import read, settle, window

Seen = tuple[tuple[int, ...], tuple[int, ...], Array | None]  # starts, extents, values


@dataclass(frozen=True, slots=True)
class _Uses:
    """The regions that a statement reads and writes."""

    kind: str
    reads: tuple[Region, ...]
    writes: tuple[Region, ...]


def traced(s: Stmt, run: Run, scope: Scope) -> Run:
    """`run`, which also notes where it comes from and, for a tile operation, records a step."""
    uses = None if scope.axes and isinstance(s, Atomic) else _uses(s)
    if uses is None:

        def located(f: Frame) -> None:
            if f.recorder is not None:
                f.recorder.span = s.span
            run(f)

        return located
    reads, writes = [_viewer(r, scope) for r in uses.reads], [_viewer(r, scope) for r in uses.writes]

    def step(f: Frame) -> None:
        recorder = f.recorder
        if recorder is None or not recorder.wants(f.block):
            if recorder is not None:
                recorder.span = s.span
            run(f)
            return
        values = recorder.options.values
        before = [view(f, values) for view in reads], [view(f, values) for view in writes]
        recorder.span = s.span
        run(f)
        after = [view(f, values)[2] for view in writes]
        inputs = tuple(Operand(r.buffer, starts, extents, old, old) for r, (starts, extents, old) in zip(uses.reads, before[0], strict=True))
        outputs = tuple(
            Operand(w.buffer, starts, extents, old, new) for w, (starts, extents, old), new in zip(uses.writes, before[1], after, strict=True)
        )
        loops = tuple((name, int(value)) for name, value in f.loops if np.ndim(value) == 0)
        recorder.add(TileStep(recorder.seen, uses.kind, s, recorder.launch, f.block, loops, inputs, outputs))

    return step


def _viewer(region: Region, scope: Scope) -> Callable[[Frame, bool], Seen]:
    """The closure that says where a region lies, and copies its values if asked to. It leaves no mark in the counts."""
    if not region.extents and region.buffer.rank:
        return lambda f, values: ((), (), None)
    evaluate = window(region, scope)

    def look(f: Frame, values: bool) -> Seen:
        recorder, f.recorder = f.recorder, None
        w = evaluate(f)
        per_lane = settle(f, (w,))
        copy = np.array(read(w, f, per_lane)) if values else None
        f.recorder = recorder
        starts = () if per_lane and any(isinstance(i, np.ndarray) for i in w.starts) else tuple(int(i) for i in w.starts)
        return starts, w.extents, copy

    return look


def _uses(s: Stmt) -> _Uses | None:
    match s:
        case Copy(src, dst):
            return _Uses("copy", (src,), (dst,))
        case Fill(dst):
            return _Uses("fill", (), (dst,))
        case Gemm(a, b, c):
            return _Uses("gemm", (a, b), (c,))
        case Reduce(_, src, dst):
            return _Uses("reduce", (src,), (dst,))
        case Scan(_, src, dst):
            return _Uses("scan", (src,), (dst,))
        case Atomic(_, dst, value):
            return _Uses("atomic", (value,) if isinstance(value, Region) else (), (dst,))
        case ParallelFor():
            return _Uses("parallel", tuple(_buffers(s, Load)), tuple(_buffers(s, Store)))
        case _:
            return None


def _buffers(s: Stmt, kind: type) -> Iterator[Region]:
    seen: set[Buffer] = set()
    for node in walk(s):
        buffer = node.buffer if isinstance(node, kind) and isinstance(node, Load | Store) else None
        if buffer is None and kind is Store and isinstance(node, Atomic):
            buffer = node.dst.buffer
        if buffer is not None and buffer not in seen and not is_private(buffer):
            seen.add(buffer)
            yield whole(buffer) if buffer.is_on_chip else Region(buffer, (), ())
