"""A thread-level launch becomes a kernel function: thread indices are asked of the hardware, loops are C's, tiles lie at offsets of shared memory.

Before:  launch grid(8) threads(128) tx: for r in unroll(0, 4): ...
After:   grid (8) x 128 threads, shared [s at 0]: let tx = twb_thread_x(); var x_r[4]; for r in 0..4 unrolled: ...

A view has the place of the buffer that it views. `T.annotate_min_blocks_per_sm` bounds the registers of a thread.

Requires: flat accesses, no tile operations.  Preserves: everything else.
"""

from __future__ import annotations

from math import prod

from ..analysis.uses import uses, views
from ..base.dtypes import INDEX, DType
from ..base.errors import CapacityError
from ..ir.build import cast
from ..ir.device import DeviceValue
from ..ir.expr import Const
from ..ir.lowered import Declare, Grid, LibraryCall, Loop, Tile
from ..ir.node import Node, replace, rewrite, walk
from ..ir.stmt import For, Kernel, Launch, Let, PipelinedFor, Stmt
from .names import Names, with_fixed_end
from .share_tiles import ALIGN, alignment_of
from .stay_on_chip import KIND as BLOCKS

MOST_THREADS = 2048  # of a multiprocessor. Source: CUDA C++ Programming Guide, compute capability 8.0 and 9.0


def place_threads(kernel: Kernel) -> Kernel:
    """Return `kernel` with a `Grid` for every `Launch`."""
    count = len(kernel.launches)
    numbers, names = iter(range(count)), Names(kernel)

    def change(node: Node) -> Node | tuple[Node, ...]:
        match node:
            case For(var, start, stop, body, step, kind):
                by = cast(DeviceValue("twb_blocks_x", (), DType("uint32")), INDEX) if kind == BLOCKS else None
                return with_fixed_end(Loop(var, start, stop, body, step, unroll=kind == "unroll", by=by, span=node.span), names)
            case PipelinedFor(var, start, stop, body):
                return with_fixed_end(Loop(var, start, stop, body, span=node.span), names)
            case Launch():
                number = next(numbers)
                return _grid(node, kernel.name if count == 1 else f"{kernel.name}_{number}")
            case _:
                return node

    return rewrite(kernel, change)


def _grid(launch: Launch, name: str) -> Grid:
    own = {n.buffer for n in walk(launch) if isinstance(n, Declare)}
    buffers = {b for b in uses(launch.body).buffers if b not in own}
    used = {b.root for b in buffers}
    tiles: list[Tile] = []
    head: list[Stmt] = [
        Let(var, cast(LibraryCall(f"twb_thread_{axis}", (), DType("int32")), INDEX)) for var, axis in zip(launch.thread_vars, "xyz", strict=False)
    ]
    places = {p.buffer: p.offset for p in launch.places}
    offset = max((p.end for p in launch.places), default=0)
    for buffer in launch.allocs:
        if buffer.view_of is not None or buffer not in used:
            continue
        if not all(isinstance(d, Const) for d in buffer.shape):
            raise CapacityError(f"{buffer.name} has a symbolic dim", span=buffer.span, hint="on-chip buffers need constant shapes")
        if buffer.scope in ("local", "var"):
            head.append(Declare(buffer, span=buffer.span))
            continue
        if buffer in places:
            tiles.append(Tile(buffer, places[buffer]))
            continue
        align = alignment_of(buffer, launch.forms)
        offset = -(-offset // align) * align
        tiles.append(Tile(buffer, offset))
        offset += -(-buffer.static_bytes() // ALIGN) * ALIGN
    for view in views(buffers):  # each behind what it views
        if view.scope in ("local", "var"):
            head.append(Declare(view, span=view.span))
        else:
            tiles.append(Tile(view, 0))
    body = (*head, *launch.body)
    grid = Grid(name, launch.block_vars, launch.grid, tuple(tiles), body, offset, threads=launch.threads, span=launch.span)
    return replace(grid, views=launch.views, remarks=launch.remarks, cluster=launch.cluster, together=_together(launch))


def _together(launch: Launch) -> int:
    """How many blocks of a launch its author wants on a multiprocessor at least (0: not said), of those whose threads fit."""
    return min(int(dict(launch.hints).get("annotate_min_blocks_per_sm", 0)), MOST_THREADS // prod(launch.threads))
