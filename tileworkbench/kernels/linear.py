"""Y = X @ W^T for weights W (n, k) as layers store them: in full width with few rows of X, and with four-bit weights.

With one row there is nothing to reuse, and the kernel is a walk over W at the speed of memory: a product and a sum for each of its elements. Four-bit
weights lie two in a byte, the even column in the low half, and stand for (q - 8) * scale, with one scale for `group` columns of a row. Memory moves
an eighth of the bytes of float32: a block expands its tile of them on chip or, with few rows of X, a word of them in registers.
"""

# mypy: disable-error-code="no-untyped-def, valid-type, untyped-decorator"
# (annotations of a kernel are values of the kernel language, not types)
from __future__ import annotations

import math
from typing import Any

from .. import language as T
from ..base.dtypes import DType
from ..frontend.prim_func import PrimFunc
from ..runtime.kernel import JITKernel
from .choice import compiled, gpu_of

_BLOCKS = 32  # of many rows, so that cores which are not equally fast end together


@T.macro
def add_dots(x, w, sums):
    """sums[i] += the sum over j of w[i, j] * x[j]; w holds the products afterwards."""
    for i, j in T.Parallel(*w.shape):
        w[i, j] = w[i, j] * x[j]
    T.reduce_sum(w, sums, dim=1, clear=False)


def gemv_program(n: int, k: int, block_n: int, block_k: int, dtype: str, threads: int = 0) -> PrimFunc:
    """The tile program of y = W x, for one shape and schedule. On a GPU each thread sums what it reads, and the block comes together once."""

    @T.prim_func
    def gemv(X: T.Tensor((k,), dtype), W: T.Tensor((n, k), dtype), Y: T.Tensor((n,), dtype)):
        with T.Kernel(T.ceildiv(n, block_n), threads=threads or None) as bx:
            x = T.alloc_fragment((block_k,), "float32")
            w = T.alloc_fragment((block_n, block_k), "float32")
            y = T.alloc_fragment((block_n,), "float32")
            if threads:
                sums = T.alloc_fragment((block_n, block_k), "float32")
                T.clear(sums)
                for ko in T.serial(T.ceildiv(k, block_k)):
                    T.copy(X[ko * block_k], x)
                    T.copy(W[bx * block_n, ko * block_k], w)
                    for i, j in T.Parallel(block_n, block_k):
                        sums[i, j] = sums[i, j] + w[i, j] * x[j]
                T.reduce_sum(sums, y, dim=1)
                T.copy(y, Y[bx * block_n])
                return
            T.clear(y)
            for ko in T.Pipelined(T.ceildiv(k, block_k), num_stages=2):
                T.copy(X[ko * block_k], x)
                T.copy(W[bx * block_n, ko * block_k], w)
                add_dots(x, w, y)
            T.copy(y, Y[bx * block_n])

    result: PrimFunc = gemv
    return result


def w4_program(m: int, n: int, k: int, group: int, block_m: int, block_n: int, block_k: int, dtype: str, threads: int = 0) -> PrimFunc:
    """The tile program of Y = X W^T with four-bit W, for one shape and schedule. `block_k` is a multiple of `group` and of 8.

    Words of eight weights are transposed, not the numbers that they become: weight p of word j of all rows is row 8 j + p of the operand.
    """

    @T.prim_func
    def linear_w4(X: T.Tensor((m, k), dtype), Q: T.Tensor((n, k // 2), "uint8"), S: T.Tensor((n, k // group), "float32"), Y: T.Tensor((m, n), dtype)):
        with T.Kernel(T.ceildiv(n, block_n), T.ceildiv(m, block_m), threads=threads or None) as (bx, by):
            x = T.alloc_shared((block_m, block_k), dtype)
            q = T.alloc_shared((block_n, block_k // 8), "uint32")
            turned = T.alloc_shared((block_k // 8, block_n), "uint32")
            scales = T.alloc_shared((block_k // group, block_n), "float32")
            w = T.alloc_shared((block_k, block_n), dtype)
            y = T.alloc_fragment((block_m, block_n), "float32")
            packed = T.view(Q, (n, k // 8), "uint32")
            T.clear(y)
            for ko in T.Pipelined(k // block_k, num_stages=2):
                T.copy(X[by * block_m, ko * block_k], x)
                T.copy(packed[bx * block_n, ko * (block_k // 8)], q)
                for j, i in T.Parallel(block_k // 8, block_n):
                    turned[j, i] = q[i, j]
                for g, i in T.Parallel(block_k // group, block_n):
                    scales[g, i] = S[T.min(bx * block_n + i, n - 1), ko * (block_k // group) + g]
                for j, i in T.Parallel(block_k // 8, block_n):
                    for p, place in enumerate(range(0, 32, 4)):
                        weight = T.cast(turned[j, i] >> T.uint32(place) & T.uint32(15), "float32") - 8.0
                        w[8 * j + p, i] = T.cast(weight * scales[(8 * j + p) // group, i], dtype)
                T.gemm(x, w, y)
            T.copy(y, Y[by * block_m, bx * block_n])

    result: PrimFunc = linear_w4
    return result


def w4_rows_program(m: int, n: int, k: int, group: int, block_n: int, dtype: str) -> PrimFunc:
    """The tile program of Y = X W^T with four-bit W for a few rows of X, without a matrix product. `group` is a multiple of 8.

    A block walks over `block_n` rows of W, one after the other, by words of eight weights. x[p] holds every eighth number of X from the p-th on, so
    that weight p of a word meets x[p] at the place of the word: all accesses are contiguous. A weight becomes a float where it lies: bits 4 p and up
    of the mantissa of 2**23 are worth 16**p, so with them or-ed in the number is 2**23 + q * 16**p, and x[p] is divided by 16**p.
    """
    words = group // 8

    @T.prim_func
    def linear_w4_rows(
        X: T.Tensor((m, k), dtype), Q: T.Tensor((n, k // 2), "uint8"), S: T.Tensor((n, k // group), "float32"), Y: T.Tensor((m, n), dtype)
    ):
        with T.Kernel(T.ceildiv(n, block_n), m) as (bx, by):
            x = T.alloc_shared((8, k // 8), "float32")
            sums = T.alloc_fragment((1, words), "float32")
            total = T.alloc_fragment((1,), "float32")
            y = T.alloc_fragment((block_n,), "float32")
            packed = T.view(Q, (n, k // 8), "uint32")
            for j in T.Parallel(k // 8):
                for p, scale in enumerate((1, 1 / 16, 1 / 256, 1 / 4096) * 2):
                    x[p, j] = T.cast(X[by, 8 * j + p], "float32") * scale
            for i in T.serial(block_n):
                row = T.min(bx * block_n + i, n - 1)
                T.clear(sums)
                for g in T.serial(k // group):
                    for j in T.Parallel(words):
                        low = packed[row, g * words + j]
                        half = (low, low >> T.uint32(16))
                        bits = [T.uint32(0x4B000000) | half[p // 4] & T.uint32(15 << 4 * (p % 4)) for p in range(8)]
                        weight = [T.reinterpret(bits[p], "float32") - (2.0**23 + 8 * 16 ** (p % 4)) for p in range(8)]
                        products = [weight[p] * x[p, g * words + j] for p in range(8)]
                        sums[0, j] += S[row, g] * sum(products[1:], products[0])
                T.reduce_sum(sums, total, dim=1)
                y[i] = total[0]
            T.copy(y, Y[by, bx * block_n])

    result: PrimFunc = linear_w4_rows
    return result


def w4_schedule(group: int) -> tuple[int, int]:
    """Rows and columns of W in a block of a product: its expanded weights stay in L1."""
    whole = math.lcm(group, 8)
    return 64, whole * max(1, 128 // whole)


def default_w4_program(
    m: int, n: int, k: int, group: int, dtype: str, block_n: int | None = None, block_k: int | None = None, threads: int = 0
) -> PrimFunc:
    """The program that suits `m` rows of X: with a few, expanding the weights for a matrix product costs more than what it saves, on a CPU."""
    if threads:
        columns, depth = w4_schedule(group)
        return w4_program(m, n, k, group, 16 * min(4, -(-m // 16)), block_n or columns, block_k or depth, dtype, threads)
    if m <= 4 and group % 8 == 0:
        return w4_rows_program(m, n, k, group, block_n or 64, dtype)
    rows, columns = w4_schedule(group)
    return w4_program(m, n, k, group, min(m, 16), block_n or rows, block_k or columns, dtype)


def gemv_schedule(n: int, k: int) -> tuple[int, int]:
    """Rows and columns of a block: whole rows where x stays in L2, enough to read x seldom and to keep memory busy, and blocks for all cores."""
    many = (rows for rows in (64, 32) if n % rows == 0 and n >= _BLOCKS * rows)
    return next(many, next((rows for rows in (16, 8, 4) if n % rows == 0), min(n, 16))), min(k, 1 << 15)


GPU_THREADS = 128
# Of rows that a block of twice the threads takes two of: 8192 x 8192 bfloat16 takes 31.0 us so and 32.9 in pieces of four rows (H200, December 2026)
WHOLE_ROW_BYTES = range(8193, 16385)


def gpu_gemv_schedule(n: int, k: int, dtype: str) -> tuple[int, int, int]:
    """Rows and columns of a block of a GPU, and its threads: whole rows of some size, else 16 bytes of four rows for each thread at a time."""
    if k * DType(dtype).bits // 8 in WHOLE_ROW_BYTES:
        return min(2, n), k, 2 * GPU_THREADS
    return min(4, n), min(GPU_THREADS * 128 // DType(dtype).bits, k), GPU_THREADS


def schedule_for(n: int, k: int, dtype: str, target: Any = None) -> tuple[int, int, int]:
    """Rows and columns of a block of `gemv`, and its threads (0 on a CPU)."""
    return gpu_gemv_schedule(n, k, dtype) if gpu_of(target) else (*gemv_schedule(n, k), 0)


def gemv(n: int, k: int, *, dtype: str = "float32", block_n: int | None = None, block_k: int | None = None, target: Any = None) -> JITKernel:
    """A kernel y = W x for W (n, k), x (k,), y (n,). Products are summed in float32. `target`: what to compile for; None is the default target."""
    rows, columns, threads = schedule_for(n, k, dtype, target)
    kernel: JITKernel = compiled(gemv_program, target)(n, k, block_n or rows, min(block_k or columns, k), dtype, threads)
    return kernel


def linear_w4(
    m: int,
    n: int,
    k: int,
    *,
    group: int = 128,
    dtype: str = "float32",
    block_n: int | None = None,
    block_k: int | None = None,
    target: Any = None,
) -> JITKernel:
    """A kernel Y = X W^T for X (m, k), four-bit W (n, k) as bytes (n, k // 2) and scales (n, k // group), Y (m, n).

    Raises: ValueError if `group` and 8 do not divide `block_k`, or `block_k` not `k`.
    """
    block_k = block_k or w4_schedule(group)[1]
    if block_k % group or block_k % 8 or k % block_k:
        raise ValueError(f"linear_w4: k={k} must be a multiple of block_k={block_k}, and that of group={group} and of 8")
    threads = GPU_THREADS if gpu_of(target) else 0
    kernel: JITKernel = compiled(default_w4_program, target)(m, n, k, group, dtype, block_n, block_k, threads)
    return kernel
