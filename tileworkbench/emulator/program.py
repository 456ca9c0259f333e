"""A compiled text: kernels that run over NumPy arrays, with findings and counters."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from ..base.errors import ArgumentError, CapacityError, DeviceAssertError, TileRuntimeError
from ..base.gpu import capability_limits
from .counters import COUNTERS, Counters, LineCounters
from .findings import Finding
from .log import FIELDS, Log, log_of
from .packing import Packed, pack
from .requests import SharedRequests, read_requests
from .text import Kernel, Line, Source

COUNT, CHECK, REQUESTS = 1, 2, 16
MAX_FINDINGS = 200
_one_at_a_time = threading.Lock()  # the runtime holds one grid at a time


class _Launch(ctypes.Structure):
    _fields_ = (
        ("grid", ctypes.c_uint32 * 3), ("block", ctypes.c_uint32 * 3), ("cluster", ctypes.c_uint32 * 3),
        ("shared_bytes", ctypes.c_uint32), ("watch", ctypes.c_uint32), ("lines", ctypes.c_uint32), ("findings", ctypes.c_uint32),
        ("record", ctypes.c_int32), ("alone", ctypes.c_uint32),
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class RunResult:
    """What a run left besides its outputs: faults, printed text and, if asked for, counters, requests on shared memory, a cluster's log."""

    findings: tuple[Finding, ...]
    counters: Counters
    printed: str
    requests: SharedRequests = SharedRequests()
    log: Log | None = None


class FailedAssertion(DeviceAssertError):
    """A kernel called `twb_fail(number)` at author line `line`, after it had printed `printed`."""

    def __init__(self, kernel: str, number: int, line: Line | None, printed: str) -> None:
        super().__init__(f"{kernel}: assertion {number} did not hold" + (f" at {line}" if line else "") + (f"\n{printed}" if printed else ""))
        self.number, self.line, self.printed = number, line, printed


class Program:
    """The kernels of one text. `library` is the path of the shared library that was compiled from `source.text` and the runtime."""

    def __init__(self, library: str, source: Source) -> None:
        self.source = source
        self.kernels = {k.name: k for k in source.kernels}
        self._library = ctypes.CDLL(library)
        self._library.twbe_finding.restype = ctypes.c_char_p
        self._library.twbe_printed.restype = ctypes.c_char_p
        self._library.twbe_told.restype = ctypes.c_uint64

    def __getitem__(self, name: str) -> Emulated:
        return Emulated(self, self.kernels[name])

    def line(self, number: int) -> Line | None:
        """The author's line of a number of the text; None for 0 and below."""
        return self.source.lines[number - 1] if 0 < number <= len(self.source.lines) else None

    def _launch(self, kernel: Kernel, packed: Packed, how: _Launch) -> RunResult:
        entry = ctypes.cast(getattr(self._library, f"twb_entry_{kernel.name}"), ctypes.c_void_p)
        code = self._library.twbe_run(entry, packed.pointers, ctypes.byref(how))
        asked = read_requests(self._library, self.source.lines) if how.watch & REQUESTS else SharedRequests()
        log = self._log(kernel.name, prod(how.block)) if how.record >= 0 else None
        printed = self._library.twbe_printed().decode(errors="replace")
        result = RunResult(tuple(self._findings()), self._counters(how), printed, asked, log)
        if code == 2:
            raise MemoryError(f"{kernel.name}: no memory for the stacks of {prod(how.block) * prod(how.cluster)} threads")
        if code:
            line = ctypes.c_int()
            number = self._library.twbe_failed(ctypes.byref(line))
            where = self.line(line.value)
            raise FailedAssertion(kernel.name, number, where, result.printed)
        return result

    def _findings(self) -> list[Finding]:
        out = []
        for i in range(self._library.twbe_findings()):
            line, other, times, kind = ctypes.c_int(), ctypes.c_int(), ctypes.c_uint64(), ctypes.c_char_p()
            text = self._library.twbe_finding(i, ctypes.byref(line), ctypes.byref(other), ctypes.byref(times), ctypes.byref(kind))
            out.append(
                Finding(
                    (kind.value or b"").decode(),
                    self._named(text.decode(errors="replace")),
                    self.line(line.value),
                    self.line(other.value),
                    times.value,
                )
            )
        return out

    def _named(self, text: str) -> str:
        """Text with the author's lines for "@number"."""
        parts = text.split(" @")
        return parts[0] + "".join(f" at {self.line(int(p.split(';')[0]))};{p.split(';', 1)[1]}" for p in parts[1:])

    def _log(self, kernel: str, threads: int) -> Log:
        at = ctypes.c_void_p()
        count = self._library.twbe_told(ctypes.byref(at))
        rows = np.empty((count, len(FIELDS)), np.int64)
        if count:
            ctypes.memmove(rows.ctypes.data, at, rows.nbytes)
        return log_of(kernel, rows, threads, (None, *self.source.lines), self.source.loops)

    def _counters(self, how: _Launch) -> Counters:
        values = np.zeros((how.lines, len(COUNTERS)), np.uint64)
        if how.watch & COUNT:
            assert self._library.twbe_counters(values.ctypes.data_as(ctypes.c_void_p)) == len(COUNTERS)
        rows = {self.line(i): LineCounters(tuple(int(x) for x in row)) for i, row in enumerate(values) if row.any()}
        return Counters(sum(rows.values(), LineCounters((0,) * len(COUNTERS))), rows)


class Emulated:
    """One kernel of a program."""

    def __init__(self, program: Program, kernel: Kernel) -> None:
        self.program = program
        self.kernel = kernel

    def __call__(self, grid: Sequence[int] | int, block: Sequence[int] | int, args: Sequence[Any], **how: Any) -> RunResult:
        """Run the grid and change `args` in place; see `run`. Raises TileRuntimeError for the first fault that stops a program on any machine."""
        result = self.run(grid, block, args, **how)
        if result.findings:
            raise TileRuntimeError(f"{self.kernel.name}: {result.findings[0]}")
        return result

    def run(
        self, grid: Sequence[int] | int, block: Sequence[int] | int, args: Sequence[Any], *, shared_bytes: int = 0, cluster: Sequence[int] | int = (),
        count: bool = False, sanitize: bool = False, requests: bool = False, fresh: Sequence[int] = (), record: int = -1, alone: bool = False,
    ) -> RunResult:  # fmt: skip
        """Run the grid and change `args` (NumPy arrays, numbers, tensor maps) in place.

        `count` fills the counters; `requests` also records what warps ask of shared memory; `sanitize` looks for all faults there are, else only for
        those that would stop the run (bounds, deadlock, ...).
        `cluster` counts blocks, as the kernel says unless given.
        `record`: the number of the cluster whose log is wanted, in the order in which they run; `alone`: run no other one.
        `fresh`: positions of arrays in which nothing was written yet. Raises: ArgumentError; DeviceAssertError when the kernel says so.
        """
        three = [_three(v) for v in (grid, block, cluster or self.kernel.cluster)]
        self._check(three[0], three[1], three[2], shared_bytes)
        packed = pack(self.kernel, args, frozenset(fresh) if sanitize else frozenset())
        launch = _Launch(
            *((ctypes.c_uint32 * 3)(*v) for v in three),
            shared_bytes,
            COUNT * (count or requests or record >= 0) + CHECK * sanitize + REQUESTS * requests,
            len(self.program.source.lines) + 1,
            MAX_FINDINGS,
            record,
            alone,
        )
        if prod(three[0]) == 0:
            return RunResult((), Counters(LineCounters((0,) * len(COUNTERS)), {}), "")
        with _one_at_a_time:
            return self.program._launch(self.kernel, packed, launch)

    def _check(self, grid: tuple[int, ...], block: tuple[int, ...], cluster: tuple[int, ...], shared_bytes: int) -> None:
        threads, most = prod(block), self.kernel.max_threads or 1024
        if not 0 < threads <= min(most, 1024):
            raise ArgumentError(f"{self.kernel.name}: a block of {threads} threads; it may have {min(most, 1024)}")
        if any(g % c for g, c in zip(grid, cluster, strict=True)) or not 0 < prod(cluster) <= 16:
            raise ArgumentError(f"{self.kernel.name}: a grid of {grid} blocks cannot be cut into clusters of {cluster}")
        arch = self.program.source.arch
        if shared_bytes > (most := _most_shared(arch)):
            raise CapacityError(f"{self.kernel.name}: {shared_bytes} bytes of shared memory; a block of {arch} has {most}")


def _most_shared(arch: str) -> int:
    """Bytes of shared memory that a block of this architecture can have; the most that any has for one that is not known."""
    known = arch.rstrip("af")
    try:
        return capability_limits(known)["shared_per_block"].bytes
    except KeyError:
        return capability_limits("sm_100")["shared_per_block"].bytes


def _three(value: Sequence[int] | int) -> tuple[int, ...]:
    values = (value,) if isinstance(value, int | np.integer) else tuple(value)
    return tuple(int(v) for v in (*values, *(1,) * (3 - len(values))))
