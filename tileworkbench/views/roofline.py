"""The roofline: FLOP/s against FLOP per byte, one dot for each level of memory, under the roofs of the machine.

The frame is fixed by the machine, so pictures of different kernels can be laid over each other; a dot outside it sits on the border with its
numbers. Measured roofs are solid, stated ones dashed; measured dots are filled, predicted ones hollow. `has_heading` writes the verdict above.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..base.machine import Quantity
from ..model.report import ABOVE, Point, Report, percent, words
from ..model.values import Measured, show
from .labels import Labels, around, beside
from .view import MARKERS, Theme, View, new_figure, text_table

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SIZE = (7.4, 4.4)  # inches
X_TITLE = "Arithmetic Intensity [FLOP/byte]"
Y_TITLE = "Performance [FLOP/s]"


@dataclass(frozen=True, slots=True)
class Roofline(View):
    """The roofline of one report, or of several on one machine: the last one in full, earlier ones as faint dots ("before and after")."""

    reports: tuple[Report, ...]
    has_heading: bool = True

    @staticmethod
    def of(*reports: Report) -> Roofline:
        """A roofline of one or more reports. Raises ValueError for none."""
        if not reports:
            raise ValueError("a roofline needs a report")
        return Roofline(reports)

    @property
    def title(self) -> str:  # type: ignore[override]  # a constant in the base
        r = self.report
        dims = ", ".join(f"{k}={v}" for k, v in r.dims.items())
        return f"{r.kernel}{f' ({dims})' if dims else ''} on {r.machine.name}, {r.threads} thread{'s' if r.threads != 1 else ''}"

    @property
    def report(self) -> Report:
        """The one that is shown in full."""
        return self.reports[-1]

    @property
    def frame(self) -> tuple[float, float, float, float]:
        """(x low, x high, y low, y high) of the axes, full decades around the machine's ridges; no dot changes it."""
        r = self.report
        ridges = [r.machine.ridge(level.name, r.dtype, r.threads) for level in r.levels]
        top = r.peak.value * 1e9
        low, high = _decade(min(ridges) / 4, math.floor), _decade(max(ridges) * 12, math.ceil)
        slowest = min(level.roof.value for level in r.levels) * 1e9
        return low, high, _decade(slowest * low, math.floor), _decade(top * 1.6, math.ceil)

    @property
    def data(self) -> dict[str, Any]:
        """Roofs and dots as plain numbers, base units."""
        r = self.report
        roofs = [
            {"level": x.name, "bandwidth": q.value * 1e9, "ridge": r.peak.value / q.value, "measured": q.measured, "source": q.source}
            for x in r.levels
            for q in (x.roof,)
        ]
        dots = [
            {"kernel": q.kernel, "level": p.level, "intensity": p.intensity, "rate": p.rate.value, "measured": isinstance(p.rate, Measured)}
            for q in self.reports
            for p in q.points
        ]
        peak = {"dtype": r.dtype, "rate": r.peak.value * 1e9, "measured": r.peak.measured, "source": r.peak.source}
        return {"machine": r.machine.name, "threads": r.threads, "frame": list(self.frame), "peak": peak, "roofs": roofs, "dots": dots}

    def __str__(self) -> str:
        r = self.report
        rows = []
        for x in r.levels:
            intensity = _number(x.intensity) if x.intensity else "-"
            ridge = _number(r.peak.value / x.roof.value)
            rows.append([x.name, str(x.roof), ridge, intensity, _roof_at(r, x.intensity, x.roof), percent(r.shares[x.name])])
        rate = f"{r.kernel}: {show(r.rate.value, 'FLOP/s')}, {'measured' if r.measured else 'predicted'}; peak {r.peak} ({words(r.dtype)})"
        return f"{self.title}\n{rate}\n" + text_table(["level", "bandwidth", "ridge", "FLOP/byte", "roof there", "reached"], rows)

    # ------------------------------------------------------------------------------------------ the picture
    def _figure(self, theme: Theme) -> Figure:
        figure = new_figure(SIZE, theme)
        axes = figure.add_axes((0.1, 0.125, 0.88, 0.735 if self.has_heading else 0.85))
        if self.has_heading:
            figure.text(0.015, 0.968, self.report.verdict, fontsize=10.5, fontweight="bold", color=theme.text, va="top")
            figure.text(0.015, 0.912, self.title, fontsize=8.5, color=theme.faint, va="top")
        _style(axes, self.frame, theme)
        labels = Labels(axes, theme.background)
        self._roofs(axes, theme, labels)
        for earlier in self.reports[:-1]:
            for _, at in self._trail(axes, earlier, theme, faint=True):
                labels.avoid_dot(at, radius=6)
        self._dots(axes, theme, labels)
        self._names(axes, theme, labels)
        return figure

    def _roofs(self, axes: Axes, theme: Theme, labels: Labels) -> None:
        r, (x0, x1, y0, _) = self.report, self.frame
        peak = r.peak.value * 1e9
        left = min(r.peak.value / x.roof.value for x in r.levels)
        axes.plot([left, x1], [peak, peak], color=theme.levels["compute"], lw=1.8, ls=_dash(r.peak), zorder=3, solid_capstyle="round")
        labels.avoid_line((left, peak), (x1, peak))
        for level in r.levels:
            slope = level.roof.value * 1e9
            color, start = theme.levels.get(level.name, theme.faint), max(x0, y0 / slope)
            axes.plot([start, peak / slope], [start * slope, peak], color=color, lw=1.6, ls=_dash(level.roof), zorder=3, solid_capstyle="round")
            axes.plot([peak / slope] * 2, [y0, peak], color=color, lw=0.7, ls=(0, (1, 3)), zorder=1)
            labels.avoid_line((start, start * slope), (peak / slope, peak))

    def _names(self, axes: Axes, theme: Theme, labels: Labels) -> None:
        """A name on each roof: above it, or below where the next line above is near; and the ridge at the foot of its drop line."""
        r, (x0, x1, y0, _) = self.report, self.frame
        places = [(-6.0 - back, side) for side in (4.0, -4.0, 16.0, -16.0) for back in (0.0, 60.0, 120.0, 180.0)]
        labels.place(f"{r.peak} {words(r.dtype)}", (x1, r.peak.value * 1e9), places, fontsize=8.5, color=theme.text)
        peak, angle = r.peak.value * 1e9, _slope(axes)
        rates = sorted((x.roof.value for x in r.levels), reverse=True)
        for level in r.levels:
            slope, color = level.roof.value * 1e9, theme.levels.get(level.name, theme.faint)
            start = max(x0, y0 / slope)
            faster = [x for x in rates if x > level.roof.value]
            above = not faster or math.log10(faster[-1] / level.roof.value) > 0.34
            ends = ((start, start * slope), (peak / slope, peak))
            labels.along(f"{level.name} {level.roof}", ends, angle=angle, above=above, fontsize=8, color=color)
            labels.place(_number(peak / slope), (peak / slope, y0), [(3, 3), (-3, 3), (3, 14)], fontsize=7, color=theme.faint)

    def _trail(self, axes: Axes, r: Report, theme: Theme, *, faint: bool) -> list[tuple[Point, tuple[float, float]]]:
        """The dots of one report and the thin line that joins them. Dots that fall on one another are nested, the outermost level on top."""
        x0, x1, y0, y1 = self.frame
        placed = [(p, (min(max(p.intensity, x0 * 1.05), x1 / 1.05), min(max(p.rate.value, y0 * 1.07), y1 / 1.07))) for p in r.points]
        if not placed:
            return []
        axes.plot([x for _, (x, _) in placed], [y for _, (_, y) in placed], color=theme.faint, lw=1.0, zorder=4, alpha=0.5 if faint else 1.0)
        for group in _near(placed):
            for depth, (point, (x, y)) in enumerate(group):
                color, size = theme.levels.get(point.level, theme.faint), 7.5 + 3.4 * (len(group) - 1 - depth)
                is_filled = isinstance(point.rate, Measured) and depth == len(group) - 1
                inside = color if is_filled else theme.background
                look: dict[str, Any] = {"ms": 0.65 * size, "alpha": 0.45} if faint else {"ms": size}
                axes.plot([x], [y], marker=MARKERS.get(point.level, "o"), mfc=inside, mec=color, mew=1.6, zorder=6, ls="none", clip_on=False, **look)
        return placed

    def _dots(self, axes: Axes, theme: Theme, labels: Labels) -> None:
        placed = self._trail(axes, self.report, theme, faint=False)
        if not placed:
            axes.text(0.5, 0.5, "no floating-point work: nothing to place", transform=axes.transAxes, ha="center", color=theme.faint, fontsize=9)
            return
        rate, rightmost = placed[0][0].rate, max(at for _, at in placed)
        if isinstance(rate, Measured) and rate.best > rate.value * 1.02:
            axes.plot([rightmost[0]] * 2, [rate.value, rate.best], color=theme.faint, lw=1.2, marker="_", ms=6, zorder=5)
        labels.avoid_line(placed[0][1], rightmost)
        for group in _near(placed):
            labels.avoid_dot(group[0][1], radius=6 + 2.4 * len(group))
        labels.place(self._headline(), rightmost, beside(11), fontsize=9, fontweight="bold", color=theme.warning if self._is_above else theme.text)
        for group in _near(placed):
            point, at = group[0]
            off = "" if at == (point.intensity, point.rate.value) else " (off the chart)"
            name = f"{' '.join(p.level for p, _ in group)} {_number(point.intensity)}{off}"
            color = theme.levels.get(point.level, theme.faint) if len(group) == 1 else theme.text
            labels.place(name, at, around(7 + 2 * len(group)), fontsize=8, color=color)

    @property
    def _is_above(self) -> bool:
        return max(self.report.shares.values()) > ABOVE

    def _headline(self) -> str:
        r = self.report
        text = f"{show(r.rate.value, 'FLOP/s')} {'measured' if r.measured is not None else 'predicted'}"
        if self._is_above:
            return f"{text}, above a roof"
        if r.measured is not None and r.measured.is_unstable:
            return f"{text}, unstable: {percent(r.measured.spread)} spread"
        return text


def _near(placed: list[tuple[Point, tuple[float, float]]]) -> list[list[tuple[Point, tuple[float, float]]]]:
    """Dots in groups that would cover one another: less than a twelfth of a decade apart."""
    groups: list[list[tuple[Point, tuple[float, float]]]] = []
    for one in placed:
        if groups and abs(math.log10(one[1][0] / groups[-1][0][1][0])) < 0.085:
            groups[-1].append(one)
        else:
            groups.append([one])
    return groups


def _style(axes: Axes, frame: tuple[float, float, float, float], theme: Theme) -> None:
    axes.set_facecolor(theme.background)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlim(frame[0], frame[1])
    axes.set_ylim(frame[2], frame[3])
    axes.set_xlabel(X_TITLE, fontsize=9, color=theme.text)
    axes.set_ylabel(Y_TITLE, fontsize=9, color=theme.text)
    axes.yaxis.set_major_formatter(lambda value, _: show(value, "").strip())
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.grid(True, which="major", color=theme.grid, lw=0.8, zorder=0)
    axes.tick_params(which="both", colors=theme.faint, labelsize=8, length=3)
    axes.tick_params(which="minor", length=0)
    for side, spine in axes.spines.items():
        spine.set_visible(side in ("left", "bottom"))
        spine.set_color(theme.faint)


def _slope(axes: Axes) -> float:
    """Degrees at which a bandwidth roof rises on the page."""
    a, b = axes.transData.transform((1.0, 1.0)), axes.transData.transform((10.0, 10.0))
    return math.degrees(math.atan2(b[1] - a[1], b[0] - a[0]))


def _dash(quantity: Quantity) -> str:
    return "-" if quantity.measured else "--"


def _decade(value: float, rounding: Any) -> float:
    return float(10.0 ** rounding(math.log10(value)))


def _number(value: float) -> str:
    return f"{value:.3g}" if value < 1000 else f"{value:,.0f}"


def _roof_at(r: Report, intensity: float | None, roof: Quantity) -> str:
    """What the level would allow at this intensity."""
    return show(min(r.peak.value, roof.value * intensity) * 1e9, "FLOP/s") if intensity else "-"
