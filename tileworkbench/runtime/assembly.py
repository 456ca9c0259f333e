"""The machine code of a kernel of the C target: its text compiled again to assembly, with the C line and the author's line of every instruction.

    print(kernel.assembly().text)

The compiler is asked for line numbers (`-g1`), which change no instruction; what it says beside instructions and labels is left out. The text is
kept in the disk cache beside the kernels.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..base.errors import CompilerError
from ..codegen.source import CSource
from . import cache as disk
from . import toolchain
from .stages import Stage, inherited

FORMAT = "1"
_LABEL = re.compile(r"^([.\w$]+):")
_FILE = re.compile(r'^\s*\.file\s+(\d+)\s+"([^"]*)"(?:\s+"([^"]*)")?')
_LOC = re.compile(r"^\s*\.loc\s+(\d+)\s+(\d+)")
_SECTION = re.compile(r"^\s*\.(section\s+\S+|text|data|bss)")


@dataclass(frozen=True, slots=True)
class Listing:
    """Instructions and labels; `c_lines` maps a line of `text` (from 1) to the line of the C text that it does, where that is known."""

    text: str
    c_lines: Mapping[int, int]


def assembly_stage(compiler: toolchain.Compiler, source: CSource, flags: Sequence[str]) -> Stage:
    """The stage "assembly" of a C text built with `flags`. A compiler that fails or is gone gives a stage that says so."""
    key = disk.key_of("assembly", FORMAT, source.text, *compiler.command, compiler.version, str(compiler.openmp), *flags)
    said = ""

    def build(folder: Path) -> dict[str, Any]:
        (folder / "kernel.c").write_text(source.text)
        line = [a for a in compiler.arguments("kernel.c", "kernel.s", flags) if a not in ("-shared", "-lm", "-nostdlib")]
        line = [str(folder / a) if a in ("kernel.c", "kernel.s") else a for a in line]
        code, text = toolchain.run([*line, "-S", "-g1"], toolchain.compile_timeout_s())
        if code != 0 or not (folder / "kernel.s").exists():
            first = next((x.strip() for x in text.splitlines() if x.strip()), "no output")
            raise CompilerError(f"{compiler.name} makes no assembly: {first[:200]}")
        return {}

    try:
        entry, _ = disk.get_or_build(key, build)
        listing = parse((entry.folder / "kernel.s").read_text(errors="replace"))
    except (CompilerError, OSError) as error:
        said = error.message if isinstance(error, CompilerError) else str(error)
        return Stage("assembly", "gas", "", why=said)
    spans = inherited(source.text, source.lines)
    return Stage("assembly", "gas", listing.text, {line: spans[c] for line, c in listing.c_lines.items() if c in spans})


def parse(text: str) -> Listing:
    """Instructions and the labels that they name, out of a compiler's assembly for `kernel.c`.

    >>> rows = ['.file 1 "kernel.c"', "f:", ".LFB0:", "\\t.loc 1 7 3", "\\tmovl\\t$1, %eax", "\\tret", "\\t.section .debug_info", "\\t.long 1"]
    >>> found = parse("\\n".join(rows))
    >>> print(found.text)
    f:
        movl    $1, %eax
        ret
    >>> dict(found.c_lines)
    {2: 7, 3: 7}
    """
    own: set[int] = set()
    kept: list[tuple[str, int]] = []  # a line, and its C line or 0
    line, is_code = 0, True
    for row in text.splitlines():
        if match := _SECTION.match(row):
            is_code = match.group(1).startswith("text") or ".text" in match.group(1) or "__text" in match.group(1)
        elif match := _FILE.match(row):
            if (match.group(3) or match.group(2)).endswith("kernel.c"):
                own.add(int(match.group(1)))
        elif match := _LOC.match(row):
            line = int(match.group(2)) if int(match.group(1)) in own else line  # a line of a header stands for the one that uses it
        elif not is_code or not row.strip() or row.lstrip().startswith(("#", "//")):
            continue
        elif match := _LABEL.match(row):
            line = 0 if not match.group(1).startswith((".L", "L")) else line
            kept.append((f"{match.group(1)}:", line))
        elif not row.lstrip().startswith("."):
            kept.append((_instruction(row), line))
    named = set(re.findall(r"[.\w$]+", " ".join(row for row, _ in kept if not row.endswith(":"))))
    shown = [(row, at) for row, at in kept if not row.endswith(":") or not row.startswith((".L", "L")) or row[:-1] in named]
    return Listing("\n".join(row for row, _ in shown), {i: at for i, (row, at) in enumerate(shown, 1) if at and not row.endswith(":")})


def vector_bytes(instruction: str) -> int:
    """Bytes of the vector that an instruction works on: 64, 32 or 16; 0 for scalar work, whatever register holds it.

    >>> vector_bytes("vmovups (%rdi), %zmm0"), vector_bytes("vaddps %ymm1, %ymm0, %ymm0"), vector_bytes("vaddss %xmm1, %xmm0, %xmm0")
    (64, 32, 0)
    >>> vector_bytes("fmla v0.4s, v1.4s, v2.4s"), vector_bytes("ret")
    (16, 0)
    """
    word, _, rest = instruction.strip().partition(" ")
    for name, size in (("%zmm", 64), ("%ymm", 32), ("%xmm", 16)):
        if name in rest:
            return 0 if size == 16 and re.search(r"(ss|sd|si|sil|siq)$|^v?mov[dq]$", word) else size
    return 16 if re.search(r"\bv\d+\.(2d|4s|8h|16b)|\bq\d+\b", rest) else 0


def _instruction(row: str) -> str:
    """An instruction in columns, without the compiler's remark."""
    word, _, rest = row.strip().partition("\t")
    rest = re.sub(r"\s+#.*$", "", rest.replace("\t", " "))
    return f"    {word:<7} {rest}".rstrip()
