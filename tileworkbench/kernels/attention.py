"""FlashAttention forward: softmax(Q K^T / sqrt(dim)) V without ever writing the (seq, seq) scores to memory.

A block owns block_m queries of one head and walks over the keys in tiles. It keeps, per query, the maximum of the scores so far and the sum of
their exponentials; when a later tile raises the maximum, what has been summed is scaled down (the online softmax). With `causal` the walk ends at
the diagonal, and only tiles that cross it are masked. Several heads may share the keys and values of one.
"""

# mypy: disable-error-code="no-untyped-def, valid-type, untyped-decorator"
# (annotations of a kernel are values of the kernel language, not types)
from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .. import language as T
from ..base.dtypes import DType
from ..frontend.prim_func import PrimFunc
from ..language.tile import GemmWarpPolicy
from ..runtime.kernel import JITKernel
from . import tuned
from .choice import compiled, gpu_of, has_wgmma, shared_bytes
from .spaces import attention_space

LOG2_E = 1.4426950408889634
_NEAR = 1 << 20  # bytes of K and V of one head from which on they do not stay in L2 beside what a block needs


@dataclass(frozen=True, slots=True)
class Schedule:
    """Queries of a block, and keys of one step of its walk; for a GPU also how many tiles of K and V are on chip, the threads of a block, and whether
    groups of warps take turns at products."""

    block_m: int
    block_n: int
    stages: int = 1
    threads: int = 0
    in_turn: bool = False

    def __str__(self) -> str:
        tile = f"{self.block_m}x{self.block_n}"
        return f"{tile} s{self.stages} t{self.threads}{' in turn' if self.in_turn else ''}" if self.threads else tile


def default_schedule(seq: int, dim: int = 64, dtype: str = "float32", causal: bool = False, *, target: Any = None) -> Schedule:
    """Queries enough that each tile of K and V is read for much work, and keys enough that the second product reads rows of 512 bytes.

    Tiles of K and V are at most 64 KiB: with their scores they stay in L2. A walk over more K and V than a core keeps near is worth twice as many
    queries. Causal blocks of a short sequence are smaller, as half of the tile at the diagonal is computed for nothing. For a GPU what a search chose
    for these sizes (`tuned`), else `gpu_schedule`.
    """
    if arch := gpu_of(target):
        key = tuned.attention_key(seq, dim, dtype, causal)
        found = tuned.find(key, target, arch, lambda: attention_space(seq, dim, dtype, target=target))
        return Schedule(**found) if found is not None else gpu_schedule(seq, dim, dtype, arch, causal)
    size = DType(dtype).bits // 8
    most = min(256, max(128, seq // 8)) if causal else 512 if 2 * seq * dim * size >= _NEAR else 256
    return Schedule(_share(seq, most), _share(seq, max(16, min(most, 512 // size, 65536 // (dim * size)))))


def _share(seq: int, most: int) -> int:
    """The size of equal parts of a sequence, a multiple of 16 and about `most` or less."""
    parts = -(-seq // most)
    return -(-seq // (16 * parts)) * 16


# by the most dims of a head: queries, keys, threads. A warp group of wgmma takes 64 queries; its scores, outputs and weights fill its registers.
# 256 dims on an H200, beside cuDNN: 128 x 80 1.16 (1024 keys), 1.14 (causal), 1.27 (4096 causal); 128 x 64 1.12, 1.15, 1.13. Measured on 2026-12-01
GROUP_TILES = {64: (192, 128, 384), 128: (128, 128, 256), 256: (128, 80, 256)}
WARP_TILES = {64: (128, 64, 128), 128: (64, 64, 128), 256: (64, 32, 128)}
FLAT_TILE = (32, 32, 128)  # of multiply-adds
TWO_GROUPS = 1.14  # what a score takes with two groups of 64 dims, beside three. Source: an H200, 2026-11 (12 to 17 %)
GROWTH = 8  # powers of two by which weights may exceed 1 before the maximum that they are relative to is a new one; float16 holds 2**15
SLACK = 2048  # bytes of shared memory that are left for barriers and alignment


def gpu_schedule(seq: int, dim: int, dtype: str, arch: str, causal: bool = False) -> Schedule:
    """Tiles for a GPU: as many scores, outputs and weights as registers hold, and two tiles of K and V where they fit; fewer rows for few queries.

    With wgmma 64 queries a warp group: two groups for long heads, three for short ones, whose softmax has more to do for each product; but two where
    three would compute much more beyond the diagonal or the end for nothing.
    """
    size = DType(dtype).bits // 8
    if size > 2:
        queries, keys, threads = FLAT_TILE
    else:
        tiles = GROUP_TILES if has_wgmma(arch) else WARP_TILES
        queries, keys, threads = next((t for most, t in tiles.items() if dim <= most), tiles[256])
        if queries == 192 and computed(seq, 128, keys, causal) * TWO_GROUPS < computed(seq, queries, keys, causal):
            queries, threads = 128, 256
        while queries > 64 and queries - 64 >= seq:
            queries, threads = queries - 64, max(128, threads - 128)
    most = (shared_bytes(arch) - SLACK - queries * dim * size) // (2 * keys * dim * size)
    return Schedule(queries, keys, max(1, min(2, most)), threads)


def computed(seq: int, queries: int, keys: int, causal: bool) -> int:
    """Scores of a head that blocks of so many queries and keys compute, those for nothing included.

    >>> computed(1024, 192, 128, True), computed(1024, 128, 128, True), 1024 * 1025 // 2
    (786432, 589824, 524800)
    """
    return sum(queries * keys * -(-(min(first + queries, seq) if causal else seq) // keys) for first in range(0, seq, queries))


def program(
    batch: int, heads: int, seq: int, dim: int, causal: bool, block_m: int, block_n: int, dtype: str, kv_heads: int = 0, stages: int = 1,
    threads: int = 0, in_turn: bool = False,
) -> PrimFunc:  # fmt: skip
    """The tile program, for one shape and schedule. `kv_heads`: of K and V, each for heads / kv_heads heads of Q; 0 is one for each.

    With several stages the copy of V runs ahead like that of K, so both stand at the top of the loop. `in_turn`: groups of warps take turns at
    products.
    """

    shape, shared = (batch, heads, seq, dim), (batch, kv_heads or heads, seq, dim)
    group = heads // (kv_heads or heads)
    scale = LOG2_E / dim**0.5  # the softmax's 1 / sqrt(dim), and log2(e) so that exp2 does

    @T.prim_func
    def attention(Q: T.Tensor(shape, dtype), K: T.Tensor(shared, dtype), V: T.Tensor(shared, dtype), O: T.Tensor(shape, dtype)):  # noqa: E741
        with T.Kernel(T.ceildiv(seq, block_m), heads, batch, threads=threads or None) as (bx, head, b):
            if in_turn:
                T.annotate_pass_configs({"tl.ping_pong": True})
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
            peak = T.alloc_fragment((block_m,), "float32") if threads else top
            total = T.alloc_fragment((block_m,), "float32")

            kv = head // group
            first = (T.ceildiv(seq, block_m) - 1 - bx) * block_m  # the longest walks first, so that no core is left with one at the end
            T.copy(Q[b, head, first : first + block_m, :], q)
            T.clear(out)
            T.clear(total)
            T.fill(top, -T.infinity("float32"))
            last = T.min(first + block_m, seq) if causal else seq
            for step in T.Pipelined(T.ceildiv(last, block_n), num_stages=stages):
                T.copy(K[b, kv, step * block_n : step * block_n + block_n, :], k)
                if stages > 1:
                    T.copy(V[b, kv, step * block_n : step * block_n + block_n, :], v)
                T.gemm(q, k, s, transpose_B=True, policy=GemmWarpPolicy.FullRow, clear_accum=True)
                if (step + 1) * block_n > (first if causal else seq):
                    for i, j in T.Parallel(block_m, block_n):
                        limit = T.min(first + i + 1, seq) if causal else seq
                        s[i, j] = T.if_then_else(step * block_n + j < limit, s[i, j], -T.infinity("float32"))
                T.copy(top, before)
                if threads:  # sums are scaled down only where a maximum has grown much: a warp can skip that most of the time
                    T.reduce_max(s, peak, dim=1)
                    for i in T.Parallel(block_m):
                        top[i] = T.if_then_else((peak[i] - before[i]) * scale > GROWTH, peak[i], before[i])
                else:
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
                if stages == 1:
                    T.copy(V[b, kv, step * block_n : step * block_n + block_n, :], v)
                if dtype != "float32":
                    T.copy(s, p)
                T.gemm(p, v, out, policy=GemmWarpPolicy.FullRow)
            for i, d in T.Parallel(block_m, dim):
                out[i, d] = out[i, d] * (1.0 / total[i])
            T.copy(out, O[b, head, first : first + block_m, :])

    result: PrimFunc = attention
    return result


def attention(
    batch: int, heads: int, seq: int, dim: int, *, causal: bool = False, dtype: str = "float32", schedule: Schedule | None = None, kv_heads: int = 0,
    target: Any = None,
) -> JITKernel:  # fmt: skip
    """A kernel O = attention(Q, K, V) for Q, O (batch, heads, seq, dim) and K, V (batch, kv_heads, seq, dim). Scores and sums are float32.

    Args:
        kv_heads: heads of K and V, each for as many of Q; 0 is as many as Q has.
        target: what to compile for; None is the default target.
    Raises: ValueError if `kv_heads` does not divide `heads`.
    """
    if kv_heads and heads % kv_heads:
        raise ValueError(f"attention: heads={heads} must be a multiple of kv_heads={kv_heads}")
    s = schedule or default_schedule(seq, dim, dtype, causal, target=target)
    kernel: JITKernel = compiled(program, target)(
        batch, heads, seq, dim, causal, s.block_m, s.block_n, dtype, kv_heads, s.stages, s.threads, s.in_turn
    )  # fmt: skip
    return kernel


def flops(batch: int, heads: int, seq: int, dim: int, *, causal: bool = False) -> int:
    """The textbook's count: two matrix products, halved for causal; the softmax is not counted."""
    whole = 4 * batch * heads * seq * seq * dim
    return whole // 2 if causal else whole
