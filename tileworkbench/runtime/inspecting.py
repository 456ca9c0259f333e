"""What the emulator sees of a call: faults, and what each of the author's lines did.

A kernel of any target is asked; its CUDA text runs on this machine, thread by thread, on copies of the arrays. So keep the sizes small: a few
blocks show what a thousand would.

>>> import numpy as np, tileworkbench
>>> from tileworkbench.kernels import softmax
>>> kernel = tileworkbench.compile(softmax.program(4, 64, 4, "float32"), out_idx=-1, target="interpret")
>>> x = np.ones((4, 64), np.float32)
>>> kernel.sanitize(x, arch="sm_80")
softmax on sm_80: nothing found
>>> counted = kernel.count(x, arch="sm_80")
>>> counted.total.global_load_bytes, counted.total.loaded_sectors * 32
(1024, 1024)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

import numpy as np

from ..emulator import Counters, Finding, LineCounters, RunResult
from ..emulator.text import Line
from . import cuda_arrays
from .arguments import BoundCall

# title of a column, the counter, and the one that it is held against ("" for none)
_COLUMNS = (
    ("global requests", ("global_loads", "global_stores")), ("sectors", ("global_load_sectors", "global_store_sectors")),
    ("bytes", ("global_load_bytes", "global_store_bytes")), ("shared requests", ("shared_loads", "shared_stores")),
    ("wavefronts", ("shared_load_wavefronts", "shared_store_wavefronts")), ("ideal", ("shared_load_ideal", "shared_store_ideal")),
    ("shuffles", ("shuffles", "votes")), ("barriers", ("barriers",)), ("atomics", ("atomics",)), ("async bytes", ("async_bytes",)),
    ("tma bytes", ("tma_load_bytes", "tma_store_bytes")), ("matrix loads", ("matrix_loads", "matrix_stores")), ("mma", ("mma", "wgmma")),
    ("tensor FLOP", ("mma_flops", "wgmma_flops")), ("specials", ("specials",)),
)  # fmt: skip


@dataclass(frozen=True, slots=True, repr=False)
class Sanitized:
    """The faults of a run, as they were met. Prints as a list, each with the author's line, the other line that takes part, and what to do."""

    kernel: str
    arch: str
    findings: tuple[Finding, ...] = ()

    @property
    def is_clean(self) -> bool:
        """Whether nothing was found."""
        return not self.findings

    def of(self, kind: str) -> tuple[Finding, ...]:
        """The faults of one kind: "race", "out of bounds", "uninitialised", "deadlock", ... (`emulator.findings.HINTS`)."""
        return tuple(f for f in self.findings if f.kind == kind)

    def __str__(self) -> str:
        head = f"{self.kernel} on {self.arch}: "
        if not self.findings:
            return f"{head}nothing found"
        count = len(self.findings)
        return "\n".join([f"{head}{count} fault{'s' if count != 1 else ''}", *map(_told, self.findings)])

    __repr__ = __str__


@dataclass(frozen=True, slots=True, repr=False)
class Counted:
    """What a run moved and computed: `by_line` for each of the author's lines (None: of none), `launches` for each launch, as (kernel, counters).

    Counters are those of `emulator.COUNTERS`, as attributes. Prints as a table of the lines, with the columns that are not all zero.
    """

    kernel: str
    arch: str
    launches: tuple[tuple[str, Counters], ...] = ()
    total: LineCounters = field(default_factory=lambda: Counters.none().total)
    by_line: Mapping[Line | None, LineCounters] = field(default_factory=dict)

    def at(self, line: int) -> LineCounters:
        """The counters of author line `line`, over all files."""
        return Counters(self.total, self.by_line).at(line)

    def __str__(self) -> str:
        columns = [(title, names) for title, names in _COLUMNS if _sum(self.total, names)]
        lines = sorted(self.by_line, key=lambda x: ("", 0) if x is None else (x.file, x.line))
        places = [str(x) if x is not None else "(no line)" for x in lines]
        width = max(len("line"), *(len(p) for p in [*places, "total"]))
        rows = [[_number(_sum(c, names)) for _, names in columns] for c in [*(self.by_line[x] for x in lines), self.total]]
        wide = [max(len(title), *(len(row[i]) for row in rows)) for i, (title, _) in enumerate(columns)]

        def line(place: str, cells: Sequence[str], text: str) -> str:
            return "  ".join([place.ljust(width), *(c.rjust(w) for c, w in zip(cells, wide, strict=True)), text]).rstrip()

        out = [f"{self.kernel} on {self.arch}", line("line", [title for title, _ in columns], "")]
        out += [line(p, row, "" if x is None else x.text) for p, x, row in zip([*places, "total"], [*lines, None], rows, strict=True)]
        return "\n".join(out)

    __repr__ = __str__


def sanitized(kernel: str, arch: str, results: Sequence[tuple[str, RunResult]]) -> Sanitized:
    """The faults of all launches; one that several launches show is listed once."""
    found: dict[tuple[Any, ...], Finding] = {}
    for _, result in results:
        for f in result.findings:
            key = (f.kind, f.text, f.line, f.other)
            known = found.get(key)
            found[key] = f if known is None else Finding(f.kind, f.text, f.line, f.other, f.times + known.times)
    return Sanitized(kernel, arch, tuple(found.values()))


def counted(kernel: str, arch: str, results: Sequence[tuple[str, RunResult]]) -> Counted:
    """The counters of all launches, and their sums."""
    by_line: dict[Line | None, LineCounters] = {}
    for _, result in results:
        for line, counters in result.counters.by_line.items():
            by_line[line] = by_line[line] + counters if line in by_line else counters
    total = reduce(lambda a, b: a + b, (r.counters.total for _, r in results), Counters.none().total)
    return Counted(kernel, arch, tuple((name, r.counters) for name, r in results), total, by_line)


def _told(finding: Finding) -> str:
    """A fault with the lines that it is about."""
    texts = [f"    {x}: {x.text}" for x in (finding.line, finding.other) if x is not None and x.text]
    where, _, hint = str(finding).partition("\n")
    return "\n".join([f"  {where}", *texts, f"  {hint}"])


def _sum(counters: LineCounters, names: Sequence[str]) -> int:
    return sum(getattr(counters, name) for name in names)


def _number(value: int) -> str:
    return f"{value:,}".replace(",", " ") if value else "-"


# ------------------------------------------------------------------------------------------- arrays
def here(value: Any) -> Any:
    """A copy of an array in a GPU's memory, and anything else as it is."""
    return cuda_arrays.fetch(value) if cuda_arrays.is_on_gpu(value) else value


def on_copies(call: BoundCall) -> BoundCall:
    """`call` with copies of its arrays, laid out as they are; one array that came twice is one copy."""
    made: dict[tuple[Any, ...], np.ndarray[Any, Any]] = {}
    for bound in call.tensors:
        array = bound.array
        key = (array.__array_interface__["data"][0], array.shape, array.strides, array.dtype)
        if key not in made:
            made[key] = _twin(array)
        bound.array = made[key]
        bound.unpacked = None
    return call


def _twin(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """A copy with the strides of `array`, whose address is as good."""
    spans = [(n - 1) * s for n, s in zip(array.shape, array.strides, strict=True)] if array.size else []
    low, high = sum(s for s in spans if s < 0), sum(s for s in spans if s > 0) + array.dtype.itemsize
    room = np.zeros(high - low + 256, np.uint8)
    wanted = (array.__array_interface__["data"][0] + low) % 128
    skip = (wanted - room.ctypes.data) % 128
    twin: np.ndarray[Any, Any] = np.ndarray(array.shape, array.dtype, room.data, skip - low, array.strides)
    twin[...] = array
    return twin
