"""Arrays that products read often, and whose rows lie badly for the tensor copy engine, are copied first to memory where they lie well (sm_90a).

Before:  launch blocks (17, 33): for k in pipelined(65): copy a <- A[..] (rows of 8194 bytes); copy b <- ..; gemm a b acc
After:   allocate A_rows: 4097 x 4160
         launch blocks (4097): A_rows[row, j] = A[row, j] for j < 4160, 0 past the end
         launch blocks (17, 33): for k in pipelined(65): copy a <- A_rows[..]; ...

The engine takes rows that begin at multiples of 16 bytes. Threads would have to read others element by element, once for every block that needs
them; so they do it once for all blocks. Nothing is gained where few blocks read an array, or little is read in all, and none is copied where one of
them stays as it is.

Of a row that begins at another multiple than of 128 bytes, each piece of a tile lies in two lines of L2, which counts both (`analysis/l2_lines`). So
copies have rows of whole lines, and such an array is copied too if that costs clearly less than what it saves.

Requires: forms of tiles.  Preserves: launches that would not be specialised, arrays that they write or of unknown size, and
copies that the engine cannot do for another reason.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from ..analysis import l2_lines
from ..analysis.access import static_strides
from ..analysis.alike import Alike
from ..analysis.tensor_copies import PIECE, tensor_copies
from ..analysis.tile_forms import form_of
from ..analysis.uses import uses
from ..base.dtypes import INDEX
from ..ir.build import cast, index
from ..ir.explicit import is_explicit
from ..ir.expr import Buffer, Const, Expr, Load
from ..ir.launches import rewrite_launches
from ..ir.lowered import AllocateGlobal
from ..ir.node import Node, replace, rewrite
from ..ir.remark import Remark
from ..ir.stmt import Body, Copy, For, Gemm, If, Kernel, Launch, ParallelFor, PipelinedFor, Region, Stmt, Store
from .load_for_cluster import rank_of
from .names import Names

LEAST_READS = 4  # of each element, by all blocks together
LEAST_BYTES = 16 << 20  # that all blocks read: a launch of its own costs as much time as some megabytes
FLOP_A_NS = 757e3  # of 16-bit products, all multiprocessors of an H200 at the clock that power leaves
_THREADS = 256


def pad_rows(kernel: Kernel, arch: int) -> Kernel:
    """Return `kernel` with copies of arrays whose rows lie badly, on sm_90a."""
    if arch != 90:
        return kernel
    names = Names(kernel)
    made: list[AllocateGlobal] = []

    out = rewrite_launches(kernel, lambda node: _launch(node, names, made))
    return replace(out, body=(*made, *out.body)) if made else kernel


def _launch(launch: Launch, names: Names, made: list[AllocateGlobal]) -> Stmt | Body:
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
        per_line = l2_lines.LINE * 8 // array.type.bits
        columns = -(-array.static_shape()[-1] // per_line) * per_line
        rows = Buffer(names.fresh(f"{array.name}_rows"), (array.shape[0], index(columns)), array.type, "global")
        moved = _reading(launch, array, rows)
        found = tensor_copies(moved).found
        if not all(id(c) in found for c, _ in _copies(moved.body, 1) if c.src.buffer == rows):
            return old
        allocated.append(AllocateGlobal(rows, span=array.span))
        before.append(_copied(array, rows, names, launch))
        begin = PIECE if is_odd else l2_lines.LINE
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
    is_off = l2_lines.straddles(steps[0] * array.type.bits // 8)
    return is_off and steps[1] == 1 and array.safe_value in (None, 0) and form_of(launch.forms, copy.dst.buffer) is not None


def _is_worth_lines(array: Buffer, launch: Launch) -> bool:
    """Whether blocks wait for the lines that rows of `array` lie in twice."""
    blocks, alike = prod(_number(e) for e in launch.grid), Alike(launch)
    pieces, lines = 0.0, 0.0
    for copy, turns in _copies(launch.body, 1):
        shared = rank_of(launch) is not None and all(alike.is_alike(start) for start in copy.src.starts)
        asked = _bytes_of(copy) * turns * blocks / l2_lines.LINE / (launch.cluster_size if shared else 1)
        pieces += asked if copy.src.buffer == array else 0
        lines += asked * (l2_lines.STRADDLING if l2_lines.straddles(_row_bytes(copy.src.buffer)) else 1)
    return l2_lines.pays(_bytes(array), pieces, lines, _products_ns(launch.body, 1) * blocks)


def _products_ns(body: Body, turns: int) -> float:
    """What the matrix units of the whole chip take for the products of a block."""
    total = 0.0
    for stmt in body:
        match stmt:
            case Gemm(a, _, c):
                cells = prod(_number(e) for e in (*c.extents, *a.extents)) // max(1, _number(c.extents[-2]))
                total += 2 * cells * turns * a.buffer.type.bits / 16 / FLOP_A_NS
            case For(_, start, stop, inside) | PipelinedFor(_, start, stop, inside):
                total += _products_ns(inside, turns * max(0, _number(stop) - _number(start)) if isinstance(start, Const) else 0)
            case _:
                pass
    return total


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
