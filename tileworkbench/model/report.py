"""Why a kernel is as fast as it is: counts, predicted traffic, the machine's roofs, and (when it ran) its measured time, in one value.

    r = report(kernel, Machine.measure(), {"m": 1024}, threads=1, seconds=times)
    print(r.verdict)          # DRAM-bound: 71 % of 14.9 GB/s
    print(r)                  # the whole table
    r.facts["dram.bytes"]     # (value, unit) for assertions
    r.waterfall, r.occupancy, r.edit      # from the roof to the prediction; what fits; what to change

It works the same for a machine that is not here: `report(kernel, find_machine("h200"), {})`. Bytes at the nearest level are counted, bytes below it
predicted; a time is predicted until it was measured, and the two print differently.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ..base.machine import Machine, Quantity
from ..base.span import Span
from ..ir.stmt import Kernel
from .advice import edit_of, why_of
from .bounded import bounded
from .counters import Counters
from .counts import Counts, count
from .cpu_time import warm_bytes
from .excess import Excess, excess_of
from .facts import Fact, facts_of
from .gpu_traffic import gpu_traffic
from .occupancy import Compiled, Occupancy, occupancies, occupancy
from .report_text import ABOVE, LATENCY, percent, text_lines, verdict, words
from .space import Array
from .time import predict_time
from .traffic import Flow, Traffic, predict_traffic
from .units import SPECIAL_COST, Unit, compute_seconds, main_dtype, main_unit, unit_seconds, work_by_unit
from .uses import BufferUse, LevelUse, LineUse, Point
from .values import Measured, Number, Predicted, Recorded, kind_of
from .walk import Assumption
from .waterfall import Bar, Waterfall

__all__ = [
    "ABOVE", "LATENCY", "SPECIAL_COST", "BufferUse", "LevelUse", "LineUse", "Point", "Report", "percent", "report", "text_lines", "words",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Report:
    """Everything a view shows of one kernel at one size. `useful_flops` is the textbook's count where it differs from what runs.

    `threads` are the cores used: all SMs of a GPU. `occupancy` is what a block needs against what fits; `ir` the kernel's tile IR. `breakdown` holds
    the predicted time; `waterfall` is the same with the roof alone where nobody predicted more.
    """

    kernel: str
    machine: Machine
    threads: int
    dims: Mapping[str, int]
    counts: Counts
    traffic: Traffic
    measured: Measured | None = None
    useful_flops: int | None = None
    schedule: Mapping[str, Any] = field(default_factory=dict)
    breakdown: Waterfall | None = None
    occupancy: Occupancy | None = None
    ir: Kernel | None = field(default=None, repr=False, compare=False)
    excess: Excess | None = None  # what an emulated run saw of conflicts and sectors
    counters: Counters | None = None  # what the processor counted in measured launches, or why it did not
    _levels: list[tuple[LevelUse, ...]] = field(default_factory=list, init=False, repr=False, compare=False)  # worked out once: views ask often

    # ------------------------------------------------------------------------------------------ levels and roofs
    @property
    def is_warm(self) -> bool:
        """Whether bytes and times are those of a launch that repeats: measured ones are, and predictions for a CPU, to be compared with them.

        Recorded runs had arrays of their own for each launch.
        """
        if isinstance(self.measured, Recorded):
            return False
        return self.measured is not None or (self.breakdown is not None and not self.machine.is_gpu)

    @property
    def first_launch(self) -> Report:
        """The same kernel launched for the first time, predicted: no cache holds anything yet, and the slowest part hides all the others."""
        return replace(self, measured=None, breakdown=None)

    @property
    def levels(self) -> tuple[LevelUse, ...]:
        """L1 (shared memory of a GPU) to DRAM. In a launch that repeats, data that fits in a cache no longer moves below it."""
        if not self._levels:
            self._levels.append(self._each_level())
        return self._levels[0]

    def _each_level(self) -> tuple[LevelUse, ...]:
        out: list[LevelUse] = []
        for level in self.machine.levels:
            if level.core is None:
                continue
            roof = self.machine.bandwidth(level.name, self.threads)
            flops, needed = self.counts.total_flops, float(self.counts.compulsory_bytes)
            if level.name == self.machine.nearest:
                asked = self.traffic.bytes("shared") if self.machine.is_gpu else float(self.counts.asked_bytes)
                out.append(LevelUse(level.name, asked, asked, 0.0, roof, True, flops, min(needed, asked), asked))
                continue
            flows = [f for f in self.traffic.flows if f.level == level.name]
            cold = sum(f.bytes for f in flows)
            now = self._now(level.name, cold)
            allocate = sum(f.allocate_bytes for f in flows) if now else 0.0
            worst = out[-1].worst_bytes if level.name == "DRAM" and self.machine.is_gpu else max(cold, float(self.counts.global_bytes))
            if level.name == "L2" and self.machine.is_gpu:
                worst = cold
            out.append(LevelUse(level.name, now, cold, allocate, roof, False, flops, needed, worst))
        return tuple(out)

    def _now(self, level: str, cold: float) -> float:
        if not self.is_warm:
            return cold
        if self.breakdown is not None and not self.machine.is_gpu:
            return warm_bytes(self.traffic, self.machine, level)
        return self.traffic.bytes(level, warm=True)

    @property
    def dtype(self) -> str:
        """The dtype of most of the arithmetic; float32 where there is none."""
        return main_dtype(self.counts)

    @property
    def main_unit(self) -> Unit:
        """(unit, dtype) of most of the FLOP: ("tensor", "float16>float32") or ("fma", "float32")."""
        return main_unit(self.counts, self.machine)

    @property
    def peak(self) -> Quantity:
        """The arithmetic roof for that dtype, on the unit that does it and the threads used."""
        unit, dtype = self.main_unit
        return self.machine.peak(dtype, self.threads, unit)

    @property
    def flops_by_unit(self) -> dict[Unit, int]:
        """FLOP by (unit, dtype); under ("sfu", kind) numbers of exponentials, divisions and so on, which are no FLOP."""
        return work_by_unit(self.counts, self.machine)

    @property
    def unit_seconds(self) -> dict[str, float]:
        """Least seconds of each arithmetic unit."""
        return unit_seconds(self.counts, self.machine, self.threads)

    @property
    def compute_seconds(self) -> float:
        """The least time of the arithmetic: FLOP at their peaks, plus exp, division and the like at an assumed cost."""
        return compute_seconds(self.counts, self.machine, self.threads)

    @property
    def special_share(self) -> float:
        """Of the arithmetic's time, the part of exp, division and the like."""
        whole = self.unit_seconds
        plain = unit_seconds(Counts(self.counts.flops, {}, (), (), gemm_flops=self.counts.gemm_flops), self.machine, self.threads)
        total = sum(whole.values())
        return 1 - sum(plain.values()) / total if total else 0.0

    @property
    def limits(self) -> dict[str, float]:
        """Least seconds by what could bound the kernel: "compute" and every level."""
        return {"compute": self.compute_seconds, **{level.name: level.seconds for level in self.levels}}

    @property
    def bound(self) -> str:
        """What needs the most time: "compute" or a level's name."""
        limits = self.limits
        return max(limits, key=lambda k: limits[k])

    # ------------------------------------------------------------------------------------------ time
    @property
    def waterfall(self) -> Waterfall:
        """From the binding roof down to the predicted time, in bars that add up."""
        if self.breakdown is not None:
            return self.breakdown
        name = self.bound
        return Waterfall(Bar(name, self.limits[name], "the slowest part hides all the others"))

    @property
    def predicted(self) -> Predicted:
        """The predicted time: the sum of the waterfall."""
        return Predicted(self.waterfall.seconds, "s")

    @property
    def time(self) -> Number:
        """The measured time, or the predicted one where nothing ran."""
        return self.measured or self.predicted

    @property
    def rate(self) -> Number:
        """FLOP/s over that time."""
        flops = self.counts.total_flops
        if self.measured is None:
            return Predicted(flops / self.predicted.value if self.predicted.value else 0.0, "FLOP/s")
        m = self.measured
        return replace(m, value=flops / m.value, unit="FLOP/s", best=flops / m.best if m.best else 0.0)

    @property
    def kind(self) -> str:
        """What its time is: "measured", "recorded" or "predicted"."""
        return kind_of(self.time)

    @property
    def badge(self) -> str:
        """Of a recorded run where and when it ran, which a view must show; else ""."""
        return self.measured.badge if isinstance(self.measured, Recorded) else ""

    @property
    def judged_seconds(self) -> float:
        """The time that the verdict is about: the median, or the best run where runs differ so much that something else was running."""
        if self.measured is None:
            return self.predicted.value
        return self.measured.best if self.measured.is_unstable else self.measured.value

    @property
    def shares(self) -> dict[str, float]:
        """Of each roof the share that is reached in that time."""
        seconds = self.judged_seconds
        return {name: least / seconds if seconds else 0.0 for name, least in self.limits.items()}

    @property
    def points(self) -> tuple[Point, ...]:
        """The roofline's dots, one for each level that moves bytes, at one height."""
        if not self.counts.total_flops:
            return ()
        return tuple(Point(level.name, level.intensity, self.rate) for level in self.levels if level.intensity is not None)

    # ------------------------------------------------------------------------------------------ words
    @property
    def where(self) -> str:
        """ "on NVIDIA H200, 132 SMs"."""
        return f"on {self.machine.name}, {self.machine.workers(self.threads)}"

    @property
    def verdict(self) -> str:
        """One sentence: what bounds the kernel and how near it is. A predicted one says so."""
        return verdict(self)

    @property
    def edit(self) -> str:
        """One sentence: the edit that would test the verdict, from what bounds the kernel; "" where there is none."""
        return edit_of(self)

    @property
    def why(self) -> str:
        """A few sentences: the verdict, what the binding resource is busy with, and the edit."""
        return why_of(self)

    @property
    def assumptions(self) -> tuple[Assumption, ...]:
        """What the model could not know."""
        return tuple(dict.fromkeys((*self.counts.assumptions, *self.traffic.assumptions)))

    @property
    def facts(self) -> dict[str, Fact]:
        """Names for assertions, each (value, unit) in base units: B, s, FLOP, FLOP/s, B/s, FLOP/B, or "" for a share."""
        return facts_of(self)

    # ------------------------------------------------------------------------------------------ tables
    def by_buffer(self) -> tuple[BufferUse, ...]:
        """One entry for each buffer, global ones first, most bytes asked first."""
        needed = {m.buffer: m.bytes for m in self.counts.compulsory}
        below = self._by_level(lambda f: f.buffer)
        uses = [BufferUse(m.buffer, m.scope, m.bytes, below(m.buffer), needed.get(m.buffer, 0)) for m in self.counts.by_buffer()]
        return tuple(sorted(uses, key=lambda u: (u.scope != "global", -u.asked_bytes)))

    def by_line(self) -> tuple[LineUse, ...]:
        """One entry for each source line that moves bytes or computes, in source order."""
        spans: dict[Any, Span | None] = {}
        for m in self.counts.asked:
            spans.setdefault(_line(m.span), m.span)
        below = self._by_level(lambda f: _line(f.span))
        out = []
        for line, span in spans.items():
            here = [m for m in self.counts.asked if _line(m.span) == line]
            flops = self.counts.line_flops.get(line, 0) if line is not None else 0
            out.append(LineUse(span, tuple(dict.fromkeys(m.buffer for m in here)), flops, sum(m.bytes for m in here), below(line)))
        return tuple(sorted(out, key=lambda u: (u.span.file, u.span.line) if u.span else ("", 0)))

    def _by_level(self, key: Callable[[Flow], Any]) -> Callable[[Any], dict[str, float]]:
        """Predicted bytes by level, of the flows that have a key."""
        names = [x.name for x in self.machine.levels if x.core is not None and x.name != "L1"]
        sums: dict[Any, dict[str, float]] = {}
        for f in self.traffic.flows:
            at = sums.setdefault(key(f), dict.fromkeys(names, 0.0))
            at[f.level] = at.get(f.level, 0.0) + f.bytes
        return lambda wanted: sums.get(wanted) or dict.fromkeys(names, 0.0)

    def __str__(self) -> str:
        return "\n".join(text_lines(self))


def _line(span: Span | None) -> tuple[str, int] | None:
    return (span.file, span.line) if span is not None else None


def report(
    kernel: Kernel,
    machine: Machine,
    dims: Mapping[str, int],
    *,
    threads: int = 1,
    seconds: Sequence[float] = (),
    scalars: Mapping[str, Any] | None = None,
    arrays: Mapping[str, Array] | None = None,
    useful_flops: int | None = None,
    schedule: Mapping[str, Any] | None = None,
    registers: int | None = None,
    compiled: Sequence[Compiled] = (),
    emulated: Mapping[Any, Any] | None = None,
) -> Report:
    """Count, predict and judge one launch of `kernel` (tile IR) on `machine`, which need not be here.

    Args:
        dims: the value of each symbolic dim by variable name; `scalars` likewise for run-time scalars.
        threads: cores used; a GPU is always used whole.
        seconds: measured times of repeated launches; empty if it did not run.
        arrays: contents of arguments by buffer name, for bounds that are read from data.
        useful_flops: the textbook's FLOP, where masked or repeated work runs beyond it.
        registers: of a thread of a GPU, as the compiler says; None estimates them.
        compiled: what each launch takes of such a GPU, as the compiler says, shared memory too; nothing estimates it.
        emulated: counters by line of an emulated run (`kernel.count(...).by_line`), of this size or of a smaller one, for a GPU's bars of conflicts.
    Raises: ValueError if a symbolic dim has no value.
    """
    known: dict[str, Any] = {"scalars": scalars, "arrays": arrays}
    counts = count(kernel, dims, scalars, arrays)
    threads = machine.cores if machine.is_gpu else max(1, min(threads, machine.cores))
    fit = occupancy(kernel, machine, registers=registers, schedule=schedule, compiled=compiled)
    if machine.is_gpu:
        fits = occupancies(kernel, machine, registers=registers, compiled=compiled)
        at_once = {id(n): machine.cores * max(1, o.blocks) for n, o in zip(kernel.launches, fits, strict=True)}
        traffic = gpu_traffic(kernel, counts, machine, dims, lambda launch: at_once[id(launch)], **known)
    else:
        traffic = bounded(predict_traffic(kernel, counts, machine, dims, threads=threads, **known), machine)
    is_warm = bool(seconds)
    excess = excess_of(emulated, counts.global_bytes) if emulated is not None and machine.is_gpu else None
    more: dict[str, Any] = {"threads": threads, "fit": fit, "is_warm": is_warm, "useful_flops": useful_flops, "excess": excess}
    time = predict_time(kernel, counts, traffic, machine, dims, **more, **known)
    measured = Measured.of(seconds) if seconds else None
    return Report(kernel.name, machine, threads, dict(dims), counts, traffic, measured, useful_flops, dict(schedule or {}), time, fit, kernel, excess)
