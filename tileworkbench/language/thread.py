"""Words for the threads of a block: their indices, barriers, shuffles and votes.

A kernel that asks for a thread index, shuffles or votes runs its scalar statements once per thread. Warps have 32 threads; a thread's
place in its warp follows from its linear index, x fastest.
"""

from __future__ import annotations

from typing import Any

from ._dispatch import alias, word


# ---------------------------------------------------------------------------------------------- indices
@word
def get_thread_binding(dim: int = 0) -> Any:
    """The index of this thread in dim 0 (x), 1 (y) or 2 (z) of the block."""


@word
def get_thread_bindings() -> Any:
    """The indices of this thread, one per dim of `threads`."""


@word
def get_thread_extent(dim: int = 0) -> Any:
    """How many threads a block has in `dim`."""


@word
def get_thread_extents() -> Any:
    """How many threads a block has, one number per dim."""


@word
def get_block_binding(dim: int = 0) -> Any:
    """The index of this block in dim 0 (x), 1 (y) or 2 (z) of the grid."""


@word
def get_block_bindings() -> Any:
    """The indices of this block, one per dim of the grid."""


@word
def get_block_extent(dim: int = 0) -> Any:
    """How many blocks the grid has in `dim`."""


@word
def get_block_extents() -> Any:
    """How many blocks the grid has, one number per dim."""


@word
def get_lane_idx(warp_size: int = 32) -> Any:
    """The place of this thread in its warp."""


@word
def get_warp_idx(warp_size: int = 32) -> Any:
    """The number of this thread's warp in the block."""


@word
def get_warp_group_idx(warp_size: int = 32, warps_per_group: int = 4) -> Any:
    """The number of this thread's group of warps in the block."""


@word
def shuffle_elect(thread_extent: int = 0) -> Any:
    """True in the first thread of every `thread_extent` threads; 0: of the block."""


get_warp_idx_sync = alias("get_warp_idx_sync", get_warp_idx)


# ---------------------------------------------------------------------------------------------- barriers
@word
def sync_threads(barrier_id: Any = None, arrive_count: Any = None) -> None:
    """Wait until all threads of the block are here; what they wrote is visible after it."""


@word
def sync_warp(mask: Any = None) -> None:
    """Wait until all threads of the warp are here."""


@word
def sync_grid() -> None:
    """Wait until all blocks are here. Only targets whose blocks run at the same time can do this."""


@word
def tvm_storage_sync(scope: str = "shared") -> None:
    """`T.sync_threads` ("shared") or `T.sync_warp` ("warp") under the compiler's name."""


# ---------------------------------------------------------------------------------------------- shuffles
@word
def shfl_sync(value: Any, lane: Any, width: int = 32, mask: Any = None) -> Any:
    """The `value` of thread `lane` of the warp (of each group of `width` threads)."""


@word
def shfl_xor(value: Any, lane_mask: Any, width: int = 32, mask: Any = None) -> Any:
    """The `value` of the thread whose lane differs in the bits of `lane_mask`."""


@word
def shfl_up(value: Any, delta: Any, width: int = 32, mask: Any = None) -> Any:
    """The `value` of the thread `delta` lanes before; the first `delta` lanes keep their own."""


@word
def shfl_down(value: Any, delta: Any, width: int = 32, mask: Any = None) -> Any:
    """The `value` of the thread `delta` lanes after; the last `delta` lanes keep their own."""


@word
def tvm_warp_shuffle(mask: Any, value: Any, lane: Any, width: int = 32, warp_size: int = 32) -> Any:
    """`T.shfl_sync` under the compiler's name."""


@word
def tvm_warp_shuffle_up(mask: Any, value: Any, delta: Any, width: int = 32, warp_size: int = 32) -> Any:
    """`T.shfl_up` under the compiler's name."""


@word
def tvm_warp_shuffle_down(mask: Any, value: Any, delta: Any, width: int = 32, warp_size: int = 32) -> Any:
    """`T.shfl_down` under the compiler's name."""


shfl_xor_sync = alias("shfl_xor_sync", shfl_xor)
shfl_up_sync = alias("shfl_up_sync", shfl_up)
shfl_down_sync = alias("shfl_down_sync", shfl_down)


# ---------------------------------------------------------------------------------------------- votes and reductions
@word
def any_sync(predicate: Any, mask: Any = None) -> Any:
    """True in all threads of a warp if `predicate` holds in any of them."""


@word
def all_sync(predicate: Any, mask: Any = None) -> Any:
    """True in all threads of a warp if `predicate` holds in all of them."""


@word
def ballot_sync(predicate: Any, mask: Any = None) -> Any:
    """A uint32 whose bit i says whether `predicate` holds in lane i of the warp."""


@word
def activemask() -> Any:
    """The lanes of the warp that are here, one bit each."""


@word
def syncthreads_or(predicate: Any) -> Any:
    """A barrier; then true in all threads if `predicate` holds in any thread of the block."""


@word
def syncthreads_and(predicate: Any) -> Any:
    """A barrier; then true in all threads if `predicate` holds in all threads of the block."""


@word
def syncthreads_count(predicate: Any) -> Any:
    """A barrier; then the number of threads of the block in which `predicate` holds."""


@word
def warp_reduce_sum(value: Any) -> Any:
    """The sum of `value` over the warp, in every thread of it."""


@word
def warp_reduce_max(value: Any) -> Any:
    """The maximum of `value` over the warp."""


@word
def warp_reduce_min(value: Any) -> Any:
    """The minimum of `value` over the warp."""


@word
def warp_reduce_bitand(value: Any) -> Any:
    """The bitwise and of an integer `value` over the warp."""


@word
def warp_reduce_bitor(value: Any) -> Any:
    """The bitwise or of an integer `value` over the warp."""


@word
def comm_reducer(combine: Any, identity: Any) -> Any:
    """How `T.tvm_thread_allreduce` combines two values: `T.comm_reducer(lambda x, y: x + y, [T.float32(0)])`."""


@word
def attr(node: Any, key: str, value: Any) -> Any:
    """A scope that gives `tvm_thread_allreduce` its reducer: `with T.attr(T.comm_reducer(...), "reduce_scope", ...):`. Other keys do nothing."""


@word
def tvm_thread_allreduce(size: Any, value: Any, predicate: Any, out: Any, *axes: Any, dtype: Any = "handle") -> Any:
    """Reduce `value` over the threads of the block along `axes` (thread bindings) into the element `out` of every thread.

    Threads in which `predicate` does not hold contribute the identity.
    """


ballot = alias("ballot", ballot_sync)
