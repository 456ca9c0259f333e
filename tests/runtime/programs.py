"""Kernels that several tests call."""

from __future__ import annotations

from typing import Any

import tileworkbench
import tileworkbench.language as T


def matmul_program(M: Any, N: Any, K: Any, dtype: str = "float32", block: int = 16) -> Any:
    """C = A @ B in float32, sizes may be symbolic."""

    @T.prim_func
    def matmul(A: T.Tensor((M, K), dtype), B: T.Tensor((K, N), dtype), C: T.Tensor((M, N), dtype)):
        with T.Kernel(T.ceildiv(N, block), T.ceildiv(M, block), threads=32) as (bx, by):
            A_s = T.alloc_shared((block, block), dtype)
            B_s = T.alloc_shared((block, block), dtype)
            C_l = T.alloc_fragment((block, block), "float32")
            T.clear(C_l)
            for k in T.Pipelined(T.ceildiv(K, block), num_stages=2):
                T.copy(A[by * block, k * block], A_s)
                T.copy(B[k * block, bx * block], B_s)
                T.gemm(A_s, B_s, C_l)
            T.copy(C_l, C[by * block, bx * block])

    return matmul


def scale_program(N: Any, dtype: str = "float32") -> Any:
    """B = A * factor, with a run-time scalar."""

    @T.prim_func
    def scale(A: T.Tensor((N,), dtype), factor: T.float32, B: T.Tensor((N,), dtype)):
        with T.Kernel(T.ceildiv(N, 32), threads=32) as bx:
            for i in T.Parallel(32):
                B[bx * 32 + i] = A[bx * 32 + i] * factor

    return scale


def copy_program(shape: tuple[Any, ...], dtype: str) -> Any:
    """B = A, for a static shape of one or two dims."""
    rows, cols = shape if len(shape) == 2 else (1, shape[0])

    @T.prim_func
    def copy(A: T.Tensor((rows, cols), dtype), B: T.Tensor((rows, cols), dtype)):
        with T.Kernel(1, threads=32):
            for i, j in T.Parallel(rows, cols):
                B[i, j] = A[i, j]

    return copy


@tileworkbench.jit
def add(A, B, block: int = 32):
    N = T.const("N")
    A: T.Tensor((N,), T.float32)
    B: T.Tensor((N,), T.float32)
    C = T.empty((N,), T.float32)
    with T.Kernel(T.ceildiv(N, block), threads=32) as bx:
        for i in T.Parallel(block):
            C[bx * block + i] = A[bx * block + i] + B[bx * block + i]
    return C
