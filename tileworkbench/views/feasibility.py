"""Two tunables as axes: hatched where a limit forbids, bands and contours of what is predicted, dots where something ran.

    view = FeasibilityView(feasibility(build, Axis("block_m", ...), Axis("block_n", ...), machine=find_machine("h200")))
    print(view)

In a notebook the ring is a handle: dragged or moved with the arrow keys it sends {"candidate": {...}} to Python.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from ..model.contours import contour, levels_between
from ..model.feasibility import FeasibilityMap, Position, Trial
from ..model.values import show
from .labels import Labels
from .marks import AnyMark, Dot, Path, Rect, Text
from .scene import Scene
from .view import View, text_table
from .widths import cut_to, text_width

TOP, BANDS = 56.0, 10


@dataclass(frozen=True, slots=True)
class FeasibilityView(View):
    """A picture of a `FeasibilityMap`."""

    map: FeasibilityMap

    @property
    def title(self) -> str:  # type: ignore[override]  # a constant in the base
        m = self.map
        return f"{m.kernel or 'kernel'}: {m.x.name} and {m.y.name} on {m.machine}"

    @property
    def data(self) -> dict[str, Any]:
        """The axes, every judged position with its limit or its predicted numbers, the runs, and the best of both."""
        m = self.map
        best, fastest = m.best, m.best_measured
        return {
            "x": {"name": m.x.name, "values": list(m.x.values)}, "y": {"name": m.y.name, "values": list(m.y.values)},
            "fixed": dict(m.fixed), "metric": m.metric, "unit": m.unit, "machine": m.machine,
            "positions": [
                {"x": p.x, "y": p.y, "limit": p.limit.name if p.limit else "", "why": p.limit.why if p.limit else "", "seconds": p.seconds,
                 "bytes": dict(p.bytes), "value": m.value(p)}
                for p in m.positions
            ],
            "measured": [{"x": t.x, "y": t.y, "seconds": t.seconds, "why": t.why} for t in m.trials],
            "current": list(m.current) if m.current else None,
            "best": [best.x, best.y] if best else None,
            "best_measured": [fastest.x, fastest.y] if fastest else None,
        }  # fmt: skip

    def __str__(self) -> str:
        m = self.map
        cells = [[str(y), *(self._word(x, y) for x in m.x.values)] for y in m.y.values]
        out = [f"{self.title}: predicted {self._metric}", text_table([f"{m.y.name} \\ {m.x.name}", *map(str, m.x.values)], cells)]
        out += [
            f"  {mark} {name}: {found[0].limit.why if found[0].limit else ''}"
            for mark, (name, found) in zip(_LETTERS, m.limits.items(), strict=False)
        ]
        if m.fixed:
            out.append("  with " + ", ".join(f"{k}={v}" for k, v in m.fixed.items()))
        if best := m.best:
            out.append(f"  best predicted: {m.x.name}={best.x}, {m.y.name}={best.y}, ~{show(m.value(best) or 0.0, m.unit)}")
        for t in m.trials:
            took = f"measured {show(t.seconds, 's')}" if t.seconds is not None else f"failed: {t.why}"
            out.append(f"  {m.x.name}={t.x}, {m.y.name}={t.y}: {took}" + (" (fastest)" if t is m.best_measured else ""))
        return "\n".join(out)

    @property
    def _metric(self) -> str:
        return "time" if self.map.metric == "time" else f"bytes at {self.map.metric}"

    def _word(self, x: Any, y: Any) -> str:
        """A cell of the text twin: the value, the letter of its limit, or a dot where nobody judged; [] around the current one."""
        m = self.map
        p = m.at(x, y)
        if p is None:
            word = "."
        elif p.limit is not None:
            word = _LETTERS[min(list(m.limits).index(p.limit.name), len(_LETTERS) - 1)]
        else:
            word = f"~{show(m.value(p) or 0.0, m.unit)}"
        return f"[{word}]" if m.current == (x, y) else word

    # ------------------------------------------------------------------------------------------ drawing
    def scene(self) -> Scene:
        return self._scene(with_current=True)

    def live(self) -> dict[str, Any]:
        """For feasibility.js: the picture without the handle, where each cell stands, and what is to be said about it."""
        m, grid = self.map, _Grid(self.map)
        cells = []
        for j, y in enumerate(m.y.values):
            for i, x in enumerate(m.x.values):
                p = m.at(x, y)
                state = "unknown" if p is None else "legal" if p.is_legal else "forbidden"
                cells.append({"i": i, "j": j, "x": x, "y": y, "state": state, "words": self._about(x, y, p)})
        current = [m.x.values.index(m.current[0]), m.y.values.index(m.current[1])] if m.current is not None and self._is_on_map else None
        return {
            "module": "feasibility", "title": self.title, "text": str(self), "scene": self._scene(with_current=False).to_json(), "details": {},
            "grid": {"left": grid.left, "top": TOP, "wide": grid.wide, "high": grid.high, "columns": len(m.x.values), "rows": len(m.y.values)},
            "x": m.x.name, "y": m.y.name, "fixed": dict(m.fixed), "cells": cells, "current": current,
        }  # fmt: skip

    @property
    def _is_on_map(self) -> bool:
        m = self.map
        return m.current is not None and m.current[0] in m.x.values and m.current[1] in m.y.values

    def _about(self, x: Any, y: Any, p: Position | None) -> str:
        """A cell in words."""
        m = self.map
        parts = [f"{m.x.name} {x}, {m.y.name} {y}"]
        if p is None:
            parts.append("not judged yet")
        elif p.limit is not None:
            parts.append(f"forbidden, {p.limit}")
        else:
            parts += [f"~{show(p.seconds, 's')} predicted"] if p.seconds is not None else []
            parts += [f"~{show(n, 'B')} at {name}" for name, n in p.bytes.items() if n and name == m.metric]
            parts += [p.note] if p.note else []
        for t in (t for t in m.trials if (t.x, t.y) == (x, y)):
            parts.append(f"measured {show(t.seconds, 's')}" if t.seconds is not None else f"failed: {t.why}")
        return "\n".join(parts)

    def _scene(self, with_current: bool) -> Scene:
        m, grid = self.map, _Grid(self.map)
        marks: list[AnyMark] = [Text(8, 20, f"predicted {self._metric}, by {m.x.name} and {m.y.name}", 13, is_bold=True)]
        if m.fixed:
            marks.append(Text(8, 38, "with " + ", ".join(f"{k}={v}" for k, v in m.fixed.items()), 11, "faint"))
        marks += self._cells(grid)
        marks += self._regions(grid)
        marks += self._contours(grid)
        marks += grid.axes()
        marks += self._dots(grid)
        if with_current and self._is_on_map:
            assert m.current is not None
            x, y = grid.corner(m.x.values.index(m.current[0]), m.y.values.index(m.current[1]))
            marks.append(Rect(x + 1, y + 1, grid.wide - 2, grid.high - 2, "none", "selected", 2.5, 4, group="current", tip="current position"))
        foot = grid.bottom + 54
        marks += self._legend(foot, with_current)
        return Scene(max(grid.right + 24, 620), foot + 14, tuple(marks), title=self.title, text=str(self))

    def _cells(self, grid: _Grid) -> Iterator[AnyMark]:
        m = self.map
        known = [v for p in m.positions if (v := m.value(p)) is not None]
        low, high = min(known, default=0.0), max(known, default=0.0)
        for j, y in enumerate(m.y.values):
            for i, x in enumerate(m.x.values):
                p = m.at(x, y)
                left, top = grid.corner(i, j)
                about: dict[str, Any] = {"key": f"{m.x.name}={x} {m.y.name}={y}", "tip": self._about(x, y, p)}
                value = m.value(p) if p is not None else None
                if p is None:
                    yield Rect(left, top, grid.wide, grid.high, "none", "grid", **about)
                elif value is None:
                    yield Rect(left, top, grid.wide, grid.high, "surface", "grid", hatch="unused", **about)
                else:
                    yield Rect(left, top, grid.wide, grid.high, f"heat{_band(value, low, high)}", "background", opacity=0.4, **about)
                    word = show(value, m.unit)
                    if text_width(word, 10) + 6 < grid.wide and grid.high >= 26:
                        yield Text(left + grid.wide / 2, top + grid.high - 6, f"~{word}", 10, "text", "middle", key=about["key"])

    def _regions(self, grid: _Grid) -> Iterator[AnyMark]:
        """The name of each limit once in every region that it forbids, and the region's outline."""
        m = self.map
        for name, cells in _regions(m):
            for i, j in cells:
                x, y = grid.corner(i, j)
                w, h = grid.wide, grid.high
                for (di, dj), line in (
                    ((-1, 0), ((x, y), (x, y + h))), ((1, 0), ((x + w, y), (x + w, y + h))),
                    ((0, 1), ((x, y), (x + w, y))), ((0, -1), ((x, y + h), (x + w, y + h))),
                ):  # fmt: skip
                    if (i + di, j + dj) not in cells:
                        yield Path(line, "warning", 1.4)
            row = max({j for _, j in cells}, key=lambda j: (sum(b == j for _, b in cells), j))
            across = sorted(i for i, j in cells if j == row)
            left, top = grid.corner(across[0], row)
            room, middle = grid.wide * len(across) - 8, left + grid.wide * len(across) / 2
            lines = [name] if text_width(name, 11, is_bold=True) <= room or grid.high < 34 else _halves(name)
            for n, half in enumerate(lines):
                word = cut_to(half, room, 11, is_bold=True)
                wide, y = text_width(word, 11, is_bold=True), top + grid.high / 2 + 4 + 14 * (n - (len(lines) - 1) / 2)
                yield Rect(middle - wide / 2 - 3, y - 12, wide + 6, 16, "surface", radius=3)
                yield Text(middle, y, word, 11, "warning", "middle", is_bold=True)

    def _contours(self, grid: _Grid) -> Iterator[AnyMark]:
        """Dashed lines of equal value; each level is written once, where there is room."""
        m = self.map
        values = [v for row in m.grid for v in row if v is not None]
        words = Labels((grid.left, TOP, grid.right, grid.bottom))
        for p in m.positions:
            x, y = grid.middle(m.x.values.index(p.x), m.y.values.index(p.y))
            words.taken.append((x - 30, y + grid.high / 2 - 17, x + 30, y + grid.high / 2))  # the cell's own number
        for t in m.trials:
            x, y = grid.middle(m.x.values.index(t.x), m.y.values.index(t.y))
            words.taken.append((x - 8, y - grid.high / 2, x + grid.wide / 2, y - 2))
        for level in levels_between(min(values, default=0.0), max(values, default=0.0), 4):
            runs = sorted(contour(m.grid, level), key=len, reverse=True)
            for n, line in enumerate(runs):
                points = tuple(grid.middle(i, j) for i, j in line)
                if sum(math.dist(a, b) for a, b in pairwise(points)) < 8:
                    continue  # a corner that hardly differs from the level
                yield Path(points, "text", 1.1, dash=(5, 3), opacity=0.8)
                word = Text(0, 0, f"~{show(level, m.unit, 2)}", 9, "text", "middle")
                if n == 0:
                    any(
                        words.place(word, at, [(0, 3), (0, -9), (0, 15), (24, 3), (-24, 3)], must=False)
                        for at in [*points[len(points) // 2 :], *points[: len(points) // 2]]
                    )
        yield from words.marks

    def _dots(self, grid: _Grid) -> Iterator[AnyMark]:
        m = self.map
        latest: dict[tuple[Any, Any], Trial] = {(t.x, t.y): t for t in m.trials}
        for (x, y), t in latest.items():
            at, top = grid.middle(m.x.values.index(x), m.y.values.index(y))[0], grid.corner(0, m.y.values.index(y))[1] + min(12.0, grid.high * 0.3)
            tip = self._about(x, y, m.at(x, y))
            if t.seconds is None:
                yield Text(at, top + 5, "×", 15, "warning", "middle", is_bold=True, tip=tip)
                continue
            is_best = t is m.best_measured
            yield Dot(at, top, 6.0 if is_best else 4.5, "diamond" if is_best else "circle", "good" if is_best else "text", tip=tip)
            if grid.wide > 66:
                yield Text(at + 9, top + 4, show(t.seconds, "s"), 9.5, "good" if is_best else "text", is_bold=is_best)
        if (best := m.best) is not None:
            x, y = grid.corner(m.x.values.index(best.x), m.y.values.index(best.y))
            yield Dot(
                x + 10,
                y + min(12.0, grid.high * 0.3),
                5.0,
                "diamond",
                "accent",
                is_hollow=True,
                tip=f"best predicted\n{self._about(best.x, best.y, best)}",
            )

    def _legend(self, y: float, with_current: bool) -> Iterator[AnyMark]:
        x = 8.0
        parts: list[tuple[str, AnyMark]] = [("best predicted", Dot(7, -4, 5, "diamond", "accent", is_hollow=True))]
        if self.map.trials:
            parts += [("measured", Dot(7, -4, 4.5)), ("fastest measured", Dot(7, -4, 6, "diamond", "good"))]
        if self.map.limits:
            parts.append(("forbidden", Rect(0, -10, 16, 12, "surface", "warning", hatch="unused")))
        if with_current and self._is_on_map:
            parts.append(("current", Rect(0, -10, 16, 12, "none", "selected", 2, 3)))
        for word, mark in parts:
            if isinstance(mark, Dot):
                yield Dot(x + mark.x, y + mark.y, mark.radius, mark.shape, mark.colour, mark.is_hollow)
            elif isinstance(mark, Rect):
                yield Rect(x, y + mark.y, mark.width, mark.height, mark.fill, mark.stroke, mark.stroke_width, mark.radius, mark.hatch)
            yield Text(x + 22, y, word, 10.5, "faint")
            x += 38 + text_width(word, 10.5)


_LETTERS = "ABCDEF"


class _Grid:
    """Where cells stand on the page; the first value of y at the bottom, as on any chart."""

    def __init__(self, m: FeasibilityMap) -> None:
        self.map = m
        self.wide = max(26.0, min(96.0, 640.0 / max(len(m.x.values), 1)))
        self.high = max(18.0, min(46.0, 400.0 / max(len(m.y.values), 1)))
        self.left = 40.0 + max((text_width(str(v), 11) for v in m.y.values), default=10.0)
        self.right = self.left + self.wide * len(m.x.values)
        self.bottom = TOP + self.high * len(m.y.values)

    def corner(self, i: int, j: int) -> tuple[float, float]:
        return self.left + i * self.wide, self.bottom - (j + 1) * self.high

    def middle(self, i: float, j: float) -> tuple[float, float]:
        return self.left + (i + 0.5) * self.wide, self.bottom - (j + 0.5) * self.high

    def axes(self) -> Iterator[AnyMark]:
        for i, x in enumerate(self.map.x.values):
            yield Text(self.middle(i, 0)[0], self.bottom + 16, cut_to(str(x), self.wide, 11), 11, anchor="middle")
        for j, y in enumerate(self.map.y.values):
            yield Text(self.left - 8, self.middle(0, j)[1] + 4, str(y), 11, anchor="end")
        yield Text((self.left + self.right) / 2, self.bottom + 34, self.map.x.name, 12, "text", "middle", is_bold=True)
        yield Text(16, (TOP + self.bottom) / 2, self.map.y.name, 12, "text", "middle", is_bold=True, angle=-90)


def _halves(name: str) -> list[str]:
    """A name on two lines, broken at the space nearest its middle."""
    spaces = [i for i, c in enumerate(name) if c == " "]
    if not spaces:
        return [name]
    at = min(spaces, key=lambda i: abs(i - len(name) / 2))
    return [name[:at], name[at + 1 :]]


def _band(value: float, low: float, high: float) -> int:
    """The colour band of a value, evenly in its logarithm where that exists."""
    if not high > low:
        return 0
    share = math.log(value / low) / math.log(high / low) if low > 0 else (value - low) / (high - low)
    return min(BANDS - 1, int(share * BANDS))


def _regions(m: FeasibilityMap) -> list[tuple[str, set[tuple[int, int]]]]:
    """Connected forbidden cells of one limit each, as (limit, cells)."""
    left = {
        (m.x.values.index(p.x), m.y.values.index(p.y)): p.limit.name
        for p in m.positions
        if p.limit is not None and p.x in m.x.values and p.y in m.y.values
    }
    out = []
    while left:
        start, name = next(iter(left.items()))
        cells, queue = set(), [start]
        while queue:
            i, j = queue.pop()
            if left.get((i, j)) != name:
                continue
            del left[i, j]
            cells.add((i, j))
            queue += [(i - 1, j), (i + 1, j), (i, j - 1), (i, j + 1)]
        out.append((name, cells))
    return out
