"""A launch becomes a `Grid`: its on-chip buffers get places in the core's scratch memory, its mutable scalars become declarations.

Before:  launch (bx, by) in grid(16, 8): alloc A_shared: shared float32[64, 32]; alloc n: var int32[1]
After:   grid (bx, by), tiles A_shared at 0, 8192 bytes: declare n

Tiles start at multiples of 64 bytes. A view has the place of the buffer that it views.
Requires: no tile operations.  Preserves: statements.
"""

from __future__ import annotations

from ..analysis.capacity import require_capacity
from ..analysis.uses import uses, views
from ..base.errors import CapacityError
from ..ir.expr import Buffer, Const
from ..ir.lowered import Declare, Grid, Tile
from ..ir.node import Node, rewrite, walk
from ..ir.stmt import Kernel, Launch, Stmt

_ALIGN = 64


def place_tiles(kernel: Kernel) -> Kernel:
    """Return `kernel` with a `Grid` for every `Launch`."""
    count = len(kernel.launches)
    numbers = iter(range(count))

    def change(node: Node) -> Node:
        if isinstance(node, Launch):
            number = next(numbers)
            return _grid(node, f"{kernel.name}_block" if count == 1 else f"{kernel.name}_block_{number}")
        return node

    return rewrite(kernel, change)


def _grid(launch: Launch, name: str) -> Grid:
    own = {n.buffer for n in walk(launch) if isinstance(n, Declare)}
    require_capacity(launch)
    buffers = {b for b in uses(launch.body).buffers if b not in own}
    used = {b.root for b in buffers}
    tiles: list[Tile] = []
    declared: list[Stmt] = []
    offset = 0
    for buffer in launch.allocs:
        if buffer.view_of is not None or buffer.root not in used:
            continue
        if buffer.scope == "var":
            declared.append(Declare(buffer, span=buffer.span))
            continue
        size = _bytes(buffer)
        tiles.append(Tile(buffer, offset))
        offset += -(-size // _ALIGN) * _ALIGN
    tiles += [Tile(view, 0) for view in views(buffers)]
    return Grid(name, launch.block_vars, launch.grid, tuple(tiles), (*declared, *launch.body), offset, span=launch.span)


def _bytes(buffer: Buffer) -> int:
    if not all(isinstance(d, Const) for d in buffer.shape):
        raise CapacityError(f"{buffer.name} has a symbolic dim", span=buffer.span, hint="on-chip buffers need constant shapes")
    return buffer.static_bytes()
