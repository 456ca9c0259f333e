"""While a row is written, what is read next is asked for; and before that the row to write, if that goes the usual way.

Before:  for i in 0..8:
           sum = sum + squares(&X[(bx * 8 + i) * 1024], 1024, mean)
           for j in 0..1024 simd: Y[(bx * 8 + i) * 1024 + j] = (X[(bx * 8 + i) * 1024 + j] - mean) * W[j]
After:   for i in 0..8:
           sum = sum + squares_fetch(&X[(bx * 8 + i) * 1024], 1024, mean, &Y[(bx * 8 + i) * 1024])
           for piece in 0..1024 step 128:
             fetch(&X[(bx * 8 + i + 1) * 1024 + piece], 0, 1, 128)
             for j in 0..128 simd: Y[(bx * 8 + i) * 1024 + (piece + j)] = ...

A row that is walked several times is near after the first time, and memory has nothing to do until the next row begins. Behind the last row of a
block comes the first of the next block, which may be another thread's; behind the last of all may be nothing. Asking for it does no harm.
Where a block is one long row that is read on the way to its result, in pieces past the caches, the elements `_AHEAD` are asked for: the processor
itself looks ahead within a page of memory only.

Requires: rows are done one after the other (`fuse_rows`), large outputs are in pieces (`stream_stores`).  Preserves: what is computed and stored.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..analysis.linear import Linear, has_load, to_expr
from ..base.dtypes import FLOAT32
from ..ir.build import ZERO, add, index
from ..ir.expr import Buffer, Const, Expr, Var, is_const
from ..ir.lowered import Address, Element, LibraryCall, Loop, SetElement
from ..ir.node import Node, replace, rewrite, walk
from ..ir.stmt import Evaluate, Kernel, Launch, Let, Stmt
from .names import Names
from .pieces import is_light, piece_of
from .scoped import Result, Scoped

_PIECE = 128  # elements to ask for at a time: about as many lines as a core can wait for
_AHEAD = 1024  # elements from the one that is read to the one that is asked for
_SHORT = 512  # elements of a row, below which the processor has the next one in sight by itself


def fetch_rows(kernel: Kernel) -> Kernel:
    """Return `kernel` with rows asked for ahead."""
    return _Fetch(kernel).kernel(kernel)


@dataclass(frozen=True, slots=True)
class _Row:
    """`count` elements of a global float32 array, one after the other."""

    buffer: Buffer
    start: Linear
    count: int


class _Fetch(Scoped):
    def __init__(self, kernel: Kernel) -> None:
        super().__init__()
        self.names = Names(kernel)

    def on_stmt(self, stmt: Stmt) -> Result:
        if isinstance(stmt, Launch):
            body = tuple(self.ahead(s, stmt) for s in stmt.body)
            return stmt if all(a is b for a, b in zip(body, stmt.body, strict=True)) else replace(stmt, body=body)
        if not isinstance(stmt, Loop) or stmt.simd or stmt.step != 1 or stmt.label or len(stmt.body) < 2:
            return stmt
        *before, last = stmt.body
        count = _length(last)
        if not isinstance(last, Loop) or count < _SHORT or count % _PIECE:
            return stmt
        ahead = [r for r in self.read(before) if r.count == count and r.start.coefficient(stmt.var) >= count]
        if not ahead:
            return stmt
        out = None if last.step > 1 else self.written(last)
        if out is not None and out.start.coefficient(stmt.var) >= count:
            before = [_asking(s, out) for s in before]
        return replace(stmt, body=(*before, self.in_pieces(last, count, ahead[0], stmt.var)))

    def ahead(self, stmt: Stmt, launch: Launch) -> Stmt:
        """`stmt`, a row in pieces, with what it alone reads of global memory asked for."""
        if not isinstance(stmt, Loop) or stmt.step == 1 or not _length(stmt):
            return stmt
        reads = [n for n in walk(stmt) if isinstance(n, Element) and n.buffer.scope == "global" and n.buffer.type == FLOAT32]
        made = stmt.body[0]
        assert isinstance(made, Loop)
        asks: dict[Buffer, Stmt] = {}
        for read in reads:
            form = self.bounds.sum(read.offset)
            is_own = not any(isinstance(n, (Element, Address)) and n.buffer == read.buffer and n not in reads for n in walk(launch))
            moves = form.coefficient(made.var) == form.coefficient(stmt.var) == 1 and any(form.coefficient(v) for v in launch.block_vars)
            if is_own and moves and not any(has_load(a) for a in form.terms):
                asks[read.buffer] = _ask(read.buffer, to_expr(form.without(made.var).shift(_AHEAD)), stmt.step)
        return replace(stmt, body=(*asks.values(), *stmt.body)) if asks else stmt

    def read(self, body: list[Stmt]) -> list[_Row]:
        """The rows that calls in `body` walk."""
        calls = [n for s in body if not isinstance(s, Loop) for n in walk(s) if isinstance(n, LibraryCall) and n.name.startswith("twb_row_")]
        out = []
        for call in calls:
            row, count = call.args[:2]
            if isinstance(row, Address) and isinstance(count, Const) and row.buffer.scope == "global":
                form = self.bounds.sum(row.offset)
                if not any(has_load(a) for a in form.terms):
                    out.append(_Row(row.buffer, form, int(count.value)))
        return out

    def written(self, loop: Loop) -> _Row | None:
        store = loop.body[-1]
        assert isinstance(store, SetElement)
        form = self.bounds.sum(store.offset)
        known = form.coefficient(loop.var) == 1 and not any(has_load(a) for a in form.terms)
        fits = store.buffer.scope == "global" and store.buffer.type == FLOAT32 and known
        return _Row(store.buffer, form.without(loop.var), _length(loop)) if fits else None

    def in_pieces(self, loop: Loop, count: int, row: _Row, var: Var) -> Loop:
        """`loop` with the row after `row` asked for, piece by piece."""
        step = loop.step if loop.step > 1 else _PIECE
        piece = loop.var if loop.step > 1 else self.names.var("piece")
        start = to_expr(row.start.shift(row.start.coefficient(var)))
        ask = _ask(row.buffer, add(start, piece), step)
        if loop.step > 1:
            return replace(loop, body=(ask, *loop.body))
        return Loop(piece, ZERO, index(count), (ask, piece_of(loop, piece, _PIECE)), step=_PIECE, span=loop.span)


def _ask(buffer: Buffer, start: Expr, count: int) -> Stmt:
    return Evaluate(LibraryCall("twb_fetch_f32", (Address(buffer, start), ZERO, index(1), index(count)), FLOAT32))


def _length(stmt: Stmt) -> int:
    """Elements of the row that `stmt` writes, in one vector loop or in pieces; 0 if it does something else."""
    match stmt:
        case Loop(_, start, Const(stop), (*lets, SetElement())) if stmt.simd and not stmt.reductions and is_const(start, 0):
            return int(stop) if all(isinstance(s, Let) for s in lets) and is_light(stmt.body) else 0
        case Loop(_, start, Const(stop), (Loop() as piece, Evaluate(LibraryCall(name)))) if is_const(start, 0) and name.startswith("twb_stream_"):
            return int(stop) if piece.simd else 0
        case _:
            return 0


def _asking(stmt: Stmt, row: _Row) -> Stmt:
    """`stmt` with a sum of squares that asks for `row` on its way."""

    def change(node: Node) -> Node:
        match node:
            case LibraryCall("twb_row_squares_f32", (_, Const(count), _) as args) if count == row.count:
                return LibraryCall("twb_row_squares_fetch_f32", (*args, Address(row.buffer, to_expr(row.start))), FLOAT32)
            case _:
                return node

    return stmt if isinstance(stmt, Loop) else rewrite(stmt, change)
