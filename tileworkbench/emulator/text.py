"""CUDA text to C++ text: author lines become calls, device functions get the emulator's bodies, every kernel gets an entry that Python can call.

/* gemm.py:29: T.copy(A, a_s) */   ->   twb_at(1);       and line 1 is ("gemm.py", 29, "T.copy(A, a_s)")
extern "C" __global__ void __launch_bounds__(128) gemm(twb_global<const twb_f16> A, int32_t n) {...}
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from ..device import from_text, library
from .recording_text import recorded

_LINE = re.compile(r"/\* ([^*\n]*?):(\d+)(?:: ([^\n]*?))? \*/")
_KERNEL = re.compile(r'extern\s+"C"\s+__global__\s+void\s+((?:__\w+__\s*\([^()]*\)\s*)*)(\w+)\s*\(')
RUNTIME = ("runtime.cpp", "emu.h", "numbers.h", "state.h", "fibers.h", "record.h", "memory.h", "schedule.h", "warp.h", "async.h", "wgmma.h", "api.h")


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the author's program; `text` may be empty."""

    file: str
    line: int
    text: str = ""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of a kernel: its type as written without qualifiers ("twb_global<const float>", "int32_t"), and its name."""

    type: str
    name: str

    @property
    def is_array(self) -> bool:
        return self.type.startswith("twb_global<")

    @property
    def is_read_only(self) -> bool:
        return self.type.startswith("twb_global<const ")


@dataclass(frozen=True, slots=True)
class Kernel:
    """A kernel of a text: its name, parameters, the most threads of a block (`__launch_bounds__`; 0: not said), blocks of a cluster."""

    name: str
    parameters: tuple[Parameter, ...]
    max_threads: int
    cluster: tuple[int, ...] = (1, 1, 1)


@dataclass(frozen=True, slots=True)
class Source:
    """C++ text for the host, with the kernels in it and the author's lines: number -> line, counting from 1; 0 is "no line".

    `loops`: of a text that can be written down while it runs, the variable of each loop that takes turns.
    """

    text: str
    kernels: tuple[Kernel, ...]
    lines: tuple[Line, ...]
    arch: str
    loops: tuple[str, ...] = ()


def source(text: str, arch: str, *, record: bool = False) -> Source:
    """The C++ text of CUDA `text` (kernels only, without the device library), for the architecture named as compilers name it ("sm_90a").

    `record`: one that also says what a log holds (`recording_text`); it runs slower.

    Raises: ValueError if there is no kernel, or a device function that `arch` does not have.
    """
    kernels = tuple(_kernel(match, text) for match in _KERNEL.finditer(text))
    if not kernels:
        raise ValueError('the text has no kernel (extern "C" __global__ void ...)')
    lines: dict[Line, int] = {}
    loops: tuple[str, ...] = ()
    if record:
        text, loops = recorded(text)

    def call(match: re.Match[str]) -> str:
        line = Line(match[1], int(match[2]), match[3] or "")
        return f"{'twb_from' if record else 'twb_at'}({lines.setdefault(line, len(lines) + 1)});"

    body = _LINE.sub(call, text)
    entries = "".join(
        f'extern "C" __attribute__((visibility("default"))) void twb_entry_{k.name}(void **args) {{ twbe_call({k.name}, args); }}\n' for k in kernels
    )
    head = _read("emu.h") + _read("numbers.h") + library(from_text(text), arch, "emulator")
    return Source(f'{head}\n#line 1 "kernel.cu"\n{body}\n{entries}', kernels, tuple(lines), arch, loops)


def _kernel(match: re.Match[str], text: str) -> Kernel:
    start, depth, end = match.end(), 1, match.end()
    while depth:
        depth += {"(": 1, ")": -1}.get(text[end], 0)
        end += 1
    bounds = re.search(r"__launch_bounds__\s*\(\s*(\d+)", match[1])
    parameters = tuple(_parameter(p) for p in _split(text[start : end - 1]))
    cluster = re.search(r"__cluster_dims__\s*\(([^()]*)\)", match[1])
    blocks = tuple(int(n) for n in cluster[1].split(",")) if cluster else ()
    return Kernel(match[2], parameters, int(bounds[1]) if bounds else 0, (*blocks, *(1,) * (3 - len(blocks))))


def _split(text: str) -> list[str]:
    parts, depth, current = [], 0, ""
    for c in re.sub(r"/\*.*?\*/", "", text):
        depth += (c in "<(") - (c in ">)")
        if c == "," and depth == 0:
            parts.append(current)
            current = ""
        else:
            current += c
    return [p.strip() for p in (*parts, current) if p.strip()]


def _parameter(text: str) -> Parameter:
    words = re.sub(r"__grid_constant__|__restrict__", "", text)
    kind, name = re.fullmatch(r"\s*(.*?)\s*\b(\w+)\s*", words, re.DOTALL).groups()  # type: ignore[union-attr]  # a parameter has a name
    kind = re.sub(r"\s+", " ", kind).strip()
    return Parameter(kind if kind.startswith("twb_global<") else kind.removeprefix("const ").strip(), name)


def runtime_files() -> dict[str, str]:
    """The C++ files of the runtime: name -> text; `runtime.cpp` includes the others."""
    return {name: _read(name) for name in RUNTIME}


@cache
def _read(name: str) -> str:
    return (files(__package__) / "cpp" / name).read_text(encoding="utf-8")
