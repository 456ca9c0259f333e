"""Run cases on the interpreter and through C, and say where they differ.

Many cases become one kernel (a launch each), so that the C compiler starts once for all of them.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from differential.cases import Array, Case

from tileworkbench.base.cpu import AVX2, GENERIC, Isa, host_isa
from tileworkbench.base.errors import TileError
from tileworkbench.codegen.openmp import emit
from tileworkbench.interpret import run as interpret
from tileworkbench.ir.stmt import Kernel, ScalarParam, TensorParam
from tileworkbench.ir.verify import verify
from tileworkbench.transform.lowering import C_STEPS, lower, run_steps
from tileworkbench.transform.weigh_launches import weigh_launches

ISAS = {isa.name: isa for isa in (host_isa(), AVX2, GENERIC) if isa.flags <= host_isa().flags}
SHARED = tuple(step for step in C_STEPS if step.run is not weigh_launches)  # small programs too run on the threads that a test asks for
_FOLDER = tempfile.TemporaryDirectory(prefix="twb-diff-")


@dataclass
class Fault:
    """One difference: the case, and what is wrong with it."""

    case: Case
    text: str


def join(cases: Sequence[Case], name: str = "k") -> Kernel:
    """One kernel of all cases."""
    params = [TensorParam(b) for c in cases for b, _ in c.tensors] + [ScalarParam(v) for c in cases for v in c.scalars]
    dims = tuple(d for c in cases for d in c.dims)
    kernel = Kernel(name, tuple(params), dims, tuple(w for c in cases for w in c.workspaces), tuple(s for c in cases for s in c.body))
    verify(kernel, "tile")
    return kernel


def acceptable(cases: Sequence[Case]) -> list[Case]:
    """Those that the compiler does not refuse (for instance because an index is certainly outside)."""
    out = []
    for case in cases:
        try:
            emit(lower(join([case])))
            out.append(case)
        except TileError:
            pass
    return out


def compile_c(text: str, flags: Sequence[str], isa: Isa, extra: Sequence[str] = ()) -> Path:
    """The shared library."""
    key = hashlib.sha256(repr((text, flags, isa.march, extra)).encode()).hexdigest()[:20]
    path = Path(_FOLDER.name, key + ".c")
    if not path.with_suffix(".so").exists():
        path.write_text(text, encoding="utf-8")
        options = ["-O2", "-std=gnu11", "-shared", "-fPIC", "-fopenmp", *isa.march, *flags, *extra, "-w"]
        done = subprocess.run(
            ["gcc", *options, str(path), "-o", str(path.with_suffix(".so")), "-lm"], capture_output=True, text=True, env={**os.environ, "LC_ALL": "C"}
        )
        if done.returncode:
            raise AssertionError(f"the C compiler refuses the text\n{done.stderr[:3000]}\n{text}")
    return path.with_suffix(".so")


class Lowered:
    """Cases as one kernel, ready to be emitted. `refusable`: without those that the compiler refuses."""

    def __init__(self, cases: Sequence[Case], refusable: bool = False) -> None:
        try:
            self._lower(cases)
        except TileError:
            if not refusable:
                raise
            self._lower(acceptable(cases))

    def _lower(self, cases: Sequence[Case]) -> None:
        self.cases, self.kernel = cases, join(cases)
        self.steps = run_steps(self.kernel, SHARED)
        emit(self.steps)


class Built:
    """Cases compiled for one instruction set."""

    def __init__(self, lowered: Lowered, isa: Isa | None = None, extra: Sequence[str] = (), change=lambda text: text) -> None:
        self.cases, self.kernel = lowered.cases, lowered.kernel
        source = emit(lowered.steps, isa)
        self.text = change(source.text)
        self.function = getattr(ctypes.CDLL(str(compile_c(self.text, source.flags, isa or host_isa(), extra))), source.entry)
        self.function.restype = ctypes.c_int32

    def run(self, threads: int = 1, tight: bool = False) -> list[list[Array]]:
        """The arrays of every case afterwards. `tight`: on copies in memory that ends where they end, for a sanitizer to watch; they are lost."""
        arrays = [[a.copy() for _, a in c.tensors] for c in self.cases]
        slots = [a.pointer for group in arrays for a in group]
        copies = [a.tight() for group in arrays for a in group] if tight else []
        if tight:
            slots = [c.ctypes.data for c in copies]
        dims = {d.name: v for c in self.cases for d, v in c.dims.items()}
        works = [np.zeros(_bytes(w, dims) + 64, np.uint8) for w in self.kernel.workspaces]
        slots += [w.ctypes.data + 63 & -64 for w in works]
        slots += [dims[d.name] for d in self.kernel.dims]
        values = {v.name: x for c in self.cases for v, x in c.scalars.items()}
        for p in self.kernel.params:
            if isinstance(p, ScalarParam):
                value = values[p.var.name]
                slots.append(int(np.float64(value).view(np.int64)) if p.var.type.is_float else int(value))
        code = self.function((ctypes.c_int64 * max(1, len(slots)))(*slots), ctypes.c_int32(threads))
        assert code == 0, f"the kernel returned {code}"
        return arrays


def _bytes(buffer, dims) -> int:
    total = 1
    for d in buffer.shape:
        total *= dims[d.name] if hasattr(d, "name") else int(d.value)
    return int(total * buffer.type.bits + 7) // 8


def meaning(cases: Sequence[Case]) -> list[list[Array]]:
    """What the interpreter leaves."""
    out = []
    for case in cases:
        arrays = [a.copy() for _, a in case.tensors]
        interpret(join([case]), [a.array for a in arrays], {v.name: x for v, x in case.scalars.items()}, {d.name: n for d, n in case.dims.items()})
        out.append(arrays)
    return out


def differences(case: Case, found: Sequence[Array], wanted: Sequence[Array], what: str) -> str:
    """Empty, or the first array that differs."""
    for (buffer, before), a, b in zip(case.tensors, found, wanted, strict=True):
        if not a.untouched():
            return f"{what}: wrote outside {buffer.name}"
        if not b.untouched():
            return f"the interpreter wrote outside {buffer.name}"
        x, y = a.values(), b.values()
        if x.dtype.kind in "fV":
            with np.errstate(all="ignore"):
                x, y = x.astype(np.float64), y.astype(np.float64)
                same = np.isclose(x, y, case.rtol, case.atol, equal_nan=True) | (x == y)
        else:
            same = x == y
        if not same.all():
            at = tuple(int(i) for i in np.argwhere(~same)[0])
            return f"{what}: {buffer.name}{list(at)} of {buffer.type} is {x[at]}, not {y[at]}; {int((~same).sum())} of {same.size} differ"
    return ""


def compare(cases: Sequence[Case], isas: Sequence[str] = ("",), threads: Sequence[int] = (1, 2), refusable: bool = False) -> list[Fault]:
    """Every difference between the interpreter and C on these instruction sets ("" is the host's) and numbers of threads.

    `refusable`: cases that the compiler refuses are left out; else it raises.
    """
    faults: list[Fault] = []
    lowered = Lowered(cases, refusable)
    wanted = meaning(lowered.cases)
    for name in isas:
        built = Built(lowered, ISAS[name] if name else None)
        for count in threads:
            for case, found, want in zip(lowered.cases, built.run(count), wanted, strict=True):
                text = differences(case, found, want, f"c {name or 'host'}, {count} threads")
                if text and all(f.case is not case for f in faults):
                    faults.append(Fault(case, text))
    return faults
