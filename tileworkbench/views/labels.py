"""Labels in a picture that touch neither each other nor the lines: each takes the first free place of those it is offered."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Box = tuple[float, float, float, float]  # left, bottom, right, top in pixels


@dataclass(slots=True)
class Labels:
    """Places texts on `axes`; `halo` is the colour behind the letters."""

    axes: Axes
    halo: str
    taken: list[Box] = field(default_factory=list)

    def avoid_line(self, start: tuple[float, float], stop: tuple[float, float]) -> None:
        """Keep texts off the straight line (on the page) between two points in data coordinates."""
        (xa, ya), (xb, yb) = self.axes.transData.transform([start, stop])
        steps = max(2, int(math.hypot(xb - xa, yb - ya) / 4))
        for i in range(steps + 1):
            x, y = xa + (xb - xa) * i / steps, ya + (yb - ya) * i / steps
            self.taken.append((x - 1.5, y - 1.5, x + 1.5, y + 1.5))

    def avoid_dot(self, at: tuple[float, float], radius: float = 8.0) -> None:
        """Keep texts off a dot."""
        x, y = self.axes.transData.transform(at)
        self.taken.append((x - radius, y - radius, x + radius, y + radius))

    def place(self, text: str, at: tuple[float, float], offsets: Sequence[tuple[float, float]], **style: Any) -> None:
        """Write `text` near `at`, shifted by the first of `offsets` (points) that is free; the last one is taken in any case.

        A shift to the right aligns the text left, and so on.
        """
        for number, (dx, dy) in enumerate(offsets):
            label = self.axes.annotate(
                text, at, xytext=(dx, dy), textcoords="offset points", ha="left" if dx > 0 else "right" if dx < 0 else "center",
                va="bottom" if dy > 0 else "top" if dy < 0 else "center", zorder=8, annotation_clip=False, **style,
            )  # fmt: skip
            if self._claim(label, force=number == len(offsets) - 1):
                self._halo(label)
                return
            label.remove()

    def along(self, text: str, ends: tuple[tuple[float, float], tuple[float, float]], *, angle: float, above: bool, **style: Any) -> None:
        """Write `text` along a rising line on log axes, just above or below it, at the first free place from its lower end up."""
        (xa, ya), (xb, yb) = ends
        turned = math.radians(angle + 90)
        dx, dy = 4.0 * math.cos(turned), 4.0 * math.sin(turned)
        for place in (0.07, 0.2, 0.33, 0.46, 0.6, 0.07):
            at = (xa * (xb / xa) ** place, ya * (yb / ya) ** place)
            label = self.axes.annotate(
                text, at, xytext=(dx, dy) if above else (-dx, -dy), textcoords="offset points", rotation=angle, rotation_mode="anchor",
                va="bottom" if above else "top", ha="left", zorder=7, **style,
            )  # fmt: skip
            pieces = self._pieces(label)
            if place == 0.6 or not any(_clash(piece, t) for piece in pieces for t in self.taken):
                self.taken += pieces
                self._halo(label)
                return
            label.remove()

    def _pieces(self, label: Any) -> list[Box]:
        """Small boxes along the diagonal of a turned text, whose own box holds much that is free."""
        box, steps = self._box(label), 12
        out = []
        for i in range(steps):
            x, y = (low + (high - low) * (i + 0.5) / steps for low, high in ((box[0], box[2]), (box[1], box[3])))
            out.append((x - 4, y - 2, x + 4, y + 2))
        return out

    def _claim(self, label: Any, *, force: bool) -> bool:
        mine, area = self._box(label), self.axes.get_window_extent()
        outside = mine[0] < area.x0 + 1 or mine[2] > area.x1 + 4 or mine[1] < area.y0 + 1 or mine[3] > area.y1 + 2
        clash = any(_clash(mine, t) for t in self.taken)
        if (outside or clash) and not force:
            return False
        self.taken.append(mine)
        return True

    def _box(self, label: Any) -> Box:
        figure: Any = self.axes.get_figure()
        box = label.get_window_extent(figure.canvas.get_renderer())
        return (box.x0 - 2, box.y0 - 1, box.x1 + 2, box.y1 + 1)

    def _halo(self, label: Any) -> None:
        """A strip of the background behind the letters, so that no line crosses them. (Outlined letters would become shapes in SVG.)"""
        label.set_bbox({"facecolor": self.halo, "edgecolor": "none", "alpha": 0.75, "pad": 0.4})


def _clash(a: Box, b: Box) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


def around(distance: float, *, reach: int = 6) -> list[tuple[float, float]]:
    """Places around a dot: above and below, then aslant and beside it, farther and farther away."""
    out: list[tuple[float, float]] = []
    for ring in range(reach):
        d = distance + 11 * ring
        out += [(0, d), (0, -d), (0.7 * d, 0.8 * d), (0.7 * d, -0.8 * d), (-0.7 * d, 0.8 * d), (-0.7 * d, -0.8 * d), (d, 0), (-d, 0)]
    return [*out, (distance, distance)]


def beside(distance: float, *, reach: int = 6) -> list[tuple[float, float]]:
    """Places for a longer text: right of a dot, then aslant, above and below, farther and farther away."""
    out: list[tuple[float, float]] = []
    for ring in range(reach):
        d = distance + 13 * ring
        out += [(d, 0), (0.7 * d, d), (0.7 * d, -d), (0, 1.3 * d), (0, -1.3 * d), (-d, 0), (-0.7 * d, d), (-0.7 * d, -d)]
    return [*out, (distance, distance)]
