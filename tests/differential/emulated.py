"""Run cases as CUDA text in the emulator, and say where they differ from the interpreter."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from differential.cases import Case
from differential.harness import Fault, differences, join, meaning

from tileworkbench.base.errors import TileError, UnsupportedError
from tileworkbench.codegen.cuda import emit_cuda
from tileworkbench.codegen.cuda_source import CudaSource, Number, Pointer
from tileworkbench.device import why_missing
from tileworkbench.ir.stmt import Kernel
from tileworkbench.runtime import emulating
from tileworkbench.runtime.expressions import evaluate
from tileworkbench.transform.cuda_lowering import cuda_steps
from tileworkbench.transform.lowering import run_steps

ARCH = "sm_80"


def emit(kernel: Kernel) -> CudaSource:
    return emit_cuda(run_steps(kernel, cuda_steps(80)), lambda name: why_missing(name, ARCH))


def refusals(cases: Sequence[Case]) -> tuple[list[Case], list[Fault]]:
    """The cases that the CUDA target takes, and why it refuses others: not those that no target takes, since an index is certainly outside."""
    taken, refused = [], []
    for case in cases:
        try:
            emit(join([case]))
            taken.append(case)
        except UnsupportedError as error:
            refused.append(Fault(case, str(error)))
        except TileError:
            pass
    return taken, refused


def compare_emulated(cases: Sequence[Case], sanitize: bool = False) -> list[Fault]:
    """Every difference; with `sanitize` also what the emulator's sanitizer finds."""
    kernel = join(cases)
    made = emit(kernel)
    program = emulating.load(made.text, ARCH)
    arrays = [[a.copy() for _, a in c.tensors] for c in cases]
    given = {b.name: a for c, group in zip(cases, arrays, strict=True) for (b, _), a in zip(c.tensors, group, strict=True)}
    values = {d.name: v for c in cases for d, v in c.dims.items()} | {v.name: x for c in cases for v, x in c.scalars.items()}
    work = {w.name: np.zeros([evaluate(d, values) for d in w.shape], w.type.to_numpy()) for w in kernel.workspaces}
    found: list[str] = []
    for k in made.kernels:
        args = []
        for p in k.params:
            if isinstance(p, Pointer):
                args.append(given[p.name].array if p.name in given else work[p.name])
            else:
                assert isinstance(p, Number)
                args.append(evaluate(p.value, values))
        grid = [evaluate(g, values) for g in k.grid]
        result = program[k.name].run(grid, k.block, args, shared_bytes=k.shared_bytes, sanitize=sanitize)
        found += [f"{k.name}: {f}" for f in result.findings]
    faults = [Fault(cases[0], f) for f in found]
    for case, group, want in zip(cases, arrays, meaning(cases), strict=True):
        text = differences(case, group, want, "the emulator")
        if text:
            faults.append(Fault(case, text))
    return faults
