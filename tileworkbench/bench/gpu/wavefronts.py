"""The part of `bench model` on shared memory: wavefronts that the emulator counts of a transpose, beside those that Nsight Compute counted on a GPU.

Small transposes, whose tile lies in another way each (`LAYOUTS`), and those of `model_cases`, which fill the chip: of them the emulator runs 2 x 2
blocks, and all blocks do alike. Loads and stores are compared apart; recordings that only have their sum say that.

>>> [name for name, *_ in LAYOUTS]
['row after row', 'rows padded by one', 'pieces of 16 bytes change places', 'the same in float16', 'rows of 128 bytes swizzled']
"""

# mypy: disable-error-code="no-untyped-def, valid-type, untyped-decorator"
# (annotations of a kernel are values of the kernel language, not types)
from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import prod
from typing import Any

import numpy as np

from ... import language as T
from ...base.errors import TileError
from ...frontend.prim_func import PrimFunc
from ...kernels.elementwise import transpose_program
from ...language.hints import Layout
from ...layout import make_full_bank_swizzled_layout, make_linear_layout
from ...model.recorded import RecordedRun
from ...runtime.jit import compile
from .model_cases import Case

KIND, TILES, THREADS = "transpose in a layout", 4, 128
LOADS, STORES, ALL = "shared load wavefronts", "shared store wavefronts", "shared wavefronts"
LAYOUTS: tuple[tuple[str, str, int, Callable[[Any], Any]], ...] = (
    ("row after row", "float32", 32, make_linear_layout),
    ("rows padded by one", "float32", 32, lambda t: Layout((32, 32), lambda i, j: i * 33 + j)),
    ("pieces of 16 bytes change places", "float32", 32, lambda t: Layout((32, 32), lambda i, j: (i * 32 + j) ^ (((i * 32 + j) >> 5) & 28))),
    ("the same in float16", "float16", 64, lambda t: Layout((64, 64), lambda i, j: (i * 64 + j) ^ (((i * 64 + j) >> 6) & 56))),
    ("rows of 128 bytes swizzled", "float32", 32, make_full_bank_swizzled_layout),
)  # fmt: skip
"""Names, element types, tile extents, and the layout of a tile."""


@dataclass(frozen=True, slots=True)
class BankCase:
    """A transpose by its name in a recording: `make` is what a GPU runs, `few` what the emulator runs, `times` fewer blocks of the same."""

    kernel: str
    shape: str
    schedule: str
    make: Callable[[], PrimFunc]
    few: Callable[[], PrimFunc]
    times: int = 1

    @property
    def name(self) -> str:
        return f"{self.kernel} {self.shape}, {self.schedule}"


@dataclass(frozen=True, slots=True)
class BankRow:
    """Wavefronts of one case, by `LOADS`, `STORES` and `ALL`: `emulated` here, `counted` by ncu, as far as it counted; `why` says what is missing."""

    case: BankCase
    emulated: Mapping[str, float] = field(default_factory=dict)
    counted: Mapping[str, float] = field(default_factory=dict)
    why: str = ""

    @property
    def ratios(self) -> dict[str, float]:
        """Emulated over counted, of what both have: of loads and stores, or where ncu did not tell them apart of all."""
        both = [n for n in (LOADS, STORES) if n in self.counted] or [n for n in (ALL,) if n in self.counted]
        return {n: self.emulated[n] / self.counted[n] for n in both if n in self.emulated and self.counted[n]}

    @property
    def line(self) -> str:
        def pair(name: str) -> str:
            cells = [f"{side[name]:.0f}" if name in side else "-" for side in (self.emulated, self.counted)]
            ratio = f"{self.ratios[name]:.3f}" if name in self.ratios else "-"
            return f"{' / '.join(cells):>21} {ratio:>6}"

        return f"{self.case.schedule:<46} {self.case.shape:<10} {pair(LOADS)} {pair(STORES)} {pair(ALL)}" + (f"  ({self.why})" if self.why else "")


def layout_program(ask: Callable[[Any], Any], dtype: str, n: int) -> PrimFunc:
    """The tile program of B = A^T for `TILES` x `TILES` tiles of n x n, which lie as `ask(tile)` says."""

    @T.prim_func
    def transposed(A: T.Tensor((TILES * n, TILES * n), dtype), B: T.Tensor((TILES * n, TILES * n), dtype)):
        with T.Kernel(TILES, TILES, threads=THREADS) as (bx, by):
            t = T.alloc_shared((n, n), dtype)
            T.annotate_layout({t: ask(t)})
            T.copy(A[by * n, bx * n], t)
            for i, j in T.Parallel(n, n):
                B[bx * n + i, by * n + j] = t[j, i]

    result: PrimFunc = transposed
    return result


def bank_cases(large: Sequence[Case]) -> list[BankCase]:
    """A case for each layout, then those of the transposes among `large`."""
    out = []
    for name, dtype, n, ask in LAYOUTS:
        make = partial(layout_program, ask, dtype, n)
        out.append(BankCase(f"{KIND} {dtype}", f"{TILES * n}x{TILES * n}", name, make, make))
    for case in large:
        if case.problem.kind == "transpose":
            tall, wide = (int(part) for part in case.schedule.partition(" ")[0].split("x"))
            threads = int(case.schedule.rpartition("t")[2])
            few = partial(transpose_program, 2 * tall, 2 * wide, tall, wide, case.problem.dtype, threads)
            times = prod(case.problem.shape) // (4 * tall * wide)
            out.append(BankCase(case.kernel, case.shape, case.schedule, case.make, few, times))
    return out


def emulated(case: BankCase, arch: str = "sm_90a") -> tuple[dict[str, float], str]:
    """What the emulator counts of a case, or why it cannot."""
    try:
        kernel = compile(case.few(), target=f"emulate:{arch}", out_idx=-1)
        spec = kernel.signature.tensors[0]
        total = kernel.count(np.zeros([n or 0 for n in spec.static_shape], spec.dtype.to_numpy())).total
    except TileError as error:
        return {}, f"not emulated: {str(error).splitlines()[0]}"
    loads, stores = total.shared_load_wavefronts * case.times, total.shared_store_wavefronts * case.times
    return {LOADS: loads, STORES: stores, ALL: loads + stores}, ""


def bank_rows(cases: Sequence[BankCase], runs: Sequence[RecordedRun], missing: str) -> tuple[BankRow, ...]:
    """A row for each case: emulated now, and counted as `runs` have it; `missing` says why one is not among them."""
    known = {run.name: run for run in runs}
    out = []
    for case in cases:
        said, why = emulated(case)
        run = known.get(case.name)
        counted = {n: run.counters[n] for n in (LOADS, STORES, ALL) if n in run.counters} if run is not None else {}
        if not counted:
            why = "; ".join(x for x in (why, (run.note if run is not None else "") or missing) if x)
        out.append(BankRow(case, said, counted, why))
    return tuple(out)


def bank_table(rows: Sequence[BankRow], where: str) -> list[str]:
    """The rows as text; `where` says where they were counted."""
    pairs = "".join(f" {f'{name}, emulated / ncu':>28}" for name in ("loads", "stores", "all"))
    head = f"{'transposes: wavefronts of shared memory':<46} {'shape':<10}{pairs}"
    counted = [r for r in rows if r.ratios]
    same = sum(all(x == 1 for x in r.ratios.values()) for r in counted)
    last = f"ncu counted what the emulator counts in {same} of {len(counted)} transposes" if counted else "nothing was counted"
    return ["", *([f"counters {where}"] if where else []), head, "-" * len(head), *(row.line for row in rows), last]
