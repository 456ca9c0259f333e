"""What one step of a kernel's main loop does, one tile operation at a time: bytes by level, FLOP, and the time that the machine needs for them.

Quantities are averages over all steps of all blocks, counted by the same counter as the report: each operation is counted alone, with the loops
around it kept, and divided by how often the loop's body runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from ..base.dtypes import FLOAT32
from ..base.span import Span
from ..ir.expr import Buffer, Const, Load
from ..ir.node import walk
from ..ir.stmt import Body, Copy, Fill, For, Gemm, Kernel, Launch, Let, ParallelFor, PipelinedFor, Reduce, Region, Scan, Stmt, Store, While
from .counts import Counts, count
from .report import SPECIAL_COST, Report
from .space import Array

TILE_WORK = (Copy, Fill, Gemm, Reduce, Scan, ParallelFor)
SFU = ("exp", "log", "div", "sqrt")  # what the special function units of a GPU do
_PROBE = Buffer("steps of the loop", (Const(1),), FLOAT32, "shared")
_TICK = Store(_PROBE, (Const(0),), Const(1.0, FLOAT32))


@dataclass(frozen=True, slots=True)
class Work:
    """One tile operation of one step (or of the part before or after the loop), for one block.

    `kind` is "copy" (global to on-chip), "store" (on-chip to global), "gemm" or "elementwise". `bytes` are by level, `flops` by dtype. `writes` and
    `reads` name on-chip buffers. `place` is "before", "loop" or "after"; `stage` and `order` the author's annotation, -1 where there is none.
    """

    name: str
    kind: str
    place: str
    bytes: Mapping[str, float]
    flops: Mapping[str, float]
    special: Mapping[str, float]
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    span: Span | None
    stage: int = -1
    order: int = -1
    times: float = 1.0  # how often it runs in a launch, all blocks together
    lines: frozenset[tuple[str, int]] = frozenset()  # the author's lines that it is made of


@dataclass(frozen=True, slots=True)
class MainLoop:
    """The loop that a timeline is about: its operations, its average number of steps in a block (0 without a loop), and the number of blocks."""

    var: str
    num_stages: int
    steps: float
    blocks: float
    work: tuple[Work, ...]
    span: Span | None


def main_loop(kernel: Kernel, about: Report, scalars: Mapping[str, Any] | None = None, arrays: Mapping[str, Array] | None = None) -> MainLoop | None:
    """The loop with the most FLOP (bytes, where none computes) among the pipelined loops, else the serial ones; None for an empty kernel."""
    counter = _Alone(kernel, about, scalars, arrays)
    best: tuple[float, Launch, PipelinedFor | For] | None = None
    for kinds in ((PipelinedFor,), (For,)):
        for launch in kernel.launches:
            for loop in [s for s in launch.body if isinstance(s, kinds)] or [s for s in walk(launch) if isinstance(s, kinds)]:
                assert isinstance(loop, PipelinedFor | For)
                counts = counter.count(launch, loop, whole=True)
                weight = counts.total_flops * 1e6 + counts.asked_bytes
                if best is None or weight > best[0]:
                    best = weight, launch, loop
        if best is not None:
            break
    if best is None:
        return _no_loop(kernel, counter)
    _, launch, loop = best
    blocks = counter.times(launch, None)
    rounds = counter.times(launch, loop)
    if not blocks or not rounds:
        return None
    at = launch.body.index(loop) if loop in launch.body else len(launch.body)
    order = loop.order if isinstance(loop, PipelinedFor) else ()
    stages = loop.stage if isinstance(loop, PipelinedFor) else ()
    work: list[Work] = []
    for i, stmt in enumerate(launch.body):
        if stmt is not loop and isinstance(stmt, TILE_WORK):
            work.append(counter.work(launch, stmt, blocks, "before" if i < at else "after"))
    for i, stmt in enumerate(s for s in loop.body if not isinstance(s, Let)):
        note = (stages[i] if i < len(stages) else -1, order[i] if i < len(order) else -1)
        work.append(counter.work(launch, stmt, rounds, "loop", note))
    count_of = loop.num_stages if isinstance(loop, PipelinedFor) else 0
    return MainLoop(loop.var.name, count_of, rounds / blocks, blocks, _busy(work), loop.span)


def _no_loop(kernel: Kernel, counter: _Alone) -> MainLoop | None:
    """The operations of the last launch that does something, for a kernel that walks over nothing."""
    for launch in reversed(kernel.launches):
        blocks = counter.times(launch, None)
        work = _busy([counter.work(launch, s, blocks, "before") for s in launch.body if isinstance(s, TILE_WORK)]) if blocks else ()
        if work:
            return MainLoop("", 0, 0.0, blocks, work, launch.span)
    return None


def _busy(work: list[Work]) -> tuple[Work, ...]:
    return tuple(w for w in work if any(w.bytes.values()) or any(w.flops.values()) or any(w.special.values()))


def seconds_of(work: Work, about: Report, workers: int) -> dict[str, float]:
    """Least seconds of one operation on one of `workers` busy cores, by what could bound it: a level's name, "compute"."""
    machine, out = about.machine, {}
    for level, amount in work.bytes.items():
        out[level] = amount / (machine.bandwidth(level, workers).value * 1e9 / workers)
    compute = sum(n / (machine.peak(dtype, workers).value * 1e9 / workers) for dtype, n in work.flops.items())
    rate = machine.special_rate(workers)  # a GPU's units for exponentials and the like; None on a CPU
    apart = {kind: n for kind, n in work.special.items() if rate is not None and kind in SFU}
    special = sum(apart.values()) / (rate.value * 1e9 / workers) if rate is not None else 0.0
    slots = sum(SPECIAL_COST[kind] * n for kind, n in work.special.items() if kind not in apart)
    plain = machine.peak("float32", workers).value * 1e9 / workers
    out["compute"] = compute + special + 2 * slots / plain
    return out


class _Alone:
    """Counts one statement of a kernel, with the loops and bindings around it."""

    def __init__(self, kernel: Kernel, about: Report, scalars: Mapping[str, Any] | None, arrays: Mapping[str, Array] | None) -> None:
        self.kernel, self.about, self.scalars, self.arrays = kernel, about, scalars, arrays

    def count(self, launch: Launch, target: Stmt, *, whole: bool = False, tick: bool = False) -> Counts:
        body = _only(launch.body, target, _TICK if tick else None, whole)
        lone = replace(launch, body=body, allocs=(*launch.allocs, _PROBE))
        return count(replace(self.kernel, body=_put(self.kernel.body, launch, lone)), self.about.dims, self.scalars, self.arrays)

    def times(self, launch: Launch, loop: Stmt | None) -> float:
        """How often the body of `loop` runs, of all blocks together; the number of blocks without a loop."""
        if loop is None:
            lone = replace(launch, body=(_TICK,), allocs=(*launch.allocs, _PROBE))
            counts = count(replace(self.kernel, body=_put(self.kernel.body, launch, lone)), self.about.dims, self.scalars, self.arrays)
        else:
            counts = self.count(launch, loop, tick=True)
        return sum(m.write_bytes for m in counts.asked if m.buffer == _PROBE.name) / 4

    def work(self, launch: Launch, stmt: Stmt, times: float, place: str, note: tuple[int, int] = (-1, -1)) -> Work:
        counts = self.count(launch, stmt, whole=True)
        levels = self._levels(counts)
        reads, writes = _buffers(stmt)
        kind, name = _kind(stmt)
        return Work(
            name, kind, place,
            {level: amount / times for level, amount in levels.items()},
            {dtype: n / times for dtype, n in counts.flops.items()},
            {k: n / times for k, n in counts.special.items()},
            reads, writes, stmt.span or _inner_span(stmt), *note, times, _lines(stmt),
        )  # fmt: skip

    def _levels(self, counts: Counts) -> dict[str, float]:
        """Bytes by level: those asked at the top of a CPU; elsewhere the share that the report's flows say for the same line and buffer."""
        flows: dict[tuple[Any, str, str], float] = {}
        for f in self.about.traffic.flows:
            key = (_line(f.span), f.buffer, f.level)
            flows[key] = flows.get(key, 0.0) + f.bytes
        all_asked: dict[tuple[Any, str], int] = {}
        for m in self.about.counts.asked:
            at = (_line(m.span), m.buffer)
            all_asked[at] = all_asked.get(at, 0) + m.bytes
        names = [level.name for level in self.about.levels]
        out = dict.fromkeys(names, 0.0)
        for m in counts.asked:
            whole = all_asked.get((_line(m.span), m.buffer), 0)
            for level in names:
                out[level] += flows.get((_line(m.span), m.buffer, level), 0.0) / whole * m.bytes if whole else 0.0
        if not self.about.machine.is_gpu:
            out[names[0]] = float(counts.asked_bytes)
        return out


def _lines(stmt: Stmt) -> frozenset[tuple[str, int]]:
    return frozenset((n.span.file, n.span.line) for n in walk(stmt) if isinstance(n, Stmt) and n.span is not None)


def _line(span: Span | None) -> Any:
    return (span.file, span.line) if span is not None else None


def _inner_span(stmt: Stmt) -> Span | None:
    return next((n.span for n in walk(stmt) if n.span is not None), None)


def _put(body: Body, old: Stmt, new: Stmt) -> Body:
    """`body` with `old` replaced and every other launch emptied."""
    out: list[Stmt] = []
    for s in body:
        if s is old:
            out.append(new)
        elif isinstance(s, Launch):
            out.append(replace(s, body=()))
        else:
            out.append(_map_bodies(s, lambda b: _put(b, old, new)))
    return tuple(out)


def _only(body: Body, target: Stmt, tick: Stmt | None, whole: bool) -> Body:
    """`body` with `target` and the bindings before it, and nothing else; with `tick`, `target`'s own body becomes that statement."""
    out: list[Stmt] = []
    for s in body:
        if s is target:
            out.append(_map_bodies(s, lambda b: (tick,)) if tick is not None else s)
        elif isinstance(s, Let) or (isinstance(s, Store) and s.buffer.scope == "var"):
            out.append(s)
        elif any(n is target for n in walk(s)):
            out.append(_map_bodies(s, lambda b: _only(b, target, tick, whole)))
    return tuple(out)


def _map_bodies(s: Stmt, change: Any) -> Stmt:
    updates = {}
    for f in fields(s):
        value = getattr(s, f.name)
        if isinstance(value, tuple) and value and all(isinstance(item, Stmt) for item in value):
            updates[f.name] = change(value)
    return replace(s, **updates) if updates else s


def _buffers(stmt: Stmt) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """On-chip buffers that a statement reads and writes, by name; a view counts as the buffer it looks at."""
    reads: dict[str, None] = {}
    writes: dict[str, None] = {}
    for node in walk(stmt):
        match node:
            case Copy(src, dst) | Reduce(_, src, dst) | Scan(_, src, dst):
                _note(reads, src)
                _note(writes, dst)
            case Gemm(a, b, c):
                for region in (a, b, c):
                    _note(reads, region)
                _note(writes, c)
            case Fill(dst):
                _note(writes, dst)
            case Store(buffer):
                _name(writes, buffer)
            case Load(buffer):
                _name(reads, buffer)
    return tuple(reads), tuple(writes)


def _note(into: dict[str, None], region: Any) -> None:
    if isinstance(region, Region):
        _name(into, region.buffer)


def _name(into: dict[str, None], buffer: Buffer) -> None:
    while buffer.view_of is not None:
        buffer = buffer.view_of
    if buffer.is_on_chip:
        into[buffer.name] = None


def _kind(stmt: Stmt) -> tuple[str, str]:
    """What an operation is, and its name for people."""
    match stmt:
        case Copy(src, dst) if not src.buffer.is_on_chip and dst.buffer.is_on_chip:
            return "copy", f"copy {src.buffer.name} to {dst.buffer.name}"
        case Copy(src, dst) if src.buffer.is_on_chip and not dst.buffer.is_on_chip:
            return "store", f"store {src.buffer.name} to {dst.buffer.name}"
        case Copy(src, dst):
            return "elementwise", f"copy {src.buffer.name} to {dst.buffer.name}"
        case Gemm(a, b, c):
            return "gemm", f"{c.buffer.name} += {a.buffer.name} @ {b.buffer.name}"
        case Reduce(op, src, dst):
            return "elementwise", f"{op} of {src.buffer.name} into {dst.buffer.name}"
        case Scan(op, src, _):
            return "elementwise", f"running {op} of {src.buffer.name}"
        case Fill(dst):
            return "elementwise", f"fill {dst.buffer.name}"
        case For() | While() | PipelinedFor():
            return "elementwise", "inner loop"
        case _:
            written = _buffers(stmt)[1]
            return "elementwise", f"compute {', '.join(written)}" if written else "compute"
