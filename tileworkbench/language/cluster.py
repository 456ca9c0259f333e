"""Words for blocks of a cluster, which run together on sm_90: `T.Kernel(..., cluster_dims=2)`.

    ready = T.alloc_cluster_barrier(1)
    if T.block_rank_in_cluster() == 0:
        T.copy_cluster(mine, theirs, dst_block=1, remote_barrier=ready)      # into the other block's memory
    else:
        T.mbarrier_wait_parity(ready, 0)                                     # until it has come

The blocks come together by themselves where a launch with such words begins, when barriers are there, and where it ends, so that none leaves while
another may still reach it. In between the author orders them.
"""

from __future__ import annotations

from typing import Any

from ._dispatch import word


@word
def block_rank_in_cluster() -> Any:
    """The block's number in its cluster: 0 in a launch without clusters. Along x first, then y, then z."""


@word
def cluster_sync() -> None:
    """Every thread of every block of the cluster comes here, and sees what the others wrote before."""


@word
def cluster_arrive() -> None:
    """Come to the barrier of the cluster and go on, to `T.cluster_wait`."""


@word
def cluster_arrive_relaxed() -> None:
    """`T.cluster_arrive` that says nothing about memory."""


@word
def cluster_wait() -> None:
    """Wait until every thread of the cluster has come to the barrier; each has to arrive first."""


@word
def alloc_cluster_barrier(arrive_count: Any) -> Any:
    """`T.alloc_barrier` at which other blocks of the cluster may arrive: `T.mbarrier_arrive(bar, cta_id)`, `T.copy_cluster`."""


@word
def copy_cluster(
    src: Any, dst: Any, *, dst_block: Any = None, cluster_mask: Any = None, remote_barrier: Any = None, eviction_policy: Any = None,
    coalesced_width: Any = None, annotations: Any = None, loop_layout: Any = None,
) -> None:  # fmt: skip
    """Copy between blocks of a cluster.

    `dst_block`: a shared tile into the memory of that block. `remote_barrier` there takes one arrival when all has come; without one the blocks have
    to meet (`T.cluster_sync`) before somebody reads it.
    `cluster_mask`: from global memory into the same tile of each block whose bit is set; the lowest of them says from where, the others of the
    cluster copy for themselves. It is complete when it returns, and every block of the cluster has to come to it.
    """
