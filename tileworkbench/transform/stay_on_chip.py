"""Blocks that stay: as many as there are multiprocessors, each doing one block of the author's grid after the other.

Before:  launch blocks (bx, by) in (16, 32): body
After:   launch blocks (cta) in (min(multiprocessors, 512)): for block in blocks(cta, 512): let bx = block % 16; let by = block // 16; body

The loop goes on by the number of blocks that were launched. Clusters stay whole: each does one cluster of the grid after the other.

Blocks are independent, so any order is right. What runs ahead of a block then runs ahead into the next one, whose first tiles arrive while this one
still stores its results.

Requires: a launch of which one block fills a multiprocessor.
"""

from __future__ import annotations

from ..base.dtypes import INDEX
from ..ir.bodies import heads
from ..ir.build import cast, floordiv, index, maximum, mul
from ..ir.device import SMS
from ..ir.expr import Binary, Const, Expr, Var
from ..ir.node import replace, walk
from ..ir.stmt import For, Launch, Let, Stmt
from .cluster_blocks import extents_in_clusters, place_block, split_block
from .names import Names

KIND = "blocks"


def stay_on_chip(launch: Launch, names: Names) -> Launch:
    """`launch` with blocks that stay."""
    count: Expr = index(1)
    for extent in launch.grid:
        count = mul(count, cast(extent, INDEX))
    cta, block, size = names.var("cta"), names.var("block"), launch.cluster_size
    is_followed = all(isinstance(extent, Const) for extent in launch.grid[:-1])
    lets: list[Stmt] = []
    if len(launch.grid) == 1:
        lets.append(Let(launch.block_vars[0], block))
    else:
        lets, rest, rank = split_block(block, launch, names)
        for dim, extent in enumerate(extents_in_clusters(launch)[:-1]):
            lets.append(place_block(launch, dim, _known(Binary("floormod", rest, extent), is_followed), rank))
            rest = Binary("floordiv", rest, extent)
        lets.append(place_block(launch, len(launch.grid) - 1, _known(rest, is_followed), rank))
    body = (For(block, cta, count, (*lets, *launch.body), kind=KIND, span=launch.span),)
    most: Expr = Var(SMS)
    if size > 1:
        most = Binary("max", mul(floordiv(most, index(size)), index(size)), index(size))
    return replace(launch, grid=(Binary("min", most, count),), block_vars=(cta,), body=body, cluster=(size, 1, 1))


def _known(e: Expr, is_followed: bool) -> Expr:
    """`e`, which is not negative, so that proofs know it even where they cannot follow its divisions."""
    return e if is_followed else maximum(e, index(0))


def is_even(launch: Launch) -> bool:
    """Whether all blocks do the same work, as far as loops and conditions show: blocks that stay are dealt out beforehand."""
    known = {v.name for v in launch.block_vars}
    for node in walk(launch):
        if isinstance(node, Let) and _asks(node.value, known):
            known.add(node.var.name)
    return not any(_asks(e, known) for n in walk(launch) if isinstance(n, Stmt) for e in heads(n))


def _asks(e: Expr, names: set[str]) -> bool:
    return any(isinstance(n, Var) and n.name in names for n in walk(e))
