"""Run cases on the GPU that is here, and say where they differ from the interpreter."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

from differential.cases import Array, Case
from differential.harness import Fault, differences, join, meaning

from tileworkbench.ir.stmt import ScalarParam
from tileworkbench.runtime import cuda_arrays
from tileworkbench.runtime.arguments import BoundCall, BoundTensor
from tileworkbench.runtime.options import Options
from tileworkbench.runtime.target_cuda import TARGET, Compiled

ALIGN = 256


def made(cases: Sequence[Case]) -> Compiled:
    return TARGET.compile(join(cases), Options())


class OnGpu:
    """An array's memory, guards included, on the GPU; its first element begins as a new array of CuPy would."""

    def __init__(self, cupy: Any, array: Array) -> None:
        self.array = array
        first = array.pointer - int(array.memory.ctypes.data)
        self.whole = cupy.zeros(len(array.memory) + 2 * ALIGN, cupy.uint8)
        skip = -(self.whole.data.ptr + first) % ALIGN
        self.memory = self.whole[skip : skip + len(array.memory)]
        self.memory[:] = cupy.asarray(array.memory)
        self.seen = cuda_arrays.window(self.memory.data.ptr + first, array.array.shape, array.array.strides, array.array.dtype)

    def settle(self) -> None:
        self.array.memory[...] = self.memory.get()


def compare_on_gpu(cupy: Any, cases: Sequence[Case]) -> list[Fault]:
    """Every difference."""
    compiled, kernel = made(cases), join(cases)
    arrays = [[a.copy() for _, a in c.tensors] for c in cases]
    flat = [OnGpu(cupy, a) for group in arrays for a in group]
    specs = [SimpleNamespace(name=b.name, is_output=False) for c in cases for b, _ in c.tensors]
    tensors = [BoundTensor(spec, a.seen, a.array.shape) for spec, a in zip(specs, flat, strict=True)]  # type: ignore[arg-type]
    scalars = {v.name: x for c in cases for v, x in c.scalars.items()}
    names = [SimpleNamespace(name=p.var.name) for p in kernel.params if isinstance(p, ScalarParam)]
    signature: Any = SimpleNamespace(dims=[d.name for d in kernel.dims], scalars=names, workspaces=kernel.workspaces)  # all that a launch asks for
    compiled.launch(BoundCall(signature, tensors, scalars, {d.name: n for c in cases for d, n in c.dims.items()}))
    cupy.cuda.Device().synchronize()
    for a in flat:
        a.settle()
    faults = []
    for case, group, want in zip(cases, arrays, meaning(cases), strict=True):
        text = differences(case, group, want, "the GPU")
        if text:
            faults.append(Fault(case, text))
    return faults
