"""Blocks that stay: as many as there are multiprocessors, each doing one block of the author's grid after the other.

Before:  launch blocks (bx, by) in (16, 32): body
After:   launch blocks (cta) in (min(multiprocessors, 512)): for block in blocks(cta, 512): let bx = block % 16; let by = block // 16; body

The loop goes on by the number of blocks that were launched.

Blocks are independent, so any order is right. What runs ahead of a block then runs ahead into the next one, whose first tiles arrive while this one
still stores its results.

Requires: a launch of which one block fills a multiprocessor.
"""

from __future__ import annotations

from ..base.dtypes import INDEX
from ..ir.bodies import heads
from ..ir.build import cast, index, maximum, mul
from ..ir.device import SMS
from ..ir.expr import Binary, Const, Expr, Var
from ..ir.node import replace, walk
from ..ir.stmt import For, Launch, Let, Stmt
from .names import Names

KIND = "blocks"


def stay_on_chip(launch: Launch, names: Names) -> Launch:
    """`launch` with blocks that stay."""
    count: Expr = index(1)
    for extent in launch.grid:
        count = mul(count, cast(extent, INDEX))
    cta, block = names.var("cta"), names.var("block")
    lets: list[Let] = []
    rest: Expr = block
    is_followed = all(isinstance(extent, Const) for extent in launch.grid[:-1])
    for var, extent in zip(launch.block_vars[:-1], launch.grid[:-1], strict=True):
        lets.append(Let(var, Binary("floormod", rest, cast(extent, INDEX))))
        rest = Binary("floordiv", rest, cast(extent, INDEX))
    lets.append(Let(launch.block_vars[-1], rest))
    if not is_followed:  # proofs cannot follow the divisions
        lets = [replace(let, value=maximum(let.value, index(0))) for let in lets]
    body = (For(block, cta, count, (*lets, *launch.body), kind=KIND, span=launch.span),)
    return replace(launch, grid=(Binary("min", Var(SMS), count),), block_vars=(cta,), body=body)


def is_even(launch: Launch) -> bool:
    """Whether all blocks do the same work, as far as loops and conditions show: blocks that stay are dealt out beforehand."""
    known = {v.name for v in launch.block_vars}
    for node in walk(launch):
        if isinstance(node, Let) and _asks(node.value, known):
            known.add(node.var.name)
    return not any(_asks(e, known) for n in walk(launch) if isinstance(n, Stmt) for e in heads(n))


def _asks(e: Expr, names: set[str]) -> bool:
    return any(isinstance(n, Var) and n.name in names for n in walk(e))
