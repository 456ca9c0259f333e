"""A loop in which only roles do anything becomes a loop in each role, so that warps with different tasks share no code but the choice (sm_90).

Before:  for k in 0..n: (in groups 1: load ..; in groups 0: wait ..; multiply ..)
After:   in groups 1: for k in 0..n: load ..;  in groups 0: for k in 0..n: wait ..; multiply ..

Roles are ordered by the author's barriers alone, so nothing else changes; products that run into the next turn meet no branch.

Requires: author-level statements.  Preserves: loops with statements of the block, that read memory for their ends, or that may be left early.
"""

from __future__ import annotations

from ..analysis.linear import has_load
from ..ir.explicit import InGroups, is_explicit
from ..ir.expr import Expr, Var
from ..ir.launches import rewrite_launches
from ..ir.node import Node, replace, rewrite, walk
from ..ir.stmt import Body, Break, Continue, For, If, Kernel, Launch, Let, PipelinedFor, Stmt
from .names import Names


def loops_of_roles(kernel: Kernel) -> Kernel:
    """Return `kernel` with loops inside roles."""
    if not any(is_explicit(launch) for launch in kernel.launches):
        return kernel
    names = Names(kernel)

    def inside(node: Node) -> Node | tuple[Node, ...]:
        return _split(node, names) if isinstance(node, (For, PipelinedFor)) and _suits(node) else node

    def change(node: Launch) -> Launch:
        return rewrite(node, inside) if is_explicit(node) and not node.threads_used else node

    return rewrite_launches(kernel, change)


def _is_role(stmt: Stmt) -> bool:
    return isinstance(stmt, If) and isinstance(stmt.cond, InGroups)


def _suits(loop: For | PipelinedFor) -> bool:
    return (
        any(_is_role(s) for s in loop.body)
        and all(_is_role(s) or isinstance(s, Let) and not has_load(s.value) for s in loop.body)
        and not has_load(loop.start)
        and not has_load(loop.stop)
        and not any(isinstance(n, (Break, Continue)) for s in loop.body for n in walk(s))
    )


def _split(loop: For | PipelinedFor, names: Names) -> Body:
    roles = {s.cond: s for s in loop.body if isinstance(s, If)}
    out: list[Stmt] = []
    for cond, first in roles.items():
        known: dict[Var, Expr] = {loop.var: names.var(loop.var.hint or loop.var.name, loop.var.type)}
        mine: list[Stmt] = []
        for s in loop.body:
            if isinstance(s, Let):
                known[s.var] = names.var(s.var.hint or s.var.name, s.var.type)
                mine.append(s)
            elif isinstance(s, If) and s.cond == cond:
                mine += s.then
        body = tuple(rewrite(s, lambda n, known=known: known.get(n, n) if isinstance(n, Var) else n) for s in mine)  # type: ignore[misc]  # of this role
        var = known[loop.var]
        assert isinstance(var, Var)
        made = For(var, loop.start, loop.stop, body, span=loop.span) if isinstance(loop, PipelinedFor) else replace(loop, var=var, body=body)
        out.append(replace(first, then=(made,)))
    return tuple(out)
