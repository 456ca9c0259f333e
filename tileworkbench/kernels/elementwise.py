"""Element by element, and transposed: kernels that only move bytes.

An elementwise block owns a stretch of the arrays as one long row; a transposing block owns a tile, which it reads along the rows of X and writes
along the rows of Y. The tile is tall: what a block writes of a row of Y is then long, and few of its cache lines are another block's too.
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


def transpose_program(rows: int, cols: int, block_rows: int, block_cols: int, dtype: str) -> PrimFunc:
    """The tile program of Y = X^T for X (rows, cols), in blocks of X."""

    @T.prim_func
    def transpose(X: T.Tensor((rows, cols), dtype), Y: T.Tensor((cols, rows), dtype)):
        with T.Kernel(T.ceildiv(cols, block_cols), T.ceildiv(rows, block_rows)) as (bx, by):
            tile = T.alloc_shared((block_rows, block_cols), dtype)
            turned = T.alloc_shared((block_cols, block_rows), dtype)
            T.copy(X[by * block_rows, bx * block_cols], tile)
            for i, j in T.Parallel(block_cols, block_rows):
                turned[i, j] = tile[j, i]
            T.copy(turned, Y[bx * block_cols, by * block_rows])

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


def transpose_schedule(rows: int, cols: int) -> tuple[int, int]:
    """Rows and columns of X of a block: 128 x 64 where they divide the whole, else 32 x 32."""
    return (128, 64) if rows % 128 == 0 and cols % 64 == 0 else (32, 32)


def transpose(rows: int, cols: int, *, dtype: str = "float32", block: tuple[int, int] | None = None) -> JITKernel:
    """A kernel Y = X^T for X (rows, cols), Y (cols, rows), in blocks of so many rows and columns of X."""
    kernel: JITKernel = _transpose(rows, cols, *(block or transpose_schedule(rows, cols)), dtype)
    return kernel
