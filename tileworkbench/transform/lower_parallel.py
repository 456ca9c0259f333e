"""A `ParallelFor` becomes a loop nest whose innermost loop is a vector loop.

Before:  for i, j in parallel(64, 128): if (by*64 + i < M) C[...] = max(acc[i*128 + j], 0)
After:   for i in 0..min(64, M - by*64): for j in 0..128 simd: C[...] = max(acc[i*128 + j], 0)

The loop with the best strides goes innermost (iterations are independent, so the order is free). Tests that all statements share become loop
ends. Scalars and small arrays that the body writes become its own. A serial loop inside goes between the outer loops and the vector loop.

Requires: flattened accesses; serial loops are `Loop`s.  Preserves: statements outside parallel loops.
"""

from __future__ import annotations

from ..analysis.linear import Linear, has_load, linear, to_expr
from ..analysis.uses import uses, written_roots
from ..base.dtypes import INDEX, INT32
from ..ir.build import ZERO, both, cast, every, index, int32, maximum, minimum
from ..ir.expr import Binary, Buffer, CallExtern, Const, Expr, Select, Unary, Var
from ..ir.lowered import Address, AtomicOp, Declare, Element, EndIteration, Loop, SetElement
from ..ir.node import Node, map_children, replace, rewrite, walk
from ..ir.stmt import Body, Continue, Evaluate, If, Kernel, Let, ParallelFor, Stmt, While
from .distribute import Runs, Turns, distribute, flat
from .names import Names
from .scoped import Result, Scoped
from .vector_body import VectorBody


def lower_parallel(kernel: Kernel) -> Kernel:
    """Return `kernel` without `ParallelFor`."""
    return _Lower(Names(kernel)).kernel(kernel)


class _Lower(Scoped):
    def __init__(self, names: Names) -> None:
        super().__init__()
        self.names = names
        self.written: set[Buffer] = set()

    def on_stmt(self, stmt: Stmt) -> Result:
        match stmt:
            case ParallelFor():
                return self.lower(stmt)
            case _:
                return stmt

    def lower(self, stmt: ParallelFor) -> Body:
        body = _join_branches(privatise(stmt.body, self.names))
        loops = [_Axis(v, ZERO, cast(e, INDEX)) for v, e in zip(stmt.vars, stmt.extents, strict=True)]
        inner_loop = body[0] if len(body) == 1 and isinstance(body[0], Loop) else None
        leaf = inner_loop.body if inner_loop is not None else body
        simple = all(_is_simple(s) for s in leaf) and not _meets_itself(leaf)
        loops = _order(loops, leaf) if simple else loops
        if inner_loop is not None and (not simple or loops[-1].var in uses((inner_loop.start, inner_loop.stop)).used):
            simple, inner_loop, leaf = False, None, body
        before: list[Stmt] = []
        for axis in loops:
            if has_load(axis.stop):
                axis.stop = axis.extent = self._name(axis.stop, f"{axis.var.hint or axis.var.name}_stop", before)
        apart = None if simple or inner_loop is not None else self.distribute(loops, body)
        if apart is not None:
            return (*before, *self.around(apart[0][:-1], (*apart[1], *self.runs(apart[2], apart[0][-1], stmt)), stmt))
        leaf = self.clip(loops, leaf, body, before)
        static = isinstance(stmt.extents[stmt.vars.index(loops[-1].var)], Const)
        return (*before, *self.nest(loops, leaf, inner_loop, simple and static, stmt))

    def distribute(self, loops: list[_Axis], body: Body) -> tuple[list[_Axis], Body, Runs] | None:
        """The loops in their best order, and the body taken apart at its serial loops, if that makes vectors of contiguous elements."""
        ordered = _order(loops, body)
        axis = ordered[-1]
        if not isinstance(axis.extent, Const) or _contiguity(axis, body) <= 0:
            return None
        apart = distribute(body, axis.var, int(axis.extent.value), lambda s: _is_simple(s), self.names)
        if apart is None or any(_meets_itself(r.body) for r in flat(apart[1])):
            return None
        return (ordered, *apart)

    def runs(self, runs: Runs, axis: _Axis, stmt: ParallelFor) -> Body:
        out: list[Stmt] = []
        for part in runs:
            if isinstance(part, Turns):
                out.append(replace(part.loop, body=self.runs(part.inside, axis, stmt)))
            else:
                out += self.vector(axis, part.body, stmt)
        return tuple(out)

    def vector(self, axis: _Axis, leaf: Body, stmt: ParallelFor) -> Body:
        """A vector loop, after what it needs computed before."""
        vector = VectorBody(axis.var, axis.extent, self.bounds, self.names)
        inside = vector.rewrite(leaf)
        var = int32(axis.var)
        return (*vector.before, Loop(var, cast(axis.start, INT32), cast(axis.stop, INT32), inside, simd=True, span=stmt.span))

    def nest(self, loops: list[_Axis], leaf: Body, between: Loop | None, simd: bool, stmt: ParallelFor) -> Body:
        axis = loops[-1]
        if simd:
            loop = self.vector(axis, leaf, stmt)
        else:
            leaf, label = self.ends(leaf)
            loop = (Loop(axis.var, axis.start, axis.stop, leaf, label=label, span=stmt.span),)
        if between is not None:
            loop = (replace(between, body=loop),)
        return self.around(loops[:-1], loop, stmt)

    def around(self, loops: list[_Axis], body: Body, stmt: ParallelFor) -> Body:
        """`body` in plain loops."""
        for axis in reversed(loops):
            body = (Loop(axis.var, axis.start, axis.stop, body, span=stmt.span),)
        return body

    def ends(self, body: Body) -> tuple[Body, str]:
        """`EndIteration` is C's `continue`, or a jump to the end of the body from a loop inside."""
        if not any(isinstance(n, EndIteration) for s in body for n in walk(s)):
            return body, ""
        label = ""
        out: list[Stmt] = []
        for s in body:
            if any(isinstance(n, (Loop, While)) and any(isinstance(e, EndIteration) for e in walk(n)) for n in walk(s)):
                label = label or self.names.fresh("next")
            out.append(s)

        def change(node: Node) -> Node:
            return (replace(node, label=label) if label else Continue(span=node.span)) if isinstance(node, EndIteration) else node

        return tuple(rewrite(s, change) for s in out), label

    # ------------------------------------------------------------------------------------------ loop ends from tests
    def clip(self, loops: list[_Axis], body: Body, nest: Body, before: list[Stmt]) -> Body:
        """Turn tests that every statement has in common into loop ends; `before` gets the statements that compute these.

        `nest` is all that the loops run; what it binds or writes is not known in front of them.
        """
        shared = _shared_tests(body)
        taken: list[Expr] = []
        variables = {axis.var for axis in loops} | uses(nest).bound
        self.written = written_roots(nest)
        for test in shared:
            for axis in loops:
                if self._cut(axis, test, variables):
                    taken.append(test)
                    break
        if not taken:
            return body
        for axis in loops:
            name = axis.var.hint or axis.var.name
            axis.start = self._name(axis.start, f"{name}_first", before)
            axis.stop = self._name(axis.stop, f"{name}_last", before)
        return tuple(part for s in body for part in _without(s, taken))

    def _cut(self, axis: _Axis, test: Expr, variables: set[Var]) -> bool:
        if not isinstance(test, Binary) or test.a.dtype != INDEX or test.op not in ("lt", "le", "gt", "ge"):
            return False
        form = self.bounds.sum(test.a) - self.bounds.sum(test.b)
        c = form.coefficient(axis.var)
        rest = form.without(axis.var)
        if abs(c) != 1 or any(v in variables for a in rest.terms for v in uses(a).used) or any(self._must_wait(a) for a in rest.terms):
            return False
        # form = c*v + rest, compared with 0; brought to v < bound or v >= bound
        match (test.op, c):
            case ("lt", 1) | ("gt", -1):
                self._end(axis, rest.scale(-c))
            case ("le", 1) | ("ge", -1):
                self._end(axis, rest.scale(-c).shift(1))
            case ("ge", 1) | ("le", -1):
                self._begin(axis, rest.scale(-c))
            case _:
                self._begin(axis, rest.scale(-c).shift(1))
        return True

    def _must_wait(self, atom: Expr) -> bool:
        """Whether it reads what the loops write, or what may be read only under a condition in them."""
        return any(isinstance(n, Element) and (not n.anywhere or n.buffer.root in self.written) for n in walk(atom))

    def _end(self, axis: _Axis, bound: Linear) -> None:
        value = to_expr(bound)
        if not self.bounds.at_least_zero(bound):
            value = maximum(value, ZERO)
        axis.stop = minimum(value, axis.stop)

    def _begin(self, axis: _Axis, bound: Linear) -> None:
        value = minimum(to_expr(bound), axis.extent)
        axis.start = value if self.bounds.at_least_zero(bound) else maximum(value, axis.start)

    def _name(self, value: Expr, hint: str, before: list[Stmt]) -> Expr:
        if isinstance(value, (Const, Var)):
            return value
        var = self.names.var(hint)
        before.append(Let(var, value))
        return var


class _Axis:
    """One loop of a nest."""

    __slots__ = ("var", "start", "stop", "extent")

    def __init__(self, var: Var, start: Expr, stop: Expr) -> None:
        self.var, self.start, self.stop, self.extent = var, start, stop, stop


# ---------------------------------------------------------------------------------------------- helpers
def privatise(body: Body, names: Names) -> Body:
    """Scalars and small arrays that the body writes become its own copies, which start with the outer value."""
    mine = [b for b in sorted(written_roots(body), key=lambda b: b.name) if b.scope in ("var", "local") and not _declares(body, b)]
    declared: list[Stmt] = []
    for buffer in mine:
        own = replace(buffer, name=names.fresh(buffer.name))
        new = {buffer: own}
        declared += _copy_of(buffer, own, names)
        for view in sorted({b for b in uses(body).buffers if b.view_of is not None and b.root == buffer}, key=lambda b: b.name):
            new[view] = replace(view, name=names.fresh(view.name), view_of=own)
            declared.append(Declare(new[view]))
        body = _renamed(body, new)
    return (*declared, *body)


def _copy_of(buffer: Buffer, own: Buffer, names: Names) -> Body:
    if buffer.scope == "var":
        return (Declare(own, Element(buffer, ZERO)),)
    count = index(int(buffer.static_bytes() * 8 // buffer.type.bits))
    var = names.var("e")
    return (Declare(own), Loop(var, ZERO, count, (SetElement(own, var, Element(buffer, var)),)))


def _declares(body: Body, buffer: Buffer) -> bool:
    return any(isinstance(n, Declare) and n.buffer == buffer for s in body for n in walk(s))


def _renamed(body: Body, new: dict[Buffer, Buffer]) -> Body:
    def change(node: Node) -> Node:
        match node:
            case Element(buffer) | SetElement(buffer) | Address(buffer) | AtomicOp(_, buffer) if buffer in new:
                return replace(node, buffer=new[buffer])
            case _:
                return node

    return tuple(rewrite(s, change) for s in body)


def _join_branches(body: Body) -> Body:
    """`if c: x[i] = a` / `else: x[i] = b` is one store of a selected value; an `if` right inside an `if` is one test of both."""
    out: list[Stmt] = []
    for stmt in body:
        if isinstance(stmt, If):
            stmt = replace(stmt, then=_join_branches(stmt.then), other=_join_branches(stmt.other))
        match stmt:
            case If(cond, (If(test, then, ()),), ()):
                out.append(If(both(cond, test), then, span=stmt.span))
            case If(cond, (SetElement(x, i, a),), (SetElement(y, j, b),)) if x == y and i == j:
                out.append(SetElement(x, i, Select(cond, a, b), span=stmt.span))
            case _:
                out.append(stmt)
    return tuple(out)


def _is_simple(stmt: Stmt) -> bool:
    """Whether a vector of iterations may run it at once."""
    match stmt:
        case Let() | SetElement() | Declare() | Evaluate():
            if isinstance(stmt, SetElement) and stmt.buffer.type.bits < 8:
                return False  # two iterations share a byte
            if isinstance(stmt, Declare) and stmt.buffer.scope != "var":
                return False
            return not any(isinstance(n, (AtomicOp, CallExtern)) for n in walk(stmt))
        case If(_, then, other):
            return all(_is_simple(s) for s in (*then, *other))
        case _:
            return False


def _meets_itself(body: Body) -> bool:
    """Whether one iteration may write an element and access it again under another index.

    `omp simd` would then be wrong: it lets gcc (12 at least) reorder accesses within an iteration unless it sees that their addresses are equal.
    """
    accesses: dict[Buffer, list[tuple[Linear, Buffer, bool]]] = {}
    for n in (n for s in body for n in walk(s)):
        if isinstance(n, (Element, SetElement)) and n.buffer.root.scope != "var":
            accesses.setdefault(n.buffer.root, []).append((linear(n.offset), n.buffer, isinstance(n, SetElement)))
    for found in accesses.values():
        for written, buffer, _ in (a for a in found if a[2]):
            for other, through, _ in found:
                apart = written - other
                if apart.terms or through != buffer:
                    return True
    return False


def _order(loops: list[_Axis], body: Body) -> list[_Axis]:
    """The loop along which most accesses are contiguous last."""
    if len(loops) < 2:
        return loops
    best = max(range(len(loops)), key=lambda n: (_contiguity(loops[n], body), n))
    return [*loops[:best], *loops[best + 1 :], loops[best]]


def _contiguity(axis: _Axis, body: Body) -> int:
    """How well a loop suits vectors: accesses side by side count for it, accesses apart against it."""
    offsets = [linear(n.offset) for s in body for n in walk(s) if isinstance(n, (Element, SetElement)) and n.buffer.scope != "var"]
    if isinstance(axis.extent, Const) and int(axis.extent.value) < 4:
        return -len(offsets)
    steps = [f.coefficient(axis.var) for f in offsets]
    return 2 * steps.count(1) + steps.count(0) - sum(s not in (0, 1) for s in steps)


def _tests(cond: Expr) -> list[Expr]:
    match cond:
        case Binary("and", a, b):
            return [*_tests(a), *_tests(b)]
        case Unary("not", Binary("or", a, b)):
            return [*_tests(Unary("not", a)), *_tests(Unary("not", b))]
        case _:
            return [cond]


def _shared_tests(body: Body) -> list[Expr]:
    """Tests that guard every statement of `body`."""
    acting = [s for s in body if not (isinstance(s, Let) and not any(isinstance(n, (AtomicOp, CallExtern)) for n in walk(s)))]
    if not acting or not all(isinstance(s, If) and not s.other for s in acting):
        return []
    lists = [_tests(s.cond) for s in acting if isinstance(s, If)]
    return [t for t in lists[0] if all(t in other for other in lists[1:])]


def _without(stmt: Stmt, taken: list[Expr]) -> Body:
    if not isinstance(stmt, If):
        return (stmt,)
    rest = [t for t in _tests(stmt.cond) if t not in taken]
    return (replace(stmt, cond=every(rest)),) if rest else tuple(_safe_part(s) for s in stmt.then)


def _safe_part(stmt: Stmt) -> Stmt:
    """The loop ends now imply the tests, so what is read whatever else holds may be read anywhere in the loop."""

    def change(node: Node) -> Node:
        match node:
            case Element() if not node.anywhere:
                return replace(map_children(node, change), anywhere=True)
            case Select(cond):
                return replace(node, cond=change(cond))
            case Binary("and" | "or", a):
                return replace(node, a=change(a))
            case Expr():
                return map_children(node, change)
            case _:
                return node

    return map_children(stmt, change) if isinstance(stmt, (SetElement, Let)) else stmt
