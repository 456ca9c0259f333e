"""A run of the interpreter, step by step: which tile operation ran, and what it did to the tiles that one watches.

A `Stepping` is a value made from a trace: a table of steps, and a picture of how the watched values move. Both hold the same numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..interpret.trace import TileStep
from ..ir.stmt import ParallelFor
from .scene import AnyMark, Dot, Path, Rect, Scene, Text
from .theme import SERIES
from .view import View, escape, picture, table, text_table

WIDTH, LEFT, ROW = 680.0, 92.0, 150.0
SHAPES = ("circle", "square", "triangle", "diamond")


@dataclass(frozen=True, slots=True)
class Step:
    """One tile operation. `values` holds the watched buffers' values after it, None before the first write; `changed` names those that it wrote."""

    number: int
    kind: str
    loops: tuple[tuple[str, int], ...]
    line: str
    values: tuple[float | None, ...]
    changed: frozenset[str]


@dataclass(frozen=True, slots=True)
class Stepping(View):
    """The steps of one block that concern `watched` buffers, each seen at the element `at` (trailing dims beyond it at 0)."""

    watched: tuple[str, ...]
    at: tuple[int, ...]
    steps: tuple[Step, ...]

    def first(self, limit: int) -> Stepping:
        """At most the first `limit` steps."""
        return replace(self, steps=self.steps[:limit])

    @property
    def data(self) -> list[dict[str, Any]]:
        """One dict for each step."""
        return [
            {
                "step": s.number,
                "kind": s.kind,
                "loops": dict(s.loops),
                "line": s.line,
                "changed": sorted(s.changed),
                **dict(zip(self.watched, s.values, strict=True)),
            }
            for s in self.steps
        ]

    def __str__(self) -> str:
        """The table as text, one line for each step; `*` marks a value that the step changed."""
        rows = []
        for step in self.steps:
            shown = [f"{_number(v)}{'*' if name in step.changed else ' '}" for name, v in zip(self.watched, step.values, strict=True)]
            rows.append([step.kind, _loops(step), step.line, str(step.number), *shown])
        return text_table(["operation", "loop", "line", "step", *self.watched], rows, left=3)

    def html(self) -> str:
        """The curves, then the table; changed values are bold and marked with `*`."""
        rows = []
        for step in self.steps:
            shown = [f"<b>{_number(v)}*</b>" if name in step.changed else _number(v) for name, v in zip(self.watched, step.values, strict=True)]
            rows.append([escape(step.kind), escape(_loops(step)), f"<code>{escape(step.line)}</code>", str(step.number), *shown])
        curves = f'<div style="max-width: 700px">{picture(self.scene(), alt="The same values as curves over the steps.")}</div>'
        return curves + table(["operation", "loop", "line", "step", *map(escape, self.watched)], rows, left=3)

    def scene(self) -> Scene:
        """One curve for each watched value over the steps; a mark where a step changed it."""
        marks: list[AnyMark] = []
        for row, name in enumerate(self.watched):
            marks += self._curve(row, name, 12.0 + ROW * row)
        bottom = 12.0 + ROW * len(self.watched)
        marks.append(Text((LEFT + WIDTH) / 2, bottom + 24, "step (a mark: the step wrote the value)", 11, anchor="middle"))
        return Scene(WIDTH, bottom + 34, tuple(marks), self.title, str(self))

    @property
    def title(self) -> str:  # type: ignore[override]  # a constant in the base
        return f"{', '.join(self.watched)} over {len(self.steps)} steps"

    def _curve(self, row: int, name: str, top: float) -> list[AnyMark]:
        """A small plot of one value: `top` is its upper edge."""
        bottom, right = top + ROW - 26, WIDTH - 16
        seen = [(s.number, v) for s in self.steps for v in s.values[row : row + 1] if v is not None and math.isfinite(v)]
        low, high = min((v for _, v in seen), default=0.0), max((v for _, v in seen), default=1.0)
        first, last = self.steps[0].number if self.steps else 0, self.steps[-1].number if self.steps else 1
        x: Callable[[float], float] = lambda step: LEFT + 8 + (right - LEFT - 16) * (step - first) / max(last - first, 1)
        y: Callable[[float], float] = lambda value: bottom - 8 - (bottom - top - 16) * ((value - low) / (high - low) if high > low else 0.5)
        colour, shape = f"s{row % SERIES}", SHAPES[row % len(SHAPES)]
        marks: list[AnyMark] = [Rect(LEFT, top, right - LEFT, bottom - top, stroke="grid")]
        marks += [Text(LEFT - 6, y(v) + 4, _number(v), 10, "faint", "end") for v in dict.fromkeys((low, high)) if seen]
        marks.append(Text(18, (top + bottom) / 2, f"{name}[{', '.join(map(str, self.at))}]", 11.5, anchor="middle", is_bold=True, angle=-90))
        line: list[tuple[float, float]] = []
        for step, level in seen:
            line += [(x(step), line[-1][1]), (x(step), y(level))] if line else [(x(step), y(level))]
        if line:
            marks.append(Path((*line, (right - 8, line[-1][1])), colour, 1.6))
        for s in self.steps:
            value = s.values[row]
            if name in s.changed and value is not None and math.isfinite(value):
                tip = f"Step {s.number}, {s.kind} {_loops(s)}: {name} becomes {_number(value)}.\n{s.line}"
                marks.append(Dot(x(s.number), y(value), 3.2, shape, colour, key=f"step:{s.number}", tip=tip))
        if row == len(self.watched) - 1:
            marks += [Text(x(step), bottom + 14, str(step), 10, "faint", "middle") for step in dict.fromkeys((first, last))]
        return marks


def stepping(trace: Iterable[TileStep], watch: Sequence[str], at: tuple[int, ...] = (0,)) -> Stepping:
    """The steps of `trace` from the first one that writes a buffer of `watch`, with those buffers' values at the element `at`.

    The trace must hold values (`TraceOptions(values=True)`) of one block. Raises: ValueError if no step writes one of the buffers.
    """
    watched = tuple(watch)
    now: dict[str, float | None] = dict.fromkeys(watched)
    written: set[str] = set()
    steps: list[Step] = []
    for number, step in enumerate(trace):
        changed = set()
        for operand in step.writes:
            name = operand.buffer.name
            if name in now and operand.after is not None:
                place = tuple(i - start for i, start in zip(at, operand.starts or (0,) * len(at), strict=False))
                place += (0,) * (operand.after.ndim - len(place))
                if all(0 <= i < n for i, n in zip(place, operand.after.shape, strict=False)):
                    now[name] = float(operand.after[place[: operand.after.ndim]])
                    changed.add(name)
        written |= changed
        if written:
            line = _line(step)
            steps.append(Step(number, step.kind, step.loops, line, tuple(now[n] for n in watched), frozenset(changed)))
    if missing := [name for name in watched if name not in written]:
        raise ValueError(
            f"no step writes {', '.join(missing)}; the buffers are {', '.join(sorted({o.buffer.name for s in trace for o in s.writes}))}"
        )
    return Stepping(watched, at, tuple(steps))


def _line(step: TileStep) -> str:
    """The author's line; of a parallel loop its first statement, which says more than the loop."""
    span = next((s.span for s in step.stmt.body if s.span), step.span) if isinstance(step.stmt, ParallelFor) else step.span
    return span.source_line().strip() if span else ""


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.5g}"


def _loops(step: Step) -> str:
    return " ".join(f"{name}={value}" for name, value in step.loops)
