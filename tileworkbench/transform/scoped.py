"""Rewriting a kernel while knowing, at every node, what holds there.

`Scoped` walks a kernel once, keeps a `Bounds` up to date, and calls `on_expr` for every expression below a statement and `on_stmt` for every
statement, children first. A pass derives from it and overrides one or both. Unchanged subtrees keep identity.
"""

from __future__ import annotations

from typing import TypeVar

from ..analysis.bounds import Bounds
from ..analysis.linear import has_load
from ..analysis.uses import written_roots
from ..ir.build import index
from ..ir.expr import Binary, Buffer, Const, Expr, Load, Select, Unary, Var
from ..ir.lowered import Element, Grid, Loop
from ..ir.node import Node, map_children, replace, walk
from ..ir.stmt import Body, For, If, Kernel, Launch, Let, ParallelFor, PipelinedFor, ScalarParam, Stmt, While

T = TypeVar("T", bound=Node)
Result = Stmt | tuple[Stmt, ...] | None


class Scoped:
    """A rewrite with scope. `inner` counts the facts that hold outside the innermost parallel loop: the later ones come from conditions in it."""

    def __init__(self) -> None:
        self.bounds = Bounds()
        self.inner = 0

    def on_expr(self, expr: Expr) -> Expr:
        """What `expr`, whose operands are rewritten already, becomes."""
        return expr

    def on_stmt(self, stmt: Stmt) -> Result:
        """What `stmt`, whose parts are rewritten already, becomes: itself, other statements, or nothing."""
        return stmt

    def kernel(self, kernel: Kernel) -> Kernel:
        """The rewritten kernel."""
        for dim in kernel.dims:
            self.bounds.bind_dim(dim)
        for param in kernel.params:
            if isinstance(param, ScalarParam):
                self.bounds.order[param.var] = len(self.bounds.order)
        body = self.body(kernel.body)
        return kernel if body is kernel.body else replace(kernel, body=body)

    # ------------------------------------------------------------------------------------------ statements
    def body(self, body: Body) -> Body:
        out: list[Stmt] = []
        changed = False
        for stmt in body:
            new = self.stmt(stmt)
            changed |= new is not stmt
            if isinstance(new, tuple):
                out += new
            elif new is not None:
                out.append(new)
        return tuple(out) if changed else body

    def stmt(self, stmt: Stmt) -> Result:
        """Rewrite one statement; `on_stmt` sees it last, outside its own scope."""
        match stmt:
            case Let(var, value):
                new = self.expr(value)
                self.bounds.define(var, new)
                return self.on_stmt(stmt if new is value else replace(stmt, value=new))
            case If(cond, then, other):
                return self._if(stmt, cond, then, other)
            case ParallelFor(loop_vars, extents, body):
                ends = self._exprs(extents)
                for var, end in zip(loop_vars, ends, strict=True):
                    self.bounds.bind(var, index(0), end)
                outer, self.inner = self.inner, len(self.bounds.facts)
                inside = self.body(body)
                self.inner = outer
                return self.on_stmt(stmt if ends is extents and inside is body else replace(stmt, extents=ends, body=inside))
            case For(var, start, stop, body) | PipelinedFor(var, start, stop, body) | Loop(var, start, stop, body):
                return self._loop(stmt, var, start, stop, body)
            case While(cond, body):
                test, inside = self.expr(cond), self.body(body)
                return self.on_stmt(stmt if test is cond and inside is body else replace(stmt, cond=test, body=inside))
            case Launch(grid, block_vars, threads, thread_vars, _, body):
                ends = self._exprs(grid)
                for var, end in zip(block_vars, ends, strict=True):
                    self.bounds.bind(var, index(0), end)
                for var, count in zip(thread_vars, threads, strict=False):
                    self.bounds.bind(var, index(0), Const(count))
                inside = self.body(body)
                return self.on_stmt(stmt if ends is grid and inside is body else replace(stmt, grid=ends, body=inside))
            case Grid(_, block_vars, grid, _, body):
                ends = self._exprs(grid)
                for var, end in zip(block_vars, ends, strict=True):
                    self.bounds.bind(var, index(0), end)
                inside = self.body(body)
                return self.on_stmt(stmt if ends is grid and inside is body else replace(stmt, extents=ends, body=inside))
            case _:
                return self.on_stmt(map_children(stmt, self._part))

    def _loop(self, stmt: For | PipelinedFor | Loop, var: Var, start: Expr, stop: Expr, body: Body) -> Result:
        first, last = self.expr(start), self.expr(stop)
        self.bounds.bind(var, first, last, 1 if isinstance(stmt, PipelinedFor) else stmt.step)
        inside = self.body(body)
        if first is not start or last is not stop or inside is not body:
            stmt = replace(stmt, start=first, stop=last, body=inside)
        return self.on_stmt(stmt)

    def _if(self, stmt: If, cond: Expr, then: Body, other: Body) -> Result:
        test = self.expr(cond)
        bodies = []
        for body, holds in ((then, True), (other, False)):
            self.bounds.push()
            if body and not self._is_stale(test, body):
                self.bounds.assume(test, holds)
            bodies.append(self.body(body) if body else body)
            self.bounds.pop()
        if test is not cond or bodies[0] is not then or bodies[1] is not other:
            stmt = replace(stmt, cond=test, then=bodies[0], other=bodies[1])
        return self.on_stmt(stmt)

    def _is_stale(self, cond: Expr, body: Body) -> bool:
        """Whether `body` may change what `cond` read."""
        if not has_load(cond):
            return False
        read: set[Buffer] = {n.buffer.root for n in walk(cond) if isinstance(n, (Load, Element))}
        return bool(read & written_roots(body))

    # ------------------------------------------------------------------------------------------ expressions
    def _part(self, node: Node) -> Node:
        return self.expr(node) if isinstance(node, Expr) else map_children(node, self._part)

    def _exprs(self, items: tuple[Expr, ...]) -> tuple[Expr, ...]:
        new = tuple(self.expr(e) for e in items)
        return items if all(a is b for a, b in zip(new, items, strict=True)) else new

    def expr(self, expr: Expr) -> Expr:
        match expr:
            case Const() | Var():
                return expr
            case Binary("and" | "or" as op, a, b):
                left = self.expr(a)
                right = self._under(left, op == "and", b)
                return self.on_expr(expr if left is a and right is b else replace(expr, a=left, b=right))
            case Select(cond, then, other):
                test = self.expr(cond)
                yes, no = self._under(test, True, then), self._under(test, False, other)
                return self.on_expr(expr if test is cond and yes is then and no is other else replace(expr, cond=test, then=yes, other=no))
            case Binary(_, a, b):
                left, right = self.expr(a), self.expr(b)
                return self.on_expr(expr if left is a and right is b else replace(expr, a=left, b=right))
            case Unary(_, x):
                inner = self.expr(x)
                return self.on_expr(expr if inner is x else replace(expr, x=inner))
            case _:
                return self.on_expr(map_children(expr, self._part))

    def _under(self, cond: Expr, holds: bool, expr: Expr) -> Expr:
        if isinstance(expr, (Const, Var)):
            return expr
        self.bounds.push()
        self.bounds.assume(cond, holds)
        new = self.expr(expr)
        self.bounds.pop()
        return new
