"""Run cases as CUDA text in the emulator, and say where they differ from the interpreter."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
from differential.cases import GUARD, Array, Case
from differential.harness import Fault, differences, join, meaning

from tileworkbench.base.errors import TileError, UnsupportedError
from tileworkbench.ir.stmt import ScalarParam
from tileworkbench.runtime.arguments import BoundCall, BoundTensor
from tileworkbench.runtime.options import Options
from tileworkbench.runtime.target_emulate import Emulated, EmulateTarget

ARCH = "sm_80"


def made(cases: Sequence[Case], arch: str = ARCH) -> Emulated:
    return EmulateTarget().compile(join(cases), Options(arch=arch))


def refusals(cases: Sequence[Case], arch: str = ARCH) -> tuple[list[Case], list[Fault]]:
    """The cases that the CUDA target takes, and why it refuses others: not those that no target takes, since an index is certainly outside."""
    taken, refused = [], []
    for case in cases:
        try:
            made([case], arch)
            taken.append(case)
        except UnsupportedError as error:
            refused.append(Fault(case, str(error)))
        except TileError:
            pass
    return taken, refused


def compiled(cases: Sequence[Case], arch: str = ARCH) -> tuple[Emulated, list[Case], list[Fault]]:
    """What `refusals` says, and before it those that are taken, as one."""
    try:
        return made(cases, arch), list(cases), []
    except TileError:
        taken, refused = refusals(cases, arch)
        return made(taken, arch), taken, refused


class Aligned:
    """A copy of an array's memory whose first element lies as a GPU's memory would."""

    def __init__(self, array: Array) -> None:
        self.array = array
        first = array.pointer - int(array.memory.ctypes.data)
        whole = np.zeros(len(array.memory) + 2 * GUARD, np.uint8)
        skip = (-whole.ctypes.data - first) % 64
        self.memory = whole[skip : skip + len(array.memory)]
        self.memory[...] = array.memory
        inside = self.memory[first : len(array.memory) - GUARD]
        self.seen = inside if array.dtype.bits == 4 else np.ndarray(array.array.shape, array.array.dtype, inside, strides=array.array.strides)

    def settle(self) -> None:
        self.array.memory[...] = self.memory


def compare_emulated(cases: Sequence[Case], sanitize: bool = False, program: Emulated | None = None) -> list[Fault]:
    """Every difference; with `sanitize` also what the emulator's sanitizer finds. `program`: the cases, compiled already."""
    program, kernel = program or made(cases), join(cases)
    arrays = [[a.copy() for _, a in c.tensors] for c in cases]
    flat = [Aligned(a) for group in arrays for a in group]
    specs = [SimpleNamespace(name=b.name, is_output=False) for c in cases for b, _ in c.tensors]
    tensors = [BoundTensor(spec, a.seen, a.array.shape) for spec, a in zip(specs, flat, strict=True)]  # type: ignore[arg-type]
    scalars = {v.name: x for c in cases for v, x in c.scalars.items()}
    names = [SimpleNamespace(name=p.var.name) for p in kernel.params if isinstance(p, ScalarParam)]
    signature: Any = SimpleNamespace(dims=[d.name for d in kernel.dims], scalars=names, workspaces=kernel.workspaces)  # all that a run asks for
    results = program.run(BoundCall(signature, tensors, scalars, {d.name: n for c in cases for d, n in c.dims.items()}), sanitize=sanitize)
    for a in flat:
        a.settle()
    faults = [Fault(cases[0], f"{name}: {f}") for name, result in results for f in result.findings]
    for case, group, want in zip(cases, arrays, meaning(cases), strict=True):
        text = differences(case, group, want, "the emulator")
        if text:
            faults.append(Fault(case, text))
    return faults
