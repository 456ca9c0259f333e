"""A kernel's report: what is known of it, with its run times and hardware counters where it can run."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ..base.errors import ArgumentError
from ..base.machine import Machine
from ..model.counters import Counters
from ..model.report import Report, report
from .counters import count_launches
from .counters_cuda import count_calls
from .measure import cpu_name
from .scorecard import record
from .timing import measure

if TYPE_CHECKING:
    from .arguments import BoundCall
    from .kernel import JITKernel


def report_of(
    kernel: JITKernel, machine: Machine | None, args: Sequence[Any], useful_flops: int | None, counters: bool | None,
    emulated: Mapping[Any, Any] | None,
) -> Report:  # fmt: skip
    """See `JITKernel.report`; `emulated` are counters by line."""
    signature = kernel.signature
    if not args and (signature.dims or signature.scalars):  # before this machine is measured, which takes seconds
        unknown = ", ".join([*signature.dims, *(s.name for s in signature.scalars)])
        raise ArgumentError(f"a report on kernel {kernel.name} needs values for {unknown}", hint="pass args=(A, B, ...): arrays to run it on")
    machine = machine or kernel.machine
    known: dict[str, Any] = {"useful_flops": useful_flops, "schedule": kernel.schedule, "emulated": emulated}
    known["compiled"] = kernel.resources.compiled_for(machine) if machine.is_gpu else ()  # by the compiler, where there is one for GPUs
    if not args:
        return report(kernel.ir, machine, {}, threads=kernel.num_threads, **known)
    call = kernel.bind(*args)
    seconds: tuple[float, ...] = ()
    if kernel.is_timed:
        launch_again = functools.partial(kernel.executable.launch, call)
        seconds = tuple(t / 1e3 for t in measure(launch_again, clock=kernel.clock_for(args)).runs_ms)
    counted = _counted(kernel, call, machine, args, counters) if kernel.is_timed else None
    made = report(
        kernel.ir, machine, call.dims, threads=call.threads, seconds=seconds, scalars=call.scalars, arrays=call.readable(), **known
    )  # fmt: skip
    record(made)
    return replace(made, counters=counted)


def _counted(kernel: JITKernel, call: BoundCall, machine: Machine, args: Sequence[Any], asked: bool | None) -> Counters | None:
    """What the processor counts in a launch: on a CPU at no cost; a GPU's counters take a process of their own, so they must be asked for."""
    if asked is not False and machine.name == cpu_name():
        return count_launches(functools.partial(kernel.executable.launch, call))
    return count_calls([(kernel, args)])[0] if asked and kernel.resource_usage else None
