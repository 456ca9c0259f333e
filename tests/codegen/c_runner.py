"""Compile a kernel's C with gcc and call it on NumPy arrays, without the runtime."""

from __future__ import annotations

import ctypes
import hashlib
import os
import subprocess
import tempfile
from functools import cache
from pathlib import Path

import numpy as np

from tileworkbench.base.cpu import host_isa
from tileworkbench.codegen.openmp import emit
from tileworkbench.codegen.source import CSource
from tileworkbench.ir.stmt import Kernel, ScalarParam, TensorParam
from tileworkbench.transform.lowering import C_STEPS, run_steps
from tileworkbench.transform.weigh_launches import weigh_launches

SHARED = tuple(step for step in C_STEPS if step.run is not weigh_launches)  # small programs too run on the threads that a test asks for

_FOLDER = tempfile.TemporaryDirectory(prefix="twb-run-")


@cache
def build(source_text: str, entry: str, flags: tuple[str, ...]) -> ctypes._CFuncPtr:
    key = hashlib.sha256(source_text.encode()).hexdigest()[:20]
    path = Path(_FOLDER.name, key + ".c")
    path.write_text(source_text, encoding="utf-8")
    off = ("unused-variable", "unused-but-set-variable", "unused-function", "unused-parameter", "type-limits", "psabi")
    warn = ["-Wall", "-Wextra", "-Werror", *(f"-Wno-{name}" for name in off)]
    command = ["gcc", "-O2", "-shared", "-fPIC", "-fopenmp", *host_isa().march, *flags, *warn, str(path), "-o", str(path.with_suffix(".so")), "-lm"]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "LC_ALL": "C"})
    if done.returncode:
        raise AssertionError(f"{done.stderr}\n{source_text}")
    function = getattr(ctypes.CDLL(str(path.with_suffix(".so"))), entry)
    function.restype = ctypes.c_int32
    return function


def source_of(kernel: Kernel) -> CSource:
    return emit(run_steps(kernel, SHARED))


class Compiled:
    """A kernel ready to be called with arrays (outputs included), scalars and dims by name; returns the entry's result."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.source = source_of(kernel)
        self.function = build(self.source.text, self.source.entry, self.source.flags)

    def __call__(self, *arrays: np.ndarray, threads: int = 1, dims: dict[str, int] | None = None, scalars: dict[str, float] | None = None) -> int:
        kernel, dims = self.kernel, dims or {}
        tensors = [p for p in kernel.params if isinstance(p, TensorParam)]
        assert len(tensors) == len(arrays)
        slots = [a.ctypes.data for a in arrays]
        self.workspaces = [np.zeros(_count(w, dims), np.uint8) for w in kernel.workspaces]
        slots += [w.ctypes.data for w in self.workspaces]
        slots += [int(dims[d.name]) for d in kernel.dims]
        for p in kernel.params:
            if isinstance(p, ScalarParam):
                value = (scalars or {})[p.var.name]
                slots.append(int(np.float64(value).view(np.int64)) if p.var.type.is_float else int(value))
        args = (ctypes.c_int64 * max(1, len(slots)))(*slots)
        return self.function(args, ctypes.c_int32(threads))


def _count(buffer, dims: dict[str, int]) -> int:
    total = 1
    for d in buffer.shape:
        total *= dims[d.name] if hasattr(d, "name") else int(d.value)
    return int(total * buffer.type.bits + 7) // 8


def run(kernel: Kernel, *arrays: np.ndarray, **how) -> int:
    """Compile and call once."""
    return Compiled(kernel)(*arrays, **how)
