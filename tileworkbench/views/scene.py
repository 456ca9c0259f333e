"""A picture as a value: a list of marks that SVG, PNG, matplotlib and the browser all draw alike.

A view makes one `Scene`; nobody draws by hand. Colours are names of `theme.py`. Coordinates are pixels, y down, at 96 pixels an inch.
A mark may carry a `key`, what it stands for: the browser lights all marks of one key, opens the view's details for it, and tells other views.
`tip` is what a pointer or the keyboard reads there; a mark with a key and a tip can be reached by keyboard.

>>> s = Scene(120, 40, (Rect(4, 4, 60, 20, fill="L2", key="L2", tip="L2: 4 MB"), Text(8, 18, "L2")), title="one box")
>>> "<rect" in s.svg() and 'data-key="L2"' in s.svg()
True
"""

from __future__ import annotations

import base64
import zlib
from dataclasses import dataclass
from typing import Any
from xml.sax.saxutils import escape, quoteattr

from .theme import PAGES, Palette

Points = tuple[tuple[float, float], ...]
SANS = "system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif"
MONO = "ui-monospace, Menlo, Consolas, 'DejaVu Sans Mono', monospace"


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
_KINDS: dict[type[Mark], str] = {Rect: "rect", Path: "path", Dot: "dot", Text: "text", Cells: "cells"}


@dataclass(frozen=True, slots=True)
class Scene:
    """Marks on a page of `width` x `height`. `title` names the picture, `text` says it in words: its text twin."""

    width: float
    height: float
    marks: tuple[AnyMark, ...]
    title: str = ""
    text: str = ""

    def svg(self, theme: str = "light") -> str:
        """The picture as one SVG document, with letters that can be searched and read aloud."""
        page = PAGES[theme]
        hatches = sorted({m.hatch for m in self.marks if isinstance(m, Rect) and m.hatch})
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{_n(self.width)}" height="{_n(self.height)}" '
            f'viewBox="0 0 {_n(self.width)} {_n(self.height)}" role="img" aria-label={quoteattr(self.title)}>'
        )
        parts = [head, f"<title>{escape(self.title)}</title>", f"<desc>{escape(self.text)}</desc>"]
        parts += [_hatch(name, page) for name in hatches]
        parts.append(f'<rect width="100%" height="100%" fill="{page["background"]}"/>')
        parts += [_svg(mark, page) for mark in self.marks]
        return "\n".join([*parts, "</svg>"])

    def to_json(self) -> dict[str, Any]:
        """The picture for the browser: each mark a list of its kind and its fields that differ from their defaults."""
        return {"width": self.width, "height": self.height, "title": self.title, "marks": [mark_json(m) for m in self.marks]}


def mark_json(mark: AnyMark) -> dict[str, Any]:
    """One mark as plain data: `kind`, and every field that differs from its default. Cells are packed with zlib and base64."""
    out: dict[str, Any] = {"kind": _KINDS[type(mark)]}
    for name, spec in mark.__dataclass_fields__.items():
        value = getattr(mark, name)
        if value == spec.default:
            continue
        out[name] = base64.b64encode(zlib.compress(value, 6)).decode("ascii") if isinstance(value, bytes) else _short(value)
    return out


def _short(value: Any) -> Any:
    if isinstance(value, float):
        return round(value, 2)
    if isinstance(value, tuple):
        return [_short(v) for v in value]
    return value


def _n(value: float) -> str:
    """A coordinate without needless digits."""
    return f"{value:.2f}".rstrip("0").rstrip(".")


def _hatch(name: str, page: Palette) -> str:
    """A pattern of stripes. Its id holds the colour, so that two pictures in one page may share it."""
    line = f'<path d="M0 6 L6 0" stroke="{page[name]}" stroke-width="1.2"/>'
    return f'<defs><pattern id="hatch-{name}-{page.name}" width="6" height="6" patternUnits="userSpaceOnUse">{line}</pattern></defs>'


def _svg(mark: AnyMark, page: Palette) -> str:
    about = f" data-key={quoteattr(mark.key)}" if mark.key else ""
    about += f' opacity="{_n(mark.opacity)}"' if mark.opacity != 1 else ""
    tip = f"<title>{escape(mark.tip)}</title>" if mark.tip else ""
    match mark:
        case Rect():
            box = f'x="{_n(mark.x)}" y="{_n(mark.y)}" width="{_n(mark.width)}" height="{_n(mark.height)}"'
            box += f' rx="{_n(mark.radius)}"' if mark.radius else ""
            line = f' stroke="{page[mark.stroke]}" stroke-width="{_n(mark.stroke_width)}"' if mark.stroke != "none" else ""
            out = f'<rect {box} fill="{page[mark.fill]}"{line}{about}>{tip}</rect>'
            return out + (f'<rect {box} fill="url(#hatch-{mark.hatch}-{page.name})"{about}>{tip}</rect>' if mark.hatch else "")
        case Path():
            return _outline(mark.points, page, mark, about, tip)
        case Dot():
            fill = page["background"] if mark.is_hollow else page[mark.colour]
            style = f'fill="{fill}" stroke="{page[mark.colour]}" stroke-width="1.8"'
            if mark.shape == "circle":
                return f'<circle cx="{_n(mark.x)}" cy="{_n(mark.y)}" r="{_n(mark.radius)}" {style}{about}>{tip}</circle>'
            corners = " ".join(f"{_n(x)},{_n(y)}" for x, y in corners_of(mark))
            return f'<polygon points="{corners}" {style}{about}>{tip}</polygon>'
        case Text():
            turn = f' transform="rotate({_n(mark.angle)} {_n(mark.x)} {_n(mark.y)})"' if mark.angle else ""
            font = f'font-family="{MONO if mark.is_mono else SANS}" font-size="{_n(mark.size)}"' + (' font-weight="600"' if mark.is_bold else "")
            place = f'x="{_n(mark.x)}" y="{_n(mark.y)}" text-anchor="{mark.anchor}" xml:space="preserve"'
            return f'<text {place} {font} fill="{page[mark.colour]}"{turn}{about}>{tip}{escape(mark.text)}</text>'
        case Cells():
            return _cells(mark, page, about, tip)


def _outline(points: Points, page: Palette, mark: Path, about: str, tip: str) -> str:
    where = " ".join(f"{_n(x)},{_n(y)}" for x, y in points)
    dash = f' stroke-dasharray="{" ".join(_n(d) for d in mark.dash)}"' if mark.dash else ""
    style = f'fill="{page[mark.fill]}" stroke="{page[mark.stroke]}" stroke-width="{_n(mark.width)}" stroke-linecap="round" stroke-linejoin="round"'
    return (
        f'<{"polygon" if mark.is_closed else "polyline"} points="{where}" {style}{dash}{about}>{tip}</{"polygon" if mark.is_closed else "polyline"}>'
    )


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


def _cells(mark: Cells, page: Palette, about: str, tip: str) -> str:
    """One rectangle for each run of equal cells in a row; words where a cell is 12 pixels high or more."""
    high, wide = mark.height / mark.rows, mark.width / mark.columns
    out = [f'<g shape-rendering="crispEdges"{about}>{tip}']
    for row in range(mark.rows):
        line, start = mark.index[row * mark.columns : (row + 1) * mark.columns], 0
        for column in range(1, mark.columns + 1):
            if column == mark.columns or line[column] != line[start]:
                place = f'x="{_n(mark.x + start * wide)}" y="{_n(mark.y + row * high)}" width="{_n((column - start) * wide)}" height="{_n(high)}"'
                out.append(f'<rect {place} fill="{page[mark.palette[line[start]]]}"/>')
                start = column
    if mark.words and high >= 12:
        size = min(high * 0.6, 11.0)
        font = f'font-family="{MONO}" font-size="{_n(size)}" text-anchor="middle" fill="{page["text"]}"'
        for i, word in enumerate(mark.words):
            x, y = mark.x + (i % mark.columns + 0.5) * wide, mark.y + (i // mark.columns + 0.5) * high + size * 0.35
            out.append(f'<text x="{_n(x)}" y="{_n(y)}" {font}>{escape(word)}</text>')
    return "".join([*out, "</g>"])
