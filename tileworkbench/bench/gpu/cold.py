"""How long a first compilation for a GPU takes: from the tile program to a kernel that can be called, with nothing in a cache. No GPU is needed.

Each kernel is compiled by `repeat` processes that do nothing else. *New*: the process has imported this package and compiled nothing, so the time
has NVRTC's loading in it. *Cold*: it has compiled a small kernel before, as a notebook's has after its first cell. The disk cache is empty for
both, and NVRTC's own is off (it reads CUDA_CACHE_DISABLE): a second round would only measure that.

>>> [p.name for p in KERNELS][:2]
['gemm_f16 4096x4096x4096 nn', 'gemm_f16 4096x4096x4096 nt']
"""

from __future__ import annotations

import json
import platform
import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ...base.errors import TileError
from ...runtime.gpu_arch import DEFAULT
from ...runtime.measure import cpu_name
from ..child import python
from .ours import ours
from .problems import PROBLEMS, Problem, chosen

LIMIT_MS = 1000.0
GROUPS = ("gemm_f16", "attention_d64", "attention_d128", "attention_d256")
WAYS = ("new", "cold")
SHAPES = ((4096,) * 3, *((4, 16 * 128 // dim, 4096, dim) for dim in (64, 128, 256)))
KERNELS = tuple(p for p in PROBLEMS if p.group in GROUPS and p.shape in SHAPES)


@dataclass(frozen=True, slots=True)
class Times:
    """Milliseconds of one kernel's compilations in one of the two ways, and the medians of our passes and of NVRTC among them."""

    name: str
    way: str
    runs: tuple[float, ...]
    passes_ms: float
    compiler_ms: float
    why: str = ""

    @property
    def median(self) -> float:
        return statistics.median(self.runs) if self.runs else 0.0

    @property
    def is_within(self) -> bool:
        return not self.why and self.median <= LIMIT_MS

    def __str__(self) -> str:
        if self.why:
            return f"{self.name:<44} {self.way:<5} {self.why}"
        figures = f"{self.median:>7.0f} {min(self.runs):>6.0f} {max(self.runs):>6.0f} {self.passes_ms:>7.0f} {self.compiler_ms:>6.0f}"
        return f"{self.name:<44} {self.way:<5} {figures}{'' if self.is_within else '  OVER'}"


@dataclass(frozen=True, slots=True)
class Cold:
    """All kernels, both ways."""

    arch: str
    machine: str
    rows: tuple[Times, ...]

    @property
    def is_within(self) -> bool:
        """Whether every median keeps the limit."""
        return all(r.is_within for r in self.rows)

    def as_json(self) -> dict[str, Any]:
        """Every time in milliseconds."""
        rows = [
            {"name": r.name, "way": r.way, "ms": list(r.runs), "passes_ms": r.passes_ms, "compiler_ms": r.compiler_ms, "why": r.why}
            for r in self.rows
        ]
        return {"arch": self.arch, "machine": self.machine, "limit_ms": LIMIT_MS, "kernels": rows}

    def table(self) -> str:
        """One line a kernel and way, the slowest last."""
        head = f"{f'kernel for {self.arch}, ms':<44} {'':<5} {'median':>7} {'least':>6} {'most':>6} {'passes':>7} {'NVRTC':>6}"
        return "\n".join([head, "-" * len(head), *map(str, sorted(self.rows, key=lambda r: r.median)), f"{self.machine}; limit {LIMIT_MS:.0f} ms"])


def run(only: Sequence[str], arch: str | None = None, repeat: int = 5) -> Cold:
    """Compile the kernels of the groups `only` (default: all of `GROUPS`) for `arch` (default: sm_90a), `repeat` times each way, in turns.

    Raises: ValueError for an unknown group, or one of which nothing is measured here.
    """
    for group in only:
        if not _measured([group]):
            raise ValueError(f"no kernel of {group} is measured here, but of {', '.join(GROUPS)}")
    kernels = _measured(only)
    arch = arch or DEFAULT
    found: dict[tuple[str, str], list[dict[str, Any]]] = {(p.name, way): [] for p in kernels for way in WAYS}
    _child(kernels[0], arch, "new")  # libraries and byte code are in the page cache
    for _ in range(repeat):
        for p in kernels:
            for way in WAYS:
                found[p.name, way].append(_child(p, arch, way))
    return Cold(arch, f"{cpu_name()}, Python {platform.python_version()}", tuple(_times(*key, runs) for key, runs in found.items()))


def _measured(only: Sequence[str]) -> list[Problem]:
    """The kernels of the groups `only`; all for none."""
    asked = [PROBLEMS[number] for number in chosen(list(only))]
    return [p for p in KERNELS if p in asked]


def _times(name: str, way: str, runs: list[dict[str, Any]]) -> Times:
    good = [r for r in runs if "ms" in r]
    if len(good) < len(runs):
        return Times(name, way, (), 0.0, 0.0, next(r["why"] for r in runs if "ms" not in r))
    passes, compiler = (statistics.median(r[part] for r in good) for part in ("passes_ms", "compiler_ms"))
    return Times(name, way, tuple(r["ms"] for r in good), passes, compiler)


def _child(p: Problem, arch: str, way: str) -> dict[str, Any]:
    """What a process of its own, whose disk cache is an empty folder, says of compiling `p`."""
    code = f"from tileworkbench.bench.gpu.cold import in_child; in_child({PROBLEMS.index(p)}, {arch!r}, {way!r})"
    with tempfile.TemporaryDirectory(prefix="twb-cold-") as folder:
        done = python(code, TILEWORKBENCH_CACHE_DIR=folder, CUDA_CACHE_DISABLE="1")
    try:
        said: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    except (IndexError, ValueError):
        return {"why": (done.stderr.strip().splitlines() or ["the process said nothing"])[-1]}
    return said


def in_child(number: int, arch: str, way: str) -> None:
    """The work of a measuring process: prints what it found as JSON."""
    try:
        if way == "cold":
            ours(next(p for p in PROBLEMS if p.kind == "add"), f"cuda:{arch}")
        start = time.perf_counter()
        kernel = ours(PROBLEMS[number], f"cuda:{arch}")
        found: dict[str, Any] = {"ms": (time.perf_counter() - start) * 1e3, "passes_ms": kernel.passes_ms, "compiler_ms": kernel.compiler_ms}
    except TileError as error:
        found = {"why": f"{type(error).__name__}: {str(error).splitlines()[0]}"}
    print(json.dumps(found))
