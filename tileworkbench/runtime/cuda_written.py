"""A kernel's CUDA text where nothing compiles it: what a cell that only looks can show without NVRTC."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from ..base.errors import UnsupportedError
from ..base.machine import Machine
from ..base.span import Span
from ..codegen.cuda_source import CudaSource
from ..ir.stmt import Kernel
from ..model.placement import BufferLayout
from . import cuda_arrays
from .arguments import BoundCall, Memory
from .compiled_layouts import compiled_layouts
from .executable import AssertSite, CompileFacts, PassRecord, raise_assertion, remarks_of
from .gpu_limits import machine_of
from .resources import Resources
from .sass import LANGUAGE, STAGE
from .stages import Stage


class Written:
    """The text of `kernel` for `arch`, its passes, and `why` it was not compiled. It has no machine code, and cannot run."""

    entry = None
    memory: Memory = cuda_arrays
    kernels = ()

    def __init__(self, kernel: Kernel, arch: str, made: CudaSource, passes: tuple[PassRecord, ...], passes_ms: float, why: str) -> None:
        self.kernel, self.arch, self.made, self.passes, self.why = kernel, arch, made, passes, why
        self._passes_ms = passes_ms

    @property
    def source(self) -> str:
        return self.made.text

    @cached_property
    def lines(self) -> dict[int, Span]:
        return dict(self.made.lines)

    def launch(self, call: BoundCall) -> None:
        del call
        raise UnsupportedError(f"kernel {self.kernel.name} was not compiled: {self.why}", hint="and start Python anew")

    def fail(self, code: int) -> None:
        raise_assertion(code, lambda: tuple(AssertSite(m, s) for m, s in self.made.asserts), self.kernel.name)

    def facts(self) -> CompileFacts:
        return CompileFacts(
            "", False, self._passes_ms, 0.0, (f"the CUDA text for {self.arch} was not compiled: {self.why}", *remarks_of(self.passes))
        )

    def layouts(self) -> tuple[BufferLayout, ...]:
        """Where every tile on chip lies in the text (`model.placement.LayoutProvider`)."""
        return compiled_layouts(self.kernel, self.passes)

    def machine(self) -> Machine:
        """A GPU on paper of the architecture."""
        return machine_of(self.arch)

    def machine_code(self) -> tuple[Stage, ...]:
        """No text, and why."""
        return (Stage(STAGE, LANGUAGE, "", why=self.why),)

    def resources(self, machine: Machine | None = None) -> Resources:
        """None, and why."""
        return Resources((machine or self.machine()).name, why=self.why)

    def occupancy(self, machine: Machine | None = None) -> tuple[Any, ...]:
        del machine
        return ()
