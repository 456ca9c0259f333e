"""What a picture is made of: boxes, lines, dots, words and grids of cells.

Colours are names of `theme.py`. Coordinates are pixels, y down, at 96 pixels an inch. A mark may carry a `key`, what it stands for: the browser
lights all marks of one key, opens the view's details for it, and tells other views. `tip` is what a pointer or the keyboard reads there; a mark
with a key and a tip can be reached by keyboard. Words lie above all other marks in a PNG, whatever their order.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from .theme import Palette

Points = tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """What all marks share. `group` names a set that the browser can hide or move together, such as "ghost"."""

    key: str = ""
    tip: str = ""
    group: str = ""
    opacity: float = 1.0


@dataclass(frozen=True, slots=True)
class Rect(Mark):
    """A box. `hatch` draws stripes in that colour over the fill, so that a state does not hang on colour alone."""

    x: float
    y: float
    width: float
    height: float
    fill: str = "none"
    stroke: str = "none"
    stroke_width: float = 1.0
    radius: float = 0.0
    hatch: str = ""


@dataclass(frozen=True, slots=True)
class Path(Mark):
    """A line through points, or a polygon where it `is_closed`. `dash` lists lengths of strokes and gaps."""

    points: Points
    stroke: str = "text"
    width: float = 1.0
    fill: str = "none"
    dash: tuple[float, ...] = ()
    is_closed: bool = False


@dataclass(frozen=True, slots=True)
class Dot(Mark):
    """A marker: shape "circle", "square", "triangle" or "diamond". Hollow means predicted, filled means measured."""

    x: float
    y: float
    radius: float = 4.0
    shape: str = "circle"
    colour: str = "text"
    is_hollow: bool = False


@dataclass(frozen=True, slots=True)
class Text(Mark):
    """Words. `anchor` is "start", "middle" or "end"; y is the baseline; `angle` in degrees, clockwise."""

    x: float
    y: float
    text: str
    size: float = 11.0
    colour: str = "text"
    anchor: str = "start"
    is_bold: bool = False
    is_mono: bool = False
    angle: float = 0.0


@dataclass(frozen=True, slots=True)
class Cells(Mark):
    """A grid of coloured cells, drawn as one image: `index` holds rows x columns numbers (one byte each) into `palette`.

    Up to 65536 cells cost a few KB. `words` (row-major, empty or one for each cell) are written where cells are large enough.
    """

    x: float
    y: float
    width: float
    height: float
    rows: int
    columns: int
    palette: tuple[str, ...]
    index: bytes
    words: tuple[str, ...] = ()


AnyMark = Rect | Path | Dot | Text | Cells


def corners_of(dot: Dot) -> Points:
    """The corners of a square, triangle or diamond of about the area of a circle of that radius."""
    x, y, r = dot.x, dot.y, dot.radius
    match dot.shape:
        case "square":
            s = 0.89 * r
            return ((x - s, y - s), (x + s, y - s), (x + s, y + s), (x - s, y + s))
        case "triangle":
            return ((x, y - 1.25 * r), (x + 1.15 * r, y + 0.8 * r), (x - 1.15 * r, y + 0.8 * r))
        case _:
            s = 1.25 * r
            return ((x, y - s), (x + s, y), (x, y + s), (x - s, y))


def dashes(points: Points, lengths: tuple[float, ...], *, is_closed: bool = False) -> Iterator[Points]:
    """The strokes of a dashed line through `points`: `lengths` are strokes and gaps in turn. Without lengths, the line itself.

    >>> [tuple(round(x) for x, _ in stroke) for stroke in dashes(((0, 0), (10, 0)), (4, 2))]
    [(0, 4), (6, 10)]
    """
    corners = (*points, points[0]) if is_closed and points else points
    if not lengths:
        yield corners
        return
    stroke, left, turn = [corners[0]], lengths[0], 0
    for (xa, ya), (xb, yb) in zip(corners, corners[1:], strict=False):
        length = ((xb - xa) ** 2 + (yb - ya) ** 2) ** 0.5
        done = 0.0
        while length - done > left:
            done += left
            at = (xa + (xb - xa) * done / length, ya + (yb - ya) * done / length)
            if turn % 2 == 0:
                yield (*stroke, at)
            stroke, turn = [at], turn + 1
            left = lengths[turn % len(lengths)]
        left -= length - done
        stroke.append((xb, yb))
    if turn % 2 == 0 and len(stroke) > 1:
        yield tuple(stroke)


def word_marks(marks: tuple[AnyMark, ...], page: Palette) -> Iterator[Text]:
    """Every piece of text, the words in cells among them."""
    for mark in marks:
        if isinstance(mark, Text):
            yield mark
        elif isinstance(mark, Cells):
            yield from words_of(mark, page)


def words_of(cells: Cells, page: Palette) -> Iterator[Text]:
    """The words in cells of 12 pixels and more, in the ink that stands out from each cell's colour."""
    high, wide = cells.height / cells.rows, cells.width / cells.columns
    if not cells.words or high < 12:
        return
    size = min(high * 0.6, 11.0)
    for i, word in enumerate(cells.words):
        x, y = cells.x + (i % cells.columns + 0.5) * wide, cells.y + (i // cells.columns + 0.5) * high + size * 0.35
        yield Text(x, y, word, size=size, colour=page.ink_on(cells.palette[cells.index[i]]), anchor="middle", is_mono=True)
