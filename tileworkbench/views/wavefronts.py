"""The wavefront view: which lane of a warp gets a word from which bank, one wavefront after the other, on one layout or several side by side.

Rows are the 32 lanes, columns the 32 banks. Each step of the scrubber is a wavefront: it serves every bank once. A layout that needs fewer is done
earlier. Rule-based, see `layout.banks`.

>>> import numpy as np
>>> from tileworkbench.layout.access import Access
>>> from tileworkbench.layout.tile_layout import linear, padded
>>> column = Access.of("a column", np.arange(32), np.zeros(32, int))
>>> view = wavefront_view(column, linear(32, 32, bits=32), padded(32, 32, bits=32, pad=1))
>>> [(side["layout"], side["wavefronts"], side["excess"]) for side in view.data["sides"]]
[('row-major', 32, 31), ('padded by 1', 1, 0)]
>>> print(view)
a column, one warp (rule-based: counted by the phase rule, not measured)
on row-major: 32 wavefronts, ideal 1, 31 in excess
  wavefront   1: bank 0 -> lane 0
  wavefront   2: bank 0 -> lane 1
  wavefront   3: bank 0 -> lane 2
  ... 29 more
on padded by 1: 1 wavefront, ideal 1, 0 in excess
  wavefront   1: bank 0 -> lane 0; bank 1 -> lane 1; bank 2 -> lane 2; bank 3 -> lane 3; and 28 more banks
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from ..layout.access import Access
from ..layout.banks import BANKS, RULE, WARP, Serving, Wavefronts, serve, wavefronts
from ..layout.tile_layout import TileLayout
from .scene import AnyMark, Cells, Path, Rect, Scene, Text
from .view import View
from .widths import cut_to, text_width, wrapped

_X, _Y, _GAP = 46.0, 92.0, 42.0
_MOST_TEXT = 3


@dataclass(frozen=True, slots=True)
class Side:
    """One layout's service of the request: `width` bytes for each thread at once, `cost`, and the words in their wavefronts."""

    layout: str
    width: int
    cost: Wavefronts
    served: tuple[Serving, ...]

    @property
    def verdict(self) -> str:
        return f"{plural(self.cost.total)}, ideal {self.cost.ideal}, {self.cost.excess} in excess"

    def words(self, wavefront: int) -> str:
        """Who gets what in one wavefront, lanes of one bank together."""
        lanes: dict[int, list[int]] = {}
        for s in self.served:
            if s.wavefront == wavefront:
                lanes.setdefault(s.bank, []).append(s.lane)
        parts = [f"bank {bank} -> lane {', '.join(map(str, who[:4]))}{' ...' if len(who) > 4 else ''}" for bank, who in sorted(lanes.items())]
        return "; ".join(parts[:4]) + (f"; and {len(parts) - 4} more banks" if len(parts) > 4 else "") if parts else "done"

    def cells(self, wavefront: int | None) -> bytes:
        """(lane, bank) cells: 0 nothing, 1 to be served, 2 served now, 3 served; or, for all at once, 4 and more by wavefront."""
        index = bytearray(WARP * BANKS)
        for s in self.served:
            spot = s.lane * BANKS + s.bank
            if wavefront is None:
                index[spot] = 4 + s.wavefront % 8
            elif index[spot] != 2:
                index[spot] = 2 if s.wavefront == wavefront else 3 if s.wavefront < wavefront and index[spot] != 1 else 1
        return bytes(index)


@dataclass(frozen=True, slots=True)
class WavefrontView(View):
    """One request of a warp, on each layout of `sides`."""

    access: str
    sides: tuple[Side, ...]
    why: str = ""

    @property
    def title(self) -> str:  # type: ignore[override]  # made of the fields
        return f"{self.access} on {', '.join(s.layout for s in self.sides)}"

    @property
    def steps(self) -> int:
        """Wavefronts of the side that needs most."""
        return max(s.cost.total for s in self.sides)

    @property
    def data(self) -> dict[str, Any]:
        """For each side the counts and, wavefront by wavefront, the (lane, bank, word) triples; `wavefronts` is the first side's count."""
        sides = []
        for side in self.sides:
            steps: list[list[tuple[int, int, int]]] = [[] for _ in range(side.cost.total)]
            for s in side.served:
                steps[s.wavefront].append((s.lane, s.bank, s.word))
            counts = {"wavefronts": side.cost.total, "ideal": side.cost.ideal, "excess": side.cost.excess}
            sides.append({"layout": side.layout, "width": side.width, **counts, "steps": steps})
        first = self.sides[0].cost
        return {"access": self.access, "wavefronts": first.total, "ideal": first.ideal, "excess": first.excess, "sides": sides, "rule": RULE}

    def __str__(self) -> str:
        lines = [f"{self.access}, one warp ({RULE})"]
        for side in self.sides:
            lines.append(f"on {side.layout}: {side.verdict}")
            lines += [f"  wavefront {i + 1:>3}: {side.words(i)}" for i in range(min(side.cost.total, _MOST_TEXT))]
            if side.cost.total > _MOST_TEXT:
                lines.append(f"  ... {side.cost.total - _MOST_TEXT} more")
        return "\n".join(lines)

    def scene(self) -> Scene:
        """All wavefronts at once: the colour of a mark is its wavefront."""
        return self.frame(None)

    def frame(self, wavefront: int | None) -> Scene:
        """The picture at one wavefront, from 0; None shows all."""
        size = {1: 13.0, 2: 9.0}.get(len(self.sides), 7.0)
        side = size * BANKS
        step = 4 if wavefront is None or self.steps <= 8 else 0  # many frames: without what does not change
        now = "all wavefronts" if wavefront is None else f"wavefront {wavefront + 1} of {self.steps}"
        marks: list[AnyMark] = [Text(12, 22, f"{self.access}, one warp", size=14, is_bold=True), Text(12, 40, now, size=12, is_bold=True)]
        marks.append(Text(16, _Y + side / 2, "lane", size=10, colour="faint", anchor="middle", angle=-90))
        for number, one in enumerate(self.sides):
            marks += _grid(one, wavefront, _X + number * (side + _GAP), side, step)
        bottom = _Y + side
        if wavefront is None:
            key = [("cell3", "wavefront 1"), ("cell7", "2"), ("cell11", "3"), ("cell15", "4 ... 8, then again")]
        else:
            key = [("accent", "served now"), ("unused", "still waits"), ("heat2", "has been served")]
        x = _X
        for fill, name in key:
            marks += [Rect(x, bottom + 24, 12, 12, fill=fill), Text(x + 17, bottom + 34, name, size=10.5)]
            x += 30 + text_width(name, 10.5)
        width = _X + len(self.sides) * (side + _GAP) - _GAP + 16
        note = wrapped(f"{self.why}; {RULE}" if self.why else RULE, width - _X - 8, 10.5)
        if wavefront is None:
            marks += [Text(_X, bottom + 54 + 14 * n, line, size=10.5, colour="faint") for n, line in enumerate(note)]
        title = self.title if wavefront is None else now
        return Scene(max(width, x), bottom + 52 + 14 * len(note), tuple(marks), title=title, text=str(self))

    def live(self) -> dict[str, Any]:
        """A frame for each wavefront."""
        whole = {"label": "all wavefronts", "scene": self.scene().to_json(), "text": str(self)}
        frames = []
        for i in range(self.steps):
            text = "\n".join(f"{s.layout}: {s.words(i)}" for s in self.sides)
            frames.append({"label": f"wavefront {i + 1} of {self.steps}", "scene": self.frame(i).to_json(), "text": text})
        about = {"module": "scene", "title": self.title, "text": str(self), "scene": whole["scene"], "details": {}}
        return {**about, "frames": [whole, *frames], "frames_name": "wavefront"}


def wavefront_view(access: Access, *layouts: TileLayout, request: int = 0) -> WavefrontView:
    """One warp's request of `access` on each layout, served wavefront by wavefront.

    Where a layout makes the access fall into narrower pieces, all pieces of the request are served, one after the other.
    Raises: IndexError for a request that is not there, ValueError without a layout.
    """
    if not layouts:
        raise ValueError("wavefront_view needs a layout, or several")
    if not 0 <= request < access.requests:
        raise IndexError(f"access {access.name} has {access.requests} requests, there is no {request}")
    return WavefrontView(access.name, tuple(_serve(access, layout, request) for layout in layouts), access.why)


def worst_request(access: Access, layout: TileLayout) -> int:
    """The request of `access` that needs most wavefronts on `layout`: the one worth looking at."""
    starts, width = access.addresses(layout)
    costs = [sum(wavefronts(row, width).total for row in starts[i :: access.requests]) for i in range(access.requests)]
    return max(range(len(costs)), key=costs.__getitem__)


def plural(count: int) -> str:
    """The count with its noun."""
    return f"{count} wavefront{'s' * (count != 1)}"


def _serve(access: Access, layout: TileLayout, request: int) -> Side:
    starts, width = access.addresses(layout)
    cost, served = Wavefronts(0, 0), []
    for row in starts[request :: access.requests]:
        served += [replace(s, wavefront=s.wavefront + cost.total) for s in serve(row, width)]
        cost = cost + wavefronts(row, width)
    return Side(layout.name, width, cost, tuple(served))


def _grid(side: Side, wavefront: int | None, x: float, length: float, step: int) -> list[AnyMark]:
    """One layout: lanes x banks, its verdict above, lines between the groups of lanes that are served together."""
    size = length / BANKS
    shades = tuple(f"cell{4 * i + 3}" for i in range(8)) if wavefront is None else ()
    palette = ("surface", "unused", "accent", "heat2", *shades)
    colour = "warning" if side.cost.excess else "good"
    is_done = wavefront is not None and wavefront >= side.cost.total
    verdict = f"{plural(side.cost.total)}{f': {side.cost.excess} in excess' if side.cost.excess else ', no conflicts'}"
    name = cut_to(f"{side.layout}, {side.width} bytes each", length, 11.5, is_bold=True)
    marks: list[AnyMark] = [Text(x, _Y - 34, name, size=11.5, is_bold=True)]
    marks.append(Text(x, _Y - 19, "done" if is_done else cut_to(verdict, length + 30, 11), size=11, colour="good" if is_done else colour))
    tip = f"{side.layout}: {side.verdict}" if wavefront is None else ""
    marks.append(Cells(x, _Y, length, length, WARP, BANKS, palette, side.cells(wavefront), tip=tip))
    if step:
        marks += [Text(x + (i + 0.5) * size, _Y - 4, str(i), size=8.5, colour="faint", anchor="middle") for i in range(0, BANKS, step)]
        marks += [Text(x - 4, _Y + (i + 0.5) * size + 3, str(i), size=8.5, colour="faint", anchor="end") for i in range(0, WARP, step)]
        marks.append(Rect(x, _Y, length, length, stroke="faint", stroke_width=0.8))
    group = WARP if side.width <= 4 else WARP * 4 // side.width
    for i in range(group, WARP, group):
        marks.append(Path(((x, _Y + i * size), (x + length, _Y + i * size)), stroke="faint", width=0.8, dash=(4.0, 3.0)))
    if wavefront is None:
        marks.append(Text(x + length / 2, _Y + length + 14, "bank", size=10, colour="faint", anchor="middle"))
    return marks
