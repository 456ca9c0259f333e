"""How good the time model is on this machine: predicted beside measured time, for the demo's kernels at five schedules each, on one thread.

The machine is measured first, so a prediction is only as good as that record. Cases are timed in turns, a few launches at a time, in processor time
of the one thread; the best counts, since other programs only ever slow a launch down, and the median stands beside it.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..base.machine import Machine
from ..kernels import attention, gemm, softmax
from ..model.report import report
from ..runtime.kernel import JITKernel
from ..runtime.measure import measure

LIMIT = 0.25  # how far a prediction may be from the measured time, as a share of it
TURN_S = 0.2  # of launches of one case in one turn
GEMM = ((32, 32, 32), (64, 64, 64), (256, 256, 256), (512, 64, 128), (128, 512, 512))
SOFTMAX = (1, 2, 8, 32, 128)
ATTENTION = ((32, 32), (64, 128), (128, 128), (256, 64), (16, 512))

Array = NDArray[Any]


@dataclass(frozen=True, slots=True)
class Case:
    """A kernel at one schedule, and what to call it with."""

    kernel: str
    schedule: str
    make: Callable[[], JITKernel]
    inputs: tuple[Array, ...]


@dataclass(frozen=True, slots=True)
class Row:
    """Seconds predicted, and measured: all launches, in the order they were made. `roof` is the binding one's name and seconds."""

    kernel: str
    schedule: str
    predicted: float
    runs: tuple[float, ...]
    roof: str = ""

    @property
    def best(self) -> float:
        return min(self.runs)

    @property
    def median(self) -> float:
        return statistics.median(self.runs)

    @property
    def ratio(self) -> float:
        """Predicted over the best measured time."""
        return self.predicted / self.best

    @property
    def is_within(self) -> bool:
        return abs(self.ratio - 1) <= LIMIT


@dataclass(frozen=True, slots=True)
class Predictions:
    """All rows, for the machine they were predicted for."""

    machine: Machine
    rows: tuple[Row, ...]

    @property
    def is_within(self) -> bool:
        return all(row.is_within for row in self.rows)

    def table(self) -> str:
        """Best predictions first, the worst last."""
        lines = [
            f"{self.machine.name}, 1 thread; measured {self.machine.date}",
            _line("kernel", "schedule", "predicted", "best", "median", "ratio", ""),
        ]
        for row in sorted(self.rows, key=lambda r: abs(r.ratio - 1)):
            times = (f"{seconds * 1e3:.2f} ms" for seconds in (row.predicted, row.best, row.median))
            lines.append(_line(row.kernel, row.schedule, *times, f"{row.ratio:.2f}", row.roof if row.is_within else f"{row.roof}  OVER"))
        good = sum(row.is_within for row in self.rows)
        lines.append(f"{good} of {len(self.rows)} within {LIMIT:.0%} of the best measured time")
        return "\n".join([*lines, *(f"note: {note}" for note in self.machine.notes)])

    def as_json(self) -> dict[str, Any]:
        """The numbers of the table, in seconds."""
        names = ("kernel", "schedule", "predicted", "best", "median", "ratio", "roof")
        rows = [{**{name: getattr(row, name) for name in names}, "runs": len(row.runs)} for row in self.rows]
        return {"machine": self.machine.name, "date": self.machine.date, "notes": list(self.machine.notes), "rows": rows, "within": self.is_within}


def _line(kernel: str, schedule: str, *cells: str) -> str:
    return f"{kernel:<17} {schedule:<12} {cells[0]:>11} {cells[1]:>11} {cells[2]:>11} {cells[3]:>6}  {cells[4]}".rstrip()


def cases(n: int = 1024, rows: int = 8192, cols: int = 4096, heads: int = 8, seq: int = 1024) -> Iterator[Case]:
    """The demo's kernels, small, medium, large and skewed tiles of each."""
    for dtype, short in (("float32", "f32"), ("float16", "f16")):
        operands = (_random(1, n, n, dtype=dtype), _random(2, n, n, dtype=dtype))
        for tile in GEMM:
            made = partial(gemm.gemm, n, n, n, dtype=dtype, relu=True, schedule=gemm.Schedule(*tile))
            yield Case(f"gemm {short} + relu", str(gemm.Schedule(*tile)), made, operands)
    x = (_random(3, rows, cols),)
    for block in SOFTMAX:
        yield Case("softmax", str(softmax.Schedule(block)), partial(softmax.softmax, rows, cols, schedule=softmax.Schedule(block)), x)
    qkv = tuple(_random(seed, 1, heads, seq, 64) for seed in (4, 5, 6))
    for causal in (False, True):
        for pair in ATTENTION:
            made = partial(attention.attention, 1, heads, seq, 64, causal=causal, schedule=attention.Schedule(*pair))
            yield Case("attention causal" if causal else "attention", str(attention.Schedule(*pair)), made, qkv)


def _random(seed: int, *shape: int, dtype: str = "float32") -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def run(repeat: int = 5) -> Predictions:
    """Measure the machine, predict every case, and time each in `repeat` turns."""
    machine = measure(force=True)
    made = [(case, _prepared(case)) for case in cases()]
    runs: list[list[float]] = [[] for _ in made]
    for _ in range(repeat):
        for (_, launch), times in zip(made, runs, strict=True):
            times += _some_runs(launch)
    rows = [_row(case, machine, tuple(times)) for (case, _), times in zip(made, runs, strict=True)]
    return Predictions(machine, tuple(rows))


def _prepared(case: Case) -> Callable[[], None]:
    """A launch on bound arguments, so that outputs are not allocated each time."""
    kernel = case.make()
    kernel.num_threads = 1
    call = kernel.bind(*case.inputs)
    kernel.executable.launch(call)
    return partial(kernel.executable.launch, call)


def _some_runs(launch: Callable[[], None]) -> list[float]:
    """Processor seconds of the launches of one turn; the first, which finds cold caches, is left out."""
    launch()
    out: list[float] = []
    stop = time.perf_counter() + TURN_S
    while not out or time.perf_counter() < stop:
        start = time.thread_time()
        launch()
        out.append(time.thread_time() - start)
    return out


def _row(case: Case, machine: Machine, runs: tuple[float, ...]) -> Row:
    kernel = case.make()
    found = report(kernel.ir, machine, {}, threads=1)
    return Row(case.kernel, case.schedule, found.predicted.value, runs, found.bound)
