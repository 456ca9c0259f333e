"""The gap waterfall: from the binding roof to the prediction in bars that add up, and the measurement below them.

Each bar starts where the last one ends. What is added is striped, totals are plain; under each bar stands how it was computed, and choosing it says
what to change. What the measurement has beyond the prediction (or the prediction beyond it) is a bar of its own: what the model does not explain.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..model.report import Report, percent
from ..model.values import Measured, Recorded, kind_of, show
from ..model.waterfall import Bar, Waterfall
from .labels import heading
from .marks import AnyMark, Path, Rect, Text
from .scene import Scene
from .view import View, escape, table
from .widths import cut_to, text_width

# bars of the static table: inks that stand out from white and from black by 3 and more
_INK = {"roof": "#2f7fd6", "gap": "#c9682a", "predicted": "#7f8791", "rest": "#d1453b", "measured": "#7f8791", "recorded": "#8f6fc4"}
WIDTH, RIGHT, ROW = 680.0, 78.0, 37.0
LEFT, WIDEST = 128.0, 230.0  # the column of names: as wide as the longest name needs, between these


_TOTALS = ("roof", "predicted", "measured", "recorded")


@dataclass(frozen=True, slots=True)
class Step:
    """One row: from `start` to `stop` in seconds. `kind` is "roof", "gap", "predicted", "rest", "measured" or "recorded"; totals start at 0."""

    kind: str
    bar: Bar
    start: float
    stop: float


@dataclass(frozen=True, slots=True)
class WaterfallView(View):
    """A waterfall, and the measured time where there is one. `name` is the kernel's."""

    waterfall: Waterfall
    measured: Measured | None = None
    name: str = ""

    @staticmethod
    def of(report: Report) -> WaterfallView:
        """The waterfall of a report, with its measured time."""
        return WaterfallView(report.waterfall, report.measured, report.kernel)

    @property
    def title(self) -> str:  # type: ignore[override]  # a constant in the base
        return f"{self.name + ': ' if self.name else ''}from the roof to the {self._end}"

    @property
    def _end(self) -> str:
        if self.measured is None:
            return "prediction"
        return "recording" if isinstance(self.measured, Recorded) else "measurement"

    @property
    def steps(self) -> tuple[Step, ...]:
        """The rows from top to bottom."""
        w, at = self.waterfall, self.waterfall.roof.seconds
        out = [Step("roof", w.roof, 0.0, at)]
        for bar in w.bars:
            out.append(Step("gap", bar, at, at + bar.seconds))
            at += bar.seconds
        out.append(Step("predicted", Bar("predicted", w.seconds, "the roof's least time and all that adds to it"), 0.0, w.seconds))
        if self.measured is not None:
            t = self.measured.value
            off = percent(abs(t - w.seconds) / w.seconds) if w.seconds else "-"
            why = f"{off} of the prediction: what the model does not {'explain' if t >= w.seconds else 'see'}"
            out.append(Step("rest", Bar("unexplained" if t >= w.seconds else "faster than predicted", t - w.seconds, why), w.seconds, t))
            kind = kind_of(self.measured)
            where = f"{self.measured.badge}; " if isinstance(self.measured, Recorded) else ""
            out.append(Step(kind, Bar(kind, t, f"{where}median of {self.measured.runs}, best {show(self.measured.best, 's')}"), 0.0, t))
        return tuple(out)

    @property
    def data(self) -> list[dict[str, Any]]:
        """One record for each row; seconds."""
        return [
            {"kind": s.kind, "name": s.bar.name, "seconds": s.bar.seconds, "start": s.start, "stop": s.stop, "why": s.bar.why, "edit": s.bar.edit}
            for s in self.steps
        ]

    def __str__(self) -> str:
        rows = [[s.bar.name, _time(s), s.bar.why, s.bar.edit] for s in self.steps]
        return f"{self.title}\n{_table(rows)}"

    def scene(self) -> Scene:
        longest = max((max(s.start, s.stop) for s in self.steps), default=0.0) or 1.0
        marks, top = heading(self.title, _summary(self), WIDTH)
        names = [text_width(s.bar.name, 11.5, is_bold=s.kind in _TOTALS) for s in self.steps]
        left = min(max(LEFT, *(name + 16 for name in names)), WIDEST)
        for row, step in enumerate(self.steps):
            marks += _row(step, left, top + 8 + ROW * row, (WIDTH - left - RIGHT) / longest, self.steps[row - 1] if row else None)
        return Scene(WIDTH, top + 14 + ROW * len(self.steps), tuple(marks), self.title, str(self))

    def html(self) -> str:
        """A table whose bars are boxes with inline widths: it needs no picture."""
        longest = max((max(s.start, s.stop) for s in self.steps), default=0.0) or 1.0
        rows = []
        for step in self.steps:
            low, high = sorted((step.start / longest, step.stop / longest))
            look = f"margin-left: {low * 100:.2f}%; width: {max((high - low) * 100, 0.4):.2f}%; height: 11px; background: {_INK[step.kind]}"
            edit = f'<div style="opacity: 0.72">{escape(step.bar.edit)}</div>' if step.bar.edit else ""
            why = f'<div style="white-space: normal; min-width: 220px">{escape(step.bar.why)}{edit}</div>'
            rows.append([escape(step.bar.name), f'<div style="width: 260px"><div style="{look}"></div></div>', why, escape(_time(step))])
        return table(["part", "", "why", "time"], rows, left=3)

    def live(self) -> dict[str, Any]:
        details = {
            f"bar:{s.bar.name}": {"caption": s.bar.name, "head": ["what", "value"], "left": 2, "rows": _rows(s)} for s in self.steps
        }  # fmt: skip
        opens = {f"bar:{s.bar.name}": s.bar.view for s in self.steps if s.bar.view}
        return {**super(WaterfallView, self).live(), "tab": "waterfall", "details": details, "opens": opens}


def _row(step: Step, left: float, y: float, scale: float, before: Step | None) -> list[AnyMark]:
    colour = {"roof": "accent", "gap": "DRAM", "predicted": "faint", "rest": "warning", "measured": "text", "recorded": "L2"}[step.kind]
    a, b = sorted((left + step.start * scale, left + step.stop * scale))
    about: dict[str, Any] = {"key": f"bar:{step.bar.name}", "tip": _tip(step)}
    is_total = step.kind in _TOTALS
    marks: list[AnyMark] = [
        Text(left - 8, y + 12, cut_to(step.bar.name, left - 16, 11.5, is_bold=is_total), 11.5, "text", "end", is_bold=is_total, **about),
        Rect(a, y, max(b - a, 1.5), 16, fill=colour, hatch="" if is_total else "background", stroke=colour, **about),
        Text(b + 5, y + 12, _time(step), 10.5, key=about["key"]),
        Text(left, y + 28, cut_to(step.bar.why, WIDTH - left - 10, 9.5), 9.5, "faint", key=about["key"]),
    ]
    if before is not None and step.kind in ("gap", "rest"):
        x = left + step.start * scale
        marks.append(Path(((x, y - ROW + 16), (x, y)), "faint", 0.8, dash=(2.0, 2.0)))
    return marks


def _time(step: Step) -> str:
    if step.kind in ("measured", "recorded"):
        return show(step.bar.seconds, "s")
    sign = "+" if step.kind in ("gap", "rest") and step.bar.seconds >= 0 else "-" if step.bar.seconds < 0 else ""
    return f"{sign}{'~' if not sign else ''}{show(abs(step.bar.seconds), 's')}"


def _tip(step: Step) -> str:
    edit = f"\nTo make it smaller: {step.bar.edit}." if step.bar.edit else ""
    return f"{step.bar.name}: {_time(step)}.\n{step.bar.why}.{edit}"


def _rows(step: Step) -> list[list[str]]:
    rows = [["time", _time(step)], ["why", step.bar.why]]
    return rows + ([["to make it smaller", step.bar.edit]] if step.bar.edit else [])


def _summary(view: WaterfallView) -> str:
    gap = view.waterfall.largest_gap
    largest = f"most is added by {gap.name}: +{show(gap.seconds, 's')}" if gap is not view.waterfall.roof else "nothing adds to the roof"
    return f"predicted ~{show(view.waterfall.seconds, 's')}; {largest}"


def _table(rows: list[list[str]]) -> str:
    names, times = max(len(r[0]) for r in rows), max(len(r[1]) for r in rows)
    return "\n".join(f"{name.ljust(names)}  {time.rjust(times)}  {why}{f'; {edit}' if edit else ''}" for name, time, why, edit in rows)
