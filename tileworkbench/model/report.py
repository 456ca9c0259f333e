"""Why a kernel is as fast as it is: counts, predicted traffic, the machine's roofs, and (when it ran) its measured time, in one value.

    r = report(kernel, Machine.measure(), {"m": 1024}, threads=1, seconds=times)
    print(r.verdict)          # DRAM-bound: 71 % of 14.9 GB/s
    print(r)                  # the whole table
    r.facts["dram.bytes"]     # (value, unit) for assertions

Bytes at L1 are counted, bytes below it predicted; a time is predicted until it was measured, and the two print differently.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..base.machine import Machine, Quantity
from ..base.span import Span
from ..ir.stmt import Kernel
from .counts import Counts, count
from .space import Array
from .traffic import Traffic, predict_traffic
from .values import Measured, Number, Predicted, show
from .walk import Assumption

# Vector instructions that one value of each kind takes, where a multiply-add takes one. exp: a degree-5 polynomial with range reduction; the rest
# are assumptions of the same order. They enter the predicted time only.
SPECIAL_COST = {"exp": 12, "log": 14, "div": 4, "sqrt": 4, "min/max": 1, "other": 20}
LATENCY = 0.6  # below this share of every roof a kernel waits rather than works
ABOVE = 1.05  # a point this far above a roof is an error of the model or of the measurement


@dataclass(frozen=True, slots=True)
class LevelUse:
    """What a kernel does at one level. `bytes` are read plus written; `cold_bytes` those of a first launch, where that differs.

    `seconds` is the least time that the level's bandwidth (`roof`, for the threads used) needs for them.
    """

    name: str
    bytes: float
    cold_bytes: float
    allocate_bytes: float
    roof: Quantity
    is_counted: bool
    flops: int

    @property
    def seconds(self) -> float:
        return self.bytes / (self.roof.value * 1e9)

    @property
    def intensity(self) -> float | None:
        """FLOP per byte; None where no bytes move."""
        return self.flops / self.bytes if self.bytes else None


@dataclass(frozen=True, slots=True)
class Point:
    """One dot of the roofline: FLOP/byte at a level, and FLOP/s (predicted or measured; the same for all levels)."""

    level: str
    intensity: float
    rate: Number


@dataclass(frozen=True, slots=True)
class LineUse:
    """What one source line does: FLOP, bytes asked, and predicted bytes by level."""

    span: Span | None
    buffers: tuple[str, ...]
    flops: int
    asked_bytes: int
    bytes: Mapping[str, float]

    @property
    def text(self) -> str:
        return self.span.source_line().strip() if self.span is not None else "(no source)"


@dataclass(frozen=True, slots=True)
class BufferUse:
    """What one buffer moves: bytes asked at L1, predicted bytes by level, and the bytes needed once (global buffers)."""

    buffer: str
    scope: str
    asked_bytes: int
    bytes: Mapping[str, float]
    compulsory_bytes: int


@dataclass(frozen=True, slots=True)
class Report:
    """Everything a view shows of one kernel at one size. `useful_flops` is the textbook's count where it differs from what runs."""

    kernel: str
    machine: Machine
    threads: int
    dims: Mapping[str, int]
    counts: Counts
    traffic: Traffic
    measured: Measured | None = None
    useful_flops: int | None = None
    schedule: Mapping[str, Any] = field(default_factory=dict)

    # ------------------------------------------------------------------------------------------ levels and roofs
    @property
    def levels(self) -> tuple[LevelUse, ...]:
        """L1 to DRAM. After repeated launches (`measured`) data that fits in the last cache no longer moves at DRAM."""
        out = []
        for level in self.machine.levels:
            if level.name == "registers" or level.core is None:
                continue
            roof = self.machine.bandwidth(level.name, self.threads)
            if level.name == "L1":
                asked = float(self.counts.asked_bytes)
                out.append(LevelUse("L1", asked, asked, 0.0, roof, is_counted=True, flops=self.counts.total_flops))
                continue
            flows = [f for f in self.traffic.flows if f.level == level.name]
            cold = sum(f.bytes for f in flows)
            now = self.traffic.bytes(level.name, warm=self.measured is not None)
            allocate = sum(f.allocate_bytes for f in flows) if now else 0.0
            out.append(LevelUse(level.name, now, cold, allocate, roof, is_counted=False, flops=self.counts.total_flops))
        return tuple(out)

    @property
    def dtype(self) -> str:
        """The dtype of most of the arithmetic; float32 where there is none."""
        return max(self.counts.flops, key=lambda k: self.counts.flops[k], default="float32")

    @property
    def peak(self) -> Quantity:
        """The arithmetic roof for that dtype and the threads used."""
        return self.machine.peak(self.dtype, self.threads)

    @property
    def compute_seconds(self) -> float:
        """The least time of the arithmetic: FLOP at their peaks, plus exp, division and the like at an assumed cost."""
        plain = sum(n / (self.machine.peak(dtype, self.threads).value * 1e9) for dtype, n in self.counts.flops.items())
        return plain + self._special_seconds

    @property
    def _special_seconds(self) -> float:
        slots = sum(SPECIAL_COST[kind] * n for kind, n in self.counts.special.items())
        return 2 * slots / (self.peak.value * 1e9)

    @property
    def limits(self) -> dict[str, float]:
        """Least seconds by what could bound the kernel: "compute" and every level."""
        return {"compute": self.compute_seconds, **{level.name: level.seconds for level in self.levels}}

    @property
    def bound(self) -> str:
        """What needs the most time: "compute" or a level's name."""
        limits = self.limits
        return max(limits, key=lambda k: limits[k])

    @property
    def predicted(self) -> Predicted:
        """The time if the slowest part hid all the others."""
        return Predicted(max(self.limits.values()), "s")

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
        return Measured(flops / m.value, "FLOP/s", m.runs, flops / m.best if m.best else 0.0, m.spread)

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
    def verdict(self) -> str:
        """One sentence: what bounds the kernel and how near it is. A predicted one says so."""
        if not any(self.limits.values()):
            return "nothing runs: the grid is empty"
        if self.measured is None:
            return f"{self.bound}-bound if its time is {self.predicted}, as predicted: {self._roof(self.bound)}"
        best = f"; best of {self.measured.runs} runs, which vary by {percent(self.measured.spread)}" if self.measured.is_unstable else ""
        return self._judgement() + best

    def _judgement(self) -> str:
        name, share = max(self.shares.items(), key=lambda item: item[1])
        if share > ABOVE:
            return f"above the {name} roof: {percent(share)} of {self._roof(name)}; the model counts what did not happen, or the roof is too low"
        if share < LATENCY:
            return f"latency-bound: the nearest roof is {name}, {percent(share)} of {self._roof(name)}"
        return f"{name}-bound: {percent(share)} of {self._roof(name)}"

    def _roof(self, name: str) -> str:
        if name != "compute":
            return str(self.machine.bandwidth(name, self.threads))
        extra = " with exp and division" if self._special_seconds > 0.2 * self.compute_seconds else ""
        return f"{self.peak} ({words(self.dtype)}){extra}"

    @property
    def assumptions(self) -> tuple[Assumption, ...]:
        """What the model could not know."""
        return tuple(dict.fromkeys((*self.counts.assumptions, *self.traffic.assumptions)))

    @property
    def facts(self) -> dict[str, tuple[float, str]]:
        """Names for assertions, each (value, unit) in base units: B, s, FLOP, FLOP/s, B/s, FLOP/B, or "" for a share."""
        out: dict[str, tuple[float, str]] = {
            "flops": (float(self.counts.total_flops), "FLOP"),
            "compulsory": (float(self.counts.compulsory_bytes), "B"),
            "asked.bytes": (float(self.counts.asked_bytes), "B"),
            "global.bytes": (float(self.counts.global_bytes), "B"),
            "time": (self.time.value, "s"),
            "time.predicted": (self.predicted.value, "s"),
            "rate": (self.rate.value, "FLOP/s"),
            "roof": (max(self.shares.values()), ""),
            "compute.roof": (self.shares["compute"], ""),
        }
        for level in self.levels:
            name = level.name.lower()
            out[f"{name}.bytes"] = (level.cold_bytes, "B")
            out[f"{name}.roof"] = (self.shares[level.name], "")
            out[f"{name}.bandwidth"] = (level.bytes / self.time.value if self.time.value else 0.0, "B/s")
            out[f"{name}.intensity"] = (level.intensity or 0.0, "FLOP/B")
        return out

    # ------------------------------------------------------------------------------------------ tables
    def by_buffer(self) -> tuple[BufferUse, ...]:
        """One entry for each buffer, global ones first, most bytes asked first."""
        needed = {m.buffer: m.bytes for m in self.counts.compulsory}
        uses = []
        for m in self.counts.by_buffer():
            below = self._below(lambda f, name=m.buffer: f.buffer == name)
            uses.append(BufferUse(m.buffer, m.scope, m.bytes, below, needed.get(m.buffer, 0)))
        return tuple(sorted(uses, key=lambda u: (u.scope != "global", -u.asked_bytes)))

    def by_line(self) -> tuple[LineUse, ...]:
        """One entry for each source line that moves bytes or computes, in source order."""
        spans: dict[Any, Span | None] = {}
        for m in self.counts.asked:
            spans.setdefault((m.span.file, m.span.line) if m.span else None, m.span)
        out = []
        for line, span in spans.items():
            here = [m for m in self.counts.asked if ((m.span.file, m.span.line) if m.span else None) == line]
            below = self._below(lambda f, at=line: ((f.span.file, f.span.line) if f.span else None) == at)
            flops = self.counts.line_flops.get(line, 0) if line is not None else 0
            out.append(LineUse(span, tuple(dict.fromkeys(m.buffer for m in here)), flops, sum(m.bytes for m in here), below))
        return tuple(sorted(out, key=lambda u: (u.span.file, u.span.line) if u.span else ("", 0)))

    def _below(self, wanted: Any) -> dict[str, float]:
        """Predicted bytes by level, of the flows that `wanted` picks."""
        names = [level.name for level in self.levels if level.name != "L1"]
        return {name: sum(f.bytes for f in self.traffic.flows if f.level == name and wanted(f)) for name in names}

    def __str__(self) -> str:
        return "\n".join(text_lines(self))


def percent(share: float) -> str:
    """A share with a space before the sign; below one percent with a digit more."""
    return f"{share * 100:.0f} %" if share >= 0.01 or not share else f"{share * 100:.1g} %"


def words(dtype: str) -> str:
    """A dtype key for people: "float16>float32" is "float16 into float32"."""
    return dtype.replace(">", " into ")


def text_lines(r: Report) -> list[str]:
    """The report as plain text."""
    c = r.counts
    kind = "measured" if r.measured is not None else "predicted"
    dims = ", ".join(f"{k}={v}" for k, v in r.dims.items())
    lines = [f"{r.kernel}{f' ({dims})' if dims else ''} on {r.machine.name}, {r.threads} thread{'s' if r.threads != 1 else ''}", f"  {r.verdict}"]
    lines.append(f"  time {r.time}, {kind}" + (f"; predicted {r.predicted}" if r.measured is not None else ""))
    flops = ", ".join(f"{show(n, 'FLOP')} {words(dtype)}" for dtype, n in c.flops.items()) or "no FLOP"
    special = ", ".join(f"{show(n, '').strip()} {kind}" for kind, n in c.special.items())
    lines.append(f"  work {flops}" + (f"; {special}" if special else "") + (f"; useful {show(r.useful_flops, 'FLOP')}" if r.useful_flops else ""))
    lines.append(f"  {'level':<6} {'bytes':>10} {'FLOP/byte':>10} {'roof':>10} {'reached':>8}")
    for level in r.levels:
        ai = f"{level.intensity:.3g}" if level.intensity is not None else "-"
        size = show(level.bytes, "B") if level.is_counted else f"~{show(level.bytes, 'B')}"
        lines.append(f"  {level.name:<6} {size:>10} {ai:>10} {level.roof!s:>10} {percent(r.shares[level.name]):>8}")
    lines.append(f"  {'peak':<6} {'':>10} {'':>10} {r.peak!s:>10} {percent(r.shares['compute']):>8}  {words(r.dtype)}")
    lines.append(f"  compulsory {show(c.compulsory_bytes, 'B')}: every byte of the arguments once")
    if r.measured is not None and r.traffic.stays_in_cache:
        cold = next((x.cold_bytes for x in r.levels if x.name == "DRAM"), 0.0)
        lines.append(f"  the data fit in the last cache: repeated launches move nothing at DRAM, the first one ~{show(cold, 'B')}")
    return [*lines, *(f"  assumed: {a}" for a in r.assumptions)]


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
) -> Report:
    """Count, predict and judge one launch of `kernel` (tile IR) on `machine`.

    Args:
        dims: the value of each symbolic dim by variable name; `scalars` likewise for run-time scalars.
        seconds: measured times of repeated launches; empty if it did not run.
        arrays: contents of arguments by buffer name, for bounds that are read from data.
        useful_flops: the textbook's FLOP, where masked or repeated work runs beyond it.
    Raises: ValueError if a symbolic dim has no value.
    """
    counts = count(kernel, dims, scalars, arrays)
    threads = max(1, min(threads, machine.cores))
    traffic = predict_traffic(kernel, counts, machine, dims, threads=threads, scalars=scalars, arrays=arrays)
    measured = Measured.of(seconds) if seconds else None
    return Report(kernel.name, machine, threads, dict(dims), counts, traffic, measured, useful_flops, dict(schedule or {}))
