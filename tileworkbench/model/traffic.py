"""How many bytes cross each level of the memory hierarchy: a prediction.

The accesses of tile operations run, in launch order, through least-recently-used caches of the machine's capacities. "Bytes at L2" are those
that L1 misses and L2 delivers, plus what L1 writes back to it; "bytes at DRAM" are what is left after every cache. A line that a store misses is
fetched first on most machines; those bytes stand apart as `allocate`, because stores of whole lines often avoid them.

What the model leaves out: associativity, prefetching, the code's own re-reads inside one tile operation, and other programs.
Large kernels are sampled: windows of blocks for the caches of one core, a hashed subset of granules for the shared one
(Waldspurger et al., "Efficient MRC construction with SHARDS", FAST 2015).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ..base.machine import Level, Machine
from ..base.span import Span
from ..ir.stmt import Kernel
from .accesses import Boxes, Trace, trace_accesses
from .counts import Counts
from .granules import GranuleTrace, granule_trace
from .reuse import cache_run, reuse_distances
from .sampling import hashed
from .space import Array
from .walk import Assumption

EXACT_CAP = 24_000  # accesses of granules that are simulated one by one
TRACE_CAP = 160_000  # accesses that are enumerated at all
WINDOWS = 3
SLACK = 0.02  # levels that disagree by less than this are cut to agree without a word

Key = tuple[str, Any]  # buffer and (file, line)


@dataclass(frozen=True, slots=True)
class Flow:
    """Predicted bytes of one buffer across one level, caused by one source line. Fractions of bytes come from sampling."""

    level: str
    buffer: str
    read_bytes: float
    write_bytes: float
    allocate_bytes: float
    span: Span | None = None

    @property
    def bytes(self) -> float:
        """Read and written, without what a store fetches first."""
        return self.read_bytes + self.write_bytes


@dataclass(frozen=True, slots=True)
class Traffic:
    """Predicted bytes at L2, L3 and DRAM of one launch that starts with empty caches, on `threads` cores.

    `footprint_bytes` are the distinct global bytes: where they fit in the last cache, a repeated launch moves nothing at DRAM.
    """

    flows: tuple[Flow, ...]
    threads: int
    footprint_bytes: int
    last_cache_bytes: int
    sampled: float
    assumptions: tuple[Assumption, ...] = ()

    def bytes(self, level: str, *, warm: bool = False) -> float:
        """Bytes read and written at a level; `warm`: in a launch that repeats the last one."""
        if warm and level == "DRAM" and self.stays_in_cache:
            return 0.0
        return sum(f.bytes for f in self.flows if f.level == level)

    @property
    def stays_in_cache(self) -> bool:
        """Whether a repeated launch finds all its data in the last cache."""
        return self.footprint_bytes <= self.last_cache_bytes


def predict_traffic(
    kernel: Kernel,
    counts: Counts,
    machine: Machine,
    dims: Mapping[str, int],
    *,
    threads: int = 1,
    scalars: Mapping[str, Any] | None = None,
    arrays: Mapping[str, Array] | None = None,
) -> Traffic:
    """Predict the bytes at every level below L1. `counts` are those of the same kernel and dims."""
    known = (kernel, dims, scalars, arrays)
    blocks, per_block = _size(*known)
    total = blocks * per_block
    whole = total <= EXACT_CAP
    runs: dict[str, _Bytes] = {}
    notes: dict[Assumption, None] = {}
    private = [x for x in _borders(machine) if not x[1].is_shared]
    for window in _windows(blocks, per_block, threads, whole):
        trace = trace_accesses(*known, blocks=window)
        notes.update(dict.fromkeys(trace.assumptions))
        accesses = granule_trace(trace, machine.line_bytes)
        warm_up = 0 if whole else max((_capacity(cache) for _, cache in private), default=0)
        distances = reuse_distances(accesses.granule, accesses.nbytes)
        for name, cache in private:
            runs.setdefault(name, _Bytes()).add(_through(accesses, distances, trace.boxes, _capacity(cache), start_at=warm_up))
    trace, accesses, share = _shared_trace(known, total, machine.line_bytes)
    notes.update(dict.fromkeys(trace.assumptions))
    tiles = threads * _tile_bytes(kernel)
    distances = reuse_distances(accesses.granule, accesses.nbytes / share)
    for name, cache in (x for x in _borders(machine) if x[1].is_shared):
        runs[name] = _through(accesses, distances, trace.boxes, _capacity(cache) - tiles, weight=1 / share)
    if not whole:
        notes[Assumption(f"the kernel is large: caches were simulated on a sample of its {total:.2g} tile accesses")] = None
    asked = _asked(counts)
    flows, cut = inclusive([flow for level, found in runs.items() for flow in found.flows(level, asked)], [name for name, _ in _borders(machine)])
    notes.update(dict.fromkeys(cut))
    last = max((_capacity(cache) for _, cache in _borders(machine)), default=0)
    return Traffic(tuple(flows), threads, _footprint(counts), last, min(1.0, EXACT_CAP / max(total, 1)), tuple(notes))


def inclusive(flows: Sequence[Flow], levels: Sequence[str]) -> tuple[list[Flow], list[Assumption]]:
    """The flows with no level moving more of a buffer than the level above asked of it, and a note where one was cut.

    The levels are simulated apart (one core's caches, then the shared one, each on its own sample), so where capacities are alike they can disagree.
    """
    out: list[Flow] = []
    notes: list[Assumption] = []
    above: dict[tuple[str, str], float] = {}
    for number, level in enumerate(levels):
        here = [f for f in flows if f.level == level]
        totals: dict[tuple[str, str], float] = {}
        for f in here:
            for way in ("read_bytes", "write_bytes", "allocate_bytes"):
                totals[f.buffer, way] = totals.get((f.buffer, way), 0.0) + getattr(f, way)
        kept = {key: min(1.0, above.get(key, 0.0) / total) if number and total else 1.0 for key, total in totals.items()}
        for f in here:
            out.append(replace(f, **{way: getattr(f, way) * kept[f.buffer, way] for way in ("read_bytes", "write_bytes", "allocate_bytes")}))
        cut = sorted({buffer for (buffer, _), share in kept.items() if share < 1 - SLACK})
        if cut:
            notes.append(
                Assumption(f"bytes of {', '.join(cut)} at {level} are at most those at {levels[number - 1]}, which a separate simulation found fewer")
            )
        above = {key: total * kept[key] for key, total in totals.items()}
    return out, notes


def _borders(machine: Machine) -> list[tuple[str, Level]]:
    """(level that delivers, cache in front of it): bytes at L2 are those that L1 misses."""
    names = [level.name for level in machine.levels if level.name != "registers"]
    return [(below, machine.level(cache)) for cache, below in zip(names, names[1:], strict=False)]


def _capacity(cache: Level) -> int:
    assert cache.capacity is not None, "a level with another below it has a capacity"
    return cache.capacity.bytes


def _asked(counts: Counts) -> dict[Key, float]:
    out: dict[Key, float] = {}
    for m in counts.asked:
        key = (m.buffer, (m.span.file, m.span.line) if m.span else None)
        out[key] = out.get(key, 0.0) + m.bytes
    return out


def _footprint(counts: Counts) -> int:
    return sum(max(m.read_bytes, m.write_bytes) for m in counts.compulsory)


def _tile_bytes(kernel: Kernel) -> int:
    return max((sum(b.static_bytes() for b in launch.allocs if b.view_of is None) for launch in kernel.launches), default=0)


# ---------------------------------------------------------------------------------------------- sampling
def _size(kernel: Kernel, dims: Mapping[str, int], scalars: Any, arrays: Any) -> tuple[int, float]:
    """Blocks of the largest launch, and accesses of granules per block over all launches, guessed from a few blocks."""
    sizes = [0]

    def probe(count: int) -> Array:
        sizes.append(count)
        return np.unique(np.linspace(0, count - 1, min(count, 4)).astype(np.int64)) if count else np.zeros(0, np.int64)

    trace = trace_accesses(kernel, dims, scalars, arrays, blocks=probe)
    seen = sum(min(n, 4) for n in sizes)
    return max(sizes), len(granule_trace(trace, 64)) / max(seen, 1) * max(len(sizes) - 1, 1)


def _windows(blocks: int, per_block: float, threads: int, whole: bool) -> list[Callable[[int], Array]]:
    """Which blocks one core runs: every `threads`-th, all of them or a few stretches in a row."""
    if whole:
        return [lambda n: np.arange(0, n, threads)]
    length = max(int(EXACT_CAP / WINDOWS / max(per_block, 1)), 1)

    def stretch(place: float) -> Callable[[int], Array]:
        def pick(n: int) -> Array:
            own = -(-n // threads)  # blocks of one core
            first = int(place * max(own - length, 0))
            return np.arange(first, min(first + length, own)) * threads

        return pick

    return [stretch(i / (WINDOWS - 1)) for i in range(WINDOWS)]


def _shared_trace(known: tuple[Any, ...], total: float, line_bytes: int) -> tuple[Trace, GranuleTrace, float]:
    """Accesses of global buffers by all blocks, and the share of granules that were kept."""
    part = min(1.0, TRACE_CAP / max(total, 1))
    trace = trace_accesses(*known, on_chip=False, blocks=lambda n: np.arange(max(int(n * part), min(n, 1))))
    accesses = granule_trace(trace, line_bytes)
    share = min(1.0, EXACT_CAP / max(len(accesses), 1))
    if share < 1:
        accesses = accesses.take(hashed(accesses.granule, share))
    return trace, accesses, share


# ---------------------------------------------------------------------------------------------- one cache
@dataclass(slots=True)
class _Bytes:
    """Per buffer and line: bytes [read, written back, allocated, asked] of the accesses that were counted."""

    at: dict[Key, Array] = field(default_factory=dict)
    spans: dict[Key, Span | None] = field(default_factory=dict)

    def add(self, other: _Bytes) -> None:
        for key, values in other.at.items():
            self.at[key] = self.at.get(key, 0.0) + values
        self.spans.update(other.spans)

    def flows(self, level: str, asked: Mapping[Key, float]) -> Iterator[Flow]:
        """The bytes of the whole kernel: what was counted, scaled by what all accesses of the line ask."""
        for key, values in self.at.items():
            scale = asked[key] / float(values[3]) if values[3] > 0 and key in asked else 1.0
            if values[:3].any():
                read, back, allocated = (float(v * scale) for v in values[:3])
                yield Flow(level, key[0], read, back, allocated, self.spans[key])


def _through(
    accesses: GranuleTrace, distances: Array, boxes: tuple[Boxes, ...], capacity: float, *, weight: float = 1.0, start_at: float = 0.0
) -> _Bytes:
    """Run accesses through a cache. `weight` stands for granules left out by sampling; counting starts once `start_at` bytes were touched."""
    sizes = accesses.nbytes * weight
    run = cache_run(accesses.granule, sizes, accesses.is_write, distances, capacity, accesses.keeps)
    touched = np.cumsum(np.where(np.isinf(distances), sizes, 0.0))
    counted = touched >= start_at if len(touched) and touched[-1] > 2 * start_at else np.ones(len(touched), dtype=bool)
    columns = [
        np.where(run.fetched & ~accesses.is_write & counted, sizes, 0.0),
        np.where(run.written_back & counted, sizes, 0.0),
        np.where(run.fetched & accesses.is_write & counted, sizes, 0.0),
        np.where(counted, accesses.asked * weight, 0.0),
    ]
    summed = [np.bincount(accesses.table, weights=column, minlength=len(boxes)) for column in columns]
    out = _Bytes()
    for table, b in enumerate(boxes):
        key = (b.buffer.root.name, (b.span.file, b.span.line) if b.span else None)
        out.add(_Bytes({key: np.asarray([column[table] for column in summed])}, {key: b.span}))
    return out
