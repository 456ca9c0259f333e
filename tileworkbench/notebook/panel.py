"""Show a `CellRun` under its cell: the panel, live where a browser can answer, and in forms that need no kernel.

A viewer takes the richest form that it trusts: JupyterLab the widget or the HTML (inline styles, no script), GitHub the HTML, a viewer that drops it
the picture, a terminal the text.
"""

from __future__ import annotations

import html
import uuid
from collections.abc import Sequence

from ..base.errors import TileValueError
from ..model.placement import layouts_of
from ..model.report import Report
from ..runtime.kernel import JITKernel
from ..runtime.options import target_name
from ..runtime.targets import ALIASES
from ..views.crumbs import Crumb
from ..views.gallery import Gallery
from ..views.layout import layout_view
from ..views.panel import SECTIONS, Panel
from ..views.passes import pass_diff
from ..views.pipeline import pipeline
from ..views.twins import twins
from ..views.view import View
from . import banks, live
from .run import CellRun

BESIDE = ("source", "layout", banks.PART, "pipeline", "passes")  # views of their own, shown under the panel
PARTS = ("summary", *(s for s in SECTIONS if s not in BESIDE), *BESIDE)
TILES = 12  # on-chip buffers whose layouts are shown


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


def show(run: CellRun, parts: tuple[str, ...], earlier: Sequence[Report | Crumb] = (), cell: str = "") -> None:
    """Display the panel of `run` with these parts, nothing where there are none. `earlier` runs are crumbs in the roofline,
    told apart from this one by their schedules and by `cell`, the text that ran.
    """
    if not parts:
        return
    if run.report is None:
        text = nothing_ran(run)
        publish({"text/plain": text, "text/html": f"<div>{html.escape(text)}</div>"})
    else:
        group = f"cell-{uuid.uuid4().hex[:8]}"  # the views of one cell light each other
        live.show(panel_of(run, run.report, parts, earlier, cell), group=group)
        for view in views_beside(run, run.report, parts):
            live.show(view, group=group)


def views_beside(run: CellRun, report: Report, parts: tuple[str, ...]) -> list[View]:
    """The views that are asked for beside the panel: the text's stages, where the tiles lie, who copies and computes when, what passes changed."""
    kernel = kernel_of(run)
    dims = run.last.call.dims if run.last else {}
    made: list[View] = []
    if "source" in parts:
        made.append(twins(kernel, report))
    if "layout" in parts:
        tiles = [b for b in layouts_of(kernel, report.machine, dims=dims) if b.role not in ("argument", "barriers")][:TILES]
        views = [layout_view(b, machine=report.machine) for b in tiles]
        if views:
            names = [f"{b.buffer} ({b.role}{', modelled' if b.source == 'modelled' else ''})" for b in tiles]
            made.append(Gallery(views, names, f"{kernel.name}: where its tiles lie"))
    if banks.PART in parts and (found := banks.banks_of(run, report, kernel)) is not None:
        made.append(found)
    if "pipeline" in parts:
        made.append(pipeline_of(run, report))
    if "passes" in parts:
        made.append(pass_diff(kernel))
    return made


def pipeline_of(run: CellRun, report: Report) -> View:
    """Who copies, computes and waits: as the emulator ran it, where the cell ran there and a block is small enough; else as predicted."""
    seen = run.emulation
    if seen is None or seen.timeline is None:
        return pipeline(report, note=f"not emulated: {seen.why}" if seen is not None and seen.why else "")
    return pipeline(seen.timeline)


def panel_of(run: CellRun, report: Report, parts: tuple[str, ...], earlier: Sequence[Report | Crumb] = (), cell: str = "") -> Panel:
    """The panel as a value."""
    checks = [*((str(c), c.holds) for c in run.comparisons), *((str(o), o.holds) for o in run.outcomes)]
    found = kernel_of(run).resources
    resources = found if found.kernels else None
    notes, badge = tuple(notes_of(run)), badge_of(run)
    return Panel(
        report, checks=tuple(checks), show=parts, earlier=tuple(earlier), notes=notes, cell=cell, badge=badge, resources=resources
    )  # fmt: skip


def kernel_of(run: CellRun) -> JITKernel:
    """The kernel that the panel is about: the one that was launched last, else the last one that was made."""
    return run.last.kernel if run.last else run.kernels[-1]


def badge_of(run: CellRun) -> str:
    """How what is shown was come by, where that is not a run on the machine of the report."""
    if run.options.compile_only or run.last is None:
        return "compiled, not run"
    return "emulated" if run.is_emulated else ""


def notes_of(run: CellRun) -> list[str]:
    """What a reader should know beside the numbers: how it was compiled, what else the cell ran, where it ran."""
    kernel = kernel_of(run)
    facts = kernel.facts
    how = f"target {kernel.target}" + (f", {facts.compiler}" if facts.compiler else "")
    if facts.compiler:
        how += ", compiled earlier" if facts.was_cached else f", compiled in {facts.passes_ms + facts.compiler_ms:.0f} ms"
    notes = [how, *facts.notes]
    why = kernel.resources.why
    if why and not any(why in note for note in notes):
        notes.append(f"no registers, spills and occupancy: {why}")
    if run.options.target and ALIASES.get(asked := target_name(run.options.target), asked) != kernel.target:
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


def publish(bundle: dict[str, str | bytes]) -> None:
    """Send one output in all the forms that there are."""
    from IPython.display import publish_display_data

    publish_display_data(bundle)
