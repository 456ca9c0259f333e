"""C text to a shared library.

    kernel.c, TWB_APART defined  --cc -c-->  kernel.o  \\
    part.c                       --cc -c-->  part.o      --cc -shared-->  kernel.so
    part.c, met before                       part.o    /

Parts (`codegen.parts`) are functions that many kernels share. The object file of each is kept in the disk cache, and those that are missing are
compiled while the rest of the text is. Without parts, and for zig, which keeps what it compiled by itself, the whole text is one command.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from ..base.errors import CompilerError
from ..base.span import Span
from ..codegen.parts import DEFINED
from . import cache, diagnostics
from .toolchain import Compiler, compile_timeout_s, run, why_not_loadable

OBJECT_ABI = "1"
_SLOW = "a smaller tile, or fewer unrolled loops; TILEWORKBENCH_CC_TIMEOUT sets the limit in seconds"


def build_library(
    compiler: Compiler,
    text: str,
    folder: Path,
    flags: Sequence[str],
    lines: Mapping[int, Span],
    link_flags: Sequence[str] = (),
    parts: Sequence[str] = (),
    *,
    alone: bool = False,
) -> Path:
    """Compile the C `text` in `folder` and return the shared library `folder/kernel.so`; `folder/kernel.c` holds the text. `parts` are C files.

    `alone`: the text calls nothing of libc that changed its meaning since its first version, so libc need not be linked.

    Raises: CompilerError at the author's line (through `lines`, C line -> span), also when the compiler does not end in time.
    """
    source, output = folder / "kernel.c", folder / "kernel.so"
    source.write_text(text)
    if parts and compiler.kind != "zig":
        with ThreadPoolExecutor(len(parts)) as workers:
            made = [workers.submit(_part, compiler, part, flags) for part in parts]
            own = folder / "kernel.o"
            _compile(compiler.object_arguments(str(source), str(own), [*flags, f"-D{DEFINED}"]), own, text, lines, compiler)
            objects = [str(own), *(str(m.result()) for m in made)]
        _compile(compiler.link_arguments(objects, str(output), link_flags, alone=alone and compiler.links_alone), output, text, lines, compiler)
        own.unlink()
        return output
    # zig builds its own libc and runtime for every new processor, which takes it 20 s: the process has a libc and a libm already
    is_zig = compiler.kind == "zig"
    for without in (True, False) if is_zig else (alone and compiler.links_alone,):
        _compile(compiler.arguments(str(source), str(output), flags, link_flags, alone=without), output, text, lines, compiler)
        if not is_zig or not without or not why_not_loadable(str(output)):
            break
    return output


def _part(compiler: Compiler, text: str, flags: Sequence[str]) -> Path:
    """The object file of one part, from the disk cache or made now."""

    def make(folder: Path) -> dict[str, Any]:
        source, output = folder / "part.c", folder / "part.o"
        source.write_text(text)
        _compile(compiler.object_arguments(str(source), str(output), flags), output, text, {}, compiler)
        return {}

    key = cache.key_of(OBJECT_ABI, *compiler.command, compiler.version, str(compiler.openmp), *flags, text)
    return cache.get_or_build(key, make, cache.PARTS)[0].folder / "part.o"


def _compile(command: Sequence[str], output: Path, text: str, lines: Mapping[int, Span], compiler: Compiler) -> None:
    """Run one command that makes `output`."""
    try:
        code, said = run(command, compile_timeout_s())
    except CompilerError as error:
        error.hint = _SLOW
        raise
    if code != 0 or not output.exists():
        raise diagnostics.blame(said, text, lines, compiler.name)
