"""What to change: one edit that would test the verdict, and why. Derived from what bounds the kernel, by buffer, line and tile extent."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..base.span import Span
from ..ir.expr import Buffer, Expr, Load
from ..ir.node import walk
from ..ir.stmt import Kernel, Launch, Let, Region, Store
from .occupancy import most_registers
from .space import Evaluator, Lanes
from .uses import BufferUse
from .values import show

if TYPE_CHECKING:
    from .report import Report

GAP = 0.25  # a bar that adds more than this share of the predicted time is the first thing to change
AGAIN = 1.15  # a buffer that moves more often than this is moved again


def edit_of(r: Report) -> str:
    """One sentence: the edit that would test the verdict; "" where nothing runs or nothing is known."""
    if r.occupancy is not None and not r.occupancy.is_legal:
        return next((x.fits for x in r.occupancy.refusals if x.fits), "smaller tiles")
    if not any(r.limits.values()):
        return ""
    gap = r.waterfall.largest_gap
    if r.waterfall.bars and gap.edit and gap.seconds > GAP * r.waterfall.seconds:
        return f"{gap.edit}: {gap.name} takes {show(gap.seconds, 's')} of the predicted {show(r.waterfall.seconds, 's')}"
    if r.bound == "compute":
        return _faster_arithmetic(r)
    if r.bound == "shared":
        return _fewer_reads(r)
    return _less_traffic(r, r.bound)


def why_of(r: Report) -> str:
    """A few sentences: the verdict, what the binding resource is busy with, what the prediction adds, and the edit."""
    parts = [r.verdict]
    if r.bound != "compute" and any(r.limits.values()):
        parts += _busiest(r, r.bound)
    if r.waterfall.bars:
        gap = r.waterfall.largest_gap
        parts.append(f"the prediction adds most for {gap.name}: {show(gap.seconds, 's')} ({gap.why})")
    if r.measured is not None and r.predicted.value:
        ratio = r.judged_seconds / r.predicted.value
        parts.append(f"measured is {ratio:.3g} times the prediction")
    return ". ".join([*parts, *([f"Try {r.edit}"] if r.edit else [])])


def _busiest(r: Report, level: str) -> list[str]:
    uses = sorted((u for u in r.by_buffer() if u.bytes.get(level, 0.0)), key=lambda u: -u.bytes[level])
    total = sum(u.bytes[level] for u in uses)
    if not uses or not total:
        return []
    u = uses[0]
    often = f", needed once, moved {u.bytes[level] / u.compulsory_bytes:.3g} times" if u.compulsory_bytes else ""
    return [f"{u.buffer}{_on_line(r, u.buffer)} has {u.bytes[level] / total * 100:.0f} % of the {show(total, 'B')} at {level}{often}"]


# ---------------------------------------------------------------------------------------------- arithmetic and shared memory
def _faster_arithmetic(r: Report) -> str:
    unit, dtype = r.main_unit
    narrow = "float16>float32"
    products = r.counts.gemm_flops.get(dtype, 0) > 0.5 * r.counts.total_flops
    now, other = r.machine.peak(dtype, r.threads, unit), r.machine.peak(narrow, r.threads, "tensor")
    if products and unit == "fma" and other.value > 1.5 * now.value:
        return f"float16 or bfloat16 tiles summed in float32: {other} on the tensor units instead of {now}"
    if r.special_share > 0.3:
        return f"fewer exponentials and divisions: they take {r.special_share * 100:.0f} % of the arithmetic's time"
    if r.useful_flops and r.useful_flops < 0.8 * r.counts.total_flops:
        return f"skip masked work: {show(r.counts.total_flops - r.useful_flops, 'FLOP')} of {show(r.counts.total_flops, 'FLOP')} are not needed"
    return f"fewer FLOP or a narrower type: the schedule moves its bytes in less time than {r.peak} takes"


def _fewer_reads(r: Report) -> str:
    level = max((f for f in r.traffic.flows if f.level == "shared"), key=lambda f: f.bytes)
    return (
        f"larger tiles for each warp, or an operand kept in registers: {level.buffer}{_on_line(r, level.buffer)} "
        f"is read {show(level.read_bytes, 'B')} from shared memory"
    )


# ---------------------------------------------------------------------------------------------- traffic
@dataclass(frozen=True, slots=True)
class _Again:
    """A block variable along which buffers are read again, and the extent of the tile that moves with it."""

    var: str
    tile: int
    buffers: tuple[str, ...]


def _less_traffic(r: Report, level: str) -> str:
    """Doubling a tile halves what is read again for each block along it."""
    again = [u for u in r.by_buffer() if u.scope == "global" and u.compulsory_bytes and u.bytes.get(level, 0.0) > AGAIN * u.compulsory_bytes]
    if not again or r.ir is None:
        if again:
            return f"keep {again[0].buffer} in a tile: {level} moves it {again[0].bytes[level] / again[0].compulsory_bytes:.3g} times"
        return f"a narrower type, or one kernel with its neighbour: {level} moves each byte about once already"
    best = max(((found, _saved(r, level, found, again)) for found in _read_again(r)), key=lambda x: x[1], default=None)
    if best is None or best[1] <= 0:
        u = max(again, key=lambda u: u.bytes[level])
        return f"keep {u.buffer}{_on_line(r, u.buffer)} in a tile across its loop: {level} moves it {u.bytes[level] / u.compulsory_bytes:.3g} times"
    found, saved = best
    now = sum(u.bytes.get(level, 0.0) for u in r.by_buffer())
    name = tunable(r.schedule, found.tile)
    change = f"{name}={2 * found.tile}" if name else f"tiles of {2 * found.tile} instead of {found.tile} along {found.var}"
    most = [u.buffer for u in again if u.buffer in found.buffers]
    about = "" if level == "L2" and r.machine.is_gpu else "about "
    fall = f"{level} bytes fall from {show(now, 'B')} to {about}{show(now - saved, 'B')}"
    return f"{change}{_room_for(r, found.tile)}: {fall}, since {_all(r, most)} read again for each {found.var}"


def _room_for(r: Report, tile: int) -> str:
    """What else has to change on a GPU where tiles of that extent no longer fit at twice the size; "" where they do."""
    fit, gpu = r.occupancy, r.machine.gpu
    if fit is None or gpu is None:
        return ""
    grown = sum(n.bytes * (2 if tile in n.shape else 1) for n in fit.needs if n.scope == "shared")
    more = sum(n.bytes for n in fit.needs if n.scope == "fragment" and tile in n.shape) / (4 * fit.threads)
    notes = ["fewer stages or a smaller step"] if grown > gpu.shared_per_block.bytes else []
    notes += ["more threads"] if fit.registers + more > most_registers(gpu, fit.threads) else []
    return f", with {' and '.join(notes)}" if notes else ""


def _all(r: Report, names: list[str]) -> str:
    told = [f"{n}{_on_line(r, n)}" for n in names]
    return f"{told[0]} is" if len(told) == 1 else f"{', '.join(told[:-1])} and {told[-1]} are"


def _saved(r: Report, level: str, found: _Again, again: list[BufferUse]) -> float:
    return sum(min(u.bytes[level] / 2, u.bytes[level] - u.compulsory_bytes) for u in again if u.buffer in found.buffers)


def tunable(schedule: Mapping[str, Any], value: int) -> str:
    """The one tunable that has `value`, "" where none or several have."""
    names = [k for k, v in schedule.items() if v == value and type(v) is int]
    return names[0] if len(names) == 1 else ""


def _read_again(r: Report) -> Iterator[_Again]:
    """For each block variable: the global buffers whose regions do not move with it, and the tile that does."""
    assert r.ir is not None
    for launch in r.ir.launches:
        moves = _Moves(r.ir, launch, r.dims)
        regions = list(_regions(launch))
        for var in launch.block_vars:
            steps = [max((moves.by(e, var.name) for e in starts), default=0) for _, starts in regions]
            still = {b.root.name for (b, _), step in zip(regions, steps, strict=True) if not step}
            still -= {b.root.name for (b, _), step in zip(regions, steps, strict=True) if step}
            tiles = [s for s in steps if s > 1]
            if still and tiles:
                yield _Again(var.name, min(tiles), tuple(sorted(still)))


class _Moves:
    """How far an index expression moves when a block variable does."""

    def __init__(self, kernel: Kernel, launch: Launch, dims: Mapping[str, int]) -> None:
        self.evaluate = Evaluator()
        self.evaluate.definitions = {n.var.name: n.value for n in walk(kernel) if isinstance(n, Let)}
        self.zero = {**dict.fromkeys(_variables(launch), 0), **dims}

    def by(self, expr: Expr, var: str) -> int:
        ends = [self.evaluate.bounds(expr, Lanes.single({**self.zero, var: at})) for at in (0, 1)]
        if ends[0] is None or ends[1] is None:
            return 0
        low, high = (float(np.ravel(e[0])[0]) for e in ends if e is not None)
        return abs(int(high - low)) if np.isfinite(high - low) else 0


def _variables(launch: Launch) -> set[str]:
    names = {v.name for v in launch.block_vars} | {v.name for v in launch.thread_vars}
    for node in walk(launch):
        for attribute in ("var", "vars"):
            found = getattr(node, attribute, ())
            names |= {v.name for v in (found if isinstance(found, tuple) else (found,)) if not isinstance(node, Let) and v is not None}
    return names


def _regions(launch: Launch) -> Iterator[tuple[Buffer, tuple[Expr, ...]]]:
    for node in walk(launch):
        match node:
            case Region(buffer, starts) if not buffer.is_on_chip:
                yield buffer, starts
            case Load(buffer, indices) if not buffer.is_on_chip:
                yield buffer, indices
            case Store(buffer, indices) if not buffer.is_on_chip:
                yield buffer, indices


def _on_line(r: Report, buffer: str) -> str:
    span: Span | None = next((m.span for m in r.counts.asked if m.buffer == buffer and m.span is not None), None)
    return f" (line {span.line})" if span is not None else ""
