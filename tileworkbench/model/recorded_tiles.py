"""How warps did touch each shared tile: requests that the emulator recorded, as accesses of cells.

An access of cells is the same for every layout, so it can be laid on another one: the finder asks which layout would have served these very requests
best, the wavefront view shows one on several. Requests of one line, kind and width that happened equally often are one `Access`.

Counted by the phase rule: loads, stores, atomics and cp.async as they are; `ldmatrix` and `stmatrix` as 16 bytes of each lane, eight lanes a phase.
Not counted: `wgmma` and the tensor copy engine, which read and write tiles past the threads; how they use banks is not documented, and the layouts
that they take are their own swizzles. A tile that they touch says so in its notes, and `find` tries only those swizzles for it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ..base.span import Span
from ..emulator.requests import SharedRequest, SharedRequests
from ..layout.access import Access
from ..layout.algebra import Array
from .placement import BufferLayout
from .tile_accesses import AccessedTile

_WORDS = {
    "load": "reads", "store": "writes", "atomic": "atomics", "cp.async": "cp.async writes", "ldmatrix": "ldmatrix reads",
    "stmatrix": "stmatrix writes",
}  # fmt: skip
_RIGID = ("ldmatrix", "stmatrix")
_UNCOUNTED = {
    "wgmma": "wgmma reads it past the threads: its use of banks is not documented, and not counted",
    "tensor map": "the tensor copy engine moves it past the threads, which is not counted",
    "bulk": "bulk copies move it past the threads, which is not counted",
}
_ASKED = "cp.async fills it row after row or in permuted rows; with another layout threads fill it by plain stores, and not ahead"
_FIXED = ("wgmma", "tensor map", "ldmatrix", "stmatrix")  # units that take no layouts but their own
_OF_UNITS = ("none", "TMA swizzle")


def recorded_tiles(layouts: Sequence[BufferLayout], found: SharedRequests, spans: Mapping[tuple[str, int], Span]) -> tuple[AccessedTile, ...]:
    """Every tile in shared memory of `layouts` with the accesses of `found`. `spans`: (file's name, line) -> the author's line."""
    tiles = [b for b in layouts if b.layout.place is not None and b.role in ("shared", "fragment", "scratch")]
    of: dict[str, list[SharedRequest]] = {b.buffer: [] for b in tiles}
    notes: dict[str, list[str]] = {b.buffer: [_UNCOUNTED[u] for u in b.units if u in _UNCOUNTED] + [_ASKED] * ("cp.async" in b.units) for b in tiles}
    for request in found.made:
        owners = _owners(request, tiles)
        if owners:
            of[owners[0].buffer].append(request)
        for other in owners[1:]:
            notes[owners[0].buffer].append(f"shares its bytes with {other.buffer}: accesses of either are counted here")
    made = []
    for b in tiles:
        accesses, left = _accesses(b, of[b.buffer], spans)
        if left:
            notes[b.buffer].append(f"{left} requests are left out: their bytes are no neighbours in {b.buffer}")
        if found.left_out:
            notes[b.buffer].append(f"{found.left_out} requests of the run had patterns that there was no room for")
        t = b.layout.renamed("as compiled")
        kinds = _OF_UNITS if any(u in _FIXED for u in b.units) else ()
        made.append(
            AccessedTile(b.buffer, t.rows, t.columns, t.bits, accesses, tuple(dict.fromkeys(notes[b.buffer])), span=b.span, layout=t, kinds=kinds)
        )
    return tuple(made)


def _owners(request: SharedRequest, tiles: Sequence[BufferLayout]) -> list[BufferLayout]:
    """The tiles whose bytes the request's pointer may be in; those that are exactly its tile, if there are such."""
    inside = [b for b in tiles if b.layout.base <= request.low and request.high <= b.layout.base + _whole(b)]
    exact = [b for b in inside if (b.layout.base, b.layout.base + _whole(b)) == (request.low, request.high)]
    return exact or inside


def _whole(b: BufferLayout) -> int:
    return b.stage_bytes * b.stages if b.stages > 1 else b.layout.bytes


def _accesses(b: BufferLayout, requests: Sequence[SharedRequest], spans: Mapping[tuple[str, int], Span]) -> tuple[tuple[Access, ...], int]:
    """The accesses, in the order of their lines, and how many requests are no access of cells."""
    cell_at = _inverse(b)
    groups: dict[tuple[str, int, str, int, int, bool], list[tuple[Array, Array]]] = {}
    left = 0
    for r in requests:
        cells = _cells(b, r, cell_at)
        if cells is None:
            left += r.times
            continue
        name, line = (r.line.file, r.line.line) if r.line is not None else ("", 0)
        groups.setdefault((name, line, r.kind, r.width, r.times, cells[2]), []).append(cells[:2])
    made: list[Access] = []
    for (name, line, kind, width, times, down), patterns in sorted(groups.items(), key=lambda item: item[0]):
        title = f"{_WORDS[kind]} at line {line}" if line else _WORDS[kind]
        same = sum(a.name.split(" (")[0] == title for a in made)
        rows, columns = (np.stack(part) for part in zip(*patterns, strict=True))
        access = Access.of(
            f"{title} ({same + 1})" if same else title, rows, columns, width * 8 // b.layout.bits, is_write=kind not in ("load", "ldmatrix"),
            why="recorded in an emulated run", is_rigid=kind in _RIGID, down=down,
        )  # fmt: skip
        made.append(access.at(spans.get((name, line)), times))
    return tuple(made), left


def _inverse(b: BufferLayout) -> Array:
    """Byte from the tile's start -> the number of the cell that begins there, row after row; -1 for no cell."""
    out = np.full(max(b.layout.bytes, b.stage_bytes) + 16, -1, dtype=np.int64)
    if b.layout.bits % 8 == 0:
        out[(b.layout.addresses() - b.layout.base).ravel()] = np.arange(b.layout.rows * b.layout.columns)
    return out


def _cells(b: BufferLayout, request: SharedRequest, cell_at: Array) -> tuple[Array, Array, bool] | None:
    """(rows, columns) of the lanes' first cells and whether the others are below it; None if they are no neighbours, or of several stages."""
    size, columns = b.layout.bits // 8, b.layout.columns
    if not size or request.width % size:
        return None
    at = np.array(request.addresses, dtype=np.int64)
    busy = at >= 0
    place = at - b.layout.base
    if b.stages > 1:
        if len(np.unique(place[busy] // b.stage_bytes)) != 1:
            return None
        place = place % b.stage_bytes
    place = np.where(busy, place, 0)
    if place.min() < 0 or place.max() >= len(cell_at) - 16:
        return None
    cells = np.stack([cell_at[place + step] for step in range(0, request.width, size)])[:, busy]
    first, steps = cells[0], np.arange(len(cells))[:, None]
    if (cells < 0).any():
        return None
    in_row = bool((cells == first + steps).all() and (first % columns + len(cells) <= columns).all())
    if not in_row and not (cells == first + steps * columns).all():
        return None
    rows, across = np.full((2, len(at)), -1, dtype=np.int64)
    rows[busy], across[busy] = first // columns, first % columns
    return rows, across, not in_row
