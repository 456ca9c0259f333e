"""Draws panels of cells: grids with row and column numbers, outlines, captions and a legend."""

from __future__ import annotations

from collections.abc import Sequence

from .layout_parts import COLOURS, PALETTE, Mode, Panel, colours_of
from .scene import AnyMark, Cells, Rect, Text
from .widths import cut_to, text_width

_WIDE, _HIGH = 700.0, 520.0  # pixels that all panels may take
_LEFT, _TOP, _GAP = 34.0, 20.0, 26.0  # room for row numbers, column numbers, and between panels
_WORD_CELLS = 2048


def draw_panels(title: str, panels: Sequence[tuple[Panel, Mode]], facts: Sequence[str], mode: str) -> tuple[tuple[AnyMark, ...], float, float]:
    """The marks, and the width and height that they take."""
    columns = {c: max(len(p.shown[1]) for p, _ in panels if p.spot[1] == c) for c in sorted({p.spot[1] for p, _ in panels})}
    rows = {r: max(len(p.shown[0]) for p, _ in panels if p.spot[0] == r) for r in sorted({p.spot[0] for p, _ in panels})}
    wide = _cell(_WIDE - (_LEFT + _GAP) * len(columns), sum(columns.values()), 34)
    high = _cell(_HIGH - (_TOP + _GAP) * len(rows), sum(rows.values()), 24)
    if min(wide, high) < 12:
        wide, high = min(wide, 2 * high), min(high, 2 * wide)
    marks: list[AnyMark] = [Text(12, 22, title, size=14, is_bold=True)]
    y = 22.0
    for fact in facts:
        y += 16
        marks.append(Text(12, y, cut_to(fact, _WIDE, 11), size=11, colour="faint"))
    top = y + 10
    right = 0.0
    for r, count in rows.items():
        left, tallest = 12.0, 0.0
        for c, width in columns.items():
            for panel, own in panels:
                if panel.spot == (r, c):
                    marks += _panel(panel, own, left + _LEFT, top + _TOP + 16, wide, high)
                    tallest = max(tallest, _below(panel) + _TOP + 16 + count * high)
                    right = max(right, left + _LEFT + max(width * wide, text_width(panel.caption, 10.5)))
            left += _LEFT + max(width * wide, _least(panels, c)) + _GAP
        top += tallest + 8
    legend, legend_width = _legend(
        panels[0][1] if panels[0][1].name == mode else next((m for _, m in panels if m.name == mode), panels[0][1]), top + 8
    )
    marks += legend
    head = max([text_width(title, 14, is_bold=True), *(min(text_width(f, 11), _WIDE) for f in facts)], default=0.0)
    return tuple(marks), max(right, head + 12, legend_width) + 14, top + 44


def _cell(room: float, count: int, most: float) -> float:
    """The side of a cell: whole pixels where there is room for them, so that the grid is sharp."""
    side = room / count
    return min(float(int(side)), most) if side >= 1 else side


def _least(panels: Sequence[tuple[Panel, Mode]], column: int) -> float:
    """The width that titles and captions of a column of panels need."""
    mine = [p for p, _ in panels if p.spot[1] == column]
    return (
        max(max(text_width(p.title, 12, is_bold=True), text_width(p.caption, 10.5), text_width(p.sampling, 10.5)) for p in mine)
        if len(panels) > 1
        else 0
    )


def _below(panel: Panel) -> float:
    return 16.0 * bool(panel.caption) + 16.0 * bool(panel.sampling)


def _panel(panel: Panel, mode: Mode, x: float, y: float, wide: float, high: float) -> list[AnyMark]:
    numbers = mode.numbers(panel.values(mode.of))
    rows, columns = numbers.shape
    words: tuple[str, ...] = ()
    if numbers.size <= _WORD_CELLS and high >= 12 and wide >= 15:
        words = _words(panel, mode, wide)
    tip = f"{panel.title}: {rows} x {columns} cells, coloured by {mode.name}"
    out: list[AnyMark] = [Text(x, y - 18, panel.title, size=12, is_bold=True)]
    out.append(Cells(x, y, columns * wide, rows * high, rows, columns, PALETTE, colours_of(numbers), words, tip=tip))
    out += [Text(x + (c + 0.5) * wide, y - 4, str(c * panel.steps[1]), size=9, colour="faint", anchor="middle") for c in _ticks(columns, wide, 22)]
    out += [Text(x - 5, y + (r + 0.5) * high + 3, str(r * panel.steps[0]), size=9, colour="faint", anchor="end") for r in _ticks(rows, high, 11)]
    out.append(Rect(x, y, columns * wide, rows * high, stroke="faint", stroke_width=0.8))
    for r, c, count in _runs(panel):
        out.append(Rect(x + c * wide + 0.75, y + r * high + 0.75, count * wide - 1.5, high - 1.5, stroke="text", stroke_width=1.5))
    below = y + rows * high
    for line in (panel.caption, panel.sampling):
        if line:
            below += 15
            out.append(Text(x, below, line, size=10.5, colour="warning" if line == panel.sampling else "faint"))
    return out


def _runs(panel: Panel) -> list[tuple[int, int, int]]:
    """(row, first column, count) of neighbours among the lit cells that are shown: one outline each."""
    cells = sorted({(r // panel.steps[0], c // panel.steps[1]) for r, c in panel.lit})
    out: list[tuple[int, int, int]] = []
    for r, c in cells:
        if out and out[-1][0] == r and sum(out[-1][1:]) == c:
            out[-1] = (r, out[-1][1], out[-1][2] + 1)
        else:
            out.append((r, c, 1))
    return out


def _words(panel: Panel, mode: Mode, wide: float) -> tuple[str, ...]:
    """A number in each cell; where a register is known and there is room, "thread:register"."""
    numbers = mode.numbers(panel.values(mode.of)).ravel().tolist()
    if mode.of == "owner" and mode.div == 1 and panel.has("slot") and wide >= 28:
        slots = panel.values("slot").ravel().tolist()
        if max(len(str(n)) + len(str(s)) for n, s in zip(numbers, slots, strict=True)) <= 4:
            return tuple(f"{n}:{s}" if n >= 0 else "" for n, s in zip(numbers, slots, strict=True))
    return tuple(str(n) if n >= 0 else "" for n in numbers)


def _ticks(count: int, size: float, room: float) -> list[int]:
    """Which rows or columns get a number: all that fit, else every 2nd, 4th, 8th ..."""
    step = 1
    while step * size < room:
        step *= 2
    return list(range(0, count, step))


def _legend(mode: Mode, y: float) -> tuple[list[AnyMark], float]:
    count = min(mode.mod or COLOURS, COLOURS)
    box = 15.0
    cells = Cells(12, y, count * box, 12, 1, count, PALETTE, bytes(range(1, count + 1)))
    out: list[AnyMark] = [cells, *(Text(12 + (i + 0.5) * box, y + 22, str(i), size=8.5, colour="faint", anchor="middle") for i in range(0, count, 2))]
    repeats = "" if mode.mod and mode.mod <= COLOURS else f"colours repeat every {COLOURS}"
    x = 12 + count * box + 12
    words = [cut_to(line, _WIDE + 100 - x, 11) for line in (f"{mode.name}{': ' + mode.meaning if mode.meaning else ''}", repeats) if line]
    out += [Text(x, y + 10 + 14 * i, line, size=11, colour="faint" if i else "text") for i, line in enumerate(words)]
    return out, x + max(text_width(line, 11) for line in words)
