"""Loops over the rows of a strip that only compute become one: loads and stores of one run beside the arithmetic of another.

Before:  for i in 0..16: for j in 0..64 simd: s[i * 64 + j] = exp2(s[i * 64 + j] - top[i])
         for i in 0..16: here[i] = sum(&s[i * 64], 64)
         for i in 0..16 simd: total[i] = total[i] * fade[i] + here[i]
         for i in 0..16: for d in 0..64 simd: out[i * 64 + d] = out[i * 64 + d] * fade[i]
After:   for i in 0..16:
           for j in 0..64 simd: s[i * 64 + j] = exp2(s[i * 64 + j] - top[i])
           for d in 0..64 simd: out[i * 64 + d] = out[i * 64 + d] * fade[i]
         for i in 0..16: here[i] = sum(&s[i * 64], 64)
         for i in 0..16 simd: total[i] = total[i] * fade[i] + here[i]

Loops that reduce stay apart: `fold_rows` takes the rows of such a loop together.

Requires: strips are made (`strip_rows`).  Preserves: what each row computes, in its order.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..analysis.aliasing import Aliasing
from ..analysis.rows import STRIP, Touched, may_swap, stay_in_rows, touched
from ..ir.expr import is_const
from ..ir.lowered import LibraryCall, Loop
from ..ir.node import replace, walk
from ..ir.stmt import Body, Kernel, Stmt
from .fuse_rows import with_row
from .scoped import Scoped


def join_rows(kernel: Kernel) -> Kernel:
    """Return `kernel` with such loops joined; `kernel` itself if there are none."""
    if sum(_rows(n) is not None for n in walk(kernel)) < 2:
        return kernel
    return _Join(kernel).kernel(kernel)


@dataclass(frozen=True, slots=True)
class _Part:
    """A statement of a body, and what it touches. `rows`: the loop over rows that it is."""

    stmt: Stmt
    touched: Touched
    rows: Loop | None


class _Join(Scoped):
    def __init__(self, kernel: Kernel) -> None:
        super().__init__()
        self.aliasing = Aliasing(kernel)

    def body(self, body: Body) -> Body:
        new = super().body(body)
        place = 0
        while place < len(new):
            loop = _rows(new[place])
            new = self.joined(new, place, loop) if loop is not None else new
            place += 1
        return new

    def joined(self, body: Body, place: int, loop: Loop) -> Body:
        """`body` with all loops that can join the one at `place`."""
        first = self.part(loop)
        if first is None:
            return body
        group, between = [first], list[_Part]()
        end = place + 1
        for stmt in body[end:]:
            part = self.part(stmt)
            if part is None:
                break
            (group if self.may_join(group, between, part) else between).append(part)
            end += 1
        if len(group) == 1:
            return body
        inside = tuple(with_row(s, p.rows.var, loop.var) for p in group if p.rows is not None for s in p.rows.body)
        return (*body[:place], replace(loop, body=inside), *(p.stmt for p in between), *body[end:])

    def part(self, stmt: Stmt) -> _Part | None:
        found = touched(stmt, self.bounds)
        return None if found is None else _Part(stmt, found, _rows(stmt))

    def may_join(self, group: list[_Part], between: list[_Part], part: _Part) -> bool:
        """Whether `part` may go to the end of the group, past what stands between them."""
        if part.rows is None or not all(may_swap(part.touched, p.touched, self.aliasing) for p in between):
            return False
        return all(self.row_by_row(p, part) for p in group)

    def row_by_row(self, a: _Part, b: _Part) -> bool:
        """Whether `b` may follow `a` in each row."""
        if a.rows is None or b.rows is None or a.touched.own & b.touched.free:
            return False
        return stay_in_rows(a.touched, a.rows.var, b.touched, b.rows.var, self.aliasing, self.bounds)


def _rows(node: object) -> Loop | None:
    """The loop over the rows of a strip that `node` is, if it reduces none of them."""
    match node:
        case Loop(_, start, stop, body, 1, False, (), "") if is_const(start, 0) and is_const(stop, STRIP):
            return None if any(isinstance(n, LibraryCall) for s in body for n in walk(s)) else node
        case _:
            return None
