"""The body of a vector loop, made fit for the C compiler's vectoriser.

- The loop variable is an int32, so that comparisons with it give masks as wide as float32 vectors. A test `a*64 + j < n` becomes `j < t` with
  t = clamp(n - a*64, 0, extent) computed before the loop; tests without j become such a t too (all or nothing).
- What does not depend on the loop variable and reads memory or is expensive moves in front of the loop.
- Reads that are inside anyway move out of lazily evaluated places, so that nothing is conditional but the choice of the value.
- `and`, `or` without conditional reads are evaluated on both sides.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..analysis.bounds import Bounds
from ..analysis.linear import Linear, to_expr
from ..analysis.uses import written_roots
from ..base.dtypes import BOOL, INDEX, INT32
from ..ir.build import ZERO, cast, index, int32, maximum, minimum
from ..ir.expr import Binary, Buffer, Cast, Const, Expr, Select, Unary, Var
from ..ir.lowered import Element, LibraryCall, SetElement
from ..ir.node import Node, map_children, replace, walk
from ..ir.stmt import Body, If, Let, Stmt
from .names import Names

_SWAP = {"lt": "gt", "gt": "lt", "le": "ge", "ge": "le"}
_COSTLY = ("floordiv", "floormod", "truncdiv", "truncmod", "pow", "fmod", "atan2", "hypot", "div")
_CHEAP_UNARY = ("neg", "not", "abs", "bitnot")


@dataclass(frozen=True, slots=True)
class _Cut:
    """The test `j < bound` or `j >= bound` for the loop variable j; `bound` is an index within [0, extent]."""

    op: str
    bound: Expr


class VectorBody:
    """Rewrites the statements of one vector loop; `before` collects what goes in front of it."""

    def __init__(self, var: Var, extent: Expr, bounds: Bounds, names: Names) -> None:
        self.var, self.narrow = var, int32(var)
        self.small = {var.name: self.narrow}  # indices that are int32 here
        self.extent, self.bounds, self.names = extent, bounds, names
        self.before: list[Stmt] = []
        self.known: dict[Expr, Var] = {}
        self.varying: set[str] = {var.name}
        self.written: set[Buffer] = set()

    def rewrite(self, body: Body) -> Body:
        """The new body."""
        self.written = written_roots(body)
        return self._body(body)

    def _body(self, body: Body) -> Body:
        out: list[Stmt] = []
        for stmt in body:
            match stmt:
                case Let(_, value) if self._is_fixed(value):
                    self.before.append(stmt)
                case Let(var, value) if var.type == INDEX and self.depends(value) and (small := self._small(value)) is not None:
                    self.varying.add(var.name)
                    self.small[var.name] = int32(var)
                    out.append(replace(stmt, var=int32(var), value=small))
                case Let(var, value):
                    self.varying.add(var.name)
                    reads, new = self._with_reads(value)
                    out += [*reads, replace(stmt, value=new)]
                case SetElement(_, offset, value):
                    reads, new = self._with_reads(value)
                    out += [*reads, replace(stmt, offset=self.index(offset), value=new)]
                case If(cond, then, other):
                    test = self.value(cond)
                    out.append(replace(stmt, cond=test, then=self._body(then), other=self._body(other)))
                case _:
                    out.append(map_children(stmt, lambda n: self.value(n) if isinstance(n, Expr) else n))
        return tuple(out)

    def _with_reads(self, value: Expr) -> tuple[Body, Expr]:
        """The value, and before it the reads that it would do conditionally."""
        reads: list[Let] = []
        plain = self._unconditional(value, False, reads, {})
        new = self.value(plain)
        return tuple(replace(r, value=self.value(r.value)) for r in reads), new

    # ------------------------------------------------------------------------------------------ conditional reads
    def _unconditional(self, expr: Expr, lazy: bool, reads: list[Let], seen: dict[Expr, Var]) -> Expr:
        match expr:
            case Const() | Var():
                return expr
            case Element(buffer) if lazy and expr.anywhere and buffer.scope != "var":
                if not self.depends(expr):
                    return expr  # goes in front of the loop anyway
                if expr not in seen:
                    var = seen[expr] = self.names.var(f"{buffer.name}_{self.var.hint or self.var.name}", expr.dtype)
                    self.varying.add(var.name)
                    reads.append(Let(var, expr))
                return seen[expr]
            case Select(cond, then, other):
                parts = (self._unconditional(cond, lazy, reads, seen), *(self._unconditional(e, True, reads, seen) for e in (then, other)))
                return expr if parts == (cond, then, other) else replace(expr, cond=parts[0], then=parts[1], other=parts[2])
            case Binary("and" | "or", a, b):
                left, right = self._unconditional(a, lazy, reads, seen), self._unconditional(b, True, reads, seen)
                return expr if left is a and right is b else replace(expr, a=left, b=right)
            case _:
                return map_children(expr, lambda n: self._unconditional(n, lazy, reads, seen) if isinstance(n, Expr) else n)

    # ------------------------------------------------------------------------------------------ values
    def depends(self, node: Node) -> bool:
        """Whether a value changes from one iteration to the next."""
        for n in walk(node):
            if isinstance(n, Var) and n.name in self.varying:
                return True
            if isinstance(n, Element) and n.buffer.root in self.written:
                return True
        return False

    def _is_fixed(self, value: Expr) -> bool:
        """Whether a binding may go in front of the loop."""
        return not self.depends(value) and all(n.anywhere for n in walk(value) if isinstance(n, Element))

    def index(self, offset: Expr) -> Expr:
        """An offset: only the loop variable changes its type."""
        return self._widen(self._hoist(offset))

    def value(self, expr: Expr) -> Expr:
        """Any expression of the body."""
        if expr.dtype == BOOL:
            return self._test(expr)
        if not self.depends(expr):
            return self._hoist(expr)
        match expr:
            case Var():
                return self._widen(expr)
            case Element(_, offset):
                return replace(expr, offset=self.index(offset))
            case Cast(x, to) if x.dtype == INDEX:
                small = self._small(x)
                if small is not None:
                    return cast(small, to)
                if to == INT32:
                    return self._wrapped(x)
                return replace(expr, x=self.value(x))
            case _:
                return map_children(expr, lambda n: self.value(n) if isinstance(n, Expr) else n)

    def _hoist(self, expr: Expr) -> Expr:
        """An invariant: in front of the loop if it reads memory or costs time, otherwise where it is."""
        if self.depends(expr):
            return map_children(expr, lambda n: self._hoist(n) if isinstance(n, Expr) else n)
        if not _is_costly(expr):
            return expr
        if not self._is_fixed(expr):
            return expr
        if expr not in self.known:
            first = next((n.buffer.name for n in walk(expr) if isinstance(n, Element)), "fixed")
            var = self.known[expr] = self.names.var(f"{first}_0", expr.dtype)
            self.before.append(Let(var, expr))
        return self.known[expr]

    def _widen(self, expr: Expr) -> Expr:
        """Index arithmetic with the int32 loop variable."""
        match expr:
            case Var(name) if name in self.small:
                return Cast(self.small[name], INDEX)
            case Var() | Const():
                return expr
            case Binary("truncdiv" | "truncmod" | "floordiv" | "floormod") if (small := self._small(expr)) is not None:
                return Cast(small, INDEX)
            case Element(_, offset):
                return replace(expr, offset=self.index(offset))
            case Cast(x, to) if to == INDEX:
                return cast(self.value(x), INDEX)
            case _:
                return map_children(expr, lambda n: self._widen(n) if isinstance(n, Expr) else n)

    def _small(self, expr: Expr) -> Expr | None:
        """The same index computed in int32, if every intermediate result fits."""
        match expr:
            case Var(name) if name in self.small:
                return self.small[name]
            case Const(value):
                return Const(value, INT32) if abs(int(value)) < 1 << 31 else None
            case _ if not self._fits(expr):
                return None
            case _ if not self.depends(expr):
                return cast(self._hoist(expr), INT32)
            case Binary("add" | "sub" | "mul" | "truncdiv" | "truncmod" | "floordiv" | "floormod" | "min" | "max" | "bitand" as op, a, b):
                low, high = self._small(a), self._small(b)
                return None if low is None or high is None else Binary(op, low, high)
            case Cast(x, _) if x.dtype == INT32:
                return self.value(x)
            case _:
                return None

    def _fits(self, expr: Expr) -> bool:
        low, high = self.bounds.interval(expr)
        return low is not None and high is not None and low >= -(1 << 31) and high < 1 << 31

    def _wrapped(self, expr: Expr) -> Expr:
        """int32 of an index that may be too large: sums and products of the low halves are the low half."""
        match expr:
            case Binary("add" | "sub" | "mul" as op, a, b):
                return Binary(op, self._wrapped(a), self._wrapped(b))
            case Var(name) if name in self.small:
                return self.small[name]
            case Const(value):
                return Const((int(value) + (1 << 31)) % (1 << 32) - (1 << 31), INT32)
            case _:
                return Cast(self.value(expr), INT32)

    # ------------------------------------------------------------------------------------------ tests
    def _test(self, expr: Expr) -> Expr:
        cut = self._cut(expr)
        if cut is not None:
            return self._cut_expr(cut)
        match expr:
            case Binary("and" | "or" as op, a, b):
                left, right = self._test(a), self._test(b)
                lazy = any(isinstance(n, (Element, LibraryCall)) for n in walk(right))
                return Binary(op if lazy else "bit" + op, left, right, span=expr.span)
            case Unary("not", x):
                return Unary("not", self._test(x), span=expr.span)
            case Binary(op, a, b) if a.dtype == INDEX:
                low, high = self._small(a), self._small(b)
                if low is not None and high is not None:
                    return Binary(op, low, high, span=expr.span)
                return Binary(op, self.value(a), self.value(b), span=expr.span)
            case Const() | Var():
                return expr
            case Element(_, offset):
                return replace(expr, offset=self.index(offset))
            case _:
                return map_children(expr, lambda n: self.value(n) if isinstance(n, Expr) else n)

    def _cut_expr(self, cut: _Cut) -> Expr:
        bound = cut.bound
        if isinstance(bound, Const):
            return Binary(cut.op, self.narrow, Const(bound.value, INT32))
        if bound not in self.known:
            var = self.known[bound] = self.names.var(f"{self.var.hint or self.var.name}_{'end' if cut.op == 'lt' else 'begin'}", INT32)
            self.before.append(Let(var, cast(bound, INT32)))
        return Binary(cut.op, self.narrow, self.known[bound])

    def _cut(self, expr: Expr) -> _Cut | None:
        """`expr` as a cut of the loop's range, if it is one."""
        if not self.depends(expr):
            if any(isinstance(n, Element) and not n.anywhere for n in walk(expr)):
                return None
            return _Cut("lt", Select(expr, self.extent, ZERO)) if not isinstance(expr, Const) else None
        match expr:
            case Unary("not", x):
                inner = self._cut(x)
                return None if inner is None else _Cut("ge" if inner.op == "lt" else "lt", inner.bound)
            case Binary("and" | "or" as op, a, b):
                left, right = self._cut(a), self._cut(b)
                return None if left is None or right is None else self._join(op, left, right, self.depends(a), self.depends(b))
            case Binary("lt" | "le" | "gt" | "ge" as op, a, b) if a.dtype == INDEX:
                return self._order_cut(op, self.bounds.sum(a) - self.bounds.sum(b))
            case _:
                return None

    def _order_cut(self, op: str, form: Linear) -> _Cut | None:
        c = form.coefficient(self.var)
        rest = form.without(self.var)
        if c == 0 or any(self.depends(a) for a in rest.terms):
            return None
        if c < 0:  # form < 0 is -form > 0
            form, rest, c, op = form.scale(-1), rest.scale(-1), -c, _SWAP[op]
        limit = rest.scale(-1)  # c*j OP limit; as j < bound or j >= bound: le and gt test against limit + 1
        if op in ("le", "gt"):
            limit = limit.shift(1)
        bound = self._clamped(limit)
        if c > 1:  # c*j < limit is j < ceil(limit / c)
            bound = Binary("floordiv", to_expr(limit.shift(c - 1)), index(c)) if limit.terms else index(-(-limit.const // c))
            bound = maximum(minimum(bound, self.extent), ZERO)
        return _Cut("lt" if op in ("lt", "le") else "ge", bound)

    def _clamped(self, limit: Linear) -> Expr:
        value = to_expr(limit)
        if isinstance(value, Const):
            return maximum(minimum(value, self.extent), ZERO)
        if not self.bounds.at_least_zero(limit):
            value = maximum(value, ZERO)
        fits = self.bounds.at_least_zero(self.bounds.sum(self.extent) - limit)
        return value if fits else minimum(value, self.extent)

    def _join(self, op: str, a: _Cut, b: _Cut, a_varies: bool, b_varies: bool) -> _Cut | None:
        """Both or one of two cuts; an invariant side closes or opens the whole range."""
        if not a_varies or not b_varies:  # not both: then the whole would not vary
            fixed, other = (a, b) if not a_varies else (b, a)
            assert isinstance(fixed.bound, Select)
            open_, closed = (self.extent, ZERO) if other.op == "lt" else (ZERO, self.extent)
            then, otherwise = (other.bound, closed) if op == "and" else (open_, other.bound)
            return _Cut(other.op, Select(fixed.bound.cond, then, otherwise))
        if a.op != b.op:
            return None
        smaller = (op == "and") == (a.op == "lt")
        return _Cut(a.op, minimum(a.bound, b.bound) if smaller else maximum(a.bound, b.bound))


def _is_costly(expr: Expr) -> bool:
    for n in walk(expr):
        if isinstance(n, (Element, LibraryCall)):
            return True
        if isinstance(n, Binary) and n.op in _COSTLY or isinstance(n, Unary) and n.op not in _CHEAP_UNARY:
            return True
    return False
