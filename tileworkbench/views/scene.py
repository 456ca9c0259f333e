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
from typing import TYPE_CHECKING, Any

from .figure import draw_figure
from .marks import AnyMark, Cells, Dot, Mark, Path, Points, Rect, Text, corners_of
from .png import draw_png
from .svg import draw_svg
from .theme import PAGES

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["AnyMark", "Cells", "Dot", "Mark", "Path", "Points", "Rect", "Scene", "Text", "corners_of", "mark_json"]
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
        return draw_svg(self.width, self.height, self.marks, PAGES[theme], title=self.title, text=self.text)

    def png(self, theme: str = "light", scale: float = 1.5) -> bytes:
        """The picture as PNG bytes, `scale` pixels for each of the scene's."""
        return draw_png(self.width, self.height, self.marks, PAGES[theme], scale)

    def figure(self, theme: str = "light") -> Figure:
        """The picture as a matplotlib figure, for PDF and for papers: it can be saved in any format that matplotlib writes."""
        return draw_figure(self.width, self.height, self.marks, PAGES[theme])

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
