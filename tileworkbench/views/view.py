"""What every view can do, and the look that all views share.

A view is a value. `print(view)` gives its text twin, `view.data` plain Python numbers, `.html()` a fragment with inline styles only (it survives
notebooks that are not trusted, and GitHub), `.svg()` and `.png()` a picture, `.save("x.svg")` a file by its suffix.
"""

from __future__ import annotations

import base64
import html
import io
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .scene import Scene, Text

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FONT = "var(--jp-ui-font-family, system-ui, sans-serif)"
MONO = "var(--jp-code-font-family, ui-monospace, Menlo, Consolas, monospace)"
RULE = "1px solid var(--jp-border-color2, rgba(128, 128, 128, 0.35))"
FADED = "opacity: 0.72"


@dataclass(frozen=True, slots=True)
class Theme:
    """Colours of one picture. Series colours are Okabe-Ito's, shifted where they would not stand out from the background."""

    name: str
    background: str
    text: str
    faint: str
    grid: str
    levels: dict[str, str]
    warning: str


LIGHT = Theme(
    "light", "#ffffff", "#1f2328", "#6b7280", "#e5e7eb",
    {"L1": "#009e73", "L2": "#0072b2", "L3": "#b8860b", "DRAM": "#d55e00", "compute": "#1f2328"}, "#b42318",
)  # fmt: skip
DARK = Theme(
    "dark", "#111418", "#e6e8eb", "#9aa4b0", "#2a3038",
    {"L1": "#2dd4a7", "L2": "#56b4e9", "L3": "#f0c23c", "DRAM": "#ff8a3d", "compute": "#e6e8eb"}, "#ff7b72",
)  # fmt: skip
THEMES = {"light": LIGHT, "dark": DARK}
MARKERS = {"L1": "o", "L2": "s", "L3": "^", "DRAM": "D"}


class View:
    """Base of all views. A subclass gives `data`, `__str__`, and `_figure` or `html` or both."""

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
        size = max(len(line) for line in lines) * 6.7 + 24, len(lines) * 15 + 16
        words = tuple(Text(12, 20 + 15 * i, line, is_mono=True) for i, line in enumerate(lines))
        return Scene(*size, words, title=self.title, text=str(self))

    def html(self) -> str:
        """A fragment of HTML with inline styles only. By default the picture, with the text twin as its description."""
        return f'<div style="max-width: 100%">{image(self.png(), alt=str(self))}</div>'

    def svg(self, theme: str = "light") -> str:
        """The picture as SVG text, with letters that can be searched and read aloud."""
        from matplotlib import rc_context

        figure = self._figure(THEMES[theme])
        out = io.StringIO()
        with rc_context({"svg.fonttype": "none", "svg.hashsalt": "tileworkbench"}):
            figure.savefig(out, format="svg", metadata={"Date": None, "Creator": "tileworkbench"})
        return out.getvalue()

    def png(self, theme: str = "light", dpi: int = 110) -> bytes:
        """The picture as PNG bytes, with a palette of 64 colours: a third of the size, and no difference that the eye finds in lines and text."""
        from PIL import Image  # matplotlib brings it

        figure = self._figure(THEMES[theme])
        figure.set_dpi(dpi)
        canvas: Any = figure.canvas
        canvas.draw()
        out = io.BytesIO()
        Image.fromarray(np.asarray(canvas.buffer_rgba())).convert("RGB").quantize(64, dither=Image.Dither.NONE).save(out, format="png", optimize=True)
        return out.getvalue()

    def save(self, path: str | Path, theme: str = "light") -> Path:
        """Write the view by the suffix of `path`: .svg, .png, .html or .txt. Raises ValueError for another."""
        place = Path(path)
        match place.suffix:
            case ".svg":
                place.write_text(self.svg(theme), encoding="utf-8")
            case ".png":
                place.write_bytes(self.png(theme))
            case ".html":
                place.write_text(f'<!doctype html><meta charset="utf-8"><title>{html.escape(self.title)}</title>{self.html()}', encoding="utf-8")
            case ".txt":
                place.write_text(str(self) + "\n", encoding="utf-8")
            case suffix:
                raise ValueError(f"cannot save a view as {suffix or 'a file without a suffix'}; use .svg, .png, .html or .txt")
        return place

    def _figure(self, theme: Theme) -> Figure:
        """By default the text twin, set in a fixed-width font."""
        lines = str(self).splitlines() or [""]
        width = max(len(line) for line in lines)
        figure = new_figure((max(2.0, 0.0715 * width + 0.3), max(0.6, 0.156 * len(lines) + 0.2)), theme)
        x, y = 0.15 / figure.get_figwidth(), 1 - 0.1 / figure.get_figheight()
        figure.text(x, y, "\n".join(lines), family="monospace", size=8.5, va="top", color=theme.text)
        return figure

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        """What a notebook shows: the fragment, and text where there is no HTML."""
        return {"text/plain": str(self), "text/html": self.html()}


def new_figure(inches: tuple[float, float], theme: Theme) -> Figure:
    """An empty figure that belongs to no window and no pyplot state."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=inches, facecolor=theme.background)
    FigureCanvasAgg(figure)
    return figure


def image(png: bytes, *, alt: str, width: str = "100%") -> str:
    """An <img> that holds its own bytes; `alt` is what a screen reader says."""
    code = base64.b64encode(png).decode("ascii")
    return f'<img alt="{html.escape(alt, quote=True)}" style="max-width: {width}; height: auto" src="data:image/png;base64,{code}">'


def escape(text: object) -> str:
    """Text for HTML."""
    return html.escape(str(text), quote=True)


def table(head: list[str], rows: list[list[str]], *, left: int = 1, caption: str = "") -> str:
    """An HTML table with inline styles: the first `left` columns are text, the rest numbers. Cells are HTML already."""
    cell = f"padding: 2px 10px; border-bottom: {RULE}; white-space: nowrap; background: transparent; color: inherit"
    align = ["left"] * left + ["right"] * (len(head) - left)
    number = "; font-variant-numeric: tabular-nums"
    out = [f'<table style="border-collapse: collapse; font-size: 13px; font-family: {FONT}; margin: 4px 0 8px 0; color: inherit">']
    if caption:
        out.append(f'<caption style="text-align: left; padding: 2px 10px; font-weight: 600; color: inherit">{caption}</caption>')
    heads = [f'<th scope="col" style="{cell}; text-align: {a}; font-weight: 600">{h}</th>' for h, a in zip(head, align, strict=True)]
    out.append(f"<thead><tr>{''.join(heads)}</tr></thead><tbody>")
    for row in rows:
        cells = [f'<td style="{cell}; text-align: {a}{number if a == "right" else ""}">{c}</td>' for c, a in zip(row, align, strict=True)]
        out.append(f'<tr style="background: transparent">{"".join(cells)}</tr>')
    return "".join([*out, "</tbody></table>"])


def text_table(head: list[str], rows: list[list[str]], *, left: int = 1) -> str:
    """The same table in plain text, columns as wide as they need to be."""
    widths = [max(len(r[i]) for r in [head, *rows]) for i in range(len(head))]

    def line(cells: list[str]) -> str:
        return "  ".join(c.ljust(w) if i < left else c.rjust(w) for i, (c, w) in enumerate(zip(cells, widths, strict=True))).rstrip()

    return "\n".join([line(head), line(["-" * w for w in widths]), *(line(r) for r in rows)])
