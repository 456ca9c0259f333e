"""Element by element, and transposed: kernels that only move bytes.

An elementwise block owns a stretch of the arrays as one long row; a transposing block owns a tile, which it reads along the rows of X and writes
along the rows of Y. The tile is tall: what a block writes of a row of Y is then long, and few of its cache lines are another block's too.
"""

# mypy: disable-error-code="no-untyped-def, valid-type, untyped-decorator"
# (annotations of a kernel are values of the kernel language, not types)
from __future__ import annotations

from typing import Any

from .. import language as T
from ..base.dtypes import DType
from ..frontend.prim_func import PrimFunc
from ..runtime.kernel import JITKernel
from .choice import compiled, gpu_of

SQRT_HALF = 0.7071067811865476


def add_program(size: int, block: int, dtype: str, threads: int = 0) -> PrimFunc:
    """The tile program of Z = X + Y."""

    @T.prim_func
    def add(X: T.Tensor((size,), dtype), Y: T.Tensor((size,), dtype), Z: T.Tensor((size,), dtype)):
        with T.Kernel(T.ceildiv(size, block), threads=threads or None) as bx:
            for i in T.Parallel(block):
                Z[bx * block + i] = X[bx * block + i] + Y[bx * block + i]

    result: PrimFunc = add
    return result


def gelu_program(size: int, block: int, dtype: str, threads: int = 0) -> PrimFunc:
    """The tile program of Y = gelu(X), computed in float32."""

    @T.prim_func
    def gelu(X: T.Tensor((size,), dtype), Y: T.Tensor((size,), dtype)):
        with T.Kernel(T.ceildiv(size, block), threads=threads or None) as bx:
            for i in T.Parallel(block):
                x = T.cast(X[bx * block + i], "float32")
                Y[bx * block + i] = T.cast(0.5 * x * (1.0 + T.erf(x * SQRT_HALF)), dtype)

    result: PrimFunc = gelu
    return result


def transpose_program(rows: int, cols: int, block_rows: int, block_cols: int, dtype: str, threads: int = 0) -> PrimFunc:
    """The tile program of Y = X^T for X (rows, cols), in blocks of X.

    On a GPU the tile is turned on its way out. Pieces of 16 bytes change places in its rows, so that threads which read down a column meet different
    banks, and a piece is still written at once.
    """
    piece = max(1, 128 // DType(dtype).bits)
    pieces = 1 if block_cols % piece else (block_cols // piece) & -(block_cols // piece)  # that change places: a power of two

    @T.prim_func
    def transpose(X: T.Tensor((rows, cols), dtype), Y: T.Tensor((cols, rows), dtype)):
        with T.Kernel(T.ceildiv(cols, block_cols), T.ceildiv(rows, block_rows), threads=threads or None) as (bx, by):
            if threads:
                mixed = T.alloc_shared((block_rows, block_cols), dtype)
                for i, j in T.Parallel(block_rows, block_cols):
                    mixed[i, (j // piece ^ i // piece % pieces) * piece + j % piece] = X[by * block_rows + i, bx * block_cols + j]
                for i, j in T.Parallel(block_cols, block_rows):
                    Y[bx * block_cols + i, by * block_rows + j] = mixed[j, (i // piece ^ j // piece % pieces) * piece + i % piece]
            else:
                tile = T.alloc_shared((block_rows, block_cols), dtype)
                turned = T.alloc_shared((block_cols, block_rows), dtype)
                T.copy(X[by * block_rows, bx * block_cols], tile)
                for i, j in T.Parallel(block_cols, block_rows):
                    turned[i, j] = tile[j, i]
                T.copy(turned, Y[bx * block_cols, by * block_rows])

    result: PrimFunc = transpose
    return result


LARGE = 1 << 16  # numbers of a block of a CPU
GPU_THREADS, GPU_BYTES = 256, 32  # of a block, and what each thread reads of an array: two loads of 16 bytes
TURNING_THREADS, TURNED_BYTES = 512, 256  # of a block of a transpose, and what it reads and writes of a row


def stretch(dtype: str, target: Any = None) -> tuple[int, int]:
    """Numbers of a block of an elementwise kernel, and its threads (0 on a CPU)."""
    if not gpu_of(target):
        return LARGE, 0
    return GPU_THREADS * GPU_BYTES * 8 // DType(dtype).bits, GPU_THREADS


def add(size: int, *, dtype: str = "float32", block: int | None = None, target: Any = None) -> JITKernel:
    """A kernel Z = X + Y for arrays (size,). `target`: what to compile for; None is the default target."""
    numbers, threads = stretch(dtype, target)
    kernel: JITKernel = compiled(add_program, target)(size, block or numbers, dtype, threads)
    return kernel


def gelu(size: int, *, dtype: str = "float32", block: int | None = None, target: Any = None) -> JITKernel:
    """A kernel Y = X * P(normal < X), by the error function, for arrays (size,). `target`: what to compile for; None is the default target."""
    numbers, threads = stretch(dtype, target)
    kernel: JITKernel = compiled(gelu_program, target)(size, block or numbers, dtype, threads)
    return kernel


def transpose_schedule(rows: int, cols: int, dtype: str = "float32", *, target: Any = None) -> tuple[int, int]:
    """Rows and columns of X of a block: on a CPU 128 x 64 where they divide the whole, else 32 x 32; on a GPU 256 bytes of rows of X and of Y.

    bfloat16 on an H200, of the bandwidth of a copy: 128 x 128 0.946, 128 x 64 0.91, 64 x 128 and 64 x 64 0.89; float32: 64 x 64 0.95, 64 x 32 0.92,
    32 x 32 0.89. Rows a bank longer in place of mixed pieces: 128 x 128 0.93. Measured on 2026-12-01.
    """
    if gpu_of(target):
        side = min(128, TURNED_BYTES * 8 // DType(dtype).bits)
        return side, side
    return (128, 64) if rows % 128 == 0 and cols % 64 == 0 else (32, 32)


def transpose_threads(target: Any = None) -> int:
    """Threads of a block of a transpose (0 on a CPU)."""
    return TURNING_THREADS if gpu_of(target) else 0


def transpose(rows: int, cols: int, *, dtype: str = "float32", block: tuple[int, int] | None = None, target: Any = None) -> JITKernel:
    """A kernel Y = X^T for X (rows, cols), Y (cols, rows), in blocks of so many rows and columns of X."""
    tile = block or transpose_schedule(rows, cols, dtype, target=target)
    kernel: JITKernel = compiled(transpose_program, target)(rows, cols, *tile, dtype, transpose_threads(target))
    return kernel
