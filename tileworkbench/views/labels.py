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

    def along(self, text: str, at: tuple[float, float], *, angle: float, above: bool, **style: Any) -> None:
        """Write `text` along a rising line, just above or below it."""
        shift = 4.0
        turned = math.radians(angle + 90)
        dx, dy = shift * math.cos(turned), shift * math.sin(turned)
        label = self.axes.annotate(
            text, at, xytext=(dx, dy) if above else (-dx, -dy), textcoords="offset points", rotation=angle, rotation_mode="anchor",
            va="bottom" if above else "top", ha="left", zorder=7, **style,
        )  # fmt: skip
        self._halo(label)
        box = self._box(label)  # the box of a turned text holds much that is free: take what lies along its diagonal
        steps = 12
        for i in range(steps):
            x, y = (low + (high - low) * (i + 0.5) / steps for low, high in ((box[0], box[2]), (box[1], box[3])))
            self.taken.append((x - 7, y - 5, x + 7, y + 5))

    def _claim(self, label: Any, *, force: bool) -> bool:
        mine, area = self._box(label), self.axes.get_window_extent()
        outside = mine[0] < area.x0 + 1 or mine[2] > area.x1 + 4 or mine[1] < area.y0 + 1 or mine[3] > area.y1 + 2
        clash = any(mine[0] < t[2] and t[0] < mine[2] and mine[1] < t[3] and t[1] < mine[3] for t in self.taken)
        if (outside or clash) and not force:
            return False
        self.taken.append(mine)
        return True

    def _box(self, label: Any) -> Box:
        figure: Any = self.axes.get_figure()
        box = label.get_window_extent(figure.canvas.get_renderer())
        return (box.x0 - 2, box.y0 - 1, box.x1 + 2, box.y1 + 1)

    def _halo(self, label: Any) -> None:
        from matplotlib.patheffects import withStroke

        label.set_path_effects([withStroke(linewidth=2.5, foreground=self.halo)])


def around(distance: float, *, reach: int = 5) -> list[tuple[float, float]]:
    """Places around a dot: above and below, then to the sides, then farther away."""
    out: list[tuple[float, float]] = []
    for ring in range(1, reach + 1):
        d = distance + 12 * (ring - 1)
        out += [(0, d), (0, -d), (0.6 * d, d), (0.6 * d, -d), (-0.6 * d, d), (-0.6 * d, -d)]
    return out


def beside(distance: float, *, reach: int = 5) -> list[tuple[float, float]]:
    """Places for a longer text: right of a dot, left of it, then above and below, farther and farther away."""
    out: list[tuple[float, float]] = [(distance, 0), (-distance, 0)]
    for ring in range(1, reach + 1):
        d = distance + 13 * ring
        out += [(0, d), (0, -d), (distance, d), (distance, -d), (-distance, d), (-distance, -d)]
    return out
