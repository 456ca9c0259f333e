"""Blocks in panels: with `T.use_swizzle(panel)` blocks that run together are neighbours in both dims of the grid, and share rows and columns in L2.

Before:  launch blocks (bx, by) in (16, 32), 'use_swizzle'='8'
After:   launch blocks (block) in (512): let by = block // 128 * 8 + block % 8; let bx = block % 128 // 8

A panel is so many rows of blocks (columns, with order "column"); it is walked column by column. The last panel may have fewer rows.

Preserves: launches without the hint, with one dim, or with clusters of three or in a grid of unknown size. Blocks of a cluster
stay together: panels are of clusters.
"""

from __future__ import annotations

from ..ir.build import add, floordiv, floormod, index, maximum, mul
from ..ir.expr import Binary, Const, Expr
from ..ir.launches import rewrite_launches
from ..ir.node import replace
from ..ir.remark import Remark
from ..ir.stmt import Kernel, Launch
from .cluster_blocks import are_whole, extents_in_clusters, place_block, split_block
from .names import Names


def raster_blocks(kernel: Kernel) -> Kernel:
    """Return `kernel` with one dim of blocks where the author asked for panels."""
    names = Names(kernel)

    def change(node: Launch) -> Launch:
        hint = dict(node.hints).get("use_swizzle")
        if hint is None or len(node.grid) < 2:
            return node
        if node.cluster[2] > 1 or not are_whole(node):
            said = Remark(
                "blocks of clusters keep their order in a grid of three dims, or of unknown size: use_swizzle changes nothing", span=node.span
            )
            return replace(node, remarks=(*node.remarks, said))
        size, _, order = hint.partition(" ")
        return _in_panels(node, int(size), order.startswith("col"), names)

    return rewrite_launches(kernel, change)


def _in_panels(launch: Launch, panel: int, by_columns: bool, names: Names) -> Launch:
    along, across = (1, 0) if by_columns else (0, 1)  # blocks along a panel, and the rows of it
    block = names.var("block")
    lets, cluster, rank = split_block(block, launch, names)
    extents = extents_in_clusters(launch)
    length, rows, panel = extents[along], extents[across], max(1, panel // launch.cluster[across])
    number, rest = floordiv(cluster, mul(index(panel), length)), floormod(cluster, mul(index(panel), length))
    height: Expr = index(panel)
    if not (isinstance(rows, Const) and int(rows.value) % panel == 0):
        height = Binary("min", height, Binary("sub", rows, mul(number, index(panel))))
    row, column = add(mul(number, index(panel)), floormod(rest, height)), floordiv(rest, height)
    if not (isinstance(length, Const) and isinstance(rows, Const)):
        row, column = maximum(row, index(0)), maximum(column, index(0))  # so that proofs know it, which cannot follow the division
    lets += [place_block(launch, across, row, rank), place_block(launch, along, column, rank)]
    others, count = launch.block_vars[2:], mul(mul(length, rows), index(launch.cluster_size))
    body = (*lets, *launch.body)
    return replace(launch, grid=(count, *launch.grid[2:]), block_vars=(block, *others), body=body, cluster=(launch.cluster_size, 1, 1))
