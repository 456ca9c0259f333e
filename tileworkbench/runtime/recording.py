"""Running a target's passes and keeping what each did; apart from `executable`, which knows no passes, so that it loads without them."""

from __future__ import annotations

import time
from collections.abc import Iterable

from ..ir.stmt import Kernel
from ..transform.lowering import Step, run_steps
from .executable import PassRecord


def run_and_record(kernel: Kernel, steps: Iterable[Step]) -> tuple[Kernel, tuple[PassRecord, ...]]:
    """The kernel after `steps`, and a record of each."""
    records: list[PassRecord] = []
    clock = [time.perf_counter()]

    def observe(step: Step, before: Kernel, after: Kernel) -> None:
        now = time.perf_counter()
        records.append(PassRecord(step.name, before, after, (now - clock[0]) * 1e3, step.because, step.about))
        clock[0] = now

    return run_steps(kernel, steps, observe), tuple(records)
