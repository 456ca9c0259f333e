"""A parallel loop that only transposes is a call of a function that does it with shuffles.

Before:  for i, j in parallel(32, 32): turned[i * 32 + j] = tile[j * 32 + i]
After:   turn(&turned[0], 32, &tile[0], 32, 32, 32)

A vector loop would gather each vector from as many cache lines as it has elements. Where the transposed rows go to global memory, far apart, the
block asks for their cache lines before it does anything else, and for those of short rows that it copies in: what takes long is then under way.

Requires: flattened accesses, copies are loops.  Preserves: everything else.
"""

from __future__ import annotations

from ..analysis.aliasing import Aliasing
from ..analysis.linear import Linear, has_load, to_expr
from ..base.dtypes import FLOAT32, INDEX
from ..ir.build import index
from ..ir.expr import Buffer, Const, Expr, Var, is_const
from ..ir.lowered import Address, CopyElements, Element, LibraryCall, Loop, SetElement
from ..ir.node import replace, walk
from ..ir.stmt import Evaluate, Kernel, Launch, ParallelFor, Stmt
from .scoped import Result, Scoped

_FAR = 1024  # elements from row to row: memory pages of their own
_SHORT = 256  # elements of a row that the processor does not see coming by itself


def turn_tiles(kernel: Kernel) -> Kernel:
    """Return `kernel` with calls for loops that transpose."""
    return _Turn(kernel).kernel(kernel)


class _Turn(Scoped):
    def __init__(self, kernel: Kernel) -> None:
        super().__init__()
        self.aliasing = Aliasing(kernel)
        self.turned = False

    def on_stmt(self, stmt: Stmt) -> Result:
        match stmt:
            case ParallelFor((i, j), (Const(rows), Const(cols)), (SetElement(dst, to, Element(src, where)),)):
                call = self.call(dst, self.bounds.sum(to), src, self.bounds.sum(where), (i, j), (int(rows), int(cols)))
                self.turned |= call is not None
                return stmt if call is None else Evaluate(call, span=stmt.span)
            case Launch() if self.turned:
                self.turned = False
                return _with_fetches(stmt, self)
            case _:
                return stmt

    def call(self, dst: Buffer, to: Linear, src: Buffer, where: Linear, loop: tuple[Var, Var], sizes: tuple[int, int]) -> LibraryCall | None:
        """The call, if neighbours along one loop are side by side in `dst` and neighbours along the other in `src`."""
        along = next((n for n in (0, 1) if to.coefficient(loop[n]) == 1 and where.coefficient(loop[1 - n]) == 1), None)
        if along is None or dst.type != FLOAT32 or src.type != FLOAT32 or self.aliasing.may_share(dst, src):
            return None
        inner, outer = loop[along], loop[1 - along]
        ldd, lds = to.coefficient(outer), where.coefficient(inner)
        starts = [form.without(inner).without(outer) for form in (to, where)]
        cols, rows = sizes[along], sizes[1 - along]
        if min(rows, cols) < 4 or ldd < cols or lds < rows or any(v in walk(a) for form in starts for a in form.terms for v in loop):
            return None
        if any(has_load(a) for form in starts for a in form.terms):
            return None
        args = (Address(dst, to_expr(starts[0])), index(ldd), Address(src, to_expr(starts[1])), index(lds), index(rows), index(cols))
        return LibraryCall("twb_turn_f32", args, FLOAT32)


def _with_fetches(launch: Launch, scope: Scoped) -> Launch:
    """The launch with its block's far rows asked for first."""
    reads: list[Stmt] = []
    writes: list[Stmt] = []
    for stmt in launch.body:
        match stmt:
            case Loop(var, start, Const(rows), (CopyElements(_, _, src, offset, Const(count)),)) if is_const(start, 0) and src.scope == "global":
                form = scope.bounds.sum(offset)
                reads += _fetch("twb_fetch_f32", src, form.without(var), form.coefficient(var), int(rows), int(count), launch)
            case Evaluate(LibraryCall("twb_turn_f32", (Address(dst, to), Const(ldd), _, _, Const(rows), Const(cols)))) if dst.scope == "global":
                writes += _fetch("twb_fetch_to_write_f32", dst, scope.bounds.sum(to), int(ldd), int(rows), int(cols), launch)
            case _:
                pass
    if not writes:
        return launch
    return replace(launch, body=(*reads, *writes, *launch.body))


def _fetch(name: str, buffer: Buffer, start: Linear, step: int, rows: int, count: int, launch: Launch) -> list[Stmt]:
    """A call that asks for `rows` rows, if they are far apart, short, and known at the start of the block."""
    known = all(isinstance(a, Var) and a in launch.block_vars for a in start.terms)
    if buffer.type != FLOAT32 or step < _FAR or count > _SHORT or not known:
        return []
    where: Expr = to_expr(start)
    assert where.dtype == INDEX
    return [Evaluate(LibraryCall(name, (Address(buffer, where), index(step), index(rows), index(count)), FLOAT32))]
