"""Tiles that are not needed at one time share bytes of shared memory.

Before:  launch: alloc a: float16[3, 64, 32]; b: float16[3, 32, 64]; c: float16[64, 64]; for k in pipelined(...): ...; copy c <- acc; copy C <- c
After:   the same, with places: a at 0, b at 12288, c at 0                                          (24576 bytes instead of 32768)

Tiles find places one after the other, the largest first: in the smallest gap between those that must be apart from it, else behind them. Where that
saves nothing, or tiles are so small that no block has to wait for memory, they keep the places of their order. spread_threads puts barriers between
uses of tiles that share bytes as between uses of one tile.

Requires: tile operations, forms, the versions of pipeline_copies.  Preserves: everything else.
"""

from __future__ import annotations

from math import prod

from ..analysis.liveness import Life, lives
from ..analysis.tile_forms import form_of
from ..ir.device import has_roles
from ..ir.explicit import is_explicit
from ..ir.expr import Buffer, Const
from ..ir.launches import rewrite_launches
from ..ir.node import replace
from ..ir.remark import Remark
from ..ir.stmt import Kernel, Launch
from ..ir.tile_form import TileForm
from ..ir.tile_place import TilePlace

ALIGN = 128  # bytes
FEW_BYTES = (
    96  # a thread: a multiprocessor has more for each of its 2048 threads. Source: CUDA C++ Programming Guide, compute capabilities 8.0 and 9.0
)


def share_tiles(kernel: Kernel) -> Kernel:
    """Return `kernel` with places of tiles that share bytes."""

    def change(node: Launch) -> Launch:
        if node.threads_used or node.places or is_explicit(node) or has_roles(node.body):
            return node  # tiles of warps with different tasks are all needed throughout
        return _shared(node)

    return rewrite_launches(kernel, change)


def alignment_of(tile: Buffer, forms: tuple[TileForm, ...]) -> int:
    """The bytes at whose multiples a tile may begin."""
    form = form_of(forms, tile)
    return ALIGN if form is None else form.alignment


def _shared(launch: Launch) -> Launch:
    found = {b: life for b, life in lives(launch).items() if all(isinstance(d, Const) for d in b.shape)}
    apart = 0
    for tile in found:
        apart = _up(apart, alignment_of(tile, launch.forms)) + _up(tile.static_bytes(), ALIGN)
    if apart <= FEW_BYTES * prod(launch.threads):
        return launch
    placed: dict[Buffer, int] = {}
    for tile in sorted(found, key=lambda b: -b.static_bytes()):
        placed[tile] = _place(tile, found, placed, alignment_of(tile, launch.forms))
    together = max((at + _up(tile.static_bytes(), ALIGN) for tile, at in placed.items()), default=0)
    if together >= apart:
        return launch
    places = tuple(TilePlace(tile, placed[tile]) for tile in found)
    said = Remark(f"tiles that are not needed at one time share {apart - together} of {apart} bytes of shared memory", span=launch.span)
    return replace(launch, places=places, remarks=(*launch.remarks, said))


def _place(tile: Buffer, found: dict[Buffer, Life], placed: dict[Buffer, int], align: int) -> int:
    """The place in the smallest gap that is large enough."""
    size = _up(tile.static_bytes(), ALIGN)
    taken = sorted((at, at + _up(b.static_bytes(), ALIGN)) for b, at in placed.items() if found[b].meets(found[tile]))
    free, gaps = 0, list[tuple[int, int]]()  # (bytes left over, place)
    for start, end in taken:
        at = _up(free, align)
        if at + size <= start:
            gaps.append((start - at - size, at))
        free = max(free, end)
    return min(gaps, default=(0, _up(free, align)))[1]


def _up(value: int, to: int) -> int:
    return -(-value // to) * to
