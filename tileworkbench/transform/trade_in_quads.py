"""Where matrix instructions left 4 bytes of a row with each of four neighbouring threads, the threads trade, and each stores 16 bytes of it.

Before:  for r in unroll(0, 64): own O_v[2] = sums of r; O@[.. + r % 2 * 2048 + r // 2 * 8 + tx % 4 * 2 :+ 2] = O_v@[0 :+ 2]
After:   for r in unroll(0, 16): own O_v[8]; for y in unroll(0, 4): O_v@[2 * y :+ 2] = sums of r // 2 * 8 + 2 * y + r % 2
                                 twb_quad_turn(O_v); O@[.. + r % 2 * 2048 + r // 2 * 32 + tx % 4 * 8 :+ 8] = O_v@[0 :+ 8]

A row's store then covers 64 bytes, whole sectors, and there are a quarter as many: a store of 4 bytes a thread touches as many lines as one of 16.
Four shuffles turn four words. What is stored through shared memory (`send_tiles`) does not come here.

Requires: wide accesses; places where all threads of a warp meet.  Preserves: stores that a condition on the columns guards, other shapes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ..analysis.divisors import divisor
from ..analysis.fragments import numbers
from ..analysis.linear import linear
from ..base.dtypes import UINT32
from ..ir.bodies import statements
from ..ir.build import add, floordiv, floormod, index, mul
from ..ir.device import DeviceCall, Registers
from ..ir.expr import Binary, Buffer, Const, Expr, Select, Unary, Var
from ..ir.launches import rewrite_launches
from ..ir.lowered import Declare, Element, SetElement, StoreVector
from ..ir.node import Node, children, replace, rewrite, walk
from ..ir.stmt import Body, Break, Continue, For, If, Kernel, Launch, Let, Return, ScalarParam, Stmt, While
from ..layout.algebra import Array
from ..layout.fragments import WARP
from .names import Names

QUAD, PAIR = 4, 2  # threads that trade; neighbours that each holds
_BITS = 16  # of an element: a pair of them is a word
_LEAVES = (Break, Continue, Return, While)  # after which some threads of a warp may not come along


def trade_in_quads(kernel: Kernel) -> Kernel:
    """Return `kernel` with wide stores of rows that quads of threads hold."""
    names = Names(kernel)

    def change(node: Launch) -> Launch:
        if node.threads[0] % WARP or any(isinstance(n, _LEAVES) for n in statements(node)):
            return node
        return _Trade(node, names, given).launch()

    given = {v.name for v in (*kernel.dims, *(p.var for p in kernel.params if isinstance(p, ScalarParam)))}
    return rewrite_launches(kernel, change)


@dataclass(frozen=True, slots=True)
class _Shape:
    """A loop that can be traded: turns r, r + step, r + 2 * step, r + 3 * step are neighbours in a row. `lane`: the thread's number."""

    lane: Var
    step: int


class _Trade:
    """One launch. `alike`: variables with one value in all threads of a warp; `lanes`: numbers of threads, and how many there are."""

    def __init__(self, launch: Launch, names: Names, alike: set[str]) -> None:
        self.node, self.names = launch, names
        self.alike = alike | {v.name for v in launch.block_vars}
        self.lanes = {launch.thread_vars[0].name: launch.threads[0]} if launch.thread_vars else {}

    def launch(self) -> Launch:
        return replace(self.node, body=self.body(self.node.body))

    def body(self, body: Body) -> Body:
        out: list[Stmt] = []
        for stmt in body:
            match stmt:
                case Let(var, value):
                    is_alike, count = self.is_alike(value), self.lanes_of(value)
                    self.alike.discard(var.name)
                    self.lanes.pop(var.name, None)
                    if is_alike:
                        self.alike.add(var.name)
                    elif count is not None:
                        self.lanes[var.name] = count
                    out.append(stmt)
                case If(cond, then, other) if self.is_alike(cond) or self.is_of_warps(cond):
                    parts = self.body(then), self.body(other)
                    out.append(stmt if parts == (then, other) else replace(stmt, then=parts[0], other=parts[1]))
                case For(var, start, stop, inner) if self.is_alike(start) and self.is_alike(stop):
                    made = self.traded(stmt)
                    if made is stmt:
                        self.alike.add(var.name)
                        new = self.body(inner)
                        made = stmt if new == inner else replace(stmt, body=new)
                    out.append(made)
                case _:
                    out.append(stmt)
        return tuple(out) if any(a is not b for a, b in zip(out, body, strict=True)) else body

    def is_alike(self, e: Expr) -> bool:
        """Whether all threads of a warp have the same value, by its variables alone."""
        if isinstance(e, (Const, Var)):
            return isinstance(e, Const) or e.name in self.alike
        return isinstance(e, (Binary, Unary, Select)) and all(self.is_alike(c) for c in children(e) if isinstance(c, Expr))

    def is_of_warps(self, cond: Expr) -> bool:
        """Whether whole warps go one way: their numbers are beside a multiple of 32."""
        match cond:
            case Binary("lt" | "ge", Var(name), Const(value)):
                return name in self.lanes and int(value) % WARP == 0
            case _:
                return False

    def lanes_of(self, e: Expr) -> int | None:
        """How many threads a number counts that is the thread's in a warp, too."""
        match e:
            case Binary("truncmod" | "floormod", Var(name), Const(value)) if name in self.lanes and int(value) % WARP == 0:
                return int(value)
            case _:
                return None

    # ------------------------------------------------------------------------------------------ one loop
    def traded(self, loop: For) -> For:
        """`loop` with wide stores; itself if it does something else."""
        match loop:
            case For(var, Const(0), Const(turns), (Declare(array, None) as own, For() as fill, last), 1, "unroll"):
                pass
            case _:
                return loop
        cond, store = (last.cond, last.then[0]) if isinstance(last, If) and len(last.then) == 1 and not last.other else (None, last)
        if not isinstance(store, StoreVector) or not self.fills(fill, array) or store.source != array or store.count != PAIR:
            return loop
        if store.buffer.is_on_chip or array.type.bits != _BITS or int(turns) % QUAD:
            return loop
        shape = self.shape(var, int(turns), store.offset, cond)
        return loop if shape is None else self.rebuilt(loop, own, fill, store, cond, shape)

    @staticmethod
    def fills(fill: For, array: Buffer) -> bool:
        """Whether a loop computes both neighbours from registers."""
        reads = [n for n in walk(fill) if isinstance(n, Element)]
        *lets, put = fill.body
        whole = isinstance(put, SetElement) and put.buffer == array and put.offset == fill.var and all(isinstance(s, Let) for s in lets)
        return whole and fill.start == index(0) and fill.stop == index(PAIR) and all(n.buffer.scope == "local" for n in reads)

    def shape(self, var: Var, turns: int, offset: Expr, cond: Expr | None) -> _Shape | None:
        """Which turns are neighbours, if the threads of a quad hold neighbours too and store under the same condition."""
        for name in sorted({n.name for n in walk(offset) if isinstance(n, Var) and n.name in self.lanes}):
            threads = self.lanes[name]
            known: dict[str, Array] = {name: np.arange(threads)[:, None], var.name: np.arange(turns)[None, :]}
            form, at, rest = linear(offset), np.zeros((threads, turns), np.int64), linear(index(0))
            for atom, c in form.terms.items():
                value = numbers(atom, known)
                if value is None and any(isinstance(n, Var) and n.name in known for n in walk(atom)):
                    return None
                if value is None:
                    rest = rest + linear(mul(atom, index(c)))
                else:
                    at = at + c * value
            at = at + form.const
            if divisor(rest) % (QUAD * PAIR):
                return None
            for step in (s for s in range(1, turns // QUAD + 1) if turns % (QUAD * s) == 0):
                if self.is_quad(at, step) and (cond is None or _same(cond, known, step)):
                    return _Shape(next(n for n in walk(offset) if isinstance(n, Var) and n.name == name), step)
        return None

    @staticmethod
    def is_quad(at: Array, step: int) -> bool:
        """Whether four threads' and four turns' places are 16 pairs side by side, from a multiple of 8 elements on."""
        first = at.reshape(at.shape[0] // QUAD, QUAD, -1, QUAD, step)
        begin = first[:, :1, :, :1, :]
        lane, turn = np.arange(QUAD).reshape(1, QUAD, 1, 1, 1), np.arange(QUAD).reshape(1, 1, 1, QUAD, 1)
        return bool((first - begin == PAIR * lane + QUAD * PAIR * turn).all() and (begin % (QUAD * PAIR) == 0).all())

    def rebuilt(self, loop: For, own: Declare, fill: For, store: StoreVector, cond: Expr | None, shape: _Shape) -> For:
        count = QUAD * PAIR
        array = Buffer(self.names.fresh(own.buffer.name), (index(count),), own.buffer.type, "local", span=own.buffer.span)
        y, stop = self.names.var("y"), loop.stop
        assert isinstance(stop, Const)
        begin = add(mul(floordiv(loop.var, index(shape.step)), index(QUAD * shape.step)), floormod(loop.var, index(shape.step)))
        turn = add(begin, mul(y, index(shape.step)))

        def put(node: Node) -> Node:
            match node:
                case SetElement(buffer, offset) if buffer == own.buffer:
                    return replace(node, buffer=array, offset=add(mul(y, index(PAIR)), offset))
                case Var() if node == loop.var:
                    return turn
                case _:
                    return node

        words = Registers(array, index(0), QUAD, UINT32)
        there = add(_at(store.offset, loop.var, begin), mul(floormod(shape.lane, index(QUAD)), index(count - PAIR)))
        last: Stmt = replace(store, offset=there, source=array, count=count)
        if cond is not None:
            last = If(_at(cond, loop.var, begin), (last,), span=store.span)
        filled = For(y, index(0), index(QUAD), (rewrite(fill, put),), kind="unroll", span=fill.span)
        body = (Declare(array, span=own.span), filled, DeviceCall("twb_quad_turn", (words,), span=store.span), last)
        return replace(loop, stop=index(int(stop.value) // QUAD), body=body)


def _at(e: Expr, var: Var, value: Expr) -> Expr:
    return rewrite(e, lambda node: value if isinstance(node, Var) and node == var else node)


def _same(e: Expr, known: Mapping[str, Array], step: int) -> bool:
    """Whether an expression has one value for the four threads of a quad and the four turns that they trade."""
    value = numbers(e, known)
    if value is None:
        return all(_same(c, known, step) for c in children(e) if isinstance(c, Expr))
    lanes, turns = (k.size for k in known.values())
    each = np.broadcast_to(value, (lanes, turns)).reshape(lanes // QUAD, QUAD, -1, QUAD, step)
    return bool((each == each[:, :1, :, :1, :]).all())
