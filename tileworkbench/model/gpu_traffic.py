"""How many bytes cross each level of a GPU: a prediction from tile IR.

- **shared**: bytes that the threads ask of shared memory. A tile operation touches its region once, but a product's operands are read by every warp
  (or warp group) that needs them: `operand_reads` says how often.
- **L2**: bytes that the blocks ask of L2, in sectors; what one statement wants several times is asked once.
- **DRAM**: what L2 misses and writes back, with as many blocks in flight as fit, in launch order, the blocks of a wave in lockstep. Never less than
  each byte of the arguments once.

Large launches are sampled: the first waves are followed, the steady state of their second half stands for the rest, and of the granules a hashed
subset (Waldspurger et al., "Efficient MRC construction with SHARDS", FAST 2015).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..base.hardware import Machine
from ..base.span import Span
from ..ir.node import walk
from ..ir.stmt import Gemm, Kernel, Launch
from .accesses import Boxes, trace_accesses
from .counts import Counts, Moved
from .granules import GranuleTrace, granule_trace
from .reuse import cache_run, reuse_distances
from .sampling import hashed
from .space import Array
from .traffic import Flow, Traffic
from .walk import Assumption

TRACE_CAP = 24_000  # accesses of tiles that are followed
STEPS = 16  # accesses of a block that are followed at least
WAVES = 3  # waves of blocks that are followed at least
EXACT_CAP = 12_000  # accesses of granules that run through the simulated L2
WGMMA_ROWS, WGMMA_COLUMNS = 64, 256  # the largest product of one warp-group instruction (PTX ISA, wgmma.mma_async shapes)

Key = tuple[str, Any]  # buffer and (file, line)


def gpu_traffic(
    kernel: Kernel,
    counts: Counts,
    machine: Machine,
    dims: Mapping[str, int],
    in_flight: Callable[[Launch], int],
    *,
    scalars: Mapping[str, Any] | None = None,
    arrays: Mapping[str, Array] | None = None,
) -> Traffic:
    """Predict the bytes at shared memory, L2 and DRAM. `in_flight` says how many blocks of a launch the whole GPU runs at once."""
    cache = machine.level("L2").capacity
    assert cache is not None and machine.gpu is not None
    capacity = cache.bytes if machine.gpu.l2_shared is None else min(cache.bytes, machine.gpu.l2_shared.bytes)
    footprint = sum(max(m.read_bytes, m.write_bytes) for m in counts.compulsory)
    fits = footprint <= capacity
    sample = _sample(kernel, dims, scalars, arrays, in_flight, machine.line_bytes, cap=TRACE_CAP // 8 if fits else TRACE_CAP)
    asked = {_key(m): float(m.bytes) for m in counts.asked if m.scope == "global"}
    below = _l2_flows(sample, asked)
    missed = () if fits else _missed(sample, asked, capacity)
    flows = (*shared_flows(kernel, counts, machine), *below, *_at_least_once(missed, below, counts.compulsory))
    notes = dict.fromkeys(sample.notes)
    if sample.share < 1 and missed:
        notes[Assumption(f"the kernel is large: the first {sample.share:.0%} of its blocks stand for all".replace("%", " %"))] = None
    return Traffic(flows, machine.cores, footprint, capacity, sample.share, tuple(notes))


# ---------------------------------------------------------------------------------------------- shared memory
def shared_flows(kernel: Kernel, counts: Counts, machine: Machine) -> tuple[Flow, ...]:
    """Bytes that threads ask of shared memory, by buffer and line: counted, except for how often a product reads its operands."""
    often: dict[Key, float] = {}
    for launch in kernel.launches:
        warps = max(1, int(np.prod(launch.threads)) // 32)
        for gemm in (n for n in walk(launch) if isinstance(n, Gemm)):
            reads = operand_reads(gemm, warps, machine)
            for region, times in zip((gemm.a, gemm.b), reads, strict=True):
                key = (region.buffer.root.name, (gemm.span.file, gemm.span.line) if gemm.span else None)
                often[key] = max(often.get(key, 1.0), times)
    return tuple(
        Flow("shared", m.buffer, m.read_bytes * often.get(_key(m), 1.0), float(m.write_bytes), 0.0, m.span)
        for m in counts.asked
        if m.scope == "shared"
    )  # fmt: skip


def operand_reads(gemm: Gemm, warps: int, machine: Machine) -> tuple[float, float]:
    """How often the elements of a product's operands A and B are read from shared memory.

    A warp group's instruction (from 9.0 on, 64 rows or more) takes 64 rows of A by up to 256 columns of B. Else the warps share the tile as
    `gemm.policy` says, and each reads the rows and columns that it needs.
    """
    assert machine.gpu is not None
    m, n = gemm.c.static_extents()[-2:]
    if uses_warp_groups(gemm, warps, machine):
        return float(-(-n // WGMMA_COLUMNS)), float(-(-m // WGMMA_ROWS))
    rows, columns = warp_grid(m, n, warps, gemm.policy)
    return float(columns), float(rows)


def uses_warp_groups(gemm: Gemm, warps: int, machine: Machine) -> bool:
    """Whether a product runs as warp-group instructions: from 9.0 on (not 12.x), operand B in shared memory, a tensor unit for its types."""
    assert machine.gpu is not None
    narrow, wide = gemm.a.buffer.dtype, gemm.c.buffer.dtype
    has_unit = machine.find_peak(str(wide) if narrow == wide else f"{narrow}>{wide}", "tensor").unit == "tensor"
    new = (9, 0) <= machine.gpu.capability < (12, 0)
    return new and has_unit and gemm.b.buffer.scope == "shared" and warps % 4 == 0 and gemm.c.static_extents()[-2] >= WGMMA_ROWS


def warp_grid(m: int, n: int, warps: int, policy: str = "square") -> tuple[int, int]:
    """How the warps of a block share an (m, n) tile: (warps along the rows, warps along the columns), no part below 16 by 8.

    >>> warp_grid(128, 128, 4), warp_grid(128, 64, 8), warp_grid(16, 128, 4), warp_grid(128, 128, 4, "full_row")
    ((2, 2), (4, 2), (1, 4), (4, 1))
    """
    choices = [(w, warps // w) for w in range(1, warps + 1) if warps % w == 0]
    fits = [(r, c) for r, c in choices if m >= 16 * r and n >= 8 * c] or choices
    if policy == "full_row":
        return max(fits)
    if policy == "full_col":
        return min(fits)
    return min(fits, key=lambda rc: (m / rc[0] + n / rc[1], -rc[0]))


# ---------------------------------------------------------------------------------------------- L2 and DRAM
@dataclass(frozen=True, slots=True)
class _Sample:
    """Accesses of global buffers by the first blocks, and which share of all accesses they are."""

    accesses: GranuleTrace
    boxes: tuple[Boxes, ...]
    share: float
    in_flight: int
    notes: tuple[Assumption, ...]

    def keys(self) -> list[Key]:
        return [(b.buffer.root.name, (b.span.file, b.span.line) if b.span else None) for b in self.boxes]

    def sums(self, column: Array) -> dict[Key, float]:
        """A column of numbers of accesses, summed by buffer and line."""
        out: dict[Key, float] = {}
        summed = np.bincount(self.accesses.table, weights=column, minlength=len(self.boxes))
        for key, value in zip(self.keys(), summed, strict=True):
            out[key] = out.get(key, 0.0) + float(value)
        return out


def _sample(kernel: Kernel, dims: Mapping[str, int], scalars: Any, arrays: Any, in_flight: Callable[[Launch], int], sector: int, cap: int) -> _Sample:
    grids: list[int] = []

    def probe(blocks: int) -> Array:
        grids.append(blocks)
        return np.unique(np.linspace(0, blocks - 1, min(blocks, 2)).astype(np.int64)) if blocks else np.zeros(0, np.int64)

    few = trace_accesses(kernel, dims, scalars, arrays, blocks=probe, on_chip=False)
    per_block = len(few) / max(sum(min(n, 2) for n in grids), 1)
    total = per_block * sum(grids)
    kept = min(1.0, max(cap / max(total, 1), STEPS / max(per_block, 1)))
    at_once = max((in_flight(launch) for launch in kernel.launches), default=1)
    waves = WAVES * at_once / max(*grids, 1, 1)
    part = min(1.0, max(cap / max(total * kept, 1), waves))
    first = lambda n: np.arange(max(int(n * part), min(n, 1)))
    trace = trace_accesses(kernel, dims, scalars, arrays, blocks=first, on_chip=False, in_flight=in_flight, kept=kept, has_panels=True)
    return _Sample(granule_trace(trace, sector), trace.boxes, part, at_once, trace.assumptions)


def _l2_flows(sample: _Sample, asked: Mapping[Key, float]) -> tuple[Flow, ...]:
    """Bytes at L2: what every access of the sample takes in whole sectors, scaled to all accesses."""
    accesses = sample.accesses
    read, write = (sample.sums(np.where(accesses.is_write == side, accesses.nbytes, 0.0)) for side in (False, True))
    return _scaled(sample, "L2", read, write, sample.sums(accesses.asked), asked)


def _missed(sample: _Sample, asked: Mapping[Key, float], capacity: int) -> tuple[Flow, ...]:
    """Bytes that an L2 of `capacity` bytes misses or writes back."""
    accesses, weight = sample.accesses, 1.0
    if len(accesses) > EXACT_CAP:
        weight = len(accesses) / EXACT_CAP
        accesses = accesses.take(hashed(accesses.granule, 1 / weight))
    sizes = accesses.nbytes * weight
    distances = _distances(sample, accesses, sizes, weight)
    run = cache_run(accesses.granule, sizes, accesses.is_write, distances, capacity, accesses.keeps)
    steady = np.arange(len(sizes)) >= (len(sizes) // 2 if sample.share < 1 else 0)
    thin = replace(sample, accesses=accesses)
    read = thin.sums(np.where(run.fetched & ~accesses.is_write & steady, sizes, 0.0))
    back = thin.sums(np.where(run.written_back & steady, sizes, 0.0))
    return _scaled(thin, "DRAM", read, back, thin.sums(np.where(steady, accesses.asked * weight, 0.0)), asked)


def _distances(sample: _Sample, accesses: GranuleTrace, sizes: Array, weight: float) -> Array:
    """Reuse distances. Within one step of the blocks in flight, which is followed whole, they are as they are; beyond it each access of a loop that
    was thinned stands for those that were left out.
    """
    stands_for = np.asarray([b.weight for b in sample.boxes])
    near = reuse_distances(accesses.granule, sizes)
    if not (stands_for > 1).any():
        return near
    far = reuse_distances(accesses.granule, sizes * stands_for[accesses.table])
    rows = np.asarray([max(len(b.starts), 1) for b in sample.boxes])
    granules = np.bincount(sample.accesses.table, minlength=len(rows)) / rows
    step = sample.in_flight * float(granules[stands_for > 1].sum()) / weight
    order = np.argsort(accesses.granule, kind="stable")
    gap = np.full(len(order), np.inf)
    same = accesses.granule[order][1:] == accesses.granule[order][:-1]
    gap[order[1:][same]] = (order[1:] - order[:-1])[same]
    distances: Array = np.where(gap > step, far, near)
    return distances


def _scaled(
    sample: _Sample, level: str, read: Mapping[Key, float], write: Mapping[Key, float], seen: Mapping[Key, float], asked: Mapping[Key, float]
) -> tuple[Flow, ...]:
    spans: dict[Key, Span | None] = dict(zip(sample.keys(), (b.span for b in sample.boxes), strict=True))
    flows = []
    for key, span in spans.items():
        if seen[key] and (read[key] or write[key]):
            times = asked.get(key, 0.0) / seen[key]
            flows.append(Flow(level, key[0], read[key] * times, write[key] * times, 0.0, span))
    return tuple(flows)


def _at_least_once(missed: tuple[Flow, ...], above: tuple[Flow, ...], compulsory: tuple[Moved, ...]) -> list[Flow]:
    """Bytes at DRAM by buffer and line: those missed, but no less than each byte once, and no more than what L2 was asked for.

    What the bytes of a buffer fall short of is shared by the lines that ask for it.
    """
    needed = {m.buffer: (m.read_bytes, m.write_bytes) for m in compulsory}
    found: dict[Key, tuple[float, float]] = {}
    for f in missed:
        read, write = found.get(_flow_key(f), (0.0, 0.0))
        found[_flow_key(f)] = (read + f.read_bytes, write + f.write_bytes)
    out = []
    for name in dict.fromkeys(f.buffer for f in above):
        mine = [f for f in above if f.buffer == name]
        once, got = needed.get(name, (0, 0)), [found.get(_flow_key(f), (0.0, 0.0)) for f in mine]
        sides = [_between([(f.read_bytes, f.write_bytes)[i] for f in mine], [g[i] for g in got], once[i]) for i in (0, 1)]
        out += [Flow("DRAM", name, read, write, 0.0, f.span) for f, read, write in zip(mine, *sides, strict=True) if read or write]
    return out


def _between(most: list[float], missed: list[float], least: float) -> list[float]:
    """`missed` of each line, raised so that they sum up to at least `least`, none above `most`."""
    now = [min(a, b) for a, b in zip(missed, most, strict=True)]
    short = least - sum(now)
    room = sum(most) - sum(now)
    if short <= 0 or room <= 0:
        return now
    return [a + (b - a) * min(1.0, short / room) for a, b in zip(now, most, strict=True)]


def _key(m: Moved) -> Key:
    return m.buffer, (m.span.file, m.span.line) if m.span else None


def _flow_key(f: Flow) -> Key:
    return f.buffer, (f.span.file, f.span.line) if f.span else None
