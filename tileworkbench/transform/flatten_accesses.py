"""Every access becomes a flat offset that is inside its buffer.

Before:  C[by * 64 + i, j] = A[by * 64 + i, j + 1]
After:   if (by * 64 + i < M) C[(by * 64 + i) * N + j] = (by * 64 + i < M and j + 1 < N) ? A[(by * 64 + i) * N + (j + 1)] : 0

Tiles with a form (`ir/tile_form.py`) are counted as they lie. A test appears only for an end that cannot be proved, per dim and side. A read that is
certainly inside wherever it is evaluated within its parallel loop is marked `anywhere`. An on-chip access that is certainly outside is an error.

Requires: no thread-level statements; tile operations may still be there and keep their regions.
Preserves: everything else.
"""

from __future__ import annotations

from ..analysis.access import flat_offset
from ..analysis.linear import to_expr
from ..analysis.tile_forms import form_offset, order_offset
from ..base.dtypes import BOOL, INDEX
from ..base.errors import TileBoundsError, UnsupportedError
from ..ir.build import TRUE, both, cast, choose, every, index
from ..ir.device import DeviceCall
from ..ir.expr import AddressOf, Binary, Buffer, Cast, Const, Expr, Load, const
from ..ir.lowered import Address, AtomicOp, Element, SetElement
from ..ir.node import replace
from ..ir.stmt import Atomic, Evaluate, If, Kernel, Launch, Let, Region, Stmt, Store
from ..ir.tile_form import TileForm, TileOrder
from .scoped import Result, Scoped


def flatten_accesses(kernel: Kernel) -> Kernel:
    """Return `kernel` with `Element` and `SetElement` for `Load` and `Store`."""
    return _Flatten().kernel(kernel)


class _Flatten(Scoped):
    def __init__(self) -> None:
        super().__init__()
        self.forms: dict[Buffer, TileForm] = {}
        self.orders: dict[Buffer, TileOrder] = {}
        self.threads = False  # whether the launch is the program of each of several threads

    def offset(self, buffer: Buffer, indices: tuple[Expr, ...]) -> Expr:
        form, order = self.forms.get(buffer), self.orders.get(buffer)
        if order is not None:
            return self.expr(order_offset(order, indices))
        return flat_offset(buffer, indices) if form is None else self.expr(form_offset(form, indices))

    def on_expr(self, expr: Expr) -> Expr:
        match expr:
            case Load(buffer, indices):
                cond = self.guard(buffer, indices, expr)
                element = Element(buffer, self.offset(buffer, indices), cond == TRUE and self.is_inside_anywhere(buffer, indices), span=expr.span)
                return choose(cond, element, safe_value(buffer))
            case AddressOf(buffer, indices):
                return Address(buffer, self.offset(buffer, indices), span=expr.span)
            case Binary("floordiv" | "floormod", a, Const(d)) if expr.dtype == INDEX and int(d) > 0:
                return self.division(expr, a)
            case Binary("add" | "sub" | "mul" as op, Const(x), Const(y)) if expr.dtype.is_int:
                return const({"add": int(x) + int(y), "sub": int(x) - int(y), "mul": int(x) * int(y)}[op], expr.dtype)
            case Binary("add", a, Const(0)) if expr.dtype == INDEX:
                return a
            case Cast(Const(x, kind), to) if kind.is_int and to.is_int:
                return const(int(x), to)
            case Binary("shr", a, Const(count)) if expr.dtype == INDEX and 0 < int(count) < 62:
                return self.division(Binary("floordiv", a, index(1 << int(count)), span=expr.span), a)
            case Binary("bitand", a, Const(mask)) if expr.dtype == INDEX and int(mask) > 0 and int(mask) & (int(mask) + 1) == 0:
                return self.division(Binary("floormod", a, index(int(mask) + 1), span=expr.span), a)
            case _:
                return expr

    def stmt(self, stmt: Stmt) -> Result:
        if isinstance(stmt, Launch):
            self.forms = {form.buffer: form for form in stmt.forms}
            self.orders = {order.buffer: order for order in stmt.orders}
            self.threads = stmt.threads_used
        if not isinstance(stmt, Store):
            return super().stmt(stmt)
        indices = tuple(self.expr(i) for i in stmt.indices)
        cond = self.guard(stmt.buffer, indices, stmt)
        self.bounds.push()
        self.bounds.assume(cond)  # the value of a store that is skipped need not be right
        store = SetElement(stmt.buffer, self.offset(stmt.buffer, indices), self.expr(stmt.value), span=stmt.span)
        self.bounds.pop()
        return _if(cond, store)

    def on_stmt(self, stmt: Stmt) -> Result:
        match stmt:
            case Atomic():
                return self.atomic(stmt)
            case DeviceCall(args=args):
                return replace(stmt, args=tuple(self.decided(a) if a.dtype == BOOL else a for a in args))
            case _:
                return stmt

    def decided(self, cond: Expr) -> Expr:
        """`cond` without the tests that certainly hold."""
        if isinstance(cond, Binary) and cond.op == "and":
            return both(self.decided(cond.a), self.decided(cond.b))
        known = self.bounds.truth(cond)
        return cond if known is None else Const(known, BOOL)

    def division(self, expr: Binary, a: Expr) -> Expr:
        """Floor division is C's where the numerator is not negative; multiples of the divisor go away."""
        exact = self.bounds.sum(expr)
        if not any(isinstance(t, Binary) and t.op in ("floordiv", "floormod") for t in exact.terms):
            return to_expr(exact)
        if self.bounds.at_least_zero(self.bounds.sum(a)):
            return Binary("truncdiv" if expr.op == "floordiv" else "truncmod", expr.a, expr.b, span=expr.span)
        return expr

    def atomic(self, stmt: Atomic) -> Result:
        """One element: a call that may stand in a guarded expression, or plain reads and writes where no other thread can touch it."""
        buffer, cond = stmt.dst.buffer, region_guard(self, stmt.dst)
        offset = self.offset(buffer, stmt.dst.starts)
        value = stmt.value if isinstance(stmt.value, Expr) else None
        if buffer.root.scope in ("local", "var") or buffer.root.is_on_chip and not self.threads:
            return self.private_atomic(stmt, cond, Element(buffer, offset), value)
        if stmt.op in ("and", "or", "xor") and buffer.type.is_float or buffer.type.bits < 8 or buffer.type in ("float8_e4m3fn", "float8_e5m2"):
            raise UnsupportedError(f"atomic {stmt.op} on {buffer.type}", span=stmt.span, hint="use a wider element type for the buffer")
        call = AtomicOp(stmt.op, buffer, offset, value, span=stmt.span)
        if stmt.result is not None:
            return Let(stmt.result, choose(cond, call, safe_value(buffer)), span=stmt.span)
        return _if(cond, Evaluate(call, span=stmt.span))

    def private_atomic(self, stmt: Atomic, cond: Expr, old: Element, value: Expr | None) -> Result:
        out: list[Stmt] = []
        if stmt.result is not None:
            out.append(Let(stmt.result, choose(cond, old, safe_value(old.buffer)), span=stmt.span))
        match stmt.op:
            case "load":
                new: Expr | None = None
            case "exch" | "store":
                new = value
            case op:
                assert value is not None
                new = Binary({"and": "bitand", "or": "bitor", "xor": "bitxor"}.get(op, op), old, value)
        if new is not None:
            out.append(_if(cond, SetElement(old.buffer, old.offset, new, span=stmt.span)))
        return tuple(out)

    def guard(self, buffer: Buffer, indices: tuple[Expr, ...], node: Load | Store) -> Expr:
        """The condition, of the tests that are needed, under which the access is inside."""
        tests: list[Expr] = []
        for i, dim in zip(indices, buffer.shape, strict=True):
            low, high = self.bounds.is_inside(i, dim)
            if low and high:
                continue
            self._refuse_outside(buffer, i, dim, node)
            where = cast(i, INDEX)
            if not low:
                tests.append(Binary("ge", where, index(0)))
            if not high:
                tests.append(Binary("lt", where, dim))
        return every(tests)

    def _refuse_outside(self, buffer: Buffer, i: Expr, dim: Expr, node: Load | Store) -> None:
        if not buffer.is_on_chip or len(self.bounds.facts) > 0:
            return  # a condition may keep control away
        low, high = self.bounds.interval(i)
        if isinstance(dim, Const) and ((low is not None and low >= int(dim.value)) or (high is not None and high < 0)):
            where = f"{low}" if low == high else f"{low if low is not None else '...'}..{high if high is not None else '...'}"
            raise TileBoundsError(
                f"index {where} is outside {buffer.name}, which has {int(dim.value)} elements there", span=node.span, hint="make the buffer larger"
            )

    def is_inside_anywhere(self, buffer: Buffer, indices: tuple[Expr, ...]) -> bool:
        """The same proof without the conditions inside the parallel loop."""
        facts = self.bounds.facts
        if len(facts) == self.inner:
            return True
        self.bounds.facts = facts[: self.inner]
        inside = all(self.bounds.is_inside(i, dim) == (True, True) for i, dim in zip(indices, buffer.shape, strict=True))
        self.bounds.facts = facts
        return inside


def safe_value(buffer: Buffer) -> Const:
    """What a read outside of `buffer` gives."""
    value = buffer.safe_value if buffer.safe_value is not None else buffer.root.safe_value or 0
    return const(value, buffer.type)


def region_guard(bounds: Scoped, region: Region) -> Expr:
    """The condition under which the first element of `region` is inside."""
    tests: list[Expr] = []
    for start, dim in zip(region.starts, region.buffer.shape, strict=True):
        low, high = bounds.bounds.is_inside(start, dim)
        where = cast(start, INDEX)
        if not low:
            tests.append(Binary("ge", where, index(0)))
        if not high:
            tests.append(Binary("lt", where, dim))
    return every(tests)


def _if(cond: Expr, stmt: Stmt) -> Stmt:
    return stmt if cond == TRUE else If(cond, (stmt,), span=stmt.span)
