"""Random valid kernels without races, for comparing two ways to run them.

Two families. *Tile programs*: a block works on small int32 tiles with copies at random places, reductions, scans, parallel loops over own
elements, under sequential loops and conditions. *Thread programs*: threads with private variables and arrays run loops, whiles, breaks,
continues and returns; they write only their own slot of shared memory, and read each other's after a barrier.
"""

from __future__ import annotations

from typing import Any

from handmade import BX, TX, I, J, K, at, box, buf, cast, copy, kernel, launch, op, par, put, select, shared, whole
from hypothesis import strategies as st

from tileworkbench.base.dtypes import INT32
from tileworkbench.ir.expr import Buffer, Const, Expr, Var, const
from tileworkbench.ir.stmt import Atomic, Break, Continue, Fill, For, If, Kernel, Let, Reduce, Return, Scan, Stmt, Sync, While

ROWS, COLS = 5, 6
ARITHMETIC = ("add", "sub", "mul", "min", "max", "bitxor", "bitand", "floordiv", "floormod", "truncdiv")
COMPARE = ("lt", "le", "eq", "ne")


class Scope:
    """What an expression may use: int32 values, index variables, and readable buffers with the values their indices may take."""

    def __init__(self, indices: list[Var], reads: list[Buffer], values: list[Expr] | None = None) -> None:
        self.indices, self.reads, self.values = indices, reads, values or []

    def inner(self, *more: Expr) -> Scope:
        return Scope(self.indices, self.reads, [*self.values, *more])


@st.composite
def place(draw: Any, scope: Scope, depth: int = 0) -> Expr:
    """An index, perhaps outside what it indexes."""
    if scope.indices and draw(st.booleans()):
        base: Expr = draw(st.sampled_from(scope.indices))
        return op(draw(st.sampled_from(("add", "sub"))), base, draw(st.integers(-2, 3))) if draw(st.booleans()) else base
    if scope.values and depth == 0 and draw(st.booleans()):
        return op("floormod", cast(draw(st.sampled_from(scope.values)), "int64"), draw(st.integers(3, 9)))
    return Const(draw(st.integers(-1, 7)))


@st.composite
def value(draw: Any, scope: Scope, depth: int = 2) -> Expr:
    """An int32 expression."""
    kind = draw(st.integers(0, 7))
    if depth == 0 or kind == 0:
        choices = [*scope.values, *(cast(i, "int32") for i in scope.indices), const(draw(st.integers(-9, 9)), INT32)]
        return draw(st.sampled_from(choices))
    if kind in (1, 2) and scope.reads:
        buffer = draw(st.sampled_from(scope.reads))
        return at(buffer, *(draw(place(scope)) for _ in buffer.shape))
    below = lambda: draw(value(scope, depth - 1))
    if kind == 3:
        return select(draw(condition(scope, depth - 1)), below(), below())
    if kind == 4:
        return op(draw(st.sampled_from(("shl", "shr"))), below(), op("bitand", below(), 15))
    return op(draw(st.sampled_from(ARITHMETIC)), below(), below())


@st.composite
def condition(draw: Any, scope: Scope, depth: int = 1) -> Expr:
    test = op(draw(st.sampled_from(COMPARE)), draw(value(scope, depth)), draw(value(scope, depth)))
    if depth and draw(st.integers(0, 3)) == 0:
        return op(draw(st.sampled_from(("and", "or"))), test, draw(condition(scope, 0)))
    return test


# ---------------------------------------------------------------------------------------------- scalar code of one lane
class Names:
    """Unique names, and the mutable scalars that loops brought along."""

    def __init__(self) -> None:
        self.count = 0
        self.scalars: list[Buffer] = []

    def index(self, hint: str) -> Var:
        self.count += 1
        return Var(f"{hint}_{self.count}")

    def value(self) -> Var:
        return Var(self.index("x").name, INT32)

    def counter(self) -> Buffer:
        self.scalars.append(buf(self.index("w").name, 1, dtype="int32", scope="var"))
        return self.scalars[-1]


class Lane:
    """Where a lane may write: its own elements, a mutable variable and a private array; `leaves` says that it may return."""

    def __init__(self, own: list[tuple[Buffer, tuple[Expr, ...]]], var: Buffer, array: Buffer, names: Names, leaves: bool) -> None:
        self.own, self.var, self.array, self.names, self.leaves = own, var, array, names, leaves


@st.composite
def lane_body(draw: Any, scope: Scope, lane: Lane, depth: int, loop: bool) -> tuple[Stmt, ...]:
    """Statements of one lane; `loop` says that they may break and continue."""
    out: list[Stmt] = []
    for _ in range(draw(st.integers(1, 3))):
        kind = draw(st.integers(0, 10))
        if kind <= 1:
            x = lane.names.value()
            out.append(Let(x, draw(value(scope))))
            scope = scope.inner(x)
        elif kind == 2:
            out.append(put(lane.var, 0, draw(value(scope))))
        elif kind == 3:
            index = op("floormod", cast(draw(value(scope, 1)), "int64"), 3)
            out.append(put(lane.array, index, draw(value(scope))))
        elif kind <= 5:
            buffer, index = draw(st.sampled_from(lane.own))
            out.append(put(buffer, index, draw(value(scope))))
        elif kind <= 7 and depth:
            then = draw(lane_body(scope.inner(), lane, depth - 1, loop))
            other = draw(lane_body(scope.inner(), lane, depth - 1, loop)) if draw(st.booleans()) else ()
            out.append(If(draw(condition(scope)), then, other))
        elif kind == 8 and depth:
            k = lane.names.index("k")
            start, stop = Const(draw(st.integers(-2, 2))), op("floormod", cast(draw(value(scope, 1)), "int64"), 5)
            step = draw(st.sampled_from((1, 2)))
            body = draw(lane_body(scope.inner(cast(k, "int32")), lane, depth - 1, True))
            out.append(For(k, start, stop, body, step) if draw(st.booleans()) else For(k, stop, start, body, -step))
        elif kind == 9 and depth:
            limit = lane.names.counter()  # a counter of its own ends the loop
            body = draw(lane_body(scope.inner(), lane, depth - 1, True))
            going = op("and", op("lt", at(limit, 0), draw(st.integers(1, 6))), draw(condition(scope)))
            out += [put(limit, 0, 0), While(going, (put(limit, 0, op("add", at(limit, 0), 1)), *body))]
        elif kind == 10 and loop:
            out.append(If(draw(condition(scope)), (draw(st.sampled_from((Break(), Continue()))),)))
        elif lane.leaves and draw(st.integers(0, 3)) == 0:
            out.append(If(draw(condition(scope)), (Return(),)))
    return tuple(out)


# ---------------------------------------------------------------------------------------------- thread programs
@st.composite
def thread_programs(draw: Any) -> tuple[Kernel, int]:
    """A kernel (IN int32[40], OUT int32[2 * threads]) of two blocks, and its number of threads."""
    threads = draw(st.sampled_from((1, 7, 32, 40)))
    source, out = buf("IN", 40, dtype="int32"), buf("OUT", 2 * threads, dtype="int32")
    slots, more = shared("slots", threads, dtype="int32"), shared("more", threads, dtype="int32")
    var, array = buf("v", 1, dtype="int32", scope="var"), buf("r", 3, dtype="int32", scope="local")
    mine, names = op("add", op("mul", BX, threads), TX), Names()
    lane = Lane([(slots, (TX,)), (out, (mine,))], var, array, names, False)
    start = [put(var, 0, 0), Fill(whole(array), const(0, INT32)), put(slots, TX, 0), put(more, TX, 0), Sync()]
    private = [at(var, 0), at(array, 0), at(array, 2), cast(BX, "int32")]
    first = draw(lane_body(Scope([TX], [source], [*private, at(slots, TX)]), lane, 2, False))
    lane.own, lane.leaves = [(more, (TX,)), (out, (mine,))], True
    second = draw(lane_body(Scope([TX], [source, slots], [*private]), lane, 2, False))
    end = (put(out, mine, op("add", op("add", at(out, mine), at(var, 0)), at(array, 1))),)
    allocs = (slots, more, var, array, *names.scalars)
    return kernel([source, out], launch(2, (*start, *first, Sync(), *second, *end), allocs, threads, used=True)), threads


# ---------------------------------------------------------------------------------------------- tile programs
@st.composite
def tile_body(draw: Any, scope: Scope, tiles: list[Buffer], rows: Buffer, names: Names, private: tuple[Buffer, ...], depth: int) -> tuple[Stmt, ...]:
    """Statements of a block on tiles of ROWS x COLS and a row of ROWS."""
    source, *on_chip = tiles
    out: list[Stmt] = []
    for _ in range(draw(st.integers(1, 4))):
        kind = draw(st.integers(0, 8))
        a, b = draw(st.permutations(on_chip))[:2]
        if kind == 0:
            out.append(copy(box(source, (draw(place(scope)), ROWS), (draw(place(scope)), COLS)), a))
        elif kind == 1:
            n, m = draw(st.integers(1, ROWS)), draw(st.integers(1, COLS))
            out.append(copy(box(a, (draw(st.integers(0, ROWS - n)), n), (0, m)), box(b, (draw(place(scope)), n), (draw(place(scope)), m))))
        elif kind == 2:
            out.append(Fill(box(a, (draw(st.integers(-1, 2)), draw(st.integers(1, 4))), (0, COLS)), draw(value(scope, 1))))
        elif kind == 3:
            name = draw(st.sampled_from(("sum", "max", "min", "abssum", "absmax", "bitor", "bitxor", "any", "all")))
            out.append(Reduce(name, whole(a), whole(rows), 1, draw(st.booleans())))
        elif kind == 4:
            out.append(
                Scan(
                    draw(st.sampled_from(("sum", "max", "min"))),
                    whole(a),
                    whole(draw(st.sampled_from((a, b)))),
                    draw(st.integers(0, 1)),
                    draw(st.booleans()),
                )
            )
        elif kind <= 6:
            axes = [I, J] if draw(st.booleans()) else [J, I]
            lane = Lane([(a, (I, J))], *private, names, False)
            inside = Scope([*scope.indices, *axes], [source, b, rows], [*scope.values, at(a, I, J), at(private[0], 0)])
            loop_vars, extents = (tuple(axes), (ROWS, COLS) if axes[0] is I else (COLS, ROWS))
            start = (put(private[0], 0, 0), *(put(private[1], n, n) for n in range(3)))
            out.append(par(loop_vars, extents, *start, *draw(lane_body(inside, lane, 1, False))))
        elif kind == 7 and depth:
            k = names.index("t")
            loops = Scope([*scope.indices, k], scope.reads, scope.values)
            body = draw(tile_body(loops, tiles, rows, names, private, depth - 1))
            leave = (If(draw(condition(loops, 1)), (draw(st.sampled_from((Break(), Continue()))),)),) if draw(st.booleans()) else ()
            out.append(For(k, Const(draw(st.integers(-1, 1))), Const(draw(st.integers(-1, 3))), (*leave, *body)))
        elif depth:
            then = draw(tile_body(scope, tiles, rows, names, private, depth - 1))
            other = draw(tile_body(scope, tiles, rows, names, private, depth - 1)) if draw(st.booleans()) else ()
            out.append(If(draw(condition(scope, 1)), then, other))
    return tuple(out)


@st.composite
def tile_programs(draw: Any) -> Kernel:
    """A kernel (IN int32[9, 8], OUT int32[3 * ROWS, COLS], SUM int32[3]) of three blocks."""
    source, out, total = buf("IN", 9, 8, dtype="int32"), buf("OUT", 3 * ROWS, COLS, dtype="int32"), buf("SUM", 3, dtype="int32")
    tiles = [shared("s", ROWS, COLS, dtype="int32"), buf("f", ROWS, COLS, dtype="int32", scope="fragment"), shared("u", ROWS, COLS, dtype="int32")]
    rows = buf("rows", ROWS, dtype="int32", scope="fragment")
    private = (buf("v", 1, dtype="int32", scope="var"), buf("r", 3, dtype="int32", scope="local"))
    names = Names()
    clear = [Fill(whole(t), const(n, INT32)) for n, t in enumerate((*tiles, rows))]
    scope = Scope([BX], [source, rows])
    body = draw(tile_body(scope, [source, *tiles], rows, names, private, 2))
    last = draw(st.sampled_from(tiles))
    end = (copy(last, box(out, (op("mul", BX, ROWS), ROWS), (0, COLS))), par(K, ROWS, Atomic("add", box(total, BX), at(rows, K))))
    made = launch(3, (*clear, *body, *end), (*tiles, rows, *private, *names.scalars))
    return kernel([source, out, total], made)
