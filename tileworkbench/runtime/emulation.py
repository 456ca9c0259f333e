"""All that one run in the emulator can say of a call: counts by line, accesses of its shared tiles, its timeline.

>>> import numpy as np, tileworkbench
>>> from tileworkbench.kernels import softmax
>>> kernel = tileworkbench.compile(softmax.program(4, 512, 4, "float32"), out_idx=-1, target="emulate:sm_80")
>>> seen = kernel.emulation(np.ones((4, 512), np.float32), counts=True, timeline=True)
>>> seen.counts.total.shared_load_wavefronts >= seen.counts.total.shared_load_ideal, seen.timeline.source, seen.accesses
(True, 'emulated', None)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from ..base.errors import UnsupportedError
from ..base.machine import Machine
from ..emulator import RunResult
from ..model.pipeline import Timeline
from ..model.placement import BufferLayout
from .accessing import Accessed, accessed
from .arguments import BoundCall
from .inspecting import Counted, counted
from .timelines import Plan, Recordable, plan_of, timeline_of


@dataclass(frozen=True, slots=True)
class Emulation:
    """What was asked for; None is what was not. `why` says why a timeline that was asked for is not there."""

    counts: Counted | None = None
    accesses: Accessed | None = None
    timeline: Timeline | None = None
    why: str = ""


class Emulable(Recordable, Protocol):
    """A kernel's CUDA text in the emulator, which can be counted too."""

    @property
    def arch(self) -> str: ...
    def layouts(self) -> tuple[BufferLayout, ...]: ...
    def run(self, call: BoundCall, *, count: bool, requests: bool, record: int | None, sms: int) -> tuple[tuple[str, RunResult], ...]: ...


def emulation_of(
    made: Emulable, copies: Callable[[], BoundCall], machine: Machine, *, counts: bool = False, accesses: bool = False, timeline: bool = False
) -> Emulation:
    """Run a call once on the multiprocessors of `machine`, a GPU, with all that is asked for; `copies` binds its arguments afresh.

    A timeline that nothing else is asked beside runs one block alone; one whose first block does little has its last one run once more, alone.
    """
    plan: Plan | None = None
    results: tuple[tuple[str, RunResult], ...] = ()
    found: Timeline | None = None
    why = ""
    if timeline:
        try:
            plan = plan_of(made, copies(), machine)
        except UnsupportedError as error:
            why = error.message
    if counts or accesses:
        results = made.run(copies(), count=counts, requests=accesses, record=None if plan is None else 0, sms=machine.cores)
    if plan is not None:
        try:
            found = timeline_of(made, copies, plan, results)
        except UnsupportedError as error:
            why = error.message
    name = made.kernel.name
    return Emulation(
        counted(name, made.arch, results) if counts else None,
        accessed(name, made.arch, made.layouts(), made.lines, results) if accesses else None,
        found,
        why,
    )
