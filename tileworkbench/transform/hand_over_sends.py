"""In blocks that stay a thread of its own issues the stores of results, so that warp groups go on with their next tile at once (sm_90a).

Before:  consumers  for block in blocks(..): ..; send C[by * 128 ..] <- acc through stage                    (stage [2, 2, 64, 64])
After:   setup      full[2], free[2] become barriers
         consumers  for block in blocks(..): ..; hand over acc through stage                                 (the stage is for all in turns)
         storer     for block in blocks(..): for each warp group: for u in 0..2: wait full[u]; store the boxes of unit u; commit
                                                                  for u in 0..2: wait until the engine has read it; arrive at free[u]

The stage serves one warp group after the other: each writes a unit when what was in it has been read, and tells the storer when all of its warps have
written it. No warp group waits for another but for units, and none waits for the engine, unless tiles are so short that stores do not keep up.
Each use of a unit for a tile has a `free` barrier of its own: a phase is then never more than one behind the one that is waited for.

Requires: what send_tiles makes.  Preserves: launches that do not stay, or send several tiles; tiles that are sent under conditions or in other loops.
"""

from __future__ import annotations

from ..analysis.linear import has_load
from ..analysis.matrix_units import GROUP
from ..analysis.uses import uses
from ..base.dtypes import INDEX, INT32, UINT32, DType
from ..ir.build import add, cast, floormod, index, mul
from ..ir.device import DeviceCall, Specialised
from ..ir.expr import AddressOf, Binary, Buffer, Const, Expr, Load, Var
from ..ir.node import Node, replace, rewrite, walk
from ..ir.send import HandOver, SendTile
from ..ir.stmt import Body, For, Kernel, Launch, Let, Stmt, Store
from ..layout.fragments import WARP
from .names import Names
from .spread_sends import store_box
from .stay_on_chip import KIND as BLOCKS

UNITS = 2
"""Parts of a stage: one is written while the other one is read."""


def hand_over_sends(kernel: Kernel) -> Kernel:
    """Return `kernel` with storers in launches of blocks that stay."""
    names = Names(kernel)

    def change(node: Node) -> Node:
        if not isinstance(node, Launch) or len(node.body) != 1 or not isinstance(node.body[0], Specialised):
            return node
        return _launch(node, node.body[0], names)

    return rewrite(kernel, change)


def _launch(launch: Launch, roles: Specialised, names: Names) -> Launch:
    loops = [s for s in roles.consumers if isinstance(s, For) and s.kind == BLOCKS]
    found = [n for s in roles.consumers for n in walk(s) if isinstance(n, SendTile)]
    if len(loops) != 1 or len(found) != 1 or found[0].stage is None or not any(s is found[0] for s in loops[0].body):
        return launch
    loop, send, old = loops[0], found[0], found[0].stage
    groups, slots, rows, width = old.static_shape()
    count = send.src.buffer.static_shape()[0] // rows // groups * (send.src.buffer.static_shape()[1] // width)  # pieces of a warp group
    held = next(n for n in range(groups * slots, 0, -1) if count % n == 0)
    units = UNITS if held % UNITS == 0 else 1
    stage = replace(old, shape=tuple(map(index, (units, held // units, rows, width))))
    rounds = count // held
    full = Buffer(names.fresh(f"{old.name}_full"), (index(units),), DType("uint64"), "shared")
    free = Buffer(names.fresh(f"{old.name}_free"), (index(units), index(groups * rounds)), DType("uint64"), "shared")
    counts = names.scalar("tiles_given", UINT32), names.scalar("tiles_stored", UINT32)
    made = HandOver(send, stage, full, free, counts[0], span=send.span)
    stored = _stored(loop, made, counts[1], launch.count_threads // GROUP, count, names)
    if stored is None:
        return launch
    consumers = tuple(rewrite(s, lambda n: made if n is send else n) if s is loop else s for s in roles.consumers)
    setup: list[Stmt] = []
    for unit in range(units):
        setup.append(DeviceCall("twb_mbarrier_init", (AddressOf(full, (index(unit),)), Const(GROUP // WARP, INT32))))
        for use in range(groups * rounds):
            setup.append(DeviceCall("twb_mbarrier_init", (AddressOf(free, (index(unit), index(use))), Const(1, INT32))))
    body = replace(roles, setup=(*setup, *roles.setup), consumers=(_zero(counts[0]), *consumers), storer=(_zero(counts[1]), stored))
    allocs = (*(stage if b == old else b for b in launch.allocs), full, free, *counts)
    forms = tuple(replace(f, buffer=stage) if f.buffer == old else f for f in launch.forms)
    return replace(launch, body=(body,), allocs=allocs, forms=forms)


def _zero(counter: Buffer) -> Stmt:
    return Store(counter, (index(0),), Const(0, UINT32))


def _stored(loop: For, given: HandOver, counter: Buffer, groups: int, count: int, names: Names) -> Stmt | None:
    """The storer's loop over blocks; None where it does not know what decides about a store."""
    send, bound = given.send, uses(loop).bound
    known: dict[Var, Expr] = {loop.var: names.var(loop.var.hint or loop.var.name, loop.var.type)}
    out: list[Stmt] = []

    def named(e: Expr) -> Expr:
        return rewrite(e, lambda n: known.get(n, n) if isinstance(n, Var) else n)

    for stmt in loop.body:
        if isinstance(stmt, Let) and not has_load(stmt.value) and not (uses(stmt.value).used & bound) - set(known):
            mine = names.var(stmt.var.hint or stmt.var.name, stmt.var.type)
            out.append(Let(mine, named(stmt.value), span=stmt.span))
            known[stmt.var] = mine
    if any(has_load(s) or (uses(s).used & bound) - set(known) for s in send.dst.starts):
        return None
    mine_too = replace(send, dst=replace(send.dst, starts=tuple(named(s) for s in send.dst.starts)))
    group, turn = names.var("of_group"), names.var("round")
    units, many, _, _ = given.stage.static_shape()
    rounds = count // (units * many)
    use = add(mul(add(mul(cast(Load(counter, (index(0),)), INDEX), index(groups)), group), index(rounds)), turn)
    inside: Body = _uses(mine_too, given, use, add(mul(group, index(rounds)), turn), group, turn, count)
    if rounds > 1:
        inside = (For(turn, index(0), index(rounds), inside, kind="unroll"),)
    else:
        inside = tuple(rewrite(s, lambda n: index(0) if n == turn else n) for s in inside)
    out.append(For(group, index(0), index(groups), inside))
    out.append(Store(counter, (index(0),), Binary("add", Load(counter, (index(0),)), Const(1, UINT32))))
    var = known[loop.var]
    assert isinstance(var, Var)
    return replace(loop, var=var, body=tuple(replace(s, span=send.span) if s.span is None else s for s in out))


def _uses(send: SendTile, given: HandOver, use: Expr, of_tile: Expr, group: Expr, turn: Expr, count: int) -> Body:
    """What is done of the units that a warp group gives in a round: their use number `use`, and `of_tile` of this tile."""
    stage = given.stage
    units, many, rows, width = stage.static_shape()
    across = send.src.buffer.static_shape()[1] // width
    phase = cast(floormod(use, index(2)), INT32)
    out: list[Stmt] = []
    for unit in range(units):
        out.append(DeviceCall("twb_mbarrier_wait", (AddressOf(given.full, (index(unit),)), phase)))
        for piece in range(many):
            number = add(mul(turn, index(units * many)), index(unit * many + piece))
            down = add(mul(group, index(count // across * rows)), mul(Binary("floordiv", number, index(across)), index(rows)))
            corner = AddressOf(stage, (index(unit), index(piece), index(0), index(0)))
            out.append(store_box(send, corner, down, mul(floormod(number, index(across)), index(width))))
        out.append(DeviceCall("twb_bulk_commit"))
    for unit in range(units):
        out.append(DeviceCall("twb_bulk_wait_read", constants=(units - 1 - unit,)))
        out.append(DeviceCall("twb_mbarrier_arrive", (AddressOf(given.free, (index(unit), of_tile)),)))
    return tuple(out)


__all__ = ["UNITS", "hand_over_sends"]
