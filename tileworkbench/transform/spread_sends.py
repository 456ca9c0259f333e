"""Tiles that the tensor copy engine brings to global memory, for a thread: fill a stage, fence, meet, and let one thread of the warp group send it.

Before:  send C[..] <- acc through stage                       (acc 128 x 128 float32 of two warp groups, C float16, stage [2, 1, 64, 64])
After:   for each 64 columns: if first thread of the group: wait until the engine has read the stage;  meet (the group);  stmatrix x 4;
         fence;  meet (the group);  if first thread of the group: store a box; commit

`stmatrix` writes eight rows of 16 bytes of the stage's permuted pieces at a time, which lie in different banks; 32-bit results are stored in pairs.
Where all of a tile fits into its stage it is one batch, with two barriers. A tile that is sent from where it lies is read by the first thread of the
block, behind a barrier of all (`spread_threads` places it, and makes it wait for the engine before the tile is written again).

Layout of the registers: `layout/fragments.py`, `wgmma_c`. Source: PTX ISA, "stmatrix", "cp.async.bulk.tensor".
"""

from __future__ import annotations

from collections.abc import Callable

from ..analysis.matrix_units import GROUP
from ..base.dtypes import INDEX, INT32, UINT32
from ..base.gpu import capability_limits
from ..ir.bodies import statements
from ..ir.build import add, cast, choose, floordiv, floormod, index, mul
from ..ir.device import DeviceCall, DeviceValue, MapOf, Registers, Specialised
from ..ir.expr import AddressOf, Binary, Buffer, Const, Expr, Load
from ..ir.node import Node, replace, rewrite
from ..ir.send import HandOver, SendTile
from ..ir.stmt import Atomic, Body, Copy, For, If, Launch, Stmt, Store
from ..layout.fragments import WARP, Fragment, wgmma_c
from .copies_as_loops import copy_as_loop
from .expand_atomics import atomic_as_loop
from .names import Names
from .share_tiles import ALIGN, alignment_of
from .spread_tiles import Spreading

FIRST_BARRIER = 8
"""Warp group g meets at hardware barrier 8 + g; those below are of roles."""
_PACK = {"float16": "twb_pack_f16", "bfloat16": "twb_pack_bf16"}


def spread_send(stmt: SendTile, s: Spreading) -> Body:
    """`stmt` for a thread."""
    made = _from_stage(stmt, s) if stmt.stage is not None else _as_it_lies(stmt, s)
    return tuple(replace(x, span=stmt.span) for x in made)


# ---------------------------------------------------------------------------------------------- from where it lies
def _as_it_lies(stmt: SendTile, s: Spreading) -> Body:
    tile, (high, wide) = stmt.src.buffer, stmt.box
    rows, columns = (1, *tile.static_shape())[-2:]
    out: list[Stmt] = []
    for row in range(0, rows, high):
        for column in range(0, columns, wide):
            corner = AddressOf(tile, tuple(index(n) for n in ((0,) * tile.rank + (row, column))[-tile.rank :]))
            out.append(store_box(stmt, corner, index(row), index(column)))
    return (If(Binary("eq", s.thread, index(0)), (*out, DeviceCall("twb_bulk_commit"))),)


# ---------------------------------------------------------------------------------------------- through a stage
def _from_stage(stmt: SendTile, s: Spreading) -> Body:
    """All pieces at once where the stage has a slot for each, else one after the other; pieces go row after row."""
    stage = stmt.stage
    assert stage is not None
    groups, slots, rows, width = stage.static_shape()
    m, n = stmt.src.buffer.static_shape()
    blocks, across = m // rows // groups, n // width
    count = blocks * across
    group: Expr = cast(s.group(), INDEX) if groups > 1 else index(0)
    first = Binary("eq", floormod(s.thread, index(GROUP)) if groups > 1 else s.thread, index(0))
    meet = DeviceCall("twb_bar_sync", (cast(add(group, index(FIRST_BARRIER)), INT32), Const(GROUP, INT32)))
    wait = (If(first, (DeviceCall("twb_bulk_wait_read", constants=(slots - 1 if slots < count else 0,)),)), meet)
    shown = (DeviceCall("twb_fence_proxy_async"), meet)

    def fill(piece: Expr) -> Body:
        at = group, floormod(piece, index(slots))
        return _words(stmt, stage, s, at, piece) if stage.type.bits == 16 else _pairs(stmt, stage, s, at, piece)

    def send(piece: Expr) -> Body:
        corner = AddressOf(stage, (group, floormod(piece, index(slots)), index(0), index(0)))
        row = mul(floordiv(piece, index(across)), index(rows)) if blocks > 1 else index(0)
        return (store_box(stmt, corner, add(mul(group, index(blocks * rows)), row), mul(floormod(piece, index(across)), index(width))),)

    commit = DeviceCall("twb_bulk_commit")
    if slots < count:
        return _each(s, "piece", count, lambda p: (*wait, *fill(p), *shown, If(first, (*send(p), commit))))
    return (*(wait if stmt.is_repeated else ()), *_each(s, "piece", count, fill), *shown, If(first, (*_each(s, "piece", count, send), commit)))


def spread_hand_over(stmt: HandOver, s: Spreading) -> Body:
    """`stmt` for a thread: unit after unit, when it is free."""
    stage = stmt.stage
    all_units, many, rows, width = stage.static_shape()
    m, n = stmt.send.src.buffer.static_shape()
    groups, uses = s.place.threads // GROUP, stmt.free.static_shape()[1]
    units = all_units // groups if uses == 1 else all_units  # of a warp group at a time
    rounds = m // rows // groups * (n // width) // (units * many)
    group: Expr = cast(s.group(), INDEX) if groups > 1 else index(0)
    tile = cast(Load(stmt.count, (index(0),)), INDEX)

    def give(place: Expr) -> Body:
        unit, use = floormod(place, index(units)), add(mul(group, index(rounds)), floordiv(place, index(units)))
        before, passed = floormod(add(use, index(uses - 1)), index(uses)), choose(Binary("eq", use, index(0)), index(1), index(0))
        if uses == 1:
            unit, before, passed = add(unit, mul(group, index(units))), index(0), index(1)
        passed = floormod(add(tile, passed), index(2))  # before the first use comes the last of the tile before
        fill = _words if stage.type.bits == 16 else _pairs
        filled = _each(s, "piece", many, lambda p: fill(stmt.send, stage, s, (unit, p), add(mul(place, index(many)), p)))
        wait = DeviceCall("twb_mbarrier_wait", (AddressOf(stmt.free, (unit, before)), cast(passed, INT32)))
        return (wait, *filled, DeviceCall("twb_fence_proxy_async"), DeviceCall("twb_mbarrier_arrive_warp", (AddressOf(stmt.full, (unit,)),)))

    one_more = Store(stmt.count, (index(0),), Binary("add", Load(stmt.count, (index(0),)), Const(1, UINT32)))
    return tuple(replace(x, span=stmt.span) for x in (*_each(s, "unit", units * rounds, give), one_more))


def _each(s: Spreading, hint: str, count: int, body: Callable[[Expr], Body]) -> Body:
    """`body` of each number, unrolled."""
    if count == 1:
        return body(index(0))
    var = s.names.var(hint)
    return (For(var, index(0), index(count), body(var), kind="unroll"),)


def _words(stmt: SendTile, stage: Buffer, s: Spreading, at: tuple[Expr, Expr], piece: Expr) -> Body:
    """A piece of 16-bit elements: 16 rows by 16 columns of each warp at a time, which are eight registers."""
    held, width = s.arrays[stmt.src.buffer], stage.static_shape()[-1]
    row = add(mul(_warp(s), index(16)), floormod(s.thread, index(16)))
    half = mul(floormod(floordiv(s.thread, index(16)), index(2)), index(8))
    packed = s.array("packed", 4, UINT32) if held.type != stage.type else held

    def bring(step: Expr) -> Body:
        start = add(mul(piece, index(width // 2)), mul(step, index(8)))
        out: list[Stmt] = []
        if packed is not held:
            w = s.names.var("w")
            two = tuple(Load(held, (add(add(start, mul(w, index(2))), index(i)),)) for i in (0, 1))
            out.append(For(w, index(0), index(4), (Store(packed, (w,), DeviceValue(_PACK[str(stage.type)], two, UINT32)),), kind="unroll"))
        words = Registers(packed, index(0) if packed is not held else start, 4, UINT32)
        to = AddressOf(stage, (*at, row, add(mul(step, index(16)), half)))
        return (*out, DeviceCall("twb_stmatrix_x4", (to, words)))

    return _each(s, "step", width // 16, bring)


def _pairs(stmt: SendTile, stage: Buffer, s: Spreading, at: tuple[Expr, Expr], piece: Expr) -> Body:
    """A piece of 32-bit elements: two neighbours at a time."""
    held, width, r, x = s.arrays[stmt.src.buffer], stage.static_shape()[-1], s.names.var("r"), s.names.var("x")
    lane = floormod(s.thread, index(WARP))
    row = add(add(mul(_warp(s), index(16)), floordiv(lane, index(4))), mul(floormod(r, index(2)), index(8)))
    column = add(add(mul(floordiv(r, index(2)), index(8)), mul(floormod(lane, index(4)), index(2))), x)
    value = Load(held, (add(mul(piece, index(width // 2)), add(mul(r, index(2)), x)),))
    inner = For(x, index(0), index(2), (Store(stage, (*at, row, column), value),), kind="unroll")
    return (For(r, index(0), index(width // 4), (inner,), kind="unroll"),)


def _warp(s: Spreading) -> Expr:
    """The number of the thread's warp in its warp group."""
    return floormod(floordiv(s.thread, index(WARP)), index(GROUP // WARP))


# ---------------------------------------------------------------------------------------------- boxes
def _dims(stmt: SendTile) -> tuple[int, int]:
    """The array's dims that rows and columns of the tile count; -1: it has one row."""
    moving = [d for d, e in enumerate(stmt.dst.extents) if not (isinstance(e, Const) and e.value == 1)]
    return (moving[0] if len(moving) > 1 else -1), moving[-1]


def store_box(stmt: SendTile, corner: AddressOf, row: Expr, column: Expr) -> Stmt:
    """The store of the box at a row and column of the tile, from a corner in shared memory."""
    down, along = _dims(stmt)
    where = {along: column} | ({down: row} if down >= 0 else {})
    found = [cast(add(cast(start, INDEX), where.get(d, index(0))), INT32) for d, start in enumerate(stmt.dst.starts)]
    name = f"twb_tma_{'reduce_' + stmt.op if stmt.op else 'store'}_{len(found)}d"
    return DeviceCall(name, (MapOf(stmt.view), corner, *reversed(found)))


# ---------------------------------------------------------------------------------------------- where it does not fit
def is_as_sent(launch: Launch, fragments: dict[Buffer, Fragment]) -> bool:
    """Whether what goes through stages lies in registers as products leave it."""
    for send in sends(launch):
        m, n = (*send.src.buffer.static_shape(), 0)[:2]
        groups = launch.count_threads // GROUP
        if send.stage is not None and fragments.get(send.src.buffer) != wgmma_c(groups, m, n):
            return False
    return True


def fits(launch: Launch) -> bool:
    """Whether the tiles of a spread launch fit into shared memory."""
    end = max((p.end for p in launch.places), default=0)
    placed = {p.buffer for p in launch.places}
    for b in launch.allocs:
        if b.view_of is None and b not in placed and b.scope not in ("local", "var"):
            align = alignment_of(b, launch.forms)
            end = -(-end // align) * align + -(-b.static_bytes() // ALIGN) * ALIGN
    return end <= capability_limits("sm_90")["shared_per_block"].bytes


def sends(launch: Launch) -> list[SendTile]:
    """All of a launch."""
    return [n for s in launch.body for n in statements(s) if isinstance(n, SendTile)]


def without_sends(launch: Launch, names: Names) -> Launch:
    """`launch` in which the threads store themselves."""
    given = [n for s in launch.body for n in statements(s) if isinstance(n, HandOver)]
    stages = {send.stage for send in sends(launch)} | {g.stage for g in given}

    def whole(node: Node) -> Node:
        return node.send if isinstance(node, HandOver) else replace(node, storer=()) if isinstance(node, Specialised) and given else node

    def change(node: Node) -> Node | tuple[Node, ...]:
        if not isinstance(node, SendTile):
            return node
        if node.op:
            return atomic_as_loop(Atomic(node.op, node.dst, node.src, span=node.span), names)
        return copy_as_loop(Copy(node.src, node.dst, span=node.span), names)

    launch = rewrite(rewrite(launch, whole), change)
    allocs, forms = tuple(b for b in launch.allocs if b not in stages), tuple(f for f in launch.forms if f.buffer not in stages)
    return replace(launch, allocs=allocs, forms=forms)


__all__ = ["FIRST_BARRIER", "fits", "is_as_sent", "sends", "spread_hand_over", "spread_send", "store_box", "without_sends"]
