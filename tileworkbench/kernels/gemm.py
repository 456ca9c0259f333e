"""C = relu(A @ B), or without the ReLU: the tile walk that everything starts from.

A block owns one (block_m, block_n) tile of C. It walks along K, copies a tile of A and one of B next to the core, and multiplies them into an
accumulator that stays there. Bytes from memory fall as the tiles grow: each element of A is read N / block_n times, each of B M / block_m times.
B may be given as layers store their weights, (n, k): then the product is A @ B^T.
"""

# mypy: disable-error-code="no-untyped-def, valid-type, untyped-decorator"
# (annotations of a kernel are values of the kernel language, not types)
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .. import language as T
from ..base.dtypes import DType
from ..frontend.prim_func import PrimFunc
from ..runtime.kernel import JITKernel
from . import tuned
from .choice import compiled, gpu_of, has_wgmma, part_of, shared_bytes
from .gemm_tiles import FLAT_TILES, GROUP_TILES, WARP_TILES, Choice, GpuTile, Product, cheapest
from .row_gemm import ROW_DTYPES, row_program, row_schedule
from .spaces import gemm_space
from .split_gemm import split_program
from .tile_product import add_product


@dataclass(frozen=True, slots=True)
class Schedule:
    """Tile sizes in elements, and how many tiles a copy may run ahead.

    For a GPU also the threads of a block, and the rows of blocks that are worked on together, so that what they share is found in L2; 0 on a CPU.
    Blocks of a cluster, so many side by side (along n) and below one another (along m), load what they share once. `split_k`: parts of k that have
    blocks of their own; a second launch adds them up (`split_gemm`).
    """

    block_m: int
    block_n: int
    block_k: int
    stages: int = 2
    threads: int = 0
    panel: int = 0
    cluster_n: int = 1
    cluster_m: int = 1
    split_k: int = 1

    def __str__(self) -> str:
        tile = f"{self.block_m}x{self.block_n}x{self.block_k}"
        cluster = f" c{self.cluster_n}x{self.cluster_m}" if self.cluster_n * self.cluster_m > 1 else ""
        parts = f" k{self.split_k}" if self.split_k > 1 else ""
        return f"{tile} s{self.stages} t{self.threads}{cluster}{parts}" if self.threads else tile


PACKED_BYTES = 1 << 20  # of B at a time: half of an L2 of 2 MiB, which A and C stream through
VECTOR_BYTES = 1 << 19  # the same in vector registers: they want a strip less often, and L2 keeps a quarter whatever pages it got
VECTOR_COLUMNS = 256  # then A and C are read equally often
EVEN = 4  # blocks for each core even out what cores lose to others, where narrower ones can be deeper instead

FEW_ROWS = 256


def default_schedule(
    m: int, n: int, k: int, dtype: str = "float32", blocks: int = 2, *, target: Any = None, is_nt: bool = False, may_split: bool = True
) -> Schedule:  # fmt: skip
    """Tiles for a CPU core, in at least `blocks` blocks (one for each core) where the result has 64 columns for each.

    For a GPU what a search chose for these sizes (`tuned`), else `gpu_schedule`.

    A tile of B is as deep as L2 allows, so that results are visited seldom, and used for up to 2048 rows; A and C stay in global memory.
    Results of few rows stay in L2 themselves: then B is read in long rows, as it lies in memory. Four bytes an element mean vector registers.
    One row has a program of its own (`row_gemm`).
    """
    if arch := gpu_of(target):
        found = tuned.find(
            tuned.gemm_key(m, n, k, dtype, is_nt), target, arch, lambda: gemm_space(m, n, k, dtype, target=target, is_nt=is_nt, may_split=may_split)
        )
        return Schedule(**found) if found is not None else gpu_schedule(m, n, k, dtype, arch, is_nt, may_split)
    if m == 1 and dtype in ROW_DTYPES:
        return Schedule(1, *row_schedule(n, k, is_nt, blocks))
    rows = _fit(m, 2048)
    size = DType(dtype).bits // 8
    if rows > FEW_ROWS and size >= 4:
        columns = _fit(n, VECTOR_COLUMNS)
        most = VECTOR_BYTES // size
        while columns > 64 and most // columns < k and blocks > 1 and T.ceildiv(m, rows) * T.ceildiv(n, columns) < EVEN * blocks:
            columns = _fit(n, columns // 2)
        depth = _fit(k, most // columns)
    else:
        depth = _fit(k, 512 if rows <= FEW_ROWS else 2048)
        columns = _fit(n, max(64, min(512, PACKED_BYTES // (size * depth))))
    while columns > 64 and T.ceildiv(m, rows) * T.ceildiv(n, columns) < blocks:
        columns = _fit(n, columns // 2)
    return Schedule(rows, columns, depth)


def _fit(size: int, largest: int) -> int:
    """A tile of at most `largest`, a multiple of 16, that covers `size` in equal parts: exactly if up to twice the fewest parts can."""
    return part_of(max(size, 1), -(-max(size, 1) // largest))


GROUP_BYTES, WARP_BYTES, FLAT_DEPTH = 128, 64, 16  # of a row of A's tile: what a swizzled row holds, and a stage of three
FEW_ROWS_BYTES = 256  # of a row where weights are read once: more of them are on the way
MOST_STAGES = 8
PANEL = 8
SLACK = 4096  # bytes of shared memory that are left for barriers and alignment
RESULTS = 28672  # and for results on their way out: 1000 x 3000 x 5000 takes 51.5 us with four stages of 128 x 192 and 52.4 with five
# Sixteen rows, which two warps multiply and copy: 16 x 8192 x 8192 takes 33.8 us so and 36.0 in tiles of 64 columns with a warp that copies for four
SIXTEEN = GpuTile(16, 32, 64, 1.0), 512, 4  # of two blocks in a multiprocessor; bytes of a row, stages


def gpu_schedule(m: int, n: int, k: int, dtype: str, arch: str, is_nt: bool = False, may_split: bool = True) -> Schedule:
    """Tiles for a GPU: of those that its instructions suit, what costs least (`gemm_tiles`).

    With wgmma a row of a tile is a swizzled row of 128 bytes, and tiles fill shared memory in stages; 128 x 256 reads least of it. With mma.sync
    four warps share 128 x 128. Up to 64 rows of A are one tile: then weights come in long rows, since their bytes are what takes the time.
    """
    return gpu_schedules(m, n, k, dtype, arch, 1, is_nt, may_split)[0]


def gpu_schedules(
    m: int, n: int, k: int, dtype: str, arch: str, count: int, is_nt: bool = False, may_split: bool = True
) -> list[Schedule]:  # fmt: skip
    """The `count` schedules that cost least by the rule's count, the cheapest first; fewer where the rule knows no more."""
    size = DType(dtype).bits // 8
    groups = has_wgmma(arch)
    tiles: tuple[GpuTile, ...] = GROUP_TILES if groups else WARP_TILES
    depth = (GROUP_BYTES if groups else WARP_BYTES) // size
    if dtype in ("float32", "float64"):
        depth, tiles = FLAT_DEPTH, FLAT_TILES
    if m <= 64 and tiles is not FLAT_TILES:
        rows = next(r for r in (16, 32, 64) if m <= r)
        if rows == 16 and groups:
            tile, row_bytes, stages = SIXTEEN
            return [Schedule(tile.m, tile.n, min(row_bytes // size, _fit(k, row_bytes // size)), stages, tile.threads)]
        return [_staged(Choice(GpuTile(rows, 64, 128, 1.0)), min(FEW_ROWS_BYTES // size, _fit(k, FEW_ROWS_BYTES // size)), size, arch, 0)]
    return [_staged(choice, depth, size, arch, PANEL) for choice in cheapest(Product(m, n, k, size, is_nt, may_split), tiles, arch, count)]


def _staged(choice: Choice, depth: int, size: int, arch: str, panel: int) -> Schedule:
    """The choice with as many stages as shared memory holds: of one block with wgmma, else of two, which take turns; three at most without it."""
    tile = choice.tile
    stage = (tile.m + tile.n) * depth * size
    room = shared_bytes(arch) - SLACK
    stages = min(MOST_STAGES, (room - RESULTS) // stage) if has_wgmma(arch) else min(3, room // (2 * stage))
    return Schedule(tile.m, tile.n, depth, max(1, stages), tile.threads, panel, choice.cluster_n, choice.cluster_m, choice.split_k)


def program(
    m: int, n: int, k: int, block_m: int, block_n: int, block_k: int, stages: int, dtype: str, out_dtype: str, relu: bool, sum_dtype: str = "float32",
    threads: int = 0, panel: int = 0, is_nt: bool = False, cluster_n: int = 1, cluster_m: int = 1,
) -> PrimFunc:  # fmt: skip
    """The tile program, for one shape, schedule and types of the factors, the result and the sums. `is_nt`: B is (n, k)."""
    whole, tile = ((n, k), (block_n, block_k)) if is_nt else ((k, n), (block_k, block_n))
    cluster = (cluster_n, cluster_m, 1) if cluster_n * cluster_m > 1 else None

    @T.prim_func
    def gemm(A: T.Tensor((m, k), dtype), B: T.Tensor(whole, dtype), C: T.Tensor((m, n), out_dtype)):
        with T.Kernel(T.ceildiv(n, block_n), T.ceildiv(m, block_m), threads=threads or None, cluster_dims=cluster) as (bx, by):
            T.use_swizzle(panel, enable=panel > 0)
            A_tile = T.alloc_shared((block_m, block_k), dtype)
            B_tile = T.alloc_shared(tile, dtype)
            acc = T.alloc_fragment((block_m, block_n), sum_dtype)
            T.clear(acc)
            for ko in T.Pipelined(T.ceildiv(k, block_k), num_stages=stages):
                add_product(A, B, A_tile, B_tile, acc, by, bx, ko, is_nt)
            if relu:
                for i, j in T.Parallel(block_m, block_n):
                    acc[i, j] = T.max(acc[i, j], 0.0)
            T.copy(acc, C[by * block_m, bx * block_n])

    result: PrimFunc = gemm
    return result


def scaled_program(
    m: int, n: int, k: int, block_m: int, block_n: int, block_k: int, stages: int, dtype: str, out_dtype: str, threads: int = 0, panel: int = 0,
    cluster_n: int = 1, cluster_m: int = 1,
) -> PrimFunc:  # fmt: skip
    """The tile program of C = S[0] * A @ B^T for B (n, k): factors of 8 bits, and one scale for all of them."""
    cluster = (cluster_n, cluster_m, 1) if cluster_n * cluster_m > 1 else None

    @T.prim_func
    def scaled_gemm(A: T.Tensor((m, k), dtype), B: T.Tensor((n, k), dtype), S: T.Tensor((1,), "float32"), C: T.Tensor((m, n), out_dtype)):
        with T.Kernel(T.ceildiv(n, block_n), T.ceildiv(m, block_m), threads=threads or None, cluster_dims=cluster) as (bx, by):
            T.use_swizzle(panel, enable=panel > 0)
            A_tile = T.alloc_shared((block_m, block_k), dtype)
            B_tile = T.alloc_shared((block_n, block_k), dtype)
            acc = T.alloc_fragment((block_m, block_n), "float32")
            T.clear(acc)
            for ko in T.Pipelined(T.ceildiv(k, block_k), num_stages=stages):
                add_product(A, B, A_tile, B_tile, acc, by, bx, ko, is_nt=True)
            for i, j in T.Parallel(block_m, block_n):
                acc[i, j] = acc[i, j] * S[0]
            T.copy(acc, C[by * block_m, bx * block_n])

    result: PrimFunc = scaled_gemm
    return result


def gemm(
    m: int, n: int, k: int, *, dtype: str = "float32", out_dtype: str = "", relu: bool = False, schedule: Schedule | None = None,
    is_nt: bool = False, target: Any = None,
) -> JITKernel:  # fmt: skip
    """A kernel C = A @ B for A (m, k), B (k, n), C (m, n).

    Args:
        dtype: of A and B; products are summed in float32, or in int32 those of integers. "tfloat32" takes float32 arrays.
        out_dtype: of C; "" is that of A and B, or of the sums of integers.
        relu: whether negative results become 0.
        is_nt: whether B is given as (n, k).
        target: what to compile for; None is the default target.
    """
    s = schedule or default_schedule(m, n, k, dtype, target=target, is_nt=is_nt)
    make, args = _scheduled(m, n, k, s, dtype, out_dtype, relu, is_nt)
    kernel: JITKernel = compiled(make, target)(*args)
    return kernel


def scheduled(m: int, n: int, k: int, s: Schedule, dtype: str, out_dtype: str = "", relu: bool = False, is_nt: bool = False) -> PrimFunc:
    """The tile program of `gemm` for a schedule."""
    make, args = _scheduled(m, n, k, s, dtype, out_dtype, relu, is_nt)
    return make(*args)


def tunable(
    m: int, n: int, k: int, block_m: int, block_n: int, block_k: int, stages: int, threads: int, panel: int, cluster_n: int, cluster_m: int,
    split_k: int, dtype: str, out_dtype: str = "", is_nt: bool = False,
) -> PrimFunc:  # fmt: skip
    """The tile program of `gemm` with its tunables by name, as a search gives them."""
    s = Schedule(block_m, block_n, block_k, stages, threads, panel, cluster_n, cluster_m, split_k)
    return scheduled(m, n, k, s, dtype, out_dtype, is_nt=is_nt)


def _scheduled(
    m: int, n: int, k: int, s: Schedule, dtype: str, out_dtype: str, relu: bool, is_nt: bool
) -> tuple[Callable[..., PrimFunc], tuple[Any, ...]]:
    """Who makes the program for a schedule, and from what."""
    total = "int32" if DType(dtype).is_int else "float32"
    out = out_dtype or (total if dtype in ("int8", "uint8") else "float32" if dtype == "tfloat32" else dtype)
    if m == s.block_m == 1 and not s.threads and dtype in ROW_DTYPES:
        return row_program, (n, k, s.block_n, s.block_k, dtype, out, relu, is_nt)
    args = (m, n, k, s.block_m, s.block_n, s.block_k, s.stages, dtype, out, relu, total, s.threads, s.panel, is_nt, s.cluster_n, s.cluster_m)
    return (split_program, (*args, s.split_k)) if s.split_k > 1 else (program, args)


def scaled_gemm(
    m: int, n: int, k: int, *, dtype: str = "float8_e4m3fn", out_dtype: str = "bfloat16", schedule: Schedule | None = None, target: Any = None
) -> JITKernel:
    """A kernel C = S[0] * A @ B^T for A (m, k), B (n, k), S (1,) in float32, C (m, n). Sums are float32."""
    s = schedule or default_schedule(m, n, k, dtype, target=target, is_nt=True, may_split=False)
    kernel: JITKernel = compiled(scaled_program, target)(
        m, n, k, s.block_m, s.block_n, s.block_k, s.stages, dtype, out_dtype, s.threads, s.panel, s.cluster_n, s.cluster_m
    )  # fmt: skip
    return kernel


def flops(m: int, n: int, k: int) -> int:
    """The textbook's count: a multiplication and an addition for each product."""
    return 2 * m * n * k
