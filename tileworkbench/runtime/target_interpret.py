"""The target "interpret": runs the tile program itself on NumPy.

It needs no compiler, and is the meaning that every other target is tested against.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..analysis.capacity import require_capacity
from ..interpret import Program, Trace, TraceOptions
from ..ir.stmt import Kernel
from ..ir.verify import verify
from . import packing
from .arguments import BoundCall, BoundTensor
from .executable import CompileFacts, PassRecord
from .loader import Entry
from .options import Options


class Interpreted:
    """A kernel that is run, not compiled."""

    entry: Entry | None = None
    source = ""
    lines: dict[int, Any] = {}
    passes: tuple[PassRecord, ...] = ()

    def __init__(self, kernel: Kernel) -> None:
        self.program = Program(kernel)

    def launch(self, call: BoundCall) -> None:
        """Run the kernel block by block on the bound arrays."""
        self.traced(call, trace=False)

    def traced(self, call: BoundCall, trace: bool | TraceOptions = True) -> Trace | None:
        """As `launch`; with `trace` returns the interpreter's record of every tile operation."""
        arrays = [_unpacked(bound) for bound in call.tensors]
        found = self.program.run(arrays, call.scalars, call.dims, trace=trace)
        for bound, array in zip(call.tensors, arrays, strict=True):
            if array is not bound.array and bound.spec.is_written:
                bound.array.view(np.uint8).reshape(-1)[...] = packing.pack(array)
        return found

    def fail(self, code: int) -> None:
        """The interpreter raises by itself."""

    def facts(self) -> CompileFacts:
        return CompileFacts(notes=("interpreted: correct, and slow",))


def _unpacked(bound: BoundTensor) -> np.ndarray[Any, Any]:
    """The array that the interpreter works on: int4 with one element to a byte."""
    if not bound.spec.is_used and bound.array.size == 0:  # None was passed: nothing looks at it
        return np.zeros(bound.shape, bound.spec.numpy_dtype())
    if bound.spec.dtype not in packing.NAMES:
        return bound.array
    return packing.unpack(bound.array, bound.shape, bound.spec.numpy_dtype())


class InterpretTarget:
    """The interpreter as a target."""

    name = "interpret"

    def usable(self) -> str:
        return ""

    def compile(self, kernel: Kernel, options: Options) -> Interpreted:
        """Check the tile program and keep it."""
        del options
        verify(kernel, "tile")
        for launch in kernel.launches:
            require_capacity(launch)
        return Interpreted(kernel)


TARGET = InterpretTarget()
