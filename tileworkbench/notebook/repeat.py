"""Timing a launch again, when running it again changes nothing."""

from __future__ import annotations

from typing import Any, Protocol

from ..ir.expr import AddressOf, Buffer, Load
from ..ir.node import children, walk
from ..ir.stmt import Atomic, Copy, Fill, Gemm, Kernel, Print, Reduce, Region, Scan, Stmt, Store
from ..runtime.arguments import BoundCall
from ..runtime.timing import Clock, host_clock

BUDGET_S = 0.25


class Repeated(Protocol):
    @property
    def kernel(self) -> Any: ...
    @property
    def call(self) -> BoundCall: ...
    @property
    def seconds(self) -> tuple[float, ...]: ...


def times_of(launch: Repeated, runs: int) -> tuple[float, ...]:
    """Seconds of `runs` launches on the same arrays, as many as fit into a quarter of a second; those there were, if none does.

    The device's clock counts. The launches of the cell itself are left out, since the first one touches fresh memory.
    """
    executable, call = launch.kernel.executable, launch.call
    own = getattr(executable, "clock", None)  # of a device that works on when the launch is over
    clock: Clock = own(call) if own is not None else host_clock
    times: list[float] = []
    spent = launch.seconds[-1]
    while len(times) < runs and spent < BUDGET_S:
        times.append(clock(lambda: executable.launch(call), 1) / 1e9)
        spent += times[-1]
    return tuple(times) or launch.seconds


def is_repeatable(kernel: Kernel) -> bool:
    """Whether a second run on the same arrays gives what the first gave: no global buffer is both read and written, and nothing is printed."""
    read: set[str] = set()
    written: set[str] = set()
    for node in walk(kernel):
        match node:
            case Atomic() | Print() | AddressOf():
                return False
            case Load(buffer=buffer):
                read.add(_global(buffer))
            case Store(buffer=buffer):
                written.add(_global(buffer))
            case Copy(src=src, dst=dst) | Reduce(src=src, dst=dst) | Scan(src=src, dst=dst):
                read.add(_global(src.buffer))
                written.add(_global(dst.buffer))
            case Gemm(a=a, b=b, c=c):
                read |= {_global(a.buffer), _global(b.buffer), _global(c.buffer)}
                written.add(_global(c.buffer))
            case Fill(dst=dst):
                written.add(_global(dst.buffer))
            case Stmt() if any(isinstance(child, Region) for child in children(node)):
                return False  # a tile operation that this list does not know
    return not (read & written) - {""}


def _global(buffer: Buffer) -> str:
    return "" if buffer.root.is_on_chip else buffer.root.name
