"""Element by element, and transposed: kernels that only move bytes.

An elementwise block owns a stretch of the arrays as one long row; a transposing block owns a square tile, which it reads along the rows of X and
writes along the rows of Y.
"""

# mypy: disable-error-code="no-untyped-def, valid-type, untyped-decorator"
# (annotations of a kernel are values of the kernel language, not types)
from __future__ import annotations

from .. import language as T
from ..frontend.prim_func import PrimFunc
from ..runtime.jit import jit
from ..runtime.kernel import JITKernel

SQRT_HALF = 0.7071067811865476


def add_program(size: int, block: int, dtype: str) -> PrimFunc:
    """The tile program of Z = X + Y."""

    @T.prim_func
    def add(X: T.Tensor((size,), dtype), Y: T.Tensor((size,), dtype), Z: T.Tensor((size,), dtype)):
        with T.Kernel(T.ceildiv(size, block)) as bx:
            for i in T.Parallel(block):
                Z[bx * block + i] = X[bx * block + i] + Y[bx * block + i]

    result: PrimFunc = add
    return result


def gelu_program(size: int, block: int, dtype: str) -> PrimFunc:
    """The tile program of Y = gelu(X), computed in float32."""

    @T.prim_func
    def gelu(X: T.Tensor((size,), dtype), Y: T.Tensor((size,), dtype)):
        with T.Kernel(T.ceildiv(size, block)) as bx:
            for i in T.Parallel(block):
                x = T.cast(X[bx * block + i], "float32")
                Y[bx * block + i] = T.cast(0.5 * x * (1.0 + T.erf(x * SQRT_HALF)), dtype)

    result: PrimFunc = gelu
    return result


def transpose_program(rows: int, cols: int, block: int, dtype: str) -> PrimFunc:
    """The tile program of Y = X^T for X (rows, cols)."""

    @T.prim_func
    def transpose(X: T.Tensor((rows, cols), dtype), Y: T.Tensor((cols, rows), dtype)):
        with T.Kernel(T.ceildiv(cols, block), T.ceildiv(rows, block)) as (bx, by):
            tile = T.alloc_shared((block, block), dtype)
            turned = T.alloc_shared((block, block), dtype)
            T.copy(X[by * block, bx * block], tile)
            for i, j in T.Parallel(block, block):
                turned[i, j] = tile[j, i]
            T.copy(turned, Y[bx * block, by * block])

    result: PrimFunc = transpose
    return result


_add, _gelu, _transpose = (jit(out_idx=-1)(program) for program in (add_program, gelu_program, transpose_program))


def add(size: int, *, dtype: str = "float32", block: int = 1 << 16) -> JITKernel:
    """A kernel Z = X + Y for arrays (size,)."""
    kernel: JITKernel = _add(size, block, dtype)
    return kernel


def gelu(size: int, *, dtype: str = "float32", block: int = 1 << 16) -> JITKernel:
    """A kernel Y = X * P(normal < X), by the error function, for arrays (size,)."""
    kernel: JITKernel = _gelu(size, block, dtype)
    return kernel


def transpose(rows: int, cols: int, *, dtype: str = "float32", block: int = 32) -> JITKernel:
    """A kernel Y = X^T for X (rows, cols), Y (cols, rows)."""
    kernel: JITKernel = _transpose(rows, cols, block, dtype)
    return kernel
