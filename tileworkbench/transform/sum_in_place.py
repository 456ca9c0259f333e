"""An accumulator that is only summed and copied out: the products sum in the global memory that it goes to.

Before:  fill acc <- 0; for ko: gemm acc += A @ B;  copy C[by * 64 :+ 64, bx * 64 :+ 64] <- acc
After:   if C is apart from A and B: for ko: gemm C[by * 64 :+ 64, bx * 64 :+ 64] += A @ B, clear=ko == 0
         else: as before

The kernels fetch results that they will add to ahead of time, so a separate pass over the accumulator, which waits for memory, goes away. A tile
qualifies if it has the dtype of C, starts at 0, and nothing but the products and the copy uses it; if nothing else in the launch uses C; and if no
other block writes that part of C. A float32 tile of a single product may also go to a 16-bit C: kernels sum those in float32, and round once like the
copy. One array may be passed twice, so the block asks whether C is another than every argument; and where the region
may stick out of C, whether it is inside.

Requires: tile operations, no thread-level statements.  Preserves: everything else.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from ..analysis.access import static_strides
from ..analysis.linear import has_load
from ..analysis.uses import uses
from ..base.dtypes import INDEX
from ..ir.build import FALSE, TRUE, cast, every
from ..ir.expr import Binary, Buffer, Const, Expr, Var, is_const
from ..ir.lowered import Apart
from ..ir.node import replace, walk
from ..ir.stmt import (
    Body,
    Break,
    Continue,
    Copy,
    Fill,
    For,
    Gemm,
    If,
    Kernel,
    Launch,
    PipelinedFor,
    Region,
    Return,
    Stmt,
    Sync,
    TensorParam,
    is_whole,
)
from .read_operands_in_place import is_matrix, test_inside
from .scoped import Result, Scoped


def sum_in_place(kernel: Kernel, asks: bool = True) -> Kernel:
    """Return `kernel` with products that sum in global memory; unless it `asks`, no array is passed twice."""
    return _Sums(kernel, asks).kernel(kernel)


@dataclass(frozen=True, slots=True)
class _Sum:
    """Where in a body the accumulator is cleared (-1: the product does) and summed; `direct` sums in place if `test` holds."""

    fill: int
    work: int
    direct: Stmt
    test: Expr


NARROWER = ("float16", "bfloat16")


class _Sums(Scoped):
    def __init__(self, kernel: Kernel, asks: bool) -> None:
        super().__init__()
        self.params = {p.buffer for p in kernel.params if isinstance(p, TensorParam)} if asks else set()
        self.mentions: Counter[Buffer] = Counter()
        self.launch: Launch | None = None

    def stmt(self, stmt: Stmt) -> Result:
        if isinstance(stmt, Launch):
            self.launch = stmt
            self.mentions = Counter(n.root for s in stmt.body for n in walk(s) if isinstance(n, Buffer))
            self.mentions.update(b.root for b in stmt.allocs if b.view_of is not None)
        return super().stmt(stmt)

    def body(self, body: Body) -> Body:
        body = super().body(body)
        place = 0
        while place < len(body):
            copy = body[place]
            found = self.sum_before(copy, place, body) if isinstance(copy, Copy) else None
            if found is None or not isinstance(copy, Copy):
                place += 1
                continue
            before = tuple(s for n, s in enumerate(body[: found.work]) if n != found.fill)
            kept = (*body[found.fill : found.fill + 1], body[found.work], copy) if found.fill >= 0 else (body[found.work], copy)
            now = found.direct if found.test == TRUE else If(found.test, (found.direct,), kept, span=copy.span)
            self.mentions.update([copy.dst.buffer])
            body = (*before, now, *body[found.work + 1 : place], *body[place + 1 :])
            place = len(before) + 1
        return body

    def sum_before(self, copy: Copy, place: int, body: Body) -> _Sum | None:
        tile, region = copy.src.buffer, copy.dst
        if not self.is_result(copy):
            return None
        users = [n for n, s in enumerate(body[:place]) if tile in uses(s).buffers]
        if len(users) not in (1, 2) or any(not isinstance(s, Sync) for s in body[users[-1] + 1 : place]):
            return None
        fill, work = (users[0], users[1]) if len(users) == 2 else (-1, users[0])
        if fill >= 0:
            first = body[fill]
            if not (isinstance(first, Fill) and first.dst == copy.src and is_const(first.value, 0)):
                return None
        loops: list[tuple[Var, Expr, Expr]] = []
        count, direct = _direct(body[work], copy.src, region, loops, must_clear=fill < 0)
        if (
            direct is None
            or self.mentions[tile] != count + 1 + (fill >= 0)
            or any(isinstance(n, (Break, Continue, Return)) for n in walk(body[work]))
        ):
            return None
        if any(has_load(e) for _, start, stop in loops for e in (start, stop)):
            return None
        if tile.type != region.buffer.type and not all(self.is_once(a, b) for _, a, b in loops):
            return None
        runs = [
            Binary("lt", cast(a, INDEX), cast(b, INDEX))
            for _, a, b in loops
            if self.bounds.truth(Binary("lt", cast(a, INDEX), cast(b, INDEX))) is not True
        ]
        others = sorted({b for b in self.mentions if b in self.params and b != region.buffer}, key=lambda b: b.name)
        if any(b.strides is not None for b in others):  # may share a part of C without beginning where C does
            return None
        apart = [Apart(b, region.buffer) for b in others] if region.buffer in self.params else []
        return _Sum(fill, work, direct, every([*apart, test_inside(region, self.bounds), *runs]))

    def is_once(self, start: Expr, stop: Expr) -> bool:
        """Whether a loop from `start` to `stop` runs once."""
        count = self.bounds.sum(cast(stop, INDEX)) - self.bounds.sum(cast(start, INDEX))
        return not count.terms and count.const == 1

    def is_result(self, copy: Copy) -> bool:
        """Whether `copy` takes a whole tile to a matrix in global memory that nothing else uses and no other block writes."""
        tile, region = copy.src.buffer, copy.dst
        c = region.buffer
        steps = static_strides(c)
        if not tile.is_on_chip or tile.view_of is not None or c.is_on_chip or c.view_of is not None or self.mentions[c] != 1 or c.strides is not None:
            return False
        if (
            not (tile.type == c.type or tile.type == "float32" and c.type in NARROWER)
            or c.type.bits < 8
            or steps is None
            or len(steps) < 2
            or not (is_whole(copy.src) and is_matrix(copy.src) and is_matrix(region))
        ):
            return False
        if region.extents[-2:] != tile.shape[-2:] or any(has_load(s) for s in region.starts):
            return False
        return self.launch is not None and self.is_of_one_block(region, self.launch)

    def is_of_one_block(self, region: Region, launch: Launch) -> bool:
        """Whether every block variable alone moves the region, by at least its extent, along a dim of its own."""
        forms = [self.bounds.sum(cast(start, INDEX)) for start in region.starts]
        for var, count in zip(launch.block_vars, launch.grid, strict=True):
            if is_const(count, 1):
                continue
            moves = [
                abs(form.terms[var]) >= int(extent.value)
                for form, extent in zip(forms, region.extents, strict=True)
                if set(form.terms) == {var} and isinstance(extent, Const)
            ]
            if not any(moves):
                return False
        return True


def _direct(stmt: Stmt, tile: Region, region: Region, loops: list[tuple[Var, Expr, Expr]], must_clear: bool) -> tuple[int, Stmt | None]:
    """How often `stmt` names the tile, and `stmt` with the region instead; None unless every run of it sums exactly one product per innermost loop.

    `loops` receives the loops around the products: the first time through all of them clears.
    """
    match stmt:
        case Gemm(a, b, c, clear=clear) if c == tile and a.buffer != tile.buffer and b.buffer != tile.buffer:
            if clear != (TRUE if must_clear else FALSE):
                return 1, None
            start = every(Binary("eq", v, cast(first, v.type)) for v, first, _ in loops)
            return 1, replace(stmt, c=region, clear=TRUE if must_clear else start)
        case For(var, start, stop, body) | PipelinedFor(var, start, stop, body) if not must_clear and (
            isinstance(stmt, PipelinedFor) or stmt.step > 0
        ):
            loops.append((var, start, stop))
            count, inside = _direct_body(body, tile, region, loops, must_clear)
            return count, None if inside is None else replace(stmt, body=inside)
        case If(_, then, other):
            here = list(loops)
            some, yes = _direct_body(then, tile, region, loops, must_clear)
            more, no = _direct_body(other, tile, region, loops, must_clear)
            return some + more, None if yes is None or no is None or loops != here else replace(stmt, then=yes, other=no)
        case _:
            return 0, None


def _direct_body(body: Body, tile: Region, region: Region, loops: list[tuple[Var, Expr, Expr]], must_clear: bool) -> tuple[int, Body | None]:
    users = [n for n, s in enumerate(body) if tile.buffer in uses(s).buffers]
    if len(users) != 1:
        return 0, None
    count, direct = _direct(body[users[0]], tile, region, loops, must_clear)
    return count, None if direct is None else (*body[: users[0]], direct, *body[users[0] + 1 :])
