"""Meanings of the words for blocks of a cluster: statements of `ir/explicit.py`, and a rank that is a number of the block's indices."""

from __future__ import annotations

from typing import Any

from ...base.dtypes import INT32
from ...base.errors import TileTypeError, TileValueError
from ...ir.build import index
from ...ir.explicit import BARRIER, Push, StartBarriers, TensorMove
from ...ir.expr import AddressOf, Binary, Const, Load
from ...ir.stmt import Store
from ...language import cluster as words
from ...language._dispatch import impl
from ..builder import LaunchState, current
from ..clusters import block_of, mask_of, rank_of
from ..positions import here
from ..regions import pair
from ..values import Value, as_side
from .hopper import ask, cluster_barrier, explicit, start_barriers

_TWO = "give dst_block (a tile into that block's memory) or cluster_mask (global memory into many blocks)"


@impl(words.block_rank_in_cluster)
def _rank() -> Any:
    return Value(rank_of(current("T.block_rank_in_cluster").require_launch("T.block_rank_in_cluster")))


@impl(words.cluster_sync)
def _sync() -> None:
    ask("cluster_sync", "twb_cluster_sync")


@impl(words.cluster_arrive)
def _arrive() -> None:
    ask("cluster_arrive", "twb_cluster_arrive")


@impl(words.cluster_arrive_relaxed)
def _arrive_relaxed() -> None:
    ask("cluster_arrive_relaxed", "twb_cluster_arrive_relaxed")


@impl(words.cluster_wait)
def _wait() -> None:
    ask("cluster_wait", "twb_cluster_wait")


@impl(words.alloc_cluster_barrier)
def _alloc_cluster_barrier(arrive_count: Any) -> Any:
    return start_barriers("T.alloc_cluster_barrier", arrive_count, of_cluster=True)


@impl(words.copy_cluster)
def _copy_cluster(
    src: Any, dst: Any, *, dst_block: Any = None, cluster_mask: Any = None, remote_barrier: Any = None, eviction_policy: Any = None,
    coalesced_width: Any = None, annotations: Any = None, loop_layout: Any = None,
) -> None:  # fmt: skip
    word = "T.copy_cluster"
    builder, launch = explicit(word)
    source, target = pair(word, as_side(src, word), as_side(dst, word))
    ways = source.buffer.scope, target.buffer.scope
    if (dst_block is None) == (cluster_mask is None):
        raise TileValueError(f"{word} needs one of dst_block and cluster_mask", hint=_TWO)
    if dst_block is None:
        if ways != ("global", "shared"):
            raise TileValueError(f"{word}(cluster_mask=...) copies from global to shared memory, not from {ways[0]} to {ways[1]}", hint=_TWO)
        if remote_barrier is not None:
            raise TileValueError(
                f"{word}(cluster_mask=...) waits for itself and has no barrier", hint="T.tma_copy(..., cluster_mask=..., barrier=...)"
            )
        _to_many(launch, TensorMove(source, target, None, mask_of(word, launch, cluster_mask), rank_of(launch)))
        return
    if ways != ("shared", "shared"):
        raise TileValueError(f"{word}(dst_block=...) copies from shared to shared memory, not from {ways[0]} to {ways[1]}", hint=_TWO)
    if source.buffer.type != target.buffer.type:
        raise TileTypeError(f"{word} does not convert {source.buffer.type} to {target.buffer.type}", hint="convert with T.copy in one of the blocks")
    bar = None if remote_barrier is None else cluster_barrier(word, remote_barrier)
    builder.emit(Push(source, target, block_of(word, launch, dst_block), bar))


def _to_many(launch: LaunchState, move: TensorMove) -> None:
    """A copy that is complete when it returns: the blocks meet, one starts it, all threads wait. A counter knows the phase of its barrier."""
    builder = current("T.copy_cluster")
    start = next(s.body for s in builder.scopes if s.kind == "launch")
    threads = launch.threads_in_all
    bar = builder.alloc(f"{move.dst.buffer.name}_came", (1,), BARRIER, "shared")
    count = builder.alloc(f"{move.dst.buffer.name}_copies", (1,), INT32, "var")
    zero, times = (index(0),), Load(count, (index(0),))
    start[:0] = [StartBarriers(bar, (threads,), True, span=here()), Store(count, zero, Const(0, INT32), span=here())]
    at = AddressOf(bar, zero)
    ask("copy_cluster", "twb_cluster_sync")
    builder.emit(TensorMove(move.src, move.dst, at, move.mask, move.rank))
    ask("copy_cluster", "twb_mbarrier_arrive", at)
    ask("copy_cluster", "twb_mbarrier_wait", at, Binary("bitand", times, Const(1, INT32)))
    builder.emit(Store(count, zero, Binary("add", times, Const(1, INT32))))
