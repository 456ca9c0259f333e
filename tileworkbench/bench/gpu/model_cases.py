"""What the model is held against on a GPU: products, attention, rows of numbers and transposes, each at three schedules."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from ...frontend.prim_func import PrimFunc
from ...kernels import attention, elementwise, gemm, norms, softmax
from .arrays import EPS
from .problems import Problem


@dataclass(frozen=True, slots=True)
class Case:
    """A problem of `bench gpu`, and our program for it at one schedule, in words. `off` says why the model is known to be off, where it is."""

    problem: Problem
    schedule: str
    make: Callable[[], PrimFunc]
    off: str = ""

    @property
    def kernel(self) -> str:
        """The kind of kernel, with its type."""
        return self.problem.group

    @property
    def shape(self) -> str:
        return "x".join(map(str, self.problem.shape)) + (" causal" if self.problem.is_causal else "")

    @property
    def name(self) -> str:
        """The name of its row in a recording."""
        return f"{self.kernel} {self.shape}, {self.schedule}"


def products(n: int, schedules: tuple[gemm.Schedule, ...], dtype: str = "float16") -> list[Case]:
    """C = A @ B of n x n."""
    p = Problem(f"gemm {dtype}", "gemm", (n, n, n), dtype, 0.0)

    def make(s: gemm.Schedule) -> PrimFunc:
        return gemm.program(n, n, n, s.block_m, s.block_n, s.block_k, s.stages, dtype, dtype, False, "float32", s.threads, s.panel)

    return [Case(p, f"{s} panel {s.panel}", partial(make, s)) for s in schedules]


def attentions(
    batch: int, heads: int, seq: int, dim: int, schedules: tuple[attention.Schedule, ...], *, causal: bool = False, dtype: str = "float16"
) -> list[Case]:  # fmt: skip
    """Attention forward."""
    p = Problem(f"attention {dtype}", "attention", (batch, heads, seq, dim), dtype, 0.0, is_causal=causal)

    def make(s: attention.Schedule) -> PrimFunc:
        return attention.program(batch, heads, seq, dim, causal, s.block_m, s.block_n, dtype, 0, s.stages, s.threads)

    return [Case(p, str(s), partial(make, s)) for s in schedules]


def row_kernels(kind: str, rows: int, cols: int, schedules: tuple[tuple[int, int], ...], dtype: str = "float32") -> list[Case]:
    """Softmax or layernorm; schedules are (rows of a block, threads)."""
    p = Problem(f"{kind} {dtype}", kind, (rows, cols), dtype, 0.0)

    def make(block: int, threads: int) -> PrimFunc:
        if kind == "softmax":
            return softmax.program(rows, cols, block, dtype, threads)
        return norms.layernorm_program(rows, cols, block, dtype, EPS, threads)

    return [Case(p, f"{block} row{'s' if block > 1 else ''} t{threads}", partial(make, block, threads)) for block, threads in schedules]


def transposes(rows: int, cols: int, schedules: tuple[tuple[int, int, int], ...], dtype: str = "float32") -> list[Case]:
    """Y = X^T; schedules are (rows, columns of a tile, threads)."""
    p = Problem(f"transpose {dtype}", "transpose", (rows, cols), dtype, 0.0)

    def make(tall: int, wide: int, threads: int) -> PrimFunc:
        return elementwise.transpose_program(rows, cols, tall, wide, dtype, threads)

    return [Case(p, f"{tall}x{wide} t{threads}", partial(make, tall, wide, threads)) for tall, wide, threads in schedules]


DRIFT = "more of B is read again, probably since the blocks that share it are far apart and drift"
TWICE = "L2 was written to twice as often as the bytes need, and nobody knows yet why"


def cases() -> list[Case]:
    """Every row of `bench model`; the last ones are those where the model is known to be off.

    >>> len(cases()), cases()[0].name
    (17, 'gemm float16 4096x4096x4096, 128x256x64 s4 t256 panel 8')
    >>> [case.schedule for case in cases() if case.off]
    ['128x256x64 s4 t256 panel 0', '32x32 t256']
    """
    g, a = gemm.Schedule, attention.Schedule
    return [
        *products(4096, (g(128, 256, 64, 4, 256, 8), g(128, 128, 64, 5, 256, 8), g(64, 128, 64, 4, 128, 0))),
        *products(8192, (g(128, 256, 64, 4, 256, 8), g(128, 128, 64, 5, 256, 8), g(128, 256, 64, 3, 256, 8))),
        *attentions(4, 16, 4096, 128, (a(128, 128, 2, 256), a(128, 64, 2, 256), a(64, 128, 2, 128))),
        *row_kernels("softmax", 65536, 1024, ((1, 64), (1, 128), (4, 128))),
        *transposes(8192, 8192, ((64, 64, 256), (64, 32, 256), (128, 32, 256))),
        *(replace(c, off=DRIFT) for c in products(8192, (g(128, 256, 64, 4, 256, 0),))),
        *(replace(c, off=TWICE) for c in transposes(8192, 8192, ((32, 32, 256),))),
    ]
