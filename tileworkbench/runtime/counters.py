"""Hardware counters around a launch, through Linux's perf_event_open: cycles, instructions, and what L1 and the last cache load and miss.

Each event is opened once for every thread of this process, so that the kernel's workers are counted too, and only while user code runs. Where
that is not possible (another system, a virtual machine without counters, a setting that forbids it) one line says so, and nothing fails.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from ..model.counters import Counters

_SYSCALLS = {"x86_64": 298, "amd64": 298, "aarch64": 241, "arm64": 241, "riscv64": 241, "ppc64le": 319}
_HARDWARE, _CACHE = 0, 3
_L1D, _LAST, _READ, _ACCESS, _MISS = 0, 2, 0, 0, 1
# name -> (type, config) of linux/perf_event.h; a cache event is cache | operation << 8 | result << 16
EVENTS = {
    "cycles": (_HARDWARE, 0),
    "instructions": (_HARDWARE, 1),
    "L1D loads": (_CACHE, _L1D | _READ << 8 | _ACCESS << 16),
    "L1D misses": (_CACHE, _L1D | _READ << 8 | _MISS << 16),
    "LLC loads": (_CACHE, _LAST | _READ << 8 | _ACCESS << 16),
    "LLC misses": (_CACHE, _LAST | _READ << 8 | _MISS << 16),
}
_ATTRIBUTE_BYTES = 128
_TIMES = 1 | 2  # read_format: how long the event was enabled, and how long it really counted
_DISABLED, _NO_KERNEL, _NO_HYPERVISOR = 1, 1 << 5, 1 << 6
_CLOSE_ON_EXEC = 8
_ENABLE, _DISABLE, _RESET = 0x2400, 0x2401, 0x2403
PARANOID = Path("/proc/sys/kernel/perf_event_paranoid")


class Perf(Protocol):
    """The few calls to the system; tests put their own in place."""

    def open(self, kind: int, config: int, thread: int) -> int:
        """A counter of one thread, switched off. Raises OSError."""

    def command(self, handle: int, what: int) -> None:
        """Switch it on (_ENABLE) or off, or set it to zero."""

    def read(self, handle: int) -> tuple[int, int, int]:
        """(count, nanoseconds enabled, nanoseconds counted)."""

    def close(self, handle: int) -> None:
        """Give it back."""


class LinuxPerf:
    """perf_event_open and what goes with it."""

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._number = _SYSCALLS[platform.machine().lower()]

    def open(self, kind: int, config: int, thread: int) -> int:
        flags = _DISABLED | _NO_KERNEL | _NO_HYPERVISOR
        attribute = struct.pack("=IIQQQQQ", kind, _ATTRIBUTE_BYTES, config, 0, 0, _TIMES, flags).ljust(_ATTRIBUTE_BYTES, b"\0")
        handle: int = self._libc.syscall(self._number, attribute, thread, -1, -1, ctypes.c_ulong(_CLOSE_ON_EXEC))
        if handle < 0:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code))
        return handle

    def command(self, handle: int, what: int) -> None:
        self._libc.ioctl(handle, ctypes.c_ulong(what), 0)

    def read(self, handle: int) -> tuple[int, int, int]:
        count, enabled, counted = struct.unpack("=QQQ", os.read(handle, 24))
        return count, enabled, counted

    def close(self, handle: int) -> None:
        os.close(handle)


@dataclass(frozen=True, slots=True)
class _Open:
    """One event of one thread."""

    name: str
    handle: int


def count_launches(launch: Callable[[], object], launches: int = 3, perf: Perf | None = None) -> Counters:
    """Counts of one `launch`, the mean of `launches`. It is called once before, so that its threads exist. Counters that fail raise nothing."""
    why = "" if perf is not None else why_never()
    if why:
        return Counters(missing=why)
    perf = perf or LinuxPerf()
    with _opened(perf) as (handles, failed):
        if not handles:
            return Counters(missing=why_not(failed))
    launch()
    with _opened(perf) as (handles, failed):
        for what in (_RESET, _ENABLE):
            for h in handles:
                perf.command(h.handle, what)
        for _ in range(launches):
            launch()
        for h in handles:
            perf.command(h.handle, _DISABLE)
        return _summed(perf, handles, failed, launches)


@contextmanager
def _opened(perf: Perf) -> Iterator[tuple[list[_Open], dict[str, int]]]:
    """Every event on every thread, and the error numbers of the events that could not be had."""
    handles: list[_Open] = []
    failed: dict[str, int] = {}
    try:
        for name, (kind, config) in EVENTS.items():
            for thread in threads():
                try:
                    handles.append(_Open(name, perf.open(kind, config, thread)))
                except OSError as error:
                    if error.errno != errno.ESRCH:  # a thread that has ended meanwhile
                        failed[name] = error.errno or errno.EIO
                        break
        yield [h for h in handles if h.name not in failed], failed
    finally:
        for h in handles:
            perf.close(h.handle)


def threads() -> list[int]:
    """The system's numbers of this process's threads; 0 (the caller's) where they are not known."""
    try:
        return sorted(int(name) for name in os.listdir("/proc/self/task"))
    except (OSError, ValueError):
        return [0]


def _summed(perf: Perf, handles: list[_Open], failed: dict[str, int], launches: int) -> Counters:
    totals: dict[str, float] = {}
    least = 1.0
    for h in handles:
        count, enabled, counted = perf.read(h.handle)
        if count and not counted:
            continue
        share = counted / enabled if enabled and counted else 1.0
        least = min(least, share)
        totals[h.name] = totals.get(h.name, 0.0) + count / share / launches
    if not any(totals.values()):
        return Counters(missing="no counters: every event stayed at zero; this machine shows its counters but does not count")
    missing = f"not counted: {', '.join(failed)}; {_reason(next(iter(failed.values())))}" if failed else ""
    return Counters(totals, launches, missing, least)


# ------------------------------------------------------------------------------------------- why not
def why_never() -> str:
    """Why counters cannot work on this system at all, in one line; "" if they may."""
    if not sys.platform.startswith("linux"):
        return f"no counters: they are read with Linux's perf, and this is {platform.system() or sys.platform}"
    if platform.machine().lower() not in _SYSCALLS:
        return f"no counters: perf_event_open has no known number on {platform.machine()}"
    return ""


def why_not(failed: dict[str, int]) -> str:
    """Why no event could be opened, in one line."""
    return f"no counters: {_reason(next(iter(failed.values()), errno.EIO))}"


def _reason(code: int) -> str:
    if code in (errno.EACCES, errno.EPERM):
        level = _paranoid()
        if level is not None and level > 2:
            return f"kernel.perf_event_paranoid is {level}; `sudo sysctl kernel.perf_event_paranoid=2` lets a user count own programs"
        return "the system refuses perf_event_open to this process; a container's seccomp profile may forbid it"
    if code in (errno.ENOENT, errno.EOPNOTSUPP, errno.ENODEV, errno.EINVAL):
        return "this machine has no such counter; a virtual machine often has none at all"
    if code == errno.ENOSYS:
        return "this kernel was built without perf events, or a sandbox hides them"
    return f"perf_event_open failed: {os.strerror(code)}"


def _paranoid() -> int | None:
    try:
        return int(PARANOID.read_text())
    except (OSError, ValueError):
        return None
