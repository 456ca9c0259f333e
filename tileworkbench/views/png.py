"""A picture as PNG, drawn by Pillow: a few milliseconds where matplotlib takes hundreds, and no import of a plotting library.

Shapes are drawn larger and averaged down, so that lines are smooth; words are set at the final size with the DejaVu fonts that matplotlib ships.
The file has a palette made from the colours that the marks name: a third of the size, and flat areas keep their exact colour.
"""

from __future__ import annotations

import importlib.util
import io
import math
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path as File
from typing import TYPE_CHECKING, Any

import numpy as np

from .marks import AnyMark, Cells, Dot, Path, Rect, Text, corners_of, dashes, word_marks
from .theme import Palette

if TYPE_CHECKING:
    from PIL.ImageFont import FreeTypeFont, ImageFont

FINER = 2  # shapes are drawn this many times larger
COLOURS = 256
STEPS = 8  # from a colour to the page, for the soft edges of letters and lines
RGB = tuple[int, int, int]


def draw_png(width: float, height: float, marks: tuple[AnyMark, ...], page: Palette, scale: float = 1.5) -> bytes:
    """PNG bytes, `scale` pixels for each of the page's. Words lie above all shapes."""
    from PIL import Image, ImageDraw

    pixels = max(round(width * scale), 1), max(round(height * scale), 1)
    ink = _Ink(page)
    canvas = Image.new("RGB", (pixels[0] * FINER, pixels[1] * FINER), ink.paper)
    draw = ImageDraw.Draw(canvas)
    for mark in marks:
        _shape(canvas, draw, mark, ink, scale * FINER)
    picture = canvas.reduce(FINER)
    draw = ImageDraw.Draw(picture)
    for word in word_marks(marks, page):
        _word(picture, draw, word, ink, scale)
    out = io.BytesIO()
    picture.quantize(palette=_palette(tuple(ink.used)), dither=Image.Dither.NONE).save(out, format="png", compress_level=6)
    return out.getvalue()


class _Ink:
    """Colours as numbers; remembers those that were used, for the file's palette."""

    def __init__(self, page: Palette) -> None:
        self.page = page
        self.paper = _rgb(page["background"])
        self.used: dict[RGB, None] = {self.paper: None}

    def __call__(self, name: str, opacity: float = 1.0) -> RGB | None:
        """The colour called `name` as it looks on the bare page; None for no colour."""
        code = self.page[name]
        if code == "none":
            return None
        colour = _rgb(code)
        if opacity < 1:
            colour = _mix(self.paper, colour, opacity)
        self.used[colour] = None
        return colour


def _shape(canvas: Any, draw: Any, mark: AnyMark, ink: _Ink, k: float) -> None:
    match mark:
        case Rect():
            _box(canvas, draw, mark, ink, k)
        case Path():
            points = [(x * k, y * k) for x, y in mark.points]
            fill = ink(mark.fill, mark.opacity)
            if fill is not None and len(points) > 2:
                draw.polygon(points, fill=fill)
            colour = ink(mark.stroke, mark.opacity)
            if colour is not None:
                for stroke in dashes(mark.points, mark.dash, is_closed=mark.is_closed):
                    _line(draw, stroke, colour, mark.width, k)
        case Dot():
            _dot(draw, mark, ink, k)
        case Cells():
            _cells(canvas, mark, ink, k)
        case Text():
            return


def _line(draw: Any, points: Iterable[tuple[float, float]], colour: RGB, width: float, k: float) -> None:
    draw.line([(x * k, y * k) for x, y in points], fill=colour, width=max(1, round(width * k)), joint="curve")


def _box(canvas: Any, draw: Any, mark: Rect, ink: _Ink, k: float) -> None:
    if mark.width <= 0 or mark.height <= 0:
        return
    fill, stroke = ink(mark.fill, mark.opacity), ink(mark.stroke, mark.opacity)
    place = [round(mark.x * k), round(mark.y * k), round((mark.x + mark.width) * k) - 1, round((mark.y + mark.height) * k) - 1]
    place[2], place[3] = max(place[0], place[2]), max(place[1], place[3])
    line = max(1, round(mark.stroke_width * k)) if stroke is not None else 0
    if line:
        half = line // 2
        place = [place[0] - half, place[1] - half, place[2] + half, place[3] + half]  # the outline's middle is the box's edge, as in SVG
    draw.rounded_rectangle(place, radius=mark.radius * k, fill=fill, outline=stroke, width=line)
    if mark.hatch:
        _stripes(canvas, place, ink(mark.hatch, mark.opacity), k)


def _stripes(canvas: Any, place: list[int], colour: RGB | None, k: float) -> None:
    from PIL import Image, ImageDraw

    if colour is None:
        return
    wide, high, step = place[2] - place[0] + 1, place[3] - place[1] + 1, max(round(6 * k), 2)
    mask = Image.new("L", (wide, high), 0)
    draw = ImageDraw.Draw(mask)
    for x in range(-(place[0] + place[3]) % step - high, wide, step):  # in step with the page, so that neighbours join
        draw.line([(x, high), (x + high, 0)], fill=255, width=max(1, round(1.2 * k)))
    canvas.paste(colour, (place[0], place[1]), mask)


def _dot(draw: Any, mark: Dot, ink: _Ink, k: float) -> None:
    """A disc in the line's colour and, where it is hollow, a smaller one in the page's."""
    colour, line = ink(mark.colour, mark.opacity), 1.8
    if colour is None:
        return
    for grow, paint in ((line / 2, colour), (-line / 2, ink.paper if mark.is_hollow else colour)):
        r = max(mark.radius + grow, 0.1)
        if mark.shape == "circle":
            draw.ellipse([(mark.x - r) * k, (mark.y - r) * k, (mark.x + r) * k, (mark.y + r) * k], fill=paint)
        else:
            grown = corners_of(Dot(mark.x, mark.y, max(mark.radius + grow * 1.3, 0.1), mark.shape))
            draw.polygon([(x * k, y * k) for x, y in grown], fill=paint)


def _cells(canvas: Any, mark: Cells, ink: _Ink, k: float) -> None:
    from PIL import Image

    colours = [ink(name, mark.opacity) or ink.paper for name in mark.palette]
    small = Image.frombytes("P", (mark.columns, mark.rows), mark.index)
    small.putpalette([part for colour in colours for part in colour])
    left, top = round(mark.x * k), round(mark.y * k)
    size = max(round((mark.x + mark.width) * k) - left, 1), max(round((mark.y + mark.height) * k) - top, 1)
    canvas.paste(small.convert("RGB").resize(size, Image.Resampling.NEAREST), (left, top))


def _word(picture: Any, draw: Any, mark: Text, ink: _Ink, scale: float) -> None:
    colour = ink(mark.colour, mark.opacity)
    if colour is None or not mark.text:
        return
    font = _font(round(mark.size * scale * 2) / 2, mark.is_bold, mark.is_mono)
    anchor = {"start": "ls", "middle": "ms", "end": "rs"}[mark.anchor]
    at = (mark.x * scale, mark.y * scale)
    if mark.angle:
        _turned(picture, mark, font, anchor, colour, at)
    else:
        draw.text(at, mark.text, font=font, fill=colour, anchor=anchor)


def _turned(picture: Any, mark: Text, font: Any, anchor: str, colour: RGB, at: tuple[float, float]) -> None:
    """Words at an angle: set level on a mask of their own, turned about their anchor."""
    from PIL import Image, ImageDraw

    left, top, right, bottom = (int(v) for v in font.getbbox(mark.text, anchor=anchor))
    pad = 3
    size = (right - left + 2 * pad, bottom - top + 2 * pad)
    mask = Image.new("L", size, 0)
    ImageDraw.Draw(mask).text((pad - left, pad - top), mark.text, font=font, fill=255, anchor=anchor)
    turned = mask.rotate(-mark.angle, resample=Image.Resampling.BICUBIC, expand=True)
    x, y = pad - left - size[0] / 2, pad - top - size[1] / 2  # the anchor, from the mask's middle
    cos, sin = math.cos(math.radians(mark.angle)), math.sin(math.radians(mark.angle))
    place = at[0] - (x * cos - y * sin) - turned.width / 2, at[1] - (x * sin + y * cos) - turned.height / 2
    picture.paste(colour, (round(place[0]), round(place[1])), turned)


@lru_cache(maxsize=64)
def _font(size: float, is_bold: bool, is_mono: bool) -> FreeTypeFont | ImageFont:
    """A DejaVu font of matplotlib's, found without importing it; Pillow's own where that is not there."""
    from PIL import ImageFont

    found = importlib.util.find_spec("matplotlib")
    name = f"DejaVuSans{'Mono' if is_mono else ''}{'-Bold' if is_bold else ''}.ttf"
    place = File(found.origin).parent / "mpl-data" / "fonts" / "ttf" / name if found and found.origin else File(name)
    try:
        return ImageFont.truetype(str(place), size, layout_engine=ImageFont.Layout.BASIC)
    except OSError:
        return ImageFont.load_default(size)


@lru_cache(maxsize=16)
def _palette(used: tuple[RGB, ...]) -> Any:
    """An image that holds the file's colours: each one that was used, and steps from it to the page, which is the first of them."""
    from PIL import Image

    colours = np.asarray(used[:COLOURS], dtype=float)
    room = min(COLOURS // len(colours), STEPS)
    shares = np.arange(1, room) / max(room, 1)
    steps = np.round(colours[0] + (colours[:, None, :] - colours[0]) * shares[None, :, None]).reshape(-1, 3)
    nearest = np.abs(steps[:, None, :] - colours[None, :, :]).max(axis=2).min(axis=1, initial=255)
    table = np.concatenate((colours, steps[nearest > 8]))  # Pillow takes a colour that is nearer than that for another
    out = Image.new("P", (1, 1))
    out.putpalette(table.astype(np.uint8).tobytes())
    return out


def _mix(a: RGB, b: RGB, share: float) -> RGB:
    red, green, blue = (round(x + (y - x) * share) for x, y in zip(a, b, strict=True))
    return red, green, blue


def _rgb(code: str) -> RGB:
    return int(code[1:3], 16), int(code[3:5], 16), int(code[5:7], 16)
