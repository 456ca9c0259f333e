"""Index arithmetic of a GPU's threads in 32 bits, wherever every value on the way fits.

Before:  for r: int64 in unroll(0, 4): A@[by * 262144 + tx // 8 * 4096 + r * 131072 + M * 8]        (by, tx, r: int64; M a dim)
After:   for r: int32 in unroll(0, 4): A@[M * 8 + int64(by * 262144 + (tx >> 3) * 4096 + r * 131072)]

Ranges come from the launch: blocks, threads, loops with known ends. What has no range, such as a dim, and what is too large stays in 64 bits; the
small terms of such a sum are added in 32 bits first. Division of what is not negative by a power of two becomes a shift, the remainder a mask.
No intermediate value overflows, so results are the same for every value that the variables can have.

Requires: lowered launches of a GPU.  Preserves: types of everything that is stored or passed on.
"""

from __future__ import annotations

from ..analysis.int_ranges import (
    ANY,
    Range,
    add_ranges,
    bit_ceiling,
    divide_ranges,
    divide_within,
    fits,
    mod_range,
    mod_within,
    mul_ranges,
    of_type,
    subtract_ranges,
)
from ..base.dtypes import INDEX, INT32
from ..ir.build import index, int32
from ..ir.device import Registers
from ..ir.expr import Binary, Cast, Const, Expr, Select, Unary, Var
from ..ir.lowered import Address, Element, Grid, LibraryCall, LoadVector, Loop, SetElement, StoreVector
from ..ir.node import Node, map_children, replace, rewrite
from ..ir.stmt import Kernel, Let, Stmt

# blocks of a grid in x, y, z. Source: CUDA C++ Programming Guide, technical specifications per compute capability
_MOST_BLOCKS = ((1 << 31) - 1, 65535, 65535)
_MOST_STAY = 1 << 16  # blocks that stay: one for a multiprocessor, of which no GPU has so many
_COMPARE = ("lt", "le", "gt", "ge", "eq", "ne")
_DIVISIONS = ("floordiv", "floormod", "truncdiv", "truncmod")


def narrow_indices(kernel: Kernel) -> Kernel:
    """Return `kernel` with int32 for indices in launches."""
    return rewrite(kernel, lambda node: _Narrow(node).grid() if isinstance(node, Grid) else node)


class _Narrow:
    """One launch. An index expression becomes (the same as an int32 or still an index, its range)."""

    def __init__(self, grid: Grid) -> None:
        self.old = grid
        self.ranges: dict[str, Range] = {}
        self.narrow: set[str] = set()  # variables that are int32 now

    def grid(self) -> Grid:
        new_vars = []
        for var, extent, most in zip(self.old.vars, self.old.extents, _MOST_BLOCKS, strict=False):
            last = (int(extent.value) if isinstance(extent, Const) else most) - 1
            new_vars.append(self.bind(var, (0, max(last, 0))))
        body = tuple(self.stmt(s) for s in self.old.body)
        return replace(self.old, vars=tuple(new_vars), body=body)

    def bind(self, var: Var, known: Range) -> Var:
        self.ranges[var.name] = known
        if var.type != INDEX or not fits(known):
            self.narrow.discard(var.name)  # a name may be bound again, behind where the other binding is seen
            return var
        self.narrow.add(var.name)
        return int32(var)

    # ------------------------------------------------------------------------------------------ statements
    def stmt(self, stmt: Stmt) -> Stmt:
        match stmt:
            case Let(var, value) if var.type == INDEX:
                new, known = self.index(value)
                var = self.bind(var, known)
                return replace(stmt, var=var, value=_as(new, var.type == INT32))
            case Loop(var, start, stop, body, step) if var.type == INDEX:
                (first, low), (last, high) = self.index(start), self.index(stop)
                lowest, highest = (low, high) if step > 0 else (high, low)
                inside: Range = (lowest[0], None if highest[1] is None else highest[1] - 1 if step > 0 else highest[1])
                most = _MOST_STAY if stmt.by is not None else max(step, 0)
                ends = add_ranges((lowest[0], highest[1]), (min(step, 0), most))  # the variable passes the end by a step
                small = fits(ends)
                var = self.bind(var, inside if small else (inside[0], None))
                self.ranges[var.name] = inside
                inner = tuple(self.stmt(s) for s in body)
                return replace(stmt, var=var, start=_as(first, small), stop=_as(last, small), body=inner)
            case SetElement(_, offset, value):
                return replace(stmt, offset=self.index(offset)[0], value=self.expr(value))
            case LoadVector(_, at, _, offset) | StoreVector(_, offset, _, at):
                return replace(stmt, at=self.index(at)[0], offset=self.index(offset)[0])
            case _:
                return map_children(stmt, self.part)

    def part(self, node: Node) -> Node:
        match node:
            case Stmt():
                return self.stmt(node)
            case Expr():
                return self.expr(node)
            case _:
                return map_children(node, self.part)

    # ------------------------------------------------------------------------------------------ expressions
    def expr(self, e: Expr) -> Expr:
        """`e` with its own type."""
        match e:
            case _ if e.dtype == INDEX:
                return _as(self.index(e)[0], False)
            case Element(_, offset) | Address(_, offset) | Registers(_, offset):
                return replace(e, offset=self.index(offset)[0])
            case Binary(op, a, b) if op in _COMPARE and a.dtype == INDEX:
                left, right = self.index(a)[0], self.index(b)[0]
                small = left.dtype == right.dtype == INT32
                return replace(e, a=_as(left, small), b=_as(right, small))
            case Cast(x, to) if x.dtype == INDEX:
                new = self.index(x)[0]
                return new if new.dtype == to else replace(e, x=new)
            case Var():
                return e
            case _:
                return map_children(e, self.part)

    def index(self, e: Expr) -> tuple[Expr, Range]:
        """An index, as an int32 if it fits and is made of what fits."""
        if e.dtype != INDEX:  # an offset that is an int32 already
            return self.expr(e), of_type(e.dtype)
        match e:
            case Const(value):
                return (Const(value, INT32) if fits((int(value), int(value))) else e), (int(value), int(value))
            case Var(name):
                return (int32(e) if name in self.narrow else e), self.ranges.get(name, ANY)
            case Cast(x, _) if x.dtype.is_int or x.dtype.is_bool:
                return self.widened(e, x)
            case Binary(op, a, b):
                return self.binary(e, op, a, b)
            case Unary("neg", x):
                new, known = self.index(x)
                return self.made(Unary("neg", new, span=e.span), subtract_ranges((0, 0), known), new)
            case Select(cond, then, other):
                (yes, one), (no, two) = self.index(then), self.index(other)
                small = yes.dtype == no.dtype == INT32
                return Select(self.expr(cond), _as(yes, small), _as(no, small), span=e.span), _hull(one, two)
            case Element(_, offset) | Address(_, offset):
                return replace(e, offset=self.index(offset)[0]), ANY
            case _:
                return map_children(e, self.part), ANY

    def widened(self, e: Cast, x: Expr) -> tuple[Expr, Range]:
        known = of_type(x.dtype)
        if isinstance(x, LibraryCall) and x.name.startswith("twb_thread_"):
            known = (0, self.old.threads["xyz".index(x.name[-1])] - 1)
        inner = self.expr(x)
        if fits(known):
            return (inner if inner.dtype == INT32 else Cast(inner, INT32, span=e.span)), known
        return (e if inner is x else replace(e, x=inner)), known

    def binary(self, e: Binary, op: str, a: Expr, b: Expr) -> tuple[Expr, Range]:
        if op in ("add", "sub"):
            return self.sum(e)
        (left, one), (right, two) = self.index(a), self.index(b)
        match op:
            case "mul":
                known = mul_ranges(one, two)
            case "min" | "max":
                known = _hull(one, two)
            case _ if op in _DIVISIONS and isinstance(b, Const) and int(b.value) > 0:
                return self.division(e, left, one, int(b.value))
            case _ if op in _DIVISIONS and one[0] is not None and one[0] >= 0 and two[0] is not None and two[0] > 0:
                op = "truncmod" if op.endswith("mod") else "truncdiv"
                known = mod_within(one, two) if op == "truncmod" else divide_within(one, two)
            case "shl" if isinstance(b, Const) and 0 <= int(b.value) < 31:
                known = mul_ranges(one, (1 << int(b.value), 1 << int(b.value)))
            case "shr" if isinstance(b, Const) and 0 <= int(b.value) < 31:
                known = divide_ranges(one, 1 << int(b.value))
            case "bitand" | "bitor" | "bitxor":
                known = bit_ceiling(op, one, two) if left.dtype == right.dtype == INT32 else ANY
            case _:
                return Binary(op, _as(left, False), _as(right, False), span=e.span), ANY
        return self.made(Binary(op, left, right, span=e.span), known, left, right)

    def division(self, e: Binary, a: Expr, known: Range, by: int) -> tuple[Expr, Range]:
        """By a number above 0."""
        natural = known[0] is not None and known[0] >= 0
        is_floor = e.op.startswith("floor") or natural
        is_mod = e.op.endswith("mod")
        if is_mod:
            after: Range = mod_range(known, by) if is_floor else (1 - by, by - 1)
        else:
            after = divide_ranges(known, by) if is_floor else (ANY if None in known else _hull(divide_ranges(known, by), (0, 0)))
        op, number = e.op, by
        if is_floor and by & (by - 1) == 0:
            op, number = ("bitand", by - 1) if is_mod else ("shr", by.bit_length() - 1)
        elif natural:
            op = "truncmod" if is_mod else "truncdiv"
        if a.dtype == INT32 and by < 1 << 31:
            return Binary(op, a, Const(number, INT32), span=e.span), after
        wide = Binary(op, _as(a, False), index(number), span=e.span)
        return (Cast(wide, INT32, span=e.span) if fits(after) else wide), after

    def sum(self, e: Binary) -> tuple[Expr, Range]:
        """A sum: what fits in 32 bits first, then the rest."""
        terms = [(*self.index(term), sign) for term, sign in _terms(e)]
        known: Range = (0, 0)
        for _, one, sign in terms:
            known = add_ranges(known, one if sign > 0 else subtract_ranges((0, 0), one))
        small: list[tuple[Expr, int]] = []
        high: list[tuple[Expr, int]] = []
        low: Range = (0, 0)
        for new, one, sign in terms:
            after = add_ranges(low, one if sign > 0 else subtract_ranges((0, 0), one))
            if new.dtype == INT32 and fits(after):
                small.append((new, sign))
                low = after
            else:
                high.append((_as(new, False), sign))
        if not high:
            return _joined(small), known
        if small:
            high.append((Cast(_joined(small), INDEX), 1))
        return _joined(high), known

    def made(self, e: Expr, known: Range, *operands: Expr) -> tuple[Expr, Range]:
        """An operation whose operands are the given ones, in 32 bits if all of it fits."""
        if all(o.dtype == INT32 for o in operands) and fits(known):
            return e, known
        wide = map_children(e, lambda o: _as(o, False) if isinstance(o, Expr) else o)
        return wide, known


def _terms(e: Expr, sign: int = 1) -> list[tuple[Expr, int]]:
    if isinstance(e, Binary) and e.op in ("add", "sub") and e.dtype == INDEX:
        return [*_terms(e.a, sign), *_terms(e.b, sign if e.op == "add" else -sign)]
    return [(e, sign)]


def _joined(terms: list[tuple[Expr, int]]) -> Expr:
    """The terms' sum, in their order but for a positive one first."""
    first = next((i for i, (_, sign) in enumerate(terms) if sign > 0), None)
    if first is None:
        out: Expr = Unary("neg", terms[0][0])
        rest = terms[1:]
    else:
        out = terms[first][0]
        rest = terms[:first] + terms[first + 1 :]
    for term, sign in rest:
        out = Binary("add" if sign > 0 else "sub", out, term)
    return out


def _as(e: Expr, small: bool) -> Expr:
    """An index as an int32, which it fits into, or in 64 bits."""
    if small:
        return e if e.dtype == INT32 else Cast(e, INT32)
    return e if e.dtype == INDEX else Const(e.value, INDEX) if isinstance(e, Const) else Cast(e, INDEX)


def _hull(a: Range, b: Range) -> Range:
    return (None if a[0] is None or b[0] is None else min(a[0], b[0])), (None if a[1] is None or b[1] is None else max(a[1], b[1]))
