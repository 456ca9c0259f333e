"""A launch whose threads are visible becomes one without threads: loops over the threads between barriers.

Before:  s[tx] = A[tx]; sync block; B[tx] = s[127 - tx]
After:   for tx in parallel(128): s[tx] = A[tx]
         for tx in parallel(128): B[tx] = s[127 - tx]

Statements between two barriers form a *segment*: a loop over the threads. Control flow that holds a barrier, a collective or a tile operation
stands outside such loops: as it is where all threads agree on it, else under a mask, an array that says which threads take part. What every
thread computes alike runs once. A thread's own variables live in its loop iteration if one segment uses them, otherwise in an array with an
element per thread; index arithmetic is repeated instead.

Requires: author-level statements, tile-wide atomics expanded.  Preserves: launches whose threads are not visible.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..analysis.linear import has_load
from ..analysis.uniform import Uniformity, is_private, touches_private
from ..base.dtypes import BOOL, INDEX, DType
from ..ir.bodies import bodies
from ..ir.build import FALSE, TRUE, ZERO, add, cast, every, index, mul, negate
from ..ir.expr import Binary, Buffer, Expr, Load, Var
from ..ir.lowered import EndIteration
from ..ir.node import replace, walk
from ..ir.stmt import (
    Body,
    Break,
    Collective,
    Continue,
    Copy,
    Fill,
    For,
    Gemm,
    If,
    Kernel,
    Launch,
    Let,
    ParallelFor,
    PipelinedFor,
    Reduce,
    Return,
    Scan,
    Stmt,
    Store,
    Sync,
    While,
    whole,
)
from .collectives import CollectiveLowering
from .names import Names
from .segments import Segment, finish_segments
from .thread_private import scalarise

_TILE_OPS = (Copy, Fill, Gemm, Reduce, Scan, ParallelFor)


def fission_threads(kernel: Kernel) -> Kernel:
    """Return `kernel` without threads."""
    if not any(launch.threads_used for launch in kernel.launches):
        return kernel
    names = Names(kernel)
    return replace(kernel, body=_host(kernel.body, names))


def _host(body: Body, names: Names) -> Body:
    out: list[Stmt] = []
    for stmt in body:
        match stmt:
            case Launch() if stmt.threads_used:
                out.append(_Fission(stmt, names).launch_without_threads())
            case If(_, then, other):
                out.append(replace(stmt, then=_host(then, names), other=_host(other, names)))
            case For(body=inside) | While(body=inside):
                out.append(replace(stmt, body=_host(inside, names)))
            case _:
                out.append(stmt)
    return tuple(out)


@dataclass(frozen=True, slots=True)
class _Masks:
    """Which threads take part: all arrays hold true. `loop` are the innermost masked loop's (still running, in this iteration)."""

    arrays: tuple[Buffer, ...] = ()
    loop: tuple[Buffer, Buffer] | None = None

    def plus(self, array: Buffer, loop: tuple[Buffer, Buffer] | None = None) -> _Masks:
        return _Masks((*self.arrays, array), loop or self.loop)


class _Fission:
    def __init__(self, launch: Launch, names: Names) -> None:
        self.names = names
        self.launch = replace(launch, thread_vars=_thread_vars(launch, names))
        self.uniform = Uniformity(self.launch)
        self.tiles: list[Buffer] = []
        self.segments: list[Segment] = []
        self.loops = 0
        self.alive: Buffer | None = None
        self.collectives = CollectiveLowering(self.thread, self.count, names, self.tiles)

    @property
    def count(self) -> int:
        """Threads of the block."""
        total = 1
        for extent in self.launch.threads:
            total *= extent
        return total

    @property
    def thread(self) -> Expr:
        """The linear thread index, x fastest."""
        total: Expr = ZERO
        stride = 1
        for var, extent in zip(self.launch.thread_vars, self.launch.threads, strict=True):
            if extent > 1:
                total = add(mul(var, index(stride)), total) if total != ZERO else mul(var, index(stride))
            stride *= extent
        return total

    def launch_without_threads(self) -> Launch:
        body = self.make_whole(self.launch.body)
        self.split_mixed(body)
        if any(self.concerns_block(s) for s in body) and self.returns_apart(body):
            self.alive = self.array("alive", BOOL)
        out = self.body(body, _Masks(() if self.alive is None else (self.alive,)))
        if self.alive is not None:
            out = [Fill(whole(self.alive), TRUE), *out]
        done, private = finish_segments(tuple(out), self.segments, self.launch, self.thread, self.count, self.uniform, self.names, self.tiles)
        allocs = (*(b for b in self.launch.allocs if b.root not in private), *self.tiles)
        return replace(self.launch, body=done, allocs=allocs, threads_used=False, threads=(1,), thread_vars=())

    # ------------------------------------------------------------------------------------------ preparation
    def make_whole(self, body: Body) -> Body:
        """Tile operations that each thread runs on its own become element statements."""
        out: list[Stmt] = []
        for stmt in body:
            match stmt:
                case If(_, then, other):
                    out.append(replace(stmt, then=self.make_whole(then), other=self.make_whole(other)))
                case For(body=inside) | PipelinedFor(body=inside) | While(body=inside):
                    out.append(replace(stmt, body=self.make_whole(inside)))
                case _ if isinstance(stmt, _TILE_OPS) and (touches_private(stmt) or not self.uniform.is_uniform(stmt)):
                    out += scalarise(stmt, self.names)
                case _:
                    out.append(stmt)
        return tuple(out)

    def split_mixed(self, body: Body) -> None:
        """A uniform variable that is written amid statements of single threads is kept per thread after all."""
        found = True
        while found:
            self.uniform.launch = replace(self.launch, body=body)
            self.uniform.settle()
            found = self.mixed(body)

    def mixed(self, body: Body) -> bool:
        changed = False
        for stmt in body:
            if self.is_structure(stmt):
                changed |= any(self.mixed(part) for part in bodies(stmt))
            elif not self.runs_once(stmt):
                for n in walk(stmt):
                    if isinstance(n, Store) and is_private(n.buffer) and n.buffer.root.name not in self.uniform.varying:
                        self.uniform.varying.add(n.buffer.root.name)
                        changed = True
        return changed

    def returns_apart(self, body: Body) -> bool:
        """Whether some threads may leave the launch before others."""
        for stmt in body:
            match stmt:
                case If(cond, then, other) if self.uniform.is_uniform(cond):
                    if self.returns_apart((*then, *other)):
                        return True
                case Return():
                    pass
                case _ if any(isinstance(n, Return) for n in walk(stmt)):
                    return True
        return False

    # ------------------------------------------------------------------------------------------ classes of statements
    def is_structure(self, stmt: Stmt) -> bool:
        """Control flow with something inside that concerns the whole block."""
        return isinstance(stmt, (If, For, PipelinedFor, While)) and self.concerns_block(stmt)

    def concerns_block(self, stmt: Stmt) -> bool:
        if any(isinstance(n, (Sync, Collective, *_TILE_OPS)) for n in walk(stmt)):
            return True
        leaves = any(isinstance(n, Return) for n in walk(stmt)) or _loose(stmt)
        return leaves and isinstance(stmt, If) and self.uniform.is_uniform(stmt.cond)

    def runs_once(self, stmt: Stmt) -> bool:
        """Whether every thread would do exactly the same to variables only."""
        match stmt:
            case Let(_, value):
                return self.uniform.is_uniform(value)
            case Store(buffer, indices, value):
                return is_private(buffer) and buffer.root.name not in self.uniform.varying and self.uniform.all_uniform((*indices, value))
            case If(cond, then, other):
                return self.uniform.is_uniform(cond) and all(self.runs_once(s) for s in (*then, *other))
            case For(_, start, stop, body) | PipelinedFor(_, start, stop, body):
                return self.uniform.all_uniform((start, stop)) and all(self.runs_once(s) for s in body)
            case While(cond, body):
                return self.uniform.is_uniform(cond) and all(self.runs_once(s) for s in body)
            case _:
                return False

    # ------------------------------------------------------------------------------------------ the fission
    def body(self, body: Body, masks: _Masks) -> list[Stmt]:
        out: list[Stmt] = []
        segment: list[Stmt] = []

        def flush() -> None:
            if segment:
                out.append(self.segment(tuple(segment), masks))
                segment.clear()

        for stmt in body:
            match stmt:
                case Sync(scope):
                    flush()
                    out += [stmt] if scope == "grid" else []
                case Let(_, value) if self.uniform.is_uniform(value) and not has_load(value):
                    out.append(stmt)
                case Collective():
                    flush()
                    args = self.collectives.arguments(stmt, bool(masks.arrays))
                    out += args.before
                    out.append(self.segment(args.segment, masks))
                    out += args.between
                    segment += args.after
                case Break() | Continue() | Return() if self.must_mask(stmt, masks):
                    segment += self.leave(stmt, masks)
                case Break() | Continue() | Return():
                    flush()
                    out.append(stmt)
                case _ if self.runs_once(stmt):
                    flush()
                    out.append(stmt)
                case _ if self.is_structure(stmt):
                    flush()
                    out += self.structure(stmt, masks)
                case _ if isinstance(stmt, _TILE_OPS):
                    flush()
                    out += self.if_any(masks, (stmt,))
                case _:
                    segment.append(self.with_leaving(stmt, masks))
        flush()
        return out

    def structure(self, stmt: Stmt, masks: _Masks) -> list[Stmt]:
        match stmt:
            case If(cond, then, other) if self.uniform.is_uniform(cond):
                return [replace(stmt, then=tuple(self.body(then, masks)), other=tuple(self.body(other, masks)))]
            case If(cond, then, other):
                taken, rest = self.array("taken", BOOL), self.array("rest", BOOL)
                clear = (Fill(whole(taken), FALSE), Fill(whole(rest), FALSE))
                choice = self.segment((self.put(taken, cond), self.put(rest, negate(cond))), masks)  # before either body can change what cond reads
                return [*clear, choice, *self.body(then, masks.plus(taken)), *self.body(other, masks.plus(rest))]
            case For(var, start, stop, body) | PipelinedFor(var, start, stop, body):
                if self.uniform.all_uniform((start, stop)) and not self.uniform.leaves_apart(body):
                    return [replace(stmt, body=self.loop_body(body, masks))]
                return self.masked_for(var, start, stop, stmt.step if isinstance(stmt, For) else 1, body, masks)
            case While(cond, body):
                if self.uniform.is_uniform(cond) and not self.uniform.leaves_apart(body):
                    return [replace(stmt, body=self.loop_body(body, masks))]
                return self.masked_while(cond, body, (), masks)
            case _:
                raise AssertionError(stmt)

    def loop_body(self, body: Body, masks: _Masks) -> Body:
        """The body of a loop that all threads go round together."""
        self.loops += 1
        out = self.body(body, _Masks(masks.arrays))
        self.loops -= 1
        return tuple(out)

    def masked_for(self, var: Var, start: Expr, stop: Expr, step: int, body: Body, masks: _Masks) -> list[Stmt]:
        """A loop whose threads make different numbers of iterations: the counter and the end are arrays."""
        at, end = self.array(var.name, INDEX), self.array(f"{var.name}_stop", INDEX)
        test = Binary("lt" if step > 0 else "gt", self.get(at), self.get(end))
        begin = self.segment((self.put(at, cast(start, INDEX)), self.put(end, cast(stop, INDEX))), masks)
        advance = self.put(at, add(self.get(at), index(step)))
        bind = Let(var, self.get(at))
        self.uniform.varying.add(var.name)
        return [begin, *self.masked_while(test, (bind, *body), (advance,), masks)]

    def masked_while(self, cond: Expr, body: Body, advance: Body, masks: _Masks) -> list[Stmt]:
        """A loop that goes on while any thread does."""
        running, now = self.array("running", BOOL), self.array("now", BOOL)
        inside = masks.plus(running)
        self.loops += 1
        some, test = self.any_of((*inside.arrays, now))
        stop = If(negate(self.get(now)), (self.put(running, FALSE),))  # a thread whose condition failed does not come back
        turn: list[Stmt] = [Fill(whole(now), FALSE), self.segment((self.put(now, cond), stop), inside), *some, If(negate(test), (Break(),))]
        turn += self.body(body, inside.plus(now, (running, now)))
        if advance:
            turn.append(self.segment(advance, inside))
        self.loops -= 1
        return [Fill(whole(running), FALSE), self.segment((self.put(running, TRUE),), masks), While(TRUE, tuple(turn))]

    def must_mask(self, stmt: Stmt, masks: _Masks) -> bool:
        """Whether leaving here concerns some threads only."""
        if isinstance(stmt, Return):
            return len(masks.arrays) > (self.alive is not None)
        return masks.loop is not None

    def leave(self, stmt: Stmt, masks: _Masks) -> Body:
        """One thread leaves an iteration, a masked loop or the launch: it is struck off the arrays and does no more in this segment."""
        out: list[Stmt] = []
        if isinstance(stmt, Return):
            out += [] if self.alive is None else [self.put(self.alive, FALSE)]
        elif masks.loop is not None:
            running, now = masks.loop
            out.append(self.put(now, FALSE))
            if isinstance(stmt, Break):
                out.append(self.put(running, FALSE))
        return (*out, EndIteration(span=stmt.span))

    def with_leaving(self, stmt: Stmt, masks: _Masks) -> Stmt:
        """A thread's statement, in which leaving the launch or a masked loop is spelled out."""
        match stmt:
            case If(_, then, other):
                return replace(stmt, then=self.leaving_body(then, masks), other=self.leaving_body(other, masks))
            case For(body=body) | PipelinedFor(body=body) | While(body=body):
                return replace(stmt, body=self.leaving_body(body, _Masks(masks.arrays)))  # break and continue mean this loop
            case _:
                return stmt

    def leaving_body(self, body: Body, masks: _Masks) -> Body:
        out: list[Stmt] = []
        for s in body:
            is_ours = isinstance(s, Return) or isinstance(s, (Break, Continue)) and masks.loop is not None
            out += self.leave(s, masks) if is_ours else (self.with_leaving(s, masks),)
        return tuple(out)

    def if_any(self, masks: _Masks, body: Body) -> list[Stmt]:
        """`body`, which the block runs together, if any thread takes part."""
        if not masks.arrays:
            return list(body)
        some, test = self.any_of(masks.arrays)
        return [*some, If(test, body)]

    def any_of(self, arrays: tuple[Buffer, ...]) -> tuple[list[Stmt], Expr]:
        """Statements after which the expression says whether some thread is in all of `arrays`."""
        every_one = self.array("together", BOOL)
        result = self.names.tile("some", (index(1),), BOOL)
        self.tiles.append(result)
        both = self.segment((self.put(every_one, every([self.get(a) for a in arrays])),), _Masks())
        return [both, Reduce("any", whole(every_one), whole(result), 0)], Load(result, (ZERO,))

    # ------------------------------------------------------------------------------------------ pieces
    def segment(self, body: Body, masks: _Masks) -> Segment:
        if masks.arrays:
            body = (If(every([self.get(m) for m in masks.arrays]), body),)
        made = Segment(len(self.segments), self.loops > 0, body)
        self.segments.append(made)
        return made

    def array(self, hint: str, dtype: DType) -> Buffer:
        """A value per thread."""
        tile = self.names.tile(hint, (index(self.count),), dtype)
        self.tiles.append(tile)
        return tile

    def get(self, array: Buffer) -> Load:
        return Load(array, (self.thread,))

    def put(self, array: Buffer, value: Expr) -> Store:
        return Store(array, (self.thread,), value)


def _thread_vars(launch: Launch, names: Names) -> tuple[Var, ...]:
    """A variable for every thread dim."""
    extra = [names.var("xyz"[min(d, 2)] + "_thread") for d in range(len(launch.thread_vars), len(launch.threads))]
    return (*launch.thread_vars, *extra)


def _loose(stmt: Stmt) -> bool:
    """Whether a break or continue in `stmt` leaves a loop around it."""
    match stmt:
        case Break() | Continue():
            return True
        case If(_, then, other):
            return any(_loose(s) for s in (*then, *other))
        case _:
            return False
