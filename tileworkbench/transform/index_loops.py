"""Loop variables are indices.

Before:  for n: uint8 in serial(0, 4): x[n] = n * 100
After:   for n_1 in serial(0, 4): let n: uint8 = uint8(n_1); x[n] = n * 100

Requires: author-level statements.  Preserves: everything else.
"""

from __future__ import annotations

from ..base.dtypes import INDEX
from ..ir.build import cast
from ..ir.expr import Var
from ..ir.node import Node, replace, rewrite, walk
from ..ir.stmt import For, Kernel, Let, ParallelFor, PipelinedFor
from .names import Names


def index_loops(kernel: Kernel) -> Kernel:
    """Return `kernel` with loop variables of the index dtype only."""
    if not any(v.type != INDEX for n in walk(kernel) for v in _variables(n)):
        return kernel
    names = Names(kernel)

    def wide(var: Var) -> Var:
        return var if var.type == INDEX else names.var(var.hint or var.name)

    def change(node: Node) -> Node:
        if all(v.type == INDEX for v in _variables(node)):
            return node
        match node:
            case For(var, start, stop, body) | PipelinedFor(var, start, stop, body):
                new = wide(var)
                return replace(node, var=new, start=cast(start, INDEX), stop=cast(stop, INDEX), body=(Let(var, cast(new, var.type)), *body))
            case ParallelFor(loop_vars, _, body):
                new_vars = tuple(wide(v) for v in loop_vars)
                lets = tuple(Let(v, cast(n, v.type)) for v, n in zip(loop_vars, new_vars, strict=True) if n is not v)
                return replace(node, vars=new_vars, body=(*lets, *body))
            case _:
                return node

    return rewrite(kernel, change)


def _variables(node: Node) -> tuple[Var, ...]:
    match node:
        case For(var) | PipelinedFor(var):
            return (var,)
        case ParallelFor(loop_vars):
            return loop_vars
        case _:
            return ()
