"""Layouts of a kernel that was compiled for a GPU, read from its last two programs: nothing here is a guess.

Tiles in registers lie as `Launch.held` says, which the pass that made registers of them wrote down. Tiles in shared memory lie at the offsets that
the text has, with the swizzle, strides or order by which it counts their elements. A tile with several stages is shown by its first: the others are
alike, `stage_bytes` apart. What the compiler made beside the author's tiles (barriers, stages of results) is named too: the map of shared memory is
whole.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ..ir.device import DeviceCall, DeviceValue
from ..ir.expr import AddressOf, Buffer, Const
from ..ir.lowered import Address, Grid, Tile
from ..ir.node import walk
from ..ir.stmt import Kernel, Launch
from ..ir.tile_form import HeldTile, TileForm, TileOrder
from ..layout.algebra import Array, ComposedLayout, Layout, Table, Xor
from ..layout.fragments import Fragment, holders
from ..layout.tile_layout import TileLayout, linear, swizzled
from .placement import BufferLayout
from .tile_accesses import fold

EXACT = "exact"
# device functions, by how their names begin: what touches the tile, and what it does there
_UNITS = {
    "twb_tma_load": ("tensor map", "a tensor map{} fills it"), "twb_cp_async": ("cp.async", "cp.async fills it"),
    "twb_ldmatrix": ("ldmatrix", "ldmatrix reads it"), "twb_descriptor": ("wgmma", "wgmma reads it in place"),
    "twb_stmatrix": ("stmatrix", "stmatrix writes it"), "twb_tma_store": ("tensor map", "a tensor map{} takes it away"),
    "twb_tma_reduce": ("tensor map", "a tensor map{} adds it up in memory"), "twb_bulk": ("bulk", "bulk copies move it"),
}  # fmt: skip


def cuda_layouts(program: Kernel, spread: Kernel, placed: Kernel) -> Iterator[BufferLayout]:
    """Every on-chip tile of a compiled kernel: the author's in the order of allocation, then what the compiler made.

    Args:
        program: what the author wrote.
        spread: one thread's program, whose launches say how tiles lie (before `place_threads`).
        placed: the same with offsets in shared memory (after it).
    """
    authors = {b.name: b for launch in program.launches for b in launch.allocs if b.view_of is None}
    order = list(authors)
    found: list[BufferLayout] = []
    for launch, grid in zip(spread.launches, (n for n in walk(placed) if isinstance(n, Grid)), strict=True):
        found += [_held(tile, authors, grid.name) for tile in launch.held if tile.fragment is not None]
        kept = {tile.tile: tile.why for tile in launch.held if tile.fragment is None}
        touched = _touched(grid)
        for tile in grid.tiles:
            if tile.buffer.view_of is None:
                found.append(_shared(tile, launch, authors, kept, touched.get(tile.buffer, ()), grid.name))
    yield from sorted(found, key=lambda b: order.index(b.buffer) if b.buffer in authors else len(order))


def author_of(buffer: Buffer, authors: dict[str, Buffer]) -> Buffer | None:
    """The tile of the author's that `buffer` is or was made from: of its name, or of its name before the number that a pass put behind it.

    A pass that makes another tile of one keeps the place in the source; so the two must have that in common.
    """
    if buffer.name in authors:
        return authors[buffer.name]
    stem = buffer.name.rstrip("0123456789")
    found = authors.get(stem[:-1]) if stem.endswith("_") else None
    return found if found is not None and found.span == buffer.span and found.type == buffer.type else None


def _held(held: HeldTile, authors: dict[str, Buffer], kernel: str) -> BufferLayout:
    tile, fragment = held.tile, held.fragment
    assert fragment is not None
    known = author_of(tile, authors)
    name = known.name if known is not None else tile.name
    layout = fragment_layout(fragment, tile.type.bits, name, held.first_thread)
    made = "" if known is not None else "made by the compiler; "
    why = f"{made}{held.why}" + (f"; {layout.note}" if layout.note else "")
    return BufferLayout(name, "fragment", str(tile.type), fragment.shape, layout, EXACT, why, tile.span, launch=kernel)


def fragment_layout(fragment: Fragment, bits: int, name: str = "fragment", first_thread: int = 0) -> TileLayout:
    """A tile in registers: for each cell the first thread that holds it and its register there. `first_thread` is added to the threads.

    >>> from tileworkbench.layout.fragments import mma_c
    >>> fragment_layout(mma_c(1, 1, 16, 8), 32).at(8, 3)
    {'thread': 1, 'register': 3}
    """
    owner, slot = (x.reshape(fold(fragment.shape)) for x in holders(fragment))
    note = f"{fragment.copies} threads hold each cell, the first is named" if fragment.copies > 1 else ""
    owner = np.where(owner < 0, -1, owner + first_thread)
    return TileLayout(name, *owner.shape, bits, owner=Table.of(owner), slot=Table.of(slot), note=note)


# ---------------------------------------------------------------------------------------------- shared memory
@dataclass(frozen=True, slots=True)
class _Rule:
    """How a tile counts its elements."""

    form: TileForm | None
    order: TileOrder | None
    strides: tuple[int, ...]


def _shared(tile: Tile, launch: Launch, authors: dict[str, Buffer], kept: dict[Buffer, str], touched: tuple[str, ...], kernel: str) -> BufferLayout:
    buffer = tile.buffer
    author = author_of(buffer, authors)
    shape = buffer.static_shape()
    stages = shape[0] if author is not None and shape[1:] == author.static_shape() and len(shape) == author.rank + 1 else 1
    own = shape[1:] if stages > 1 or (author is not None and len(shape) == author.rank + 1) else shape
    form = next((f for f in launch.forms if f.buffer == buffer), None)
    order = next((o for o in launch.orders if o.buffer == buffer), None)
    strides = [int(s.value) for s in buffer.strides or () if isinstance(s, Const)]
    rule = _Rule(form, order, tuple(strides[len(shape) - len(own) :]) if buffer.strides is not None else ())
    name = author.name if author is not None else buffer.name
    layout = _layout(rule, own, buffer.type.bits, name, tile.offset)
    is_barrier = "twb_mbarrier_init" in touched
    units, does = _by(() if is_barrier else touched, form)
    role = "barriers" if is_barrier else (author.scope if author is not None else "scratch")
    apart = buffer.static_bytes() // stages if stages > 1 else 0
    parts = [
        "made by the compiler" if author is None else "",
        f"in shared memory, since {kept[buffer]}" if buffer in kept else "",
        "" if is_barrier else _how(rule, layout),
        *does,
        f"{stages} stages, {apart} bytes apart" if stages > 1 else "",
        f"at byte {tile.offset}",
    ]
    why = "; ".join(part for part in parts if part)
    return BufferLayout(
        name, role, str(buffer.type), own, layout, EXACT, why, buffer.span, stages=stages, stage_bytes=apart, units=units, launch=kernel
    )


def _layout(rule: _Rule, shape: tuple[int, ...], bits: int, name: str, base: int) -> TileLayout:
    rows, columns = fold(shape)
    if rule.form is not None:
        if len(shape) == 2:
            return swizzled(rows, columns, bits=bits, span=rule.form.row_bytes, name=name, base=base)
        one = swizzled(*shape[-2:], bits=bits, span=rule.form.row_bytes)
        inner = one.addresses() * 8 // bits
        tiles = np.arange(rows // shape[-2])[:, None, None] * (shape[-2] * columns)
        return TileLayout(name, rows, columns, bits, Table.of((tiles + inner).reshape(rows, columns)), base)
    if not rule.strides:
        return linear(rows, columns, bits=bits, name=name, base=base)
    if len(shape) == 2:
        place = Layout((rows, columns), rule.strides)
        if rule.order is not None:
            place = ComposedLayout(Xor(rule.order.bits, rule.order.base, rule.order.shift), place)
        return TileLayout(name, rows, columns, bits, place, base)
    return TileLayout(name, rows, columns, bits, Table.of(_offsets(shape, rule.strides).reshape(rows, columns)), base)


def _offsets(shape: tuple[int, ...], strides: tuple[int, ...]) -> Array:
    grids = np.meshgrid(*(np.arange(n) for n in shape), indexing="ij")
    return np.asarray(sum(g * s for g, s in zip(grids, strides, strict=True)), dtype=np.int64)


def _how(rule: _Rule, layout: TileLayout) -> str:
    if rule.form is not None:
        return f"the {rule.form.row_bytes}-byte swizzle"
    if rule.order is not None:
        return f"row after row, then {Xor(rule.order.bits, rule.order.base, rule.order.shift)} of element offsets, as annotated"
    if rule.strides:
        return f"strides of {', '.join(map(str, rule.strides))} elements, as annotated or taken"
    return "row after row"


def _touched(grid: Grid) -> dict[Buffer, tuple[str, ...]]:
    """Root buffer -> the device functions that get an address in it."""
    found: dict[Buffer, dict[str, None]] = {}
    for call in (n for n in walk(grid) if isinstance(n, (DeviceCall, DeviceValue))):
        for arg in (n for a in call.args for n in walk(a)):
            if isinstance(arg, (Address, AddressOf)):
                found.setdefault(arg.buffer.root, {})[call.name] = None
    return {buffer: tuple(names) for buffer, names in found.items()}


def _by(touched: tuple[str, ...], form: TileForm | None) -> tuple[tuple[str, ...], list[str]]:
    """The units that touch a tile, and a phrase for each thing that they do."""
    found = [_UNITS[start] for start in _UNITS if any(name.startswith(start) and name != "twb_bulk_commit" for name in touched)]
    same = " of the same swizzle" if form is not None else ""
    return tuple(dict.fromkeys(unit for unit, _ in found)), [words.format(same) for _, words in found]
