"""The targets "emulate:sm_80" and "emulate:sm_90a": the CUDA text of a kernel, run on this machine thread by thread.

Kernels take and return NumPy arrays.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np

from ..base.errors import InternalError
from ..base.machine import Machine
from ..base.span import Span
from ..codegen.cuda_source import Number, Parameter, Pointer, TensorMap
from ..emulator import FailedAssertion, Program
from ..emulator import TensorMap as EmulatedMap
from ..ir.expr import Var
from ..ir.stmt import Kernel
from . import emulating, toolchain
from .arguments import BoundCall
from .executable import AssertSite, CompileFacts, raise_assertion
from .expressions import evaluate
from .gpu_arch import DEFAULT, parse_arch
from .gpu_limits import check_source, machine_of
from .loader import Entry
from .options import Options
from .translate_cuda import translate_cuda


class Emulated:
    """A kernel's CUDA text as a library of this machine."""

    entry: Entry | None = None
    is_timed = False  # its time says nothing about a GPU

    def __init__(self, kernel: Kernel, arch: str, schedule: Mapping[str, Any] | None = None) -> None:
        self.kernel, self.arch = kernel, arch
        start = time.perf_counter()
        self.made, self.passes = translate_cuda(kernel, arch)
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

    def launch(self, call: BoundCall) -> None:
        """Run every launch on the bound arrays."""
        values = {**call.dims, **call.scalars}
        arrays = {bound.spec.name: bound.array for bound in call.tensors}
        for buffer in call.signature.workspaces:
            arrays[buffer.name] = np.empty([evaluate(d, call.dims) for d in buffer.shape], buffer.type.to_numpy())
        for kernel in self.made.kernels:
            args = [self._argument(p, arrays, values) for p in kernel.params]
            grid = [evaluate(g, values) for g in kernel.grid]
            try:
                printed = self.program[kernel.name](grid, kernel.block, args, shared_bytes=kernel.shared_bytes).printed
            except FailedAssertion as failed:
                sys.stdout.write(failed.printed)
                self.fail(failed.number)
            sys.stdout.write(printed)

    @staticmethod
    def _argument(parameter: Parameter, arrays: dict[str, Any], values: dict[str, Any]) -> Any:
        match parameter:
            case Pointer(name):
                return arrays[name]
            case Number(Var(name)):
                return values[name]
            case TensorMap(name, _, dims, strides, box, swizzle):
                sizes = (tuple(evaluate(d, values) for d in dims), tuple(evaluate(s, values) for s in strides))
                return EmulatedMap(arrays[name], box, swizzle, dims=sizes[0], strides=sizes[1])
            case _:
                raise InternalError(f"the emulator has no argument for {parameter}")

    def fail(self, code: int) -> None:
        raise_assertion(code, lambda: tuple(AssertSite(m, s) for m, s in self.made.asserts), self.kernel.name)

    def facts(self) -> CompileFacts:
        return CompileFacts(f"emulator of {self.arch}", False, self._passes_ms, 0.0, ("emulated thread by thread: correct, and slow",))

    def machine(self) -> Machine:
        """A GPU on paper of the architecture: what a report is about."""
        return machine_of(self.arch)


class EmulateTarget:
    """The emulator; `options.arch` says of which architecture, sm_90a if it does not."""

    name = "emulate"

    def usable(self) -> str:
        return "" if toolchain.default_compiler() is not None else toolchain.why_no_compiler()

    def compile(self, kernel: Kernel, options: Options) -> Emulated:
        """The CUDA text of `kernel`; it is compiled at the first call."""
        return Emulated(kernel, parse_arch(options.arch or DEFAULT), options.schedule)


TARGET = EmulateTarget()
