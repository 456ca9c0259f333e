"""How long a user waits: for the import, for a first result after an edit, for a kernel from the cache, and at every call.

Each program is text that is executed like a notebook cell. *Cold* is a program in a process that has compiled before, with an empty disk cache;
*edit* is the next edit of it, which finds the micro-kernels of the one before; *hit* is a process that has not seen the kernel, with the kernel on
disk. All count everything from the text to the result: tracing, passes,
compiler, loading, running. A call's overhead is the whole Python call less the bare C call of the same kernel through ctypes.
"""

from __future__ import annotations

import importlib.util
import json
import linecache
import os
import platform
import statistics
import struct
import subprocess
import sys
import tempfile
import time
import timeit
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ..runtime import toolchain
from ..runtime.measure import cpu_name
from .child import python
from .programs import HEAD, NOTHING, PROGRAMS

UNWANTED = ("matplotlib", "ipywidgets", "cupy", "torch", "IPython")
LIMITS = {
    "import language": 300.0,
    "cold elementwise": 80.0,
    "cold gemm": 250.0,
    "cold attention": 250.0,
    "edit elementwise": 80.0,
    "edit gemm": 250.0,
    "edit attention": 250.0,
    "our passes elementwise": 100.0,
    "our passes gemm": 100.0,
    "our passes attention": 100.0,
    "hit elementwise": 30.0,
    "hit gemm": 30.0,
    "hit attention": 30.0,
    "call overhead": 0.008,
}


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured number in milliseconds (the median of `runs`), with the limit that it should keep, if any, and TileLang's beside it."""

    name: str
    runs: tuple[float, ...]
    limit: float | None = None
    tilelang: float | None = None
    note: str = ""

    @property
    def value(self) -> float:
        return statistics.median(self.runs)

    @property
    def is_within(self) -> bool:
        return self.limit is None or self.value <= self.limit


@dataclass(slots=True)
class Latency:
    """All figures of one run."""

    figures: list[Figure] = field(default_factory=list)
    machine: str = ""
    compiler: str = ""

    @property
    def is_within(self) -> bool:
        return all(f.is_within for f in self.figures)

    def table(self) -> str:
        """The figures as text."""
        lines = [f"{self.machine}; {self.compiler}", f"{'':<26}{'measured':>12}{'limit':>12}{'TileLang':>12}"]
        for f in self.figures:
            cells = [_shown(x) if x is not None else "" for x in (f.value, f.limit, f.tilelang)]
            lines.append(f"{f.name:<26}{cells[0]:>12}{cells[1]:>12}{cells[2]:>12}  {'' if f.is_within else 'OVER  '}{f.note}".rstrip())
        return "\n".join(lines)

    def as_json(self) -> dict[str, Any]:
        """The figures for a file: milliseconds."""
        rows = [
            {
                "name": f.name,
                "ms": f.value,
                "runs": list(f.runs),
                "limit_ms": f.limit,
                "tilelang_ms": f.tilelang,
                "within": f.is_within,
                "note": f.note,
            }
            for f in self.figures
        ]
        return {"machine": self.machine, "compiler": self.compiler, "python": platform.python_version(), "figures": rows}


def _shown(ms: float) -> str:
    return f"{ms * 1000:.2f} us" if ms < 0.1 else f"{ms:.1f} ms"


def run(repeat: int = 5) -> Latency:
    """Measure everything; about ten seconds, more where TileLang is installed."""
    compiler = toolchain.default_compiler()
    found = Latency(machine=f"{cpu_name()}, Python {platform.python_version()}", compiler=compiler.name if compiler else "no compiler")
    peer = _tilelang(repeat)

    def add(name: str, runs: list[float], note: str = "") -> None:
        found.figures.append(Figure(name, tuple(runs), LIMITS.get(name), peer.get(name), note))

    imports = [_child("import", "{}") for _ in range(repeat + 1)][1:]
    loaded = sorted({m for r in imports for m in r["unwanted"]})
    add(
        "import language",
        [r["ms"] for r in imports],
        f"imports {', '.join(loaded)}, which it must not" if loaded else "none of " + ", ".join(UNWANTED),
    )
    with tempfile.TemporaryDirectory(prefix="twb-bench-") as folder:
        before = os.environ.get("TILEWORKBENCH_CACHE_DIR")
        try:
            for name in PROGRAMS:
                os.environ["TILEWORKBENCH_CACHE_DIR"] = os.path.join(folder, name)
                _compiled(name, 0)  # everything is imported, the compiler is in the page cache
                edits = [_compiled(name, salt) for salt in range(1, repeat + 1)]
                cold = []
                for salt in range(repeat + 1, 2 * repeat + 1):
                    os.environ["TILEWORKBENCH_CACHE_DIR"] = os.path.join(folder, f"{name}-{salt}")
                    cold.append(_compiled(name, salt))
                os.environ["TILEWORKBENCH_CACHE_DIR"] = os.path.join(folder, name)
                add(f"cold {name}", [c["total"] for c in cold], f"C compiler {statistics.median(c['compiler'] for c in cold):.0f} ms of it")
                add(f"edit {name}", [c["total"] for c in edits], f"C compiler {statistics.median(c['compiler'] for c in edits):.0f} ms of it")
                add(f"our passes {name}", [c["passes"] for c in (*cold, *edits)], "lowering and emitting")
                hits = [_child("hit", json.dumps({"name": name, "salt": 1})) for _ in range(repeat)]
                add(f"hit {name}", [h["ms"] for h in hits], "" if all(h["cached"] for h in hits) else "NOT CACHED")
            call, bare = _call_overhead()
            add("call of an empty kernel", [call], "three NumPy arrays, one thread, C call included")
            add("call overhead", [call - bare], f"the same without the C call ({bare * 1000:.2f} us)")
        finally:
            os.environ.pop("TILEWORKBENCH_CACHE_DIR") if before is None else os.environ.update(TILEWORKBENCH_CACHE_DIR=before)
    return found


# ------------------------------------------------------------------------------------------- one measurement
def execute(text: str, label: str) -> dict[str, Any]:
    """Run program text as a cell does: with its lines in `linecache`, so that the frontend can read it."""
    linecache.cache[label] = (len(text), None, text.splitlines(keepends=True), label)
    names: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(text, label, "exec"), names)
    return names


def _compiled(name: str, salt: int) -> dict[str, float]:
    """Milliseconds from the text to the result, of which our passes, and the compiler."""
    text = HEAD + PROGRAMS[name].replace("SALT", str(salt))
    start = time.perf_counter()
    names = _run_text(text, f"<{name} {salt}>")
    total = (time.perf_counter() - start) * 1e3
    facts = _kernel_of(names, name).facts
    return {"total": total, "passes": facts.passes_ms, "compiler": facts.compiler_ms}


def _run_text(text: str, label: str) -> dict[str, Any]:
    names = execute(text, label)
    names["kernel"](*names["arguments"])
    return names


def _kernel_of(names: dict[str, Any], name: str) -> Any:
    if name == "elementwise":
        return names["add"].compile(*names["arguments"])
    return names["matmul"](128, 128, 128, 64) if name == "gemm" else names["attention"](128, 64, 64)


def _call_overhead() -> tuple[float, float]:
    """Milliseconds of a whole call and of the bare C call, the best of several rounds of 20000."""
    names = execute(HEAD + NOTHING, "<touch>")
    touch, arrays = names["touch"], (names["a"], names["b"], names["c"])
    kernel = touch.compile(*arrays)
    for _ in range(3):
        touch(*arrays)
    entry = kernel.executable.entry
    block = struct.pack("=3Q", *(a.__array_interface__["data"][0] for a in arrays))
    return _best(lambda: touch(*arrays)), _best(lambda: entry(block, 1))


def _best(work: Callable[[], Any]) -> float:
    return min(timeit.repeat(work, number=20_000, repeat=7)) / 20_000 * 1e3


# ------------------------------------------------------------------------------------------- in a process of its own
def _child(what: str, arguments: str) -> dict[str, Any]:
    code = f"from tileworkbench.bench.latency import in_child; in_child({what!r}, {arguments!r})" if what != "import" else _IMPORT
    found: dict[str, Any] = json.loads(python(code, check=True).stdout.splitlines()[-1])
    return found


_IMPORT = f"""
import sys, time, json
start = time.perf_counter()
import tileworkbench.language
ms = (time.perf_counter() - start) * 1e3
print(json.dumps({{"ms": ms, "unwanted": [m for m in {UNWANTED!r} if m in sys.modules]}}))
"""


def in_child(what: str, arguments: str) -> None:
    """The work of a measuring process: prints its result as JSON."""
    asked = json.loads(arguments)
    assert what == "hit"
    warm = "elementwise" if asked["name"] != "elementwise" else "gemm"
    _run_text(HEAD + PROGRAMS[warm].replace("SALT", "0"), "<warm>")
    text = HEAD + PROGRAMS[asked["name"]].replace("SALT", str(asked["salt"]))
    start = time.perf_counter()
    names = _run_text(text, "<hit>")
    ms = (time.perf_counter() - start) * 1e3
    print(json.dumps({"ms": ms, "cached": _kernel_of(names, asked["name"]).facts.was_cached}))


# ------------------------------------------------------------------------------------------- TileLang beside ours
_TILELANG = """
import time, json, os, sys
os.environ["TILELANG_DISABLE_CACHE"] = "1"
start = time.perf_counter()
import tilelang
import tilelang.language as T
found = {"import language": (time.perf_counter() - start) * 1e3}

def program(salt):
    @T.prim_func
    def add(A: T.Tensor((4096,), "float32"), B: T.Tensor((4096,), "float32"), C: T.Tensor((4096,), "float32")):
        with T.Kernel(4, threads=128) as bx:
            for i in T.serial(1024):
                C[bx * 1024 + i] = A[bx * 1024 + i] + B[bx * 1024 + i] * T.float32(1 + salt * 1e-9)
    return add

import torch
x = torch.ones(4096)
times = []
for salt in range(4):
    start = time.perf_counter()
    kernel = tilelang.compile(program(salt), out_idx=-1, target="c", execution_backend="cython")
    kernel(x, x)
    times.append((time.perf_counter() - start) * 1e3)
found["cold elementwise"] = sorted(times[1:])[1]
print(json.dumps(found))
"""


def _tilelang(repeat: int) -> dict[str, float]:
    """TileLang's import and its elementwise kernel on its own C target, where it is installed; empty otherwise."""
    del repeat
    if importlib.util.find_spec("tilelang") is None:
        return {}
    with tempfile.NamedTemporaryFile("w", suffix=".py") as file:
        file.write(_TILELANG)
        file.flush()
        done = subprocess.run([sys.executable, file.name], capture_output=True, text=True, check=False)
    try:
        found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    except (IndexError, ValueError):
        return {}
    return found
