"""Values that a thread or a block found out before a barrier of the grid, and uses after it, are kept in a variable.

Before:  let x = A[tx];  sync grid;  B[tx] = x
After:   var kept;  kept[0] = A[tx];  sync grid;  B[tx] = kept[0]

A launch ends at such a barrier (`split_grid_syncs`), and with it what it bound; variables get memory there. Index arithmetic is repeated instead.

Requires: author-level statements.  Preserves: launches without such barriers.
"""

from __future__ import annotations

from ..analysis.linear import has_load
from ..analysis.uses import uses
from ..base.errors import UnsupportedError
from ..ir.bodies import bodies, statements
from ..ir.build import ZERO
from ..ir.expr import Buffer, Load, Var
from ..ir.launches import rewrite_launches
from ..ir.node import Node, replace, rewrite, walk
from ..ir.stmt import Atomic, Body, Collective, For, If, Kernel, Launch, Let, PipelinedFor, Return, Stmt, Store, Sync, While
from .names import Names


def keep_values(kernel: Kernel) -> Kernel:
    """Return `kernel` with variables for values that are used beyond a barrier of the grid."""
    if not any(_has_sync(launch) for launch in kernel.launches):
        return kernel
    names = Names(kernel)

    def change(node: Launch) -> Launch:
        return _Keeping(names).launch(node) if _has_sync(node) else node

    return rewrite_launches(kernel, change)


def _has_sync(node: Node) -> bool:
    return any(isinstance(n, Sync) and n.scope == "grid" for n in statements(node))


class _Keeping:
    def __init__(self, names: Names) -> None:
        self.names = names
        self.once: set[str] = set()  # names of what cannot be found out again
        self.kept: dict[str, Buffer] = {}

    def launch(self, launch: Launch) -> Launch:
        for node in walk(launch):
            if isinstance(node, Return):
                raise UnsupportedError("leaving a launch that has a barrier of the grid", span=node.span, hint="put what follows in a branch")
        for stmt in (n for s in launch.body for n in walk(s) if isinstance(n, (Let, Collective, Atomic))):
            var = stmt.var if isinstance(stmt, Let) else stmt.result
            if var is not None and (not isinstance(stmt, Let) or has_load(stmt.value) or any(v.name in self.once for v in uses(stmt.value).used)):
                self.once.add(var.name)
        self.find(launch.body)
        if not self.kept:
            return launch
        body = tuple(s for stmt in launch.body for s in self.stored(stmt))
        return replace(launch, body=body, allocs=(*launch.allocs, *self.kept.values()))

    def find(self, body: Body) -> None:
        """Values bound in `body` that are used behind a barrier of the grid further on in it."""
        for i, stmt in enumerate(body):
            var = _bound(stmt)
            behind = next((k for k in range(i + 1, len(body)) if _has_sync(body[k])), len(body))
            if var is not None and var.name in self.once and any(v.name == var.name for v in uses(body[behind:]).used):
                self.kept[var.name] = self.names.scalar(var.hint or var.name, var.type)
            for part in bodies(stmt) if _has_sync(stmt) else ():
                self.find(part)

    def stored(self, stmt: Stmt) -> Body:
        match stmt:
            case If(cond, then, other):
                sides = (tuple(s for inner in side for s in self.stored(inner)) for side in (then, other))
                return (If(rewrite(cond, self.read), *sides, span=stmt.span),)
            case For(body=body) | PipelinedFor(body=body) | While(body=body):
                inside = tuple(s for inner in body for s in self.stored(inner))
                return (replace(rewrite(replace(stmt, body=()), self.read), body=inside),)
            case _:
                return self.put(stmt)

    def put(self, stmt: Stmt) -> Body:
        """A statement that binds a kept value, which stores it instead."""
        var = _bound(stmt)
        if var is None or var.name not in self.kept:
            return (rewrite(stmt, self.read),)
        into = self.kept[var.name]
        if isinstance(stmt, Let):
            return (Store(into, (ZERO,), rewrite(stmt.value, self.read), span=stmt.span),)
        assert isinstance(stmt, (Collective, Atomic))
        told = self.names.var(var.hint or var.name, var.type)
        return (rewrite(replace(stmt, result=told), self.read), Store(into, (ZERO,), told, span=stmt.span))

    def read(self, node: Node) -> Node:
        return Load(self.kept[node.name], (ZERO,)) if isinstance(node, Var) and node.name in self.kept else node


def _bound(stmt: Stmt) -> Var | None:
    """The variable that `stmt` binds."""
    match stmt:
        case Let(var) | Collective(result=var) | Atomic(result=var):
            return var
        case _:
            return None
