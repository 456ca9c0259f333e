"""The targets "emulate:sm_80" and "emulate:sm_90a": the CUDA text of a kernel, run on this machine thread by thread.

Kernels take and return NumPy arrays.
"""

from __future__ import annotations

import sys
import time
from functools import cached_property
from typing import Any

import numpy as np

from ..base.errors import InternalError
from ..base.span import Span
from ..codegen.cuda import emit_cuda
from ..codegen.cuda_source import CudaSource, Number, Parameter, Pointer
from ..device import arch_number, why_missing
from ..emulator import Program
from ..ir.expr import Var
from ..ir.stmt import Kernel
from ..transform.cuda_lowering import cuda_steps
from . import emulating, toolchain
from .arguments import BoundCall
from .executable import AssertSite, CompileFacts, PassRecord, raise_assertion
from .expressions import evaluate
from .gpu_arch import DEFAULT, parse_arch
from .loader import Entry
from .options import Options
from .recording import run_and_record


def translate_cuda(kernel: Kernel, arch: str) -> tuple[CudaSource, tuple[PassRecord, ...]]:
    """Lower and emit: the CUDA text for `arch`, and a record of every pass."""
    lowered, records = run_and_record(kernel, cuda_steps(arch_number(arch)))
    return emit_cuda(lowered, lambda name: why_missing(name, arch)), records


class Emulated:
    """A kernel's CUDA text as a library of this machine."""

    entry: Entry | None = None

    def __init__(self, kernel: Kernel, arch: str) -> None:
        self.kernel, self.arch = kernel, arch
        start = time.perf_counter()
        self.made, self.passes = translate_cuda(kernel, arch)
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
            result = self.program[kernel.name](grid, kernel.block, args, shared_bytes=kernel.shared_bytes)
            sys.stdout.write(result.printed)

    @staticmethod
    def _argument(parameter: Parameter, arrays: dict[str, Any], values: dict[str, Any]) -> Any:
        match parameter:
            case Pointer(name):
                return arrays[name]
            case Number(Var(name)):
                return values[name]
            case _:
                raise InternalError(f"the emulator has no argument for {parameter}")

    def fail(self, code: int) -> None:
        raise_assertion(code, lambda: tuple(AssertSite(m, s) for m, s in self.made.asserts), self.kernel.name)

    def facts(self) -> CompileFacts:
        return CompileFacts(f"emulator of {self.arch}", False, self._passes_ms, 0.0, ("emulated thread by thread: correct, and slow",))


class EmulateTarget:
    """The emulator; `options.arch` says of which architecture, sm_90a if it does not."""

    name = "emulate"

    def usable(self) -> str:
        return "" if toolchain.default_compiler() is not None else toolchain.why_no_compiler()

    def compile(self, kernel: Kernel, options: Options) -> Emulated:
        """The CUDA text of `kernel`; it is compiled at the first call."""
        return Emulated(kernel, parse_arch(options.arch or DEFAULT))


TARGET = EmulateTarget()
