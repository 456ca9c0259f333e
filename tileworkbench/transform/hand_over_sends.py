"""In blocks that stay a thread of its own issues the stores of results, so that warp groups go on with their next tile at once (sm_90a).

Before:  consumers  for block in blocks(..): ..; send C[by * 128 ..] <- acc through stage                    (stage [2, 2, 64, 64])
After:   setup      full[2], free[2] become barriers
         consumers  for block in blocks(..): ..; hand over acc through stage                                 (the stage is for all in turns)
         storer     for block in blocks(..): for each warp group: for u in 0..2: wait full[u]; store the boxes of unit u; commit
                                                                  for u in 0..2: wait until the engine has read it; arrive at free[u]

The stage has a part for each warp group if a whole tile fits; else it serves one after the other. A warp group writes a unit when what was in it has
been read, and tells the storer when all of its warps have written it. None waits for the engine, unless tiles are too short for stores to keep up.
Each use of a unit for a tile has a `free` barrier of its own: a phase is then never more than one behind the one that is waited for.

Requires: what send_tiles makes.  Preserves: launches that do not stay, or send several tiles; tiles that are sent under conditions or in other loops.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..analysis.linear import has_load
from ..analysis.matrix_units import GROUP
from ..analysis.uses import uses
from ..base.dtypes import INDEX, INT32, UINT32, DType
from ..ir.bodies import statements
from ..ir.build import add, cast, floordiv, floormod, index, mul
from ..ir.device import DeviceCall, Specialised
from ..ir.expr import AddressOf, Binary, Buffer, Const, Expr, Load, Var
from ..ir.launches import rewrite_launches
from ..ir.node import replace, rewrite
from ..ir.send import HandOver, SendTile
from ..ir.stmt import Body, For, Kernel, Launch, Let, Stmt, Store
from ..layout.fragments import WARP
from .names import Names
from .spread_sends import store_box
from .stay_on_chip import KIND, PAIR

UNITS = 2
"""Parts of a stage: one is written while the other one is read."""


def hand_over_sends(kernel: Kernel) -> Kernel:
    """Return `kernel` with storers in launches of blocks that stay."""
    names = Names(kernel)

    def change(node: Launch) -> Launch:
        if len(node.body) != 1 or not isinstance(node.body[0], Specialised):
            return node
        return _launch(node, node.body[0], names)

    return rewrite_launches(kernel, change)


def _launch(launch: Launch, roles: Specialised, names: Names) -> Launch:
    loops = [s for s in roles.consumers if isinstance(s, For) and s.kind == KIND]
    found = [n for s in roles.consumers for n in statements(s) if isinstance(n, SendTile)]
    if len(loops) != 1 or len(found) != 1 or found[0].stage is None or not _is_way(loops[0], found[0]):
        return launch
    loop, send, old = loops[0], found[0], found[0].stage
    groups, slots, rows, width = old.static_shape()
    count = send.src.buffer.static_shape()[0] // rows // groups * (send.src.buffer.static_shape()[1] // width)  # pieces of a warp group
    held = next(n for n in range(groups * slots, 0, -1) if count % n == 0)
    lanes = groups if slots == count else 1  # a part for each warp group, or one for all in turns
    units = UNITS if held % UNITS == 0 else 1
    stage = replace(old, shape=tuple(map(index, (lanes * units, held // units, rows, width))))
    times = groups * (count // held) if lanes == 1 else 1  # that a unit is used for a tile
    full = Buffer(names.fresh(f"{old.name}_full"), (index(lanes * units),), DType("uint64"), "shared")
    free = Buffer(names.fresh(f"{old.name}_free"), (index(lanes * units), index(times)), DType("uint64"), "shared")
    counts = names.scalar("tiles_given", UINT32), names.scalar("tiles_stored", UINT32)
    made = HandOver(send, stage, full, free, counts[0], span=send.span)
    stored = _stored(loop, made, counts[1], groups, names, uses(loop).bound, {})
    if stored is None:
        return launch
    consumers = tuple(rewrite(s, lambda n: made if n is send else n) if s is loop else s for s in roles.consumers)
    setup: list[Stmt] = []
    for unit in range(lanes * units):
        setup.append(DeviceCall("twb_mbarrier_init", (AddressOf(full, (index(unit),)), Const(GROUP // WARP, INT32))))
        for use in range(times):
            setup.append(DeviceCall("twb_mbarrier_init", (AddressOf(free, (index(unit), index(use))), Const(1, INT32))))
    body = replace(roles, setup=(*setup, *roles.setup), consumers=(_zero(counts[0]), *consumers), storer=(_zero(counts[1]), stored))
    allocs = (*(stage if b == old else b for b in launch.allocs), full, free, *counts)
    forms = tuple(replace(f, buffer=stage) if f.buffer == old else f for f in launch.forms)
    return replace(launch, body=(body,), allocs=allocs, forms=forms)


def _is_way(loop: For, send: SendTile) -> bool:
    """Whether every turn of a loop over blocks comes to `send`."""
    return any(s is send or isinstance(s, For) and s.kind == PAIR and _is_way(s, send) for s in loop.body)


def _zero(counter: Buffer) -> Stmt:
    return Store(counter, (index(0),), Const(0, UINT32))


def _stored(loop: For, given: HandOver, counter: Buffer, groups: int, names: Names, bound: set[Var], around: dict[Var, Expr]) -> Stmt | None:
    """The storer's loop over blocks; None where it does not know what decides about a store. `around`: its own names of those that are `bound`."""
    send, var = given.send, names.var(loop.var.hint or loop.var.name, loop.var.type)
    known = {**around, loop.var: var}
    if any(has_load(e) or (uses(e).used & bound) - set(around) for e in (loop.start, loop.stop)):
        return None
    out: list[Stmt] = []
    for stmt in loop.body:
        if isinstance(stmt, Let) and not has_load(stmt.value) and not (uses(stmt.value).used & bound) - set(known):
            mine = names.var(stmt.var.hint or stmt.var.name, stmt.var.type)
            out.append(Let(mine, _named(stmt.value, known), span=stmt.span))
            known[stmt.var] = mine
        elif isinstance(stmt, For) and stmt.kind == PAIR and _is_way(stmt, send):
            inside = _stored(stmt, given, counter, groups, names, bound, known)
            if inside is None:
                return None
            out.append(inside)
        elif stmt is send:
            if any(has_load(s) or (uses(s).used & bound) - set(known) for s in send.dst.starts):
                return None
            starts = tuple(_named(s, known) for s in send.dst.starts)
            out += _sent(replace(send, dst=replace(send.dst, starts=starts)), given, counter, groups, names)
    body = tuple(replace(s, span=send.span) if s.span is None else s for s in out)
    return replace(loop, var=var, start=_named(loop.start, around), stop=_named(loop.stop, around), body=body)


def _named(e: Expr, known: dict[Var, Expr]) -> Expr:
    return rewrite(e, lambda n: known.get(n, n) if isinstance(n, Var) else n)


def _sent(send: SendTile, given: HandOver, counter: Buffer, groups: int, names: Names) -> Body:
    """What the storer does for a tile."""
    out: list[Stmt] = []
    times = given.free.static_shape()[1]  # that a unit is used for a tile
    tile, rounds = cast(Load(counter, (index(0),)), INDEX), times // groups
    if times == 1:
        out += _units(send, given, list(range(groups)), tile, index(0), groups)
    else:
        group = names.var("of_group")
        turn = names.var("round") if rounds > 1 else index(0)
        inside = _units(send, given, [group], add(mul(tile, index(times)), add(mul(group, index(rounds)), turn)), turn, groups)
        if isinstance(turn, Var):
            inside = (For(turn, index(0), index(rounds), inside, kind="unroll"),)
        out.append(For(group, index(0), index(groups), inside))
    return (*out, Store(counter, (index(0),), Binary("add", Load(counter, (index(0),)), Const(1, UINT32))))


def _units(send: SendTile, given: HandOver, of: Sequence[Expr | int], use: Expr, turn: Expr, groups: int) -> Body:
    """Send the units that the warp groups `of` fill in round `turn`, and free them again. `use`: how often units were used before."""
    all_units, many, rows, width = given.stage.static_shape()
    units, times = all_units // len(of), given.free.static_shape()[1]
    tall, across = send.src.buffer.static_shape()[0] // groups, send.src.buffer.static_shape()[1] // width
    phase, out = cast(floormod(use, index(2)), INT32), list[Stmt]()
    for at, group in enumerate(of):
        for unit in range(units):
            out.append(DeviceCall("twb_mbarrier_wait", (AddressOf(given.full, (index(at * units + unit),)), phase)))
            for piece in range(many):
                number = add(mul(turn, index(units * many)), index(unit * many + piece))
                row = add(mul(_expr(group), index(tall)), mul(floordiv(number, index(across)), index(rows)))
                corner = AddressOf(given.stage, (index(at * units + unit), index(piece), index(0), index(0)))
                out.append(store_box(send, corner, row, mul(floormod(number, index(across)), index(width))))
            out.append(DeviceCall("twb_bulk_commit"))
    for unit in range(all_units):
        of_tile = add(mul(_expr(of[0]), index(times // groups)), turn) if times > 1 else index(0)
        out.append(DeviceCall("twb_bulk_wait_read", constants=(all_units - 1 - unit,)))
        out.append(DeviceCall("twb_mbarrier_arrive", (AddressOf(given.free, (index(unit), of_tile)),)))
    return tuple(out)


def _expr(number: Expr | int) -> Expr:
    return index(number) if isinstance(number, int) else number


__all__ = ["UNITS", "hand_over_sends"]
