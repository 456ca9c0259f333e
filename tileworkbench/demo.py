"""`tileworkbench demo`: compile and run the kernel library here, check it, and show where each kernel stands.

Every result is compared with an independent formula in float64 whose tolerance follows from the number format and the length of the sums. Without a
C compiler the same programs run through the interpreter, at small sizes.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .base.dtypes import DType
from .base.machine import Machine
from .bench import peers
from .kernels import attention, gemm, softmax
from .model.report import Report, percent
from .model.report import report as make_report
from .model.values import show
from .runtime.fork import available_cores
from .runtime.kernel import JITKernel
from .runtime.measure import measure as measure_machine
from .runtime.targets import get_target
from .runtime.timing import measure
from .views.panel import Panel
from .views.report_html import ReportPage, Result

Array = NDArray[Any]
HEAD = ("kernel", "shape", "schedule", "compile ms", "run ms", "GFLOP/s", "of the roof", "L1", "L2", "L3", "DRAM", "check")
WIDTHS = (16, 18, 11, 10, 8, 8, 12, 8, 8, 8, 8, 5)


@dataclass(frozen=True, slots=True)
class Case:
    """One line of the demo. `make` compiles; `judge` maps outputs to (reference, allowed difference), both float64 arrays."""

    name: str
    shape: str
    schedule: object
    make: Callable[[], JITKernel]
    inputs: tuple[Array, ...]
    judge: Callable[[], tuple[Array, Array]]
    flops: int
    peer: str = ""  # what it is compared with: "numpy.gemm", "torch.attention", "torch.causal"


@dataclass(slots=True)
class Outcome:
    """What one case gave. `error` is the largest difference over what is allowed; at most 1 where the result is right."""

    case: Case
    kernel: JITKernel
    compile_ms: float
    run_s: float
    error: float
    report: Report
    one_thread_s: list[float] = field(default_factory=list)

    @property
    def is_right(self) -> bool:
        return self.error <= 1


def run_demo(out: str | Path = "tileworkbench-demo.html", threads: int | None = None, *, quick: bool = False) -> int:
    """Run all cases, print a table, write the report to `out`. Returns 0, or 1 if a result was wrong."""
    has_compiler = not get_target("c").usable()
    threads = threads or available_cores()
    if not has_compiler:
        print("No C compiler found: the kernels run through the interpreter at small sizes. Install gcc, clang, or `pip install tileworkbench[cc]`.")
        os.environ.setdefault("TILEWORKBENCH_TARGET", "interpret")  # asked for, it is used without another notice
    print("Measuring this machine (once; later runs read the record) ...", flush=True)
    machine = measure_machine()
    print(_machine_line(machine, threads))
    print(_row(HEAD))
    print("  ".join("-" * w for w in WIDTHS))
    outcomes = []
    for case in cases(small=not has_compiler, quick=quick):
        outcomes.append(_run(case, machine, threads, is_compiled=has_compiler))
        print(_row(_cells(outcomes[-1])), flush=True)
    notes = _notes(outcomes, threads)
    if has_compiler:
        notes += _peers(outcomes)
    for note in notes:
        print(note)
    place = _page(outcomes, machine, threads, notes).save(Path(out))
    print(f"report: {place.resolve()}")
    return 0 if all(o.is_right for o in outcomes) else 1


# ---------------------------------------------------------------------------------------------- the cases
def cases(*, small: bool = False, quick: bool = False) -> list[Case]:
    """GEMM in float32 and float16 with ReLU, softmax, attention full and causal; `small` for the interpreter, `quick` for a short run."""
    n = 128 if small else 512 if quick else 1024
    rows, cols = (64, 256) if small else (1024, 1024) if quick else (8192, 4096)
    heads, seq = (1, 128) if small else (4, 512) if quick else (8, 1024)
    return [
        _gemm_case(n, "float32", peer="" if small or quick else "numpy.gemm"),
        _gemm_case(n, "float16"),
        _softmax_case(rows, cols),
        _attention_case(heads, seq, 64, causal=False, peer="" if small or quick else "torch.attention"),
        _attention_case(heads, seq, 64, causal=True, peer="" if small or quick else "torch.causal"),
    ]


def _random(seed: int, *shape: int, dtype: str = "float32") -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def _gemm_case(n: int, dtype: str, peer: str = "") -> Case:
    a, b = _random(1, n, n, dtype=dtype), _random(2, n, n, dtype=dtype)

    def judge() -> tuple[Array, Array]:
        """Each sum of n products is off by at most n roundings of its absolute terms; then one rounding to the result's type."""
        wide_a, wide_b = a.astype(np.float64), b.astype(np.float64)
        want = np.maximum(wide_a @ wide_b, 0)
        return want, n * _roundoff("float32") * (np.abs(wide_a) @ np.abs(wide_b)) + _roundoff(dtype) * np.abs(want)

    schedule = gemm.default_schedule(n, n, n)
    short = {"float32": "f32", "float16": "f16"}[dtype]
    make = lambda: gemm.gemm(n, n, n, dtype=dtype, relu=True, schedule=schedule)
    return Case(f"gemm {short} + relu", f"{n} x {n} x {n}", schedule, make, (a, b), judge, gemm.flops(n, n, n), peer)


def _softmax_case(rows: int, cols: int) -> Case:
    x = _random(3, rows, cols)

    def judge() -> tuple[Array, Array]:
        """exp of a difference d is off by |d| roundings and a few for its polynomial; the sum by one for each term."""
        away = x.astype(np.float64) - x.max(axis=1, keepdims=True)
        e = np.exp(away)
        want = e / e.sum(axis=1, keepdims=True)
        return want, want * _roundoff("float32") * (2 * np.abs(away) + 16 + cols)

    schedule = softmax.default_schedule(rows, cols)
    make = lambda: softmax.softmax(rows, cols, schedule=schedule)
    return Case("softmax", f"{rows} x {cols}", schedule, make, (x,), judge, softmax.flops(rows, cols))


def _attention_case(heads: int, seq: int, dim: int, *, causal: bool, peer: str = "") -> Case:
    q, k, v = (_random(seed, 1, heads, seq, dim) for seed in (4, 5, 6))

    def judge() -> tuple[Array, Array]:
        """A score that is off by e changes its weight by the factor exp(e), and so the output by at most 2e of the weighted |V|."""
        u = _roundoff("float32")
        wide = [t.astype(np.float64) for t in (q, k, v)]
        scores = wide[0] @ wide[1].swapaxes(-1, -2) / np.sqrt(dim)
        slip = (dim + 8) * u * (np.abs(wide[0]) @ np.abs(wide[1]).swapaxes(-1, -2) / np.sqrt(dim)).max(axis=-1, keepdims=True)
        if causal:
            scores = np.where(np.tril(np.ones((seq, seq), dtype=bool)), scores, -np.inf)
        weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
        weights /= weights.sum(axis=-1, keepdims=True)
        return weights @ wide[2], (2 * slip + 2 * (seq + 16) * u) * (weights @ np.abs(wide[2]))

    schedule = attention.default_schedule(seq, dim, causal=causal)
    make = lambda: attention.attention(1, heads, seq, dim, causal=causal, schedule=schedule)
    name = "attention causal" if causal else "attention"
    return Case(name, f"{heads}h {seq} x {dim}", schedule, make, (q, k, v), judge, attention.flops(1, heads, seq, dim, causal=causal), peer)


def _roundoff(dtype: str) -> float:
    return DType(dtype).unit_roundoff


# ---------------------------------------------------------------------------------------------- running
def _run(case: Case, machine: Machine, threads: int, *, is_compiled: bool) -> Outcome:
    start = time.perf_counter()
    kernel = case.make()
    compile_ms = (time.perf_counter() - start) * 1e3
    kernel.num_threads = threads
    start = time.perf_counter()
    got = np.asarray(kernel(*case.inputs), dtype=np.float64)
    first_s = time.perf_counter() - start
    want, allowed = case.judge()
    with np.errstate(invalid="ignore"):
        error = float(np.max(np.abs(got - want) / np.maximum(allowed, np.finfo(np.float32).tiny)))
    error = error if np.isfinite(error) else np.inf
    report = _report(kernel, case, machine, is_compiled=is_compiled)
    out = Outcome(case, kernel, compile_ms, report.measured.value if report.measured is not None else first_s, error, report)
    if case.peer and is_compiled:
        kernel.num_threads = 1
        out.one_thread_s = peers.cpu_times(lambda: kernel(*case.inputs), 1.0)
        kernel.num_threads = threads
    return out


def _report(kernel: JITKernel, case: Case, machine: Machine, *, is_compiled: bool) -> Report:
    """The kernel's report, with half a second of measured launches; an interpreted run says nothing about the machine and is not measured."""
    call = kernel.bind(*case.inputs)
    seconds = [t / 1e3 for t in measure(lambda: kernel.executable.launch(call), rep_ms=500).runs_ms] if is_compiled else []
    made = kernel.schedule
    return make_report(kernel.ir, machine, call.dims, threads=call.threads, seconds=seconds, useful_flops=case.flops, schedule=made)


def _cells(o: Outcome) -> tuple[str, ...]:
    r = o.report
    below = {level.name: level for level in r.levels}
    cached = "*" if o.kernel.facts.was_cached else ""
    if r.measured is not None:
        name, share = max(r.shares.items(), key=lambda item: item[1])
        roof = f"{percent(share)} {name}"
    else:
        roof = "-"
    sizes = [f"{'' if below[n].is_counted else '~'}{show(below[n].cold_bytes, 'B', 2)}" if n in below else "-" for n in ("L1", "L2", "L3", "DRAM")]
    rate = o.case.flops / o.run_s / 1e9
    return (
        o.case.name, o.case.shape, str(o.case.schedule), f"{o.compile_ms:.0f}{cached}", f"{o.run_s * 1e3:.3g}", f"{rate:.3g}", roof, *sizes,
        "ok" if o.is_right else "WRONG",
    )  # fmt: skip


def _row(cells: Sequence[str]) -> str:
    return "  ".join(c.ljust(w) if i < 3 or i == len(WIDTHS) - 1 else c.rjust(w) for i, (c, w) in enumerate(zip(cells, WIDTHS, strict=True))).rstrip()


def _machine_line(machine: Machine, threads: int) -> str:
    peak, dram = machine.peak("float32", threads), machine.bandwidth("DRAM", threads)
    return f"{machine.name}: {peak} float32, DRAM {dram}, on {threads} thread{'s' if threads != 1 else ''}"


def _notes(outcomes: Sequence[Outcome], threads: int) -> list[str]:
    notes = []
    if any(o.kernel.facts.was_cached for o in outcomes):
        notes.append("* compile: read from the disk cache (`tileworkbench cache --clear` empties it)")
    notes.append("GFLOP/s: textbook operations; bytes of one launch: L1 counted, ~ predicted, from empty caches; check: against NumPy in float64")
    high = [o.case.name for o in outcomes if o.report.measured is not None and max(o.report.shares.values()) > 1.05]
    if high:
        notes.append(f"above a roof: {', '.join(high)}; the roofs were measured on a busier machine, `tileworkbench doctor --measure` repeats them")
    notes += [text for o in outcomes if o.report.measured is not None for text in o.kernel.facts.notes]
    return list(dict.fromkeys(notes))


# ---------------------------------------------------------------------------------------------- beside other libraries
def _peers(outcomes: Sequence[Outcome]) -> list[str]:
    """One line for each problem of a library that is installed: our best processor time against its best, one thread each."""
    asked = [o for o in outcomes if o.case.peer and o.one_thread_s]
    if not asked:
        return []
    found = peers.measure_peers()
    lines = []
    for o in asked:
        library, _, problem = o.case.peer.partition(".")
        if problem not in found.get(library, {}):
            continue
        ours, theirs = min(o.one_thread_s), min(found[library][problem])
        what = {"gemm": "matmul", "attention": "scaled_dot_product_attention", "causal": "scaled_dot_product_attention, causal"}[problem]
        rate = f"{o.case.flops / ours / 1e9:.3g} against {o.case.flops / theirs / 1e9:.3g} GFLOP/s"
        lines.append(f"{o.case.name} {o.case.shape}, one thread each: {theirs / ours:.2f} x {library} {found[library]['version']} {what} ({rate})")
    return lines


def _page(outcomes: Sequence[Outcome], machine: Machine, threads: int, notes: Sequence[str]) -> ReportPage:
    results = []
    for o in outcomes:
        check = (f"largest difference from float64 is {o.error:.2g} of what rounding allows", o.is_right)
        panel = Panel(o.report, o.kernel.source, o.kernel.lines, "c" if o.kernel.executable.source else "python", checks=(check,))
        results.append(Result(o.case.name, f"{o.case.shape}, schedule {o.case.schedule}", panel))
    intro = [_machine_line(machine, threads), f"{time.strftime('%Y-%m-%d')}; everything on this page is in this file"]
    return ReportPage("Tile Workbench: the kernel library on this machine", intro, HEAD, [_cells(o) for o in outcomes], results, notes)
