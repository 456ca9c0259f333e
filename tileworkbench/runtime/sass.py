"""The machine code of a GPU kernel as text, with the line of the CUDA text that each instruction comes from.

NVIDIA's `nvdisasm` makes it, without a GPU. It is looked for on the path and among NVIDIA's wheels (`pip install nvidia-cuda-nvdisasm`).
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..base.errors import CompilerError
from ..base.span import Span
from . import cache as disk
from . import toolchain
from .nvrtc import wheel_folders
from .ptx_lines import PtxLines, text_line
from .sass_kinds import GROUP_PRODUCTS, name_of
from .stages import Stage, inherited

STAGE, LANGUAGE = "SASS", "sass"
NAME, FORMAT, TIMEOUT_S = "nvdisasm", "1", 60.0
INSTALL = "pip install nvidia-cuda-nvdisasm"
_LINE = re.compile(r'line (\d+)(?: inlined at "[^"]*", line (\d+))?')
_CODE = re.compile(r"^\s*/\*[0-9a-f]+\*/\s+(.*?)\s*;")


@dataclass(frozen=True, slots=True)
class Sass:
    """Instructions and labels; `cuda_lines` maps a line of `text` (from 1) to the line of the CUDA text that it does, where that is known."""

    text: str
    cuda_lines: Mapping[int, int]


def find_nvdisasm() -> str | None:
    """The disassembler's path, or None."""
    found = shutil.which(NAME)
    if found:
        return found
    places = [path for folder in wheel_folders() for path in (*folder.glob(f"cu[0-9]*/bin/{NAME}"), *folder.glob(f"*/bin/{NAME}"))]
    return next((str(p) for p in sorted(places, reverse=True) if os.access(p, os.X_OK)), None)


def sass_stage(cubin: bytes, text: str, lines: Mapping[int, Span], *, ptx: PtxLines = (), about: tuple[str, ...] = ()) -> Stage:
    """The stage "SASS" of a cubin made from the CUDA `text`. A missing or failing disassembler gives a stage that says so.

    `ptx`: the lines of the text behind those of the PTX (`ptx_lines`); `about`: what the stage says of the whole.
    """
    tool = find_nvdisasm()
    if tool is None:
        return Stage(STAGE, LANGUAGE, "", why=f"{NAME} is not installed: {INSTALL}", about=about)
    try:
        listing = disassemble(cubin, tool, ptx)
    except (CompilerError, OSError) as error:
        return Stage(STAGE, LANGUAGE, "", why=error.message if isinstance(error, CompilerError) else str(error), about=about)
    spans = inherited(text, lines)
    return Stage(STAGE, LANGUAGE, listing.text, {line: spans[at] for line, at in listing.cuda_lines.items() if at in spans}, about=about)


def disassemble(cubin: bytes, tool: str, ptx: PtxLines = ()) -> Sass:
    """Run the disassembler, or take its text from the disk cache. Raises CompilerError if it fails."""
    info = os.stat(tool)
    option = "--print-line-info-ptx" if ptx else "--print-line-info-inline"

    def build(folder: Path) -> dict[str, Any]:
        with tempfile.TemporaryDirectory(prefix="twb-sass-") as work:
            place = Path(work) / "kernel.cubin"
            place.write_bytes(cubin)
            code, said = toolchain.run([tool, option, "--print-code", str(place)], TIMEOUT_S)
        if code != 0:
            raise CompilerError(f"{NAME} failed: {' '.join(said.split())[:200]}")
        (folder / "kernel.sass").write_text(said)
        return {}

    entry, _ = disk.get_or_build(disk.key_of("sass", FORMAT, option, cubin.hex(), tool, str(info.st_size), str(info.st_mtime_ns)), build, disk.PARTS)
    return parse((entry.folder / "kernel.sass").read_text(errors="replace"), ptx)


def parse(text: str, ptx: PtxLines = ()) -> Sass:
    """Instructions, kernels' names and the labels that instructions name, out of the disassembler's text; with `ptx`, its lines are those of the PTX.

    A call that was inlined counts as the line that calls: the outermost one. What the compiler gives no line has that of the instruction before it,
    except for products of a warp group: those have the line of the fence that they are issued behind (`WARPGROUP.ARRIVE`), since what stands before
    them may be of any line.

    >>> rows = [".text.add:", '  //## File "kernel.cu", line 3', "  /*0000*/  LDC R1, c[0x0][0x28] ;",
    ...         '  //## File "kernel.cu", line 1 inlined at "kernel.cu", line 7',
    ...         '  //## File "kernel.cu", line 7', "  /*0010*/  BRA `(.L_1) ;", ".L_1:", ".L_2:"]
    >>> found = parse("\\n".join(rows))
    >>> print(found.text)
    add:
        LDC R1, c[0x0][0x28]
        BRA `(.L_1)
    .L_1:
    >>> dict(found.cuda_lines)
    {2: 3, 3: 7}
    """
    kept: list[tuple[str, int]] = []
    line = fence = 0
    for row in text.splitlines():
        if row.lstrip().startswith("//##"):
            match = _LINE.search(row)
            line = int(match[2] or match[1]) if match else line
            line = text_line(ptx, line) if match and ptx else line
        elif match := _CODE.match(row):
            row = f"    {match[1]}"
            fence = line if "WARPGROUP.ARRIVE" in row else fence
            kept.append((row, fence or line if name_of(row) in GROUP_PRODUCTS else line))
        elif row.startswith(".text."):
            kept.append((row.strip().removeprefix(".text."), 0))
            line = fence = 0
        elif row.startswith(".L") and row.rstrip().endswith(":"):
            kept.append((row.strip(), 0))
    named = set(re.findall(r"\.L\w+", " ".join(row for row, _ in kept if not row.endswith(":"))))
    shown = [(row, at) for row, at in kept if not row.startswith(".L") or row[:-1] in named]
    return Sass("\n".join(row for row, _ in shown), {i: at for i, (row, at) in enumerate(shown, 1) if at})
