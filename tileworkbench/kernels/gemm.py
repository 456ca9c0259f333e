"""C = relu(A @ B), or without the ReLU: the tile walk that everything starts from.

A block owns one (block_m, block_n) tile of C. It walks along K, copies a tile of A and one of B next to the core, and multiplies them into an
accumulator that stays there. Bytes from memory fall as the tiles grow: each element of A is read N / block_n times, each of B M / block_m times.
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


@dataclass(frozen=True, slots=True)
class Schedule:
    """Tile sizes in elements, and how many tiles a copy may run ahead."""

    block_m: int
    block_n: int
    block_k: int
    stages: int = 2

    def __str__(self) -> str:
        return f"{self.block_m}x{self.block_n}x{self.block_k}"


PACKED_BYTES = 1 << 20  # of B at a time: half of an L2 of 2 MiB, which A and C stream through

FEW_ROWS = 256


def default_schedule(m: int, n: int, k: int, dtype: str = "float32", blocks: int = 2) -> Schedule:
    """Tiles for a CPU core, in at least `blocks` blocks (one for each core) where the result has 64 columns for each.

    A tile of B is as deep as L2 allows, so that results are visited seldom, and used for up to 2048 rows; A and C stay in global memory.
    Results of few rows stay in L2 themselves: then B is read in long rows, as it lies in memory.
    """
    rows = _fit(m, 2048)
    depth = _fit(k, 512 if rows <= FEW_ROWS else 2048)
    columns = _fit(n, max(64, min(512, PACKED_BYTES // (DType(dtype).bits // 8 * depth))))
    while columns > 64 and T.ceildiv(m, rows) * T.ceildiv(n, columns) < blocks:
        columns = _fit(n, columns // 2)
    return Schedule(rows, columns, depth)


def _fit(size: int, largest: int) -> int:
    """A tile of at most `largest`, a multiple of 16, that covers `size` in equal parts: exactly if up to twice the fewest parts can."""
    fewest = T.ceildiv(max(size, 1), largest)
    parts = next((p for p in range(fewest, 2 * fewest) if size % (16 * p) == 0), fewest)
    return 16 * int(T.ceildiv(T.ceildiv(max(size, 1), parts), 16))


def program(
    m: int, n: int, k: int, block_m: int, block_n: int, block_k: int, stages: int, dtype: str, out_dtype: str, relu: bool, sum_dtype: str = "float32"
) -> PrimFunc:
    """The tile program, for one shape, schedule and types of the factors, the result and the sums."""

    @T.prim_func
    def gemm(A: T.Tensor((m, k), dtype), B: T.Tensor((k, n), dtype), C: T.Tensor((m, n), out_dtype)):
        with T.Kernel(T.ceildiv(n, block_n), T.ceildiv(m, block_m)) as (bx, by):
            A_tile = T.alloc_shared((block_m, block_k), dtype)
            B_tile = T.alloc_shared((block_k, block_n), dtype)
            acc = T.alloc_fragment((block_m, block_n), sum_dtype)
            T.clear(acc)
            for ko in T.Pipelined(T.ceildiv(k, block_k), num_stages=stages):
                T.copy(A[by * block_m, ko * block_k], A_tile)
                T.copy(B[ko * block_k, bx * block_n], B_tile)
                T.gemm(A_tile, B_tile, acc)
            if relu:
                for i, j in T.Parallel(block_m, block_n):
                    acc[i, j] = T.max(acc[i, j], 0.0)
            T.copy(acc, C[by * block_m, bx * block_n])

    result: PrimFunc = gemm
    return result


_compiled = jit(out_idx=-1)(program)


def gemm(m: int, n: int, k: int, *, dtype: str = "float32", out_dtype: str = "", relu: bool = False, schedule: Schedule | None = None) -> JITKernel:
    """A kernel C = A @ B for A (m, k), B (k, n), C (m, n).

    Args:
        dtype: of A and B; products are summed in float32.
        out_dtype: of C; "" is that of A and B.
        relu: whether negative results become 0.
    """
    s = schedule or default_schedule(m, n, k, dtype)
    kernel: JITKernel = _compiled(m, n, k, s.block_m, s.block_n, s.block_k, s.stages, dtype, out_dtype or dtype, relu)
    return kernel


def flops(m: int, n: int, k: int) -> int:
    """The textbook's count: a multiplication and an addition for each product."""
    return 2 * m * n * k
