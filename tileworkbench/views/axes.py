"""A log-log plot inside a scene: from numbers to pixels, grid lines at full decades, and titles."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from .labels import Box
from .marks import AnyMark, Path, Text

Frame = tuple[float, float, float, float]  # x low, x high, y low, y high


@dataclass(frozen=True, slots=True)
class LogAxes:
    """`frame` in numbers is drawn in `box` (left, top, right, bottom in pixels).

    >>> axes = LogAxes((50, 10, 250, 110), (1, 100, 1, 10))
    >>> axes.at(10, 10), axes.holds(10, 10), axes.holds(1000, 10), axes.clamped(1000, 10)
    ((150.0, 10.0), True, False, (100, 10))
    """

    box: Box
    frame: Frame

    def at(self, x: float, y: float) -> tuple[float, float]:
        """Where (x, y) is, in pixels."""
        left, top, right, bottom = self.box
        x0, x1, y0, y1 = self.frame
        across = math.log(x / x0) / math.log(x1 / x0)
        up = math.log(y / y0) / math.log(y1 / y0)
        return left + (right - left) * across, bottom - (bottom - top) * up

    def holds(self, x: float, y: float) -> bool:
        """Whether (x, y) lies within the frame."""
        x0, x1, y0, y1 = self.frame
        return x0 <= x <= x1 and y0 <= y <= y1

    def clamped(self, x: float, y: float) -> tuple[float, float]:
        """The point of the frame nearest to (x, y)."""
        x0, x1, y0, y1 = self.frame
        return min(max(x, x0), x1), min(max(y, y0), y1)

    def grid(self, x_title: str, y_title: str, x_name: Callable[[float], str], y_name: Callable[[float], str]) -> list[AnyMark]:
        """Lines at full decades with their numbers, and titles of the axes."""
        left, top, right, bottom = self.box
        x0, x1, y0, y1 = self.frame
        marks: list[AnyMark] = []
        for value in decades(x0, x1):
            x, _ = self.at(value, y0)
            marks += [Path(((x, top), (x, bottom)), "grid"), Text(x, bottom + 15, x_name(value), 10.5, "faint", "middle")]
        for value in decades(y0, y1):
            _, y = self.at(x0, value)
            marks += [Path(((left, y), (right, y)), "grid"), Text(left - 6, y + 4, y_name(value), 10.5, "faint", "end")]
        marks.append(Path(((left, top), (left, bottom), (right, bottom)), "faint"))
        marks.append(Text((left + right) / 2, bottom + 33, x_title, 12, anchor="middle"))
        marks.append(Text(left - 42, (top + bottom) / 2, y_title, 12, anchor="middle", angle=-90))
        return marks


def decades(low: float, high: float) -> list[float]:
    """The powers of ten from `low` to `high`.

    >>> decades(0.1, 100)
    [0.1, 1.0, 10.0, 100.0]
    """
    return [10.0**e for e in range(math.ceil(math.log10(low) - 1e-9), math.floor(math.log10(high) + 1e-9) + 1)]


def decade(value: float, *, up: bool) -> float:
    """The power of ten next to `value`, at or above it (`up`) or at or below it."""
    power = math.log10(value)
    return float(10.0 ** (math.ceil(power - 1e-9) if up else math.floor(power + 1e-9)))
