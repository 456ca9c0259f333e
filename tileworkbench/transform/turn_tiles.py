"""A parallel loop that only transposes is a call of a function that does it with shuffles.

Before:  for i, j in parallel(32, 32): turned[i * 32 + j] = tile[j * 32 + i]
After:   turn(&turned[0], 32, &tile[0], 32, 32, 32)

A vector loop would gather each vector from as many cache lines as it has elements. Where the transposed rows go to global memory, far apart, the
block asks for their cache lines before it does anything else, and for those of short rows that it copies in: what takes long is then under way.

A large output (`stream_stores`) that is written so goes past the caches in whole lines, if all its rows begin alike in a line:

  turn_stream(&Y[..], 4096, tile, 32, 32, 256, &X[what the next block copies into the tile], 4096); stream_end()

It asks for the lines at the ends of the block's rows, which others share, on its way, and for what the next block reads.

Requires: flattened accesses, copies are loops.  Preserves: everything else.
"""

from __future__ import annotations

from ..analysis.aliasing import Aliasing
from ..analysis.linear import Linear, has_load, to_expr
from ..base.dtypes import FLOAT32, INDEX
from ..ir.build import index
from ..ir.expr import Buffer, Const, Expr, Var, is_const
from ..ir.lowered import Address, CopyElements, Element, Fail, LibraryCall, Loop, SetElement
from ..ir.node import replace, walk
from ..ir.stmt import Evaluate, Kernel, Launch, ParallelFor, Return, Stmt
from .scoped import Result, Scoped
from .stream_stores import is_large

_TURN = "twb_turn_32"
_FAR = 1024  # elements from row to row: memory pages of their own
_SHORT = 256  # elements of a row that the processor does not see coming by itself
_LINE = 16  # elements of a cache line


def turn_tiles(kernel: Kernel) -> Kernel:
    """Return `kernel` with calls for loops that transpose."""
    return _Turn(kernel).kernel(kernel)


class _Turn(Scoped):
    def __init__(self, kernel: Kernel) -> None:
        super().__init__()
        self.aliasing = Aliasing(kernel)
        self.turned = False
        self.launches = len(kernel.launches)

    def on_stmt(self, stmt: Stmt) -> Result:
        match stmt:
            case ParallelFor((i, j), (Const(rows), Const(cols)), (SetElement(dst, to, Element(src, where)),)):
                call = self.call(dst, self.bounds.sum(to), src, self.bounds.sum(where), (i, j), (int(rows), int(cols)))
                self.turned |= call is not None
                return stmt if call is None else Evaluate(call, span=stmt.span)
            case Launch() if self.turned:
                self.turned = False
                streamed = self.streamed(stmt) if self.launches == 1 else None
                return streamed or _with_fetches(stmt, self)
            case _:
                return stmt

    def call(self, dst: Buffer, to: Linear, src: Buffer, where: Linear, loop: tuple[Var, Var], sizes: tuple[int, int]) -> LibraryCall | None:
        """The call, if neighbours along one loop are side by side in `dst` and neighbours along the other in `src`."""
        along = next((n for n in (0, 1) if to.coefficient(loop[n]) == 1 and where.coefficient(loop[1 - n]) == 1), None)
        if along is None or dst.type != src.type or dst.type.bits != 32 or self.aliasing.may_share(dst, src):
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
        return LibraryCall(_TURN, args, FLOAT32)

    def streamed(self, launch: Launch) -> Launch | None:
        """The launch with its one transposed tile written past the caches, if that may be."""
        places = [n for n, s in enumerate(launch.body) if isinstance(s, Evaluate) and isinstance(s.value, LibraryCall) and s.value.name == _TURN]
        if len(places) != 1 or any(isinstance(n, (Return, Fail)) for n in walk(launch)):
            return None
        turn = launch.body[places[0]]
        assert isinstance(turn, Evaluate) and isinstance(turn.value, LibraryCall)
        dst, ldd, src, lds, rows, cols = turn.value.args
        assert isinstance(dst, Address) and isinstance(src, Address)
        if (
            not (isinstance(ldd, Const) and isinstance(rows, Const) and isinstance(cols, Const))
            or int(ldd.value) % _LINE
            or dst.buffer.scope != "global"
            or dst.buffer.type != FLOAT32
        ):
            return None
        uses = [n for n in walk(launch) if isinstance(n, (Element, Address, SetElement, CopyElements)) and dst.buffer.root in _touched(n)]
        start = self.next_tile(launch, src.buffer, int(cols.value), int(rows.value))
        if uses != [dst] or not is_large(dst.buffer) or start is None:
            return None
        call = LibraryCall("twb_turn_stream_f32", (dst, ldd, src, lds, rows, cols, *start), FLOAT32)
        body = (*launch.body[: places[0]], replace(turn, value=call), *launch.body[places[0] + 1 :])
        return replace(launch, body=(*body, Evaluate(LibraryCall("twb_stream_end", (), FLOAT32))))

    def next_tile(self, launch: Launch, tile: Buffer, rows: int, count: int) -> tuple[Address, Const] | None:
        """Where the next block, to the right of this one, copies `rows` rows of `count` elements into `tile` from, and their distance."""
        for stmt in launch.body:
            match stmt:
                case Loop(var, start, Const(stop), (CopyElements(dst, _, src, offset, Const(each)),)) if is_const(start, 0) and dst == tile:
                    form, right = self.bounds.sum(offset), launch.block_vars[0]
                    fits = (int(stop), int(each), form.coefficient(right)) == (rows, count, count) and src.scope == "global" and src.type == FLOAT32
                    if fits and not any(has_load(a) for a in form.terms):
                        return Address(src, to_expr(form.without(var).shift(count))), index(form.coefficient(var))
                case _:
                    pass
        return None


def _touched(node: Element | Address | SetElement | CopyElements) -> tuple[Buffer, ...]:
    return (node.dst.root, node.src.root) if isinstance(node, CopyElements) else (node.buffer.root,)


def _with_fetches(launch: Launch, scope: Scoped) -> Launch:
    """The launch with its block's far rows asked for first."""
    reads: list[Stmt] = []
    writes: list[Stmt] = []
    for stmt in launch.body:
        match stmt:
            case Loop(var, start, Const(rows), (CopyElements(_, _, src, offset, Const(count)),)) if is_const(start, 0) and src.scope == "global":
                form = scope.bounds.sum(offset)
                reads += _fetch("twb_fetch_f32", src, form.without(var), form.coefficient(var), int(rows), int(count), launch)
            case Evaluate(LibraryCall("twb_turn_32", (Address(dst, to), Const(ldd), _, _, Const(rows), Const(cols)))) if dst.scope == "global":
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
