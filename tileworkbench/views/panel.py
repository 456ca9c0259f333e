"""The panel that a cell shows: the verdict, the time, the roofline, where the bytes go, and the generated text.

It is one fragment of HTML without scripts or style sheets. The roofline is a PNG inside it, everything else tables, so it reads the same in a
trusted notebook, in one that is not trusted, on GitHub, and without any network.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from ..base.span import Span
from ..model.report import Report, percent
from ..model.values import show
from .roofline import Roofline
from .source import SourceView
from .tables import BufferTable, LineTable
from .view import FADED, FONT, RULE, Theme, View, escape, image, table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SECTIONS = ("roofline", "traffic", "source")
_OK, _BAD = "#1a7f37", "#cf222e"


@dataclass(frozen=True, slots=True)
class Panel(View):
    """A result, ready to show. `checks` are (text, holds) of tests on the result; `show` picks sections; `earlier` are reports to draw faintly."""

    report: Report
    source: str = ""
    lines: Mapping[int, Span] = field(default_factory=dict)
    language: str = "c"
    checks: Sequence[tuple[str, bool]] = ()
    show: Sequence[str] = SECTIONS
    earlier: Sequence[Report] = ()
    notes: Sequence[str] = ()
    theme: str = "light"

    @property
    def title(self) -> str:  # type: ignore[override]  # a constant in the base
        return self.report.kernel

    @property
    def roofline(self) -> Roofline:
        return Roofline((*self.earlier, self.report))

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
        parts = [str(r), *(f"  {'ok  ' if holds else 'FAIL'} {text}" for text, holds in self.checks), *(f"  note: {n}" for n in self.notes)]
        if "traffic" in self.show:
            parts += ["", str(BufferTable(r)), "", str(LineTable(r))]
        if "source" in self.show and self.source:
            parts += ["", str(SourceView(self.source, self.lines, self.language))]
        return "\n".join(parts)

    def html(self) -> str:
        if "roofline" not in self.show:
            return self.with_picture("")
        return self.with_picture(image(replace(self.roofline, has_heading=False).png(self.theme), alt=str(self.roofline)))

    def with_picture(self, picture: str) -> str:
        """The fragment with `picture` (HTML) where the roofline goes."""
        r = self.report
        parts = [self._head(), self._facts()]
        if "roofline" in self.show:
            parts.append(f'<div style="margin: 8px 0; max-width: 760px">{picture}</div>')
            parts.append(_fold("numbers of the roofline", _levels(r)))
        if "traffic" in self.show:
            parts.append(_fold("where the bytes go", BufferTable(r).html() + LineTable(r).html(), is_open=True))
        if "source" in self.show and self.source:
            count = len(self.source.splitlines())
            parts.append(_fold(f"generated source, {count} lines", SourceView(self.source, self.lines, self.language).html()))
        if r.assumptions:
            parts.append(_fold("what the model assumed", "".join(f'<div style="{FADED}">{escape(a)}</div>' for a in r.assumptions)))
        return f'<div style="font-family: {FONT}; font-size: 13px; color: var(--jp-ui-font-color1, inherit); max-width: 900px">{"".join(parts)}</div>'

    def _figure(self, theme: Theme) -> Figure:
        return self.roofline._figure(theme)

    def _head(self) -> str:
        r = self.report
        dims = ", ".join(f"{k} = {v}" for k, v in r.dims.items())
        place = f"{r.machine.name}, {r.threads} thread{'s' if r.threads != 1 else ''}"
        name = f'<span style="{FADED}">{escape(r.kernel)}{f" ({escape(dims)})" if dims else ""} on {escape(place)}</span>'
        return f'<div style="font-size: 16px; font-weight: 600; margin: 2px 0">{escape(r.verdict)}</div><div style="margin-bottom: 6px">{name}</div>'

    def _facts(self) -> str:
        """Time, rate, work and compulsory bytes in one row, then what was checked."""
        r = self.report
        kind = "measured" if r.measured is not None else "predicted"
        facts = [(f"time, {kind}", str(r.time)), (f"rate, {kind}", f"{'' if r.measured else '~'}{show(r.rate.value, 'FLOP/s')}")]
        if r.measured is not None:
            facts.append(("time, predicted", str(r.predicted)))
        facts.append(("work", show(r.counts.total_flops, "FLOP")))
        if r.useful_flops and abs(r.useful_flops / max(r.counts.total_flops, 1) - 1) > 0.01:
            facts.append(("of it textbook", show(r.useful_flops, "FLOP")))
        facts += [(kind, show(n, "").strip()) for kind, n in r.counts.special.items() if n >= 0.01 * max(r.counts.total_flops, 1)]
        facts.append(("needed once", show(r.counts.compulsory_bytes, "B")))
        cell = "padding: 0 18px 0 0; border: none; text-align: left; vertical-align: top; white-space: nowrap; background: none; color: inherit"
        cells = "".join(
            f'<td style="{cell}"><div style="font-size: 11px; {FADED}">{escape(name)}</div><div>{escape(value)}</div></td>' for name, value in facts
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
    if r.measured is None or not r.traffic.stays_in_cache:
        return []
    cold = next((x.cold_bytes for x in r.levels if x.name == "DRAM"), 0.0)
    return [f"the data fit in the last cache: repeated launches move nothing at DRAM, the first one ~{show(cold, 'B')}"]


def _level_rows(r: Report) -> tuple[list[str], list[list[str]]]:
    """The levels as a table: head and rows."""
    rows = []
    for level in r.levels:
        size = show(level.bytes, "B")
        intensity = f"{level.intensity:.3g}" if level.intensity is not None else "-"
        ridge = f"{r.peak.value / level.roof.value:.3g}"
        fetched = f"~{show(level.allocate_bytes, 'B')}" if level.allocate_bytes else "-"
        kind = "measured" if level.roof.measured else "stated"
        size = size if level.is_counted else f"~{size}"
        rows.append([level.name, f"{level.roof} {kind}", size, fetched, intensity, ridge, percent(r.shares[level.name])])
    kind = "measured" if r.peak.measured else "stated"
    rows.append(["compute", f"{r.peak} {kind}", "-", "-", "-", "-", percent(r.shares["compute"])])
    return ["level", "roof", "bytes", "fetched for stores", "FLOP/byte", "ridge", "reached"], rows


def _levels(r: Report) -> str:
    head, rows = _level_rows(r)
    return table(head, [[escape(c) for c in row] for row in rows], left=2)


def _fold(title: str, body: str, *, is_open: bool = False) -> str:
    summary = f'<summary style="cursor: pointer; padding: 4px 0; font-weight: 600">{escape(title)}</summary>'
    return f'<details{" open" if is_open else ""} style="border-top: {RULE}; margin: 0">{summary}<div style="overflow-x: auto">{body}</div></details>'
