"""A run of the interpreter, step by step: which tile operation ran, and what it did to the tiles that one watches.

A `Stepping` is a value made from a trace: a table of steps, and a picture of how the watched values move. Both hold the same numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ..interpret.trace import TileStep
from ..ir.stmt import ParallelFor
from .view import MARKERS, Theme, View, escape, image, new_figure, table, text_table

if TYPE_CHECKING:
    from matplotlib.figure import Figure


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
        picture = f'<div style="max-width: 700px">{image(self.png(), alt="The same values as curves over the steps.")}</div>'
        return picture + table(["operation", "loop", "line", "step", *map(escape, self.watched)], rows, left=3)

    def _figure(self, theme: Theme) -> Figure:
        """One curve for each watched value over the steps; a mark where a step changed it."""
        figure = new_figure((7.4, 0.5 + 1.5 * len(self.watched)), theme)
        axes = figure.subplots(len(self.watched), 1, sharex=True, squeeze=False)[:, 0]
        colours = [*theme.levels.values()]
        for i, (name, axis) in enumerate(zip(self.watched, axes, strict=True)):
            colour, mark = colours[i % len(colours)], [*MARKERS.values()][i % len(MARKERS)]
            hit = [s for s in self.steps if name in s.changed]
            seen = [s for s in self.steps if s.values[i] is not None]
            axis.step([s.number for s in seen], [s.values[i] for s in seen], where="post", color=colour, linewidth=1.5)
            axis.plot([s.number for s in hit], [s.values[i] for s in hit], mark, color=colour, markersize=5)
            axis.set_ylabel(f"{name}[{', '.join(map(str, self.at))}]", color=theme.text)
            axis.set_facecolor(theme.background)
            axis.tick_params(colors=theme.faint)
            axis.grid(color=theme.grid)
        axes[-1].set_xlabel("step (a mark: the step wrote the value)", color=theme.text)
        figure.subplots_adjust(left=0.12, right=0.97, top=0.96, bottom=0.6 / figure.get_figheight(), hspace=0.15)
        return figure


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
