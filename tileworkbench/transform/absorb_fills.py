"""A tile that is cleared right before a product starts it: the product clears.

Before:  fill C <- 0; copy A_shared <- A; gemm C += A_shared @ B_shared
After:   copy A_shared <- A; gemm C += A_shared @ B_shared, clear=True

Requires: tile operations.  Preserves: everything else.
"""

from __future__ import annotations

from ..analysis.uses import uses
from ..ir.build import TRUE
from ..ir.expr import Const, is_const
from ..ir.node import Node, replace, rewrite
from ..ir.stmt import Body, Break, Continue, Fill, For, Gemm, If, Kernel, Launch, PipelinedFor, Return, Stmt, While

_LEAVES = (Break, Continue, Return, If, For, PipelinedFor, While)


def absorb_fills(kernel: Kernel) -> Kernel:
    """Return `kernel` without fills that a product can do."""
    return rewrite(kernel, _change)


def _change(node: Node) -> Node:
    match node:
        case If(_, then, other):
            new = (_body(then), _body(other))
            return node if new[0] is then and new[1] is other else replace(node, then=new[0], other=new[1])
        case Launch(body=body) | For(body=body) | PipelinedFor(body=body) | While(body=body):
            inside = _body(body)
            return node if inside is body else replace(node, body=inside)
        case _:
            return node


def _body(body: Body) -> Body:
    for place, stmt in enumerate(body):
        if isinstance(stmt, Fill) and is_const(stmt.value, 0):
            found = _product_after(stmt, body[place + 1 :])
            if found is not None:
                end = place + 1 + found
                gemm = body[end]
                assert isinstance(gemm, Gemm)
                return _body((*body[:place], *body[place + 1 : end], replace(gemm, clear=TRUE), *body[end + 1 :]))
    return body


def _product_after(fill: Fill, rest: tuple[Stmt, ...]) -> int | None:
    """Where the product stands that adds to exactly the filled tile, if nothing between touches it or may leave."""
    tile = fill.dst.buffer.root
    for place, stmt in enumerate(rest):
        if isinstance(stmt, Gemm) and stmt.c == fill.dst and isinstance(stmt.clear, Const):
            return place if tile not in (stmt.a.buffer.root, stmt.b.buffer.root) else None
        if isinstance(stmt, _LEAVES) or tile in {b.root for b in uses(stmt).buffers}:
            return None
    return None
