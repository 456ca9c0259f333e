"""Shuffles, votes and reductions between threads, as arrays with an element per thread and loops over them.

Before:  let y = shfl_down(x, 1)
After:   for t in parallel(n): sent[t] = x       (a segment)
         let y = sent[t + 1] if that lane is in reach else sent[t]      (in the next segment)
"""

from __future__ import annotations

from dataclasses import dataclass

from ..base.dtypes import BOOL, FLOAT32, INDEX, INT64, DType
from ..base.errors import UnsupportedError
from ..ir.build import ZERO, add, both, cast, index, mul, sub
from ..ir.expr import Binary, Buffer, Const, Expr, Load, Select, const
from ..ir.stmt import Body, Collective, Fill, For, If, Let, ParallelFor, Reduce, Stmt, Store, whole
from .names import Names
from .reduce_loops import combine_step, identity

WARP = 32
# what a collective's contributions combine by
_FOLDS = {**{op: op for op in ("sum", "max", "min", "bitand", "bitor", "any", "all")}, "count": "sum", "ballot": "bitor"}


@dataclass(frozen=True, slots=True)
class Exchange:
    """A collective in four parts: for the block, each thread's contribution, for the block again, and each thread's result."""

    before: Body
    segment: Body
    between: Body
    after: Body


class CollectiveLowering:
    """Lowers the collectives of one launch; `tiles` gets the arrays that they need."""

    def __init__(self, thread: Expr, count: int, names: Names, tiles: list[Buffer]) -> None:
        self.thread, self.count, self.names, self.tiles = thread, count, names, tiles

    def arguments(self, stmt: Collective, masked: bool) -> Exchange:
        """The parts of `stmt`; `masked` says that some threads may not take part."""
        if stmt.op.startswith("shfl"):
            return self.shuffle(stmt)
        group, _, fold = stmt.op.partition("_") if "_" in stmt.op else ("warp", "", stmt.op)
        if fold not in _FOLDS:
            raise UnsupportedError(f"the collective {stmt.op}", span=stmt.span, hint="use a shuffle, a vote or a sum, maximum or minimum")
        value, work = self.contribution(fold, stmt.args[0])
        sent = self.array("sent", work)
        neutral = identity(_FOLDS[fold], work)
        before: Body = (Fill(whole(sent), neutral),) if masked else ()
        segment = (Store(sent, (self.thread,), value, span=stmt.span),)
        if group == "block":
            total = self.array("total", work, 1)
            result = Let(stmt.result, cast(Load(total, (ZERO,)), stmt.result.type), span=stmt.span)
            return Exchange(before, segment, (Reduce(_FOLDS[fold], whole(sent), whole(total), 0), result), ())
        totals, between = self.by_warp(_FOLDS[fold], sent, work, neutral)
        warp = Binary("floordiv", self.thread, index(WARP))
        return Exchange(before, segment, between, (Let(stmt.result, cast(Load(totals, (warp,)), stmt.result.type), span=stmt.span),))

    def contribution(self, fold: str, value: Expr) -> tuple[Expr, DType]:
        """What a thread puts in, and the type in which it is combined."""
        if fold in ("any", "all"):
            return cast(value, BOOL), BOOL
        if fold == "count":
            return cast(cast(value, BOOL), INT64), INT64
        if fold == "ballot":
            wide = DType("uint32")
            lane = cast(Binary("floormod", self.thread, index(WARP)), wide)
            return Select(cast(value, BOOL), Binary("shl", const(1, wide), lane), const(0, wide)), wide
        work = FLOAT32 if value.dtype.is_float and value.dtype.bits < 32 else value.dtype
        return cast(value, work), work

    def by_warp(self, op: str, sent: Buffer, work: DType, neutral: Const) -> tuple[Buffer, Body]:
        """A result per warp."""
        warps = -(-self.count // WARP)
        totals = self.array("totals", work, warps)
        warp, lane = self.names.var("warp"), self.names.var("lane")
        source = add(mul(warp, index(WARP)), lane)
        step: Stmt = Store(totals, (warp,), combine_step(op, Load(totals, (warp,)), Load(sent, (source,)), False))
        if self.count % WARP:
            step = If(Binary("lt", source, index(self.count)), (step,))
        loop = For(lane, ZERO, index(WARP), (ParallelFor((warp,), (index(warps),), (step,)),))
        return totals, (Fill(whole(totals), neutral), loop)

    def shuffle(self, stmt: Collective) -> Exchange:
        value, argument = stmt.args[0], cast(stmt.args[1], INDEX)
        sent = self.array("sent", value.dtype)
        asked = self.array("asked", INDEX)
        segment = (Store(sent, (self.thread,), value, span=stmt.span), Store(asked, (self.thread,), argument, span=stmt.span))
        lane_var, target_var = self.names.var("lane"), self.names.var("target")
        given = Load(asked, (self.thread,))
        target: Expr
        match stmt.op:
            case "shfl":
                target = given
            case "shfl_xor":
                target = Binary("bitxor", lane_var, given)
            case "shfl_up":
                target = sub(lane_var, given)
            case _:
                target = add(lane_var, given)
        source = add(sub(self.thread, lane_var), target_var)
        inside = both(Binary("ge", target_var, ZERO), Binary("lt", target_var, index(stmt.width)))
        if self.count % stmt.width:
            inside = both(inside, Binary("lt", source, index(self.count)))
        after = (
            Let(lane_var, Binary("floormod", self.thread, index(stmt.width))),
            Let(target_var, target),
            Let(stmt.result, Select(inside, Load(sent, (source,)), Load(sent, (self.thread,))), span=stmt.span),
        )
        return Exchange((), segment, (), after)

    def array(self, hint: str, dtype: DType, count: int = 0) -> Buffer:
        tile = self.names.tile(hint, (index(count or self.count),), dtype)
        self.tiles.append(tile)
        return tile
