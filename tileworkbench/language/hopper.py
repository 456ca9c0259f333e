"""Words for asynchronous work that the author orders himself, on sm_90: roles of warp groups, barriers, tensor copies, asynchronous products.

    ready = T.alloc_barrier(128)
    with T.ws(1):                                        # the second 128 threads
        T.tma_copy(A[0, 0], tile, barrier=ready)         # says how many bytes come, and starts
        T.barrier_arrive(ready)                          # all 128 arrive
    with T.ws(0):
        T.barrier_wait(ready, 0)                         # until they and the bytes have come
        T.gemm(tile, other, acc)

They need `target="sm_90"`, or `"emulate:sm_90a"`; elsewhere compiling raises UnsupportedError. What one role writes and another reads is ordered by
the author's barriers alone. T.copy, T.gemm and T.Pipelined do the same without any of them, on every target.
"""

from __future__ import annotations

from typing import Any

from ._dispatch import alias, word
from .tile import GemmWarpPolicy


@word
def ws(*groups: int) -> Any:
    """`with T.ws(0):` the body is for warp group 0 (threads 0 to 127) alone; `T.ws(0, 1)` for two neighbours together."""


@word
def alloc_barrier(arrive_count: Any) -> Any:
    """A barrier, whose phase takes `arrive_count` arrivals; for a list of counts, so many barriers: `bars[i]`. At the start of a launch's body."""


@word
def mbarrier_wait_parity(mbarrier: Any, parity: Any) -> None:
    """Wait until the phase of this parity is over: 0 for the first. On a new barrier parity 1 is over at once."""


@word
def mbarrier_arrive(mbarrier: Any, cta_id: Any = None) -> None:
    """Arrive: every thread of the role once. With `cta_id` at the same barrier, from T.alloc_cluster_barrier, of that block of the cluster."""


@word
def mbarrier_expect_tx(mbarrier: Any, tx: Any) -> None:
    """The phase also takes `tx` bytes of copies. `T.tma_copy` says so itself; this is for other copies."""


@word
def mbarrier_arrive_expect_tx(mbarrier: Any, tx: Any) -> None:
    """`T.mbarrier_expect_tx`, then `T.mbarrier_arrive`."""


@word
def tma_copy(
    src: Any, dst: Any, *, barrier: Any = None, cluster_mask: Any = None, leader_scope_threads: Any = None, eviction_policy: Any = None,
    annotations: Any = None,
) -> None:  # fmt: skip
    """Start a copy by the tensor copy engine: to shared memory with a `barrier` that expects its bytes, or back without one.

    With `cluster_mask` the lowest block in it copies into the same tile of each block whose bit is set; each expects the bytes at its own `barrier`,
    and must be done with what they overwrite. Blocks outside of the mask copy for themselves.
    """


@word
def tma_store_arrive() -> None:
    """Close the group of `T.tma_copy`s to global memory since the last call; in a launch without any call each copy is a group."""


@word
def cp_async_barrier_noinc(barrier: Any) -> None:
    """Arrive, every thread of the role once, when the `T.copy`s to shared memory right before have come; the threads go on meanwhile.

    Copies that the hardware cannot start, and tiles that `T.wgmma_gemm` or `T.tma_copy` read, are waited for first.
    """


@word
def tma_store_wait(count: int = 0, read: bool = True) -> None:
    """Wait until at most the `count` newest copies to global memory are under way: have read their tile, or, without `read`, have written."""


@word
def wgmma_gemm(
    A: Any, B: Any, C: Any, transpose_A: bool = False, transpose_B: bool = False, policy: Any = GemmWarpPolicy.Square, clear_accum: Any = False,
    annotations: Any = None,
) -> None:  # fmt: skip
    """`T.gemm` by warp groups that is only started: nobody touches C, or writes A or B, before `T.wait_wgmma`. An error where wgmma cannot do it."""


@word
def wait_wgmma(num_mma: int = 0) -> None:
    """Wait until at most the `num_mma` newest products of `T.wgmma_gemm` are under way."""


@word
def fence_proxy_async() -> None:
    """What this thread has written to shared memory is seen by tensor copies and warp group products that start after the next barrier."""


@word
def named_barrier_arrive(barrier_id: int, arrive_count: int) -> None:
    """Arrive at a barrier of the hardware (0 to 15) of so many threads, without waiting."""


@word
def named_barrier_sync(barrier_id: int, arrive_count: int) -> None:
    """Arrive at a barrier of the hardware (0 to 15) and wait for so many threads."""


barrier_wait = alias("barrier_wait", mbarrier_wait_parity)
barrier_arrive = alias("barrier_arrive", mbarrier_arrive)
