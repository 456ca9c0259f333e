"""Blocks of clusters in another order: clusters are numbered, and blocks keep their places in them.

    blocks (bx, by), clusters (2, 1, 1)  ->  number = block // 2; rank = block % 2; bx = (number's x) * 2 + rank; by = (number's y)

Only for grids that are certainly multiples of their clusters: others are looked at when they are launched, as the author wrote them.
"""

from __future__ import annotations

from ..base.dtypes import INDEX
from ..ir.build import add, cast, floordiv, floormod, index, mul
from ..ir.expr import Const, Expr
from ..ir.stmt import Launch, Let, Stmt
from .names import Names


def are_whole(launch: Launch) -> bool:
    """Whether the grid is known to be a multiple of its clusters (`fit_clusters` has refused those that are known not to be)."""
    return all(size == 1 or isinstance(extent, Const) for extent, size in zip(launch.grid, launch.cluster, strict=False))


def extents_in_clusters(launch: Launch) -> tuple[Expr, ...]:
    """The grid, counted in clusters."""
    return tuple(floordiv(cast(extent, INDEX), index(size)) for extent, size in zip(launch.grid, launch.cluster, strict=False))


def split_block(block: Expr, launch: Launch, names: Names) -> tuple[list[Stmt], Expr, Expr]:
    """The number of the cluster of block `block` and its rank there, of blocks that are numbered cluster by cluster; with what binds them."""
    if launch.cluster_size == 1:
        return [], block, index(0)
    number, rank, size = names.var("number"), names.var("rank"), index(launch.cluster_size)
    lets: list[Stmt] = [Let(number, floordiv(block, size), span=launch.span), Let(rank, floormod(block, size), span=launch.span)]
    return lets, number, rank


def place_block(launch: Launch, dim: int, cluster: Expr, rank: Expr) -> Let:
    """The author's index of a block along `dim`: of its cluster there, and its rank."""
    var, size = launch.block_vars[dim], launch.cluster[dim]
    if size == 1:
        return Let(var, cluster, span=launch.span)
    before = 1
    for other in launch.cluster[:dim]:
        before *= other
    mine = floordiv(rank, index(before))
    if before * size < launch.cluster_size:
        mine = floormod(mine, index(size))
    return Let(var, add(mul(cluster, index(size)), mine), span=launch.span)
