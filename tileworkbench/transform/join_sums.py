"""A vector loop that makes a row, and the sum of that row: one loop that adds while it makes.

Before:  for j in 0..64 simd: w[i * 64 + j] = W[i * 64 + j] * X[j]
         y[i] = y[i] + sum(&w[i * 64], 64)
After:   var add = 0; for j in 0..64 simd, sum of add: let w_j = W[i * 64 + j] * X[j]; add = add + w_j
         y[i] = y[i] + add

The row itself is not stored if nobody else reads the tile.
Requires: vector loops are made.  Preserves: everything else; sums are taken in another order.
"""

from __future__ import annotations

from ..analysis.aliasing import Aliasing
from ..analysis.rows import may_swap, touched
from ..base.dtypes import FLOAT32
from ..ir.build import ZERO
from ..ir.expr import Binary, Buffer, CallExtern, Const, Expr, Unary, const, is_const
from ..ir.lowered import Address, AtomicOp, CopyElements, Declare, Element, LibraryCall, Loop, SetElement
from ..ir.node import Node, replace, rewrite, walk
from ..ir.stmt import Body, Kernel, Let, Stmt
from .names import Names
from .scoped import Scoped

_SUMS = ("twb_row_sum_f32", "twb_row_abssum_f32")


def join_sums(kernel: Kernel) -> Kernel:
    """Return `kernel` with such sums taken on the way."""
    if not any(isinstance(n, LibraryCall) and n.name in _SUMS for n in walk(kernel)):
        return kernel
    join = _Join(kernel)
    return _without_unread(join.kernel(kernel), join.tiles)


class _Join(Scoped):
    def __init__(self, kernel: Kernel) -> None:
        super().__init__()
        self.names = Names(kernel)
        self.aliasing = Aliasing(kernel)
        self.tiles: set[Buffer] = set()  # those that some sum need not read any more

    def body(self, body: Body) -> Body:
        new = super().body(body)
        place = 0
        while place < len(new):
            stmt = new[place]
            joined = self.join(new, place, stmt) if _is_row(stmt) and isinstance(stmt, Loop) else None
            new = joined if joined is not None else new
            place += 1  # after a declaration the loop follows again: it may make the elements of another sum
        return new

    def join(self, body: Body, place: int, loop: Loop) -> Body | None:
        """`body` with a sum of what the loop at `place` makes taken in the loop."""
        if not any(isinstance(c, LibraryCall) and c.name in _SUMS for s in body[place + 1 :] if not isinstance(s, Loop) for c in walk(s)):
            return None
        for n, stmt in enumerate(body[place + 1 :], place + 1):
            for call in (c for c in walk(stmt) if isinstance(c, LibraryCall) and c.name in _SUMS):
                made = self.made(loop, call)
                if made is not None and not any(isinstance(s, Loop) for s in walk(stmt)):
                    return (*body[:place], *self.summing(loop, made, call, stmt, body[place + 1 : n]), *body[n + 1 :])
            if not isinstance(stmt, SetElement) or not self.may_pass(loop, stmt):
                return None
        return None

    def may_pass(self, loop: Loop, stmt: Stmt) -> bool:
        a, b = touched(loop, self.bounds), touched(stmt, self.bounds)
        return a is not None and b is not None and may_swap(a, b, self.aliasing)

    def made(self, loop: Loop, call: LibraryCall) -> int | None:
        """Where the body of `loop` stores exactly the elements that `call` sums up."""
        row, count = call.args
        if not isinstance(row, Address) or not isinstance(count, Const) or not isinstance(loop.stop, Const) or count.value != loop.stop.value:
            return None
        stores = [n for n, s in enumerate(loop.body) if any(isinstance(m, SetElement) and m.buffer.root == row.buffer.root for m in walk(s))]
        store = loop.body[stores[0]] if len(stores) == 1 else None
        if not isinstance(store, SetElement) or store.buffer != row.buffer or store.buffer.type != FLOAT32:
            return None
        rest = self.bounds.sum(store.offset) - self.bounds.sum(row.offset)
        return stores[0] if rest.coefficient(loop.var) == 1 and len(rest.terms) == 1 and rest.const == 0 else None

    def summing(self, loop: Loop, place: int, call: LibraryCall, user: Stmt, between: Body) -> Body:
        store = loop.body[place]
        assert isinstance(store, SetElement)
        self.tiles.add(store.buffer)
        total = self.names.scalar("sum", FLOAT32)
        value = self.names.var(f"{store.buffer.name}_{loop.var.hint or loop.var.name}", FLOAT32)
        part: Expr = Unary("abs", value) if "abs" in call.name else value
        add = SetElement(total, ZERO, Binary("add", Element(total, ZERO), part), span=user.span)

        def same(node: Node) -> Node:
            return value if isinstance(node, Element) and node.buffer == store.buffer and node.offset == store.offset else node

        rest = tuple(rewrite(s, same) for s in loop.body[place + 1 :])
        body = (*loop.body[:place], Let(value, store.value, span=store.span), replace(store, value=value), *rest, add)

        def change(node: Node) -> Node:
            return Element(total, ZERO) if node == call else node

        made = replace(loop, body=body, reductions=(*loop.reductions, ("+", total)))
        return (Declare(total, const(0.0, FLOAT32)), made, *between, rewrite(user, change))


def _is_row(stmt: Stmt) -> bool:
    return isinstance(stmt, Loop) and stmt.simd and is_const(stmt.start, 0) and isinstance(stmt.stop, Const)


def _without_unread(kernel: Kernel, tiles: set[Buffer]) -> Kernel:
    """Without stores to those of `tiles` that nobody reads."""
    kept = {b.root for n in walk(kernel) for b in _read(n)} | {b.root for launch in kernel.launches for b in launch.allocs if b.view_of is not None}
    unread = {b for b in tiles if b.scope in ("shared", "fragment") and b not in kept}

    def change(node: Node) -> Node | None:
        return None if isinstance(node, SetElement) and node.buffer in unread and not _acts(node) else node

    return rewrite(kernel, change) if unread else kernel


def _acts(store: SetElement) -> bool:
    return any(isinstance(n, (AtomicOp, CallExtern)) for n in walk(store))


def _read(node: Node) -> tuple[Buffer, ...]:
    match node:
        case Element(buffer) | Address(buffer):
            return (buffer,)
        case CopyElements(_, _, src):
            return (src,)
        case _:
            return ()
