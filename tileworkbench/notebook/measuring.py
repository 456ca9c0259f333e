"""Three questions about one schedule, from cheap to dear: what the model says (`predict`), and what a run says (`Attempt`), without touching the
caller's arrays: a kernel that writes its arguments gets copies."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..base.machine import Machine
from ..model.limits import limit_of
from ..model.report import Report, report
from ..model.values import Measured
from ..runtime.arguments import BoundCall, bind
from ..runtime.fork import LIMIT
from ..runtime.kernel import JITKernel
from ..tune.problem import Problem, one_line

ENOUGH_S = 0.08  # seconds of runs that settle a measurement
FEWEST, MOST = 3, 25
SHORT_S = 50e-6  # runs shorter than this are timed in batches


@dataclass(frozen=True, slots=True)
class Prediction:
    """What the model says of one schedule: a report without a measurement, or the `reason` why there is none.

    `limit` is what kind of thing forbids it ("shared memory", "rule", "does not compile"), "" where nothing does.
    """

    report: Report | None = None
    reason: str = ""
    limit: str = ""

    @property
    def seconds(self) -> float | None:
        return self.report.predicted.value if self.report is not None else None


def predict(problem: Problem, schedule: Mapping[str, Any], machine: Machine) -> Prediction:
    """What the model says of a schedule; whatever the author's code raises is the reason why it says nothing."""
    try:
        kernel, signature = problem.trace(schedule)
        if (limit := limit_of(kernel, machine)) is not None:
            return Prediction(reason=limit.why, limit=limit.name)
        if problem.given is None:
            return Prediction(problem.report(schedule, machine))
        call = bind(signature, problem.given, {}, LIMIT.of(problem.function.options.num_threads))
        arrays = {t.spec.name: t.array for t in call.tensors}
        made = report(kernel, machine, call.dims, threads=call.threads, scalars=call.scalars, arrays=arrays, schedule=dict(schedule))
        return Prediction(made)
    except Exception as error:
        return Prediction(reason=one_line(error), limit="does not compile")


def with_times(predicted: Report, seconds: Sequence[float]) -> Report:
    """The same report with a measurement: what `kernel.report(args=...)` says, without counting again."""
    return replace(predicted, measured=Measured.of(seconds))


@dataclass(slots=True)
class Attempt:
    """A kernel on its own copies of what it writes: `run` once, look at `call`, then `times`."""

    kernel: JITKernel
    call: BoundCall

    @staticmethod
    def of(kernel: JITKernel, args: Sequence[Any]) -> Attempt:
        """Bind the arguments, with copies of those that the kernel writes."""
        call = kernel.bind(*args)
        for tensor in call.tensors:
            if tensor.spec.is_written and not tensor.spec.is_output:
                tensor.array = tensor.array.copy()
        return Attempt(kernel, call)

    def run(self) -> float:
        """Launch once; seconds."""
        start = time.perf_counter()
        self.kernel.executable.launch(self.call)
        return time.perf_counter() - start

    def times(self, first: float, is_stale: Callable[[], bool]) -> tuple[float, ...]:
        """Seconds of repeated runs, warm: as many as settle the matter. Empty if the result is no longer wanted. `first` is a run's time so far."""
        if first > 2 * ENOUGH_S:
            return (first,)
        batch = max(1, int(SHORT_S / max(self.run(), 1e-7)))
        found: list[float] = []
        end = time.perf_counter() + ENOUGH_S
        while len(found) < FEWEST or (len(found) < MOST and time.perf_counter() < end):
            if is_stale():
                return ()
            start = time.perf_counter()
            for _ in range(batch):
                self.kernel.executable.launch(self.call)
            found.append((time.perf_counter() - start) / batch)
        return tuple(found)
