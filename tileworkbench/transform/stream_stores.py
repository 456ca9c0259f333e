"""A long row of a large output goes past the caches: made near by in pieces, written in whole lines that are not read first.

Before:  for i in 0..65536 simd: Z[bx * 65536 + i] = X[bx * 65536 + i] + Y[bx * 65536 + i]
After:   for piece in 0..65536 step 128:
           for i in 0..128 simd: Z_piece[16 + i] = X[bx * 65536 + (piece + i)] + Y[bx * 65536 + (piece + i)]
           stream(&Z[bx * 65536 + piece], &Z_piece[16], 512, piece > 0, piece < 65408)
         stream_end()

A store to a line that is not in a cache reads the line first, a third of the traffic of a copy. Only where nobody will find the output in a cache
anyway (`_LARGE` bytes), each element is written once, and nothing else in the kernel looks at it; and where the loop may wait for memory: one
that computes very much has the line by the time it needs it. Rows seldom begin with a line: what a piece has of its last one is kept for the
next piece.

Requires: vector loops are made.  Preserves: everything else.
"""

from __future__ import annotations

from ..analysis.linear import to_expr
from ..base.dtypes import FLOAT32, INDEX
from ..ir.build import ZERO, add, index
from ..ir.expr import Binary, Buffer, Cast, Const, is_const
from ..ir.lowered import Address, AtomicOp, CopyElements, Element, Fail, LibraryCall, Loop, SetElement
from ..ir.node import replace, walk
from ..ir.stmt import Evaluate, Kernel, Launch, Let, Return, Stmt
from .names import Names
from .pieces import is_light, piece_of
from .scoped import Result, Scoped

_LARGE = 32 << 20  # bytes of an output that outgrow the caches that a core has to itself, and a fair share of one for all
_LINE = 64  # bytes of a cache line, for which `twb_stream_*` want room in front of a piece
_PIECE = 128  # elements made at a time: they stay in L1, and few stores wait for them


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
    return {b for b, uses in count.items() if uses == 1 and b.scope == "global" and is_large(b)}


def is_large(b: Buffer) -> bool:
    """Whether nobody will find the whole of `b` in a cache."""
    return b.type.bits in (16, 32) and b.strides is None and all(isinstance(d, Const) for d in b.shape) and b.static_bytes() >= _LARGE


class _Stream(Scoped):
    def __init__(self, kernel: Kernel, once: set[Buffer]) -> None:
        super().__init__()
        self.names = Names(kernel)
        self.once = once
        self.tiles: list[Buffer] = []

    def stmt(self, stmt: Stmt) -> Result:
        if isinstance(stmt, Launch) and any(isinstance(n, (Return, Fail)) for n in walk(stmt)):
            return stmt  # it may end before its end
        return super().stmt(stmt)

    def on_stmt(self, stmt: Stmt) -> Result:
        match stmt:
            case Loop(_, start, Const(stop), body) if stmt.simd and not stmt.reductions and is_const(start, 0) and int(stop) % _PIECE == 0:
                stores = [s for s in body if isinstance(s, SetElement)]
                fits = len(stores) == 1 and stores[0].buffer in self.once and all(isinstance(s, (Let, SetElement)) for s in body) and is_light(body)
                return self.pieces(stmt, stores[0], int(stop)) if fits else stmt
            case Launch(allocs=allocs) if self.tiles:
                tiles, self.tiles = self.tiles, []
                end = Evaluate(LibraryCall("twb_stream_end", (), FLOAT32))
                return replace(stmt, allocs=(*allocs, *tiles), body=(*stmt.body, end))
            case _:
                return stmt

    def pieces(self, loop: Loop, store: SetElement, stop: int) -> Stmt:
        form, kind = self.bounds.sum(store.offset), store.buffer.type
        if form.coefficient(loop.var) != 1 or any(isinstance(a, Element) for a in form.terms):
            return loop
        front = _LINE * 8 // kind.bits
        piece, tile = self.names.var("piece"), self.names.tile(f"{store.buffer.name}_piece", (index(front + _PIECE),), kind, "fragment")
        self.tiles.append(tile)
        made = piece_of(loop, piece, _PIECE)
        near = Binary("add", Cast(loop.var, INDEX), index(front))
        body = tuple(replace(s, buffer=tile, offset=near) if isinstance(s, SetElement) else s for s in made.body)
        begin = add(to_expr(form.without(loop.var)), piece)
        places = Address(store.buffer, begin), Address(tile, index(front)), index(_PIECE * kind.bits // 8)
        sides = Binary("gt", piece, ZERO), Binary("lt", piece, index(stop - _PIECE))
        move = Evaluate(LibraryCall(f"twb_stream_{kind.bits}", (*places, *sides), FLOAT32), span=store.span)
        return Loop(piece, ZERO, index(stop), (replace(made, body=body), move), step=_PIECE, span=loop.span)
