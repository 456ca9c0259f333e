"""C compilers: which ones this machine has, what they can do, and how to run them.

Looked for in this order: $TILEWORKBENCH_CC (a command, or "none"), gcc, clang, cc, and zig from the `ziglang` wheel. What a compiler said about
itself is kept in a small JSON file in the cache folder, keyed by the binary's path, size and time, so a later process starts none.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

from ..base.errors import CompilerError
from . import diagnostics
from .loader import open_library
from .storage import cache_folder, write_atomically

OPENMP_PROBE = """int twb_probe(int n) {
  int s = 0;
  #pragma omp parallel for num_threads(2) reduction(+ : s)
  for (int i = 0; i < n; ++i) s += i;
  return s;
}
"""
NOTES = 3  # what is asked of a compiler changed this often
PROBE_TIMEOUT_S = 20.0
INSTALL = "install gcc or clang, or the compiler wheel: pip install tileworkbench[cc]"


@dataclass(frozen=True, slots=True)
class Compiler:
    """A working C compiler. `why_serial` says why OpenMP is not available; empty: it is."""

    kind: str  # "gcc", "clang" or "zig"
    command: tuple[str, ...]
    version: str
    machine: str
    why_serial: str = ""

    @property
    def openmp(self) -> bool:
        return not self.why_serial

    @property
    def name(self) -> str:
        """For people: `gcc 12.2.0`."""
        return f"{self.kind} {self.version}"

    def arguments(self, source: str, output: str, flags: Sequence[str], link_flags: Sequence[str] = (), *, alone: bool = False) -> list[str]:
        """The command line that turns C file `source` into the shared library `output`; `alone`: see `_libraries`."""
        return [*self._start(flags), "-shared", "-o", output, source, *self._libraries(link_flags, alone)]

    def object_arguments(self, source: str, output: str, flags: Sequence[str]) -> list[str]:
        """The command line that turns C file `source` into the object file `output`, which can become part of a shared library."""
        return [*self._start(flags), "-c", "-o", output, source]

    def link_arguments(self, objects: Sequence[str], output: str, link_flags: Sequence[str] = (), *, alone: bool = False) -> list[str]:
        """The command line that joins object files to the shared library `output`; `alone`: see `_libraries`."""
        openmp = ["-fopenmp"] if self.openmp else []
        return [*self.command, "-shared", *openmp, "-o", output, *objects, *self._libraries(link_flags, alone)]

    @property
    def links_alone(self) -> bool:
        """Whether a library can leave out what the process has anyway."""
        return self.kind == "zig" or (self.kind == "gcc" and sys.platform == "linux")

    def _libraries(self, link_flags: Sequence[str], alone: bool) -> list[str]:
        """The end of a command that links. `alone` leaves out libc and start files, which takes gcc 11 ms instead of 28: Python has a libc."""
        if not alone:
            return list(dict.fromkeys((*link_flags, "-lm")))
        if self.kind == "zig":
            return ["-nostdlib"]
        return ["-nostdlib", *(["-lgomp"] if self.openmp else []), *dict.fromkeys((*link_flags, "-lm")), "-lgcc"]

    def _start(self, flags: Sequence[str]) -> list[str]:
        line = [*self.command, "-O2", "-std=gnu11", "-fPIC"]
        if self.openmp:
            line.append("-fopenmp")
        return [*line, "-Wno-unknown-pragmas", *_format_flags(self), *_accepted(self, flags)]


def _format_flags(compiler: Compiler) -> list[str]:
    if compiler.kind == "gcc":
        major = int(compiler.version.split(".")[0] or 0)
        return ["-fdiagnostics-format=json"] if 9 <= major <= 14 else ["-fno-diagnostics-show-caret", "-fdiagnostics-color=never"]
    quiet = ["-fno-caret-diagnostics", "-fno-color-diagnostics", "-Wno-psabi"]
    return [*quiet, "-fno-sanitize=undefined"] if compiler.kind == "zig" else quiet


def _accepted(compiler: Compiler, flags: Sequence[str]) -> list[str]:
    """`flags` as this compiler spells them, without those that only gcc knows."""
    if compiler.kind == "gcc":
        return list(flags)
    known = [f for f in flags if not f.startswith(("-fno-tree", "-ftree", "--param", "-fno-semantic-interposition", "-fopt-info"))]
    return known if compiler.kind == "clang" else _zig_spelling(known)


def _zig_spelling(flags: Sequence[str]) -> list[str]:
    """zig names the processor in one option: `-march=x86-64-v4 -mavx512fp16` is `-mcpu=x86_64_v4+avx512fp16` there.

    >>> _zig_spelling(["-march=x86-64-v3", "-mavxvnni", "-mprefer-vector-width=256", "-ffast-math"])
    ['-ffast-math', '-mcpu=x86_64_v3+avxvnni']
    """
    march = next((f.removeprefix("-march=").replace("-", "_") for f in flags if f.startswith("-march=")), "")
    features = [f.removeprefix("-m") for f in flags if f.startswith("-mavx") or f in ("-mfma", "-mf16c")]
    rest = [f for f in flags if not f.startswith(("-march=", "-mavx", "-mprefer", "-mfma", "-mf16c"))]
    return [*rest, f"-mcpu={'+'.join([march, *features])}"] if march else rest


# ------------------------------------------------------------------------------------------- finding
def default_compiler() -> Compiler | None:
    """The compiler that kernels are built with, or None."""
    asked = os.environ.get("TILEWORKBENCH_CC", "")
    return _default(asked, os.environ.get("PATH", ""))


@cache
def _default(asked: str, path: str) -> Compiler | None:
    del path  # only part of the key
    for command in candidates(asked):
        compiler = probe(command)
        if compiler is not None:
            return compiler
    return None


def all_compilers() -> tuple[Compiler, ...]:
    """Every usable compiler on this machine, in order of preference."""
    return tuple(c for c in map(probe, candidates(os.environ.get("TILEWORKBENCH_CC", ""))) if c is not None)


def candidates(asked: str = "") -> list[tuple[str, ...]]:
    """Commands to try, best first; only `asked` if the user named one, none at all if that is "none"."""
    if asked:
        words = shlex.split(asked)
        found = shutil.which(words[0])
        return [] if asked == "none" or found is None else [(found, *words[1:])]
    commands: list[tuple[str, ...]] = [(path,) for path in map(shutil.which, ("gcc", "clang", "cc")) if path]
    zig = _zig_binary()
    return [*commands, (zig, "cc")] if zig else commands


def _zig_binary() -> str | None:
    spec = importlib.util.find_spec("ziglang")
    for folder in spec.submodule_search_locations or () if spec else ():
        for name in ("zig", "zig.exe"):
            if os.access(os.path.join(folder, name), os.X_OK):
                return os.path.join(folder, name)
    return shutil.which("zig")


def require_compiler() -> Compiler:
    """The default compiler; raises CompilerError that says how to get one."""
    compiler = default_compiler()
    if compiler is None:
        raise CompilerError(why_no_compiler(), hint=f'{INSTALL}; target="interpret" needs none')
    return compiler


def why_no_compiler() -> str:
    """Why `default_compiler` is None: none was found, or those that were do not work."""
    asked = os.environ.get("TILEWORKBENCH_CC", "")
    faults = "; ".join(why for command in candidates(asked) if (why := _faults.get(command)))
    if asked in ("", "none"):
        return f"no C compiler works: {faults}" if faults else "no C compiler found"
    return f"TILEWORKBENCH_CC={asked!r} is no C compiler that works: {faults or 'there is no such command'}"


# ------------------------------------------------------------------------------------------- probing
_faults: dict[tuple[str, ...], str] = {}  # command -> why it cannot be used


def probe(command: tuple[str, ...]) -> Compiler | None:
    """What is known about `command`, from the notes of an earlier process or by asking it; None if it does not work."""
    try:
        stat = os.stat(command[0])
    except OSError:
        return None
    key = f"notes {NOTES}: {shlex.join(command)}:{stat.st_size}:{stat.st_mtime_ns}"
    notes_file = cache_folder() / "compilers.json"
    notes = _read_notes(notes_file)
    if notes.get(key):
        return _from_note(notes[key])
    compiler = _ask(command)
    if compiler is not None:  # a fault is not noted: it may be gone the next time
        notes[key] = asdict(compiler)
        write_atomically(notes_file, json.dumps(notes, indent=1).encode())
    return compiler


def _read_notes(path: Path) -> dict[str, dict[str, object] | None]:
    try:
        notes = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return notes if isinstance(notes, dict) else {}


def _from_note(note: Mapping[str, object] | None) -> Compiler | None:
    if not note:
        return None
    command = note["command"]
    assert isinstance(command, list)
    return Compiler(str(note["kind"]), tuple(command), str(note["version"]), str(note["machine"]), str(note["why_serial"]))


def _ask(command: tuple[str, ...]) -> Compiler | None:
    try:
        code, said = run([*command, "--version"], PROBE_TIMEOUT_S)
    except CompilerError as error:  # it hangs: another one may not
        _faults[command] = error.message
        return None
    if code != 0:
        _faults[command] = f"{os.path.basename(command[0])} --version failed: {' '.join(said.split())[:200]}"
        return None
    kind = "zig" if command[-1] == "cc" and "zig" in os.path.basename(command[0]) else "clang" if "clang" in said else "gcc"
    number = re.search(r"(\d+\.\d+(?:\.\d+)?)(?!.*\d+\.\d+\.\d+)", said.splitlines()[0] if said else "")
    version = number.group(1) if number else ""
    if kind == "zig":
        version = run([command[0], "version"], PROBE_TIMEOUT_S)[1].strip()
    machine = run([*command, "-dumpmachine"], PROBE_TIMEOUT_S)[1].strip()
    compiler = Compiler(kind, command, version, machine)
    why = _try_build(compiler)
    if not why:
        return compiler
    serial = Compiler(kind, command, version, machine, why)
    why = _try_build(serial)
    if not why:
        return serial
    _faults[command] = why
    return None


def _try_build(compiler: Compiler) -> str:
    """Build and load a small function; the reason why that does not work, or ""."""
    with tempfile.TemporaryDirectory(prefix="twb-probe-") as folder:
        source, output = os.path.join(folder, "probe.c"), os.path.join(folder, "probe.so")
        Path(source).write_text(OPENMP_PROBE)
        code, said = run(compiler.arguments(source, output, (), alone=compiler.kind == "zig"), 120.0)
        if code != 0:
            found = diagnostics.parse(said)
            first = found[0].message if found else next((line for line in said.splitlines() if line.strip()), "failed")
            return f"{compiler.name} cannot build with{'' if compiler.openmp else 'out'} OpenMP: {first.strip()[:200]}"
        why = why_not_loadable(output)
        if why:
            return f"{compiler.name} builds with OpenMP, but its library does not load: {why}"
    return ""


def why_not_loadable(library: str) -> str:
    """Load `library`; what the system says against it, or ""."""
    try:
        open_library(library)
    except OSError as error:
        return str(error).removeprefix(f"{library}: ")
    return ""


# ------------------------------------------------------------------------------------------- running
def compile_timeout_s() -> float:
    """Seconds after which a compiler counts as hung: $TILEWORKBENCH_CC_TIMEOUT, else 120."""
    try:
        return float(os.environ.get("TILEWORKBENCH_CC_TIMEOUT", "120"))
    except ValueError:
        return 120.0


def run(command: Sequence[str], timeout_s: float) -> tuple[int, str]:
    """Run a compiler in its own process group: exit code and all it said. Raises CompilerError if it cannot start or hangs."""
    zig_folder = str(cache_folder() / "zig")
    env = {"ZIG_GLOBAL_CACHE_DIR": zig_folder, "ZIG_LOCAL_CACHE_DIR": zig_folder, **os.environ, "LC_ALL": "C"}
    try:
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, text=True, errors="replace", env=env,
            start_new_session=True,
        )  # fmt: skip
    except OSError as error:
        raise CompilerError(f"cannot start {command[0]}: {error.strerror}", hint=INSTALL) from None
    try:
        said, _ = process.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        _kill(process)
        raise CompilerError(f"{os.path.basename(command[0])} did not end within {timeout_s:g} s") from None
    except BaseException:
        _kill(process)  # Ctrl-C in a notebook must not leave a compiler behind
        raise
    return process.returncode, said


def _kill(process: subprocess.Popen[str]) -> None:
    try:
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)  # gcc is a driver: its children go too
        else:
            process.kill()
    except ProcessLookupError:
        pass
    process.communicate()
