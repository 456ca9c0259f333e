"""The time of a launch on a GPU: from the binding roof down to the prediction, in bars that add up.

Every multiprocessor (SM) works through its share of the blocks, as many at once as fit. Its units and its memory levels work side by side, so the
least time is that of the busiest; what a block waits for in turn (a copy's latency, an exponential between two products) shows where too few other
blocks or warps hide it. The rules, each a bar: tail wave, units in turn, exposed latency or copies in turn, fill and drain, sustained clock, launch.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from ..base.gpu import Gpu
from ..base.hardware import Machine
from ..ir.node import walk
from ..ir.stmt import Gemm, Kernel
from .counts import Counts
from .excess import Excess
from .grid import Cut, cut_of, useful_share
from .occupancy import Occupancy, copies_by_engine, occupancy
from .space import Array
from .traffic import Traffic
from .units import compute_seconds, main_unit, unit_seconds
from .values import several, show
from .waterfall import Bar, Waterfall

_Step = tuple[str, float, str, str, str]  # a bar's name, the time up to its end, why, edit, view
GROUP = 4  # warps of a warp group: one on each scheduler of an SM
TENSOR_POWER = (
    0.5  # of the power of long products. From the clocks of an H200 at it: 1.34 GHz for GEMM, 1.35-1.5 and 1.5-1.65 for attention (2026-11)
)
PRODUCT_WAIT = 180.0  # cycles from a product's last instruction to its sums being there. From an H200: attention with one warp group (2026-12)


@dataclass(frozen=True, slots=True)
class _Launch:
    """What the bars are computed from. Seconds are of the whole GPU at full rate."""

    machine: Machine
    gpu: Gpu
    cut: Cut
    fit: Occupancy
    units: Mapping[str, float]
    levels: Mapping[str, float]
    counts: Counts
    traffic: Traffic
    has_engine: bool = False  # whether a thread of its own copies ahead, by the tensor copy engine
    clock: float = 0.0  # of the SMs in MHz

    @property
    def busy(self) -> int:
        """Multiprocessors that have a block at all."""
        return max(1, min(self.cut.blocks, self.machine.cores))

    @property
    def rounds(self) -> int:
        """Blocks of the multiprocessor that has most."""
        return max(1, math.ceil(self.cut.blocks / self.machine.cores))

    @property
    def residents(self) -> int:
        """Blocks that run on one multiprocessor at once."""
        return max(1, min(self.fit.blocks, self.rounds))

    @property
    def least(self) -> float:
        """Seconds of the busiest unit or level."""
        return max(*self.units.values(), *self.levels.values(), 0.0)

    @property
    def groups(self) -> float:
        """Warp groups of a block."""
        return max(1.0, self.fit.threads / 32 / GROUP)


def gpu_waterfall(
    kernel: Kernel,
    counts: Counts,
    traffic: Traffic,
    machine: Machine,
    dims: Mapping[str, int],
    fit: Occupancy | None = None,
    *,
    is_warm: bool = False,
    useful_flops: int | None = None,
    scalars: Mapping[str, Any] | None = None,
    arrays: Mapping[str, Array] | None = None,
    excess: Excess | None = None,
) -> Waterfall:
    """The predicted time of one launch on a GPU, from the least that its binding roof allows.

    `fit` says how many blocks an SM runs at once (computed if None); `is_warm` that the launch repeats one whose data are still in L2;
    `useful_flops` the textbook's FLOP, where masked work runs beyond it; `excess` what an emulated run saw of conflicts and sectors.
    """
    assert machine.gpu is not None
    cores = machine.cores
    fit = fit or occupancy(kernel, machine)
    main = max(kernel.launches, key=lambda n: any(isinstance(x, Gemm) for x in walk(n)), default=None)
    cut = cut_of(kernel, main, counts, dims, scalars, arrays) if main is not None else Cut(0, 1.0, 1, False)
    moved = {x.name: traffic.bytes(x.name, warm=is_warm) for x in machine.levels if x.core is not None}
    levels = {name: n / (machine.bandwidth(name, cores).value * 1e9) for name, n in moved.items()}
    has_engine = main is not None and copies_by_engine(main, machine.gpu)
    units = unit_seconds(counts, machine, cores)
    run = _Launch(machine, machine.gpu, cut, fit, units, levels, counts, traffic, has_engine, machine.gpu.clock.value)
    limits = {"compute": compute_seconds(counts, machine, cores), **levels}
    name = max(limits, key=lambda k: limits[k])
    if not cut.blocks or not limits[name]:
        return Waterfall(Bar(name, 0.0, "nothing runs"))
    share = useful_flops / counts.total_flops if useful_flops and counts.total_flops else useful_share(kernel, counts)
    roof, bars = _roof(run, name, limits, min(share, 1.0), moved)
    launches = max(len(kernel.launches), 1)
    bars += _occupied(run, excess)
    bars.append(
        Bar("launch", launches * machine.gpu.launch.value * 1e-6, f"{launches} x {machine.gpu.launch}", "join kernels, or launch as a CUDA graph")
    )
    return Waterfall(roof, tuple(bar for bar in bars if bar.seconds > 0))


def _roof(run: _Launch, name: str, limits: Mapping[str, float], share: float, moved: Mapping[str, float]) -> tuple[Bar, list[Bar]]:
    """The least time that useful work needs, and what masked lanes add to it."""
    if name != "compute":
        return Bar(name, limits[name], f"{show(moved[name], 'B')} at {run.machine.bandwidth(name, run.machine.cores)}", view="roofline"), []
    unit = max(run.units, key=lambda u: run.units[u])
    rate = run.machine.special_rate() if unit == "sfu" else run.machine.peak(main_unit(run.counts, run.machine)[1], run.machine.cores, unit)
    what = f"{show(run.counts.total_flops, 'FLOP')}, busiest unit {unit} at {rate}"
    rest = max((s for k, s in limits.items() if k != "compute"), default=0.0)
    useful = max(limits["compute"] * share, rest)
    masked = limits["compute"] - useful
    why = f"{(1 - share) * 100:.0f} % of the products are outside the arguments, or masked"
    return Bar("compute", useful, what, view="roofline"), [
        Bar("masked lanes", masked, why, "tile sizes that divide the sizes; skip tiles that are masked whole", "source")
    ]


def _held(run: _Launch) -> tuple[_Launch, _Step]:
    """The launch at the rates that last, on machines where they were timed, and the bar for it."""
    gpu, name, why, edit = run.gpu, "", "", ""
    held = _at_lasting_clock(run)
    if held is not run:
        name, edit = "sustained clock", "fewer bytes moved for each FLOP take less power"
        why = f"matrix products that go on for long are held at {held.clock:.0f} MHz, not {gpu.tensor_clock}, by the power limit"
    levels = dict(held.levels)
    if gpu.sustained_dram is not None and levels.get("DRAM"):
        levels["DRAM"] *= run.machine.bandwidth("DRAM").value / gpu.sustained_dram.value
        if levels["DRAM"] >= max(held.units.values(), default=0.0):
            name, edit, why = "sustained rate", "", f"large copies reach {gpu.sustained_dram}, not {run.machine.bandwidth('DRAM')}"
    held = replace(held, levels=levels)
    return held, (name, held.least, why, edit, "")


def _at_lasting_clock(run: _Launch) -> _Launch:
    """The launch at the clock that the power limit leaves; itself where there are no matrix products, or nobody timed it.

    Matrix units that are always busy take `TENSOR_POWER` of the power, so a launch that leaves them idle for a part of the time runs faster.
    """
    gpu, held = run.gpu, run
    if gpu.sustained_clock is None or not run.units.get("tensor"):
        return run
    busy = 1.0
    for _ in range(4):  # the share for which they are busy hangs on the clock, a little
        clock = min(gpu.tensor_clock.value, gpu.sustained_clock.value / (1 - TENSOR_POWER * (1 - busy)))
        units = {unit: s * _stated_clock(run, unit) / clock for unit, s in run.units.items()}
        levels = {name: s * (1.0 if name == "DRAM" else gpu.clock.value / clock) for name, s in run.levels.items()}
        held = replace(run, units=units, levels=levels, clock=clock)
        busy = units["tensor"] / max(_turns(held)[1], _latency(held)[1], held.least)
    return held


def _stated_clock(run: _Launch, unit: str) -> float:
    """The clock in MHz that a unit's peak belongs to: the peak over what it does in a cycle, where that is known."""
    peak = run.machine.find_peak(main_unit(run.counts, run.machine)[1], unit)
    if peak.unit == unit and peak.per_clock is not None:
        return peak.machine.value * 1e3 / (peak.per_clock.value * run.machine.cores)
    return (run.gpu.tensor_clock if unit == "tensor" else run.gpu.clock).value


def _together(busy: Mapping[str, float], groups: float) -> float:
    """How long an SM's units take for work that passes from one to the other, each being `busy` for so long.

    One warp group waits for each in turn. Of several, each on another unit, two still meet at one now and then: the root of the sum of squares is
    what an H200 takes for attention with 64, 128 and 256 dims (within 5 %, November 2026).
    """
    return sum(busy.values()) if groups < 2 else math.sqrt(sum(x * x for x in busy.values()))


def _occupied(run: _Launch, excess: Excess | None) -> list[Bar]:
    """What lasting rates, conflicts, and too few blocks, warps or buffers add: each bar is the time beyond the one before."""
    bars = []
    now = run.least
    run, held = _held(run)
    run, waves, sectors = _seen(run, excess)
    for name, seconds, why, edit, view in (held, waves, sectors, _tail(run), _turns(run), _latency(run), _ends(run)):
        if seconds > now * 1.001:
            bars.append(Bar(name, seconds - now, why, edit, view))
            now = seconds
    return bars


def _seen(run: _Launch, excess: Excess | None) -> tuple[_Launch, _Step, _Step]:
    """The launch with the wavefronts and sectors that an emulated run saw beyond the least, and the bars for both."""
    nothing = ("", 0.0, "", "", "")
    if excess is None:
        return run, nothing, nothing
    levels = dict(run.levels)
    levels["shared"] = levels.get("shared", 0.0) + excess.shared_bytes / (_whole(run, "shared") * 1e9)
    with_waves = replace(run, levels=levels)
    counted = [show(n, "").strip() for n in (excess.wavefronts, excess.ideal_wavefronts, excess.sectors, excess.ideal_sectors)]
    at = f", most at {excess.worst_wavefronts}" if excess.worst_wavefronts else ""
    why = f"{counted[0]} wavefronts of shared memory beyond {counted[1]} that would do{at}: emulated"
    waves = ("excess wavefronts", with_waves.least, why, "a layout in which the lanes of a warp meet different banks", "layout")
    levels = {**levels, "L2": levels.get("L2", 0.0) + excess.sector_bytes / (_whole(run, "L2") * 1e9)}
    with_both = replace(run, levels=levels)
    at = f", most at {excess.worst_sectors}" if excess.worst_sectors else ""
    why = f"{counted[2]} sectors of 32 bytes beyond {counted[3]} that hold what is asked for{at}: emulated"
    return with_both, waves, ("extra sectors", with_both.least, why, "lanes side by side that take elements side by side", "source")


def _tail(run: _Launch) -> _Step:
    """All units of an SM wait for its last block; an SM without a block moves nothing."""
    cores, blocks = run.machine.cores, run.cut.blocks
    uneven = run.rounds * cores / blocks
    inside = max(*run.units.values(), run.levels.get("shared", 0.0), 0.0) * uneven
    outside = max(s * _whole(run, name) / _some(run, name) for name, s in run.levels.items() if name != "shared")
    last = several((blocks - 1) % cores + 1, "block")
    why = f"{several(blocks, 'block')} on {cores} SMs: {several(run.rounds, 'round')}, the last {last} of {cores}"
    edit = "more, smaller blocks, or split the sum over blocks" if blocks < 2 * cores else f"a grid just under a multiple of {cores} blocks"
    return "tail wave", max(inside, outside, run.least), why, edit, "pipeline"


def _whole(run: _Launch, level: str) -> float:
    return run.machine.bandwidth(level, run.machine.cores).value


def _some(run: _Launch, level: str) -> float:
    return run.machine.bandwidth(level, run.busy).value


def _step_seconds(run: _Launch) -> tuple[float, float, float]:
    """Of one step of one block alone on its SM: (arithmetic in turn, transfer from L2, latency)."""
    per_step = run.machine.cores / (run.cut.blocks * run.cut.steps)
    arithmetic = _together(run.units, run.groups) * per_step / min(1.0, run.groups)
    if run.groups < 2 and run.cut.products > 1:  # what stands between two products waits for the first, and the next step for the second
        arithmetic += run.cut.products * PRODUCT_WAIT / (run.clock * 1e6)
    arithmetic = max(arithmetic, run.levels.get("shared", 0.0) * per_step)
    core = run.machine.bandwidth("L2", 1).value * 1e9
    asked = run.traffic.bytes("L2")
    transfer = asked / (run.cut.blocks * run.cut.steps) / core
    far = run.traffic.bytes("DRAM") / asked if asked else 0.0
    latency = run.gpu.l2_latency.value + (run.gpu.dram_latency.value - run.gpu.l2_latency.value) * min(far, 1.0)
    return arithmetic, transfer, latency * 1e-9


def _slot(run: _Launch) -> float:
    """How many blocks one of an SM's places for a block works through."""
    return run.rounds / run.residents


def _turns(run: _Launch) -> _Step:
    """The arithmetic of blocks whose work passes from unit to unit: in turn in a block of one warp group, else with the gaps filled by others."""
    arithmetic, _, _ = _step_seconds(run)
    meeting = _together(run.units, run.groups * run.residents) * run.rounds * run.machine.cores / run.cut.blocks
    seconds = max(_slot(run) * run.cut.steps * arithmetic, meeting)
    names = ", ".join(f"{u} {show(s, 's')}" for u, s in sorted(run.units.items(), key=lambda x: -x[1]))
    why = f"{names}: in turn in a block of {run.fit.threads} threads, {run.residents} at once on an SM"
    return (
        "units in turn",
        seconds,
        why,
        run.fit.next_step or "more threads in a block, so that one group multiplies while another does the rest",
        "pipeline",
    )


def _latency(run: _Launch) -> _Step:
    arithmetic, transfer, latency = _step_seconds(run)
    ahead = run.cut.stages if run.gpu.has_async_copy else 1
    if run.has_engine and run.gpu.copy_latency is not None:
        # a place in shared memory is loaded, and held until its product is done; one of the matrix units is waited for when the next is under way
        products = max(run.cut.products, 1)
        is_late = ahead > 1 and products == 1 and run.units.get("tensor", 0.0) > 0
        latency, transfer = run.gpu.copy_latency.value * 1e-9, transfer / products
        held = arithmetic / products * (2 if is_late else 1)
        step = max(arithmetic, (latency + transfer + held) / ahead)
    elif ahead > 1:
        step = max(arithmetic, (latency + transfer + arithmetic) / ahead)
    else:
        step = latency + transfer + arithmetic
    seconds = _slot(run) * run.cut.steps * step
    wait = f"each {show(latency + transfer, 's')} until its bytes are there"
    why = f"{several(run.cut.steps, 'step')} of a block, {wait}, {several(run.residents, 'block')} at once on an SM"
    if ahead > 1 or not run.cut.has_loop:
        more = f"num_stages={ahead + 1}"
        return "exposed latency", seconds, why, more if run.has_engine else run.fit.next_step or more, "pipeline"
    edit = "num_stages=2" if run.gpu.has_async_copy else "no asynchronous copies on this GPU: more blocks at once"
    return "copies in turn", seconds, f"{why}: nothing is copied ahead", edit, "pipeline"


def _ends(run: _Launch) -> _Step:
    """The first bytes of a block, and its results, with nothing else to do on its place."""
    _, seconds, *_ = _latency(run)
    if not run.cut.has_loop:
        return "fill and drain", seconds, "", "", ""
    _, transfer, latency = _step_seconds(run)
    written = sum(f.write_bytes for f in run.traffic.flows if f.level == "L2") / run.cut.blocks / (run.machine.bandwidth("L2", 1).value * 1e9)
    once = latency + transfer + written
    why = f"{several(_slot(run), 'block')} in a row, each {show(once, 's')} for its first bytes and its results"
    return "fill and drain", seconds + _slot(run) * once, why, run.fit.next_step or "persistent blocks that load ahead into the next tile", "pipeline"
