"""Softmax of every row: a kernel that computes little and moves each byte once.

A block owns a few whole rows, so the row is read from memory once and its three passes (maximum, exponentials and their sum, division) run over a
tile that stays in L1.
"""

# mypy: disable-error-code="no-untyped-def, valid-type, untyped-decorator"
# (annotations of a kernel are values of the kernel language, not types)
from __future__ import annotations

from dataclasses import dataclass

from .. import language as T
from ..frontend.prim_func import PrimFunc
from ..runtime.jit import jit
from ..runtime.kernel import JITKernel

LOG2_E = 1.4426950408889634


@dataclass(frozen=True, slots=True)
class Schedule:
    """Rows of one block."""

    rows: int

    def __str__(self) -> str:
        return f"{self.rows} row{'s' if self.rows != 1 else ''}"


def default_schedule(rows: int, cols: int) -> Schedule:
    """As many rows as 32 KiB of float32 hold, so that the tile stays in L1; one if a row alone is longer."""
    return Schedule(max(1, min(rows, 8192 // max(cols, 1))))


def program(rows: int, cols: int, block: int, dtype: str) -> PrimFunc:
    """The tile program, for one shape and number of rows of a block."""

    @T.prim_func
    def softmax(X: T.Tensor((rows, cols), dtype), Y: T.Tensor((rows, cols), dtype)):
        with T.Kernel(T.ceildiv(rows, block)) as bx:
            x = T.alloc_fragment((block, cols), "float32")
            top = T.alloc_fragment((block,), "float32")
            total = T.alloc_fragment((block,), "float32")
            T.copy(X[bx * block, 0], x)
            T.reduce_max(x, top, dim=1)
            for i, j in T.Parallel(block, cols):
                x[i, j] = T.exp2((x[i, j] - top[i]) * LOG2_E)
            T.reduce_sum(x, total, dim=1)
            for i in T.Parallel(block):
                total[i] = 1.0 / total[i]
            for i, j in T.Parallel(block, cols):
                x[i, j] = x[i, j] * total[i]
            T.copy(x, Y[bx * block, 0])

    result: PrimFunc = softmax
    return result


_compiled = jit(out_idx=-1)(program)


def softmax(rows: int, cols: int, *, dtype: str = "float32", schedule: Schedule | None = None) -> JITKernel:
    """A kernel Y = softmax(X) along the last dim, for X and Y (rows, cols). Computed in float32."""
    s = schedule or default_schedule(rows, cols)
    kernel: JITKernel = _compiled(rows, cols, s.rows, dtype)
    return kernel


def flops(rows: int, cols: int) -> int:
    """Additions and multiplications: subtract, scale, sum, multiply. exp and maximum are counted apart."""
    return 4 * rows * cols
