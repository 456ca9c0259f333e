"""The layout view: any tile as a grid, coloured by thread, lane, register, bank, cache line or set.

>>> from tileworkbench.layout.atoms import atom
>>> view = layout_view(atom("SM80_16x8x8_F32TF32TF32F32_TN"), operand="B")
>>> print(view)
SM80_16x8x8_F32TF32TF32F32_TN: thread of each cell
B (K x N): 8 x 8 of 32 bits, 32 threads
       0   1   2   3   4   5   6   7
  0    0   4   8  12  16  20  24  28
  1    1   5   9  13  17  21  25  29
  2    2   6  10  14  18  22  26  30
  3    3   7  11  15  19  23  27  31
  4    0   4   8  12  16  20  24  28
  5    1   5   9  13  17  21  25  29
  6    2   6  10  14  18  22  26  30
  7    3   7  11  15  19  23  27  31
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..base.machine import Machine
from ..base.span import Span
from ..layout.algebra import Array
from ..layout.atoms import Atom
from ..layout.banks import CacheShape, false_sharing
from ..layout.tile_layout import TileLayout
from ..model.line_sharing import shared_lines, writers
from ..model.placement import BufferLayout, LayoutProvider, l1_of, layout_of, layouts_of
from .layout_parts import Mode, Panel, modes_of, panel_data
from .layout_scene import draw_panels
from .scene import Cells, Scene
from .view import View

ASCII_CELLS = 32 * 32  # a larger tile is told in numbers


@dataclass(frozen=True, slots=True)
class LayoutView(View):
    """Tiles as grids of cells. `mode` names the colouring, one of `modes`; `facts` are lines about where the layout comes from.

    `buffer` and `span` say which buffer of which source line it is, for views beside this one.
    """

    panels: tuple[Panel, ...]
    mode: str
    title: str = ""
    cache: CacheShape | None = None
    facts: tuple[str, ...] = ()
    buffer: str = ""
    span: Span | None = None

    def __post_init__(self) -> None:
        if self.mode not in (names := [m.name for m in self.modes]):
            raise ValueError(f"{self.title} cannot be coloured by {self.mode!r}; it has {', '.join(names)}")

    @property
    def modes(self) -> tuple[Mode, ...]:
        """The ways to colour it."""
        found = {m.name: m for panel in self.panels for m in modes_of(panel.layout, self.cache)}
        return tuple(found.values())

    def by(self, mode: str) -> LayoutView:
        """The same view coloured by another of `modes`. Raises: ValueError for one that is not there."""
        return replace(self, mode=mode)

    def _mode(self, panel: Panel) -> Mode:
        """How a panel is coloured: by the chosen mode, or by the first one of its own if it has no such thing."""
        own = modes_of(panel.layout, self.cache)
        return next((m for m in own if m.name == self.mode), own[0])

    def numbers(self, panel: int = 0) -> Array:
        """The numbers of the chosen mode on the shown cells of a panel."""
        shown = self.panels[panel]
        mode = self._mode(shown)
        return mode.numbers(shown.values(mode.of))

    @property
    def data(self) -> dict[str, Any]:
        """Title, mode and facts, and for each panel its tables of numbers by mode."""
        panels = [panel_data(panel, modes_of(panel.layout, self.cache)) for panel in self.panels]
        return {"title": self.title, "mode": self.mode, "buffer": self.buffer, "facts": list(self.facts), "panels": panels}

    def __str__(self) -> str:
        """A grid of numbers for small tiles; for large ones how many cells each number has."""
        lines = [f"{self.title}: {self.mode} of each cell", *self.facts]
        for i, panel in enumerate(self.panels):
            lines.append(_headline(panel))
            numbers = self.numbers(i)
            lines += _grid(numbers) if numbers.size <= ASCII_CELLS else _summary(numbers, self._mode(panel))
            lines += [line for line in (panel.sampling, panel.caption) if line]
        return "\n".join(lines)

    def scene(self) -> Scene:
        """The panels side by side, with row and column numbers, captions and a legend of the colours."""
        marks, width, height = draw_panels(self.title, [(p, self._mode(p)) for p in self.panels], self.facts, self.mode)
        return Scene(width, height, marks, title=f"{self.title}, coloured by {self.mode}", text=str(self))

    def live(self) -> dict[str, Any]:
        """For static/layout.js: each panel's numbers as differences, packed; the browser colours, lights and zooms."""
        scene = self.scene()
        plain = replace(scene, marks=tuple(replace(m, words=()) if isinstance(m, Cells) else m for m in scene.marks))  # the module writes the words
        return {
            "module": "layout",
            "title": self.title,
            "text": str(self),
            "scene": plain.to_json(),
            "details": {},
            "mode": self.mode,
            "modes": [{"name": m.name, "of": m.of, "div": m.div, "mod": m.mod, "meaning": m.meaning} for m in self.modes],
            "facts": list(self.facts),
            "buffer": self.buffer,
            "line": self.span.where.rpartition(":")[0] if self.span else "",
            "panels": [_live_panel(panel) for panel in self.panels],
        }


def layout_view(
    what: Any,
    buffer: str = "",
    *,
    by: str = "",
    operand: str = "",
    machine: Machine | None = None,
    cache: CacheShape | None = None,
    dims: Mapping[str, int] | None = None,
) -> LayoutView:
    """A view of a layout, of an instruction, or of a buffer of a kernel.

    Args:
        what: a TileLayout, an Atom, a BufferLayout, or a kernel.
        buffer: which buffer of the kernel; "" takes the first that is on chip.
        by: the colouring; "" takes the most telling one.
        operand: one operand of an atom; "" shows all, and a thread lights up in all of them.
        machine: whose layouts of the kernel; a CPU's L1 gives lines and sets.
        cache: the cache to count lines and sets by, if not the machine's L1.
    Raises: KeyError for a buffer or operand that is not there, ValueError for a colouring that this layout does not have.
    """
    cpu = machine if machine is not None and not machine.is_gpu else None
    lines = cache or (l1_of(cpu) if cpu is not None else None)
    match what:
        case TileLayout():
            panel = Panel(what.name, what)
            facts = (*(x for x in (what.formula(), what.note) if x and x != "a table"), *_cache_facts(what, lines))
            return _view(what.name, (panel,), lines, by, facts)
        case Atom():
            return _atom_view(what, operand, lines, by)
        case BufferLayout():
            return _buffer_view(what, lines, by)
        case _:
            found = layout_of(what, buffer, machine, dims=dims) if buffer else _first_on_chip(what, machine, dims)
            if machine is None and lines is None and not isinstance(getattr(what, "executable", what), LayoutProvider):
                lines = CPU_LINES
            return _buffer_view(found, lines, by)


def sharing_view(kernel: Any, buffer: str, *, machine: Machine | None = None, dims: Mapping[str, int] | None = None, blocks: int = 64) -> LayoutView:
    """A tensor argument coloured by the block that writes each cell; cells whose cache line another block writes too are outlined.

    Raises: KeyError for a buffer that no block writes.
    """
    cache = l1_of(machine) if machine is not None and not machine.is_gpu else CPU_LINES
    tile = writers(kernel, buffer, dims, blocks=blocks)
    shared = [s for s in shared_lines(kernel, dims, line_bytes=cache.line_bytes, blocks=blocks) if s.buffer == buffer]
    panel = Panel(buffer, tile)
    owner, lines = panel.values("owner"), panel.values("address") // cache.line_bytes
    crowded = false_sharing(lines[owner >= 0] * cache.line_bytes, owner[owner >= 0], cache.line_bytes)
    rows, columns = panel.shown
    spots = np.argwhere(np.isin(lines, np.array(crowded, dtype=np.int64)) & (owner >= 0))[:_MOST_LIT]
    lit = tuple((int(rows[r]), int(columns[c])) for r, c in spots)
    count = sum(s.lines for s in shared)
    fact = f"written by {tile.holders} blocks; {count} lines of {cache.line_bytes} bytes have more than one writer" + (": outlined" if lit else "")
    view = LayoutView((replace(panel, lit=lit),), "block", f"{buffer} by block", cache, (fact,), buffer)
    return replace(view, span=shared[0].span if shared else None)


_MOST_LIT = 2048
_LINE = 90  # characters
CPU_LINES = CacheShape("L1", 64, 64, 12, "a core with 48 KiB; give machine=... for another")


def _first_on_chip(kernel: Any, machine: Machine | None, dims: Mapping[str, int] | None) -> BufferLayout:
    found = layouts_of(kernel, machine, dims=dims)
    if not found:
        raise KeyError("the kernel has no buffer with known dims")
    return next((b for b in found if b.role not in ("argument",)), found[0])


def _buffer_view(found: BufferLayout, cache: CacheShape | None, by: str) -> LayoutView:
    facts = (*_about(found), *_cache_facts(found.layout, cache))
    has_place = found.layout.place is not None
    own = {"accumulators": found.layout.slot_name, "scratch memory": found.layout.owner_name}.get(found.role, "")
    chosen = by or own or (("line" if cache is not None else "bank") if has_place else "")
    view = _view(found.buffer, (Panel(found.buffer, found.layout),), cache, chosen, facts)
    return replace(view, buffer=found.buffer.partition(" ")[0], span=found.span)


def _about(found: BufferLayout) -> list[str]:
    """What is to be said of a buffer, in lines that a picture has room for."""
    first, *rest = found.why.split("; ")
    lines = [f"{found.role}, {found.dtype}{list(found.shape)}; {found.source}: {first}"]
    for part in rest:
        fits = len(lines[-1]) + len(part) < _LINE
        lines[-1:] = [f"{lines[-1]}; {part}"] if fits else [lines[-1], part]
    return lines


def _cache_facts(layout: TileLayout, cache: CacheShape | None) -> tuple[str, ...]:
    if layout.place is None or cache is None:
        return ()
    return (f"{cache.name}: {cache.sets} sets of {cache.ways} lines of {cache.line_bytes} bytes; assumed from {cache.source}",)


def _atom_view(atom: Atom, operand: str, cache: CacheShape | None, by: str) -> LayoutView:
    """A product as it is drawn on paper: B above C, A to the left of C."""
    spots = {"A": (1, 0), "B": (0, 1), "C": (1, 1), "src": (0, 0), "dst": (0, 1)}
    names = {"A": "A (M x K)", "B": "B (K x N)", "C": "C (M x N)", "src": "from", "dst": "to"}
    layouts = {operand: atom[operand]} if operand else dict(atom.operands)
    panels = tuple(Panel(names[k], layout, (0, 0) if operand else spots[k], caption=layout.note) for k, layout in layouts.items())
    own = next((p.layout for p in panels if p.layout.owner is not None), panels[0].layout)
    chosen = by or modes_of(own, cache)[0].name
    return LayoutView(panels, chosen, atom.name, cache, () if operand else (atom.instruction,))


def _view(title: str, panels: tuple[Panel, ...], cache: CacheShape | None, by: str, facts: tuple[str, ...]) -> LayoutView:
    return LayoutView(panels, by or modes_of(panels[0].layout, cache)[0].name, title, cache, facts)


# ---------------------------------------------------------------------------------------------- as text
def _headline(panel: Panel) -> str:
    t = panel.layout
    where = f", {t.bytes} bytes" if t.place is not None else ""
    held = f", {t.holders} {t.owner_name}s" if t.owner is not None else ""
    return f"{panel.title}: {t.rows} x {t.columns} of {t.bits} bits{where}{held}"


def _grid(numbers: Array) -> list[str]:
    width = max(len(str(int(numbers.max()))), len(str(numbers.shape[1] - 1))) + 2
    left = max(len(str(numbers.shape[0] - 1)), 3)
    head = " " * left + " " + "".join(f"{c:>{width}}" for c in range(numbers.shape[1]))
    return [head, *(f"{r:>{left}} " + "".join(f"{n if n >= 0 else '.':>{width}}" for n in row) for r, row in enumerate(numbers.tolist()))]


def _summary(numbers: Array, mode: Mode) -> list[str]:
    found, counts = np.unique(numbers[numbers >= 0], return_counts=True)
    if not len(found):
        return [f"  no cell has a {mode.name}"]
    cells = f"{counts.min()} cells each" if counts.min() == counts.max() else f"{counts.min()} to {counts.max()} cells each"
    first = ", ".join(map(str, numbers[0, :16].tolist()))
    down = ", ".join(map(str, numbers[:16, 0].tolist()))
    return [
        f"  {len(found)} different {mode.name}s ({found[0]} to {found[-1]}), {cells}",
        f"  along row 0: {first}{' ...' if numbers.shape[1] > 16 else ''}",
        f"  down column 0: {down}{' ...' if numbers.shape[0] > 16 else ''}",
    ]


# ---------------------------------------------------------------------------------------------- for the browser
def _live_panel(panel: Panel) -> dict[str, Any]:
    t = panel.layout
    rows, columns = panel.shown
    return {
        "title": panel.title,
        "rows": len(rows),
        "columns": len(columns),
        "steps": list(panel.steps),
        "bits": t.bits,
        "spot": list(panel.spot),
        "lit": [list(cell) for cell in panel.lit],
        "caption": panel.caption,
        "sampling": panel.sampling,
        "owner_name": t.owner_name,
        "slot_name": t.slot_name,
        **{of: pack(panel.values(of)) for of in ("address", "owner", "slot") if panel.has(of)},
    }


def pack(values: Array) -> str:
    """int32 differences from cell to cell, row after row, packed with zlib and base64: regular patterns shrink to little."""
    flat = np.diff(values.ravel(), prepend=0).astype("<i4")
    return base64.b64encode(zlib.compress(flat.tobytes(), 6)).decode("ascii")
