"""Statements that walk the same many short rows take them in strips of 16: the strip stays in the first cache.

Before:  for i in 0..128: top[i] = max(&s[i * 64], 64)
         for i in 0..128: for j in 0..64 simd: s[i * 64 + j] = exp2(s[i * 64 + j] - top[i])
         for i in 0..128 simd: sums[i] = sums[i] + top[i]
After:   for strip in 0..8:
           for i in 0..16: top[strip * 16 + i] = max(&s[(strip * 16 + i) * 64], 64)
           for i in 0..16: for j in 0..64 simd: s[(strip * 16 + i) * 64 + j] = ...
           for i in 0..16 simd: sums[strip * 16 + i] = ...

One row at a time (`fuse_rows`) would wait in each row for its maximum; here the waits of 16 short rows overlap, and scalars of rows are still
vectors. Long rows and few rows are joined by `fuse_rows`.

Requires: loops are `Loop`s, vector loops are made.  Preserves: what each row computes, in its order.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..analysis.aliasing import Aliasing
from ..analysis.rows import STRIP, Touched, is_for_strips, row_elements, stay_in_rows, touched
from ..base.dtypes import INDEX, INT32
from ..ir.build import add, cast, index, mul
from ..ir.expr import Binary, Cast, Const, Expr, Var, is_const
from ..ir.lowered import CopyElements, Loop
from ..ir.node import Node, replace, rewrite
from ..ir.stmt import Body, If, Kernel, Launch, Stmt
from .fuse_rows import loop_over_rows
from .names import Names
from .scoped import Result, Scoped


def strip_rows(kernel: Kernel) -> Kernel:
    """Return `kernel` with such statements in strips; `kernel` itself if it has none."""
    return _Strip(kernel).kernel(kernel)


@dataclass(frozen=True, slots=True)
class _Part:
    """A statement in strips: `made` is that of one strip; `touched` is what it touches, with `strip` as its row."""

    made: Stmt
    touched: Touched
    rows: Loop | None  # the loop from row to row that it was
    whole: Touched | None


class _Strip(Scoped):
    def __init__(self, kernel: Kernel) -> None:
        super().__init__()
        self.names = Names(kernel)
        self.aliasing = Aliasing(kernel)
        self.in_launch = False

    def stmt(self, stmt: Stmt) -> Result:
        if not isinstance(stmt, Launch):
            return super().stmt(stmt)
        self.in_launch = True
        new = super().stmt(stmt)
        self.in_launch = False
        return new

    def body(self, body: Body) -> Body:
        new = super().body(body)
        if not self.in_launch:
            return new
        out: list[Stmt] = []
        place = 0
        while place < len(new):
            loop = self.group(new[place:])
            out.append(loop or new[place])
            place += len(loop.body) if loop is not None else 1
        return tuple(out) if len(out) < len(new) else new

    def count(self, body: Body) -> int:
        """Strips of the first loop from row to row in `body`, if nothing but what can be in strips stands before it; else 0."""
        for stmt in body:
            loop = _row_loop(stmt)
            if loop is not None:
                rows = int(loop.stop.value) if isinstance(loop.stop, Const) else 0
                return rows // STRIP if rows % STRIP == 0 else 0
            if not (isinstance(stmt, CopyElements) or isinstance(stmt, Loop) and stmt.simd):
                return 0
        return 0

    def group(self, body: Body) -> Loop | None:
        """The loop over strips that does the statements at the start of `body`, if that pays."""
        strips = self.count(body)
        if strips == 0:
            return None
        strip = self.names.var("strip")
        parts: list[_Part] = []
        self.bounds.bind(strip, index(0), index(strips))
        for stmt in body:
            part = self.part(stmt, strip, strips)
            if part is None or not all(stay_in_rows(p.touched, strip, part.touched, strip, self.aliasing, self.bounds) for p in parts):
                break
            parts.append(part)
        return Loop(strip, index(0), index(strips), tuple(p.made for p in parts), span=body[0].span) if self.pays(parts) else None

    def pays(self, parts: list[_Part]) -> bool:
        """Whether two loops from row to row walk the same short rows."""
        for n, a in enumerate(parts):
            for b in parts[:n]:
                if a.rows is not None and b.rows is not None and a.whole is not None and b.whole is not None:
                    length = row_elements(b.whole, b.rows.var, a.whole, a.rows.var, self.aliasing, self.bounds)
                    if isinstance(a.rows.stop, Const) and is_for_strips(int(a.rows.stop.value), length):
                        return True
        return False

    def part(self, stmt: Stmt, strip: Var, strips: int) -> _Part | None:
        made = self.in_strip(stmt, strip, strips)
        found = touched(made, self.bounds) if made is not None else None
        if made is None or found is None:
            return None
        loop = _row_loop(stmt)
        return _Part(made, found, loop, touched(loop, self.bounds) if loop is not None else None)

    def in_strip(self, stmt: Stmt, strip: Var, strips: int) -> Stmt | None:
        """What one strip does of `stmt`; None if it has no parts of equal size."""
        match stmt:
            case Loop(var, start, Const(count), body, 1) if is_const(start, 0) and count % strips == 0 and not stmt.reductions and not stmt.label:
                new = self.names.var(var.hint or var.name, var.type)
                each = int(count) // strips
                self.bounds.bind(new, start, Const(each, var.type))
                moved = tuple(_moved(s, var, new, mul(strip, index(each))) for s in body)
                return replace(stmt, var=new, stop=Const(each, var.type), body=moved)
            case CopyElements(_, dst_offset, _, src_offset, Const(count)) if count % strips == 0:
                by = mul(strip, index(int(count) // strips))
                return replace(stmt, dst_offset=add(by, dst_offset), src_offset=add(by, src_offset), count=index(int(count) // strips))
            case If(_, (*lets, Loop() as loop), ()) if _row_loop(stmt) is not None:
                made = self.in_strip(loop, strip, strips)
                return None if made is None else replace(stmt, then=(*lets, made))
            case _:
                return None


def _row_loop(stmt: Stmt) -> Loop | None:
    """The loop from row to row that `stmt` is, or that it guards by a test of variables."""
    loop, _, _ = loop_over_rows(stmt)
    return None if loop is None or loop.simd else loop


def _moved(stmt: Stmt, old: Var, new: Var, by: Expr) -> Stmt:
    """`stmt` with `by + new` for `old`."""

    def change(node: Node) -> Node:
        match node:
            case Var(name) if name == old.name:
                return add(by, new) if old.type == INDEX else Binary("add", Cast(by, INT32), new)
            case Cast(Binary("add", Cast(x, to), Var(name)), to_index) if x is by and to == INT32 and name == new.name and to_index == INDEX:
                return add(by, cast(new, INDEX))
            case _:
                return node

    return rewrite(stmt, change)
