"""One kernel at several schedules, side by side: a row of bars for the speed, and one for the bytes of each level of memory.

Rows have scales of their own. A bar of speed is plain where it was measured and striped where it is predicted; bytes are the model's in any case.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ..model.report import Report, percent
from ..model.values import show
from .labels import heading
from .marks import AnyMark, Path, Rect, Text
from .scene import Scene
from .view import View, text_table
from .widths import cut_to

WIDTH, LEFT, RIGHT, ROW = 640.0, 66.0, 14.0, 66.0


@dataclass(frozen=True, slots=True)
class Sweep(View):
    """`reports` by the name of their schedule, all of one machine. Raises ValueError for none."""

    reports: Mapping[str, Report]
    by: str = "schedule"  # what the names are

    def __post_init__(self) -> None:
        if not self.reports:
            raise ValueError("a sweep needs a report")

    @property
    def title(self) -> str:  # type: ignore[override]  # a constant in the base
        first = next(iter(self.reports.values()))
        return f"speed and bytes by {self.by}: {first.machine.name}, {first.machine.workers(first.threads)}"

    @property
    def level_names(self) -> tuple[str, ...]:
        """The levels that move something, the nearest first."""
        first = next(iter(self.reports.values()))
        return tuple(level.name for level in first.levels if any(_bytes(r, level.name) for r in self.reports.values()))

    @property
    def data(self) -> list[dict[str, Any]]:
        """One record for each report; FLOP/s and bytes."""
        return [
            {
                "name": name, "rate": _rate(r), "is_measured": r.measured is not None, "share": _rate(r) / _peak(r),
                "bytes": {level: _bytes(r, level) for level in self.level_names},
            }
            for name, r in self.reports.items()
        ]  # fmt: skip

    def __str__(self) -> str:
        rows = [
            [name, _speed(r), percent(_rate(r) / _peak(r)), *(show(_bytes(r, level), "B") for level in self.level_names)]
            for name, r in self.reports.items()
        ]
        return f"{self.title}\n{text_table([self.by, 'speed', 'of the peak', *self.level_names], rows)}"

    def scene(self) -> Scene:
        peak = show(_peak(next(iter(self.reports.values()))), "FLOP/s")
        marks, top = heading(self.title, f"speed: plain bars are measured, striped ones predicted; the peak is {peak}. Bytes: the model's", WIDTH)
        marks += self._row("speed", "accent", top + 8, _rate, lambda r: show(_rate(r), "FLOP/s"))
        for number, level in enumerate(self.level_names):
            marks += self._row(level, level, top + 8 + ROW * (number + 1), _reader(level), _said(level))
        bottom = top + 8 + ROW * (len(self.level_names) + 1)
        step = self._step
        for i, name in enumerate(self.reports):
            marks.append(Text(LEFT + (i + 0.5) * step, bottom + 4, cut_to(name, step - 4, 10.5), 10.5, "text", "middle", key=f"run:{i}"))
        marks.append(Text(LEFT - 10, bottom + 4, cut_to(self.by, LEFT - 12, 10.5), 10.5, "faint", "end"))
        return Scene(WIDTH, bottom + 16, tuple(marks), self.title, str(self))

    @property
    def _step(self) -> float:
        return (WIDTH - LEFT - RIGHT) / len(self.reports)

    def _row(self, name: str, colour: str, y: float, value: Callable[[Report], float], said: Callable[[Report], str]) -> list[AnyMark]:
        """The bars of one row on their base line, each with its number above it."""
        base, tall, step = y + ROW - 12, ROW - 32, self._step
        most = max(value(r) for r in self.reports.values()) or 1.0
        marks: list[AnyMark] = [
            Text(LEFT - 10, base - tall / 2 + 4, name, 12.5, "text" if name == "speed" else name, "end", is_bold=True),
            Path(((LEFT, base), (WIDTH - RIGHT, base)), "grid"),
        ]
        for i, (which, r) in enumerate(self.reports.items()):
            high, x = max(tall * value(r) / most, 0.8), LEFT + (i + 0.15) * step
            hatch = "background" if name == "speed" and r.measured is None else ""
            tip = f"{self.by} {which}: {said(r)}" + (f" at {name}" if name != "speed" else f", {percent(_rate(r) / _peak(r))} of the peak")
            marks.append(Rect(x, base - high, 0.7 * step, high, fill=colour, hatch=hatch, key=f"run:{i}", tip=tip))
            marks.append(Text(x + 0.35 * step, base - high - 4, cut_to(said(r), step - 2, 9.5), 9.5, "faint", "middle", key=f"run:{i}"))
        return marks

    def live(self) -> dict[str, Any]:
        details = {}
        for i, (name, r) in enumerate(self.reports.items()):
            rows = [["speed", _speed(r)], ["of the peak", percent(_rate(r) / _peak(r))]]
            rows += [[f"bytes at {level}", show(_bytes(r, level), "B")] for level in self.level_names]
            details[f"run:{i}"] = {"caption": f"{self.by} {name}", "head": ["what", "value"], "rows": [*rows, ["verdict", r.verdict]], "left": 1}
        return {**super(Sweep, self).live(), "tab": "sweep", "details": details}


def _rate(r: Report) -> float:
    return r.counts.total_flops / r.judged_seconds if r.judged_seconds else 0.0


def _peak(r: Report) -> float:
    return 1e9 * r.peak.value


def _speed(r: Report) -> str:
    return f"{'' if r.measured is not None else '~'}{show(_rate(r), 'FLOP/s')}"


def _bytes(r: Report, level: str) -> float:
    return next((x.bytes for x in r.levels if x.name == level), 0.0)


def _reader(level: str) -> Callable[[Report], float]:
    return lambda r: _bytes(r, level)


def _said(level: str) -> Callable[[Report], str]:
    return lambda r: show(_bytes(r, level), "B")
