"""A program through the interpreter and as CUDA text in the emulator."""

from __future__ import annotations

from typing import Any

import numpy as np

from tileworkbench.frontend.prim_func import PrimFunc
from tileworkbench.interpret import run as interpret
from tileworkbench.runtime.options import Options
from tileworkbench.runtime.target_emulate import Emulated, EmulateTarget


def made(program: PrimFunc) -> Emulated:
    return EmulateTarget().compile(program.kernel, Options(arch="sm_80"))


def run(program: PrimFunc, *arrays: np.ndarray[Any, Any]) -> Emulated:
    """Change `arrays` in place in the emulator, whose sanitizer finds nothing, and see that the interpreter leaves the same."""
    compiled, theirs = made(program), [a.copy() for a in arrays]
    for kernel in compiled.made.kernels:
        names = [p.buffer.name for p in program.kernel.params]  # type: ignore[union-attr]
        args = [arrays[names.index(p.name)] for p in kernel.params]  # type: ignore[union-attr]
        result = compiled.program[kernel.name].run(
            [int(g.value) for g in kernel.grid],  # type: ignore[attr-defined]
            kernel.block, args, shared_bytes=kernel.shared_bytes, sanitize=True,
        )  # fmt: skip
        assert not result.findings, result.findings[0]
    interpret(program.kernel, theirs, {}, {})
    for mine, other in zip(arrays, theirs, strict=True):
        np.testing.assert_array_equal(mine, other)
    return compiled
