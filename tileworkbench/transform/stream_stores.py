"""A long row of a large output goes past the caches: made near by in pieces, written in whole lines that are not read first.

Before:  for i in 0..65536 simd: Z[bx * 65536 + i] = X[bx * 65536 + i] + Y[bx * 65536 + i]
After:   for piece in 0..65536 step 2048:
           for i in 0..2048 simd: Z_piece[i] = X[bx * 65536 + (piece + i)] + Y[bx * 65536 + (piece + i)]
           stream 2048 elements Z[bx * 65536 + piece] <- Z_piece[0]

A store to a line that is not in a cache reads the line first, a third of the traffic of a copy. Only where nobody will find the output in a cache
anyway (`_LARGE` bytes), each element is written once, and nothing else in the kernel looks at it; and where the loop waits for memory: one that
computes much has the line by the time it needs it.

Requires: vector loops are made.  Preserves: everything else.
"""

from __future__ import annotations

from ..analysis.linear import to_expr
from ..base.dtypes import INDEX, INT32
from ..ir.build import ZERO, add, index
from ..ir.expr import Binary, Buffer, Cast, Const, Unary, Var, is_const
from ..ir.lowered import Address, AtomicOp, CopyElements, Element, Loop, SetElement
from ..ir.node import Node, replace, rewrite, walk
from ..ir.stmt import Body, Kernel, Launch, Let, Stmt
from .names import Names
from .scoped import Result, Scoped

_QUICK = ("add", "sub", "mul", "max", "min", "neg", "abs")
_LARGE = 32 << 20  # bytes of an output that outgrow the caches that a core has to itself, and a fair share of one for all
_LIGHT = 8  # operations of an element, above which memory keeps up with them
_PIECE = 2048  # elements made at a time: they stay in L1


def stream_stores(kernel: Kernel) -> Kernel:
    """Return `kernel` with large outputs written past the caches."""
    once = _written_once(kernel)
    return _Stream(kernel, once).kernel(kernel) if once else kernel


def _written_once(kernel: Kernel) -> set[Buffer]:
    """Large contiguous global buffers that one statement writes and nothing else touches."""
    count: dict[Buffer, int] = {}
    for n in walk(kernel):
        match n:
            case SetElement(buffer):
                count[buffer.root] = count.get(buffer.root, 0) + (1 if buffer.view_of is None else 2)
            case Element(buffer) | Address(buffer) | AtomicOp(_, buffer):
                count[buffer.root] = 2
            case CopyElements(dst, _, src):
                count[dst.root] = count[src.root] = 2
            case _:
                pass
    return {b for b, uses in count.items() if uses == 1 and b.scope == "global" and _is_large(b)}


def _is_large(b: Buffer) -> bool:
    return b.type.bits in (16, 32) and b.strides is None and all(isinstance(d, Const) for d in b.shape) and b.static_bytes() >= _LARGE


def _is_light(body: Body) -> bool:
    nodes = [n for s in body for n in walk(s) if isinstance(n, (Binary, Unary)) and n.dtype.is_float]
    return len(nodes) <= _LIGHT and all(n.op in _QUICK for n in nodes)


class _Stream(Scoped):
    def __init__(self, kernel: Kernel, once: set[Buffer]) -> None:
        super().__init__()
        self.names = Names(kernel)
        self.once = once
        self.tiles: list[Buffer] = []

    def on_stmt(self, stmt: Stmt) -> Result:
        match stmt:
            case Loop(_, start, Const(stop), body) if stmt.simd and not stmt.reductions and is_const(start, 0) and int(stop) % _PIECE == 0:
                stores = [s for s in body if isinstance(s, SetElement)]
                fits = len(stores) == 1 and stores[0].buffer in self.once and all(isinstance(s, (Let, SetElement)) for s in body) and _is_light(body)
                return self.pieces(stmt, stores[0], int(stop)) if fits else stmt
            case Launch(allocs=allocs) if self.tiles:
                tiles, self.tiles = self.tiles, []
                return replace(stmt, allocs=(*allocs, *tiles))
            case _:
                return stmt

    def pieces(self, loop: Loop, store: SetElement, stop: int) -> Stmt:
        form = self.bounds.sum(store.offset)
        if form.coefficient(loop.var) != 1 or any(isinstance(a, Element) for a in form.terms):
            return loop
        piece, tile = self.names.var("piece"), self.names.tile(f"{store.buffer.name}_piece", (index(_PIECE),), store.buffer.type, "fragment")
        self.tiles.append(tile)
        wide, narrow = Cast(loop.var, INDEX), Binary("add", Cast(piece, INT32), loop.var)

        def change(node: Node) -> Node:
            match node:
                case Var(name) if name == loop.var.name:
                    return narrow
                case Cast(x, to) if x == narrow and to == INDEX:
                    return Binary("add", piece, wide)
                case _:
                    return node

        body = tuple(
            replace(s, buffer=tile, offset=wide, value=rewrite(store.value, change)) if s is store else rewrite(s, change) for s in loop.body
        )
        made = replace(loop, stop=Const(_PIECE, INT32), body=body)
        start = add(to_expr(form.without(loop.var)), piece)
        move = CopyElements(store.buffer, start, tile, ZERO, index(_PIECE), streams=True, span=store.span)
        return Loop(piece, ZERO, index(stop), (made, move), step=_PIECE, span=loop.span)
