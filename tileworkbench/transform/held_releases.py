"""Releases of tiles that are held back until the products that read them have ended, which may be a turn later (sm_90a).

Counters go on meanwhile, so which version a release is about is kept in a variable.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..base.dtypes import INDEX, UINT32
from ..ir.build import cast, index
from ..ir.device import DeviceCall
from ..ir.expr import AddressOf, Buffer, Const, Expr, Load
from ..ir.node import replace
from ..ir.stmt import Body, Stmt, Store
from .names import Names

RELEASES = ("twb_mbarrier_arrive_warp", "twb_mbarrier_arrive_cluster")


def is_release(stmt: Stmt) -> bool:
    """Whether a warp says that it has read a version of a tile."""
    return isinstance(stmt, DeviceCall) and stmt.name in RELEASES


def versions(stmt: Stmt) -> int:
    """How many versions the tile has that `stmt`, a release, is about."""
    assert isinstance(stmt, DeviceCall)
    return _bar(stmt).buffer.static_shape()[0]


class HeldReleases:
    """The releases among `body`, each with a variable of its own in `marks`."""

    def __init__(self, body: Iterable[Stmt], names: Names) -> None:
        self.calls = [s for s in body if isinstance(s, DeviceCall) and is_release(s)]
        self.marks: list[Buffer] = [names.scalar("before", UINT32) for _ in self.calls]

    def clear(self) -> Body:
        """The variables name a version, for a turn that reads them before any is kept."""
        return tuple(Store(mark, (index(0),), Const(0, UINT32)) for mark in self.marks)

    def keep(self) -> Body:
        """Keep which versions would be released here."""
        bars = [_bar(call) for call in self.calls]
        return tuple(Store(mark, (index(0),), cast(bar.indices[0], UINT32)) for mark, bar in zip(self.marks, bars, strict=True))

    def release(self, really: Expr | None = None) -> Body:
        """Release the kept versions, if `really`: then without a branch and without a meeting of the warp, so the compiler may do it later."""
        out: list[Stmt] = []
        for call, mark in zip(self.calls, self.marks, strict=True):
            args = (replace(_bar(call), indices=(cast(Load(mark, (index(0),)), INDEX),)), *call.args[1:])
            out.append(replace(call, args=args) if really is None else DeviceCall(f"{call.name}_if", (*args, really), span=call.span))
        return tuple(out)


def _bar(call: DeviceCall) -> AddressOf:
    bar = call.args[0]
    assert isinstance(bar, AddressOf)
    return bar
