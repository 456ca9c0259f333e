"""The panel that a cell shows: the verdict, the time, the roofline, where the bytes go, what adds to the time, and the generated text.

It is one fragment of HTML without scripts or style sheets. Roofline and memory chart are PNGs inside it, everything else tables, so it reads the same
in a trusted notebook, in one that is not trusted, on GitHub, and without any network. `live()` is the same panel for the browser, its views as tabs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ..base.span import Span
from ..model.report import Report, percent
from ..model.steps import LoopSteps, loop_steps
from ..model.values import show
from ..runtime.resources import HEAD, Resources
from .crumbs import Crumb, numbered
from .roofline import Roofline
from .scene import Scene
from .source import SourceView
from .step_chart import StepChart
from .tables import BufferTable, LineTable
from .traffic import TrafficChart
from .view import FADED, FONT, RULE, View, escape, picture, table
from .waterfall import WaterfallView

SECTIONS = ("roofline", "waterfall", "traffic", "source")
SOURCE_BYTES = 45_000  # of the HTML of a generated text, about
LINE_BYTES, LETTER_BYTES = 170, 3.2  # that one of its lines takes, and each letter: colours and links to the author's line
BADGE = "border: 1px solid #b06a1e; color: #b06a1e; border-radius: 9px; padding: 0 8px; font-size: 12px; white-space: nowrap"
_OK, _BAD = "#1a7f37", "#cf222e"


@dataclass(frozen=True, slots=True)
class Panel(View):
    """A result, ready to show. `checks` are (text, holds) of tests on the result; `show` picks sections; `earlier` are runs to draw as crumbs.

    `steps`, where it is given, splits the bytes over loop steps; `cell` is the text that the author ran, kept for crumbs. `badge` says where the
    launch ran, if not on the machine of the report ("emulated"), or that nothing ran; `resources` is what a GPU's compiler says of each launch.
    """

    report: Report
    source: str = ""
    lines: Mapping[int, Span] = field(default_factory=dict)
    language: str = "c"
    checks: Sequence[tuple[str, bool]] = ()
    show: Sequence[str] = SECTIONS
    earlier: Sequence[Report | Crumb] = ()
    notes: Sequence[str] = ()
    theme: str = "light"
    steps: LoopSteps | None = None
    cell: str = ""
    badge: str = ""
    resources: Resources | None = None

    @property
    def title(self) -> str:  # type: ignore[override]  # a constant in the base
        return self.report.kernel

    @property
    def marked(self) -> str:
        """What the pill beside the kernel says: `badge`, or where and when a recorded run was."""
        return self.badge or self.report.badge

    @property
    def roofline(self) -> Roofline:
        return Roofline(self.report, numbered(self.earlier), source=self.cell)

    @property
    def traffic(self) -> TrafficChart:
        return TrafficChart(self.report, self.steps, has_heading=False)

    @property
    def waterfall(self) -> WaterfallView:
        return WaterfallView.of(self.report)

    @property
    def data(self) -> dict[str, Any]:
        """A summary as plain data, small enough for a notebook's metadata."""
        r = self.report
        return {
            "kernel": r.kernel, "verdict": r.verdict, "machine": r.machine.name, "threads": r.threads, "dims": dict(r.dims),
            "schedule": dict(r.schedule), "facts": {name: value for name, (value, _) in r.facts.items()},
            "checks": [[text, holds] for text, holds in self.checks], "assumptions": [str(a) for a in r.assumptions],
        }  # fmt: skip

    def __str__(self) -> str:
        r = self.report
        first, _, rest = str(r).partition("\n")
        parts = [f"{first} [{self.marked}]" if self.marked else first, rest]
        if self.resources is not None:
            parts += [f"  each launch, by {self.resources.by}", *(f"    {line}" for line in str(self.resources).splitlines())]
        parts += [*(f"  {'ok  ' if holds else 'FAIL'} {text}" for text, holds in self.checks), *(f"  note: {n}" for n in self.notes)]
        if "roofline" in self.show:
            parts += ["", str(self.roofline)]
        if "waterfall" in self.show:
            parts += ["", str(self.waterfall)]
        if "traffic" in self.show:
            parts += ["", str(self.traffic), "", str(BufferTable(r)), "", str(LineTable(r))]
        if "source" in self.show and self.source:
            parts += ["", str(SourceView(self.source, self.lines, self.language))]
        return "\n".join(parts)

    def html(self) -> str:
        if "roofline" not in self.show:
            return self.with_picture("")
        return self.with_picture(picture(replace(self.roofline, has_heading=False).scene(), alt=str(self.roofline)))

    def with_picture(self, shown: str) -> str:
        """The fragment with `shown` (HTML) where the roofline goes."""
        r = self.report
        parts = [self._head(), self._facts(), self._resources()]
        if "roofline" in self.show:
            parts.append(f'<div style="margin: 8px 0; max-width: 760px">{shown}</div>')
            parts.append(_fold("numbers of the roofline", _levels(r)))
        if "waterfall" in self.show:
            parts.append(_fold("from the roof to this time", self.waterfall.html(), is_open=True))
        if "traffic" in self.show:
            chart = f'<div style="margin: 8px 0; max-width: 700px">{picture(self.traffic.scene(), alt=str(self.traffic))}</div>'
            parts.append(_fold("where the bytes go", chart + BufferTable(r).html() + LineTable(r).html(), is_open=True))
        if "source" in self.show and self.source:
            parts.append(_fold(f"generated source, {len(self.source.splitlines())} lines", self._source_html()))
        if r.assumptions:
            parts.append(_fold("what the model assumed", "".join(f'<div style="{FADED}">{escape(a)}</div>' for a in r.assumptions)))
        return f'<div style="font-family: {FONT}; font-size: 13px; color: var(--jp-ui-font-color1, inherit); max-width: 900px">{"".join(parts)}</div>'

    def scene(self) -> Scene:
        return self.roofline.scene()

    def live(self) -> dict[str, Any]:
        """The panel for the browser: what its head says, and the live form of each view as a tab."""
        views = [replace(self.roofline, has_heading=False).live()] if "roofline" in self.show else []
        if "traffic" in self.show:
            steps = self.steps or (loop_steps(self.report.ir, self.report) if self.report.ir is not None else None)
            views.append(replace(self.traffic, steps=steps).live())
            if steps is not None and len(steps.steps) > 1:
                views.append(StepChart(steps).live())
        if "waterfall" in self.show:
            views.append(self.waterfall.live())
        if "source" in self.show and self.source:
            views.append({**SourceView(self._source(), self.lines, self.language).live(), "tab": "source"})
        return {
            "module": "panel", "title": self.title, "text": str(self.report), "verdict": self.report.verdict, "place": self._place,
            "facts": [list(fact) for fact in self._fact_list()], "checks": [list(check) for check in self.checks],
            "notes": [*self.notes, *_cache_note(self.report)], "views": views, "badge": self.marked, "table": self._table,
        }  # fmt: skip

    @property
    def _table(self) -> dict[str, Any] | None:
        """The resources for the browser."""
        r = self.resources
        return {"caption": f"each launch, by {r.by}, on {r.machine}", "head": list(HEAD), "rows": r.rows} if r is not None else None

    def _resources(self) -> str:
        """The resources as a table."""
        made = self._table
        if made is None:
            return ""
        body = table(made["head"], [[escape(cell) for cell in row] for row in made["rows"]], caption=escape(made["caption"]))
        return f'<div style="overflow-x: auto; margin-top: 6px">{body}</div>'

    def _source(self) -> str:
        """The generated text, or so many of its lines that a notebook stays small."""
        lines, room = self.source.splitlines(), float(SOURCE_BYTES)
        for number, line in enumerate(lines):
            room -= LINE_BYTES + LETTER_BYTES * len(line)
            if room < 0:
                return "\n".join(lines[:number])
        return self.source

    def _source_html(self) -> str:
        text = self._source()
        left = len(self.source.splitlines()) - len(text.splitlines())
        more = f'<div style="{FADED}">{left} more lines: print the kernel\'s source</div>' if left else ""
        return SourceView(text, self.lines, self.language).html() + more

    def _head(self) -> str:
        r = self.report
        name = f'<span style="{FADED}">{escape(self._place)}</span>' + (f' <span style="{BADGE}">{escape(self.marked)}</span>' if self.marked else "")
        return f'<div style="font-size: 16px; font-weight: 600; margin: 2px 0">{escape(r.verdict)}</div><div style="margin-bottom: 6px">{name}</div>'

    @property
    def _place(self) -> str:
        """Which kernel, of which size, where."""
        r = self.report
        dims = ", ".join(f"{k} = {v}" for k, v in r.dims.items())
        return f"{r.kernel}{f' ({dims})' if dims else ''} on {r.machine.name}, {r.machine.workers(r.threads)}"

    def _fact_list(self) -> list[tuple[str, str]]:
        """Time, rate, work and compulsory bytes."""
        r = self.report
        facts = [(f"time, {r.kind}", str(r.time)), (f"rate, {r.kind}", f"{'' if r.measured else '~'}{show(r.rate.value, 'FLOP/s')}")]
        if r.measured is not None:
            facts.append(("time, predicted", str(r.predicted)))
        facts.append(("work", show(r.counts.total_flops, "FLOP")))
        if r.useful_flops and abs(r.useful_flops / max(r.counts.total_flops, 1) - 1) > 0.01:
            facts.append(("of it textbook", show(r.useful_flops, "FLOP")))
        facts += [(kind, show(n, "").strip()) for kind, n in r.counts.special.items() if n >= 0.01 * max(r.counts.total_flops, 1)]
        return [*facts, ("needed once", show(r.counts.compulsory_bytes, "B"))]

    def _facts(self) -> str:
        """The facts in one row, then what was checked."""
        r = self.report
        cell = "padding: 0 18px 0 0; border: none; text-align: left; vertical-align: top; white-space: nowrap; background: none; color: inherit"
        cells = "".join(
            f'<td style="{cell}"><div style="font-size: 11px; {FADED}">{escape(name)}</div><div>{escape(value)}</div></td>'
            for name, value in self._fact_list()
        )
        style = "border-collapse: collapse; margin: 0; color: inherit"
        row = f'<table style="{style}"><tbody><tr style="background: transparent">{cells}</tr></tbody></table>'
        checks = "".join(
            f'<div><span style="color: {_OK if holds else _BAD}; font-weight: 600">{"ok" if holds else "FAILED"}</span> {escape(text)}</div>'
            for text, holds in self.checks
        )
        notes = "".join(f'<div style="{FADED}">{escape(n)}</div>' for n in (*self.notes, *_cache_note(r)))
        made = ", ".join(f"{k} = {v}" for k, v in r.schedule.items())
        schedule = f'<div style="{FADED}; margin-top: 2px">schedule: {escape(made)}</div>' if made else ""
        return f'<div style="overflow-x: auto">{row}</div>{schedule}{checks}{notes}'


def _cache_note(r: Report) -> list[str]:
    """Why DRAM moves nothing, where it moves nothing."""
    if r.measured is None or not r.is_warm or not r.traffic.stays_in_cache:
        return []
    cold = next((x.cold_bytes for x in r.levels if x.name == "DRAM"), 0.0)
    return [f"the data fit in the last cache: repeated launches move nothing at DRAM, the first one ~{show(cold, 'B')}"]


def _level_rows(r: Report) -> tuple[list[str], list[list[str]]]:
    """The levels as a table: head and rows; what counters saw has a column where they saw anything."""
    rows, counts = [], []
    for level in r.levels:
        size = show(level.bytes, "B")
        intensity = f"{level.intensity:.3g}" if level.intensity is not None else "-"
        ridge = f"{r.peak.value / level.roof.value:.3g}"
        fetched = f"~{show(level.allocate_bytes, 'B')}" if level.allocate_bytes else "-"
        kind = "measured" if level.roof.measured else "stated"
        size = size if level.is_counted else f"~{size}"
        seen = r.counters.moved(level.name) if r.counters is not None else None
        counts.append(show(seen, "B") if seen is not None else "-")
        rows.append([level.name, f"{level.roof} {kind}", size, fetched, intensity, ridge, percent(r.shares[level.name])])
    kind = "measured" if r.peak.measured else "stated"
    rows.append(["compute", f"{r.peak} {kind}", "-", "-", "-", "-", percent(r.shares["compute"])])
    head = ["level", "roof", "bytes", "fetched for stores", "FLOP/byte", "ridge", "reached"]
    if any(c != "-" for c in counts):
        head.insert(3, "counted")
        rows = [[*row[:3], seen, *row[3:]] for row, seen in zip(rows, [*counts, "-"], strict=True)]
    return head, rows


def _levels(r: Report) -> str:
    head, rows = _level_rows(r)
    return table(head, [[escape(c) for c in row] for row in rows], left=2)


def _fold(title: str, body: str, *, is_open: bool = False) -> str:
    summary = f'<summary style="cursor: pointer; padding: 4px 0; font-weight: 600">{escape(title)}</summary>'
    return f'<details{" open" if is_open else ""} style="border-top: {RULE}; margin: 0">{summary}<div style="overflow-x: auto">{body}</div></details>'
