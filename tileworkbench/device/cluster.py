"""Clusters: blocks that run together and reach each other's shared memory (sm_90)."""

from __future__ import annotations

from .function import DeviceFunction, pair, same


def cluster_functions() -> tuple[DeviceFunction, ...]:
    """Rank and size, the barrier of all threads of a cluster, pointers into another block's shared memory."""
    return (
        pair(
            "uint32_t twb_cluster_rank()",
            'uint32_t r; asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(r)); return r;',
            "return twb_me->block->rank;",
            "The block's number in its cluster.",
            least_arch=90,
        ),
        pair(
            "uint32_t twb_cluster_size()",
            'uint32_t r; asm volatile("mov.u32 %0, %%cluster_nctarank;" : "=r"(r)); return r;',
            "return twb_me->block->ranks;",
            "Blocks of a cluster.",
            least_arch=90,
        ),
        pair(
            "void twb_cluster_arrive()",
            'asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");',
            "twbe_cluster_arrive();",
            "Come to the cluster's barrier and go on.",
            least_arch=90,
        ),
        pair(
            "void twb_cluster_wait()",
            'asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");',
            "twbe_cluster_wait();",
            "Wait until all threads of the cluster have come.",
            least_arch=90,
        ),
        same(
            "void twb_cluster_sync()",
            "twb_cluster_arrive(); twb_cluster_wait();",
            "Wait for all threads of the cluster.",
            "twb_cluster_arrive",
            "twb_cluster_wait",
            least_arch=90,
        ),
        pair(
            "template <class P> P twb_map_shared(P p, uint32_t rank)",
            'P r; asm("mapa.u64 %0, %1, %2;" : "=l"(r) : "l"(p), "r"(rank)); return r;',
            "p.rank = rank; return p;",
            "The same place in the shared memory of block `rank` of the cluster, for plain reads and writes.",
            least_arch=90,
        ),
    )
