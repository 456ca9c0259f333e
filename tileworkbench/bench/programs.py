"""The tile programs that the benchmarks compile: text, so that each run can be a new edit of a cell.

`SALT` is replaced by a number that makes the program new to every cache without changing its work.
"""

from __future__ import annotations

HEAD = """
import numpy as np
import tileworkbench
import tileworkbench.language as T
"""

ELEMENTWISE = """
@tileworkbench.jit
def add(A, B):
    N = T.const("N")
    A: T.Tensor((N,), T.float32)
    B: T.Tensor((N,), T.float32)
    C = T.empty((N,), T.float32)
    with T.Kernel(T.ceildiv(N, 1024), threads=128) as bx:
        for i in T.Parallel(1024):
            C[bx * 1024 + i] = A[bx * 1024 + i] + B[bx * 1024 + i] * T.float32(1 + SALT * 1e-3)
    return C

x = np.ones(4096, np.float32)
arguments = (x, x)
kernel = add
"""

GEMM = """
@tileworkbench.jit(out_idx=-1)
def matmul(M, N, K, block):
    @T.prim_func
    def gemm(A: T.Tensor((M, K), T.float32), B: T.Tensor((K, N), T.float32), C: T.Tensor((M, N), T.float32)):
        with T.Kernel(T.ceildiv(N, block), T.ceildiv(M, block), threads=128) as (bx, by):
            A_s = T.alloc_shared((block, 32), T.float32)
            B_s = T.alloc_shared((32, block), T.float32)
            C_l = T.alloc_fragment((block, block), T.float32)
            T.clear(C_l)
            for k in T.Pipelined(T.ceildiv(K, 32), num_stages=2):
                T.copy(A[by * block, k * 32], A_s)
                T.copy(B[k * 32, bx * block], B_s)
                T.gemm(A_s, B_s, C_l)
            for i, j in T.Parallel(block, block):
                C_l[i, j] = T.max(C_l[i, j], T.float32(SALT * 1e-3))
            T.copy(C_l, C[by * block, bx * block])
    return gemm

x = np.ones((128, 128), np.float32)
arguments = (x, x)
kernel = lambda *arrays: matmul(128, 128, 128, 64)(*arrays)
"""

ATTENTION = """
@tileworkbench.jit(out_idx=-1)
def attention(S, D, block):
    scale = D**-0.5 * 1.44269504 * (1 + SALT * 1e-3)

    @T.prim_func
    def flash(Q: T.Tensor((S, D), T.float32), K: T.Tensor((S, D), T.float32), V: T.Tensor((S, D), T.float32), O: T.Tensor((S, D), T.float32)):
        with T.Kernel(T.ceildiv(S, block), threads=128) as bx:
            Q_s = T.alloc_shared((block, D), T.float32)
            K_s = T.alloc_shared((block, D), T.float32)
            V_s = T.alloc_shared((block, D), T.float32)
            scores = T.alloc_fragment((block, block), T.float32)
            out = T.alloc_fragment((block, D), T.float32)
            top = T.alloc_fragment((block,), T.float32)
            old = T.alloc_fragment((block,), T.float32)
            part = T.alloc_fragment((block,), T.float32)
            total = T.alloc_fragment((block,), T.float32)
            T.copy(Q[bx * block, 0], Q_s)
            T.clear(out)
            T.clear(total)
            T.fill(top, -T.infinity(T.float32))
            for k in T.Pipelined(bx + 1, num_stages=1):
                T.copy(K[k * block, 0], K_s)
                for i, j in T.Parallel(block, block):
                    scores[i, j] = T.if_then_else(bx * block + i >= k * block + j, 0, -T.infinity(T.float32))
                T.gemm(Q_s, K_s, scores, transpose_B=True)
                T.copy(top, old)
                T.reduce_max(scores, top, dim=1, clear=False)
                for i, j in T.Parallel(block, block):
                    scores[i, j] = T.exp2((scores[i, j] - top[i]) * scale)
                T.reduce_sum(scores, part, dim=1)
                for i in T.Parallel(block):
                    old[i] = T.exp2((old[i] - top[i]) * scale)
                    total[i] = total[i] * old[i] + part[i]
                for i, j in T.Parallel(block, D):
                    out[i, j] *= old[i]
                T.copy(V[k * block, 0], V_s)
                T.gemm(scores, V_s, out)
            for i, j in T.Parallel(block, D):
                out[i, j] /= total[i]
            T.copy(out, O[bx * block, 0])
    return flash

x = np.ones((128, 64), np.float32)
arguments = (x, x, x)
kernel = lambda *arrays: attention(128, 64, 64)(*arrays)
"""

NOTHING = """
@tileworkbench.jit(num_threads=1)
def touch(A, B, C):
    A: T.Tensor((64, 64), T.float32)
    B: T.Tensor((64, 64), T.float32)
    C: T.Tensor((64, 64), T.float32)
    with T.Kernel(1, threads=1) as bx:
        C[0, 0] = A[0, 0] + B[0, 0]

a, b, c = (np.ones((64, 64), np.float32) for _ in range(3))
"""

PROGRAMS = {"elementwise": ELEMENTWISE, "gemm": GEMM, "attention": ATTENTION}
