"""Tiles that the tensor copy engine brings from shared to global memory while the threads go on (sm_90)."""

from __future__ import annotations

from dataclasses import dataclass

from .expr import Buffer
from .printer import LATER_STAGES, LaterStage, ShowBuffer, ShowExpr
from .stmt import Region, Stmt


@dataclass(frozen=True, slots=True)
class SendTile(Stmt):
    """`dst = src`, or `dst = op(dst, src)` atomically by `op` "add", "min" or "max", through the launch's tensor view number `view`, in
    boxes of (rows, columns).

    Without a `stage`, src lies in shared memory as it is. With one, src is the result of products by warp groups, in registers: the threads bring
    it to the `stage` piece by piece, 64 rows by some columns: `stage` is (warp groups, slots, 64, columns). Each warp group for itself fills a slot,
    lets one thread send it, and goes on; it waits before it fills a slot again. `is_repeated`: slots may be on their way already when it begins.
    """

    src: Region
    dst: Region
    view: int
    box: tuple[int, int]
    op: str = ""
    stage: Buffer | None = None
    is_repeated: bool = False


@dataclass(frozen=True, slots=True)
class HandOver(Stmt):
    """What the threads do of `send`, where a thread of its own issues the stores: bring the tile to the `stage`, which warp groups use in turns.

    `stage` is (units, pieces, 64, columns). A unit is filled when the engine has read what was in it (`free`, for each unit and use of it for
    one tile), and given away when every warp has written it (`full`, for each unit); `count` is how many tiles the threads have sent so far.
    """

    send: SendTile
    stage: Buffer
    full: Buffer
    free: Buffer
    count: Buffer


def _head(s: Stmt, show: ShowExpr, name: ShowBuffer) -> str | None:
    if isinstance(s, HandOver):
        return f"hand over {name(s.send.src.buffer)} through {name(s.stage)}"
    if not isinstance(s, SendTile):
        return None
    starts = ", ".join(show(i) for i in s.dst.starts)
    through = f" through {name(s.stage)}" if s.stage is not None else ""
    return f"send {s.op + ' ' if s.op else ''}{name(s.dst.buffer)}[{starts} ..] <- {name(s.src.buffer)}{through}"


LATER_STAGES.append(LaterStage(lambda e, show, name: None, _head, lambda s: None))
