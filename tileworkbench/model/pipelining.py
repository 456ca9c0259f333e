"""The predicted timeline of a kernel's main loop, from its schedule.

On a GPU the copies of a pipelined loop run ahead of the arithmetic by as many buffers as the loop has stages: step k's copy starts when step
k - stages has read its buffer for the last time, its data arrive after the transfer and the latency of the level that feeds it, and whoever reads
them waits until then. Copies of a block share one engine; its arithmetic runs in program order. A loop without stages copies and waits in turn.
On a CPU one core does everything in program order, and the time of the copies is exposed; durations are those of the CPU's time model.

A duration on a GPU is the most that any level's bandwidth, or the peak, needs for the bytes and FLOP of the operation, at the share that one block
has of them while the other blocks run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ..base.machine import Machine
from ..base.quantity import Quantity
from ..ir.stmt import Kernel
from .cpu_costs import cpu_costs
from .cpu_time import statement_times
from .cpu_work import cpu_work
from .occupancy import occupancy
from .pipeline import OUTSIDE, Event, Timeline
from .report import Report
from .space import Array
from .stage_work import SFU, MainLoop, Work, main_loop, seconds_of
from .values import show

SHOWN = 8  # steps that are drawn; the rest repeat the steady state


def timeline(
    about: Report,
    kernel: Kernel,
    *,
    stages: int | None = None,
    shown: int = SHOWN,
    residents: int | None = None,
    loop: MainLoop | None = None,
    scalars: Mapping[str, Any] | None = None,
    arrays: Mapping[str, Array] | None = None,
) -> Timeline:
    """The predicted timeline of one block of `kernel` on the report's machine.

    Args:
        stages: instead of the loop's own number of stages, to ask "what if".
        shown: how many steps to draw at least; a pipeline needs two rounds of its buffers to become steady.
        residents: blocks that share a multiprocessor, each with a part of its rates; None: as many as fit.
        loop: what `main_loop` found, where several timelines of one kernel are wanted.
    """
    loop = loop or main_loop(kernel, about, scalars, arrays)
    if residents is None:
        residents = (about.occupancy or occupancy(kernel, about.machine)).blocks if about.machine.is_gpu else 1
    if loop is None:
        return Timeline(kernel.name, about.machine.name, (), (), assumptions=("nothing runs: the grid is empty",))
    if stages is not None:
        loop = replace(loop, num_stages=stages)
    steps = 0 if not loop.steps else max(1, min(max(shown, 2 * loop.num_stages + 2), round(loop.steps)))
    residents = max(1, min(residents, -(-int(loop.blocks) // about.machine.cores)))
    run = _GpuRun(loop, about, residents) if about.machine.gpu is not None else _CpuRun(loop, about, residents, kernel)
    for work in run.of("before"):
        run.outside(work)
    for step in range(steps):
        run.step(step)
    for work in run.of("after"):
        run.outside(work)
    lanes = tuple(lane for lane in run.LANES if any(e.lane == lane for e in run.events))
    return Timeline(kernel.name, about.machine.name, lanes, tuple(run.events), loop.num_stages, loop.steps, loop.var, "predicted", run.assumptions)


class _Run:
    """What both kinds of machine share: the durations, and the events so far."""

    LANES: tuple[str, ...] = ()
    assumptions: tuple[str, ...] = ()

    def __init__(self, loop: MainLoop, about: Report, residents: int) -> None:
        self.loop, self.about, self.machine, self.residents = loop, about, about.machine, residents
        self.workers = max(1, min(int(loop.blocks), about.threads if about.machine.gpu is None else about.machine.cores))
        self.events: list[Event] = []
        self.now = 0.0  # when the arithmetic is free

    def of(self, place: str) -> list[Work]:
        return [w for w in self.loop.work if w.place == place]

    def cost(self, work: Work) -> tuple[float, str]:
        """Seconds of one operation, and where they come from."""
        limits = seconds_of(work, self.about, self.workers)
        name = max(limits, key=lambda k: limits[k])
        seconds = limits[name] * self.residents
        others = f" / {self.workers * self.residents} blocks" if self.workers * self.residents > 1 else ""
        if name == "compute":
            flops = sum(work.flops.values())
            special = ", ".join(f"{show(n, '').strip()} {kind}" for kind, n in work.special.items())
            amount = ", ".join(x for x in (show(flops, "FLOP") if flops else "", special) if x)
            dtype, rate = next(iter(work.flops), "float32"), self.machine.special_rate(self.workers)
            units = f" and {rate}" if rate is not None and any(kind in SFU for kind in work.special) else ""
            return seconds, f"{amount} at {self.machine.peak(dtype, self.workers)}{units}{others}"
        return seconds, f"{show(work.bytes[name], 'B')} of {name} at {self.machine.bandwidth(name, self.workers)}{others}"

    def put(self, lane: str, kind: str, work: Work, start: float, end: float, step: int, slot: int = -1, why: str = "") -> None:
        if end > start:
            self.events.append(Event(lane, kind, work.name, start, end, step, slot, why, work.span))

    def outside(self, work: Work) -> None:
        raise NotImplementedError

    def step(self, step: int) -> None:
        raise NotImplementedError


class _CpuRun(_Run):
    """One core, in program order. Durations are those of the CPU's time model: what the core does, and what it waits for by level."""

    LANES = ("core copies", "core computes", "core stores")
    assumptions = ("a core copies and computes in turn",)

    def __init__(self, loop: MainLoop, about: Report, residents: int, kernel: Kernel) -> None:
        super().__init__(loop, about, residents)
        near, costs = self.machine.level(self.machine.nearest).capacity, cpu_costs(self.machine, about.threads)
        work = cpu_work(kernel, about.dims, self.machine.isa, near.bytes if near is not None else 32 << 10)
        self.times = statement_times(work, about.traffic, self.machine, costs)

    def outside(self, work: Work) -> None:
        self._next(work, OUTSIDE)

    def step(self, step: int) -> None:
        for work in self.of("loop"):
            self._next(work, step)

    def _next(self, work: Work, step: int) -> None:
        lane, kind = {"copy": ("core copies", "copy"), "store": ("core stores", "store")}.get(work.kind, ("core computes", "compute"))
        busy, waits = self._parts(work)
        self.put(lane, kind, work, self.now, self.now + sum(busy.values()), step, why=_sum_of(busy))
        self.now += sum(busy.values())
        for level, seconds in waits.items():
            self.put(lane, "wait", work, self.now, self.now + seconds, step, why=f"for bytes from {level}")
            self.now += seconds

    def _parts(self, work: Work) -> tuple[dict[str, float], dict[str, float]]:
        """Seconds of one run of an operation: by what the core does, and by the level that it waits for."""
        busy: dict[str, float] = {}
        waits: dict[str, float] = {}
        for t in self.times:
            if t.work.span is None or (t.work.span.file, t.work.span.line) not in work.lines:
                continue
            shared = sum((t.work.span.file, t.work.span.line) in w.lines for w in self.loop.work)
            for into, parts in ((busy, t.steps), (waits, t.waits)):
                for name, ns in parts.items():
                    into[name] = into.get(name, 0.0) + ns * 1e-9 / (work.times * shared)
        return busy, waits


def _sum_of(parts: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {show(s, 's')}" for name, s in sorted(parts.items(), key=lambda item: -item[1]) if s > 0)


class _GpuRun(_Run):
    """A producer that copies ahead, and threads that compute in program order."""

    LANES = ("copy", "tensor cores", "FMA units", "store")

    def __init__(self, loop: MainLoop, about: Report, residents: int) -> None:
        super().__init__(loop, about, residents)
        assert self.machine.gpu is not None
        self.gpu = self.machine.gpu
        self.is_async = loop.num_stages > 0 and self.gpu.has_async_copy
        self.slots = max(loop.num_stages, 1) if self.is_async else 1
        self.engine = 0.0  # when the copy engine is free
        self.arrived: dict[str, float] = {}  # buffer -> when its newest data are there
        self.arrived_at: dict[tuple[str, int], float] = {}
        self.released: dict[tuple[str, int], float] = {}
        notes = ["the threads of a block compute in program order; warps that take turns would overlap more"]
        if loop.num_stages > 0 and not self.is_async:
            notes.append(f"{self.gpu.arch} has no asynchronous copies: the stages of the loop change nothing")
        if loop.work and any(w.stage >= 0 for w in loop.work):
            notes.append("the author's order and stage annotations are not modelled beyond the number of stages")
        if residents > 1:
            notes.append(f"{residents} blocks share an SM, each with an equal part of its rates")
        self.assumptions = tuple(notes)

    def outside(self, work: Work) -> None:
        if work.kind == "copy":
            self._copy(work, OUTSIDE, self.engine)
        elif work.kind == "store":
            seconds, why = self.cost(work)
            self.put("store", "store", work, self.now, self.now + seconds, OUTSIDE, why=why)
            self.now += seconds
        else:
            self._compute(work, OUTSIDE)

    def step(self, step: int) -> None:
        inside = self.of("loop")
        if self.is_async:
            for work in inside:
                if work.kind == "copy":
                    free = max((self.released.get((buffer, step - self.slots), 0.0) for buffer in work.writes), default=0.0)
                    self._copy(work, step, free)
        for work in inside:
            if work.kind == "copy":
                if not self.is_async:
                    self._copy(work, step, self.now)
            elif work.kind == "store":
                seconds, why = self.cost(work)
                self.put("store", "store", work, self.now, self.now + seconds, step, why=why)
            else:
                self._compute(work, step)
        for work in inside:
            if work.kind == "copy":
                self._hold(work, step)

    def _copy(self, work: Work, step: int, free: float) -> None:
        """The transfer as soon as its buffer and the engine are free; the data arrive a latency later."""
        seconds, why = self.cost(work)
        start = max(self.engine, free)
        self.engine = start + seconds
        latency, level = self._latency(work)
        slot = step % self.slots if step != OUTSIDE else -1
        self.put("copy", "copy", work, start, self.engine, step, slot, why)
        self.put("copy", "flight", work, self.engine, self.engine + latency, step, slot, f"latency of {level}, {show(latency, 's')}")
        for buffer in work.writes:
            self.arrived[buffer] = self.arrived_at[buffer, step] = self.engine + latency

    def _compute(self, work: Work, step: int) -> None:
        lane = "tensor cores" if work.kind == "gemm" and any(">" in dtype for dtype in work.flops) else "FMA units"
        ready, late = self.now, ""
        for buffer in work.reads:
            when = self.arrived_at.get((buffer, step), self.arrived.get(buffer, 0.0) if (buffer, OUTSIDE) in self.arrived_at else 0.0)
            if when > ready:
                ready, late = when, buffer
        self.put(lane, "wait", work, self.now, ready, step, why=f"waits for {late}")
        seconds, why = self.cost(work)
        self.now = ready + seconds
        self.put(lane, "compute", work, ready, self.now, step, why=why)
        for buffer in work.reads:
            self.released[buffer, step] = self.now

    def _hold(self, work: Work, step: int) -> None:
        """From the arrival until the last reader is done."""
        for buffer in work.writes:
            there = self.arrived_at[buffer, step]
            done = self.released.setdefault((buffer, step), there)
            self.put("copy", "held", work, there, done, step, step % self.slots, f"{buffer} is full until its last reader is done")

    def _latency(self, work: Work) -> tuple[float, str]:
        """Seconds from the request to the first byte, of the level that feeds the copy."""
        asked = max(work.bytes.values(), default=0.0)
        if asked and work.bytes.get("DRAM", 0.0) > 0.01 * asked:
            return _seconds(self.gpu.dram_latency, self.machine), "DRAM"
        return _seconds(self.gpu.l2_latency, self.machine), "L2"


def _seconds(q: Quantity, machine: Machine) -> float:
    """A latency in seconds; one in cycles at the machine's clock."""
    scale = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}.get(q.unit)
    if scale is not None:
        return q.value * scale
    assert machine.gpu is not None
    clock = machine.gpu.clock
    return q.value / (clock.value * {"GHz": 1e9, "MHz": 1e6}.get(clock.unit, 1e9))
