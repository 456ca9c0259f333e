"""Show a `CellRun` under its cell: one output that holds the panel as HTML, its picture as PNG, and the same in text.

A viewer takes the richest form that it trusts: JupyterLab and GitHub the HTML (inline styles, no script), a viewer that drops HTML the picture, a
terminal the text.
"""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import replace

from ..base.errors import TileValueError
from ..model.report import Report
from ..views.panel import SECTIONS, Panel
from ..views.view import View, image
from .run import CellRun

PARTS = ("summary", *SECTIONS)


def chosen(parts: str) -> tuple[str, ...]:
    """The parts named in a text (separated by commas, or "all", or "none"), in the panel's order. Raises TileValueError for an unknown one."""
    names = [p.strip() for p in parts.split(",") if p.strip()]
    if names == ["none"]:
        return ()
    if "all" in names:
        return PARTS
    if unknown := [n for n in names if n not in PARTS]:
        raise TileValueError(f"--show has no part {unknown[0]!r}", hint=f"the parts are {', '.join(PARTS)}, all and none")
    return tuple(p for p in PARTS if p in names)


def show(run: CellRun, parts: tuple[str, ...], earlier: Sequence[Report] = ()) -> None:
    """Display the panel of `run` with these parts, nothing where there are none. `earlier` reports are drawn faintly in the roofline."""
    if not parts:
        return
    if run.report is None:
        text = nothing_ran(run)
        publish({"text/plain": text, "text/html": f"<div>{html.escape(text)}</div>"})
    else:
        panel = panel_of(run, run.report, parts, earlier)
        picture = replace(panel.roofline, has_heading=False).png()  # drawn once: it is most of the time that a panel takes
        markup = panel.with_picture(image(picture, alt=str(panel.roofline)))
        publish({"text/plain": str(panel), "text/html": markup, "image/png": picture})


def panel_of(run: CellRun, report: Report, parts: tuple[str, ...], earlier: Sequence[Report] = ()) -> Panel:
    """The panel as a value."""
    kernel = run.last.kernel if run.last else run.kernels[-1]
    checks = [*((str(c), c.holds) for c in run.comparisons), *((str(o), o.holds) for o in run.outcomes)]
    source = kernel.source if "source" in parts else ""
    language = "c" if kernel.executable.source else "python"
    return Panel(report, source, kernel.lines, language, tuple(checks), parts, tuple(earlier), tuple(notes_of(run)))


def notes_of(run: CellRun) -> list[str]:
    """What a reader should know beside the numbers: how it was compiled, what else the cell ran, where it ran."""
    kernel = run.last.kernel if run.last else run.kernels[-1]
    facts = kernel.facts
    how = f"target {kernel.target}" + (f", {facts.compiler}" if facts.compiler else "")
    if facts.compiler:
        how += ", compiled earlier" if facts.was_cached else f", compiled in {facts.passes_ms + facts.compiler_ms:.0f} ms"
    notes = [how, *facts.notes]
    if run.options.target and run.options.target != kernel.target:
        notes.append(f"{kernel.name} was made for target {kernel.target} before this cell; --target concerns what a cell compiles")
    if run.options.compile_only:
        notes.append("nothing ran (--compile-only): outputs hold NaN")
    others = [f"{launch.kernel.name} ({launch.count} launch{'es' if launch.count > 1 else ''})" for launch in run.launches[:-1]]
    if others:
        notes.append(f"the cell also ran {', '.join(others)}; this panel shows its last kernel")
    return notes


def nothing_ran(run: CellRun) -> str:
    """One line for a cell that launched nothing."""
    if run.kernels:
        return f"compiled {', '.join(k.name for k in run.kernels)}; its report needs sizes: call it, or ask kernel.report(args=...)"
    if run.defined:
        return f"defined {', '.join(run.defined)}; call it in this cell to compile and run it"
    return "the cell ran no kernel"


def show_view(view: View) -> None:
    """Display one view: HTML, picture and text."""
    publish({"text/plain": str(view), "text/html": view.html(), "image/png": view.png()})


def publish(bundle: dict[str, str | bytes]) -> None:
    """Send one output in all the forms that there are."""
    from IPython.display import publish_display_data

    publish_display_data(bundle)
