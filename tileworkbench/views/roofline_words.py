"""What the marks of a roofline say: tips in full sentences, and the tables that open when one is chosen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..model.report import LevelUse, Point, Report, percent, words
from ..model.values import Measured, Predicted, show
from .crumbs import Crumb
from .roofs import Roof

WHY_ABOVE = (
    "the data stayed in a nearer cache than the model assumed",
    "the roof was measured while other programs ran: measure the machine again",
    "the arithmetic ran in a narrower dtype than this roof is for",
    "the count of FLOP holds work that was skipped",
)
KEPT = 12  # crumbs whose tables travel to the browser


def number(value: float) -> str:
    """Three digits, and thousands set apart."""
    return f"{value:.3g}" if value < 1000 else f"{value:,.0f}"


def ghost_point(r: Report, point: Point) -> Point:
    """The same point at the predicted rate."""
    return Point(point.level, point.intensity, Predicted(r.counts.total_flops / r.predicted.value, "FLOP/s"))


def anchor(r: Report) -> Point | None:
    """The one point that stands for a run: that of its binding level, or its last one."""
    return next((p for p in r.points if p.level == r.bound), r.points[-1] if r.points else None)


# ---------------------------------------------------------------------------------------------- tips
def roof_tip(r: Report, roof: Roof) -> str:
    how = "in theory" if roof.kind == "theory" else "measured" if roof.quantity.measured else "stated, not measured"
    source = f" ({roof.quantity.source})" if roof.quantity.source else ""
    who = r.machine.workers(r.threads)
    if not roof.is_peak:
        ridge = number(r.peak.value / roof.quantity.value)
        return f"{roof.level} delivers {roof.quantity} to {who}, {how}{source}.\nIts roof meets the peak at {ridge} FLOP/byte."
    reached = f"\nThe kernel reaches {percent(r.shares['compute'])}." if roof.kind == "main" else ""
    return f"{who} can do {roof.label}, {how}{source}.{reached}"


def point_tip(r: Report, point: Point) -> str:
    level = next(x for x in r.levels if x.name == point.level)
    moved = show(level.bytes, "B") if level.is_counted else f"about {show(level.bytes, 'B')}"
    is_run = isinstance(point.rate, Measured)
    kind = r.badge or "measured" if is_run else "predicted"
    reached = f", {percent(r.shares[level.name])} of its roof" if is_run or r.measured is None else ""
    return f"{level.name} moves {moved}, so {number(point.intensity)} FLOP for each byte.\n{show(point.rate.value, 'FLOP/s')} {kind}{reached}."


def crumb_tip(crumb: Crumb, now: Report) -> str:
    """What that run reached, and in which tunables it differs from the present one."""
    r = crumb.report
    head = f"Run {crumb.number}: {r.time}, {show(r.rate.value, 'FLOP/s')}."
    changes = "; ".join(f"{name} was {then}, is {value}" for name, then, value in crumb.changes_from(now.schedule))
    return f"{head}\n{changes or 'The schedule is the same as now'}."


def above_tip(r: Report) -> str:
    name, share = max(r.shares.items(), key=lambda item: item[1])
    return f"{percent(share)} of the {name} roof, which cannot be. Likely causes:\n" + ";\n".join(WHY_ABOVE) + "."


# ---------------------------------------------------------------------------------------------- tables
def details(r: Report, crumbs: Sequence[Crumb], source: str) -> dict[str, Any]:
    """The table of each key: one for each level, the peak, each crumb, and the badge."""
    out: dict[str, Any] = {f"level:{level.name}": _level_table(r, level) for level in r.levels}
    out["level:compute"] = _compute_table(r)
    for crumb in crumbs[-KEPT:]:
        out[f"crumb:{crumb.number}"] = _crumb_tables(crumb, r, source)
    name, share = max(r.shares.items(), key=lambda item: item[1])
    if share > 1:
        rows = [[cause] for cause in WHY_ABOVE]
        out["above"] = {"caption": f"{percent(share)} of the {name} roof: likely causes", "head": ["cause"], "rows": rows, "left": 1}
    return out


def _level_table(r: Report, level: LevelUse) -> dict[str, Any]:
    rows = [
        ["roof", f"{level.roof}, {'measured' if level.roof.measured else 'stated'}"],
        ["where the roof is from", level.roof.source or "-"],
        ["ridge", f"{number(r.peak.value / level.roof.value)} FLOP/byte"],
        ["bytes", show(level.bytes, "B") if level.is_counted else f"~{show(level.bytes, 'B')}"],
        ["intensity", f"{number(level.intensity)} FLOP/byte" if level.intensity is not None else "-"],
        ["least time", show(level.seconds, "s")],
        ["reached", percent(r.shares[level.name])],
    ]
    return {"caption": level.name, "head": ["what", "value"], "rows": rows, "left": 2}


def _compute_table(r: Report) -> dict[str, Any]:
    rows = [["peak", f"{r.peak} {words(r.dtype)}, {'measured' if r.peak.measured else 'stated'}"], ["where the peak is from", r.peak.source or "-"]]
    rows += [[f"work, {words(dtype)}", show(n, "FLOP")] for dtype, n in r.counts.flops.items()]
    rows += [[f"work, {kind}", show(n, "").strip()] for kind, n in r.counts.special.items()]
    rows += [["least time", show(r.compute_seconds, "s")], ["reached", percent(r.shares["compute"])]]
    return {"caption": "arithmetic", "head": ["what", "value"], "rows": rows, "left": 2}


def _crumb_tables(crumb: Crumb, now: Report, source: str) -> list[dict[str, Any]]:
    r = crumb.report
    rows = [["time", str(r.time), str(now.time)], ["rate", show(r.rate.value, "FLOP/s"), show(now.rate.value, "FLOP/s")]]
    rows += [list(change) for change in crumb.changes_from(now.schedule)]
    tables = [{"caption": f"run {crumb.number} against now", "head": ["what", f"run {crumb.number}", "now"], "rows": rows, "left": 3}]
    lines = crumb.source_changes(source) if crumb.source and source else []
    if lines:
        tables.append({"caption": f"source: - run {crumb.number}, + now", "head": ["line"], "rows": [[line] for line in lines], "left": 1})
    return tables
