"""FlashAttention forward: softmax(Q K^T / sqrt(dim)) V without ever writing the (seq, seq) scores to memory.

A block owns block_m queries of one head and walks over the keys in tiles. It keeps, per query, the maximum of the scores so far and the sum of
their exponentials; when a later tile raises the maximum, what has been summed is scaled down (the online softmax). With `causal` the walk ends at
the diagonal, and only tiles that cross it are masked.
"""

# mypy: disable-error-code="no-untyped-def, valid-type, untyped-decorator"
# (annotations of a kernel are values of the kernel language, not types)
from __future__ import annotations

from dataclasses import dataclass

from .. import language as T
from ..base.dtypes import DType
from ..frontend.prim_func import PrimFunc
from ..runtime.jit import jit
from ..runtime.kernel import JITKernel

LOG2_E = 1.4426950408889634
_NEAR = 1 << 20  # bytes of K and V of one head that stay in L2 from block to block, beside what a block needs


@dataclass(frozen=True, slots=True)
class Schedule:
    """Queries of a block, and keys of one step of its walk."""

    block_m: int
    block_n: int

    def __str__(self) -> str:
        return f"{self.block_m}x{self.block_n}"


def default_schedule(seq: int, dim: int = 64, dtype: str = "float32", causal: bool = False) -> Schedule:
    """Queries enough that each tile of K and V is read for much work, and keys enough that the second product reads rows of 512 bytes.

    Tiles of K and V are at most 64 KiB: with their scores they stay in L2. A walk over more K and V than a core keeps near is worth twice as many
    queries. Causal blocks of a short sequence are smaller, as half of the tile at the diagonal is computed for nothing.
    """
    size = DType(dtype).bits // 8
    most = min(256, max(128, seq // 8)) if causal else 512 if 2 * seq * dim * size > _NEAR else 256
    return Schedule(_share(seq, most), _share(seq, max(16, min(most, 512 // size, 65536 // (dim * size)))))


def _share(seq: int, most: int) -> int:
    """The size of equal parts of a sequence, a multiple of 16 and about `most` or less."""
    parts = -(-seq // most)
    return -(-seq // (16 * parts)) * 16


def program(batch: int, heads: int, seq: int, dim: int, causal: bool, block_m: int, block_n: int, dtype: str) -> PrimFunc:
    """The tile program, for one shape and schedule."""

    shape = (batch, heads, seq, dim)
    scale = LOG2_E / dim**0.5  # the softmax's 1 / sqrt(dim), and log2(e) so that exp2 does

    @T.prim_func
    def attention(Q: T.Tensor(shape, dtype), K: T.Tensor(shape, dtype), V: T.Tensor(shape, dtype), O: T.Tensor(shape, dtype)):  # noqa: E741
        with T.Kernel(T.ceildiv(seq, block_m), heads, batch) as (bx, head, b):
            q = T.alloc_shared((block_m, dim), dtype)
            k = T.alloc_shared((block_n, dim), dtype)
            v = T.alloc_shared((block_n, dim), dtype)
            s = T.alloc_fragment((block_m, block_n), "float32")
            p = s if dtype == "float32" else T.alloc_fragment((block_m, block_n), dtype)
            out = T.alloc_fragment((block_m, dim), "float32")
            top = T.alloc_fragment((block_m,), "float32")
            before = T.alloc_fragment((block_m,), "float32")
            fade = T.alloc_fragment((block_m,), "float32")
            here = T.alloc_fragment((block_m,), "float32")
            total = T.alloc_fragment((block_m,), "float32")

            first = (T.ceildiv(seq, block_m) - 1 - bx) * block_m  # the longest walks first, so that no core is left with one at the end
            T.copy(Q[b, head, first : first + block_m, :], q)
            T.clear(out)
            T.clear(total)
            T.fill(top, -T.infinity("float32"))
            last = T.min(first + block_m, seq) if causal else seq
            for step in T.Pipelined(T.ceildiv(last, block_n), num_stages=1):
                T.copy(K[b, head, step * block_n : step * block_n + block_n, :], k)
                T.gemm(q, k, s, transpose_B=True, clear_accum=True)
                if (step + 1) * block_n > (first if causal else seq):
                    for i, j in T.Parallel(block_m, block_n):
                        limit = T.min(first + i + 1, seq) if causal else seq
                        s[i, j] = T.if_then_else(step * block_n + j < limit, s[i, j], -T.infinity("float32"))
                T.copy(top, before)
                T.reduce_max(s, top, dim=1, clear=False)
                for i in T.Parallel(block_m):
                    fade[i] = T.exp2((before[i] - top[i]) * scale)
                for i, j in T.Parallel(block_m, block_n):
                    s[i, j] = T.exp2(s[i, j] * scale - top[i] * scale)
                T.reduce_sum(s, here, dim=1)
                for i in T.Parallel(block_m):
                    total[i] = total[i] * fade[i] + here[i]
                for i, d in T.Parallel(block_m, dim):
                    out[i, d] = out[i, d] * fade[i]
                T.copy(V[b, head, step * block_n : step * block_n + block_n, :], v)
                if dtype != "float32":
                    T.copy(s, p)
                T.gemm(p, v, out)
            for i, d in T.Parallel(block_m, dim):
                out[i, d] = out[i, d] * (1.0 / total[i])
            T.copy(out, O[b, head, first : first + block_m, :])

    result: PrimFunc = attention
    return result


_compiled = jit(out_idx=-1)(program)


def attention(
    batch: int, heads: int, seq: int, dim: int, *, causal: bool = False, dtype: str = "float32", schedule: Schedule | None = None
) -> JITKernel:
    """A kernel O = attention(Q, K, V), all (batch, heads, seq, dim). Scores and sums are float32."""
    s = schedule or default_schedule(seq, dim, dtype, causal)
    kernel: JITKernel = _compiled(batch, heads, seq, dim, causal, s.block_m, s.block_n, dtype)
    return kernel


def flops(batch: int, heads: int, seq: int, dim: int, *, causal: bool = False) -> int:
    """The textbook's count: two matrix products, halved for causal; the softmax is not counted."""
    whole = 4 * batch * heads * seq * seq * dim
    return whole // 2 if causal else whole
