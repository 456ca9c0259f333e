"""How a roofline is drawn: shapes first, then words, each placed where it covers nothing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ..model.report import ABOVE, Point, Report
from ..model.values import Measured, show
from .axes import LogAxes
from .crumbs import Crumb
from .labels import Labels, Spot, around, beside
from .marks import AnyMark, Dot, Path, Text
from .roofline_words import above_tip, anchor, crumb_tip, ghost_point, number, point_tip, roof_tip
from .roofs import Roof

X_TITLE = "Arithmetic Intensity [FLOP/byte]"
Y_TITLE = "Performance [FLOP/s]"
SHAPES = {"L1": "circle", "shared": "circle", "L2": "square", "L3": "triangle", "DRAM": "diamond"}
DASH = (6.0, 4.0)


@dataclass(slots=True)
class Drawing:
    """Draws one report into `axes`: shapes first, then the words, placed where they cover nothing."""

    report: Report
    crumbs: tuple[Crumb, ...]
    axes: LogAxes
    roofs: tuple[Roof, ...]
    shapes: list[AnyMark] = field(default_factory=list)

    def marks(self) -> tuple[AnyMark, ...]:
        left, top, right, bottom = self.axes.box
        labels = Labels((left + 1, top - 6, right + 8, bottom - 1))
        grid = self.axes.grid(X_TITLE, Y_TITLE, lambda v: f"{v:g}", _tick)
        self._roofs(labels)
        self._badge(labels)
        self._crumbs(labels)
        r = self.report
        ghosts = ghosts_of(r)
        measured = r.points if r.measured is not None else ()
        self._trail(ghosts or r.points, labels, "ghost")
        if measured:
            self._trail(measured, labels, "truth")
            self._spread(labels)
        self._names(labels)
        self._headlines(labels, ghosts, measured)
        return (*grid, *self.shapes, *labels.marks)

    # ------------------------------------------------------------------------------------------ roofs
    def _roofs(self, labels: Labels) -> None:
        y0 = self.axes.frame[2]
        for roof in self.roofs:
            a, b = self._ends(roof)
            is_main = roof.kind == "main"
            width = (2.0 if roof.is_peak else 1.8) if is_main else 1.2
            dash = () if is_main and roof.quantity.measured else DASH
            look: dict[str, Any] = {"key": roof.key, "tip": roof_tip(self.report, roof), "opacity": 1.0 if is_main else 0.75}
            if is_main and not roof.is_peak:
                foot = self.axes.at(self.peak / roof.value, y0)
                self.shapes.append(Path((b, foot), roof.level, 0.8, dash=(1.5, 4.5)))
            self.shapes.append(Path((a, b), roof.level, width, dash=dash, **look))
            labels.avoid_line(a, b)

    @property
    def peak(self) -> float:
        return self.report.peak.value * 1e9

    def _ends(self, roof: Roof) -> tuple[Spot, Spot]:
        """Where a roof enters the frame, and where it leaves it or meets the peak of its kind."""
        x0, x1, y0, _ = self.axes.frame
        if roof.is_peak:
            steepest = max(
                r.value for r in self.roofs if not r.is_peak and r.kind == ("theory" if roof.kind == "theory" and self._has_theory else "main")
            )
            return self.axes.at(max(roof.value / steepest, x0), roof.value), self.axes.at(x1, roof.value)
        top = next((r.value for r in self.roofs if r.is_peak and r.kind == roof.kind), self.peak)
        start = max(x0, y0 / roof.value)
        return self.axes.at(start, start * roof.value), self.axes.at(top / roof.value, top)

    @property
    def _has_theory(self) -> bool:
        return any(r.kind == "theory" and not r.is_peak for r in self.roofs)

    def _names(self, labels: Labels) -> None:
        """A name on each roof: above it, or below where the next line above is near; and the ridge at the foot of its drop line."""
        x1, y0 = self.axes.frame[1], self.axes.frame[2]
        places = [(-6.0 - back, side) for side in (-4.0, 5.0, -18.0, 18.0) for back in (0.0, 60.0, 120.0, 180.0)]
        rates = sorted((r.value for r in self.roofs if not r.is_peak), reverse=True)
        for roof in self.roofs:
            is_main = roof.kind == "main"
            about: dict[str, Any] = {"key": roof.key, "tip": roof_tip(self.report, roof)}
            name = Text(0, 0, roof.label, (11.5 if roof.is_peak else 11) if is_main else 10, roof.level, **about)
            if roof.is_peak:
                labels.place(name, self.axes.at(x1, roof.value), places, must=is_main)
                continue
            faster = [x for x in rates if x > roof.value]
            above = not faster or math.log10(faster[-1] / roof.value) > 0.34
            labels.along(name, *self._ends(roof), above=above, must=is_main)
            if is_main:
                foot = self.axes.at(self.peak / roof.value, y0)
                labels.place(Text(0, 0, number(self.peak / roof.value), 9.5, "faint"), foot, [(3, -3), (-3, -3), (3, -14)], must=False)

    # ------------------------------------------------------------------------------------------ points
    def _trail(self, points: Sequence[Point], labels: Labels, group: str) -> None:
        """The points of one report and the thin line that joins them; points that fall on one another are nested, the outermost level on top."""
        placed = [(p, self.axes.at(*self.axes.clamped(p.intensity, p.rate.value))) for p in points]
        if not placed:
            return
        is_ghost = group == "ghost"
        row = tuple(at for _, at in placed)
        self.shapes.append(Path(row, "faint", 1.2, dash=(3.0, 3.0) if is_ghost else (), group=group))
        labels.avoid_line(row[0], row[-1])
        for near in _near(placed):
            labels.avoid_dot(near[0][1], radius=7 + 2 * len(near))
            for depth, (point, (x, y)) in enumerate(near):
                radius = 5.0 + 2.6 * (len(near) - 1 - depth) + (1.5 if is_ghost else 0.0)
                hollow = is_ghost or depth < len(near) - 1
                look: dict[str, Any] = {"key": f"level:{point.level}", "tip": point_tip(self.report, point), "group": group}
                self.shapes.append(Dot(x, y, radius, SHAPES.get(point.level, "circle"), point.level, hollow, **look))

    def _spread(self, labels: Labels) -> None:
        """How far the runs differ, as an upright bar through every measured point."""
        rate = self.report.rate
        if not isinstance(rate, Measured) or rate.runs < 2:
            return
        low, high = rate.value * (1 - min(rate.spread, 1.9) / 2), max(rate.best, rate.value * (1 + rate.spread / 2))
        if high < low * 1.03:
            return
        for point in self.report.points:
            (x, ya), (_, yb) = (self.axes.at(*self.axes.clamped(point.intensity, value)) for value in (low, high))
            self.shapes.append(Path(((x, ya), (x, yb)), "text", 1.2, group="truth"))
            self.shapes += [Path(((x - 3, y), (x + 3, y)), "text", 1.2, group="truth") for y in (ya, yb)]
            labels.avoid_line((x, ya), (x, yb))

    def _crumbs(self, labels: Labels) -> None:
        """A small numbered mark for each earlier run, at its binding level, joined in the order of the runs."""
        spots = []
        for crumb in self.crumbs:
            if (point := anchor(crumb.report)) is not None:
                spots.append((crumb, self.axes.at(*self.axes.clamped(point.intensity, point.rate.value))))
        if len(spots) > 1:
            self.shapes.append(Path(tuple(at for _, at in spots), "faint", 0.8, dash=(1.0, 3.0)))
        for _, at in spots:
            labels.avoid_dot(at, radius=4)
        for crumb, at in spots:
            about: dict[str, Any] = {"key": f"crumb:{crumb.number}", "tip": crumb_tip(crumb, self.report)}
            self.shapes.append(Dot(*at, 2.6, "circle", "faint", crumb.report.measured is None, **about))
            labels.place(Text(0, 0, str(crumb.number), 10, "faint", **about), at, around(5, reach=4), must=False)

    def _headlines(self, labels: Labels, ghosts: Sequence[Point], measured: Sequence[Point]) -> None:
        """What the points reach, in words beside them; then each level's FLOP per byte."""
        r = self.report
        shown = measured or ghosts or r.points
        placed = [(p, self.axes.at(*self.axes.clamped(p.intensity, p.rate.value))) for p in shown]
        if not placed:
            return
        rightmost = max(at for _, at in placed)
        is_above = max(r.shares.values()) > ABOVE
        colour = "warning" if is_above else "text"
        labels.place(
            Text(0, 0, self._headline(is_above=is_above), 12, colour, is_bold=True, group="truth" if measured else "ghost"), rightmost, beside(13)
        )
        if measured and ghosts:
            at = self.axes.at(*self.axes.clamped(ghosts[-1].intensity, ghosts[-1].rate.value))
            labels.place(Text(0, 0, f"{ghosts[-1].rate} predicted", 10.5, "faint", group="ghost"), at, beside(12), must=False)
        for near in _near(placed):
            point, at = near[0]
            off = "" if self.axes.holds(point.intensity, point.rate.value) else " (off the chart)"
            name = f"{' '.join(p.level for p, _ in near)} {number(point.intensity)}{off}"
            colour = point.level if len(near) == 1 else "text"
            about: dict[str, Any] = {"key": f"level:{point.level}", "tip": point_tip(r, point), "group": "truth" if measured else "ghost"}
            labels.place(Text(0, 0, name, 11, colour, **about), at, around(9 + 2 * len(near)))

    def _badge(self, labels: Labels) -> None:
        """A red sign on a point that stands above its roof: something is wrong with the model or with the measurement.

        It stands where the verdict looks: at the best run where runs differ much, else at their median.
        """
        r, (_, top, right, _) = self.report, self.axes.box
        if max(r.shares.values()) <= ABOVE or not r.points:
            return
        x, y = max(self.axes.at(*self.axes.clamped(p.intensity, r.counts.total_flops / r.judged_seconds)) for p in r.points)
        x, y = min(x + 9, right - 4), max(y - 9, top + 4)
        about: dict[str, Any] = {"key": "above", "tip": above_tip(self.report)}
        self.shapes += [Dot(x, y, 6.0, "circle", "warning", **about), Text(x, y + 4, "!", 11, "background", "middle", is_bold=True)]
        labels.avoid_dot((x, y), radius=8)

    def _headline(self, *, is_above: bool) -> str:
        r = self.report
        text = f"{show(r.rate.value, 'FLOP/s')} {r.badge or r.kind}"
        if is_above and r.measured is not None and r.measured.is_unstable:
            return f"{text}; the best run is above a roof"
        if is_above:
            return f"{text}, above a roof"
        if r.measured is not None and r.measured.is_unstable:
            return f"{text}, unstable: runs vary by {r.measured.variation}"
        return text


def ghosts_of(r: Report) -> tuple[Point, ...]:
    """The predicted points of a report that was measured too; nothing where its points are predictions anyway."""
    return tuple(ghost_point(r, p) for p in r.points) if r.measured is not None and r.predicted.value else ()


def _tick(rate: float) -> str:
    return f"{rate / 1e15:g} P" if rate >= 1e15 else show(rate, "").strip()


def _near(placed: Sequence[tuple[Point, Spot]]) -> list[list[tuple[Point, Spot]]]:
    """Points in groups that would cover one another: less than 11 pixels apart."""
    groups: list[list[tuple[Point, Spot]]] = []
    for one in placed:
        if groups and abs(one[1][0] - groups[-1][0][1][0]) < 11:
            groups[-1].append(one)
        else:
            groups.append([one])
    return groups
