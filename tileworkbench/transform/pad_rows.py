"""Arrays that products read often, and whose rows lie badly for the tensor copy engine, are copied first to memory where they lie well (sm_90a).

Before:  launch blocks (17, 33): for k in pipelined(65): copy a <- A[..] (rows of 8194 bytes); copy b <- ..; gemm a b acc
After:   allocate A_rows: 4097 x 4160
         launch blocks (4097): A_rows[row, j] = A[row, j] for j < 4160, 0 past the end
         launch blocks (17, 33): for k in pipelined(65): copy a <- A_rows[..]; ...

The engine takes rows that begin at multiples of 16 bytes. Threads would have to read others element by element, once for every block that needs
them; so they do it once for all blocks. Nothing is gained where few blocks read an array, or little is read in all, and none is copied where one of
them stays as it is.

Of a row that begins at another multiple than of 128 bytes, each piece of a tile lies in two lines of L2, which counts both. On an H200 products of
1000 x 3000 x 5000 take 47 us with whole lines, 55 where the rows of A straddle them, 62 for those of B and 80 for both (December 2026): 0.1225 us for
each line that one of 128 blocks asks for in a turn of 79, whatever else they do. So copies have rows of whole lines, and such an array is copied too
if that costs clearly less than what it asks of L2 twice.

Requires: forms of tiles.  Preserves: launches that would not be specialised, arrays that they write or of unknown size, and
copies that the engine cannot do for another reason.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from ..analysis.access import static_strides
from ..analysis.alike import Alike
from ..analysis.tensor_copies import PIECE, tensor_copies
from ..analysis.tile_forms import form_of
from ..analysis.uses import uses
from ..base.dtypes import INDEX
from ..ir.build import cast, index
from ..ir.explicit import is_explicit
from ..ir.expr import Buffer, Const, Expr, Load
from ..ir.lowered import AllocateGlobal
from ..ir.node import Node, replace, rewrite
from ..ir.remark import Remark
from ..ir.stmt import Body, Copy, For, If, Kernel, Launch, ParallelFor, PipelinedFor, Region, Stmt, Store
from .load_for_cluster import rank_of
from .names import Names

LEAST_READS = 4  # of each element, by all blocks together
LEAST_BYTES = 16 << 20  # that all blocks read: a launch of its own costs as much time as some megabytes
LINE = 128  # bytes of L2
LINES_A_NS = 81.0  # that L2 serves all blocks together. Measured, as above
COPIED_A_NS, START_NS = 2150.0, 2000.0  # bytes of an array, read and written at the speed of memory; and a launch. Measured on an H200
CLEARLY = 1.5
_THREADS = 256


def pad_rows(kernel: Kernel, arch: int) -> Kernel:
    """Return `kernel` with copies of arrays whose rows lie badly, on sm_90a."""
    if arch != 90:
        return kernel
    names = Names(kernel)
    made: list[AllocateGlobal] = []

    def change(node: Node) -> Node | tuple[Node, ...]:
        return _launch(node, names, made) if isinstance(node, Launch) else node

    out = rewrite(kernel, change)
    return replace(out, body=(*made, *out.body)) if made else kernel


def _launch(launch: Launch, names: Names, made: list[AllocateGlobal]) -> Node | tuple[Node, ...]:
    if launch.threads_used or is_explicit(launch):
        return launch
    old, allocated, before = launch, list[AllocateGlobal](), list[Stmt]()
    written = {b.root for b in uses(launch.body).written}
    for array in dict.fromkeys(c.src.buffer for c, _ in _copies(launch.body, 1) if c.src.buffer.root not in written and _lies_badly(c, launch)):
        whole, is_odd = _bytes(array), _row_bytes(array) % PIECE != 0
        if not is_odd and not _is_worth_lines(array, launch):
            continue
        reads = [_bytes_of(c) * turns for c, turns in _copies(launch.body, 1) if c.src.buffer == array]
        blocks = prod(_number(e) for e in launch.grid)
        if is_odd and sum(reads) * blocks < max(LEAST_READS * whole, LEAST_BYTES):
            return old  # threads would copy this one, and set the pace
        per_line = LINE * 8 // array.type.bits
        columns = -(-array.static_shape()[-1] // per_line) * per_line
        rows = Buffer(names.fresh(f"{array.name}_rows"), (array.shape[0], index(columns)), array.type, "global")
        moved = _reading(launch, array, rows)
        found = tensor_copies(moved).found
        if not all(id(c) in found for c, _ in _copies(moved.body, 1) if c.src.buffer == rows):
            return old
        allocated.append(AllocateGlobal(rows, span=array.span))
        before.append(_copied(array, rows, names, launch))
        begin = PIECE if is_odd else LINE
        said = Remark(
            f"{array.name} is copied first: blocks read it often, and its rows do not begin at multiples of {begin} bytes", span=launch.span
        )
        launch = replace(moved, remarks=(*moved.remarks, said))
    made += allocated
    return (*before, launch) if before else launch


def _copies(body: Body, turns: int) -> Iterator[tuple[Copy, int]]:
    """Copies from global memory into shared tiles, and how often each runs at most; 0 where nobody knows."""
    for stmt in body:
        match stmt:
            case Copy(src, dst) if src.buffer.scope == "global" and dst.buffer.scope == "shared":
                yield stmt, turns
            case For(_, start, stop, inside) | PipelinedFor(_, start, stop, inside):
                yield from _copies(inside, turns * max(0, _number(stop) - _number(start)) if isinstance(start, Const) else 0)
            case If(_, then, other):
                yield from _copies((*then, *other), turns)
            case _:
                pass


def _lies_badly(copy: Copy, launch: Launch) -> bool:
    """Whether rows of a matrix that a product's tile is filled from begin anywhere."""
    array = copy.src.buffer
    steps = static_strides(array)
    if array.rank != 2 or array.view_of is not None or array.type.bits % 8 or steps is None or not all(isinstance(d, Const) for d in array.shape):
        return False
    is_off = steps[0] * array.type.bits // 8 % LINE != 0
    return is_off and steps[1] == 1 and array.safe_value in (None, 0) and form_of(launch.forms, copy.dst.buffer) is not None


def _is_worth_lines(array: Buffer, launch: Launch) -> bool:
    """Whether what all blocks ask of L2 twice takes clearly longer than a copy of the array."""
    alike = Alike(launch)
    asked = 0.0
    for copy, turns in _copies(launch.body, 1):
        if copy.src.buffer == array:
            shared = rank_of(launch) is not None and all(alike.is_alike(start) for start in copy.src.starts)
            asked += _bytes_of(copy) * turns / (launch.cluster_size if shared else 1)
    twice = asked * prod(_number(e) for e in launch.grid) / LINE
    return twice / LINES_A_NS > CLEARLY * (_bytes(array) / COPIED_A_NS + START_NS)


def _reading(launch: Launch, array: Buffer, rows: Buffer) -> Launch:
    """`launch` with copies into shared tiles from `rows` in place of `array`."""

    def change(node: Node) -> Node:
        if isinstance(node, Copy) and node.src.buffer == array and node.dst.buffer.scope == "shared":
            return replace(node, src=Region(rows, node.src.starts, node.src.extents, span=node.src.span))
        return node

    return rewrite(launch, change)


def _copied(array: Buffer, rows: Buffer, names: Names, launch: Launch) -> Launch:
    """Each block copies a row; reads past its end give 0."""
    row, column = names.var("row"), names.var("column")
    body = ParallelFor((column,), (rows.shape[1],), (Store(rows, (row, column), Load(array, (row, column)), span=launch.span),), span=launch.span)
    return Launch((cast(array.shape[0], INDEX),), (row,), (_THREADS,), (), (), (body,), span=launch.span)


def _row_bytes(array: Buffer) -> int:
    steps = static_strides(array)
    return steps[0] * array.type.bits // 8 if steps is not None else 0


def _bytes(buffer: Buffer) -> int:
    return prod(buffer.static_shape()) * buffer.type.bits // 8


def _bytes_of(copy: Copy) -> int:
    return prod(_number(e) for e in copy.src.extents) * copy.src.buffer.type.bits // 8


def _number(e: Expr) -> int:
    return int(e.value) if isinstance(e, Const) else 0
