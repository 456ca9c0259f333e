"""Neighbours that an unrolled loop reads or writes one after the other become one access of up to 16 bytes.

Before:  for x in unroll(0, 8): S@[i * 32 + 8 * j + x] = (j0 + x < 64) ? A@[i * 64 + j0 + x] : 0        (j0 a multiple of 8)
After:   own A_v[8]
         if j0 < 64: A_v@[0 :+ 8] = A@[i * 64 + j0 :+ 8]
         else: for y in unroll(0, 8): A_v@[y] = 0
         S@[i * 32 + 8 * j :+ 8] = A_v@[0 :+ 8]

An access is widened if its offset is a multiple of the width plus the loop's variable, and if what decides about it is the same for all its elements.
What is between reads and writes stays element by element. Reads then stand before the loop and writes behind it, so none is widened that another
access of the same memory in the loop could tell from the original. Where symbolic dims decide, both ways are there, and a test of the dims in front.

Requires: flat accesses in thread-level launches; tiles begin at multiples of 16 bytes.  Preserves: other loops, order between loops.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import gcd

from ..analysis.aliasing import Aliasing, is_one_array
from ..analysis.divisors import divisor, is_uniform, without_neighbours
from ..analysis.guarded_accesses import GuardedAccess, guarded_accesses
from ..analysis.linear import Linear, has_load, to_expr
from ..analysis.uses import uses
from ..ir.build import TRUE, add, every, index
from ..ir.expr import AddressOf, Binary, Buffer, CallExtern, Const, Expr, Select, Var, is_const
from ..ir.lowered import Address, AtomicOp, Declare, Element, LoadVector, SetElement, StoreVector
from ..ir.lowered import Loop as Lowered
from ..ir.node import Node, map_children, replace, rewrite, walk
from ..ir.stmt import Body, For, If, Kernel, Let, PipelinedFor, Stmt
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
        self.dims = frozenset(kernel.dims)
        self.names, self.aliasing, self.steps = Names(kernel), Aliasing(kernel), dict[Var, int]()

    def _loop(self, stmt: For | PipelinedFor | Lowered, var: Var, start: Expr, stop: Expr, body: Body) -> Result:
        if not isinstance(stmt, PipelinedFor) and isinstance(start, Const):
            self.steps[var] = gcd(int(start.value), stmt.step)
        return Scoped._loop(self, stmt, var, start, stop, body)

    def expr(self, expr: Expr) -> Expr:
        return expr  # only loops change

    def on_stmt(self, stmt: Stmt) -> Result:
        match stmt:
            case For(_, Const(0), Const(stop), body, 1, "unroll") if 2 <= int(stop) <= _LONGEST and _is_plain(body):
                return self.loop(stmt, int(stop))
            case _:
                return stmt

    def loop(self, loop: For, turns: int) -> Result:
        """The loop with wide accesses; where sizes of arrays that are known at the call decide, both ways."""
        plain = _Loop(self, loop, turns, self.steps)
        sizes = plain.sizes(self.dims)
        if sizes and plain.most > 1:
            rich = _Loop(self, loop, turns, {**self.steps, **dict.fromkeys(sizes, plain.most)})
            if [a.width for a in rich.found] != [a.width for a in plain.found]:
                cond = every(Binary("eq", Binary("floormod", size, index(plain.most)), index(0)) for size in sizes)
                other = plain.rebuilt()
                return If(cond, self.renamed(rich.rebuilt()), other, span=loop.span)
        made = plain.rebuilt()
        return loop if len(made) == 1 and made[0] is loop else made

    def renamed(self, body: Body) -> Body:
        """`body` with variables of its own."""
        bound = uses(body).bound
        new = {var: self.names.var(var.hint or var.name, var.type) for var in sorted(bound, key=lambda v: v.name)}
        return tuple(rewrite(s, lambda node: new.get(node, node) if isinstance(node, Var) else node) for s in body)


def _is_plain(body: Body) -> bool:
    """Whether nothing below is an effect but a store."""
    refused = (AtomicOp, CallExtern, Address, AddressOf)
    below = (n for s in body for n in walk(s))
    return all(isinstance(n, (Let, SetElement, If)) if isinstance(n, Stmt) else not isinstance(n, refused) for n in below)


class _Loop:
    """One loop of `turns` turns. `known`: divisors of variables."""

    def __init__(self, around: _Widen, loop: For, turns: int, known: Mapping[Var, int]) -> None:
        self.around, self.bounds = around, around.bounds
        self.loop, self.turns, self.var = loop, turns, loop.var
        self.lets: dict[str, Expr | None] = {}  # None: bound several times
        for let in (n for s in loop.body for n in walk(s) if isinstance(n, Let)):
            self.lets[let.var.name] = None if let.var.name in self.lets else let.value
        self.divisors = known
        self.values_of: dict[str, Expr] = {}  # values of `lets` without variables of `lets`
        self.arrays: dict[tuple[object, ...], Buffer] = {}
        self.values: dict[int, Buffer] = {}  # id of a widened read -> the array that holds it
        self.collected: set[Buffer] = set()  # arrays that wait to be stored
        self.before: list[Stmt] = []
        self.after: list[Stmt] = []
        self.most = 1  # elements of the widest access that there could be
        self.found = list(guarded_accesses(loop.body))
        for access in self.found:
            self.measure(access)
        self.keep_order(self.found)

    def sizes(self, dims: frozenset[Var]) -> list[Var]:
        """Symbolic dims that say where accesses lie that are not widened."""
        narrow = [a for a in self.found if not a.width]
        parts = [self.seen_through(a.node.offset) for a in narrow]
        parts += [part for a in narrow for cond in a.conds for part in _conjuncts(self.seen_through(cond)) if any(n == self.var for n in walk(part))]
        return sorted({n for e in parts for n in walk(e) if isinstance(n, Var) and n in dims}, key=lambda v: v.name)

    # ------------------------------------------------------------------------------------------ what can be widened
    def measure(self, access: GuardedAccess) -> None:
        """Find the width of an access: as many elements as lie side by side at a multiple of their size, and are touched together."""
        buffer = access.buffer
        if buffer.type.bits < 8 or not _begins_aligned(buffer) or not buffer.is_on_chip and not self.around.aligned:
            return
        offset = self.seen_through(access.node.offset)
        access.conds = tuple(self.seen_through(c) for c in access.conds)
        if self.is_inside(offset) or any(map(self.is_inside, access.conds)):
            return
        width = min(self.turns & -self.turns, WIDEST * 8 // buffer.type.bits)
        self.most = max(self.most, width)
        while width > 1:
            starts = self.starts(offset, width)
            if starts and all(is_uniform(c, self.var, width, self.bounds, self.divisors) for c in access.conds):
                access.width, access.starts = width, starts
                return
            width //= 2

    def starts(self, offset: Expr, width: int) -> tuple[Linear, ...]:
        """Where accesses of `width` neighbours begin, for each; () if that is not at multiples of the width, or if they are no neighbours."""
        form, known = self.bounds.sum(offset), self.divisors
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
                case Binary("add", a, b) if is_const(a) or is_const(b):
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
            if node.name not in self.values_of:
                value = self.lets[node.name]
                self.values_of[node.name] = node if value is None or has_load(value) else rewrite(value, change)
            return self.values_of[node.name]

        return rewrite(expr, change)

    def is_inside(self, expr: Expr) -> bool:
        """Whether `expr` is known within the loop only."""
        return has_load(expr) or any(isinstance(n, Var) and n.name in self.lets for n in walk(expr))

    def form(self, offset: Expr) -> Linear | None:
        """An offset as a sum of what is known before the loop and the loop's variable; None if it is something else."""
        expr = self.seen_through(offset)
        return None if self.is_inside(expr) else self.bounds.sum(expr)

    def keep_order(self, found: list[GuardedAccess]) -> None:
        """Leave accesses as they are if one writes what the other may touch in another turn, or if a read stands at two places."""
        together: list[tuple[GuardedAccess, GuardedAccess]] = []  # stores that may write one element: both are widened, or none
        for store in (a for a in found if a.is_store):
            for other in found:
                if other is store or not self.around.aliasing.may_share(store.buffer, other.buffer):
                    continue
                apart = self.distance(other, store)
                if apart == 0 and other.is_store:
                    together.append((store, other))
                elif apart is None or abs(apart) < self.turns and (apart or other.place > store.place):
                    store.width = other.width = 0
        first: dict[int, GuardedAccess] = {}
        for access in found:
            other = first.setdefault(id(access.node), access)
            if other.key() != access.key():
                other.width = access.width = 0
        for _ in together:
            for one, two in together:
                if not one.width or not two.width:
                    one.width = two.width = 0

    def distance(self, a: GuardedAccess, b: GuardedAccess) -> int | None:
        """How many elements lie between what `a` and `b` touch in one turn, if they touch one array; None if that is not known."""
        one, two = self.form(a.node.offset), self.form(b.node.offset)
        if one is None or two is None or not is_one_array(a.buffer, b.buffer) or (one - two).terms:
            return None
        apart = (one - two).const
        is_line = one.coefficient(self.var) == 1 and not self.depends(one.without(self.var))
        return apart if is_line or apart == 0 and self.turns in (a.width, b.width) else None

    # ------------------------------------------------------------------------------------------ the new statements
    def rebuilt(self) -> Body:
        """The loop and its accesses."""
        wide = [a for a in self.found if a.width]
        if not wide:
            return (self.loop,)
        for access in wide:
            if not access.is_store:
                self.values[id(access.node)] = self.read(access)
        self.fills = {id(a.node) for a in wide if a.fill is not None}
        self.stores = {id(a.node): a for a in wide if a.is_store}
        body: list[Stmt] = []
        for stmt in self.loop.body:
            new = self.change(stmt)
            body += new if isinstance(new, tuple) else [new] if isinstance(new, Stmt) else []
        middle = (replace(self.loop, body=tuple(body)),) if any(not isinstance(s, Let) for s in body) else ()
        return (*self.before, *middle, *self.after)

    def read(self, access: GuardedAccess) -> Buffer:
        """The array with what `access` reads."""
        found = self.arrays.get(access.key())
        if found is not None:
            return found
        array = self.arrays[access.key()] = self.array(access.buffer)
        for start, base in zip(range(0, self.turns, access.width), access.starts, strict=True):
            get = LoadVector(array, index(start), access.buffer, to_expr(base), access.width, span=access.node.span)
            self.before += self.guarded(access, start, get, self.filled(access, array, start))
        return array

    def filled(self, access: GuardedAccess, array: Buffer, start: int) -> Body:
        if access.fill is None:
            return ()
        y = self.around.names.var("y")
        put = SetElement(array, y, access.fill, span=access.node.span)
        return (For(y, index(start), index(start + access.width), (put,), kind="unroll", span=access.node.span),)

    def change(self, node: Node) -> Node | tuple[Stmt, ...] | None:
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
                if not new.other and all(self.is_harmless(s) for s in new.then):
                    return new.then
                return new if new.then or new.other else None
            case _:
                return map_children(node, self.change)

    def is_harmless(self, stmt: Stmt) -> bool:
        """Whether it only collects a value which is not stored where the condition in front of it does not hold."""
        inside = [n for n in walk(stmt) if isinstance(n, Element)]
        return isinstance(stmt, SetElement) and stmt.buffer in self.collected and all(n.buffer.scope == "local" and n.anywhere for n in inside)

    def store(self, access: GuardedAccess, node: SetElement) -> SetElement | None:
        """Collect the values in an array; one that was only read is that already."""
        value = self.change(node.value)
        assert isinstance(value, Expr)
        is_copy = isinstance(value, Element) and value.buffer in self.arrays.values() and value.offset == self.var and value.dtype == node.buffer.type
        array = value.buffer if is_copy and isinstance(value, Element) else self.array(node.buffer)
        for start, base in zip(range(0, self.turns, access.width), access.starts, strict=True):
            put = StoreVector(access.buffer, to_expr(base), array, index(start), access.width, span=node.span)
            self.after += self.guarded(access, start, put, ())
        self.collected.add(array)
        return None if is_copy else SetElement(array, self.var, value, span=node.span)

    def array(self, like: Buffer) -> Buffer:
        made = Buffer(self.around.names.fresh(f"{like.name}_v"), (index(self.turns),), like.type, "local")
        self.before.append(Declare(made, span=self.loop.span))
        return made

    def guarded(self, access: GuardedAccess, start: int, stmt: Stmt, other: Body) -> Body:
        """`stmt` where the access happens, else `other`."""
        cond = every(self.put(c, index(start)) for c in access.conds)
        return (stmt,) if cond == TRUE else (If(cond, (stmt,), other, span=stmt.span),)


def _begins_aligned(buffer: Buffer) -> bool:
    """Whether a buffer begins at a multiple of 16 bytes if the owner of its storage does."""
    if buffer.view_of is None:
        return True
    start = buffer.offset if buffer.offset is not None else index(0)
    return isinstance(start, Const) and int(start.value) * buffer.type.bits % (8 * WIDEST) == 0 and _begins_aligned(buffer.view_of)


def _conjuncts(cond: Expr) -> list[Expr]:
    return [*_conjuncts(cond.a), *_conjuncts(cond.b)] if isinstance(cond, Binary) and cond.op == "and" else [cond]
