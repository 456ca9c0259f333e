"""Tile programs whose whole C text is kept under tests/golden."""

from __future__ import annotations

import tileworkbench.language as T
from tileworkbench.ir.stmt import Kernel


def gemm_relu() -> Kernel:
    """Divisible sizes: no test anywhere."""

    @T.prim_func
    def gemm_relu(A: T.Tensor((256, 128), "float16"), B: T.Tensor((128, 256), "float16"), C: T.Tensor((256, 256), "float16")):
        with T.Kernel(T.ceildiv(256, 64), T.ceildiv(256, 64), threads=128) as (bx, by):
            A_shared = T.alloc_shared((64, 32), "float16")
            B_shared = T.alloc_shared((32, 64), "float16")
            C_local = T.alloc_fragment((64, 64), "float32")
            T.clear(C_local)
            for ko in T.Pipelined(T.ceildiv(128, 32), num_stages=2):
                T.copy(A[by * 64, ko * 32], A_shared)
                T.copy(B[ko * 32, bx * 64], B_shared)
                T.gemm(A_shared, B_shared, C_local)
            for i, j in T.Parallel(64, 64):
                C_local[i, j] = T.max(C_local[i, j], 0.0)
            T.copy(C_local, C[by * 64, bx * 64])

    return gemm_relu.kernel


def row_softmax() -> Kernel:
    """A run-time number of rows and a row that is narrower than its tile."""
    M = T.dynamic("m")

    @T.prim_func
    def row_softmax(X: T.Tensor((M, 100), "float32"), Y: T.Tensor((M, 100), "float32")):
        with T.Kernel(T.ceildiv(M, 8), threads=128) as bx:
            x = T.alloc_fragment((8, 128), "float32")
            top = T.alloc_fragment((8,), "float32")
            total = T.alloc_fragment((8,), "float32")
            T.annotate_safe_value({X: -T.infinity("float32")})
            T.copy(X[bx * 8, 0], x)
            T.reduce_max(x, top, dim=1)
            for i, j in T.Parallel(8, 128):
                x[i, j] = T.exp(x[i, j] - top[i])
            T.reduce_sum(x, total, dim=1)
            for i, j in T.Parallel(8, 100):
                Y[bx * 8 + i, j] = x[i, j] / total[i]

    return row_softmax.kernel


def causal_scores() -> Kernel:
    """A mask with block offsets, and a loop whose end depends on the block."""

    @T.prim_func
    def causal_scores(Q: T.Tensor((256, 64), "float32"), K: T.Tensor((256, 64), "float32"), S: T.Tensor((256, 256), "float32")):
        with T.Kernel(4, threads=128) as bx:
            q = T.alloc_shared((64, 64), "float32")
            k = T.alloc_shared((64, 64), "float32")
            s = T.alloc_fragment((64, 64), "float32")
            T.copy(Q[bx * 64, 0], q)
            for ko in T.Pipelined(bx + 1, num_stages=1):
                T.copy(K[ko * 64, 0], k)
                for i, j in T.Parallel(64, 64):
                    s[i, j] = T.if_then_else(bx * 64 + i >= ko * 64 + j, 0, -T.infinity("float32"))
                T.gemm(q, k, s, transpose_B=True)
                T.copy(s, S[bx * 64, ko * 64])

    return causal_scores.kernel


def threads_reduce() -> Kernel:
    """Thread indices, a shuffle, a barrier and a divergent branch."""

    @T.prim_func
    def threads_reduce(A: T.Tensor((512,), "float32"), B: T.Tensor((4,), "float32")):
        with T.Kernel(4, threads=128) as bx:
            tx = T.get_thread_binding(0)
            warp = T.alloc_shared((4,), "float32")
            v = T.alloc_var("float32")
            v = A[bx * 128 + tx]
            for r in T.unroll(5):
                v = v + T.shfl_down(v, 16 >> r)
            if tx % 32 == 0:
                warp[tx // 32] = v
            T.sync_threads()
            if tx == 0:
                B[bx] = warp[0] + warp[1] + warp[2] + warp[3]

    return threads_reduce.kernel


def histogram() -> Kernel:
    """Atomics on global memory, an assertion, int4 weights."""

    @T.prim_func
    def histogram(D: T.Tensor((64, 32), "int32"), W: T.Tensor((64, 32), "int4"), bins: T.Tensor((16,), "int32")):
        with T.Kernel(64, threads=32) as bx:
            for i in T.Parallel(32):
                T.device_assert(D[bx, i] >= 0, "negative")
                T.atomic_add(bins[D[bx, i] % 16], T.cast(W[bx, i], "int32"))

    return histogram.kernel


PROGRAMS = (gemm_relu, row_softmax, causal_scores, threads_reduce, histogram)
