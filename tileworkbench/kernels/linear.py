"""Y = X @ W^T for weights W (n, k) as layers store them: in full width with few rows of X, and with four-bit weights.

With one row there is nothing to reuse, and the kernel is a walk over W at the speed of memory: a product and a sum for each of its elements. Four-bit
weights lie two in a byte, the even column in the low half, and stand for (q - 8) * scale, with one scale for `group` columns of a row; a block
expands its tile of them on chip, so that memory moves an eighth of the bytes of float32.
"""

# mypy: disable-error-code="no-untyped-def, valid-type, untyped-decorator"
# (annotations of a kernel are values of the kernel language, not types)
from __future__ import annotations

from .. import language as T
from ..frontend.prim_func import PrimFunc
from ..runtime.jit import jit
from ..runtime.kernel import JITKernel


def gemv_program(n: int, k: int, block_n: int, block_k: int, dtype: str) -> PrimFunc:
    """The tile program of y = W x, for one shape and schedule."""

    @T.prim_func
    def gemv(X: T.Tensor((k,), dtype), W: T.Tensor((n, k), dtype), Y: T.Tensor((n,), dtype)):
        with T.Kernel(T.ceildiv(n, block_n)) as bx:
            x = T.alloc_fragment((block_k,), "float32")
            w = T.alloc_fragment((block_n, block_k), "float32")
            y = T.alloc_fragment((block_n,), "float32")
            T.clear(y)
            for ko in T.Pipelined(T.ceildiv(k, block_k), num_stages=2):
                T.copy(X[ko * block_k], x)
                T.copy(W[bx * block_n, ko * block_k], w)
                for i, j in T.Parallel(block_n, block_k):
                    w[i, j] = w[i, j] * x[j]
                T.reduce_sum(w, y, dim=1, clear=False)
            T.copy(y, Y[bx * block_n])

    result: PrimFunc = gemv
    return result


def w4_program(m: int, n: int, k: int, group: int, block_m: int, block_n: int, block_k: int, dtype: str) -> PrimFunc:
    """The tile program of Y = X W^T with four-bit W, for one shape and schedule. `block_k` is a multiple of `group`."""

    @T.prim_func
    def linear_w4(X: T.Tensor((m, k), dtype), Q: T.Tensor((n, k // 2), "uint8"), S: T.Tensor((n, k // group), "float32"), Y: T.Tensor((m, n), dtype)):
        with T.Kernel(T.ceildiv(n, block_n), T.ceildiv(m, block_m)) as (bx, by):
            x = T.alloc_shared((block_m, block_k), dtype)
            q = T.alloc_shared((block_n, block_k // 2), "uint8")
            w = T.alloc_shared((block_n, block_k), dtype)
            y = T.alloc_fragment((block_m, block_n), "float32")
            T.clear(y)
            for ko in T.Pipelined(k // block_k, num_stages=2):
                T.copy(X[by * block_m, ko * block_k], x)
                T.copy(Q[bx * block_n, ko * (block_k // 2)], q)
                for i, j in T.Parallel(block_n, block_k // 2):
                    scale = S[T.min(bx * block_n + i, n - 1), ko * (block_k // group) + j // (group // 2)]
                    low = T.cast(q[i, j] & T.uint8(15), "float32") - 8.0
                    high = T.cast(q[i, j] >> T.uint8(4), "float32") - 8.0
                    w[i, 2 * j] = T.cast(low * scale, dtype)
                    w[i, 2 * j + 1] = T.cast(high * scale, dtype)
                T.gemm(x, w, y, transpose_B=True)
            T.copy(y, Y[by * block_m, bx * block_n])

    result: PrimFunc = linear_w4
    return result


_gemv, _w4 = jit(out_idx=-1)(gemv_program), jit(out_idx=-1)(w4_program)


def gemv_schedule(n: int, k: int) -> tuple[int, int]:
    """Rows and columns of a block: whole rows where x stays in L2, enough of them to read x seldom."""
    return next((rows for rows in (16, 8, 4) if n % rows == 0), min(n, 16)), min(k, 1 << 15)


def gemv(n: int, k: int, *, dtype: str = "float32", block_n: int | None = None, block_k: int | None = None) -> JITKernel:
    """A kernel y = W x for W (n, k), x (k,), y (n,). Products are summed in float32."""
    rows, columns = gemv_schedule(n, k)
    kernel: JITKernel = _gemv(n, k, block_n or rows, min(block_k or columns, k), dtype)
    return kernel


def linear_w4(m: int, n: int, k: int, *, group: int = 128, dtype: str = "float32", block_n: int = 64, block_k: int = 256) -> JITKernel:
    """A kernel Y = X W^T for X (m, k), four-bit W (n, k) as bytes (n, k // 2) and scales (n, k // group), Y (m, n).

    Raises: ValueError if `group` does not divide `block_k`, or `block_k` not `k`.
    """
    if block_k % group or k % block_k:
        raise ValueError(f"linear_w4: k={k} must be a multiple of block_k={block_k}, and that of group={group}")
    kernel: JITKernel = _w4(m, n, k, group, min(m, 16), block_n, block_k, dtype)
    return kernel
