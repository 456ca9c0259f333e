"""C = A @ B for one row of A, on a CPU: nothing is used twice, and the kernel is a walk over B at the speed of memory.

Rows of B that belong to one k are as long as C: a block adds a few of them at a time, each times its element of A, to its stretch of C. With B as
(n, k) each row gives one element of C, and the walk is that of `linear.gemv`.
"""

# mypy: disable-error-code="no-untyped-def, valid-type, untyped-decorator"
# (annotations of a kernel are values of the kernel language, not types)
from __future__ import annotations

from typing import Any

from .. import language as T
from ..frontend.prim_func import PrimFunc
from .choice import part_of
from .linear import add_dots, gemv_schedule

ROW_DTYPES = ("float32", "bfloat16")
# 4096 x 4096 on one Xeon core, bfloat16 and float32: 21.3 and 22.7 GB/s so; 512 columns 18.0 and 18.8, four rows 21.7 and 22.9 (December 2026)
COLUMNS, ROWS = 2048, 8


def row_schedule(n: int, k: int, is_nt: bool, blocks: int) -> tuple[int, int]:
    """Columns of C in a block, and elements of k that it takes at a time: whole rows of B with `is_nt`, else as many rows as are added up at once."""
    n, k = max(n, 1), max(k, 1)
    if is_nt:
        return gemv_schedule(n, k)
    return part_of(n, max(-(-n // COLUMNS), min(blocks, -(-n // 64)))), min(ROWS, k)


def row_program(n: int, k: int, block_n: int, block_k: int, dtype: str, out_dtype: str, relu: bool, is_nt: bool) -> PrimFunc:
    """The tile program for one row, shape and schedule. Sums are float32."""
    return (_rows_of_c if is_nt else _rows_of_k)(n, k, block_n, block_k, dtype, out_dtype, relu)


def _rows_of_c(n: int, k: int, block_n: int, block_k: int, dtype: str, out_dtype: str, relu: bool) -> PrimFunc:
    @T.prim_func
    def gemm(A: T.Tensor((1, k), dtype), B: T.Tensor((n, k), dtype), C: T.Tensor((1, n), out_dtype)):
        with T.Kernel(T.ceildiv(n, block_n)) as bx:
            a = T.alloc_fragment((block_k,), "float32")
            b = T.alloc_fragment((block_n, block_k), "float32")
            acc = T.alloc_fragment((block_n,), "float32")
            T.clear(acc)
            for ko in T.Pipelined(T.ceildiv(k, block_k), num_stages=2):
                T.copy(A[0, ko * block_k], a)
                T.copy(B[bx * block_n, ko * block_k], b)
                add_dots(a, b, acc)
            put_row(acc, C, bx, relu)

    result: PrimFunc = gemm
    return result


def _rows_of_k(n: int, k: int, block_n: int, block_k: int, dtype: str, out_dtype: str, relu: bool) -> PrimFunc:
    @T.prim_func
    def gemm(A: T.Tensor((1, k), dtype), B: T.Tensor((k, n), dtype), C: T.Tensor((1, n), out_dtype)):
        with T.Kernel(T.ceildiv(n, block_n)) as bx:
            acc = T.alloc_fragment((block_n,), "float32")
            T.clear(acc)
            for ko in T.serial(k // block_k):
                for j in T.Parallel(block_n):
                    acc[j] = acc[j] + _products(A, B, ko * block_k, block_k, bx * block_n + j)
            if k % block_k:
                for j in T.Parallel(block_n):
                    acc[j] = acc[j] + _products(A, B, k // block_k * block_k, k % block_k, bx * block_n + j)
            put_row(acc, C, bx, relu)

    result: PrimFunc = gemm
    return result


@T.macro
def put_row(acc, C, bx, relu):
    """Stretch `bx` of C is acc, or what of it is positive."""
    (columns,) = acc.shape
    if relu:
        for j in T.Parallel(columns):
            acc[j] = T.max(acc[j], 0.0)
    T.copy(acc, C[0, bx * columns])


def _products(A: Any, B: Any, first: Any, rows: int, column: Any) -> Any:
    """The sum over `rows` rows of B from `first` on, each times its element of A, in one column."""
    each = [T.cast(B[first + i, column], "float32") * T.cast(A[0, first + i], "float32") for i in range(rows)]
    return sum(each[1:], each[0])
