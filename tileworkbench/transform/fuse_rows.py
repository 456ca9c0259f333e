"""Loops over the same rows become one loop, so that a row stays near while everything is done to it.

Before:  for i in 0..8: top[i] = max(&x[i * 64], 64)
         for i in 0..8: for j in 0..64 simd: x[i * 64 + j] = exp2(x[i * 64 + j] - top[i])
After:   for i in 0..8: top[i] = max(&x[i * 64], 64); for j in 0..64 simd: x[i * 64 + j] = exp2(x[i * 64 + j] - top[i])

A loop of one iteration is its body. Many short rows are left to `strip_rows`. A loop joins one before it if both walk the same rows of some buffer,
what they share stays within the row, and it may change places with what stands between; that goes in front of the group instead if it can. A vector
loop over rows (a scalar of each row) stays a vector loop, behind the joined loops, unless one of these waits for it: then it is done row by row, if
that costs little beside the row.

Requires: loops are `Loop`s, vector loops are made.  Preserves: what each row computes, in its order.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ..analysis.aliasing import Aliasing
from ..analysis.rows import Touched, is_for_strips, may_swap, row_elements, stay_in_rows, touched
from ..base.dtypes import INDEX, INT32
from ..ir.build import add, cast, mul
from ..ir.expr import Binary, Cast, Const, Expr, Unary, Var, is_const
from ..ir.lowered import EndIteration, Loop
from ..ir.node import Node, replace, rewrite, walk
from ..ir.stmt import Body, Break, Continue, If, Kernel, Launch, Let, Stmt
from .scoped import Result, Scoped

_SHORT = 16  # elements of a row below which nothing is gained
_SCALAR = 32  # elements of a row that take as long as one operation on a scalar that has to be waited for
_SLOW = ("div", "pow", "fmod", "atan2", "hypot")
_QUICK = ("neg", "not", "abs", "bitnot")


def fuse_rows(kernel: Kernel) -> Kernel:
    """Return `kernel` with such loops joined."""
    return _Fuse(kernel).kernel(kernel)


@dataclass(frozen=True, slots=True, eq=False)
class _Part:
    """A statement of a body. `loop`: the loop over rows that it is, or that a test of it guards (`cond`, after `lets`)."""

    stmt: Stmt
    touched: Touched | None
    loop: Loop | None = None
    cond: Expr | None = None
    lets: Body = ()

    @property
    def rows(self) -> Loop:
        assert self.loop is not None
        return self.loop

    @property
    def last(self) -> int:
        """The number of rows."""
        assert isinstance(self.rows.stop, Const)
        return int(self.rows.stop.value)

    @property
    def is_row_loop(self) -> bool:
        """Whether it goes from row to row already, and not over a vector of them at once."""
        return self.loop is not None and not self.loop.simd


@dataclass(frozen=True, slots=True)
class _Group:
    """Loops that become one, statements that go in front of them, and those that stay behind."""

    group: list[_Part]
    front: list[_Part] = field(default_factory=list)
    left: list[_Part] = field(default_factory=list)


class _Fuse(Scoped):
    def __init__(self, kernel: Kernel) -> None:
        super().__init__()
        self.aliasing = Aliasing(kernel)
        self.in_launch = False

    def stmt(self, stmt: Stmt) -> Result:
        if isinstance(stmt, Launch):
            self.in_launch = True
            new = super().stmt(stmt)
            self.in_launch = False
            return new
        return super().stmt(stmt)

    def body(self, body: Body) -> Body:
        new = _without_single(super().body(body))
        if not self.in_launch or sum(isinstance(s, (Loop, If)) for s in new) < 2:
            return new
        parts = [_Part(s, touched(s, self.bounds), *loop_over_rows(s)) for s in new]
        out: list[Stmt] = []
        changed = False
        while parts:
            found = self.group(parts)
            changed |= len(found.group) > 1
            out += (p.stmt for p in found.front)
            out.append(_joined(found.group) if len(found.group) > 1 else parts[0].stmt)
            parts = found.left
        return tuple(out) if changed else new

    # ------------------------------------------------------------------------------------------ groups
    def group(self, parts: list[_Part]) -> _Group:
        """The loops that the first of `parts` becomes one with, what has to go in front, and what stays behind."""
        out = _Group([parts[0]])
        for n, part in enumerate(parts[1:], 1):
            if part.touched is None or parts[0].touched is None or not parts[0].is_row_loop:
                return _Group(out.group, out.front, [*out.left, *parts[n:]])
            joined = self.with_part(out, part) if part.is_row_loop else None
            out = joined or _Group(out.group, out.front, [*out.left, part])
        return out

    def with_part(self, now: _Group, part: _Part) -> _Group | None:
        """The group with `part`, after those statements behind the group that it cannot pass: they join too, or go in front of the group."""
        front, left, after = list(now.front), list[_Part](), [part]
        waiting: list[_Part] = []
        for p in reversed(now.left):
            if not all(self.swap(p, q) for q in (*after, *waiting)):
                waiting.insert(0, p)
        new: list[_Part] = []
        for p in now.left:
            if p not in waiting:
                left.append(p)
            elif all(self.swap(p, q) for q in (*now.group, *new, *left)):
                front.append(p)
            else:
                new.append(p)
        new.append(part)
        return _Group([*now.group, *new], front, left) if self.may_join(now.group, new, part) else None

    def swap(self, a: _Part, b: _Part) -> bool:
        return a.touched is not None and b.touched is not None and may_swap(a.touched, b.touched, self.aliasing)

    def may_join(self, group: list[_Part], new: list[_Part], part: _Part) -> bool:
        """Whether all of `new` may follow the group row by row, and whether it pays: `part` walks a row that the group has walked."""
        if any(p.loop is None or p.last != group[0].last for p in new):
            return False
        length = max(self.shared(g, part) for g in group)
        waits = sum(_operations(p.rows) for p in new if p.rows.simd)
        if length < _SHORT or waits * _SCALAR > length or is_for_strips(group[0].last, length):
            return False
        done = list(group)
        for p in new:
            if not all(self.row_by_row(g, p) for g in done):
                return False
            done.append(p)
        return True

    def shared(self, a: _Part, b: _Part) -> int:
        assert a.touched is not None and b.touched is not None
        return row_elements(a.touched, a.rows.var, b.touched, b.rows.var, self.aliasing, self.bounds)

    def row_by_row(self, a: _Part, b: _Part) -> bool:
        if a.touched is None or b.touched is None or a.touched.own & b.touched.free:
            return False
        return stay_in_rows(a.touched, a.rows.var, b.touched, b.rows.var, self.aliasing, self.bounds)


def _without_single(body: Body) -> Body:
    """`body` with loops of one iteration opened, if nothing in them leaves the iteration."""
    out: list[Stmt] = []
    for stmt in body:
        if isinstance(stmt, Loop) and _is_single(stmt):
            out += (_spanned(_at_zero(s, stmt.var), stmt) for s in stmt.body)
        else:
            out.append(stmt)
    return tuple(out) if len(out) != len(body) or any(a is not b for a, b in zip(out, body, strict=True)) else body


def _is_single(loop: Loop) -> bool:
    once = is_const(loop.start, 0) and is_const(loop.stop, 1) and loop.step == 1 and not loop.reductions and not loop.label
    return once and not any(isinstance(n, (Break, Continue, EndIteration)) for n in walk(loop))


def _at_zero(stmt: Stmt, var: Var) -> Stmt:
    def change(node: Node) -> Node:
        match node:
            case Var(name) if name == var.name:
                return Const(0, var.type)
            case Binary("add", a, b) if node.dtype == INDEX and (is_const(a) or is_const(b)):
                return add(a, b)
            case Binary("mul", a, b) if node.dtype == INDEX and (is_const(a) or is_const(b)):
                return mul(a, b)
            case Cast(Const() as x, to):
                return cast(x, to)
            case _:
                return node

    return rewrite(stmt, change)


def loop_over_rows(stmt: Stmt) -> tuple[Loop | None, Expr | None, Body]:
    """The loop from 0 to a constant that `stmt` is, or that it guards by a test of variables."""
    match stmt:
        case Loop(_, start, Const(), _, 1) if is_const(start, 0) and not stmt.reductions and not stmt.label:
            return stmt, None, ()
        case If(cond, (*lets, Loop() as loop), ()) if all(isinstance(s, Let) and _is_fixed(s.value) for s in lets) and _is_fixed(cond):
            inner, test, _ = loop_over_rows(loop)
            return (inner, cond, tuple(lets)) if inner is not None and test is None and not inner.simd else (None, None, ())
        case _:
            return None, None, ()


def _is_fixed(expr: Expr) -> bool:
    return all(isinstance(n, (Const, Var, Binary, Unary, Cast)) for n in walk(expr) if isinstance(n, Expr))


def _operations(loop: Loop) -> int:
    """Operations of one row, slow ones as several."""
    count = 0
    for n in walk(loop):
        if isinstance(n, Unary) and n.op not in _QUICK or isinstance(n, Binary) and n.op in _SLOW and n.dtype.is_float:
            count += 8
        elif isinstance(n, Binary) and n.dtype.is_float:
            count += 1
    return count


def _joined(group: list[_Part]) -> Loop:
    """One loop that does all of `group` for each row."""
    first = group[0].rows
    body: list[Stmt] = []
    for part in group:
        inside = part.rows.body if part is group[0] else tuple(with_row(s, part.rows.var, first.var) for s in part.rows.body)
        body += inside if part.cond is None else (If(part.cond, (*part.lets, *inside), span=part.stmt.span),)
    return replace(first, body=tuple(_spanned(s, p.stmt) for p, s in _owners(group, body)))


def _owners(group: list[_Part], body: list[Stmt]) -> list[tuple[_Part, Stmt]]:
    counts = [1 if p.cond is not None else len(p.rows.body) for p in group]
    owners = [p for p, count in zip(group, counts, strict=True) for _ in range(count)]
    return list(zip(owners, body, strict=True))


def _spanned(stmt: Stmt, loop: Stmt) -> Stmt:
    """What came from a loop keeps the place where the author wrote it."""
    return stmt if stmt.span is not None or loop.span is None else replace(stmt, span=loop.span)


def with_row(stmt: Stmt, old: Var, new: Var) -> Stmt:
    narrow = Cast(new, INT32)

    def change(node: Node) -> Node:
        match node:
            case Var(name) if name == old.name:
                return new if old.type == new.type else narrow
            case Cast(x, to) if x == narrow and to == INDEX and old.type != new.type:
                return new
            case _:
                return node

    return rewrite(stmt, change)
