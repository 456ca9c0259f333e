"""How many threads a launch may use, and what changes in a forked child.

libgomp does not survive a fork: once the parent ran a parallel region, the first region of a child waits for ever for threads that do not
exist there (libgomp 12, system copy and PyTorch's alike). So a forked child runs its kernels on one thread. Set TILEWORKBENCH_NUM_THREADS,
or pass `num_threads=` to `jit` or `compile`, to use fewer threads than there are cores.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable


class ThreadLimit:
    """The default number of threads, and the most that a launch may have."""

    __slots__ = ("default", "cap")

    def __init__(self) -> None:
        self.default = _from_environment() or available_cores()
        self.cap = 1 << 30

    def of(self, asked: int | None) -> int:
        """The threads of a launch that asked for `asked` (None: the default)."""
        return min(asked or self.default, self.cap)


def available_cores() -> int:
    """Cores that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def check_threads(value: int | None) -> int | None:
    """`value` if it can be a number of threads (None: the default); raises ValueError otherwise."""
    if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
        raise ValueError(f"num_threads must be a whole number of at least 1, got {value!r}")
    return value


def _from_environment() -> int | None:
    text = os.environ.get("TILEWORKBENCH_NUM_THREADS", "").strip()
    if not text:
        return None
    if not text.isdigit() or int(text) < 1:
        raise ValueError(f"TILEWORKBENCH_NUM_THREADS must be a whole number of at least 1, got {text!r}")
    return int(text)


LIMIT = ThreadLimit()
_locks: list[Callable[[], None]] = []


def fork_safe_lock() -> threading.RLock:
    """A lock that is free in a forked child, whoever held it in the parent."""
    lock = threading.RLock()
    _locks.append(lock._at_fork_reinit)  # type: ignore[attr-defined]  # private, and what the standard library's own at-fork hooks call
    return lock


def _in_child() -> None:
    LIMIT.cap = 1
    for free in _locks:
        free()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)


def set_num_threads(value: int | None) -> None:
    """The default number of threads of a launch from now on; None: all cores. Kernels that have already been called keep theirs."""
    check_threads(value)
    LIMIT.default = value or available_cores()
