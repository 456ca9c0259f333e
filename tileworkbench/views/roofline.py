"""The roofline: FLOP/s against FLOP per byte, one point for each level of memory, under the roofs of the machine.

The frame is fixed by the machine, so pictures of different kernels can be laid over each other; a point outside it sits on the border with its
numbers. Measured roofs are solid, theoretical and stated ones dashed. A filled point is measured; a hollow one, the ghost, is predicted; where both
are known both are shown. A kernel without floating-point work is shown as what it moves against what each level delivers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..base.machine import Quantity
from ..model.report import ABOVE, Report, percent, words
from ..model.values import Measured, kind_of, show
from .axes import Frame, LogAxes, decade
from .crumbs import Crumb, numbered
from .labels import heading
from .roofline_drawing import X_TITLE, Y_TITLE, Drawing, ghosts_of
from .roofline_words import KEPT, details, number
from .roofs import roofs_of
from .scene import Scene
from .throughput import throughput_scene
from .view import View, text_table

__all__ = ["Crumb", "Roofline", "X_TITLE", "Y_TITLE"]
WIDTH, HEIGHT = 700.0, 400.0


@dataclass(frozen=True, slots=True)
class Roofline(View):
    """The roofline of one report, and `crumbs` of earlier runs of the same cell. `has_heading` writes the verdict above."""

    report: Report
    crumbs: tuple[Crumb, ...] = ()
    has_heading: bool = True
    source: str = ""

    @staticmethod
    def of(*reports: Report) -> Roofline:
        """A roofline of one or more reports: the last one in full, earlier ones as crumbs. Raises ValueError for none."""
        if not reports:
            raise ValueError("a roofline needs a report")
        return Roofline(reports[-1], numbered(reports[:-1]))

    @property
    def title(self) -> str:  # type: ignore[override]  # a constant in the base
        r = self.report
        dims = ", ".join(f"{k}={v}" for k, v in r.dims.items())
        return f"{r.kernel}{f' ({dims})' if dims else ''} on {r.machine.name}, {r.machine.workers(r.threads)}"

    @property
    def frame(self) -> Frame:
        """(x low, x high, y low, y high) of the axes, full decades around the machine's ridges; no point changes it."""
        r = self.report
        ridges = [r.peak.value / level.roof.value for level in r.levels]
        low, high = decade(min(ridges) / 4, up=False), decade(max(ridges) * 12, up=True)
        slowest = min(level.roof.value for level in r.levels) * 1e9
        highest = max(roof.value for roof in roofs_of(r) if roof.is_peak and roof.kind != "other")
        return low, high, decade(slowest * low, up=False), decade(highest * 1.6, up=True)

    @property
    def data(self) -> dict[str, Any]:
        """Roofs, points and crumbs as plain numbers, base units."""
        r = self.report
        roofs = [
            {"level": x.name, "bandwidth": q.value * 1e9, "ridge": r.peak.value / q.value, "measured": q.measured, "source": q.source}
            for x in r.levels
            for q in (x.roof,)
        ]
        dots = [
            {
                "kernel": r.kernel,
                "level": p.level,
                "intensity": p.intensity,
                "rate": p.rate.value,
                "measured": isinstance(p.rate, Measured),
                "kind": kind_of(p.rate),
            }
            for p in (*r.points, *ghosts_of(r))
        ]
        crumbs = [
            {"number": c.number, "schedule": dict(c.schedule), "source": c.source, "time": c.report.time.value, "rate": c.report.rate.value}
            for c in self.crumbs
        ]
        peak = {"dtype": r.dtype, "rate": r.peak.value * 1e9, "measured": r.peak.measured, "source": r.peak.source}
        shown = {"machine": r.machine.name, "threads": r.threads, "frame": list(self.frame), "peak": peak, "roofs": roofs, "dots": dots}
        more = [{"level": x.level, "kind": x.kind, "value": x.value, "source": x.quantity.source} for x in roofs_of(r) if x.kind != "main"]
        return {**shown, "more_roofs": more, "crumbs": crumbs, "above": max(r.shares.values()) > ABOVE}

    def __str__(self) -> str:
        r = self.report
        rows = []
        for x in r.levels:
            intensity = number(x.intensity) if x.intensity else "-"
            rows.append(
                [x.name, str(x.roof), number(r.peak.value / x.roof.value), intensity, _roof_at(r, x.intensity, x.roof), percent(r.shares[x.name])]
            )
        ghost = f", {ghosts_of(r)[0].rate} predicted" if ghosts_of(r) else ""
        rate = f"{r.kernel}: {show(r.rate.value, 'FLOP/s')}, {r.badge or r.kind}{ghost}; peak {r.peak} ({words(r.dtype)})"
        lines = [self.title, rate, text_table(["level", "bandwidth", "ridge", "FLOP/byte", "roof there", "reached"], rows)]
        lines += [f"run {c.number}: {c.report.time}, {show(c.report.rate.value, 'FLOP/s')}{_made(c)}" for c in self.crumbs]
        return "\n".join(lines)

    def scene(self) -> Scene:
        badge = f"; {self.report.badge}" if self.report.badge else ""
        marks, top = heading(self.report.verdict, f"{self.title}{badge}", WIDTH) if self.has_heading else ([], 8.0)
        if not self.report.counts.total_flops:
            marks += throughput_scene(self.report, WIDTH, top)
            return Scene(WIDTH, top + 62 + 42 * len(self.report.levels), tuple(marks), self.title, str(self))
        axes = LogAxes((62.0, top + 8, WIDTH - 20, top + HEIGHT - 50), self.frame)
        return Scene(
            WIDTH, top + HEIGHT - 8, (*marks, *Drawing(self.report, self.crumbs, axes, roofs_of(self.report)).marks()), self.title, str(self)
        )

    def live(self) -> dict[str, Any]:
        return {
            **super(Roofline, self).live(),
            "tab": "roofline",
            "details": details(self.report, self.crumbs, self.source),
            "crumbs": self.data["crumbs"][-KEPT:],
        }


def _made(crumb: Crumb) -> str:
    return f" with {', '.join(f'{k} = {v}' for k, v in crumb.schedule.items())}" if crumb.schedule else ""


def _roof_at(r: Report, intensity: float | None, roof: Quantity) -> str:
    """What the level would allow at this intensity."""
    return show(min(r.peak.value, roof.value * intensity) * 1e9, "FLOP/s") if intensity else "-"
