"""`tileworkbench demo`: compile and run the kernel library here, check it, and show where each kernel stands.

Every result is compared with an independent formula in float64 whose tolerance follows from the number format and the length of the sums. Without a
C compiler the same programs run through the interpreter, at small sizes. `--target cuda` runs them on the GPU here, with its schedules and types;
`--target emulate:sm_80` what a GPU would run, at small sizes and without a time.
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
from .kernels.choice import gpu_of
from .model.report import Report, percent
from .model.report import report as make_report
from .model.values import show
from .runtime.cuda_arrays import fetch
from .runtime.fork import available_cores
from .runtime.gpu_limits import machine_of
from .runtime.kernel import JITKernel
from .runtime.libcuda import require_driver
from .runtime.measure import measure as measure_machine
from .runtime.options import target_name
from .runtime.target_cuda import machine_for
from .runtime.targets import choose_target, get_target
from .runtime.timing import measure
from .views.panel import Panel
from .views.report_html import ReportPage, Result

Array = NDArray[Any]
LEVELS, GPU_LEVELS = ("L1", "L2", "L3", "DRAM"), ("shared", "L2", "DRAM")


def head_of(machine: Machine) -> tuple[str, ...]:
    """Titles of the table's columns."""
    rate, levels = ("TFLOP/s", GPU_LEVELS) if machine.is_gpu else ("GFLOP/s", LEVELS)
    return ("kernel", "shape", "schedule", "compile ms", "run ms", rate, "of the roof", *levels, "check")


def widths_of(machine: Machine) -> tuple[int, ...]:
    """Characters of each column."""
    return (16, 20, 18, 10, 8, 8, 12, 8, 8, 8, 5) if machine.is_gpu else (16, 18, 11, 10, 8, 8, 12, 8, 8, 8, 8, 5)


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


def run_demo(out: str | Path = "tileworkbench-demo.html", threads: int | None = None, *, quick: bool = False, target: str = "") -> int:
    """Run all cases, print a table, write the report to `out`. Returns 0, or 1 if a result was wrong.

    target: what to compile for; "" is the C target, or without a compiler the interpreter. Raises: UnsupportedError for one that cannot run here.
    """
    if target:
        return _run_on(target, out, threads or available_cores(), quick=quick)
    has_compiler = not get_target("c").usable()
    threads = threads or available_cores()
    if not has_compiler:
        print("No C compiler found: the kernels run through the interpreter at small sizes. Install gcc, clang, or `pip install tileworkbench[cc]`.")
        os.environ.setdefault("TILEWORKBENCH_TARGET", "interpret")  # asked for, it is used without another notice
    print("Measuring this machine (once; later runs read the record) ...", flush=True)
    machine = measure_machine()
    return _show(cases(small=not has_compiler, quick=quick), machine, out, threads, is_compiled=has_compiler)


def _run_on(target: str, out: str | Path, threads: int, *, quick: bool) -> int:
    """The demo on a target that was asked for."""
    chosen = choose_target(target_name(target))
    if chosen.name == "cuda":
        driver = require_driver()
        device = driver.device(driver.current_ordinal())
        print(f"{device.name}, {device.sms} SMs, compute capability {device.capability[0]}.{device.capability[1]}")
        return _show(gpu_cases(quick=quick, target=target), machine_for(gpu_of(target)), out, threads, is_compiled=True)
    is_timed = chosen.name not in ("interpret", "emulate")
    machine = machine_of(gpu_of(target)) if chosen.name == "emulate" else measure_machine()
    return _show(cases(small=not is_timed, quick=quick, target=target), machine, out, threads, is_compiled=is_timed)


def _show(made: Sequence[Case], machine: Machine, out: str | Path, threads: int, *, is_compiled: bool) -> int:
    """Run the cases, and print and write what they gave."""
    print(_machine_line(machine, threads))
    print(_row(head_of(machine), machine))
    print("  ".join("-" * w for w in widths_of(machine)))
    outcomes = []
    for case in made:
        outcomes.append(_run(case, machine, threads, is_compiled=is_compiled))
        print(_row(_cells(outcomes[-1]), machine), flush=True)
    notes = _notes(outcomes, threads)
    if is_compiled and not machine.is_gpu:
        notes += _peers(outcomes)
    for note in notes:
        print(note)
    place = _page(outcomes, machine, threads, notes).save(Path(out))
    print(f"report: {place.resolve()}")
    return 0 if all(o.is_right for o in outcomes) else 1


# ---------------------------------------------------------------------------------------------- the cases
def cases(*, small: bool = False, quick: bool = False, target: str | None = None) -> list[Case]:
    """GEMM in float32 and float16 with ReLU, softmax, attention full and causal; `small` for the interpreter, `quick` for a short run."""
    n = 128 if small else 512 if quick else 1024
    rows, cols = (64, 256) if small else (1024, 1024) if quick else (8192, 4096)
    heads, seq = (1, 128) if small else (4, 512) if quick else (8, 1024)
    return [
        _gemm_case(n, "float32", peer="" if small or quick else "numpy.gemm", target=target),
        _gemm_case(n, "float16", target=target),
        _softmax_case(rows, cols, target=target),
        _attention_case(heads, seq, 64, causal=False, peer="" if small or quick else "torch.attention", target=target),
        _attention_case(heads, seq, 64, causal=True, peer="" if small or quick else "torch.causal", target=target),
    ]


def gpu_cases(*, quick: bool = False, target: str = "cuda") -> list[Case]:
    """The same kernels at a GPU's sizes, products and attention in float16."""
    n, rows, heads, seq = (1024, 4096, 2, 1024) if quick else (4096, 32768, 8, 2048)
    return [
        _gemm_case(n // 2, "float32", target=target),
        _gemm_case(n, "float16", target=target),
        _softmax_case(rows, 4096, target=target),
        *(_attention_case(heads, seq, 128, causal=causal, target=target, dtype="float16") for causal in (False, True)),
    ]


def _random(seed: int, *shape: int, dtype: str = "float32") -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def _gemm_case(n: int, dtype: str, peer: str = "", target: str | None = None) -> Case:
    a, b = _random(1, n, n, dtype=dtype), _random(2, n, n, dtype=dtype)

    def judge() -> tuple[Array, Array]:
        """Each sum of n products is off by at most n roundings of its absolute terms, twice that where a matrix unit cuts off; then one more."""
        wide_a, wide_b = a.astype(np.float64), b.astype(np.float64)
        want = np.maximum(wide_a @ wide_b, 0)
        steps = 2 * n if gpu_of(target) else n
        return want, steps * _roundoff("float32") * (np.abs(wide_a) @ np.abs(wide_b)) + _roundoff(dtype) * np.abs(want)

    schedule = gemm.default_schedule(n, n, n, dtype, target=target) if target else gemm.default_schedule(n, n, n)
    short = {"float32": "f32", "float16": "f16"}[dtype]
    make = lambda: gemm.gemm(n, n, n, dtype=dtype, relu=True, schedule=schedule, target=target)
    return Case(f"gemm {short} + relu", f"{n} x {n} x {n}", schedule, make, (a, b), judge, gemm.flops(n, n, n), peer)


def _softmax_case(rows: int, cols: int, target: str | None = None) -> Case:
    x = _random(3, rows, cols)

    def judge() -> tuple[Array, Array]:
        """exp of a difference d is off by |d| roundings and a few for its polynomial; the sum by one for each term."""
        away = x.astype(np.float64) - x.max(axis=1, keepdims=True)
        e = np.exp(away)
        want = e / e.sum(axis=1, keepdims=True)
        return want, want * _roundoff("float32") * (2 * np.abs(away) + 16 + cols)

    schedule = softmax.default_schedule(rows, cols, target=target)
    make = lambda: softmax.softmax(rows, cols, schedule=schedule, target=target)
    return Case("softmax", f"{rows} x {cols}", schedule, make, (x,), judge, softmax.flops(rows, cols))


def _attention_case(
    heads: int, seq: int, dim: int, *, causal: bool, peer: str = "", target: str | None = None, dtype: str = "float32"
) -> Case:  # fmt: skip
    q, k, v = (_random(seed, 1, heads, seq, dim, dtype=dtype) for seed in (4, 5, 6))

    def judge() -> tuple[Array, Array]:
        """A score that is off by e changes its weight by the factor exp(e), and so the output by at most 2e of the weighted |V|.

        Weights of a narrower type are rounded once more, and so is the result.
        """
        u, narrow = _roundoff("float32"), 0.0 if dtype == "float32" else 2 * _roundoff(dtype)
        wide = [t.astype(np.float64) for t in (q, k, v)]
        scores = wide[0] @ wide[1].swapaxes(-1, -2) / np.sqrt(dim)
        slip = (dim + 8) * u * (np.abs(wide[0]) @ np.abs(wide[1]).swapaxes(-1, -2) / np.sqrt(dim)).max(axis=-1, keepdims=True)
        if causal:
            scores = np.where(np.tril(np.ones((seq, seq), dtype=bool)), scores, -np.inf)
        weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
        weights /= weights.sum(axis=-1, keepdims=True)
        return weights @ wide[2], (2 * slip + 2 * (seq + 16) * u + narrow) * (weights @ np.abs(wide[2]))

    schedule = attention.default_schedule(seq, dim, dtype, causal, target=target)
    make = lambda: attention.attention(1, heads, seq, dim, causal=causal, dtype=dtype, schedule=schedule, target=target)
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
    send: Callable[[Array], Any] = getattr(kernel.executable, "send", lambda array: array)  # to the GPU, where the kernel runs on one
    inputs = tuple(send(array) for array in case.inputs)
    start = time.perf_counter()
    given = kernel(*inputs)
    got = np.asarray(given if isinstance(given, np.ndarray) else fetch(given)).astype(np.float64)
    first_s = time.perf_counter() - start
    want, allowed = case.judge()
    with np.errstate(invalid="ignore"):
        error = float(np.max(np.abs(got - want) / np.maximum(allowed, np.finfo(np.float32).tiny)))
    error = error if np.isfinite(error) else np.inf
    report = _report(kernel, case, inputs, machine, is_compiled=is_compiled)
    out = Outcome(case, kernel, compile_ms, report.measured.value if report.measured is not None else first_s, error, report)
    if case.peer and is_compiled:
        kernel.num_threads = 1
        out.one_thread_s = peers.cpu_times(lambda: kernel(*case.inputs), 1.0)
        kernel.num_threads = threads
    return out


def _report(kernel: JITKernel, case: Case, inputs: Sequence[Any], machine: Machine, *, is_compiled: bool) -> Report:
    """The kernel's report, with half a second of measured launches; an interpreted run says nothing about the machine and is not measured."""
    call = kernel.bind(*inputs)
    clock, made = kernel.clock_for(inputs), kernel.schedule
    seconds = [t / 1e3 for t in measure(lambda: kernel.executable.launch(call), rep_ms=500, clock=clock).runs_ms] if is_compiled else []
    compiled = kernel.resources.compiled_for(machine) if machine.is_gpu else ()
    return make_report(
        kernel.ir, machine, call.dims, threads=call.threads, seconds=seconds, useful_flops=case.flops, schedule=made, compiled=compiled
    )


def _cells(o: Outcome) -> tuple[str, ...]:
    r = o.report
    below = {level.name: level for level in r.levels}
    cached = "*" if o.kernel.facts.was_cached else ""
    if r.measured is not None:
        name, share = max(r.shares.items(), key=lambda item: item[1])
        roof = f"{percent(share)} {name}"
    else:
        roof = "-"
    levels = GPU_LEVELS if r.machine.is_gpu else LEVELS
    sizes = [f"{'' if below[n].is_counted else '~'}{show(below[n].cold_bytes, 'B', 2)}" if n in below else "-" for n in levels]
    rate = f"{o.case.flops / o.run_s / (1e12 if r.machine.is_gpu else 1e9):.3g}"
    rate = "-" if r.machine.is_gpu and r.measured is None else rate  # emulated
    return (
        o.case.name, o.case.shape, str(o.case.schedule), f"{o.compile_ms:.0f}{cached}", f"{o.run_s * 1e3:.3g}", rate, roof, *sizes,
        "ok" if o.is_right else "WRONG",
    )  # fmt: skip


def _row(cells: Sequence[str], machine: Machine) -> str:
    widths = widths_of(machine)
    return "  ".join(c.ljust(w) if i < 3 or i == len(widths) - 1 else c.rjust(w) for i, (c, w) in enumerate(zip(cells, widths, strict=True))).rstrip()


def _machine_line(machine: Machine, threads: int) -> str:
    if machine.is_gpu:
        half, single = machine.peak("float16>float32", machine.cores), machine.peak("float32", machine.cores)
        return f"{machine.name}: {half} float16, {single} float32, DRAM {machine.bandwidth('DRAM', machine.cores)}, {machine.workers()}"
    peak, dram = machine.peak("float32", threads), machine.bandwidth("DRAM", threads)
    return f"{machine.name}: {peak} float32, DRAM {dram}, on {threads} thread{'s' if threads != 1 else ''}"


def _notes(outcomes: Sequence[Outcome], threads: int) -> list[str]:
    notes = []
    if any(o.kernel.facts.was_cached for o in outcomes):
        notes.append("* compile: read from the disk cache (`tileworkbench cache --clear` empties it)")
    is_gpu = any(o.report.machine.is_gpu for o in outcomes)
    rate, nearest = ("TFLOP/s", "shared") if is_gpu else ("GFLOP/s", "L1")
    notes.append(
        f"{rate}: textbook operations; bytes of one launch: {nearest} counted, ~ predicted, from empty caches; check: against NumPy in float64"
    )
    if is_gpu and all(o.report.measured is None for o in outcomes):
        notes.append("run ms: of the emulator, thread by thread; it says nothing about a GPU")
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
        language = "cuda" if o.report.machine.is_gpu else "c"
        panel = Panel(o.report, o.kernel.source, o.kernel.lines, language if o.kernel.executable.source else "python", checks=(check,))
        results.append(Result(o.case.name, f"{o.case.shape}, schedule {o.case.schedule}", panel))
    intro = [_machine_line(machine, threads), f"{time.strftime('%Y-%m-%d')}; everything on this page is in this file"]
    return ReportPage("Tile Workbench: the kernel library on this machine", intro, head_of(machine), [_cells(o) for o in outcomes], results, notes)
