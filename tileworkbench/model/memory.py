"""The memory hierarchy as a chain of places and links, with what one kernel moves over each link.

Kernel and registers stand at one end, DRAM at the other. A link is named for the level below it: the link "L2" carries what L1 (or shared memory)
asks of L2 and writes back to it. Its numbers are a report's.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from ..base.machine import Quantity
from ..base.span import Span
from ..ir.node import walk
from ..ir.stmt import Atomic
from .report import LevelUse, Report

SCRATCH = "shared"  # memory that the kernel fills itself: nothing hits or misses


@dataclass(frozen=True, slots=True)
class Share:
    """What one buffer, at one source line, moves over a link. `once_bytes` is what the whole kernel needs of that buffer at least; `is_atomic` says
    that the line updates it atomically.
    """

    buffer: str
    span: Span | None
    read_bytes: float
    write_bytes: float
    once_bytes: int
    is_atomic: bool = False

    @property
    def bytes(self) -> float:
        return self.read_bytes + self.write_bytes


@dataclass(frozen=True, slots=True)
class Link:
    """Bytes between `above` and `level`.

    `once_bytes` is what a cache without limit would move, `worst_bytes` what would move if the caches above kept nothing; `allocate_bytes` are
    fetched only because a store missed, and stand apart; `cold_bytes` move in a first launch, where a repeated one finds its data in a cache.
    `busy` is the share of the time for which the link works at its roof. `counted_bytes` and `counted_write_bytes` are what hardware counters saw
    read and written, `expected` what the model says of (read, written) in a launch like that one; None where nothing was counted.
    """

    level: str
    above: str
    read_bytes: float
    write_bytes: float
    allocate_bytes: float
    cold_bytes: float
    once_bytes: float
    worst_bytes: float
    roof: Quantity
    busy: float
    is_counted: bool
    shares: tuple[Share, ...]
    counted_bytes: float | None = None
    counted_write_bytes: float | None = None
    expected: tuple[float, float] | None = None

    @property
    def is_off(self) -> bool:
        """Whether a counter disagrees with the bytes read by more than a tenth."""
        read = self.expected[0] if self.expected is not None else self.read_bytes
        return self.counted_bytes is not None and abs(read - self.counted_bytes) > 0.1 * self.counted_bytes

    @property
    def is_off_written(self) -> bool:
        """Whether a counter disagrees with the bytes written by more than a tenth."""
        written = self.expected[1] if self.expected is not None else self.write_bytes
        return self.counted_write_bytes is not None and abs(written - self.counted_write_bytes) > 0.1 * self.counted_write_bytes

    @property
    def bytes(self) -> float:
        """Read and written, as the report's level says."""
        return self.read_bytes + self.write_bytes

    @property
    def atomic_bytes(self) -> float:
        """Those of `bytes` that atomic updates read and write."""
        return sum(s.bytes for s in self.shares if s.is_atomic)

    @property
    def times(self) -> float | None:
        """How often each byte that is needed once moves here in a first launch; None where nothing is needed."""
        return self.cold_bytes / self.once_bytes if self.once_bytes else None


@dataclass(frozen=True, slots=True)
class Place:
    """Registers, a cache, scratch memory or DRAM. `asked_bytes` are asked of it, `passed_bytes` it asks of the next one; DRAM passes nothing on."""

    name: str
    capacity: Quantity | None
    is_shared: bool
    asked_bytes: float
    passed_bytes: float | None

    @property
    def hit_rate(self) -> float | None:
        """The share of the bytes asked that is found here; None for DRAM, for scratch memory, and where nothing is asked."""
        if self.passed_bytes is None or not self.asked_bytes or self.name in (SCRATCH, "registers"):
            return None
        return max(0.0, 1.0 - self.passed_bytes / self.asked_bytes)


@dataclass(frozen=True, slots=True)
class MemoryChart:
    """Places from the registers to DRAM, and the links between them: `links[i]` joins `places[i]` and `places[i + 1]`.

    Of the bytes that the kernel asks for, `arrays_bytes` are of its arguments and `tiles_bytes` of tiles on the chip.
    """

    places: tuple[Place, ...]
    links: tuple[Link, ...]
    arrays_bytes: int = 0
    tiles_bytes: int = 0

    def link(self, level: str) -> Link:
        """The link above `level`; raises KeyError for another name."""
        for link in self.links:
            if link.level == level:
                return link
        raise KeyError(f"no link leads to {level!r}, only to {', '.join(x.level for x in self.links)}")


def memory_chart(report: Report) -> MemoryChart:
    """What `report` says of each link and place."""
    levels, machine, busy = report.levels, report.machine, report.shares
    links = tuple(_link(report, level, levels[i - 1].name if i else "registers", busy[level.name]) for i, level in enumerate(levels))
    registers = machine.level("registers") if any(x.name == "registers" for x in machine.levels) else None
    places = [Place("registers", registers.capacity if registers else None, False, 0.0, links[0].bytes if links else 0.0)]
    for i, level in enumerate(levels):
        what = machine.level(level.name)
        passed = links[i + 1].bytes if i + 1 < len(levels) else None
        places.append(Place(level.name, what.capacity, what.is_shared, links[i].bytes, passed))
    counts = report.counts
    return MemoryChart(tuple(places), links, counts.global_bytes, counts.asked_bytes - counts.global_bytes)


def _link(report: Report, level: LevelUse, above: str, busy: float) -> Link:
    needed = {m.buffer: m.bytes for m in report.counts.compulsory}
    shares = tuple(_shares(report, level, needed))
    total = sum(s.bytes for s in shares)
    scale = level.bytes / total if total else 0.0  # below 1 in a launch that finds part of its data in a cache
    atomic = _atomic_places(report)
    shares = tuple(
        replace(s, read_bytes=s.read_bytes * scale, write_bytes=s.write_bytes * scale, is_atomic=(s.buffer, _line(s.span)) in atomic) for s in shares
    )
    read = sum(s.read_bytes for s in shares)
    once, worst, seen = level.compulsory_bytes, level.worst_bytes, report.counters
    expected: tuple[float, float] | None = (read, level.bytes - read)
    if seen is not None and seen.is_first:
        flows = [f for f in report.traffic.flows if f.level == level.name]
        expected = sum(f.read_bytes for f in flows), sum(f.write_bytes for f in flows)
    return Link(
        level.name, above, read, level.bytes - read, level.allocate_bytes, level.cold_bytes, once, worst, level.roof, busy,
        level.is_counted, shares, *((seen.bytes(level.name), seen.written(level.name), expected) if seen is not None else (None, None, None)),
    )  # fmt: skip


def _atomic_places(report: Report) -> set[tuple[str, tuple[str, int] | None]]:
    """Buffers and lines of atomic updates; none where the report does not hold its kernel."""
    nodes = (n for stmt in report.ir.body for n in walk(stmt)) if report.ir is not None else ()
    return {(n.dst.buffer.root.name, _line(n.span)) for n in nodes if isinstance(n, Atomic)}


def _line(span: Span | None) -> tuple[str, int] | None:
    return (span.file, span.line) if span is not None else None


def _shares(report: Report, level: LevelUse, needed: dict[str, int]) -> Iterable[Share]:
    """By buffer and line, most bytes first; of a repeated launch that moves nothing here, nothing."""
    flows = [f for f in report.traffic.flows if f.level == level.name]
    if not level.bytes:
        return ()
    if level.is_counted and not flows:
        found = [Share(m.buffer, m.span, m.read_bytes, m.write_bytes, needed.get(m.buffer, 0)) for m in report.counts.asked]
    else:
        found = [Share(f.buffer, f.span, f.read_bytes, f.write_bytes, needed.get(f.buffer, 0)) for f in flows]
    return sorted(found, key=lambda s: -s.bytes)
