"""What a word that names blocks of a cluster means: this block's rank, another's, a mask of several."""

from __future__ import annotations

from typing import Any

from ..base.dtypes import INDEX, INT32
from ..base.errors import TileValueError
from ..ir.build import add, cast, floormod, index, mul
from ..ir.expr import Const, Expr
from . import arith
from .builder import LaunchState
from .values import as_expr


def rank_of(launch: LaunchState) -> Expr:
    """This block's number in its cluster."""
    rank: Expr = index(0)
    for var, size in reversed(list(zip(launch.block_vars, launch.cluster, strict=False))):
        rank = add(mul(rank, index(size)), floormod(cast(var, INDEX), index(size)))
    return rank


def block_of(word: str, launch: LaunchState, block: Any) -> Expr:
    """The number of a block of the cluster."""
    rank = arith.cast(as_expr(block), INT32)
    size = launch.cluster[0] * launch.cluster[1] * launch.cluster[2]
    if isinstance(rank, Const) and not 0 <= int(rank.value) < size:
        raise TileValueError(
            f"{word}: there is no block {int(rank.value)} in a cluster of {size}",
            hint=f"0 to {size - 1}; T.Kernel(..., cluster_dims=...) says how many",
        )
    return rank


def mask_of(word: str, launch: LaunchState, mask: Any) -> int:
    """The blocks that a copy goes to, a bit for each."""
    size = launch.cluster[0] * launch.cluster[1] * launch.cluster[2]
    if not isinstance(mask, int) or not 0 < mask < 1 << size:
        raise TileValueError(
            f"{word}: cluster_mask={mask!r} names no blocks of a cluster of {size}",
            hint=f"an int of {size} bits, bit i for rank i: {(1 << size) - 1:#b}",
        )
    return mask
