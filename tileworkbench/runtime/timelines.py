"""The timeline of a call, from a run in the emulator: who copies, computes and waits, in which order, on a machine's numbers.

A block of the launch that does most is run, and its log is replayed (`model.emulated`). Keep it short: a block of 128x128 results and 16 steps takes
a tenth of a second, and says what one of a thousand steps would.

>>> import numpy as np, tileworkbench
>>> from tileworkbench.kernels import gemm
>>> kernel = tileworkbench.compile(gemm.program(64, 64, 128, 64, 64, 32, 2, "float16", "float16", False), out_idx=-1, target="interpret")
>>> a, b = np.ones((64, 128), np.float16), np.ones((128, 64), np.float16)
>>> t = kernel.timeline(a, b, arch="sm_80")
>>> t.source, t.stages, t.total_steps, t.machine
('emulated', 2, 4.0, 'NVIDIA A100 80GB SXM')
>>> int(sum(e.amount for e in t.events if e.kind == "copy"))  # both matrices
32768
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import PurePath
from typing import Protocol

from ..base.errors import TileRuntimeError, UnsupportedError
from ..base.machine import Machine
from ..base.span import Span
from ..emulator import RunResult
from ..emulator.log import Log
from ..ir.stmt import Kernel
from ..model.emulated import Names, emulated
from ..model.pipeline import Timeline
from ..model.report import Report, report
from ..model.stage_work import MainLoop, main_loop
from .arguments import BoundCall

MOST_FLOPS, MOST_BYTES = 1.5e9, 2e8  # of what is run: some ten seconds each
Results = tuple[tuple[str, RunResult], ...]
Copies = Callable[[], BoundCall]


class Recordable(Protocol):
    """A kernel's CUDA text in the emulator."""

    @property
    def kernel(self) -> Kernel: ...
    @property
    def lines(self) -> dict[int, Span]: ...
    @property
    def launches(self) -> int:
        """How many kernels a call launches."""

    def record(self, call: BoundCall, block: int, *, alone: bool, sms: int) -> Results:
        """Run a call and write down cluster `block` of each launch, counted from the end if it is negative; `alone`: run nothing else."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """The log of the launch that did most, and what it counted of the blocks that ran."""

    log: Log
    result: RunResult


@dataclass(frozen=True, slots=True)
class Plan:
    """What is known of a call before a block of it is run: the GPU that it is timed for, its main loop, the blocks in a multiprocessor, its bytes."""

    machine: Machine
    loop: MainLoop | None
    residents: int
    array_bytes: float


def plan_of(made: Recordable, call: BoundCall, machine: Machine) -> Plan:
    """What a timeline of `call` needs to know first. Raises: UnsupportedError for a call that would take too long."""
    about = report(made.kernel, machine, call.dims, scalars=call.scalars, arrays=call.readable())
    loop = main_loop(made.kernel, about, call.scalars, call.readable())
    blocks = loop.blocks if loop is not None else 1.0
    _check(about, blocks if made.launches == 1 else 1.0)
    fitting = about.occupancy.blocks if about.occupancy is not None else 1
    residents = max(1, min(fitting, -(-int(blocks) // machine.cores)))
    return Plan(machine, loop, residents, float(sum(b.nbytes for b in call.tensors)))


def timeline_of(made: Recordable, copies: Copies, plan: Plan, results: Results = ()) -> Timeline:
    """The emulated timeline of a call; `copies` binds its arguments afresh, since a run changes them. `results`: of a run with the first block's log.

    Raises: UnsupportedError for a call that launches nothing.
    """
    found = recorded(made, copies, plan.machine.cores, plan.loop, results)
    names, var = names_of(made, plan.loop), plan.loop.var if plan.loop else ""
    return emulated(found.log, plan.machine, array_bytes=plan.array_bytes, residents=plan.residents, loop=var, names=names)


def recorded(made: Recordable, copies: Copies, sms: int, loop: MainLoop | None = None, results: Results = ()) -> Recorded:
    """The log of the first block, or of the last one where the first does less than half of an average one's steps.

    One block alone is run where one launch is all there is and it needs no other block; else the whole call. `results`: of a run that has the first.
    """
    best = _chosen(results) if results else _run(made, copies, 0, sms)
    if loop is not None and _turns(best.log, loop.var) < 0.5 * loop.steps:
        last = _run(made, copies, -1, sms)
        best = max(best, last, key=lambda r: _weight(r.log))
    return best


def _run(made: Recordable, copies: Copies, block: int, sms: int) -> Recorded:
    alone = made.launches == 1
    try:
        results = made.record(copies(), block, alone=alone, sms=sms)
    except TileRuntimeError:
        if not alone:
            raise
        results = made.record(copies(), block, alone=False, sms=sms)  # it waits for other blocks
    return _chosen(results)


def _chosen(results: Results) -> Recorded:
    """The log of the launch that did most."""
    logs = [Recorded(r.log, r) for _, r in results if r.log is not None]
    if not logs:
        raise UnsupportedError("the call launches nothing: there is no timeline")
    return max(logs, key=lambda r: _weight(r.log))


def _weight(log: Log) -> int:
    """FLOP, then bytes, then instructions."""
    flops = sum(e.n for w in log.warps for e in w.entries if e.kind in ("product", "multiply"))
    moved = sum(e.n for w in log.warps for e in w.entries if e.kind in ("load", "copy", "loaded", "store", "stored"))
    return (flops << 40) + (moved << 10) + sum(len(w.entries) for w in log.warps)


def _turns(log: Log, var: str) -> int:
    """Turns of the loops with this variable, by the warp that takes most."""
    return max((sum(e.kind == "step" and e.a >= 0 and log.loops[e.a] == var for e in w.entries) for w in log.warps), default=0)


def _check(about: Report, blocks: float) -> None:
    """Raise UnsupportedError where a block is too much for the emulator."""
    flops, moved = about.counts.total_flops / max(blocks, 1.0), about.counts.asked_bytes / max(blocks, 1.0)
    if flops > MOST_FLOPS or moved > MOST_BYTES:
        what = f"{flops / 1e9:.3g} GFLOP" if flops > MOST_FLOPS else f"{moved / 1e6:.3g} MB"
        most = f"{MOST_FLOPS / 1e9:g} GFLOP" if flops > MOST_FLOPS else f"{MOST_BYTES / 1e6:g} MB"
        raise UnsupportedError(
            f"{about.kernel}: the emulator would run {what} for a timeline; at most {most} are run, one thread after the other",
            hint="call it with smaller arrays: a few steps of the loop show what a thousand would",
        )


def names_of(made: Recordable, loop: MainLoop | None) -> Names:
    """What the author's lines are called, by the names that the emitted text has for their files."""
    spans: dict[tuple[str, int], Span] = {}
    shown: dict[tuple[str, int], tuple[str, int]] = {}
    for span in made.lines.values():
        key = (span.label or PurePath(span.file).name, span.line)
        spans.setdefault(key, span)
        shown[span.file, span.line] = key
    operations = {shown[line]: work.name for work in (loop.work if loop else ()) for line in work.lines if line in shown}
    for work in loop.work if loop else ():  # an operation's own line, where others share it
        if work.span is not None and (at := (work.span.file, work.span.line)) in shown:
            operations[shown[at]] = work.name
    return Names(operations, spans)
