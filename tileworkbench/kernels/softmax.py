"""Softmax of every row: a kernel that computes little and moves each byte once.

A block owns a few whole rows, so the row is read from memory once and its three passes (maximum, exponentials and their sum, division) run over a
tile that stays in L1, or in the registers of a GPU.
"""

# mypy: disable-error-code="no-untyped-def, valid-type, untyped-decorator"
# (annotations of a kernel are values of the kernel language, not types)
from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .. import language as T
from ..frontend.prim_func import PrimFunc
from ..runtime.kernel import JITKernel
from .choice import compiled, gpu_of

LOG2_E = 1.4426950408889634


@dataclass(frozen=True, slots=True)
class Schedule:
    """Rows of one block, and a GPU's threads for them (0 on a CPU)."""

    rows: int
    threads: int = 0

    def __str__(self) -> str:
        return f"{self.rows} row{'s' if self.rows != 1 else ''}{f' t{self.threads}' if self.threads else ''}"


LONG, BLOCKS = 8, 32  # rows of a block on a CPU, and blocks that its cores can share


def default_schedule(rows: int, cols: int, *, target: Any = None) -> Schedule:
    """As many rows as 32 KiB of float32 hold, so that the tile stays in L1; eight long ones, where blocks enough are left. A GPU: `gpu_schedule`.

    Rows of a block are done one after the other, and while one is written, the next is asked for.
    """
    short, long = min(rows, 8192 // max(cols, 1)), min(LONG, rows // BLOCKS)
    return gpu_schedule(rows, cols) if gpu_of(target) else Schedule(max(1, short, long))


EACH = 16  # numbers of a row in one thread's registers: enough loads on their way, and few enough for all threads that an SM can hold
FEW, MOST = 64, 1024  # threads of a block; an SM holds 2048 in 32 blocks


def gpu_schedule(rows: int, cols: int, each: int = EACH, most: int = MOST) -> Schedule:
    """Threads for `each` numbers of a row each, as a power of two, `most` at most; several short rows fill a block."""
    threads = 32
    while threads < most and threads * each < cols:
        threads *= 2
    return Schedule(max(1, min(rows, FEW * each // max(cols, 1))), max(threads, FEW))


def program(rows: int, cols: int, block: int, dtype: str, threads: int = 0) -> PrimFunc:
    """The tile program, for one shape and number of rows of a block."""

    @T.prim_func
    def softmax(X: T.Tensor((rows, cols), dtype), Y: T.Tensor((rows, cols), dtype)):
        with T.Kernel(T.ceildiv(rows, block), threads=threads or None) as bx:
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


def softmax(rows: int, cols: int, *, dtype: str = "float32", schedule: Schedule | None = None, target: Any = None) -> JITKernel:
    """A kernel Y = softmax(X) along the last dim, for X and Y (rows, cols), computed in float32, for `target` (None: the default one)."""
    s = schedule or default_schedule(rows, cols, target=target)
    kernel: JITKernel = compiled(program, target)(rows, cols, s.rows, dtype, s.threads)
    return kernel


def flops(rows: int, cols: int) -> int:
    """Additions and multiplications: subtract, scale, sum, multiply. exp and maximum are counted apart."""
    return 4 * rows * cols
