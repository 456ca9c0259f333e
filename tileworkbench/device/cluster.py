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
            "twbe_cluster_arrive(1);",
            "Come to the cluster's barrier and go on.",
            least_arch=90,
        ),
        pair(
            "void twb_cluster_arrive_relaxed()",
            'asm volatile("barrier.cluster.arrive.relaxed.aligned;" :::);',
            "twbe_cluster_arrive(0);",
            "Come to the cluster's barrier and go on; what was written before is not shown to the others.",
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
        same(
            "template <class P, class V> void twb_cluster_write(P p, uint32_t rank, V value)",
            "twb_map_shared(p, rank)[0] = value;",
            "Write an element at the same place in the shared memory of block `rank` of the cluster.",
            "twb_map_shared",
            least_arch=90,
        ),
        pair(
            "template <class D, class S> void twb_cluster_push(D to, S from, uint32_t bytes, twb_shared<uint64_t> bar, uint32_t rank)",
            'asm volatile("{\\n.reg .b32 rd, rb;\\nmapa.shared::cluster.u32 rd, %0, %4;\\nmapa.shared::cluster.u32 rb, %3, %4;\\n"\n'
            '"cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [rd], [%1], %2, [rb];\\n}" :: '
            + ", ".join(f'"r"((uint32_t)__cvta_generic_to_shared({p}))' for p in ("to", "from"))
            + ', "r"(bytes), "r"((uint32_t)__cvta_generic_to_shared(bar)), "r"(rank) : "memory");',
            "twbe_push(to.at, to.high, from.at, from.high, bytes, bar.at, rank);",
            "Start to copy `bytes` in a row (all multiples of 16) to the same place in block `rank` of the cluster, whose barrier expects them.",
            least_arch=90,
        ),
    )
