"""A picture as SVG: letters stay letters, so they can be searched and read aloud."""

from __future__ import annotations

from xml.sax.saxutils import escape, quoteattr

from .marks import AnyMark, Cells, Dot, Path, Points, Rect, Text, corners_of, words_of
from .theme import Palette

SANS = "system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif"
MONO = "ui-monospace, Menlo, Consolas, 'DejaVu Sans Mono', monospace"


def draw_svg(width: float, height: float, marks: tuple[AnyMark, ...], page: Palette, *, title: str = "", text: str = "") -> str:
    """One SVG document. `title` names it, `text` says in words what it shows."""
    hatches = sorted({m.hatch for m in marks if isinstance(m, Rect) and m.hatch})
    size = f'width="{_n(width)}" height="{_n(height)}" viewBox="0 0 {_n(width)} {_n(height)}"'
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-label={quoteattr(title)}>']
    parts += [f"<title>{escape(title)}</title>", f"<desc>{escape(text)}</desc>", *(_hatch(name, page) for name in hatches)]
    parts.append(f'<rect width="100%" height="100%" fill="{page["background"]}"/>')
    return "\n".join([*parts, *(_svg(mark, page) for mark in marks), "</svg>"])


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
    for word in words_of(mark, page):
        font = f'font-family="{MONO}" font-size="{_n(word.size)}" text-anchor="middle" fill="{page[word.colour]}"'
        out.append(f'<text x="{_n(word.x)}" y="{_n(word.y)}" {font}>{escape(word.text)}</text>')
    return "".join([*out, "</g>"])
