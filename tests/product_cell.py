"""A matrix product with two tunables, as the cells of a notebook."""

SETUP = """\
%load_ext tileworkbench
import numpy as np, tileworkbench, tileworkbench.language as T
A, B = np.random.rand(256, 256).astype("f4"), np.random.rand(256, 256).astype("f4")
"""
KERNEL = """\
@tileworkbench.jit
def matmul(A, B, block_M=64, block_N=64):
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), "float32")
    B: T.Tensor((K, N), "float32")
    C = T.empty((M, N), "float32")
    with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M)) as (bx, by):
        a = T.alloc_shared((block_M, 64), "float32")
        b = T.alloc_shared((64, block_N), "float32")
        acc = T.alloc_fragment((block_M, block_N), "float32")
        T.clear(acc)
        for ko in T.Pipelined(T.ceildiv(K, 64), num_stages=2):
            T.copy(A[by * block_M, ko * 64], a)
            T.copy(B[ko * 64, bx * block_N], b)
            T.gemm(a, b, acc)
        T.copy(acc, C[by * block_M, bx * block_N])
    return C
C = matmul(A, B)
"""
