"""Neighbours that an unrolled loop reads or writes one after the other become one access of up to 16 bytes.

Before:  for x in unroll(0, 8): S@[i * 32 + 8 * j + x] = (j0 + x < 64) ? A@[i * 64 + j0 + x] : 0        (j0 a multiple of 8)
After:   own A_v[8]
         if j0 < 64: A_v@[0 :+ 8] = A@[i * 64 + j0 :+ 8]
         else: for y in unroll(0, 8): A_v@[y] = 0
         S@[i * 32 + 8 * j :+ 8] = A_v@[0 :+ 8]

An access is widened if its offset is a multiple of the width plus the loop's variable, and if what decides about it is the same for all its elements.
What is between reads and writes stays element by element. Reads then stand before the loop and writes behind it, so none is widened that another
access of the same memory in the loop could tell from the original.

Requires: flat accesses in thread-level launches; tiles begin at multiples of 16 bytes.  Preserves: other loops, order between loops.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ..analysis.aliasing import Aliasing, is_one_array
from ..analysis.divisors import divisor, is_uniform, steps, without_neighbours
from ..analysis.linear import Linear, has_load, to_expr
from ..ir.build import TRUE, add, every, index, negate
from ..ir.expr import AddressOf, Binary, Buffer, CallExtern, Const, Expr, Select, Var
from ..ir.lowered import Address, AtomicOp, Declare, Element, LoadVector, SetElement, StoreVector
from ..ir.node import Node, children, map_children, replace, rewrite, walk
from ..ir.stmt import Body, For, If, Kernel, Let, Stmt
from .names import Names
from .scoped import Result, Scoped

WIDEST = 16  # bytes
_LONGEST = 32  # turns of a loop that is looked at


def widen_accesses(kernel: Kernel, aligned: bool = True) -> Kernel:
    """Return `kernel` with `LoadVector` and `StoreVector`; for tiles only if arrays are not `aligned`."""
    return _Widen(kernel, aligned).kernel(kernel)


class _Widen(Scoped):
    def __init__(self, kernel: Kernel, aligned: bool) -> None:
        super().__init__()
        self.aligned = aligned
        self.names, self.aliasing, self.steps = Names(kernel), Aliasing(kernel), steps(kernel)

    def on_stmt(self, stmt: Stmt) -> Result:
        match stmt:
            case For(_, Const(0), Const(stop), body, 1, "unroll") if 2 <= int(stop) <= _LONGEST and _is_plain(body):
                return _Loop(self, stmt, int(stop)).widened()
            case _:
                return stmt


def _is_plain(body: Body) -> bool:
    """Whether nothing below is an effect but a store."""
    refused = (AtomicOp, CallExtern, Address, AddressOf)
    below = (n for s in body for n in walk(s))
    return all(isinstance(n, (Let, SetElement, If)) if isinstance(n, Stmt) else not isinstance(n, refused) for n in below)


@dataclass(slots=True)
class _Access:
    """One read or write in the loop. `conds` hold where it happens; `place` counts statements."""

    node: Element | SetElement
    conds: tuple[Expr, ...]
    place: int
    fill: Const | None = None  # what a read gives where the last of `conds` does not hold
    width: int = 0  # elements of one access; 0: it stays as it is
    starts: tuple[Linear, ...] = ()  # where each access begins

    @property
    def buffer(self) -> Buffer:
        return self.node.buffer

    @property
    def is_store(self) -> bool:
        return isinstance(self.node, SetElement)

    def key(self) -> tuple[object, ...]:
        """Equal for reads that give the same."""
        return (self.buffer, tuple(s.key() for s in self.starts), self.conds, self.fill, self.width)


class _Loop:
    """One loop of `turns` turns."""

    def __init__(self, around: _Widen, loop: For, turns: int) -> None:
        self.around, self.bounds = around, around.bounds
        self.loop, self.turns, self.var = loop, turns, loop.var
        self.lets = {n.var.name: n.value for s in loop.body for n in walk(s) if isinstance(n, Let)}
        self.known: dict[str, Expr] = {}  # values of `lets` without variables of `lets`
        self.arrays: dict[tuple[object, ...], Buffer] = {}
        self.values: dict[int, Buffer] = {}  # id of a widened read -> the array that holds it
        self.before: list[Stmt] = []
        self.after: list[Stmt] = []

    def widened(self) -> Result:
        found = list(_accesses(self.loop.body))
        for access in found:
            self.measure(access)
        self.keep_order(found)
        wide = [a for a in found if a.width]
        return self.rebuilt(wide) if wide else self.loop

    # ------------------------------------------------------------------------------------------ what can be widened
    def measure(self, access: _Access) -> None:
        """Find the width of an access: as many elements as lie side by side at a multiple of their size, and are touched together."""
        buffer = access.buffer
        if buffer.type.bits < 8 or buffer.view_of is not None or not buffer.is_on_chip and not self.around.aligned:
            return
        offset = self.seen_through(access.node.offset)
        access.conds = tuple(self.seen_through(c) for c in access.conds)
        if self.is_inside(offset) or any(map(self.is_inside, access.conds)):
            return
        width = min(self.turns & -self.turns, WIDEST * 8 // buffer.type.bits)
        while width > 1:
            starts = self.starts(offset, width)
            if starts and all(is_uniform(c, self.var, width, self.bounds, self.around.steps) for c in access.conds):
                access.width, access.starts = width, starts
                return
            width //= 2

    def starts(self, offset: Expr, width: int) -> tuple[Linear, ...]:
        """Where accesses of `width` neighbours begin, for each; () if that is not at multiples of the width, or if they are no neighbours."""
        form, known = self.bounds.sum(offset), self.around.steps
        if form.coefficient(self.var) == 1 and not self.depends(form.without(self.var)):
            base = form.without(self.var)
            return tuple(map(base.shift, range(0, self.turns, width))) if divisor(base, known) % width == 0 else ()
        out = []
        for start in range(0, self.turns, width):
            there = offset if start == 0 else self.put(offset, add(self.var, index(start)))
            form = self.bounds.sum(without_neighbours(there, self.var, width, self.bounds, known))
            base = form.without(self.var)
            if form.coefficient(self.var) != 1 or self.depends(base) or divisor(base, known) % width:
                return ()
            out.append(base)
        return tuple(out)

    def put(self, expr: Expr, value: Expr) -> Expr:
        """`expr` with `value` for the loop's variable."""

        def change(node: Node) -> Node:
            match node:
                case Var() if node == self.var:
                    return value
                case Binary("add", Expr() as a, Const() as b):
                    return add(a, b)
                case _:
                    return node

        return rewrite(expr, change)

    def depends(self, form: Linear) -> bool:
        """Whether the loop's variable stands in a term."""
        return any(n == self.var for a in form.terms for n in walk(a))

    def seen_through(self, expr: Expr) -> Expr:
        """`expr` without the body's own bindings, as far as they do not depend on memory."""

        def change(node: Node) -> Node:
            if not isinstance(node, Var) or node.name not in self.lets:
                return node
            if node.name not in self.known:
                value = self.lets[node.name]
                self.known[node.name] = node if has_load(value) else rewrite(value, change)
            return self.known[node.name]

        return rewrite(expr, change)

    def is_inside(self, expr: Expr) -> bool:
        """Whether `expr` is known within the loop only."""
        return has_load(expr) or any(isinstance(n, Var) and n.name in self.lets for n in walk(expr))

    def form(self, offset: Expr) -> Linear | None:
        """An offset as a sum of what is known before the loop and the loop's variable; None if it is something else."""
        expr = self.seen_through(offset)
        return None if self.is_inside(expr) else self.bounds.sum(expr)

    def keep_order(self, found: list[_Access]) -> None:
        """Leave accesses as they are if one writes what the other may touch in another turn, or if a read stands at two places."""
        together: list[tuple[_Access, _Access]] = []  # stores that may write one element: both are widened, or none
        for store in (a for a in found if a.is_store):
            for other in found:
                if other is store or not self.around.aliasing.may_share(store.buffer, other.buffer):
                    continue
                apart = self.distance(other, store)
                if apart == 0 and other.is_store:
                    together.append((store, other))
                elif apart is None or abs(apart) < self.turns and (apart or other.place > store.place):
                    store.width = other.width = 0
        first: dict[int, _Access] = {}
        for access in found:
            other = first.setdefault(id(access.node), access)
            if other.key() != access.key():
                other.width = access.width = 0
        for _ in together:
            for one, two in together:
                if not one.width or not two.width:
                    one.width = two.width = 0

    def distance(self, a: _Access, b: _Access) -> int | None:
        """How many elements lie between what `a` and `b` touch in one turn, if they touch one array; None if that is not known."""
        one, two = self.form(a.node.offset), self.form(b.node.offset)
        if one is None or two is None or not is_one_array(a.buffer, b.buffer) or (one - two).terms:
            return None
        apart = (one - two).const
        is_line = one.coefficient(self.var) == 1 and not self.depends(one.without(self.var))
        return apart if is_line or apart == 0 and self.turns in (a.width, b.width) else None

    # ------------------------------------------------------------------------------------------ the new statements
    def rebuilt(self, wide: list[_Access]) -> Body:
        for access in wide:
            if not access.is_store:
                self.values[id(access.node)] = self.read(access)
        self.fills = {id(a.node) for a in wide if a.fill is not None}
        self.stores = {id(a.node): a for a in wide if a.is_store}
        body = tuple(new for stmt in self.loop.body if (new := self.change(stmt)) is not None)
        middle = (replace(self.loop, body=body),) if any(not isinstance(s, Let) for s in body) else ()
        return (*self.before, *middle, *self.after)

    def read(self, access: _Access) -> Buffer:
        """The array with what `access` reads."""
        found = self.arrays.get(access.key())
        if found is not None:
            return found
        array = self.arrays[access.key()] = self.array(access.buffer)
        for start, base in zip(range(0, self.turns, access.width), access.starts, strict=True):
            get = LoadVector(array, index(start), access.buffer, to_expr(base), access.width, span=access.node.span)
            self.before += self.guarded(access, start, get, self.filled(access, array, start))
        return array

    def filled(self, access: _Access, array: Buffer, start: int) -> Body:
        if access.fill is None:
            return ()
        y = self.around.names.var("y")
        put = SetElement(array, y, access.fill, span=access.node.span)
        return (For(y, index(start), index(start + access.width), (put,), kind="unroll", span=access.node.span),)

    def change(self, node: Node) -> Node | None:
        """A part of the body with arrays for memory; None for what has no work left."""
        match node:
            case Element() if id(node) in self.values:
                return Element(self.values[id(node)], self.var, True, span=node.span)
            case Select(_, Element() as element, Const()) if id(element) in self.fills:
                return self.change(element)
            case SetElement() if id(node) in self.stores:
                return self.store(self.stores[id(node)], node)
            case If():
                new = map_children(node, self.change)
                return new if new.then or new.other else None
            case _:
                return map_children(node, self.change)

    def store(self, access: _Access, node: SetElement) -> SetElement | None:
        """Collect the values in an array; one that was only read is that already."""
        value = self.change(node.value)
        assert isinstance(value, Expr)
        is_copy = isinstance(value, Element) and value.buffer in self.arrays.values() and value.offset == self.var and value.dtype == node.buffer.type
        array = value.buffer if is_copy and isinstance(value, Element) else self.array(node.buffer)
        for start, base in zip(range(0, self.turns, access.width), access.starts, strict=True):
            put = StoreVector(access.buffer, to_expr(base), array, index(start), access.width, span=node.span)
            self.after += self.guarded(access, start, put, ())
        return None if is_copy else SetElement(array, self.var, value, span=node.span)

    def array(self, like: Buffer) -> Buffer:
        made = Buffer(self.around.names.fresh(f"{like.name}_v"), (index(self.turns),), like.type, "local")
        self.before.append(Declare(made, span=self.loop.span))
        return made

    def guarded(self, access: _Access, start: int, stmt: Stmt, other: Body) -> Body:
        """`stmt` where the access happens, else `other`."""
        cond = every(self.put(c, index(start)) for c in access.conds)
        return (stmt,) if cond == TRUE else (If(cond, (stmt,), other, span=stmt.span),)


# ---------------------------------------------------------------------------------------------- accesses of a body
def _accesses(body: Body) -> Iterator[_Access]:
    """Every access of memory that threads share, in order."""
    count = iter(range(1 << 30))
    for stmt in body:
        yield from _of_stmt(stmt, (), count)


def _of_stmt(stmt: Stmt, conds: tuple[Expr, ...], count: Iterator[int]) -> Iterator[_Access]:
    place = next(count)
    match stmt:
        case If(cond, then, other):
            yield from _of_expr(cond, conds, place)
            for inside in then:
                yield from _of_stmt(inside, (*conds, cond), count)
            for inside in other:
                yield from _of_stmt(inside, (*conds, negate(cond)), count)
        case SetElement(buffer, offset, value):
            yield from _of_expr(offset, conds, place)
            yield from _of_expr(value, conds, place)
            if _is_shared(buffer):
                yield _Access(stmt, conds, place)
        case _:
            for part in children(stmt):
                yield from _of_expr(part, conds, place)


def _of_expr(node: Node, conds: tuple[Expr, ...], place: int) -> Iterator[_Access]:
    match node:
        case Select(cond, Element(buffer, offset) as element, Const() as fill) if _is_shared(buffer):
            yield from _of_expr(cond, conds, place)
            yield from _of_expr(offset, (*conds, cond), place)
            yield _Access(element, (*conds, cond), place, fill)
        case Select(cond, then, other):
            yield from _of_expr(cond, conds, place)
            yield from _of_expr(then, (*conds, cond), place)
            yield from _of_expr(other, (*conds, negate(cond)), place)
        case Binary("and" | "or" as op, a, b):
            yield from _of_expr(a, conds, place)
            yield from _of_expr(b, (*conds, a if op == "and" else negate(a)), place)
        case Element(buffer, offset):
            yield from _of_expr(offset, conds, place)
            if _is_shared(buffer):
                yield _Access(node, conds, place)
        case _:
            for part in children(node):
                yield from _of_expr(part, conds, place)


def _is_shared(buffer: Buffer) -> bool:
    return buffer.scope not in ("local", "var")
