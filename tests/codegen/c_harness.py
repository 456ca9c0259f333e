"""Compile pieces of generated C and call them on NumPy arrays."""

from __future__ import annotations

import ctypes
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

import numpy as np

from tileworkbench.base.cpu import AVX2, AVX512, GENERIC, Isa, host_isa
from tileworkbench.codegen import clib

HOST = host_isa()
ISAS = [isa for isa in dict.fromkeys((HOST, AVX512, AVX2, GENERIC)) if isa.flags <= HOST.flags]
MARCHES = list({isa.march: isa for isa in reversed(ISAS)}.values())[::-1]  # for a text that is the same for all: what is left differs to a compiler
COMPILERS = [name for name in ("gcc", "clang") if shutil.which(name)]
FLAGS = ["-O2", "-shared", "-fPIC", "-fopenmp-simd", "-Wall", "-Wextra", "-Werror", "-Wno-psabi"]
_FOLDER = tempfile.TemporaryDirectory(prefix="twb-c-")
NUMPY = {"float": np.float32, "double": np.float64, **{f"{u}int{b}_t": np.dtype(f"{u}int{b}").type for u in ("", "u") for b in (8, 16, 32, 64)}}


@cache
def build(text: str, isa: Isa = HOST, compiler: str = COMPILERS[0], extra: tuple[str, ...] = ()) -> ctypes.CDLL:
    """The shared library made of `text`."""
    key = hashlib.sha256(f"{text}{isa.march}{compiler}{extra}".encode()).hexdigest()[:20]
    source, binary = Path(_FOLDER.name, key + ".c"), Path(_FOLDER.name, key + ".so")
    if binary.exists():  # two sets of instructions may ask for the same text and flags
        return ctypes.CDLL(str(binary))
    source.write_text(text, encoding="utf-8")
    command = [compiler, *FLAGS, *isa.march, *clib.FLAGS, *extra, str(source), "-o", str(binary), *clib.LINK_FLAGS]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "LC_ALL": "C"})
    if done.returncode:
        raise AssertionError(f"{' '.join(command)}\n{done.stderr}\n{text[:4000]}")
    return ctypes.CDLL(str(binary))


def types_of(name: str) -> tuple[str, list[str]]:
    """Result type and parameter types of a library function of plain values."""
    found = re.fullmatch(r"(\w+) \w+\((.*)\)", clib.FUNCTIONS[name])
    assert found, name
    return found[1], [p.rsplit(" ", 1)[0] for p in found[2].split(", ")]


def loop_text(names: list[str]) -> str:
    """The library and, for each function f, a vector loop `loop_f(n, out, in...)` that applies it to arrays."""
    out = [clib.library(names)]
    for name in names:
        result, params = types_of(name)
        arrays = "".join(f", const {t} *a{i}" for i, t in enumerate(params))
        call = ", ".join(f"a{i}[i]" for i in range(len(params)))
        out.append(
            f"void loop_{name}(int64_t n, {result} *restrict out{arrays}) {{\n"
            f"    #pragma omp simd\n    for (int64_t i = 0; i < n; i++) out[i] = {name}({call});\n}}\n"
        )
    return "".join(out)


def apply(name: str, *arrays: np.ndarray, isa: Isa = HOST, compiler: str = COMPILERS[0], names: list[str] | None = None) -> np.ndarray:
    """`name` of every element, through a vector loop."""
    result, params = types_of(name)
    args = [np.ascontiguousarray(a, NUMPY[t]) for a, t in zip(arrays, params, strict=True)]
    out = np.empty(args[0].shape, NUMPY[result])
    lib = build(loop_text(names or [name]), isa, compiler)
    getattr(lib, f"loop_{name}")(ctypes.c_int64(out.size), *(ctypes.c_void_p(a.ctypes.data) for a in (out, *args)))
    return out
