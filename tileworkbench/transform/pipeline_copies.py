"""Copies of a pipelined loop run ahead of it: they are started iterations before their data are read, and nobody waits for them until then.

Before:  for k in pipelined(0, n, num_stages=3): copy x <- X[0 :+ 64, k * 32 :+ 32]; gemm acc += x @ y
After:   if 0 < n: copy x[0] <- X[..., 0], not waited for;  commit;  if 1 < n: copy x[1] <- X[..., 32], not waited for;  commit
         for k in pipelined(0, n, num_stages=0):
             wait<1>;  sync
             if k + 2 < n: copy x[(k + 2) % 3] <- X[..., (k + 2) * 32], not waited for
             commit
             gemm acc += x[k % 3] @ y

A tile gets a version for each stage. Each iteration closes one group of copies, an empty one near the end, so that the number of a group is that of
an iteration: the wait leaves the newest stages - 2 groups, and the barrier then makes everybody's pieces of the oldest one visible, and lets the
version that the iteration before read be written again. With one stage the copies of an iteration are started and awaited at its beginning. What
may run ahead is said by `analysis/running_ahead.py`; everything else is copied in turn, with a remark. `order` and `stage` say only how many stages.

Contract with spread_threads: a started copy is a write that must not come before others have finished with the tile, but not a write that others have
to wait for: this pass has placed the wait and the barrier, at the beginning of the loop's body. When the loop is done so are its copies.

Requires: tile operations; bindings and conditions of the index dtype.  Preserves: everything else.
"""

from __future__ import annotations

from ..analysis.aliasing import Aliasing
from ..analysis.linear import has_load
from ..analysis.running_ahead import RunningAhead, running_ahead
from ..base.dtypes import BOOL, INDEX
from ..ir.build import FALSE, TRUE, add, floormod, index, mul, sub
from ..ir.device import DeviceCall, has_roles
from ..ir.explicit import is_explicit
from ..ir.expr import Binary, Buffer, Const, Expr, Load, Var
from ..ir.node import Node, replace, rewrite, walk
from ..ir.remark import Remark
from ..ir.stmt import Body, Copy, Gemm, If, Kernel, Launch, Let, PipelinedFor, Region, Stmt, Sync
from .names import Names
from .scoped import Result, Scoped


def pipeline_copies(kernel: Kernel, arch: int, aligned: bool = True) -> Kernel:
    """Return `kernel` with copies that run ahead, for compute capability `arch`; `aligned`: arrays begin at multiples of 16 bytes."""
    return _Pipeline(kernel, arch, aligned).kernel(kernel)


class _Pipeline(Scoped):
    def __init__(self, kernel: Kernel, arch: int, aligned: bool) -> None:
        super().__init__()
        self.arch, self.aligned, self.names, self.aliasing = arch, aligned, Names(kernel), Aliasing(kernel)
        self.launch: Launch | None = None
        self.versions: list[tuple[Buffer, Buffer]] = []  # (tile, its versions)
        self.remarks: list[Remark] = []

    def stmt(self, stmt: Stmt) -> Result:
        if not isinstance(stmt, Launch):
            return super().stmt(stmt)
        is_divided = is_explicit(stmt) or has_roles(stmt.body)
        if is_divided or not any(isinstance(n, PipelinedFor) and _stages(n) for n in walk(stmt)):
            return stmt
        self.launch, self.versions, self.remarks = stmt, [], []
        return super().stmt(stmt)

    def on_stmt(self, stmt: Stmt) -> Result:
        match stmt:
            case PipelinedFor() if _stages(stmt):
                return self.loop(stmt)
            case Launch() if self.versions or self.remarks:
                return self.finished(stmt)
            case _:
                return stmt

    def finished(self, launch: Launch) -> Launch:
        """The launch with the tiles that it has now, and what there is to say."""
        used = {n for s in launch.body for n in walk(s) if isinstance(n, Buffer)}
        allocs: list[Buffer] = []
        for buffer in launch.allocs:
            made = [new for old, new in self.versions if old == buffer]
            allocs += [buffer] if not made or buffer in used else []
            allocs += made
        forms = [f for f in launch.forms if f.buffer in allocs]
        forms += [replace(f, buffer=new) for f in launch.forms for old, new in self.versions if old == f.buffer]
        return replace(launch, allocs=tuple(allocs), forms=tuple(forms), remarks=(*launch.remarks, *self.remarks))

    # ------------------------------------------------------------------------------------------ one loop
    def loop(self, loop: PipelinedFor) -> Result:
        assert self.launch is not None
        in_turn = replace(loop, num_stages=0, order=(), stage=())
        if self.arch < 80 or self.launch.threads_used:
            why = "the launch's threads are visible" if self.launch.threads_used else f"sm_{self.arch} has no asynchronous copies"
            self.remarks.append(Remark(f"no copy runs ahead: {why}", span=loop.span))
            return in_turn
        found = running_ahead(loop, self.launch, self.aliasing, self.bounds, self.aligned)
        self.remarks += [Remark(why, span=at.span or loop.span) for at, why in found.why]
        if loop.order or loop.stage:
            self.remarks.append(Remark("of the order and stage of the loop's statements only the number of stages is used", span=loop.span))
        return _ahead(loop, found, self) if found.copies else in_turn


def _stages(loop: PipelinedFor) -> int:
    """How many versions its tiles should have."""
    return loop.num_stages or max(loop.stage, default=-1) + 1


def _ahead(loop: PipelinedFor, found: RunningAhead, where: _Pipeline) -> Body:
    """`loop`, in which the copies that were found run ahead."""
    stages, names, span = _stages(loop), where.names, loop.span
    out: list[Stmt] = []
    for end in ("start", "stop"):  # they are read more than once now
        if has_load(value := getattr(loop, end)):
            var = names.var(f"{loop.var.hint or loop.var.name}_{end}")
            out.append(Let(var, value, span=span))
            loop = replace(loop, **{end: var})
    tiles = {tile: _version(tile, loop, stages, where) for tile in found.tiles} if stages > 1 else {}
    where.versions += tiles.items()

    def started(at: Expr) -> Body:
        """The copies of iteration `at`, if there is one, as a group."""
        body = _renamed(_replayed(loop.body, found), loop.var, at, names)
        body = tuple(_in_version(s, tiles, floormod(sub(at, loop.start), index(stages))) for s in body)
        test = TRUE if stages == 1 else _less(at, loop.stop)
        inside = body if test == TRUE else (If(test, body, span=span),) if test != FALSE else ()
        return (*inside, DeviceCall("twb_cp_async_commit", span=span))

    for turn in range(stages - 1):
        out += started(add(loop.start, index(turn)))
    wait: list[Stmt] = [DeviceCall("twb_cp_async_wait", (), (max(stages - 2, 0),), span=span)]
    if where.arch >= 90 and any(isinstance(n, Gemm) for s in loop.body for n in walk(s)):
        wait.append(DeviceCall("twb_fence_proxy_async", span=span))  # a product may read the tile past the caches of the threads
    wait.append(Sync(span=span))
    rest = _rest(loop.body, found)
    if stages == 1:
        body: Body = (Sync(span=span), *started(loop.var), *wait, *rest)
    else:
        now, ahead = names.var("now"), names.var("ahead")
        lets = (Let(ahead, add(loop.var, index(stages - 1)), span=span),)
        slot = Let(now, floormod(sub(loop.var, loop.start), index(stages)), span=span)
        body = (*wait, *lets, *started(ahead), slot, *(_in_version(s, tiles, now) for s in rest))
    out.append(replace(loop, body=body, num_stages=0, order=(), stage=()))
    return tuple(out)


def _version(tile: Buffer, loop: PipelinedFor, stages: int, where: _Pipeline) -> Buffer:
    """`stages` tiles like `tile`, one after the other; of its name, if nobody else uses that."""
    assert where.launch is not None
    mentions = [sum(n == tile for s in body for n in walk(s)) for body in (where.launch.body, loop.body)]
    name = tile.name if mentions[0] == mentions[1] else where.names.fresh(tile.name)
    return replace(tile, name=name, shape=(index(stages), *tile.shape))


def _replayed(body: Body, found: RunningAhead) -> Body:
    """The copies that run ahead, under their conditions and with the bindings that they need."""
    out: list[Stmt] = []
    for stmt in body:
        match stmt:
            case Copy() if id(stmt) in found.copies:
                out.append(replace(stmt, async_bytes=found.copies[id(stmt)]))
            case Let(var) if var in found.lets:
                out.append(stmt)
            case If(_, then, other):
                yes, no = _replayed(then, found), _replayed(other, found)
                out += [replace(stmt, then=yes, other=no)] if _has_copy(yes) or _has_copy(no) else []
            case _:
                pass
    return tuple(out)


def _has_copy(body: Body) -> bool:
    return any(isinstance(n, Copy) for s in body for n in walk(s))


def _rest(body: Body, found: RunningAhead) -> Body:
    """What is left of the loop."""
    out: list[Stmt] = []
    for stmt in body:
        match stmt:
            case Copy() if id(stmt) in found.copies:
                pass
            case If(_, then, other):
                yes, no = _rest(then, found), _rest(other, found)
                if yes or no:
                    out.append(stmt if yes is then and no is other else replace(stmt, then=yes, other=no))
            case _:
                out.append(stmt)
    return body if len(out) == len(body) and all(a is b for a, b in zip(out, body, strict=True)) else tuple(out)


def _renamed(body: Body, var: Var, at: Expr, names: Names) -> Body:
    """`body` for iteration `at`, with bindings of its own."""
    known: dict[str, Expr] = {var.name: at}
    for node in (n for s in body for n in walk(s)):
        if isinstance(node, Let):
            known[node.var.name] = names.var(node.var.hint or node.var.name, node.var.type)

    def change(node: Node) -> Node:
        match node:
            case Var(name):
                return known.get(name, node)
            case Binary("add" | "mul" as op, a, b) if node.dtype == INDEX:
                folded = (add if op == "add" else mul)(a, b)
                return node if folded == node else folded
            case _:
                return node

    return tuple(rewrite(s, change) for s in body)


def _in_version(stmt: Stmt, tiles: dict[Buffer, Buffer], slot: Expr) -> Stmt:
    """`stmt` on version `slot` of the tiles."""

    def change(node: Node) -> Node:
        match node:
            case Region(buffer, starts, extents) if buffer in tiles:
                return replace(node, buffer=tiles[buffer], starts=(slot, *starts), extents=(index(1), *extents))
            case Load(buffer, indices) if buffer in tiles:
                return replace(node, buffer=tiles[buffer], indices=(slot, *indices))
            case _:
                return node

    return rewrite(stmt, change)


def _less(a: Expr, b: Expr) -> Expr:
    return Const(int(a.value) < int(b.value), BOOL) if isinstance(a, Const) and isinstance(b, Const) else Binary("lt", a, b)
