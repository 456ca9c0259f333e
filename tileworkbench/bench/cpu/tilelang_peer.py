"""TileLang on its C target, where it is installed: the programs that this target can run, with the compiler flags that its default lacks.

Measured with 0.1.15: a grid runs serially, products are scalar loops over tiles in local memory, and fragments or bfloat16 are refused.
"""

# mypy: disable-error-code="no-untyped-def, valid-type, attr-defined, no-untyped-call, import-not-found, untyped-decorator, unused-ignore"
# (annotations of a kernel are values of its language, not types; the package is optional)
from __future__ import annotations

import logging
from typing import Any

import numpy as np

from ...base.cpu import host_isa
from .entry import Entry, inputs, one_way, room
from .problems import Problem

TILE = 64
SLICE = 1 << 16


def tilelang_entry(p: Problem) -> Entry | None:
    """GEMM and addition in float32, of sizes that tiles divide; one thread, since it has no more on a CPU."""
    if p.dtype != "float32" or p.threads != 1:
        return None
    if p.kind == "gemm" and not any(n % TILE for n in p.shape):
        shape, make = p.shape[:2], _gemm
    elif p.kind == "add" and p.shape[0] % SLICE == 0:
        shape, make = p.shape, _add
    else:
        return None
    import tilelang
    import torch

    logging.getLogger("tilelang").setLevel(logging.ERROR)
    flags = ["-O3", *host_isa().march]
    kernel = tilelang.compile(make(tilelang.language, p), target="c", execution_backend="cython", compile_flags=flags)
    out = room(shape, np.float32)
    tensors = [torch.from_numpy(a) for a in (*inputs(p), out)]
    return one_way(lambda: kernel(*tensors), out, f"tilelang {tilelang.__version__}", f"{TILE}x{TILE}x{TILE}")


def _gemm(T: Any, p: Problem) -> Any:
    m, n, k = p.shape

    @T.prim_func
    def gemm(A: T.Tensor((m, k), "float32"), B: T.Tensor((k, n), "float32"), C: T.Tensor((m, n), "float32")):
        with T.Kernel(n // TILE, m // TILE) as (bx, by):
            a = T.alloc_local((TILE, TILE), "float32")
            b = T.alloc_local((TILE, TILE), "float32")
            c = T.alloc_local((TILE, TILE), "float32")
            T.clear(c)
            for ko in T.serial(k // TILE):
                T.copy(A[by * TILE, ko * TILE], a)
                T.copy(B[ko * TILE, bx * TILE], b)
                T.gemm(a, b, c)
            T.copy(c, C[by * TILE, bx * TILE])

    return gemm


def _add(T: Any, p: Problem) -> Any:
    size = p.shape[0]

    @T.prim_func
    def add(X: T.Tensor((size,), "float32"), Y: T.Tensor((size,), "float32"), Z: T.Tensor((size,), "float32")):
        with T.Kernel(size // SLICE) as bx:
            for i in T.serial(SLICE):
                Z[bx * SLICE + i] = X[bx * SLICE + i] + Y[bx * SLICE + i]

    return add
