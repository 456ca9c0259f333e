"""Programs whose blocks work together in clusters on sm_90: copies from block to block, copies to many, barriers that other blocks arrive at."""

from __future__ import annotations

import tileworkbench.language as T
from tileworkbench.frontend.prim_func import PrimFunc

F16, F32, I32 = "float16", "float32", "int32"


def ranks(x: int, y: int, z: int = 1) -> PrimFunc:
    """Each block writes its rank: the first thread, between two meetings of the cluster."""

    @T.prim_func
    def ranks(A: T.Tensor((2, 4, 4), I32)):  # type: ignore[valid-type]
        with T.ClusterKernel(4, 4, 2, threads=64, cluster_dims=(x, y, z)) as (bx, by, bz):
            T.cluster_arrive_relaxed()
            T.cluster_wait()
            if T.get_thread_binding() == 0:
                A[bz, by, bx] = T.block_rank_in_cluster()
            T.cluster_sync()

    return ranks


def handed_on(shape: tuple[int, ...], wide: int, with_barrier: bool = True, meets: bool = True) -> PrimFunc:
    """The first block hands the first columns of a tile of `wide` columns on to the second one; with or without a barrier there."""
    tile = (*shape[:-1], wide)
    part = tuple(slice(0, n) for n in shape)

    @T.prim_func
    def handed_on(A: T.Tensor(shape, F32), B: T.Tensor(shape, F32)):  # type: ignore[valid-type]
        with T.ClusterKernel(2, threads=128, cluster_dims=2) as pid:
            mine, theirs = T.alloc_shared(tile, F32), T.alloc_shared(tile, F32)
            come = T.alloc_cluster_barrier([1])
            T.fill(mine, 0)
            T.fill(theirs, 0)
            if meets:
                T.cluster_sync()
            if pid == 0:
                T.copy(A, mine[part])
                if with_barrier:
                    T.copy_cluster(mine[part], theirs[part], dst_block=1, remote_barrier=come[0])
                else:
                    T.copy_cluster(mine[part], theirs[part], dst_block=pid + 1)
            if not with_barrier:
                T.cluster_sync()
            if pid == 1:
                if with_barrier:
                    T.mbarrier_wait_parity(come[0], 0)
                T.copy(theirs[part], B)

    return handed_on


def counted_there(times: int, arrivals: int = 256) -> PrimFunc:
    """Both blocks count at the barrier of each, and each waits for both."""

    @T.prim_func
    def counted_there(A: T.Tensor((4,), I32)):  # type: ignore[valid-type]
        with T.Kernel(4, threads=128, cluster_dims=(2, 1, 1)) as bx:
            bar = T.alloc_cluster_barrier(arrivals)
            for turn in range(times):
                T.mbarrier_arrive(bar, 0)
                T.mbarrier_arrive(bar, cta_id=1)
                T.mbarrier_wait_parity(bar, turn % 2)
            A[bx] = T.block_rank_in_cluster() + 1

    return counted_there


def to_many(m: int, n: int, mask: int, turns: int = 1) -> PrimFunc:
    """What the first block of the mask reads goes to all of it, `turns` times over into one tile."""
    rows, columns = 16, 64

    @T.prim_func
    def to_many(A: T.Tensor((turns, m, n), F16), B: T.Tensor((turns, m, n), F16)):  # type: ignore[valid-type]
        with T.Kernel(T.ceildiv(n, columns), T.ceildiv(m, rows), threads=128, cluster_dims=(4, 1, 1)) as (bx, by):
            tile = T.alloc_shared((rows, columns), F16)
            for turn in T.serial(turns):
                T.copy_cluster(A[turn, by * rows, bx * columns], tile, cluster_mask=mask)
                T.copy(tile, B[turn, by * rows, bx * columns])

    return to_many


def shared_rows(m: int, n: int, k: int, tile: int = 64, stages: int = 2, releases: int = 2, cluster: int = 2) -> PrimFunc:
    """Two blocks beside each other need the same rows of A, which one of them loads for both. `releases`: how many blocks a consumer tells."""

    @T.prim_func
    def shared_rows(A: T.Tensor((m, k), F16), B: T.Tensor((k, n), F16), C: T.Tensor((m, n), F32)):  # type: ignore[valid-type]
        with T.Kernel(T.ceildiv(n, tile), T.ceildiv(m, tile), threads=256, cluster_dims=cluster) as (bx, by):
            a, b = T.alloc_shared((stages, tile, tile), F16), T.alloc_shared((stages, tile, tile), F16)
            acc = T.alloc_fragment((tile, tile), F32)
            full, empty = T.alloc_barrier([128] * stages), T.alloc_cluster_barrier([256] * stages)
            with T.ws(0):
                T.clear(acc)
            for ko in range(T.ceildiv(k, tile)):
                with T.ws(1):
                    T.mbarrier_wait_parity(empty[ko % stages], ((ko // stages) % 2) ^ 1)
                    T.tma_copy(A[by * tile, ko * tile], a[ko % stages, :, :], barrier=full[ko % stages], cluster_mask=0b11)
                    T.tma_copy(B[ko * tile, bx * tile], b[ko % stages, :, :], barrier=full[ko % stages])
                    T.mbarrier_arrive(full[ko % stages])
                with T.ws(0):
                    T.mbarrier_wait_parity(full[ko % stages], (ko // stages) % 2)
                    T.gemm(a[ko % stages, :, :], b[ko % stages, :, :], acc)
                    for block in T.unroll(releases):
                        T.mbarrier_arrive(empty[ko % stages], block)
            with T.ws(0):
                T.copy(acc, C[by * tile, bx * tile])

    return shared_rows
