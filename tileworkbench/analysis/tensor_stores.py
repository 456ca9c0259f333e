"""Which tiles the tensor copy engine can bring from shared to global memory (sm_90), in which boxes, and why not the others.

A store, or an atomic sum, minimum or maximum of a whole tile. The engine writes beside the threads, past their view of memory, so the array is
touched by nothing else in the launch that the engine would have to be ordered with: nobody writes it, or what the caller may have passed as the
same array, and nobody reads it later.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from ..base.dtypes import DType
from ..ir.bodies import heads
from ..ir.build import index
from ..ir.explicit import TensorMove
from ..ir.expr import Buffer
from ..ir.node import Node
from ..ir.stmt import Atomic, Body, Copy, For, Gemm, If, Launch, PipelinedFor, Region, Stmt, While, is_whole, whole
from ..ir.tile_form import TensorView, TileForm
from .aliasing import Aliasing
from .fragments import is_grouped
from .tensor_moves import boxes_of
from .uses import uses

ROWS = 64  # of a piece: what a warp group has of each block of its sums
SPANS = (128, 64, 32)
LEAST_BYTES, LEAST_ROW = 2048, 32
KEPT_BYTES = 2048
"""Of shared memory, for what later steps need there: barriers, rows that reductions exchange."""
OTHERS = 40
"""Registers of a thread beside its fragments, at least."""
_ADDED = ("float16", "bfloat16", "float32", "int32", "uint32", "uint64")
_COMPARED = ("float16", "bfloat16", "int32", "uint32", "int64", "uint64")
REDUCED = {"add": _ADDED, "min": _COMPARED, "max": _COMPARED}
"""op -> the types that the engine combines. Source: PTX ISA, cp.reduce.async.bulk.tensor and cp.reduce.async.bulk."""


@dataclass(frozen=True, slots=True)
class Pieces:
    """A tile of `rows` by `columns`, in pieces of 64 rows by `width` columns, each a box of `view`."""

    view: TensorView
    rows: int
    columns: int
    width: int

    def each(self, groups: int) -> int:
        """How many of them each of `groups` warp groups has."""
        return self.rows // (ROWS * groups) * (self.columns // self.width)

    def size(self, dtype: DType) -> int:
        """Bytes of one."""
        return ROWS * self.width * dtype.bits // 8


def is_tile_reduction(stmt: Atomic) -> bool:
    """Whether the engine may do an atomic on a tile: it knows the operation, and nobody waits for it or wants an old value."""
    types = REDUCED.get(stmt.op, ())
    value, array = stmt.value, stmt.dst.buffer
    if not isinstance(value, Region) or stmt.result is not None or stmt.memory_order != "relaxed" or array.root.scope != "global":
        return False
    return str(array.type) in types and is_whole(value) and value.buffer.scope in ("shared", "fragment")


def source_of(stmt: Copy | Atomic) -> Region | None:
    """The tile that `stmt` brings to global memory, if it does: whole, from a fragment or a tile in shared memory."""
    tile = stmt.src if isinstance(stmt, Copy) else stmt.value
    if not isinstance(tile, Region) or tile.buffer.scope not in ("shared", "fragment") or stmt.dst.buffer.root.scope != "global":
        return None
    return tile if is_whole(tile) and (isinstance(stmt, Copy) or is_tile_reduction(stmt)) else None


def pieces_of(tile: Buffer, dtype: DType, dst: Region) -> Pieces | str:
    """How `tile`, as `dtype`, goes to `dst` from the registers of warp groups; or why it cannot."""
    rows, columns = tile.static_shape()
    size = dtype.bits // 8
    span = next((s for s in SPANS if columns * size % s == 0), 0)
    if tile.type != dtype and not (tile.type == "float32" and str(dtype) in ("float16", "bfloat16")) or dtype.bits not in (16, 32):
        return f"{tile.type} as {dtype} is not stored by matrices"
    if not span or columns * size < LEAST_ROW or rows % ROWS:
        return f"rows of {columns} elements are no whole pieces"
    staged = Buffer(tile.name, (index(rows), index(columns)), dtype, "shared")
    boxes = boxes_of(TensorMove(whole(staged), dst), (TileForm(staged, span),))
    if isinstance(boxes, str):
        return boxes
    box = list(boxes.view.box)
    box[boxes.down] = ROWS
    return Pieces(replace(boxes.view, box=tuple(box)), rows, columns, boxes.width)


def slots_of(pieces: Pieces, dtype: DType, groups: int, room: int) -> int:
    """How many pieces a stage in `room` bytes of shared memory has for each of `groups` warp groups: a divisor of those there are, 0 if none fits."""
    count = pieces.each(groups)
    return next((n for n in range(count, 0, -1) if count % n == 0 and n * groups * pieces.size(dtype) <= room), 0)


def sums_of_groups(nodes: Sequence[Node], launch: Launch, arch: int) -> set[Buffer]:
    """Fragments that lie as sums of warp groups do: the results of the products among `nodes` of a launch, and what those are only converted to."""
    products = [n for n in nodes if isinstance(n, Gemm)]
    sums = {n.c.buffer for n in products} - {n.c.buffer for n in products if not (is_whole(n.c) and is_grouped(n, launch, arch))}
    for copy in (n for n in nodes if isinstance(n, Copy)):
        if copy.src.buffer in sums and copy.dst.buffer.scope == "fragment" and is_whole(copy.src) and is_whole(copy.dst):
            sums.add(copy.dst.buffer)
    return sums


def why_in_order(stmt: Copy | Atomic, everything: Body, later: Iterable[Stmt], aliasing: Aliasing) -> str:
    """What else touches the array of `stmt`, so that the engine's writes would have to be ordered; or "".

    `everything` is what a block does, `later` what it may do after `stmt`, both perhaps with `stmt` itself.
    """
    array = stmt.dst.buffer
    written = {b for b in uses(_apart(everything, stmt)).written if b.root.scope == "global"}
    read = {b for b in uses(_apart(later, stmt)).read if b.root.scope == "global"}
    for buffer in sorted(written | read, key=lambda b: b.name):
        if aliasing.may_share(array, buffer):
            same = "" if buffer.root == array.root else f"may be {buffer.name}, which "
            return f"{array.name} {same}is {'written elsewhere' if buffer in written else 'read later'} in this launch"
    return ""


def _apart(body: Iterable[Stmt], but: Stmt) -> Iterator[Node]:
    """Statements without bodies, and the heads of the others, apart from one."""
    for stmt in body:
        if stmt is but:
            continue
        if isinstance(stmt, (For, PipelinedFor, While)):
            yield from heads(stmt)
            yield from _apart(stmt.body, but)
        elif isinstance(stmt, If):
            yield from heads(stmt)
            yield from _apart((*stmt.then, *stmt.other), but)
        else:
            yield stmt
