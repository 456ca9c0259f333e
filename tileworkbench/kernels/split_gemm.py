"""C = A @ B with k in parts, for results of too few tiles to keep a GPU busy.

Each block sums one part of k for one tile of C, in float32, into memory of its own; a second launch adds the parts up, always in the same order: a
result is the same each time. Parts cost 8 bytes of memory traffic for each element of C and part, most of it in L2, and the second launch a few
microseconds.
"""

# mypy: disable-error-code="no-untyped-def, valid-type, untyped-decorator"
# (annotations of a kernel are values of the kernel language, not types)
from __future__ import annotations

from .. import language as T
from ..frontend.prim_func import PrimFunc
from .tile_product import add_product

JOINERS = 128  # threads of a block that adds up parts
EACH = 8  # elements of such a thread


def split_program(
    m: int, n: int, k: int, block_m: int, block_n: int, block_k: int, stages: int, dtype: str, out_dtype: str, relu: bool, sum_dtype: str,
    threads: int, panel: int, is_nt: bool, cluster_n: int, cluster_m: int, split_k: int,
) -> PrimFunc:  # fmt: skip
    """The tile program, as `gemm.program`, in `split_k` parts."""
    whole, tile = ((n, k), (block_n, block_k)) if is_nt else ((k, n), (block_k, block_n))
    cluster = (cluster_n, cluster_m, 1) if cluster_n * cluster_m > 1 else None
    turns = -(-k // (block_k * split_k))
    span = min(JOINERS * EACH, JOINERS * -(-m * n // JOINERS))

    @T.prim_func
    def split_gemm(A: T.Tensor((m, k), dtype), B: T.Tensor(whole, dtype), C: T.Tensor((m, n), out_dtype)):
        parts = T.alloc_global((split_k, m, n), sum_dtype)
        with T.Kernel(T.ceildiv(n, block_n), T.ceildiv(m, block_m), split_k, threads=threads, cluster_dims=cluster) as (bx, by, part):
            T.use_swizzle(panel, enable=panel > 0)
            A_tile = T.alloc_shared((block_m, block_k), dtype)
            B_tile = T.alloc_shared(tile, dtype)
            acc = T.alloc_fragment((block_m, block_n), sum_dtype)
            T.clear(acc)
            for turn in T.Pipelined(turns, num_stages=stages):
                ko = part * turns + turn
                add_product(A, B, A_tile, B_tile, acc, by, bx, ko, is_nt)
            T.copy(acc, parts[part, by * block_m, bx * block_n])
        given, out = T.view(parts, (split_k, m * n)), T.view(C, (m * n,))
        with T.Kernel(T.ceildiv(m * n, span), threads=JOINERS) as bx:
            for j in T.Parallel(span):
                each = [given[part, bx * span + j] for part in range(split_k)]
                total = sum(each[1:], each[0])
                out[bx * span + j] = T.cast(T.max(total, 0) if relu else total, out_dtype)

    result: PrimFunc = split_gemm
    return result
