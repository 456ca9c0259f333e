"""Programs that order asynchronous work themselves on sm_90: the shapes of TileLang's warp specialised examples, small."""

from __future__ import annotations

from typing import Any

import tileworkbench.language as T
from tileworkbench.frontend.prim_func import PrimFunc

F16, F32 = "float16", "float32"


def barrier_pipe(m: int, n: int, k: int, tile: int = 64, stages: int = 2) -> PrimFunc:
    """A producer keeps `stages` versions of the tiles full; barriers in one list."""

    @T.prim_func
    def barrier_pipe(A: T.Tensor((m, k), F16), B: T.Tensor((k, n), F16), C: T.Tensor((m, n), F16)):  # type: ignore[valid-type]
        with T.Kernel(T.ceildiv(n, tile), T.ceildiv(m, tile), threads=256) as (bx, by):
            a, b = T.alloc_shared((stages, tile, tile), F16), T.alloc_shared((stages, tile, tile), F16)
            acc = T.alloc_fragment((tile, tile), F32)
            bars = T.alloc_barrier([128, 128] * stages)
            with T.ws(0):
                T.clear(acc)
            for ko in range(T.ceildiv(k, tile)):
                with T.ws(1):
                    T.mbarrier_wait_parity(mbarrier=bars[ko % stages + stages], parity=((ko // stages) % 2) ^ 1)
                    T.tma_copy(A[by * tile : (by + 1) * tile, ko * tile : (ko + 1) * tile], a[ko % stages, :, :], barrier=bars[ko % stages])
                    T.tma_copy(B[ko * tile : (ko + 1) * tile, bx * tile : (bx + 1) * tile], b[ko % stages, :, :], barrier=bars[ko % stages])
                    T.mbarrier_arrive(mbarrier=bars[ko % stages])
                with T.ws(0):
                    T.mbarrier_wait_parity(mbarrier=bars[ko % stages], parity=(ko // stages) % 2)
                    T.gemm(a[ko % stages, :, :], b[ko % stages, :, :], acc)
                    T.mbarrier_arrive(mbarrier=bars[ko % stages + stages])
            with T.ws(0):
                T.copy(acc, C[by * tile, bx * tile])

    return barrier_pipe


def one_version(m: int, n: int, k: int, num_stages: int, copier: int, tile: int = 64, missing: str = "") -> PrimFunc:
    """Group `copier` copies, the other multiplies; one version of each tile. `missing`: what is left out, to see it found."""
    other = 1 - copier

    @T.prim_func
    def one_version(A: T.Tensor((m, k), F16), B: T.Tensor((k, n), F16), C: T.Tensor((m, n), F16)):  # type: ignore[valid-type]
        with T.Kernel(T.ceildiv(n, tile), T.ceildiv(m, tile), threads=256) as (bx, by):
            a, b = T.alloc_shared((tile, tile), F16), T.alloc_shared((tile, tile), F16)
            acc = T.alloc_fragment((tile, tile), F32)
            ready, done = T.alloc_barrier(arrive_count=128), T.alloc_barrier(arrive_count=128)
            with T.ws(other):
                T.clear(acc)
            for ko in T.Pipelined(T.ceildiv(k, tile), num_stages=num_stages):
                with T.ws(copier):
                    T.barrier_wait(done, (ko + 1) % 2)
                    T.tma_copy(A[by * tile, ko * tile], a, barrier=ready)
                    T.tma_copy(B[ko * tile, bx * tile], b, barrier=ready)
                    T.barrier_arrive(ready)
                with T.ws(other):
                    if missing != "wait":
                        T.barrier_wait(ready, ko % 2)
                    T.gemm(a, b, acc)
                    if missing != "arrival":
                        T.barrier_arrive(done)
            with T.ws(other):
                T.copy(acc, C[by * tile, bx * tile])

    return one_version


def two_halves(m: int, n: int, k: int, tile: int = 64) -> PrimFunc:
    """The block copies A, each group its half of B; nobody writes a barrier."""

    @T.prim_func
    def two_halves(A: T.Tensor((m, k), F16), B: T.Tensor((k, n), F16), C: T.Tensor((m, n), F16)):  # type: ignore[valid-type]
        with T.Kernel(T.ceildiv(n, 2 * tile), T.ceildiv(m, tile), threads=256) as (bx, by):
            a = T.alloc_shared((tile, tile), F16)
            b0, b1 = T.alloc_shared((tile, tile), F16), T.alloc_shared((tile, tile), F16)
            acc0, acc1 = T.alloc_fragment((tile, tile), F32), T.alloc_fragment((tile, tile), F32)
            with T.ws(1):
                T.clear(acc1)
            with T.ws(0):
                T.clear(acc0)
            for ko in T.Pipelined(T.ceildiv(k, tile), num_stages=0):
                T.copy(A[by * tile, ko * tile], a)
                with T.ws(1):
                    T.copy(B[ko * tile, bx * 2 * tile], b1)
                    T.gemm(a, b1, acc1)
                with T.ws(0):
                    T.copy(B[ko * tile, bx * 2 * tile + tile], b0)
                    T.gemm(a, b0, acc0)
            with T.ws(1):
                T.copy(acc1, C[by * tile, bx * 2 * tile])
            with T.ws(0):
                T.copy(acc0, C[by * tile, bx * 2 * tile + tile])

    return two_halves


def started_products(k: int, stages: int = 3) -> PrimFunc:
    """Two groups multiply together, each product running into the next turn; the third copies; the result goes back by the copy engine."""
    tile, deep = 128, 64

    @T.prim_func
    def started_products(A: T.Tensor((tile, k), F16), B: T.Tensor((tile, k), F16), C: T.Tensor((tile, tile), F16)):  # type: ignore[valid-type]
        with T.Kernel(1, threads=384):
            a, b = T.alloc_shared((stages, tile, deep), F16), T.alloc_shared((stages, tile, deep), F16)
            out = T.alloc_shared((tile, tile), F16)
            acc = T.alloc_fragment((tile, tile), F32)
            full, empty = T.alloc_barrier([128] * stages), T.alloc_barrier([256] * stages)
            with T.ws(2):
                T.dec_max_nreg(40)
                for ko in range(k // deep):
                    T.barrier_wait(empty[ko % stages], ((ko // stages) % 2) ^ 1)
                    T.tma_copy(A[0, ko * deep], a[ko % stages, :, :], barrier=full[ko % stages])
                    T.tma_copy(B[0, ko * deep], b[ko % stages, :, :], barrier=full[ko % stages])
                    T.barrier_arrive(full[ko % stages])
            with T.ws(0, 1):
                T.inc_max_nreg(232)
                for ko in range(k // deep):
                    T.barrier_wait(full[ko % stages], (ko // stages) % 2)
                    T.wgmma_gemm(a[ko % stages, :, :], b[ko % stages, :, :], acc, transpose_B=True, clear_accum=ko == 0)
                    T.wait_wgmma(1)
                    if ko > 0:
                        T.barrier_arrive(empty[(ko - 1) % stages])
                T.wait_wgmma(0)
                T.copy(acc, out)
                T.tma_copy(out, C)
                T.tma_store_wait()

    return started_products


def handed_over(rounds: int) -> PrimFunc:
    """One group writes a factor with its threads, the other multiplies it; hardware barriers and a barrier of arrivals between them."""

    @T.prim_func
    def handed_over(A: T.Tensor((rounds, 64, 64), F16), B: T.Tensor((64, 64), F16), C: T.Tensor((64, 64), F32)):  # type: ignore[valid-type]
        with T.Kernel(1, threads=256):
            a, b = T.alloc_shared((64, 64), F16), T.alloc_shared((64, 64), F16)
            acc = T.alloc_fragment((64, 64), F32)
            written = T.alloc_barrier(128)
            T.copy(B, b)
            with T.ws(1):
                for r in range(rounds):
                    if r > 0:
                        T.named_barrier_sync(1, 256)
                    for i, j in T.Parallel(64, 64):
                        a[i, j] = A[r, i, j] * T.cast(2, F16)
                    T.fence_proxy_async()
                    T.barrier_arrive(written)
            with T.ws(0):
                T.clear(acc)
                for r in range(rounds):
                    T.barrier_wait(written, r % 2)
                    T.wgmma_gemm(a, b, acc)
                    T.wait_wgmma(0)
                    if r < rounds - 1:
                        T.named_barrier_sync(1, 256)
                T.copy(acc, C)

    return handed_over


def attention(rows: int, length: int, dim: int = 64) -> PrimFunc:
    """Two groups of 64 rows each share the keys and values that a third one loads."""
    step, scale = 64, 1.4426950408889634 / dim**0.5

    @T.macro
    def consume(q: Any, ks: Any, vs: Any, full: Any, empty: Any, Out: Any, first: Any) -> None:
        s, o = T.alloc_fragment((64, step), F32), T.alloc_fragment((64, dim), F32)
        p = T.alloc_fragment((64, step), F16)
        top, before, rate, total, part = (T.alloc_fragment((64,), F32) for _ in range(5))
        T.clear(o)
        T.clear(total)
        T.fill(top, -T.infinity(F32))
        for t in range(length // step):
            T.barrier_wait(full[t % 2], (t // 2) % 2)
            T.wgmma_gemm(q, ks[t % 2, :, :], s, transpose_B=True, clear_accum=True)
            T.wait_wgmma(0)
            T.copy(top, before)
            T.reduce_max(s, top, dim=1, clear=False)
            for i in T.Parallel(64):
                rate[i] = T.exp2((before[i] - top[i]) * scale)
            for i, j in T.Parallel(64, step):
                s[i, j] = T.exp2((s[i, j] - top[i]) * scale)
            T.reduce_sum(s, part, dim=1)
            for i in T.Parallel(64):
                total[i] = total[i] * rate[i] + part[i]
            T.copy(s, p)
            for i, j in T.Parallel(64, dim):
                o[i, j] *= rate[i]
            T.wgmma_gemm(p, vs[t % 2, :, :], o)
            T.wait_wgmma(0)
            T.barrier_arrive(empty[t % 2])
        for i, j in T.Parallel(64, dim):
            o[i, j] /= total[i]
        T.copy(o, Out[first, 0])

    @T.prim_func
    def attention(Q: T.Tensor((rows, dim), F16), K: T.Tensor((length, dim), F16), V: T.Tensor((length, dim), F16), O: T.Tensor((rows, dim), F16)):  # type: ignore[valid-type]
        with T.Kernel(rows // 128, threads=384) as bx:
            q0, q1 = T.alloc_shared((64, dim), F16), T.alloc_shared((64, dim), F16)
            ks, vs = T.alloc_shared((2, step, dim), F16), T.alloc_shared((2, step, dim), F16)
            full, empty = T.alloc_barrier([128, 128]), T.alloc_barrier([256, 256])
            T.copy(Q[bx * 128, 0], q0)
            T.copy(Q[bx * 128 + 64, 0], q1)
            with T.ws(2):
                for t in range(length // step):
                    T.barrier_wait(empty[t % 2], ((t // 2) % 2) ^ 1)
                    T.tma_copy(K[t * step, 0], ks[t % 2, :, :], barrier=full[t % 2])
                    T.tma_copy(V[t * step, 0], vs[t % 2, :, :], barrier=full[t % 2])
                    T.barrier_arrive(full[t % 2])
            with T.ws(0):
                consume(q0, ks, vs, full, empty, O, bx * 128)
            with T.ws(1):
                consume(q1, ks, vs, full, empty, O, bx * 128 + 64)

    return attention


def without_roles(m: int, k: int) -> PrimFunc:
    """The whole block starts copies and waits for them itself, in a loop over one version."""

    @T.prim_func
    def without_roles(A: T.Tensor((m, k), F16), B: T.Tensor((k, 64), F16), C: T.Tensor((m, 64), F32)):  # type: ignore[valid-type]
        with T.Kernel(T.ceildiv(m, 64), threads=128) as bx:
            a, b = T.alloc_shared((64, 64), F16), T.alloc_shared((64, 64), F16)
            acc = T.alloc_fragment((64, 64), F32)
            ready = T.alloc_barrier(128)
            T.clear(acc)
            for ko in T.serial(T.ceildiv(k, 64)):
                T.tma_copy(A[bx * 64, ko * 64], a, barrier=ready)
                T.tma_copy(B[ko * 64, 0], b, barrier=ready)
                T.barrier_arrive(ready)
                T.barrier_wait(ready, ko % 2)
                T.gemm(a, b, acc)
            T.copy(acc, C[bx * 64, 0])

    return without_roles


def by_thread_index(rounds: int) -> PrimFunc:
    """Three roles that conditions on the thread's index choose: one copies, two sum what it brings, each its half."""

    @T.prim_func
    def by_thread_index(A: T.Tensor((rounds, 64, 64), F16), C: T.Tensor((64, 64), F32)):  # type: ignore[valid-type]
        with T.Kernel(1, threads=384):
            a = T.alloc_shared((64, 64), F16)
            left, right = T.alloc_fragment((64, 32), F32), T.alloc_fragment((64, 32), F32)
            ready, done = T.alloc_barrier(128), T.alloc_barrier(256)
            tx = T.get_thread_binding()
            if tx < 128:
                T.clear(left)
                for r in range(rounds):
                    T.barrier_wait(ready, r % 2)
                    for i, j in T.Parallel(64, 32):
                        left[i, j] += a[i, j]
                    T.barrier_arrive(done)
                T.copy(left, C[0, 0])
            elif tx >= 128 and tx < 256:
                T.clear(right)
                for r in range(rounds):
                    T.barrier_wait(ready, r % 2)
                    for i, j in T.Parallel(64, 32):
                        right[i, j] += a[i, j + 32]
                    T.barrier_arrive(done)
                T.copy(right, C[0, 32])
            else:
                for r in range(rounds):
                    T.barrier_wait(done, (r + 1) % 2)
                    T.tma_copy(A[r, 0, 0], a, barrier=ready)
                    T.barrier_arrive(ready)

    return by_thread_index


def running_on(k: int, by_block: bool) -> PrimFunc:
    """One group copies for itself while its last product runs: into a tile that the product before has read, with all of its warps."""

    @T.prim_func
    def running_on(A: T.Tensor((64, k), F16), B: T.Tensor((k, 64), F16), C: T.Tensor((64, 64), F32)):  # type: ignore[valid-type]
        with T.Kernel(1, threads=256):
            a, b = T.alloc_shared((2, 64, 64), F16), T.alloc_shared((2, 64, 64), F16)
            acc = T.alloc_fragment((64, 64), F32)
            ready = T.alloc_barrier([128, 128])
            with T.ws(1):
                T.clear(acc)
            if by_block:
                for ko in T.serial(k // 64):
                    with T.ws(1):
                        T.tma_copy(A[0, ko * 64], a[ko % 2, :, :], barrier=ready[ko % 2])
                        T.tma_copy(B[ko * 64, 0], b[ko % 2, :, :], barrier=ready[ko % 2])
                        T.barrier_arrive(ready[ko % 2])
                        T.barrier_wait(ready[ko % 2], (ko // 2) % 2)
                        T.wgmma_gemm(a[ko % 2, :, :], b[ko % 2, :, :], acc)
                        T.wait_wgmma(1)
            else:
                with T.ws(1):
                    for ko in T.serial(k // 64):
                        T.tma_copy(A[0, ko * 64], a[ko % 2, :, :], barrier=ready[ko % 2])
                        T.tma_copy(B[ko * 64, 0], b[ko % 2, :, :], barrier=ready[ko % 2])
                        T.barrier_arrive(ready[ko % 2])
                        T.barrier_wait(ready[ko % 2], (ko // 2) % 2)
                        T.wgmma_gemm(a[ko % 2, :, :], b[ko % 2, :, :], acc)
                        T.wait_wgmma(1)
            with T.ws(1):
                T.wait_wgmma(0)
                T.copy(acc, C)

    return running_on


def unrolled() -> PrimFunc:
    """Parts of a tile with a barrier each, in unrolled loops."""

    @T.prim_func
    def unrolled(A: T.Tensor((64, 256), F16), B: T.Tensor((64, 256), F16), C: T.Tensor((64, 64), F32)):  # type: ignore[valid-type]
        with T.Kernel(1, threads=256):
            a, b = T.alloc_shared((64, 256), F16), T.alloc_shared((64, 256), F16)
            acc = T.alloc_fragment((64, 64), F32)
            ready = T.alloc_barrier([128] * 4)
            with T.ws(1):
                for j in T.unroll(4):
                    T.tma_copy(A[:, j * 64 : (j + 1) * 64], a[:, j * 64 : (j + 1) * 64], barrier=ready[j])
                    T.tma_copy(B[:, j * 64 : (j + 1) * 64], b[:, j * 64 : (j + 1) * 64], barrier=ready[j])
                    T.barrier_arrive(ready[j])
            with T.ws(0):
                for j in T.unroll(4):
                    T.barrier_wait(ready[j], 0)
                    T.wgmma_gemm(a[:, j * 64 : (j + 1) * 64], b[:, j * 64 : (j + 1) * 64], acc, transpose_B=True, clear_accum=j == 0)
                T.wait_wgmma(0)
                T.copy(acc, C)

    return unrolled


def stored_in_groups(parts: int) -> PrimFunc:
    """Parts of a tile go back in groups that the author closes; each part is written again when its group has been read."""

    @T.prim_func
    def stored_in_groups(A: T.Tensor((4 * parts, 32, 64), F32), C: T.Tensor((4 * parts, 32, 64), F32)):  # type: ignore[valid-type]
        with T.Kernel(1, threads=128):
            tile = T.alloc_shared((parts, 32, 64), F32)
            for turn in range(4):
                T.tma_store_wait(0)
                for i, r, c in T.Parallel(parts, 32, 64):
                    tile[i, r, c] = A[turn * parts + i, r, c] * 2
                for i in T.unroll(parts):
                    T.tma_copy(tile[i, :, :], C[turn * parts + i, :, :])
                T.tma_store_arrive()
            T.tma_store_wait(0, read=False)

    return stored_in_groups


def told_when_copied(rounds: int, width: int, squares: bool) -> PrimFunc:
    """One group starts copies and goes on; a barrier tells the other when they have come. `squares`: it multiplies the tile by itself."""

    @T.prim_func
    def told_when_copied(A: T.Tensor((rounds, 64, width), F16), C: T.Tensor((64, 64), F32)):  # type: ignore[valid-type]
        with T.Kernel(1, threads=256):
            tile = T.alloc_shared((2, 64, 64), F16)
            acc, sums = T.alloc_fragment((64, 64), F32), T.alloc_fragment((64, 64), F32)
            ready, free = T.alloc_barrier([128, 128]), T.alloc_barrier([128, 128])
            with T.ws(1):
                for i in range(rounds):
                    T.barrier_wait(free[i % 2], ((i // 2) % 2) ^ 1)
                    T.copy(A[i, 0:64, 0:64], tile[i % 2, :, :])
                    T.cp_async_barrier_noinc(ready[i % 2])
            with T.ws(0):
                T.clear(acc)
                for i in range(rounds):
                    T.barrier_wait(ready[i % 2], (i // 2) % 2)
                    if squares:
                        T.wgmma_gemm(tile[i % 2, :, :], tile[i % 2, :, :], sums, clear_accum=True)
                        T.wait_wgmma(0)
                    for r, c in T.Parallel(64, 64):
                        acc[r, c] += sums[r, c] if squares else tile[i % 2, r, c]
                    T.barrier_arrive(free[i % 2])
                T.copy(acc, C)

    return told_when_copied
