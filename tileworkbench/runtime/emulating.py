"""CUDA text to a program that runs here: the host's C++ compiler and the disk cache, for `emulator`.

The emulator's own runtime is compiled once and kept as a part; a kernel's text is compiled without optimising much, since it runs a few blocks.

To join the two took the linker as long as to compile a kernel, nearly all of it to read the thousands of symbols of C++'s library, of which the
runtime needs twenty. With gcc on Linux an empty library of the same name stands in for it: what is made asks for that name, and finds the true one
when it is loaded. (Softmax of 4 x 512, gcc 12, GNU ld 2.40: 28 instead of 87 ms of processor time to link.)
"""

from __future__ import annotations

import os
import shutil
import sys
from functools import cache
from pathlib import Path
from typing import Any

from ..base.errors import CompilerError
from ..emulator import Program, runtime_files, source
from . import cache as disk
from .toolchain import Compiler, compile_timeout_s, require_compiler, run, why_not_loadable

EMULATOR_ABI = "2"
RUNTIME_FLAGS = ("-O2", "-fno-math-errno")
KERNEL_FLAGS = ("-O1", "-fno-math-errno", "-fno-strict-aliasing")
CXX_LIBRARY = "libstdc++.so.6"  # of every gcc since 3.4
_COMMON = ("-std=c++17", "-fPIC", "-fvisibility=hidden", "-fno-exceptions", "-fno-rtti", "-ffp-contract=off", "-w")


def load(text: str, arch: str, *, record: bool = False) -> Program:
    """The kernels of CUDA `text` (without the device library) for `arch` ("sm_80", "sm_90a"), compiled or from the cache.

    `record`: a program whose runs can be written down.

    Raises: ValueError as `emulator.source` does; CompilerError if there is no C++ compiler, or the text does not compile.
    """
    return _load(text, arch, os.environ.get("TILEWORKBENCH_CC", ""), disk.is_enabled(), record)


@cache
def _load(text: str, arch: str, asked: str, _enabled: bool, record: bool) -> Program:
    del asked  # part of the key
    made, compiler = source(text, arch, record=record), require_compiler()
    command = cxx_command(compiler)

    def build(folder: Path) -> dict[str, Any]:
        text, part, whole = folder / "kernel.cpp", folder / "kernel.o", folder / "kernel.so"
        text.write_text(made.text)
        runtime = _runtime(command, compiler)
        _compile([*command, *KERNEL_FLAGS, *_COMMON, "-c", "-o", str(part), str(text)], part, compiler)
        _link(command, compiler, part, runtime, whole)
        part.unlink()
        return {}

    key = disk.key_of(EMULATOR_ABI, *command, compiler.version, *KERNEL_FLAGS, *_COMMON, made.text, *runtime_files().values())
    entry, _ = disk.get_or_build(key, build)
    return Program(str(entry.folder / "kernel.so"), made)


def _link(command: tuple[str, ...], compiler: Compiler, part: Path, runtime: Path, whole: Path) -> None:
    """Join a kernel and the runtime to the library `whole`, without C++'s library if that gives one that can be loaded."""
    objects, stand_in = [str(part), str(runtime)], runtime.parent / CXX_LIBRARY
    if stand_in.exists():
        code, _ = run([*compiler.command, "-shared", "-Wl,--no-as-needed", "-o", str(whole), *objects, str(stand_in), "-lm"], compile_timeout_s())
        if not code and not why_not_loadable(str(whole)):
            return
    _compile([*command, "-shared", "-o", str(whole), *objects, "-lm"], whole, compiler)


def _runtime(command: tuple[str, ...], compiler: Compiler) -> Path:
    """The object file of the emulator's runtime; beside it, with gcc on Linux, the library that stands in for C++'s own."""

    def build(folder: Path) -> dict[str, Any]:
        for name, text in runtime_files().items():
            (folder / name).write_text(text)
        output = folder / "runtime.o"
        _compile([*command, *RUNTIME_FLAGS, *_COMMON, "-c", "-o", str(output), str(folder / "runtime.cpp")], output, compiler)
        if compiler.kind == "gcc" and sys.platform == "linux":
            stand_in, nothing = folder / CXX_LIBRARY, folder / "nothing.c"
            nothing.write_text("")
            run([*compiler.command, "-shared", "-nostdlib", f"-Wl,-soname,{CXX_LIBRARY}", "-o", str(stand_in), str(nothing)], compile_timeout_s())
        return {}

    key = disk.key_of(EMULATOR_ABI, *command, compiler.version, *RUNTIME_FLAGS, *_COMMON, *runtime_files().values())
    return disk.get_or_build(key, build, disk.PARTS)[0].folder / "runtime.o"


def cxx_command(compiler: Compiler) -> tuple[str, ...]:
    """The C++ command of a C compiler: g++ beside gcc, clang++ beside clang, `zig c++`. Raises CompilerError if it is not installed."""
    if compiler.kind == "zig":
        return (*compiler.command[:-1], "c++")
    folder, name = os.path.split(compiler.command[0])
    sibling = {"gcc": "g++", "clang": "clang++"}[compiler.kind]
    tried = [os.path.join(folder, name.replace(compiler.kind, sibling)) if compiler.kind in name else "", sibling, "c++"]
    for candidate in tried:
        found = shutil.which(candidate) if candidate else None
        if found:
            return (found, *compiler.command[1:])
    raise CompilerError(f"the emulator needs a C++ compiler beside {compiler.name}", hint="install g++ or clang++")


def _compile(command: list[str], output: Path, compiler: Compiler) -> None:
    code, said = run(command, compile_timeout_s())
    if code or not output.exists():
        raise CompilerError(f"{compiler.name} does not compile the emulated kernel:\n{said[-4000:]}")
