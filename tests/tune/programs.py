"""Kernels with a tunable each that can go wrong in every way. `mode` is a build-time argument, and so a tunable like a block size."""

from __future__ import annotations

from typing import Any

import tileworkbench
import tileworkbench.language as T
from tileworkbench.runtime.targets import get_target

TARGET = "interpret" if get_target("c").usable() else "c"

DIE = """
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
static int die(int number) { raise(number); return 0; }
static int complain(void) { fputs("the heap is gone\\n", stderr); abort(); }
static int leave(int code) { _Exit(code); return 0; }
"""


@tileworkbench.jit(target=TARGET)
def double(A, mode: str = "right", block: int = 8):
    """B = 2 A, or what `mode` says."""
    N = T.const("N")
    A: T.Tensor((N,), T.float32)
    B = T.empty((N,), T.float32)
    if mode == "refused":
        raise ValueError("this mode is refused")
    with T.Kernel(T.ceildiv(N, block), threads=1) as bx:
        if mode == "hang":
            if bx == 0:  # one thread is enough: the others sleep until it ends
                while A[0] > -1.0:
                    B[0] = A[0]
        for i in T.Parallel(block):
            B[bx * block + i] = A[bx * block + i] * (3.0 if mode == "wrong" else 2.0)
        if mode == "assert":
            T.device_assert(A[0] > 1e6, "the first element is large")
    return B


@tileworkbench.jit(target="c")
def dying(A, mode: str = "right"):
    """B = A, unless its process dies on the way (signal 11, signal 6, or an exit)."""
    N = T.const("N")
    A: T.Tensor((N,), T.float32)
    B = T.empty((N,), T.float32)
    with T.Kernel(1, threads=1):
        T.import_source(DIE)
        if mode == "signal":
            T.evaluate(T.call_extern("int32", "die", 11))
        if mode == "abort":
            T.evaluate(T.call_extern("int32", "complain"))
        if mode == "exit":
            T.evaluate(T.call_extern("int32", "leave", 3))
        for i in T.Parallel(N):
            B[i] = A[i]
    return B


@tileworkbench.jit(target=TARGET)
def increment(A, block: int = 8, unused: int = 0):
    """A += 1, in place; `unused` changes nothing."""
    N = T.const("N")
    A: T.Tensor((N,), T.float32)
    with T.Kernel(T.ceildiv(N, block), threads=1) as bx:
        for i in T.Parallel(block):
            A[bx * block + i] += 1.0


@tileworkbench.jit(out_idx=-1, target=TARGET)
def matmul(M: Any, N: Any, K: Any, block: int = 16, relu: bool = False):
    """A lazy kernel: C = A @ B."""

    @T.prim_func
    def main(A: T.Tensor((M, K), "float32"), B: T.Tensor((K, N), "float32"), C: T.Tensor((M, N), "float32")):
        with T.Kernel(T.ceildiv(N, block), T.ceildiv(M, block), threads=32) as (bx, by):
            A_s = T.alloc_shared((block, block), "float32")
            B_s = T.alloc_shared((block, block), "float32")
            C_l = T.alloc_fragment((block, block), "float32")
            T.clear(C_l)
            for k in T.Pipelined(T.ceildiv(K, block), num_stages=2):
                T.copy(A[by * block, k * block], A_s)
                T.copy(B[k * block, bx * block], B_s)
                T.gemm(A_s, B_s, C_l)
            if relu:
                for i, j in T.Parallel(block, block):
                    C_l[i, j] = T.max(C_l[i, j], 0.0)
            T.copy(C_l, C[by * block, bx * block])

    return main
