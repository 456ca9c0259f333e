"""NVRTC, NVIDIA's compiler as a library: CUDA text -> machine code, without a GPU or a driver.

It is looked for in this order: $TILEWORKBENCH_NVRTC (a path, or "none"), NVIDIA's wheels, $CUDA_HOME or $CUDA_PATH, the system's libraries. Nothing
is imported for that, only `ctypes` opens the library.

    made = compile_text(text, "sm_90a")
    made.cubin, made.log
"""

from __future__ import annotations

import ctypes
import ctypes.util
import importlib.util
import os
import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from ..base.errors import CapacityError, CompilerError
from ..base.span import Span
from . import diagnostics
from .gpu_arch import arch_names, parse_arch
from .libcuda import cuda_version
from .ptx_lines import PtxLines, ptx_lines

INSTALL = "pip install tileworkbench[cuda], or only the compiler: pip install nvidia-cuda-nvrtc (nvidia-cuda-nvrtc-cu12 for a driver of CUDA 12)"
FILE = "kernel.cu"
STANDARD = "--std=c++17"
MINIMAL = "--minimal"  # without textures and the like: halves the time
SINCE_MINIMAL = (12, 4)
LINE_INFO = "--generate-line-info"  # takes a fifteenth of the time, so only who looks at lines asks for it
REPORT = "--ptxas-options=-v"  # asks for the resources of each kernel, spills among them
OK, INVALID_OPTION = 0, 5
_WHEELS = ("cu[0-9]*/lib/libnvrtc.so.*", "cuda_nvrtc/lib/libnvrtc.so.*")
_SHARED = re.compile(r"Entry function '(\w+)' uses too much shared data \(0x([0-9a-f]+) bytes, 0x([0-9a-f]+) max\)")
_HARMLESS = re.compile(r"declared but never referenced|^Remark: |\(C7519\)")  # an unused variable; how to hide it; a fence that the compiler put in
_LIBRARY = re.compile(r"libnvrtc\.so\.\d+(\.\d+)*$")


_NOTHING = 'extern "C" __global__ void nothing() {}'


@dataclass(frozen=True, slots=True)
class Made:
    """Machine code: `cubin` is an ELF file, `log` all that the compiler said, its report of resources included.

    `lines`, where LINE_INFO was among the flags: as `ptx_lines` gives them.
    """

    arch: str
    cubin: bytes
    log: str
    compiler: str
    lines: PtxLines = ()

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the compiler warned of; a serialized wgmma is such a warning, and costs most of the speed."""
        lines = (line.strip() for line in self.log.splitlines())
        return tuple(line for line in lines if re.search(r"\bwarning\b|\bC75\d\d\b", line) and not _HARMLESS.search(line))


class Nvrtc:
    """The library at `path`. Raises OSError if it cannot be opened."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._library = ctypes.CDLL(path)
        major, minor = ctypes.c_int(), ctypes.c_int()
        self._library.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor))
        self.version = (major.value, minor.value)
        self._library.nvrtcGetErrorString.restype = ctypes.c_char_p
        self._is_warm = False

    def warm_up(self, arch: str) -> None:
        """Let the library load what it needs on another thread: the first compilation of a process takes 0.1 s longer, about as long as passes do."""
        if not self._is_warm:
            self._is_warm = True
            threading.Thread(target=self.compile, args=(_NOTHING, (f"--gpu-architecture={arch}",)), name="nvrtc").start()

    @property
    def name(self) -> str:
        """For people: `NVRTC 13.0`."""
        return f"NVRTC {self.version[0]}.{self.version[1]}"

    def architectures(self) -> tuple[str, ...]:
        """The architectures that this compiler knows."""
        count = ctypes.c_int()
        self._library.nvrtcGetNumSupportedArchs(ctypes.byref(count))
        numbers = (ctypes.c_int * count.value)()
        self._library.nvrtcGetSupportedArchs(numbers)
        return arch_names(sorted(numbers))

    def compile(self, text: str, options: Sequence[str]) -> tuple[int, str, bytes, str]:
        """The library's answer: its code (0: compiled), its log, the machine code, and the PTX in between."""
        program = ctypes.c_void_p()
        self._check(self._library.nvrtcCreateProgram(ctypes.byref(program), text.encode(), FILE.encode(), 0, None, None))
        try:
            given = (ctypes.c_char_p * len(options))(*(o.encode() for o in options))
            code = int(self._library.nvrtcCompileProgram(program, len(options), given))
            log = self._bytes(program, "ProgramLog").rstrip(b"\0").decode(errors="replace")
            if code != OK:
                return code, log, b"", ""
            return code, log, self._bytes(program, "CUBIN"), self._bytes(program, "PTX").rstrip(b"\0").decode(errors="replace")
        finally:
            self._library.nvrtcDestroyProgram(ctypes.byref(program))

    def says(self, code: int) -> str:
        """The name of an answer."""
        return str(self._library.nvrtcGetErrorString(code).decode())

    def _bytes(self, program: ctypes.c_void_p, what: str) -> bytes:
        size = ctypes.c_size_t()
        self._check(getattr(self._library, f"nvrtcGet{what}Size")(program, ctypes.byref(size)))
        data = ctypes.create_string_buffer(size.value)
        self._check(getattr(self._library, f"nvrtcGet{what}")(program, data))
        return data.raw

    def _check(self, code: int) -> None:
        if code != OK:
            raise CompilerError(f"{self.name} failed: {self.says(code)}")


# ------------------------------------------------------------------------------------------- finding
def find_nvrtc() -> Nvrtc | None:
    """The compiler of this machine, or None."""
    return _find(os.environ.get("TILEWORKBENCH_NVRTC", ""), os.environ.get("CUDA_HOME") or os.environ.get("CUDA_PATH") or "")


def require_nvrtc() -> Nvrtc:
    """The compiler of this machine; raises CompilerError that says how to get one."""
    found = find_nvrtc()
    if found is None:
        raise CompilerError(why_no_nvrtc(), hint=INSTALL)
    return found


def why_no_nvrtc() -> str:
    """Why `find_nvrtc` is None."""
    asked = os.environ.get("TILEWORKBENCH_NVRTC", "")
    if asked and asked != "none":
        return f"TILEWORKBENCH_NVRTC={asked!r} is no NVRTC library that can be opened"
    return "NVRTC, which compiles for GPUs, is not installed"


@cache
def _find(asked: str, toolkit: str) -> Nvrtc | None:
    driver = cuda_version()  # it loads no code of a later CUDA's compiler
    second = None
    for path in candidates(asked, toolkit):
        found = _opened(path)
        if found is not None and (driver is None or found.version[0] <= driver[0]):
            return found
        second = second or found
    return second


def _opened(path: str) -> Nvrtc | None:
    try:
        return Nvrtc(path)
    except (OSError, AttributeError):
        return None


def candidates(asked: str = "", toolkit: str = "") -> Iterator[str]:
    """Libraries to try, best first; only `asked` if the user named one, none at all if that is "none"."""
    if asked:
        yield from [] if asked == "none" else [asked]
        return
    folders = wheel_folders()
    found = [path for folder in folders for pattern in _WHEELS for path in folder.glob(pattern)]
    if toolkit:
        found += [path for name in ("lib64", "lib") for path in (Path(toolkit) / name).glob("libnvrtc.so*")]
    yield from (str(p) for p in sorted(found, key=_number, reverse=True) if _LIBRARY.search(p.name) or p.name == "libnvrtc.so")
    system = ctypes.util.find_library("nvrtc")  # starts three programs, so it comes last
    yield from [system] if system else []


def wheel_folders() -> list[Path]:
    """Where NVIDIA's wheels put their files: `nvidia` is a package without code."""
    try:
        spec = importlib.util.find_spec("nvidia")
    except (ImportError, ValueError):
        return []
    return [Path(folder) for folder in (spec.submodule_search_locations or () if spec else ())]


def _number(path: Path) -> tuple[int, ...]:
    return tuple(int(n) for n in re.findall(r"\d+", path.name))


# ------------------------------------------------------------------------------------------- compiling
def compile_text(text: str, arch: str, flags: Sequence[str] = (), lines: Mapping[int, Span] | None = None) -> Made:
    """Compile CUDA text for one architecture. `flags` are NVRTC's; `lines` maps lines of the text to the author's.

    Raises: CompilerError at the author's line; CapacityError for static shared memory that the GPU has not; TileValueError for an architecture that
    this compiler does not know, with the list.
    """
    compiler = require_nvrtc()
    arch = parse_arch(arch, compiler.architectures())
    options = [f"--gpu-architecture={arch}", STANDARD, *([MINIMAL] if compiler.version >= SINCE_MINIMAL else []), *flags]
    code, log, cubin, ptx = compiler.compile(text, [*options, REPORT])
    if code == OK:
        return Made(arch, cubin, log, compiler.name, ptx_lines(ptx) if LINE_INFO in options else ())
    if code == INVALID_OPTION:
        raise CompilerError(
            f"{compiler.name} does not know an option: {log.strip() or compiler.says(code)}", hint=f"the options were {' '.join(flags)}"
        )
    if not any("error" in d.severity for d in diagnostics.parse(log)):  # the report of resources hides what the assembler has to say
        log = compiler.compile(text, [*options, LINE_INFO])[1] or log
    raise _fault(log, text, lines or {}, compiler.name, arch)


def _fault(log: str, text: str, lines: Mapping[int, Span], compiler: str, arch: str) -> CompilerError | CapacityError:
    too_much = _SHARED.search(log)
    if too_much:
        used, most = int(too_much[2], 16), int(too_much[3], 16)
        return CapacityError(
            f"kernel {too_much[1]} has {used} bytes of static shared memory, at most {most} are possible on {arch}",
            hint="smaller tiles, or fewer stages",
        )
    error = diagnostics.blame(log, text, lines, compiler, "CUDA text")
    if "Unresolved extern function" in error.message:
        error.hint = "the text calls a device function that it does not define: give its text with T.import_source, or check its name"
    return error
