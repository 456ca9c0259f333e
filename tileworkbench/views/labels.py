"""Words in a picture that touch neither each other nor what they must not cover: each takes the first free place of those it is offered.

Boxes are (left, top, right, bottom) in pixels, y down. What is placed grows `marks`: a strip of the page behind the letters, so that no line crosses
them, and the words.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from .marks import AnyMark, Path, Rect, Text
from .widths import cut_to, text_width

Box = tuple[float, float, float, float]
Spot = tuple[float, float]
PLACES = (0.06, 0.18, 0.3, 0.42, 0.54, 0.66)  # of a line's length
ASCENT, DESCENT = 0.76, 0.24  # of the font's size, above and below the baseline


@dataclass(slots=True)
class Labels:
    """Places words inside `area`."""

    area: Box
    taken: list[Box] = field(default_factory=list)
    marks: list[AnyMark] = field(default_factory=list)

    def avoid_line(self, start: Spot, stop: Spot) -> None:
        """Keep words off a straight line."""
        steps = max(2, int(math.dist(start, stop) / 4))
        for i in range(steps + 1):
            x, y = (a + (b - a) * i / steps for a, b in zip(start, stop, strict=True))
            self.taken.append((x - 1.5, y - 1.5, x + 1.5, y + 1.5))

    def avoid_dot(self, at: Spot, radius: float = 7.0) -> None:
        """Keep words off a dot."""
        self.taken.append((at[0] - radius, at[1] - radius, at[0] + radius, at[1] + radius))

    def place(self, word: Text, at: Spot, offsets: Iterable[Spot], *, must: bool = True) -> bool:
        """Write `word` near `at`, shifted by the first of `offsets` that is free (y down); where none is, anywhere free, or (not `must`) nowhere.

        A shift to the right aligns the words left, and so on. Says whether it was written.
        """
        for shift in offsets:
            placed = _moved(word, at, shift)
            if self._claim(placed):
                return True
        if not must:
            return False
        left, top, right, bottom = self.area
        for row in range(int((bottom - top) / 14)):  # last resort: the free row next to the wanted place
            for sign in (1, -1):
                for x in (at[0], left + 4, (left + right) / 2):
                    placed = replace(word, x=x, y=at[1] + sign * 14 * row, anchor="start")
                    if self._claim(placed):
                        return True
        wide = text_width(word.text, word.size, is_bold=word.is_bold, is_mono=word.is_mono)
        self._write(replace(word, x=max(min(at[0] + 8, right - wide - 2), left + 2), y=at[1] - 8, anchor="start"))
        return True

    def along(self, word: Text, start: Spot, stop: Spot, *, above: bool, must: bool = True, places: Sequence[float] = PLACES) -> None:
        """Write `word` along the line from `start` up to `stop`, on its upper or else its lower side, at the first free share of its length."""
        angle = math.atan2(stop[1] - start[1], stop[0] - start[0])
        along, upward = (math.cos(angle), math.sin(angle)), (math.sin(angle), -math.cos(angle))
        room = 1 - text_width(word.text, word.size, is_bold=word.is_bold) / max(math.dist(start, stop), 1.0)
        tries = [(side, place) for side in (above, not above) for place in places if place <= room] or [(above, max(room, 0.0))]
        for number, (side, place) in enumerate([*tries, tries[0]]):
            shift = 4.0 if side else -4.0 - ASCENT * word.size
            x, y = (a + (b - a) * place + u * shift for a, b, u in zip(start, stop, upward, strict=True))
            placed = replace(word, x=x, y=y, anchor="start", angle=math.degrees(angle))
            pieces = _pieces(placed, along, upward)
            near = _around(pieces, self.taken)
            is_free = not any(_clash(p, t) for p in pieces for t in near)
            if is_free or (must and number == len(tries)):
                self.taken += pieces
                self.marks += [placed] if is_free else [_strip(placed, along, upward), placed]
                return

    def _claim(self, word: Text) -> bool:
        mine, area = box_of(word), self.area
        outside = mine[0] < area[0] or mine[1] < area[1] or mine[2] > area[2] or mine[3] > area[3]
        if outside or any(_clash(mine, t) for t in self.taken):
            return False
        self._write(word)
        return True

    def _write(self, word: Text) -> None:
        box = box_of(word)
        self.taken.append(box)
        self.marks.append(Rect(box[0], box[1], box[2] - box[0], box[3] - box[1], fill="background", opacity=0.8))
        self.marks.append(word)


def box_of(word: Text) -> Box:
    """The box of level words, with a pixel of air around them."""
    wide = text_width(word.text, word.size, is_bold=word.is_bold, is_mono=word.is_mono)
    left = word.x - wide * {"start": 0.0, "middle": 0.5, "end": 1.0}[word.anchor]
    return (left - 1, word.y - ASCENT * word.size - 1, left + wide + 1, word.y + DESCENT * word.size + 1)


def clashes(words: Iterable[Text]) -> list[tuple[str, str]]:
    """Pairs of level words whose boxes overlap: none in a good picture."""
    boxes = [(w.text, box_of(w)) for w in words if not w.angle and w.text]
    return [(a, b) for i, (a, box) in enumerate(boxes) for b, other in boxes[i + 1 :] if _clash(_shrunk(box), _shrunk(other))]


def heading(line: str, below: str, width: float) -> tuple[list[AnyMark], float]:
    """A bold line over a fainter one at the top of a picture, and the height they take; a long line is broken in two."""
    parts = [line]
    if text_width(line, 13.5, is_bold=True) > width - 20:
        room = int(len(line) * (width - 20) / text_width(line, 13.5, is_bold=True))
        at = line.rfind(" ", 0, room)
        parts = [line[:at], line[at + 1 :]]
    marks: list[AnyMark] = [Text(10, 18 + 17 * i, cut_to(p, width - 20, 13.5, is_bold=True), 13.5, is_bold=True) for i, p in enumerate(parts)]
    y = 18 + 17 * len(parts)
    return [*marks, Text(10, y, cut_to(below, width - 20, 11), 11, "faint")], y + 7.0


def around(distance: float, *, reach: int = 6) -> list[Spot]:
    """Places around a dot: above and below, then aslant and beside it, farther and farther away."""
    out: list[Spot] = []
    for ring in range(reach):
        d = distance + 11 * ring
        out += [(0, -d), (0, d), (0.7 * d, -0.8 * d), (0.7 * d, 0.8 * d), (-0.7 * d, -0.8 * d), (-0.7 * d, 0.8 * d), (d, 0), (-d, 0)]
    return out


def beside(distance: float, *, reach: int = 7) -> list[Spot]:
    """Places for longer words: right of a dot, then aslant, above and below, farther and farther away."""
    out: list[Spot] = []
    for ring in range(reach):
        d = distance + 13 * ring
        out += [(d, 0), (0.7 * d, -d), (0.7 * d, d), (0, -1.3 * d), (0, 1.3 * d), (-d, 0), (-0.7 * d, -d), (-0.7 * d, d)]
    return out


def _moved(word: Text, at: Spot, shift: Spot) -> Text:
    dx, dy = shift
    drop = {1: ASCENT, 0: (ASCENT - DESCENT) / 2, -1: -DESCENT}[(dy > 0) - (dy < 0)] * word.size
    return replace(word, x=at[0] + dx, y=at[1] + dy + drop, anchor="start" if dx > 0 else "end" if dx < 0 else "middle")


def _pieces(word: Text, along: Spot, upward: Spot) -> list[Box]:
    """Small boxes along turned words, whose own box holds much that is free."""
    wide = text_width(word.text, word.size, is_bold=word.is_bold)
    steps = max(int(wide / 7), 1)
    out = []
    for i in range(steps + 1):
        x, y = (a + d * wide * i / steps + u * word.size * 0.3 for a, d, u in zip((word.x, word.y), along, upward, strict=True))
        out.append((x - 4, y - 4, x + 4, y + 4))
    return out


def _around(pieces: list[Box], taken: list[Box]) -> list[Box]:
    """Those of `taken` that lie in the box around all pieces."""
    whole = (min(p[0] for p in pieces), min(p[1] for p in pieces), max(p[2] for p in pieces), max(p[3] for p in pieces))
    return [t for t in taken if _clash(whole, t)]


def _strip(word: Text, along: Spot, upward: Spot) -> Path:
    """A strip of the page behind turned words that stand on a line."""
    wide, corners = text_width(word.text, word.size), []
    for forth, up in ((-1.0, -DESCENT), (wide + 1, -DESCENT), (wide + 1, ASCENT), (-1.0, ASCENT)):
        corners.append((word.x + along[0] * forth + upward[0] * up * word.size, word.y + along[1] * forth + upward[1] * up * word.size))
    return Path(tuple(corners), "none", fill="background", is_closed=True, opacity=0.9)


def _shrunk(box: Box) -> Box:
    return (box[0] + 1, box[1] + 1, box[2] - 1, box[3] - 1)


def _clash(a: Box, b: Box) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]
