"""Bytes by loop step: for each level a row of bars, one for each iteration of the tile loop, and a line of what has moved so far.

Bars show what a step moves, the line what all steps up to it have moved, as a share of the level's total; the two have scales of their own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..model.steps import LoopSteps
from ..model.values import show
from .labels import heading
from .marks import AnyMark, Path, Rect, Text
from .scene import Scene
from .view import View, text_table
from .widths import cut_to

WIDTH, LEFT, RIGHT, ROW = 640.0, 66.0, 84.0, 74.0
MOST_BARS = 96  # of a row; more steps than this are drawn in groups


@dataclass(frozen=True, slots=True)
class Group:
    """Steps that share a bar: their name, and bytes by level of these steps and of all up to here."""

    name: str
    bytes: dict[str, float]
    so_far: dict[str, float]


@dataclass(frozen=True, slots=True)
class StepChart(View):
    """The steps of a launch, or of one of its blocks."""

    steps: LoopSteps

    @property
    def title(self) -> str:  # type: ignore[override]  # a constant in the base
        count = self.steps.blocks
        whose = f"block {self.steps.block}" if self.steps.block is not None else f"all {count} blocks" if count != 1 else "the one block"
        return f"{self.steps.kernel}: bytes by loop step, {whose}"

    @property
    def groups(self) -> tuple[Group, ...]:
        """One for each bar."""
        s = self.steps
        so_far = {level: s.so_far(level) for level in s.level_names}
        every = max(1, -(-len(s.steps) // MOST_BARS))
        out = []
        for start in range(0, len(s.steps), every):
            part = s.steps[start : start + every]
            last = start + len(part) - 1
            name = part[0].name if len(part) == 1 else f"{part[0].name} to {part[-1].name}"
            sums = {level: sum(x.levels[level] for x in part) for level in s.level_names}
            out.append(Group(name, sums, {level: so_far[level][last] for level in s.level_names}))
        return tuple(out)

    @property
    def data(self) -> list[dict[str, Any]]:
        """One record for each step."""
        return [
            {"step": x.name, "loops": dict(x.loops), "flops": x.flops, "asked": dict(x.asked), "bytes": dict(x.levels)} for x in self.steps.steps
        ]  # fmt: skip

    def __str__(self) -> str:
        names = self.steps.level_names
        rows = [[g.name, *(show(g.bytes[n], "B") for n in names), *(show(g.so_far[n], "B") for n in names)] for g in self.groups]
        return f"{self.title}\n{text_table(['step', *names, *(f'{n} so far' for n in names)], rows)}"

    def scene(self) -> Scene:
        note = "every n-th block was followed and stands for its neighbours" if self.steps.sampled else "bars: this step; line: so far"
        marks, top = heading(self.title, note, WIDTH)
        groups, names = self.groups, self.steps.level_names
        for row, level in enumerate(names):
            marks += _row(level, groups, top + 10 + ROW * row, self.steps.total(level))
        bottom = top + 10 + ROW * len(names)
        ends = [groups[0], groups[-1]] if len(groups) > 1 else list(groups)
        room = (WIDTH - LEFT - RIGHT) / 2 - 8
        for group, x, anchor in zip(ends, (LEFT, WIDTH - RIGHT), ("start", "end"), strict=False):
            marks.append(Text(x, bottom + 2, cut_to(group.name, room, 10), 10, "faint", anchor))
        return Scene(WIDTH, bottom + 12, tuple(marks), self.title, str(self))

    def live(self) -> dict[str, Any]:
        names = self.steps.level_names
        details = {}
        for i, group in enumerate(self.groups):
            rows = [[n, show(group.bytes[n], "B"), show(group.so_far[n], "B")] for n in names]
            details[f"step:{i}"] = {"caption": group.name, "head": ["level", "this step", "so far"], "rows": rows, "left": 1}
        return {**super(StepChart, self).live(), "tab": "loop steps", "details": details}


def _row(level: str, groups: tuple[Group, ...], y: float, total: float) -> list[AnyMark]:
    """The bars of one level above their base line, and the line of what has moved so far."""
    tall, base, wide = ROW - 18, y + ROW - 14, WIDTH - LEFT - RIGHT
    most = max((g.bytes[level] for g in groups), default=0.0) or 1.0
    step = wide / max(len(groups), 1)
    marks: list[AnyMark] = [
        Text(LEFT - 10, base - tall / 2 + 4, level, 12.5, level, "end", is_bold=True),
        Path(((LEFT, base), (LEFT + wide, base)), "grid"),
        Text(LEFT + wide + 8, base - tall + 12, show(total, "B"), 10.5),
        Text(LEFT + wide + 8, base - tall + 26, "in all", 9.5, "faint"),
    ]
    line: list[tuple[float, float]] = [(LEFT, base)]
    for i, group in enumerate(groups):
        high = (tall - 4) * group.bytes[level] / most
        said = f"{group.name}: {level} moves {show(group.bytes[level], 'B')}; {show(group.so_far[level], 'B')} so far."
        about: dict[str, Any] = {"key": f"step:{i}", "tip": said}
        gap = min(1.5, step * 0.15)
        marks.append(Rect(LEFT + i * step + gap, base - max(high, 0.8), max(step - 2 * gap, 0.8), max(high, 0.8), fill=level, opacity=0.8, **about))
        line.append((LEFT + (i + 1) * step, base - (tall - 4) * (group.so_far[level] / total if total else 0.0)))
    if total:
        marks.append(Path(tuple(line), "text", 1.4))
    return marks
