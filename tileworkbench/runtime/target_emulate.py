"""The targets "emulate:sm_80" and "emulate:sm_90a": the CUDA text of a kernel, run on this machine thread by thread.

Kernels take and return NumPy arrays.
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from math import prod
from typing import Any, Protocol

import numpy as np

from ..base.dtypes import DType
from ..base.errors import InternalError, TileError
from ..base.machine import Machine
from ..base.span import Span
from ..codegen.cuda_source import SMS, Number, Parameter, Pointer, RunKernel, TensorMap, alignments, misaligned
from ..emulator import FailedAssertion, Program, RunResult
from ..emulator import TensorMap as EmulatedMap
from ..ir.expr import Var
from ..ir.stmt import Kernel
from ..model.pipeline import Timeline
from ..model.placement import BufferLayout
from . import emulating, toolchain
from .accessing import Accessed
from .arguments import BoundCall, bind
from .compiled_layouts import compiled_layouts
from .cuda_plan import parameters_of
from .cuda_written import Written
from .emulation import Emulation, emulation_of
from .executable import AssertSite, CompileFacts, raise_assertion, remarks_of
from .expressions import evaluate, unknowns
from .gpu_arch import DEFAULT, parse_arch
from .gpu_limits import check_source, machine_of
from .host_program import host_lines, make_run
from .inspecting import Counted, Sanitized, here, on_copies, sanitized
from .loader import Entry
from .options import Options
from .resources import Resources
from .signature import Signature
from .stages import Stage
from .target_cuda import TARGET as CUDA
from .target_cuda import Compiled
from .timelines import plan_of, timeline_of
from .translate_cuda import translate_cuda

MULTIPROCESSORS = 4  # of the machine that is emulated: few, so that blocks that stay do several of the grid's


class _Stop(Exception):  # it leaves the host program, and is no error
    pass


class Emulated:
    """A kernel's CUDA text as a library of this machine."""

    entry: Entry | None = None
    is_timed = False  # its time says nothing about a GPU

    def __init__(self, kernel: Kernel, arch: str, schedule: Mapping[str, Any] | None = None, *, aligned: bool = True) -> None:
        self.kernel, self.arch, self.schedule, self._aligned = kernel, arch, schedule, aligned
        start = time.perf_counter()
        self.made, self.passes = translate_cuda(kernel, arch, aligned)
        check_source(self.made, kernel, arch, schedule)
        self._passes_ms = (time.perf_counter() - start) * 1e3

    @property
    def source(self) -> str:
        return self.made.text

    @property
    def lines(self) -> dict[int, Span]:
        return dict(self.made.lines)

    @cached_property
    def program(self) -> Program:
        return emulating.load(self.made.text, self.arch)

    @cached_property
    def recording(self) -> Program:
        """The program whose runs can be written down."""
        return emulating.load(self.made.text, self.arch, record=True)

    def fitting(self, call: BoundCall) -> Emulated:
        """This, or the kernel without accesses that the addresses of the call's arrays are not multiples of."""
        needed = alignments(self.made.kernels)
        wrong = next((b.spec.name for b in call.tensors if b.pointer % needed.get(b.spec.name, 1)), None)
        if wrong is None:
            return self
        if not self._aligned:
            raise misaligned(wrong, self.kernel.name, needed[wrong])
        return self._anywhere

    @cached_property
    def _anywhere(self) -> Emulated:
        return Emulated(self.kernel, self.arch, self.schedule, aligned=False)

    @cached_property
    def _host(self) -> Callable[..., None]:
        """The host program: `run(launch, fail, dims..., scalars...)`."""
        _, dims, scalars = parameters_of(self.kernel)
        names = {name: f"d{i}" for i, name in enumerate(dims)} | {name: f"s{i}" for i, name in enumerate(scalars)}
        head = ["launch", "fail", *names.values()]
        lines = host_lines(self.made.host or tuple(RunKernel(i) for i in range(len(self.made.kernels))), names)
        bound = {name: python for name, python in names.items() if python.startswith("h")}

        def launch(number: int) -> list[str]:
            made = self.made.kernels[number]
            used = set().union(*(unknowns(e) for e in (*made.grid, *(p.value for p in made.params if isinstance(p, Number)))))
            return [f"launch({number}, {{{', '.join(f'{n!r}: {p}' for n, p in bound.items() if n in used)}}})"]

        return make_run(", ".join(head), lines, launch, {}, self.kernel.name)

    def launch(self, call: BoundCall) -> None:
        """Run every launch on the bound arrays."""
        self.run(call)

    @property
    def launches(self) -> int:
        """How many kernels a call launches, at least."""
        return len(self.made.kernels)

    def record(self, call: BoundCall, block: int, *, alone: bool, sms: int) -> tuple[tuple[str, RunResult], ...]:
        """Run every launch on a GPU of `sms` multiprocessors and write down what cluster `block` does, counted from the end if it is negative.

        `alone`: no other cluster runs, and the results are not those of the kernel.
        """
        return self.run(call, record=block, alone=alone, sms=sms)

    def run(
        self, call: BoundCall, *, sanitize: bool = False, count: bool = False, requests: bool = False, record: int | None = None, alone: bool = False,
        sms: int = MULTIPROCESSORS,
    ) -> tuple[tuple[str, RunResult], ...]:  # fmt: skip
        """Run every launch on the bound arrays: its kernel and what it left, faults, counters and requests on shared memory if asked for.

        Raises for the first fault, unless `sanitize`: then a launch that cannot end is the last one.
        """
        if (other := self.fitting(call)) is not self:
            return other.run(call, sanitize=sanitize, count=count, requests=requests, record=record, alone=alone, sms=sms)
        values = {**call.dims, **call.scalars, SMS: sms}
        program = self.program if record is None else self.recording
        arrays = {bound.spec.name: bound.array for bound in call.tensors}
        fresh = {bound.spec.name for bound in call.tensors if bound.spec.is_output}
        for buffer in (*call.signature.workspaces, *self.made.workspaces):
            arrays[buffer.name] = np.empty([evaluate(d, values) for d in buffer.shape], buffer.type.to_numpy())
            fresh.add(buffer.name)
        results: list[tuple[str, RunResult]] = []

        def launch(number: int, bound: dict[str, Any]) -> None:
            made, known = self.made.kernels[number], {**values, **bound}
            args = [self._argument(p, arrays, known) for p in made.params]
            grid = [evaluate(g, known) for g in made.grid]
            emulated = program[made.name]
            unwritten = [i for i, p in enumerate(made.params) if isinstance(p, Pointer) and p.name in fresh]
            how: dict[str, Any] = {"shared_bytes": made.shared_bytes, "count": count, "requests": requests, "fresh": unwritten}
            if made.cluster != (1, 1, 1):
                how["cluster"] = made.cluster
            if record is not None:
                how |= {"record": record % max(prod(grid) // prod(made.cluster), 1), "alone": alone}
            try:
                result = emulated.run(grid, made.block, args, sanitize=True, **how) if sanitize else emulated(grid, made.block, args, **how)
            except FailedAssertion as failed:
                sys.stdout.write(failed.printed)
                self.fail(failed.number)
                raise
            sys.stdout.write(result.printed)
            results.append((made.name, result))
            if any(f.kind in ("deadlock", "divergent") for f in result.findings):
                raise _Stop
            given = emulated.kernel.parameters
            fresh.difference_update(p.name for p, g in zip(made.params, given, strict=True) if isinstance(p, Pointer) and not g.is_read_only)

        signature = call.signature
        with contextlib.suppress(_Stop):
            self._host(launch, self.fail, *(call.dims[name] for name in signature.dims), *(call.scalars[s.name] for s in signature.scalars))
        return tuple(results)

    @staticmethod
    def _argument(parameter: Parameter, arrays: dict[str, Any], values: dict[str, Any]) -> Any:
        match parameter:
            case Pointer(name):
                return arrays[name]
            case Number(value, dtype):
                found = values[value.name] if isinstance(value, Var) else evaluate(value, values)
                kind = DType(dtype)
                return np.asarray(found).astype(kind.to_numpy())[()] if kind.is_float and kind.bits < 32 else found  # narrow ones go as their bits
            case TensorMap(name, _, dims, strides, box, swizzle):
                sizes = (tuple(evaluate(d, values) for d in dims), tuple(evaluate(s, values) for s in strides))
                if 0 in sizes[0]:  # one zero stands for an empty tensor, as on a GPU
                    return EmulatedMap(np.zeros(1, arrays[name].dtype), box, swizzle, dims=(1,) * len(dims), strides=sizes[1])
                return EmulatedMap(arrays[name], box, swizzle, dims=sizes[0], strides=sizes[1])
            case _:
                raise InternalError(f"the emulator has no argument for {parameter}")

    def fail(self, code: int) -> None:
        raise_assertion(code, lambda: tuple(AssertSite(m, s) for m, s in self.made.asserts), self.kernel.name)

    def facts(self) -> CompileFacts:
        notes = ("emulated thread by thread: correct, and slow", *remarks_of(self.passes))
        return CompileFacts(f"emulator of {self.arch}", False, self._passes_ms, 0.0, notes)

    def layouts(self) -> tuple[BufferLayout, ...]:
        """Where every tile on chip lies in the text (`model.placement.LayoutProvider`)."""
        return compiled_layouts(self.kernel, self.passes)

    def machine(self) -> Machine:
        """A GPU on paper of the architecture: what a report is about."""
        return machine_of(self.arch)

    @cached_property
    def _on_gpu(self) -> Compiled | Written:
        """The same kernel compiled for a GPU, for what only its compiler knows; the text with a reason where that is not possible."""
        options = Options(arch=self.arch, schedule=self.schedule or {})
        try:
            return CUDA.compile(self.kernel, options)
        except TileError as error:
            return CUDA.write(self.kernel, options, error.message)

    def machine_code(self) -> tuple[Stage, ...]:
        """What a GPU would run: compiled where NVRTC is installed, and never run here."""
        return self._on_gpu.machine_code()

    def resources(self, machine: Machine | None = None) -> Resources:
        """What each launch would take of a multiprocessor, by NVRTC; none, and why, where it is not installed."""
        return self._on_gpu.resources(machine or self.machine())


class Inspected(Protocol):
    """A kernel of any target that the emulator is asked about."""

    @property
    def ir(self) -> Kernel: ...
    @property
    def signature(self) -> Signature: ...
    @property
    def executable(self) -> Any: ...
    @property
    def options(self) -> Options: ...


class EmulateTarget:
    """The emulator; `options.arch` says of which architecture, sm_90a if it does not."""

    name = "emulate"

    def usable(self) -> str:
        return "" if toolchain.default_compiler() is not None else toolchain.why_no_compiler()

    def compile(self, kernel: Kernel, options: Options) -> Emulated:
        """The CUDA text of `kernel`; it is compiled at the first call."""
        return Emulated(kernel, parse_arch(options.arch or DEFAULT), options.schedule)

    def sanitize(self, kernel: Inspected, args: Sequence[Any], arch: str = "") -> Sanitized:
        """What the sanitizer finds in a call of `kernel`, of its own architecture unless `arch` names one."""
        made, copies = self._bound(kernel, args, arch)
        return sanitized(kernel.ir.name, made.arch, made.run(copies(), sanitize=True))

    def count(self, kernel: Inspected, args: Sequence[Any], arch: str = "") -> Counted:
        """What a call of `kernel` does, counted."""
        found = self.emulation(kernel, args, arch, counts=True).counts
        assert found is not None
        return found

    def accesses(self, kernel: Inspected, args: Sequence[Any], arch: str = "") -> Accessed:
        """What the warps of a call of `kernel` ask of each tile in shared memory."""
        found = self.emulation(kernel, args, arch, accesses=True).accesses
        assert found is not None
        return found

    def timeline(self, kernel: Inspected, args: Sequence[Any], arch: str = "", machine: Machine | None = None) -> Timeline:
        """Who copies, computes and waits in a call of `kernel`, with durations of `machine`: a GPU, by default one of the architecture."""
        made, copies = self._bound(kernel, args, arch)
        return timeline_of(made, copies, plan_of(made, copies(), machine or machine_of(made.arch)))

    def emulation(self, kernel: Inspected, args: Sequence[Any], arch: str = "", machine: Machine | None = None, **asked: bool) -> Emulation:
        """What is asked for of these three, from one run on as many multiprocessors as `machine` has, a GPU."""
        made, copies = self._bound(kernel, args, arch)
        return emulation_of(made, copies, machine or machine_of(made.arch), **asked)

    def _bound(self, kernel: Inspected, args: Sequence[Any], arch: str) -> tuple[Emulated, Callable[[], BoundCall]]:
        """The kernel that the arguments' addresses suit, and what binds copies of them, since a run changes them."""
        given = [here(a) for a in args]

        def copies() -> BoundCall:
            return on_copies(bind(kernel.signature, given, {}))

        return self._made(kernel, arch).fitting(copies()), copies

    @staticmethod
    def _made(kernel: Inspected, arch: str) -> Emulated:
        """The kernel for `arch`, else its own architecture, else the default one."""
        own = kernel.executable
        arch = parse_arch(arch or kernel.options.arch or getattr(own, "arch", "") or DEFAULT)
        return own if isinstance(own, Emulated) and own.arch == arch else Emulated(kernel.ir, arch, kernel.options.schedule)


TARGET = EmulateTarget()
