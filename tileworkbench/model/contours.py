"""Contour lines of values on a grid, by marching squares.

>>> contour(((0.0, 1.0), (0.0, 1.0)), 0.5)
(((0.5, 0.0), (0.5, 1.0)),)
"""

from __future__ import annotations

import math
from collections.abc import Sequence

Grid = Sequence[Sequence[float | None]]
Point = tuple[float, float]


def contour(grid: Grid, level: float) -> tuple[tuple[Point, ...], ...]:
    """Lines along which the grid, taken as linear between its points, equals `level`: each a run of (column, row) points.

    A square with a missing corner has none. Squares of which opposite corners are above are resolved by their mean.
    """
    pieces: list[tuple[Point, Point]] = []
    for row in range(len(grid) - 1):
        for column in range(len(grid[row]) - 1):
            pieces += _square(grid, row, column, level)
    return _joined(pieces)


def levels_between(low: float, high: float, count: int = 5) -> tuple[float, ...]:
    """Up to `count` levels strictly between two positive values, evenly apart in their logarithm; linear where a value is not positive.

    >>> [round(x, 2) for x in levels_between(1.0, 16.0, 3)], levels_between(2.0, 2.0)
    ([2.0, 4.0, 8.0], ())
    """
    if not high > low:
        return ()
    shares = [(i + 1) / (count + 1) for i in range(count)]
    if low <= 0:
        return tuple(low + (high - low) * s for s in shares)
    return tuple(math.exp(math.log(low) + (math.log(high) - math.log(low)) * s) for s in shares)


def _square(grid: Grid, row: int, column: int, level: float) -> list[tuple[Point, Point]]:
    corners = [(column, row), (column + 1, row), (column + 1, row + 1), (column, row + 1)]
    values = [grid[r][c] for c, r in corners]
    known = [v for v in values if v is not None]
    if len(known) < 4:
        return []
    above = [v > level for v in known]
    cuts: list[Point] = []
    for i in range(4):
        j = (i + 1) % 4
        if above[i] != above[j]:
            share = (level - known[i]) / (known[j] - known[i])
            (xa, ya), (xb, yb) = corners[i], corners[j]
            cuts.append((round(xa + (xb - xa) * share, 6), round(ya + (yb - ya) * share, 6)))  # neighbours compute an end alike
    if len(cuts) == 2:
        return [(cuts[0], cuts[1])]
    if len(cuts) == 4:  # a saddle: the mean says which corners belong together
        together = (sum(known) / 4 > level) == above[0]
        return [(cuts[0], cuts[1]), (cuts[2], cuts[3])] if together else [(cuts[3], cuts[0]), (cuts[1], cuts[2])]
    return []


def _joined(pieces: list[tuple[Point, Point]]) -> tuple[tuple[Point, ...], ...]:
    """Pieces that share an end, as one run."""
    runs: list[list[Point]] = []
    for a, b in pieces:
        run = [a, b]
        for other in [r for r in runs if {r[0], r[-1]} & {run[0], run[-1]}]:
            if run[-1] not in (other[0], other[-1]):
                run.reverse()
            if run[-1] not in (other[0], other[-1]):
                continue
            runs.remove(other)
            run += other[1:] if other[0] == run[-1] else other[-2::-1]
        runs.append(run)
    return tuple(tuple(run) for run in runs)
