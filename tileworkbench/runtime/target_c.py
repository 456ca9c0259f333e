"""The target "c": lowers a kernel to C with OpenMP, compiles it with the machine's compiler, and keeps the result in the disk cache.

A hit costs a hash of the tile program and a `dlopen`; the passes do not run then. Views that ask for the passes, or for the map from C lines to the
author's, run them again: so spans are always those of the source as it is now.
"""

from __future__ import annotations

import json
import os
import struct
import time
from collections.abc import Iterator
from functools import cache, cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from ..base.cpu import host_isa
from ..base.errors import TileRuntimeError
from ..base.span import Span
from ..codegen.openmp import emit
from ..codegen.source import CSource
from ..ir.stmt import Kernel
from ..transform.lowering import C_STEPS
from . import cache as disk
from . import toolchain
from .arguments import BoundCall
from .assembly import assembly_stage
from .building import build_library
from .executable import AssertSite, CompileFacts, PassRecord, raise_assertion
from .expressions import evaluate
from .fastcall import pack_format
from .fingerprint import fingerprint
from .loader import Entry, load
from .notices import notice_once
from .options import Options
from .recording import run_and_record
from .stages import Stage

ABI = "2"


class Compiled:
    """A kernel as a shared library. `library` is its path."""

    def __init__(
        self, kernel: Kernel, library: Path, facts: dict[str, Any], was_cached: bool, compiler: toolchain.Compiler, flags: tuple[str, ...] = ()
    ) -> None:
        self.kernel = kernel
        self.flags = flags
        self.library = library
        self.compiler = compiler
        self._facts = facts
        self._was_cached = was_cached
        self.entry: Entry = load(library, str(facts["entry"]))

    def launch(self, call: BoundCall) -> None:
        """Run the kernel on bound arguments."""
        workspaces = [_workspace(shape_bytes(buffer, call.dims)) for buffer in call.signature.workspaces]
        slots: list[int | float] = [bound.pointer for bound in call.tensors]
        slots += [w.__array_interface__["data"][0] + 63 & -64 for w in workspaces]
        slots += [call.dims[name] for name in call.signature.dims]
        slots += [call.scalars[s.name] for s in call.signature.scalars]
        code = self.entry(struct.pack(pack_format(call.signature), *slots), call.threads)
        if code:
            self.fail(code)

    def fail(self, code: int) -> None:
        if code < 0:
            raise TileRuntimeError(f"kernel {self.kernel.name}: no memory for its tiles ({self._again[0].scratch_bytes} bytes a thread)")
        raise_assertion(code, lambda: tuple(AssertSite(m, s) for m, s in self._again[0].asserts), self.kernel.name)

    @cached_property
    def _again(self) -> tuple[CSource, tuple[PassRecord, ...]]:
        """The text with its maps, and the passes, made anew."""
        return translate(self.kernel)

    @property
    def source(self) -> str:
        try:
            return (self.library.parent / "kernel.c").read_text()
        except OSError:  # the cache was cleared meanwhile
            return self._again[0].text

    @property
    def lines(self) -> dict[int, Span]:
        return dict(self._again[0].lines)

    @property
    def passes(self) -> tuple[PassRecord, ...]:
        return self._again[1]

    def machine_code(self) -> tuple[Stage, ...]:
        """The assembly that the compiler made of the text."""
        source = self._again[0]
        return (assembly_stage(self.compiler, source, (*host_isa().march, *source.flags, *self.flags)),)

    def facts(self) -> CompileFacts:
        notes = (f"{self.compiler.why_serial}; kernels run on one thread",) if self.compiler.why_serial else ()
        known = self._facts
        return CompileFacts(self.compiler.name, self._was_cached, float(known["passes_ms"]), float(known["compiler_ms"]), notes)


class CTarget:
    """C with OpenMP on this machine's processor."""

    name = "c"

    def usable(self) -> str:
        if toolchain.default_compiler() is None:
            return toolchain.why_no_compiler()
        return ""

    def compile(self, kernel: Kernel, options: Options) -> Compiled:
        """The shared library of `kernel`, from memory, from disk, or made now."""
        compiler = toolchain.require_compiler()
        if compiler.why_serial:
            notice_once(f"{compiler.why_serial}; kernels run on one thread")
        isa = host_isa()
        built_by = (*compiler.command, compiler.version, str(compiler.openmp))
        key = disk.key_of(ABI, package_stamp(), fingerprint(kernel), isa.name, *isa.march, *sorted(isa.flags), *built_by, *options.compile_flags)
        facts: dict[str, Any] = {}
        fresh: list[tuple[CSource, tuple[PassRecord, ...]]] = []

        def build(folder: Path) -> dict[str, Any]:
            start = time.perf_counter()
            source, records = translate(kernel)
            fresh.append((source, records))
            middle = time.perf_counter()
            flags = [*isa.march, *source.flags, *options.compile_flags]
            is_ours = not kernel.imports and not options.compile_flags
            build_library(compiler, source.text, folder, flags, source.lines, source.link_flags, source.parts, alone=is_ours)
            facts.update(entry=source.entry, passes_ms=(middle - start) * 1e3, compiler_ms=(time.perf_counter() - middle) * 1e3)
            return facts

        entry, was_cached = disk.get_or_build(key, build)
        compiled = Compiled(kernel, entry.folder / "kernel.so", entry.facts, was_cached, compiler, options.compile_flags)
        if fresh:
            compiled.__dict__["_again"] = fresh[0]
        return compiled


def translate(kernel: Kernel) -> tuple[CSource, tuple[PassRecord, ...]]:
    """Lower and emit: the C text, and a record of every pass."""
    lowered, records = run_and_record(kernel, C_STEPS)
    return emit(lowered), records


def shape_bytes(buffer: Any, dims: dict[str, int]) -> int:
    """Bytes of a workspace for these dims."""
    count = 1
    for dim in buffer.shape:
        count *= evaluate(dim, dims)
    return (max(count, 0) * int(buffer.type.bits) + 7) // 8


def _workspace(size: int) -> np.ndarray[Any, Any]:
    return np.empty(size + 64, np.uint8)


@cache
def package_stamp() -> str:
    """Changes with every edit of the compiler's own source, so that a working copy never runs code of yesterday's emitter."""
    root = Path(__file__).parent.parent
    files = [
        file for folder in ("base", "layout", "ir", "analysis", "transform", "codegen", "device", "runtime") for file in _sources(str(root / folder))
    ]
    about = sorted((file.path, (info := file.stat()).st_size, info.st_mtime_ns) for file in files)
    return sha256(json.dumps([(path[len(str(root)) :], *rest) for path, *rest in about]).encode()).hexdigest()[:16]


def _sources(folder: str) -> Iterator[os.DirEntry[str]]:
    """The Python files below `folder`; pathlib takes five times as long."""
    with os.scandir(folder) as found:
        for entry in found:
            if entry.is_dir():
                yield from _sources(entry.path)
            elif entry.name.endswith(".py"):
                yield entry


TARGET = CTarget()
__all__ = ["TARGET", "CTarget", "Compiled", "translate"]
