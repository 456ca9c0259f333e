"""What every view can do, and the look that all views share.

A view is a value. `print(view)` gives its text twin, `view.data` plain Python numbers, `.html()` a fragment with inline styles only (it survives
notebooks that are not trusted, and GitHub), `.svg()` and `.png()` a picture, `.save("x.svg")` a file by its suffix.
"""

from __future__ import annotations

import base64
import html
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .figure import save_figure
from .scene import Scene, Text
from .widths import text_width

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FONT = "var(--jp-ui-font-family, system-ui, sans-serif)"
MONO = "var(--jp-code-font-family, ui-monospace, Menlo, Consolas, monospace)"
RULE = "1px solid var(--jp-border-color2, rgba(128, 128, 128, 0.35))"
FADED = "opacity: 0.72"


class View:
    """Base of all views. A subclass gives `data`, `__str__`, and `scene` or `html` or both."""

    __slots__ = ()
    title: str = ""

    @property
    def data(self) -> Any:
        """The numbers that are shown: dicts, lists, strings and floats."""
        raise NotImplementedError

    def live(self) -> dict[str, Any]:
        """What the browser needs to draw the view and answer to a hand, as plain JSON data (see notebook/static/common.js).

        `module` names the file of notebook/static that draws it; `title` and `text` are its name and its text twin; `scene` the picture;
        `details` maps a mark's key to a table {"caption", "head", "rows", "left"} that opens when the mark is chosen; `frames`, where a view
        can be scrubbed, lists {"label", "scene", "text"}, and `frames_name` says what the frames are.
        """
        return {"module": "scene", "title": self.title, "text": str(self), "scene": self.scene().to_json(), "details": {}}

    def scene(self) -> Scene:
        """The picture as marks; by default the text twin, set in a fixed-width font."""
        lines = str(self).splitlines() or [""]
        width = max(text_width(line, 11, is_mono=True) for line in lines)
        words = tuple(Text(12, 20 + 15 * i, line, is_mono=True) for i, line in enumerate(lines))
        return Scene(width + 24, len(lines) * 15 + 16, words, title=self.title, text=str(self))

    def html(self) -> str:
        """A fragment of HTML with inline styles only. By default the picture, with the text twin as its description."""
        return f'<div style="max-width: 100%">{picture(self.scene(), alt=str(self))}</div>'

    def svg(self, theme: str = "light") -> str:
        """The picture as SVG text, with letters that can be searched and read aloud."""
        return self.scene().svg(theme)

    def png(self, theme: str = "light", scale: float = 1.5) -> bytes:
        """The picture as PNG bytes, `scale` pixels for each of the scene's."""
        return self.scene().png(theme, scale)

    def figure(self, theme: str = "light") -> Figure:
        """The picture as a matplotlib figure."""
        return self.scene().figure(theme)

    def save(self, path: str | Path, theme: str = "light") -> Path:
        """Write the view by the suffix of `path`: .svg, .png, .pdf, .html or .txt. Raises ValueError for another."""
        place = Path(path)
        match place.suffix:
            case ".svg":
                place.write_text(self.svg(theme), encoding="utf-8")
            case ".png":
                place.write_bytes(self.png(theme))
            case ".pdf":
                save_figure(self.figure(theme), place)
            case ".html":
                head = f'<!doctype html><meta charset="utf-8"><meta name="color-scheme" content="light dark"><title>{html.escape(self.title)}</title>'
                place.write_text(head + self.html(), encoding="utf-8")
            case ".txt":
                place.write_text(str(self) + "\n", encoding="utf-8")
            case suffix:
                raise ValueError(f"cannot save a view as {suffix or 'a file without a suffix'}; use .svg, .png, .pdf, .html or .txt")
        return place

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        """What a notebook shows: the fragment, and text where there is no HTML."""
        return {"text/plain": str(self), "text/html": self.html()}


def picture(scene: Scene, *, alt: str, scale: float = 1.25) -> str:
    """A scene as a <picture> that holds two PNGs: a light one with `scale` pixels for each of the scene's, and a dark one (so that a notebook stays
    small) with at most as many as the scene has.

    A notebook that is not trusted drops the <picture> around them and keeps the light one; so do old viewers.
    """
    style = f"width: {scene.width:.0f}px; max-width: 100%; height: auto; display: block"
    sizes = (("light", scale), ("dark", min(scale, 1.0)))
    light, dark = (f"data:image/png;base64,{base64.b64encode(scene.png(theme, size)).decode('ascii')}" for theme, size in sizes)
    source = f'<source media="(prefers-color-scheme: dark)" srcset="{dark}">'
    return f'<picture>{source}<img alt="{html.escape(alt, quote=True)}" style="{style}" src="{light}"></picture>'


def escape(text: object) -> str:
    """Text for HTML."""
    return html.escape(str(text), quote=True)


def table(head: list[str], rows: list[list[str]], *, left: int = 1, caption: str = "") -> str:
    """An HTML table with inline styles: the first `left` columns are text, the rest numbers. Cells are HTML already."""
    cell = "padding: 2px 10px; border-bottom: 1px solid rgba(128, 128, 128, 0.3)"
    align = [f"; text-align: {'left' if i < left else 'right'}" for i in range(len(head))]
    whole = f"border-collapse: collapse; font-size: 13px; font-family: {FONT}; margin: 4px 0 8px 0; color: inherit; white-space: nowrap"
    out = [f'<table style="{whole}; font-variant-numeric: tabular-nums">']  # what cells inherit stands here once: tables are long
    if caption:
        out.append(f'<caption style="text-align: left; padding: 2px 10px; font-weight: 600; color: inherit">{caption}</caption>')
    heads = [f'<th scope="col" style="{cell}{a}">{h}</th>' for h, a in zip(head, align, strict=True)]
    out.append(f"<thead><tr>{''.join(heads)}</tr></thead><tbody>")
    for row in rows:
        cells = "".join(f'<td style="{cell}{a}">{c}</td>' for c, a in zip(row, align, strict=True))
        out.append(f'<tr style="background: transparent">{cells}</tr>')
    return "".join([*out, "</tbody></table>"])


def text_table(head: list[str], rows: list[list[str]], *, left: int = 1) -> str:
    """The same table in plain text, columns as wide as they need to be."""
    widths = [max(len(r[i]) for r in [head, *rows]) for i in range(len(head))]

    def line(cells: list[str]) -> str:
        return "  ".join(c.ljust(w) if i < left else c.rjust(w) for i, (c, w) in enumerate(zip(cells, widths, strict=True))).rstrip()

    return "\n".join([line(head), line(["-" * w for w in widths]), *(line(r) for r in rows)])
