"""What an author says about asynchronous work on sm_90 himself: roles of warp groups, barriers that count arrivals and bytes, copies that only start.

Tile IR, but only for targets of sm_90: a launch with any of these nodes carries the hint `EXPLICIT`. What they do is unsynchronised beyond what the
author writes: memory that two roles share is ordered by these barriers alone.

A *party* is the threads that run a statement: the warp groups of the `InGroups` around it, or the whole block.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..base.dtypes import BOOL, DType
from .device import DeviceCall
from .expr import AddressOf, Buffer, Expr
from .printer import LATER_STAGES, LaterStage, ShowBuffer, ShowExpr
from .stmt import Launch, Region, Stmt

EXPLICIT = "explicit_sm_90"
GROUP = 128  # threads of a warp group
BARRIER = DType("uint64")
ASYNC_ARRIVAL, CLOSE_STORES = "twb_cp_async_arrive", "twb_bulk_commit"  # what `Asked` calls


@dataclass(frozen=True, slots=True)
class InGroups(Expr):
    """Whether the thread is of the `count` warp groups from `first` on. Only as the condition of an `If` without another side."""

    first: int
    count: int

    @property
    def dtype(self) -> DType:
        return BOOL


@dataclass(frozen=True, slots=True)
class Asked(DeviceCall):
    """A call of a device function that the author wrote as `T.word`, in every thread of the party; it needs compute capability `arch`."""

    word: str = ""
    arch: int = 90


@dataclass(frozen=True, slots=True)
class StartBarriers(Stmt):
    """Make the elements of `buffer` barriers, before anything else in the block: a phase of element i takes `counts[i]` arrivals.

    `of_cluster`: other blocks of the cluster may arrive too.
    """

    buffer: Buffer
    counts: tuple[int, ...]
    of_cluster: bool = False


@dataclass(frozen=True, slots=True)
class TensorMove(Stmt):
    """Let the tensor copy engine copy a box between a tile and an array, in dims as in `Copy`; one thread of the party starts it.

    To a tile, `barrier` expects the bytes and is told when they have come. From a tile there is none: the copy joins the thread's group of stores.
    With a `mask` of blocks of the cluster, bit i for rank i, what its first block copies goes to that place of each of them, whose own barriers
    expect it; blocks outside of it copy for themselves. `rank` is this block's.
    """

    src: Region
    dst: Region
    barrier: AddressOf | None = None
    mask: int = 0
    rank: Expr | None = None


@dataclass(frozen=True, slots=True)
class Push(Stmt):
    """Copy a tile to the place of `dst` in block `block` of the cluster, whose `barrier` takes one arrival when it has come.

    Without a barrier all threads of the party write it, and the blocks have to meet before somebody reads it.
    """

    src: Region
    dst: Region
    block: Expr
    barrier: AddressOf | None = None


@dataclass(frozen=True, slots=True)
class WaitStarted(Stmt):
    """Wait until at most the `left` newest asynchronous products of the party run on."""

    left: int


def is_explicit(launch: Launch) -> bool:
    """Whether the author wrote any of these in `launch`."""
    return any(name == EXPLICIT for name, _ in launch.hints)


# ---------------------------------------------------------------------------------------------- as text
def _expr(e: Expr, show: ShowExpr, name: ShowBuffer) -> str | None:
    return f"in_groups({e.first}, {e.count})" if isinstance(e, InGroups) else None


def _head(s: Stmt, show: ShowExpr, name: ShowBuffer) -> str | None:
    match s:
        case Asked(called, args, constants):
            return f"{called.removeprefix('twb_')}{list(constants) if constants else ''}({', '.join(show(a) for a in args)})"
        case StartBarriers(buffer, counts, of_cluster):
            return f"barriers {name(buffer)} of {list(counts)} arrivals{' of the cluster' if of_cluster else ''}"
        case WaitStarted(left):
            return f"wait products <= {left}"
        case _:
            return None


LATER_STAGES.append(LaterStage(_expr, _head, lambda s: None))
