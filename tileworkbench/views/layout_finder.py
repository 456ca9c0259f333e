"""The finder's view: the best layout of each kind beside the plain one, what each costs every access, and how many were tried.

>>> import numpy as np
>>> from tileworkbench.layout.access import Access
>>> from tileworkbench.layout.finder import find_layouts
>>> across = np.arange(32)
>>> column = Access.of("a column", np.tile(across, (32, 1)), np.tile(across[:, None], (1, 32)))
>>> view = finder_view(find_layouts(32, 32, bits=32, accesses=(column,), buffer="t"))
>>> print(view)
t: 131 layouts tried, 0 cannot be, 17 without conflicts (rule-based: counted by the phase rule, not measured)
layout            kind         a column  wavefronts  excess  instructions  bytes
----------------  -----------  --------  ----------  ------  ------------  -----
Swizzle(5, 2, 5)  XOR swizzle         0          32       0            32   4096
padded by 1       padding             0          32       0            32   4220
128-byte swizzle  TMA swizzle        96         128      96            32   4096
row-major         none              992        1024     992            32   4096
T.annotate_layout({t: T.Layout((32, 32), lambda i, j: (i * 32 + j) ^ (((i * 32 + j) >> 5) & 31))})
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..layout.access import Access
from ..layout.algebra import Table
from ..layout.banks import RULE
from ..layout.finder import Candidate, Found
from ..layout.tile_layout import TileLayout
from .annotating import with_layout
from .layout import LayoutView
from .layout_parts import Panel
from .scene import AnyMark, Rect, Scene, Text
from .view import View, escape, table, text_table
from .wavefronts import worst_request
from .widths import cut_to, text_width, wrapped

_ROW, _BAR = 24.0, 300.0
_KINDS = ("none", "padding", "XOR swizzle", "TMA swizzle")


@dataclass(frozen=True, slots=True)
class FinderView(View):
    """What `find_layouts` found, as bars of wavefronts and a table. `limit` candidates of each kind are shown."""

    found: Found
    limit: int = 1

    @property
    def title(self) -> str:  # type: ignore[override]  # made of the fields
        return f"layouts of {self.found.buffer}"

    @property
    def data(self) -> dict[str, Any]:
        """The counts, the line to paste, and every candidate, best first."""
        f = self.found
        return {
            "buffer": f.buffer,
            "tried": f.tried,
            "rejected": f.rejected,
            "conflict_free": f.conflict_free,
            "searched": f.searched,
            "best": f.best.layout.name,
            "annotation": f.annotation,
            "candidates": f.data,
        }

    @property
    def shown(self) -> tuple[Candidate, ...]:
        """The best of each kind, best first."""
        picked = [c for kind in _KINDS for c in [x for x in self.found.candidates if x.kind == kind][: self.limit]]
        return tuple(c for c in self.found.candidates if c in picked)

    def chosen(self, layout: str = "") -> Candidate:
        """The best candidate, or the one called `layout`. Raises: KeyError for one that was not tried or cannot be."""
        found = [c for c in self.found.candidates if not layout or c.layout.name == layout]
        if not found:
            raise KeyError(f"no layout of {self.found.buffer} is called {layout!r}; there are {', '.join(c.layout.name for c in self.shown)}, ...")
        return found[0]

    def apply(self, text: str, layout: str = "") -> str:
        """`text`, the cell (or file) with the kernel, with the best layout, or the one called `layout`, written into it as `T.annotate_layout`.

        An annotation of the tile that is there is replaced. In a notebook the button "apply to cell" does it.
        Raises: TileValueError where the allocation cannot be found in `text`, KeyError for a layout that is not there.
        """
        line = self.found.span.line if self.found.span is not None else 0
        return with_layout(text, self.found.buffer, self.chosen(layout).annotation(self.found.buffer), line)

    def _rows(self) -> tuple[list[str], list[list[str]]]:
        head = ["layout", "kind", *(a.name for a in self.found.accesses), "wavefronts", "excess", "instructions", "bytes"]
        rows = [
            [c.layout.name, c.kind, *(str(cost.excess) for cost in c.costs), str(c.total), str(c.excess), str(c.instructions), str(c.bytes)]
            for c in self.shown
        ]
        return head, rows

    def _head(self) -> str:
        f = self.found
        return f"{f.buffer}: {f.tried} layouts tried, {f.rejected} cannot be, {f.conflict_free} without conflicts ({RULE})"

    def __str__(self) -> str:
        notes = [f"note: {note}" for note in self.found.notes]
        return "\n".join([self._head(), text_table(*self._rows(), left=2), *notes, self.found.annotation])

    def html(self) -> str:
        """The bars, the table, what was searched, and the line to paste."""
        head, rows = self._rows()
        caption = escape(self._head())
        words = table([escape(h) for h in head], [[escape(c) for c in row] for row in rows], left=2, caption=caption)
        notes = "".join(f"<div>{escape(note)}</div>" for note in self.found.notes)
        return f"{View.html(self)}{words}{notes}<div>searched: {escape(self.found.searched)}</div><pre>{escape(self.found.annotation)}</pre>"

    def scene(self) -> Scene:
        """A bar for each layout: the ideal part full, the excess hatched."""
        shown = self.shown
        most = max(c.total for c in shown) or 1
        left = max(text_width(c.layout.name, 12, is_bold=c is self.found.best) for c in shown) + 28
        marks: list[AnyMark] = [Text(12, 22, self.title, size=14, is_bold=True), Text(12, 40, self._head(), size=11, colour="faint")]
        y = 56.0
        for c in shown:
            ideal, excess = (c.total - c.excess) * _BAR / most, c.excess * _BAR / most
            tip = f"{c.layout.name}: {c.total} wavefronts, {c.excess} in excess, {c.bytes} bytes"
            marks.append(Text(left - 8, y + 15, c.layout.name, size=12, anchor="end", is_bold=c is self.found.best))
            marks.append(Rect(left, y + 4, max(ideal, 1), _ROW - 9, fill="s2", key=c.layout.name, tip=tip))
            if excess:
                marks.append(
                    Rect(left + ideal, y + 4, excess, _ROW - 9, fill="surface", stroke="warning", hatch="warning", key=c.layout.name, tip=tip)
                )
            words = f"{c.total}" + (f" ({c.excess} in excess)" if c.excess else "")
            marks.append(Text(left + ideal + excess + 7, y + 15, f"{words}, {c.bytes} bytes", size=11))
            y += _ROW
        marks.append(Rect(left, y + 6, 12, 10, fill="s2"))
        marks.append(Text(left + 17, y + 15, "wavefronts, ideal", size=10.5))
        marks.append(Rect(left + 130, y + 6, 12, 10, fill="surface", stroke="warning", hatch="warning"))
        marks.append(Text(left + 147, y + 15, "excess: bank conflicts", size=10.5))
        line = cut_to(self.found.annotation, 740, 11, is_mono=True)
        marks.append(Text(12, y + 38, line, size=11, is_mono=True))
        width = max(left + _BAR + 190, 12 + text_width(line, 11, is_mono=True), 12 + text_width(self._head(), 11)) + 24
        notes = [part for note in self.found.notes for part in wrapped(note, width - 24, 10.5)]
        marks += [Text(12, y + 56 + 14 * n, part, size=10.5, colour="faint") for n, part in enumerate(notes)]
        return Scene(width, y + 50 + 14 * len(notes), tuple(marks), title=self.title, text=str(self))

    def live(self) -> dict[str, Any]:
        """The bars; each opens into its cost by access."""
        details = {}
        for c in self.shown:
            rows = [
                [a.name, str(a.times), str(w), str(cost.total), str(cost.excess), a.span.where if a.span else "", a.why]
                for a, cost, w in zip(self.found.accesses, c.costs, c.widths, strict=True)
            ]
            head = ["access", "times", "bytes a thread", "wavefronts", "excess", "line", "how threads share it"]
            details[c.layout.name] = {"caption": f"{c.layout.name}: {c.annotation(self.found.buffer)}", "head": head, "rows": rows, "left": 1}
        best, buffer = self.found.best.layout.name, self.found.buffer
        message = {"type": "apply", "buffer": buffer, "layout": best}
        button = {"text": "apply to cell", "name": f"write {best} for {buffer} into the kernel", "message": message}
        about = {"module": "scene", "title": self.title, "text": str(self), "scene": self.scene().to_json(), "details": details}
        return {**about, "buttons": [button]}


def finder_view(found: Found, limit: int = 1) -> FinderView:
    """A view of what `find_layouts` (or `SharedTile.find`) found; `limit` layouts of each kind."""
    return FinderView(found, limit)


def compare_view(found: Found, access: int | str = -1, rows: int = 16) -> LayoutView:
    """One access on the plain layout, the best padding and the best swizzle, side by side, coloured by bank.

    The cells that the worst request's first phase wants at once are outlined: outlines in one colour wait for each other.

    Args:
        access: which access of `found`, by number or name; by default the last.
        rows: how many rows of the tile are drawn.
    Raises: KeyError or IndexError for an access that is not there.
    """
    if isinstance(access, str):
        names = [a.name for a in found.accesses]
        if access not in names:
            raise KeyError(f"no access is called {access!r}; there are {', '.join(names)}")
        number = names.index(access)
    else:
        number = range(len(found.accesses))[access]
    chosen = found.accesses[number]
    swizzles = [c for c in found.candidates if c.kind in ("TMA swizzle", "XOR swizzle")][:1]
    picked = [found.plain, *[c for c in found.candidates if c.kind == "padding"][:1], *swizzles]
    panels = []
    request = min(worst_request(chosen, found.plain.layout), chosen.requests - 1)
    lit, top = _phase_cells(chosen, request, found.plain.layout.bits, rows)
    for i, c in enumerate(picked):
        cost = c.costs[number]
        layout = _slice(c.layout, top, min(rows, c.layout.rows - top))
        caption = f"{cost.total} wavefronts, {cost.excess} in excess; {c.bytes} bytes"
        panels.append(Panel(c.layout.name, layout, (i, 0) if layout.columns > 40 else (0, i), lit, caption))
    facts = tuple(x for x in (chosen.why, f"outlined: what one phase of a warp wants at once ({RULE})") if x)
    return LayoutView(tuple(panels), "bank", f"{found.buffer}, {chosen.name}", facts=facts, buffer=found.buffer, span=chosen.span)


def _phase_cells(access: Access, request: int, bits: int, rows: int) -> tuple[tuple[tuple[int, int], ...], int]:
    """The cells that the first phase of a request wants, and the first row to draw so that they are seen."""
    one = access.first(request)
    width = max(one.cells * bits // 8, 1)
    group = 32 if width <= 4 else max(32 * 4 // width, 1)
    r, c = one.rows.array()[0][:group], one.columns.array()[0][:group]
    r, c = r[r >= 0], c[r >= 0]
    top = max(int(r.min()) // 8 * 8, 0) if len(r) else 0
    down, across = int(one.down), int(not one.down)
    cells = [(int(a) - top + i * down, int(b) + i * across) for a, b in zip(r, c, strict=True) for i in range(one.cells)]
    cells = [cell for cell in cells if cell[0] < rows]
    return tuple(cells), top


def _slice(layout: TileLayout, top: int, rows: int) -> TileLayout:
    """Some rows of a tile, as they lie in the whole one."""
    r, c = np.arange(top, top + rows)[:, None], np.arange(layout.columns)[None, :]
    offsets = (layout.addresses(r, c) - layout.base) * 8 // layout.bits
    return replace(layout, rows=rows, place=Table.of(offsets))
