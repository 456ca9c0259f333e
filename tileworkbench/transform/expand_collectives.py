"""What threads exchange, in the words of the hardware: shuffles within reach, votes, and a tile for what a whole block finds out.

Before:  let a = warp_sum(x);  let b = block_max(x);  let c = shfl(x, lane)
After:   let o = shfl_xor(x, 16); v = x + o; ... ; let a = v
         (the same in each warp); tile[warp] = v; sync block; v = tile[0]; for w in 1..warps: v = max(v, tile[w]); sync block; let b = v
         let c = shfl(x, lane in reach ? lane : own)

A lane out of reach, or beyond the last thread, gives a thread its own value. The hardware would take another lane instead.

Requires: thread-level launches, whose barriers are there.  Preserves: shuffles that are certainly within reach, votes of a warp.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from ..analysis.uniform import Uniformity
from ..base.dtypes import BOOL, FLOAT32, INDEX, INT32, DType
from ..base.errors import UnsupportedError
from ..ir.bodies import statements
from ..ir.build import ZERO, add, both, cast, index, mul, sub
from ..ir.expr import Binary, Buffer, Const, Expr, Load, Select
from ..ir.launches import rewrite_launches
from ..ir.node import replace
from ..ir.stmt import Body, Collective, For, If, Kernel, Launch, Let, PipelinedFor, Stmt, Store, Sync, While
from .names import Names
from .reduce_loops import combine_step

WARP = 32
Put = Callable[[Expr], Store]
_FOLDS = {**{op: op for op in ("sum", "max", "min", "bitand", "bitor", "any", "all")}, "count": "sum"}


def expand_collectives(kernel: Kernel) -> Kernel:
    """Return `kernel` with shuffles and votes that a GPU has."""
    if not any(isinstance(n, Collective) for n in statements(kernel)):
        return kernel
    names = Names(kernel)

    def change(node: Launch) -> Launch:
        if any(isinstance(n, Collective) for n in statements(node)):
            return _Expanding(node, names).launch()
        return node

    return rewrite_launches(kernel, change)


class _Expanding:
    def __init__(self, launch: Launch, names: Names) -> None:
        self.names, self.uniform = names, Uniformity(launch)
        self.count = prod(launch.threads)
        extra = tuple(names.var(f"t{'xyz'[d]}") for d in range(len(launch.thread_vars), len(launch.threads)))
        self.old = replace(launch, thread_vars=(*launch.thread_vars, *extra))
        self.thread: Expr = ZERO
        for var, extent in zip(reversed(self.old.thread_vars), reversed(launch.threads), strict=True):
            self.thread = add(mul(self.thread, index(extent)), var)
        self.made: list[Buffer] = []

    def launch(self) -> Launch:
        body = self.body(self.old.body, False)
        return replace(self.old, body=body, allocs=(*self.old.allocs, *self.made))

    def body(self, body: Body, apart: bool) -> Body:
        """`apart`: not all threads of the block come here together."""
        out: list[Stmt] = []
        for stmt in body:
            match stmt:
                case Collective():
                    out += self.collective(stmt, apart)
                case If(cond, then, other):
                    inside = apart or not self.uniform.is_uniform(cond)
                    out.append(replace(stmt, then=self.body(then, inside), other=self.body(other, inside)))
                case For(_, start, stop, inner) | PipelinedFor(_, start, stop, inner):
                    inside = apart or not self.uniform.all_uniform((start, stop)) or self.uniform.leaves_apart(inner)
                    out.append(replace(stmt, body=self.body(inner, inside)))
                case While(cond, inner):
                    inside = apart or not self.uniform.is_uniform(cond) or self.uniform.leaves_apart(inner)
                    out.append(replace(stmt, body=self.body(inner, inside)))
                case _:
                    out.append(stmt)
        return tuple(out)

    def collective(self, s: Collective, apart: bool) -> Body:
        if s.op.startswith("shfl"):
            return (self.shuffle(s),)
        if s.op in ("any", "all", "ballot"):
            return (s,)
        group, _, fold = s.op.partition("_")
        if fold not in _FOLDS:
            raise UnsupportedError(f"the collective {s.op}", span=s.span, hint="use a shuffle, a vote or a sum, maximum or minimum")
        if group == "block" and apart:
            raise UnsupportedError(
                "a value of the whole block that not all of its threads come to", span=s.span,
                hint="move it out of the branch or loop that depends on the thread",
            )  # fmt: skip
        return self.fold(s, _FOLDS[fold], group == "block")

    # ------------------------------------------------------------------------------------------ shuffles
    def shuffle(self, s: Collective) -> Collective:
        """`s`, or from a lane that is certainly there."""
        asked, width = s.args[1], s.width
        known = int(asked.value) if isinstance(asked, Const) else -1
        if 0 <= known < width and self.count % WARP == 0:
            return s
        lane, given = Binary("floormod", self.thread, index(width)), cast(asked, INDEX)
        target: Expr
        match s.op:
            case "shfl":
                target = given
            case "shfl_xor":
                target = Binary("bitxor", lane, given)
            case "shfl_up":
                target = sub(lane, given)
            case _:
                target = add(lane, given)
        inside = both(Binary("ge", target, ZERO), Binary("lt", target, index(width)))
        if self.count % width:
            inside = both(inside, Binary("lt", add(sub(self.thread, lane), target), index(self.count)))
        return replace(s, op="shfl", args=(s.args[0], cast(Select(inside, target, lane), INT32)))

    # ------------------------------------------------------------------------------------------ sums and the like
    def fold(self, s: Collective, op: str, of_block: bool) -> Body:
        value, work = self.contribution(op, s.args[0], s.result.type)
        found = self.names.scalar(s.result.hint or s.result.name, work)
        self.made.append(found)
        held = Load(found, (ZERO,))

        def put(x: Expr) -> Store:
            return Store(found, (ZERO,), x, span=s.span)

        out: list[Stmt] = [put(value)]
        for step in (16, 8, 4, 2, 1):
            if step < self.count:
                out += self.exchange(held, put, op, step, work)
        if self.count % WARP:  # in a warp that is not full, the first lane alone has met all others
            first = self.names.var("first", work)
            out += (Collective("shfl", first, (held, Const(0, INT32))), put(first))
        if of_block and self.count > WARP:
            out += self.among_warps(held, put, op, work, s)
        elif of_block:
            out.append(Sync(span=s.span))  # which insert_barriers takes it for
        return (*out, Let(s.result, cast(held, s.result.type), span=s.span))

    def contribution(self, op: str, value: Expr, result: DType) -> tuple[Expr, DType]:
        if op in ("any", "all"):
            return cast(value, BOOL), BOOL
        if value.dtype.is_bool:  # a count
            return cast(value, result), result
        work = FLOAT32 if value.dtype.is_float and value.dtype.bits < 32 else value.dtype
        return cast(value, work), work

    def exchange(self, held: Load, put: Put, op: str, step: int, work: DType) -> Body:
        """Combine with the lane whose number differs in the bit `step`."""
        other = self.names.var("other", work)
        shuffle = self.shuffle(Collective("shfl_xor", other, (held, Const(step, INT32))))
        both_values = combine_step(op, held, other, False)
        if self.count % WARP == 0:
            return (shuffle, put(both_values))
        partner = Binary("bitxor", self.thread, index(step))
        return (shuffle, put(Select(Binary("lt", partner, index(self.count)), both_values, held)))

    def among_warps(self, held: Load, put: Put, op: str, work: DType, s: Collective) -> Body:
        """Every warp leaves what it has in a tile, and every thread combines all of it in the same order."""
        warps = -(-self.count // WARP)
        tile = self.names.tile(f"{held.buffer.name}_warps", (index(warps),), work)
        self.made.append(tile)
        turn = self.names.var("warp")
        leave = If(
            Binary("eq", Binary("floormod", self.thread, index(WARP)), ZERO), (Store(tile, (Binary("floordiv", self.thread, index(WARP)),), held),)
        )
        take = For(turn, index(1), index(warps), (put(combine_step(op, held, Load(tile, (turn,)), False)),))
        return (leave, Sync(span=s.span), put(Load(tile, (ZERO,))), take, Sync(span=s.span))
