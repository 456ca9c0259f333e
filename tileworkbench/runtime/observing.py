"""Watching launches: what a notebook cell ran, on what, and how long it took.

While a block of `observe` is open, every launch of this process takes the long way and is told to the observer. Outside, a call pays one
look at a flag.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from . import cuda_arrays
from .arguments import BoundCall, Memory


class Launchable(Protocol):
    """What is observed; the runtime's kernels are."""

    @property
    def executable(self) -> Any:
        """Has `launch(call)`."""


Observer = Callable[[Any, BoundCall, float], None]


@dataclass(slots=True)
class _Watch:
    seen: Observer | None = None
    may_launch: bool = True


WATCH = _Watch()


@contextmanager
def observe(seen: Observer, *, launch: bool = True) -> Iterator[None]:
    """Call `seen(kernel, call, seconds)` after each launch in this block; `seconds` is the launch alone, without checking arguments.

    With `launch=False` a call checks its arguments and allocates its outputs, but runs nothing: outputs hold NaN, or 0 where there is none.
    """
    before = WATCH.seen, WATCH.may_launch
    WATCH.seen, WATCH.may_launch = seen, launch
    try:
        yield
    finally:
        WATCH.seen, WATCH.may_launch = before


def memory_of(executable: Any, values: Iterable[Any]) -> Memory | None:
    """Where the arrays of a call have to be: in the target's memory; for a call that launches nothing, wherever these are."""
    own: Memory | None = getattr(executable, "memory", None)
    return own if WATCH.may_launch or any(map(cuda_arrays.is_on_gpu, values)) else None


def launch(kernel: Launchable, call: BoundCall) -> None:
    """Launch `call` on `kernel`, and tell the observer, if there is one."""
    if WATCH.seen is None:
        kernel.executable.launch(call)
        return
    start = time.perf_counter()
    if WATCH.may_launch:
        kernel.executable.launch(call)
        finish: Callable[[BoundCall], None] | None = getattr(kernel.executable, "finish", None)  # of a target whose launches do not wait
        if finish is not None:
            finish(call)
    seconds = time.perf_counter() - start
    if not WATCH.may_launch:
        for bound in call.tensors:
            if bound.spec.is_output:
                written = bound.array if call.memory is None else bound.result
                written[...] = float("nan") if bound.spec.dtype.is_float else 0
    WATCH.seen(kernel, call, seconds)
