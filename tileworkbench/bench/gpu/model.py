"""`bench model`: what the model says of bytes and time beside a GPU's counters and its clock.

Counters are those of `runtime.counters_cuda`: one launch that finds nothing in L2, and all bytes that it makes memory move. Times are of launches on
a hot chip, each on arrays that the ones before it did not touch. Without a GPU the newest recording is printed, beside what the model says now.
Transposes come once more below, with the wavefronts of shared memory that the emulator counts beside those that were counted (`wavefronts`).
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ...base.machine import Machine, preset_of_device
from ...model.counters import Counters
from ...model.recorded import Origin, RecordedRun, Recording, recordings
from ...model.report import Report, report
from ...runtime.counters_cuda import count_calls
from ...runtime.gpu_driver import driver_version
from ...runtime.jit import compile
from ...runtime.kernel import JITKernel
from ...runtime.libcuda import find_driver, why_no_driver
from ...runtime.measure_cuda import measure_cuda
from . import turns
from .arrays import Set, count_of_sets, make_sets, poison
from .check import check
from .match import CudaClock
from .model_cases import Case, cases
from .wavefronts import BankCase, BankRow, bank_cases, bank_rows, bank_table

COMMAND = "python -m tileworkbench.bench model"
BYTES_LIMIT, TIME_LIMIT = 0.10, 0.25
SAMPLES = 20
NOTES = (
    "bytes: by ncu with --clock-control none --cache-control none; L2 is emptied before the launch, and what the launch leaves in it counts",
    "L2: the model has what blocks ask for; counters see less, probably where the chip merges what neighbouring multiprocessors ask for",
)


@dataclass(frozen=True, slots=True)
class ModelFound:
    """The runs, and for each what the model says now. `why` is not "" where they were recorded elsewhere: why nothing ran here.

    `known` has the reason for each row (by name) of which it is known that the model is off.
    """

    recording: Recording
    predicted: tuple[dict[str, float], ...]
    why: str = ""
    known: Mapping[str, str] = field(default_factory=dict)
    banks: tuple[BankRow, ...] = ()
    banks_where: str = ""

    @property
    def rows(self) -> list[tuple[RecordedRun, dict[str, float]]]:
        """Each run with its prediction."""
        return list(zip(self.recording.runs, self.predicted, strict=True))

    @property
    def is_within(self) -> bool:
        """Whether every row, but those that are known to be off, was counted and timed, and lies within its limits."""
        return bool(self.rows) and all(not over(r, p) for r, p in self.rows if r.name not in self.known)

    def as_json(self) -> dict[str, Any]:
        """The recording, with the predictions of now; `Recording.from_json` reads it."""
        runs = [replace(r, predicted=p) for r, p in self.rows]
        known = {r.name for r in runs}
        small = [RecordedRun(c.kernel, c.shape, c.schedule, counters=b.counted) for b in self.banks if (c := b.case).name not in known and b.counted]
        return Recording(self.recording.origin, (*runs, *(small if not self.why else ()))).as_dict()

    def table(self) -> str:
        """A line a row: bytes at DRAM and at L2, and times, the model's beside the machine's."""
        origin = self.recording.origin
        titles = f"{'DRAM read, MB':>17} {'written, MB':>15} {'ratio':>6} {'L2 read, MB':>18} {'time, us':>17} {'ratio':>6}"
        head = f"{'kernel':<18} {'shape':<17} {'schedule':<27} {titles}"
        where = f"{self.why}: {origin.badge}" if self.why else f"{origin.machine}, {origin.date}, driver {origin.driver}, CUDA {origin.cuda}"
        lines = [where, head, f"{'':<18} {'':<17} {'':<27} {'model / counter':>17}", "-" * len(head)]
        lines += [_line(r, p, self.known.get(r.name, "")) for r, p in self.rows]
        good = sum(not over(r, p) for r, p in self.rows)
        limits = f"DRAM bytes within {BYTES_LIMIT:.0%}, time within {TIME_LIMIT:.0%}".replace("%", " %")
        below = bank_table(self.banks, self.banks_where) if self.banks else ()
        return "\n".join([*lines, f"{good} of {len(self.rows)} rows have {limits}", *NOTES, *below])


def over(run: RecordedRun, predicted: dict[str, float]) -> list[str]:
    """What is not within its limit: "bytes", "time"; what was not measured is not."""
    out = []
    ratio, times = dram_ratio(run, predicted), time_ratio(run, predicted)
    if ratio is None or abs(ratio - 1) > BYTES_LIMIT:
        out.append("bytes")
    if times is None or abs(times - 1) > TIME_LIMIT:
        out.append("time")
    return out


def dram_ratio(run: RecordedRun, predicted: dict[str, float]) -> float | None:
    """Modelled over counted bytes at DRAM, read and written."""
    read, written = run.counters.get("DRAM read"), run.counters.get("DRAM written")
    if read is None or written is None or not read + written:
        return None
    return (predicted["DRAM read"] + predicted["DRAM written"]) / (read + written)


def time_ratio(run: RecordedRun, predicted: dict[str, float]) -> float | None:
    """Predicted over the median measured time."""
    return predicted["seconds"] / statistics.median(run.seconds) if run.seconds else None


def predictions(r: Report) -> dict[str, float]:
    """Seconds, and bytes by level, of a launch that finds nothing in a cache."""
    out = {"seconds": r.predicted.value}
    for level in ("L2", "DRAM"):
        flows = [f for f in r.traffic.flows if f.level == level]
        out |= {f"{level} read": sum(f.read_bytes for f in flows), f"{level} written": sum(f.write_bytes for f in flows)}
    return out


def _line(run: RecordedRun, predicted: dict[str, float], known: str) -> str:
    def pair(name: str) -> str:
        seen = run.counters.get(name)
        return f"{predicted[name] / 1e6:.1f} / {'-' if seen is None else f'{seen / 1e6:.1f}'}"

    seconds = f"{statistics.median(run.seconds) * 1e6:.1f}" if run.seconds else "-"
    times = f"{predicted['seconds'] * 1e6:.1f} / {seconds}"
    ratios = [f"{x:.2f}" if x is not None else "-" for x in (dram_ratio(run, predicted), time_ratio(run, predicted))]
    mark = " OVER: " + " and ".join(found) + (f", known: {known}" if known else "") if (found := over(run, predicted)) else ""
    cells = f"{pair('DRAM read'):>17} {pair('DRAM written'):>15} {ratios[0]:>6} {pair('L2 read'):>18} {times:>17} {ratios[1]:>6}"
    return f"{run.kernel:<18} {run.shape:<17} {run.schedule:<27} {cells}{mark}" + (f"  ({run.note})" if run.note else "")


# ------------------------------------------------------------------------------------------- running
def run(*_: Any) -> ModelFound:
    """Count and time every case on the GPU here; without one, the newest recording."""
    why = why_no_gpu()
    found = recorded(why) if why else measured(cases())
    return replace(found, known={case.name: case.off for case in cases() if case.off})


def recorded_banks(chosen: Sequence[BankCase]) -> tuple[tuple[BankRow, ...], str]:
    """Wavefronts as the newest recordings have them, beside what the emulator counts now; and where they were counted."""
    runs: dict[str, RecordedRun] = {}
    badges: list[str] = []
    names = {case.name for case in chosen}
    for held in recordings().values():
        mine = {run.name: run for run in held.runs if run.name in names}
        runs |= mine
        badges += [held.origin.badge] if mine else []
    return bank_rows(chosen, list(runs.values()), "not recorded yet"), "; ".join(dict.fromkeys(badges))


def why_no_gpu() -> str:
    """Why nothing can run here, or ""."""
    if find_driver() is None:
        return f"no GPU here ({why_no_driver()})"
    try:
        import torch
    except ImportError:
        return "no PyTorch here, which makes the arrays"
    return "" if torch.cuda.is_available() else "PyTorch finds no GPU here"


def recorded(why: str) -> ModelFound:
    """The newest recording of these cases, beside what the model says now; rows whose case is gone are left out."""
    known = {case.name: case for case in cases()}
    kept = [r for r in recordings().values() if any(run.name in known for run in r.runs)]
    if not kept:
        return ModelFound(Recording(Origin("", "", "", "", COMMAND)), (), f"{why}, and nothing is recorded")
    newest = kept[-1]
    runs = tuple(r for r in newest.runs if r.name in known)
    said = [predictions(newest.report(replace(r, seconds=()), known[r.name].make().kernel)) for r in runs]
    banks, where = recorded_banks(bank_cases(list(known.values())))
    return ModelFound(Recording(newest.origin, runs), tuple(said), why, banks=banks, banks_where=where)


def measured(chosen: Sequence[Case]) -> ModelFound:
    """Count and time `chosen` on the current device. Kernels are checked against float64 first: a wrong one is not counted."""
    import torch

    name = str(torch.cuda.get_device_name())
    machine = preset_of_device(name) or measure_cuda()
    clock = CudaClock(torch)
    kept: dict[str, list[Set]] = {}
    runs: list[RecordedRun] = []
    calls: list[tuple[int, JITKernel, Set]] = []
    for case in chosen:
        sets = kept.setdefault(case.problem.name, [])
        sets += [] if sets else make_sets(torch, case.problem, "cuda", count_of_sets(case.problem))
        made, kernel = _timed(torch, clock, case, sets, machine)
        if kernel is not None:
            calls.append((len(runs), kernel, sets[0]))
        runs.append(made)
        print(f"{made.name}: {statistics.median(made.seconds) * 1e6 if made.seconds else 0:.1f} us {made.note}", file=sys.stderr, flush=True)
    transposes = bank_cases(chosen)
    small = layout_calls(torch, [case for case in transposes if case.few is case.make])
    asked = [*((kernel, (*tensors.given, tensors.out)) for _, kernel, tensors in calls), *((k, args) for _, k, args in small if k is not None)]
    counted = iter(count_calls(asked))
    for at, _, _ in calls:
        runs[at] = _with(runs[at], next(counted))
    small_runs = [run if k is None else _with(run, next(counted)) for run, k, _ in small]
    driver = find_driver()
    cuda = ".".join(map(str, driver.version)) if driver is not None else "unknown"
    origin = Origin(name, time.strftime("%Y-%m-%d"), driver_version(), cuda, COMMAND)
    banks = bank_rows(transposes, [*runs, *small_runs], "not counted")
    return ModelFound(Recording(origin, tuple(runs)), tuple(dict(r.predicted) for r in runs), banks=banks)


def layout_calls(torch: Any, chosen: Sequence[BankCase]) -> list[tuple[RecordedRun, JITKernel | None, tuple[Any, ...]]]:
    """Each small transpose compiled and checked, with its arrays; no kernel where it is wrong or does not compile."""
    out: list[tuple[RecordedRun, JITKernel | None, tuple[Any, ...]]] = []
    for case in chosen:
        made = RecordedRun(case.kernel, case.shape, case.schedule)
        side, dtype = int(case.shape.partition("x")[0]), getattr(torch, case.kernel.rpartition(" ")[2])
        given = (torch.arange(side * side, device="cuda") % 2000).reshape(side, side).to(dtype)
        result = torch.zeros_like(given)
        try:
            kernel = compile(case.make(), target="cuda")
            kernel(given, result)
        except Exception as error:  # whatever goes wrong is a row of the table
            out.append((replace(made, note=f"{type(error).__name__}: {str(error).splitlines()[0][:200]}"), None, ()))
            continue
        is_right = torch.equal(result, given.T)
        out.append((made if is_right else replace(made, note="WRONG: no transpose"), kernel if is_right else None, (given, result)))
    return out


def _with(run: RecordedRun, found: Counters) -> RecordedRun:
    return replace(run, counters=dict(found.values), note=" ".join(x for x in (run.note, found.missing) if x))


def _timed(torch: Any, clock: turns.Clock, case: Case, sets: list[Set], machine: Machine) -> tuple[RecordedRun, JITKernel | None]:
    """A case compiled, checked and timed; no kernel where it is wrong or does not compile."""
    made = RecordedRun(case.kernel, case.shape, case.schedule)
    program = case.make()
    try:
        kernel = compile(program, target="cuda")
        poison(torch, sets[0].out)
        kernel(*sets[0].given, sets[0].out)
        clock.wait()
        verdict = check(torch, case.problem, sets[0])
    except Exception as error:  # whatever goes wrong is a row of the table
        said = report(program.kernel, machine, {})
        return replace(made, predicted=predictions(said), note=f"{type(error).__name__}: {str(error).splitlines()[0][:200]}"), None
    said = report(kernel.ir, machine, {}, compiled=kernel.resources.compiled_for(machine))
    made = replace(made, predicted=predictions(said), registers=kernel.n_regs)
    if verdict.why:
        return replace(made, note=f"WRONG: {verdict.why}"), None
    launches = [_launch(kernel, tensors) for tensors in sets]
    ms = turns.estimate(clock, launches)
    turns.heat(clock, launches, ms)
    return replace(made, seconds=tuple(t / 1e3 for t in turns.samples(clock, launches, ms, SAMPLES))), kernel


def _launch(kernel: JITKernel, tensors: Set) -> turns.Run:
    return lambda: kernel(*tensors.given, tensors.out)
