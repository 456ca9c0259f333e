"""A block's program becomes a thread's: tiles in registers are arrays of each thread, parallel loops are shared out, all or one do the rest.

Before:  for i, j in parallel(16, 8): x[i, j] = x[i, j] * 2          (x a fragment: 2 registers in each of 64 threads)
After:   for r in unroll(0, 2): let i = tx // 4; let j = tx % 4 * 2 + r; x_r[r] = x_r[r] * 2

Which thread holds which cell, and runs which iteration, is said by `analysis/fragments.py`. The result is an ordinary thread-level program:
statements run in every thread, what a block does once is done by its first thread. A barrier stands between statements of the block of which
one touches memory that the other wrote; within a parallel loop or a tile operation the threads need none.

Requires: launches whose threads are not visible, copies and fills as parallel loops, single atomics.  Preserves: other launches.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from ..analysis.fragments import Placement, cells_at, place_fragments
from ..analysis.uses import uses
from ..base.dtypes import INDEX, DType
from ..base.errors import UnsupportedError
from ..ir.build import TRUE, add, cast, index, mul
from ..ir.device import DeviceCall
from ..ir.expr import Binary, Buffer, Const, Expr, Load, is_const
from ..ir.node import Node, replace, rewrite, walk
from ..ir.stmt import (
    Assert,
    Atomic,
    Body,
    Break,
    Continue,
    Copy,
    For,
    Gemm,
    If,
    Kernel,
    Launch,
    Let,
    ParallelFor,
    PipelinedFor,
    Print,
    Reduce,
    Scan,
    Stmt,
    Store,
    Sync,
    While,
)
from ..layout.fragments import Fragment, own_registers
from .held_tiles import coordinates, is_first, is_live, register_at
from .names import Names
from .spread_async import spread_async
from .spread_tiles import spread_product, spread_reduce, spread_scan


def spread_threads(kernel: Kernel, arch: int = 0) -> Kernel:
    """Return `kernel` with thread-level launches, for compute capability `arch`."""
    names = Names(kernel)

    def change(node: Node) -> Node:
        return _Spread(node, arch, names).launch() if isinstance(node, Launch) and not node.threads_used else node

    return rewrite(kernel, change)


@dataclass(slots=True)
class _Turn:
    """What an iteration of a loop touches, and what may be open where it leaves the loop."""

    reads: set[Buffer]
    writes: set[Buffer]
    left_read: set[Buffer] = field(default_factory=set)
    left_wrote: set[Buffer] = field(default_factory=set)


class _Spread:
    def __init__(self, launch: Launch, arch: int, names: Names) -> None:
        self.old, self.names = launch, names
        self.place: Placement = place_fragments(launch, arch)
        self.vars = tuple(launch.thread_vars[d] if d < len(launch.thread_vars) else names.var(f"t{'xyz'[d]}") for d in range(len(launch.threads)))
        self.thread: Expr = self.vars[-1]
        for var, count in zip(reversed(self.vars[:-1]), reversed(launch.threads[:-1]), strict=True):
            self.thread = add(var, mul(self.thread, index(count)))
        self.arrays = {b: Buffer(names.fresh(f"{b.name}_r"), (index(f.registers),), b.type, "local") for b, f in self.place.fragments.items()}
        self.scratch: list[Buffer] = []
        self.read: set[Buffer] = set()  # since the last barrier
        self.wrote: set[Buffer] = set()
        self.turns: list[_Turn] = []  # of the loops around the statement

    def launch(self) -> Launch:
        body = self.body(self.old.body)
        kept = tuple(b for b in self.old.allocs if b not in self.arrays)
        allocs = (*self.arrays.values(), *kept, *self.scratch)
        return replace(self.old, thread_vars=self.vars, threads_used=True, allocs=allocs, body=body)

    def body(self, body: Body) -> Body:
        out: list[Stmt] = []
        for stmt in body:
            if isinstance(stmt, DeviceCall):  # whoever made it saw to its barriers
                out.append(stmt)
                continue
            if isinstance(stmt, Continue):
                self.barrier(out, self.turns[-1].reads, self.turns[-1].writes, stmt)
            elif isinstance(stmt, Break):
                self.turns[-1].left_read |= self.read
                self.turns[-1].left_wrote |= self.wrote
            inside = isinstance(stmt, (For, PipelinedFor, While, If))
            reads, writes = self.shared([stmt] if not inside else _head(stmt))
            self.barrier(out, reads, writes, stmt)
            if isinstance(stmt, Copy):  # one that is only started: whoever started it waits for it, and lets all threads meet then
                reads, writes = {stmt.src.buffer.root}, set()
            self.read |= reads if inside else set()  # a thread may still read the condition when another is in the body
            out += self.stmt(stmt)
            if not isinstance(stmt, Sync):
                self.read |= reads
                self.wrote |= writes
        return tuple(out)

    def around(self, body: Body, again: list[Expr], runs: bool = False) -> Body:
        """The body of a loop: what an iteration leaves behind is settled before the next one, which evaluates `again`.

        A body that begins with a barrier settles it itself. What stood open before the loop does so after it, unless it certainly `runs`.
        """
        before = set() if runs else set(self.read), set() if runs else set(self.wrote)
        turn = _Turn(*((set(), set()) if _begins_with_barrier(body) else self.shared([*body, *again])))
        self.turns.append(turn)
        start: list[Stmt] = []
        self.barrier(start, turn.reads, turn.writes, body[0] if body else None)
        inside = list(self.body(body))
        self.barrier(inside, turn.reads, turn.writes, body[-1] if body else None)
        self.turns.pop()
        self.read |= before[0] | turn.left_read
        self.wrote |= before[1] | turn.left_wrote
        return (*start, *inside)

    def shared(self, nodes: Sequence[Node]) -> tuple[set[Buffer], set[Buffer]]:
        """The memory that several threads may touch in `nodes`: read, and written."""
        found = uses(nodes)
        mine = {b for b in found.buffers if b in self.arrays or b.scope in ("local", "var")}
        return {b.root for b in found.read - mine}, {b.root for b in found.written - mine}

    def barrier(self, out: list[Stmt], reads: set[Buffer], writes: set[Buffer], stmt: Stmt | None) -> None:
        """Let all threads come together, if what follows touches what others may not have finished with."""
        if reads & self.wrote or writes & (self.read | self.wrote):
            out.append(Sync(span=None if stmt is None else stmt.span))
            self.read, self.wrote = set(), set()

    def stmt(self, stmt: Stmt) -> Body:
        match stmt:
            case ParallelFor():
                return self.loop(stmt)
            case Reduce():
                return spread_reduce(stmt, self)
            case Gemm():
                return spread_product(stmt, self)
            case Scan():
                return spread_scan(stmt, self)
            case Copy():
                return spread_async(stmt, self)
            case For(body=body) | PipelinedFor(body=body):
                return (replace(stmt, body=self.around(body, [], runs=_certainly_runs(stmt))),)
            case While(cond, body):
                return (replace(stmt, body=self.around(body, [cond])),)
            case If(_, then, other):
                before = set(self.read), set(self.wrote)
                yes = self.body(then)
                after = self.read, self.wrote
                self.read, self.wrote = before
                no = self.body(other)
                self.read, self.wrote = self.read | after[0], self.wrote | after[1]
                return (replace(stmt, then=yes, other=no),)
            case Sync():
                self.read, self.wrote = set(), set()
                return (stmt,)
            case Store(buffer) if buffer.scope in ("local", "var"):
                return (stmt,)
            case Store() | Print() | Assert():
                return (self.by_one(stmt),)
            case Atomic(result=None):
                return (self.by_one(stmt),)
            case Atomic():
                return self.told(stmt)
            case _:
                return (stmt,)

    def told(self, stmt: Atomic) -> Body:
        """An atomic that the block does once, whose old value every thread gets."""
        assert stmt.result is not None
        tile = self.tile(f"{stmt.result.hint or stmt.result.name}_told", (1,), stmt.result.type)
        old = self.names.var(stmt.result.hint or stmt.result.name, stmt.result.type)
        ask = If(Binary("eq", self.thread, index(0)), (replace(stmt, result=old), Store(tile, (index(0),), old)), span=stmt.span)
        return (Sync(span=stmt.span), ask, Sync(span=stmt.span), Let(stmt.result, Load(tile, (index(0),)), span=stmt.span))

    def by_one(self, stmt: Stmt) -> Stmt:
        """What a block does once."""
        return If(Binary("eq", self.thread, index(0)), (stmt,), span=stmt.span)

    # ------------------------------------------------------------------------------------------ parallel loops
    def loop(self, loop: ParallelFor) -> Body:
        """Each thread runs the iterations that it owns."""
        placed = self.place.loops.get(id(loop))
        if any(is_const(e, 0) for e in loop.extents):
            return ()
        if placed is None:
            return self.strided(loop)
        asks = any(isinstance(n, Atomic) and n.result is not None for n in walk(loop))
        if asks and placed.copies > 1 and any(isinstance(n, Store) and n.buffer in self.arrays for n in walk(loop)):
            raise UnsupportedError("an atomic that gives the old value beside a tile of which several threads hold a copy", span=loop.span)

        def body(register: Expr) -> Body | None:
            cell = coordinates(placed, self.thread, register)
            lets = [Let(v, c, span=loop.span) for v, c in zip(loop.vars, cell, strict=True)]
            inside = self.touching(loop, placed, register)
            if inside is None:
                return None
            test = is_live(placed, self.thread, loop.vars)
            if asks and placed.copies > 1:
                inside = (If(is_first(placed, self.thread), inside, span=loop.span),)
            elif placed.copies > 1:
                inside = tuple(self.once(s, placed) for s in inside)
            return (*lets, *((If(test, inside, span=loop.span),) if test != TRUE else inside))

        return self.each(placed, body, loop)

    def each(self, placed: Fragment, body: Callable[[Expr], Body | None], stmt: Stmt) -> Body:
        """`body(register)` for every register: as a loop if formulas can be found, else one after the other.

        Registers with neighbours of the last dim are a loop of their own within it: what may become one access.
        """
        if placed.registers > 1:
            var, vector = self.names.var("r"), placed.vector
            inner = None if vector in (1, placed.registers) else self.names.var("x")
            inside = body(var if inner is None else add(mul(var, index(vector)), inner))
            if inside is not None and inner is not None:
                inside = (For(inner, index(0), index(vector), inside, kind="unroll", span=stmt.span),)
            if inside is not None:
                turns = placed.registers if inner is None else placed.registers // vector
                return (For(var, index(0), index(turns), inside, kind="unroll", span=stmt.span),)
        out: list[Stmt] = []
        for register in range(placed.registers):
            made = body(index(register))
            assert made is not None
            if placed.registers > 1:  # names of its own
                made = (If(TRUE, made, span=stmt.span),)
            out += made
        return tuple(out)

    def touching(self, loop: ParallelFor, placed: Fragment, register: Expr) -> Body | None:
        """The loop's body, with cells in registers as elements of arrays; None if a register has no formula."""
        failed: list[Node] = []

        def change(node: Node) -> Node:
            if isinstance(node, (Load, Store)) and node.buffer in self.arrays:
                at = self.register(node, loop, placed, register)
                if at is None:
                    failed.append(node)
                    return node
                return replace(node, buffer=self.arrays[node.buffer], indices=(at,))
            return node

        out = tuple(rewrite(stmt, change) for stmt in loop.body)
        return None if failed else out

    def register(self, node: Load | Store, loop: ParallelFor, placed: Fragment, register: Expr) -> Expr | None:
        wanted = cells_at(node.indices, loop.vars, placed)
        assert wanted is not None
        table = own_registers(placed, self.place.fragments[node.buffer], wanted)
        assert table is not None
        return register_at(placed, table, register)

    def once(self, stmt: Stmt, placed: Fragment) -> Stmt:
        """`stmt`, in which only the first of the threads with the same cells writes what others see."""

        def change(node: Node) -> Node:
            if isinstance(node, (Store, Atomic)):
                buffer = node.buffer if isinstance(node, Store) else node.dst.buffer
                if buffer.scope not in ("local", "var"):
                    return If(is_first(placed, self.thread), (node,), span=node.span)
            return node

        return rewrite(stmt, change)

    def strided(self, loop: ParallelFor) -> Body:
        """Iterations of a box whose size is not known beforehand: thread t runs the t-th, and every so manieth after it."""
        count: Expr = index(1)
        for extent in loop.extents:
            count = mul(count, cast(extent, INDEX))
        turn, at = self.names.var("turn"), self.names.var("at")
        lets: list[Stmt] = [Let(at, add(mul(turn, index(self.place.threads)), self.thread))]
        rest: Expr = at
        for var, extent in reversed(list(zip(loop.vars[1:], loop.extents[1:], strict=True))):
            lets.append(Let(var, Binary("floormod", rest, cast(extent, INDEX))))
            rest = Binary("floordiv", rest, cast(extent, INDEX))
        lets.append(Let(loop.vars[0], rest))
        turns = Binary("floordiv", add(count, index(self.place.threads - 1)), index(self.place.threads))
        inside = If(Binary("lt", at, count), (*lets[1:], *loop.body), span=loop.span)
        return (For(turn, index(0), turns, (lets[0], inside), span=loop.span),)

    # ------------------------------------------------------------------------------------------ for the other files
    def value(self, buffer: Buffer, cell: tuple[Expr, ...], placed: Fragment, register: Expr) -> Expr | None:
        """The element of `buffer` at the cell of `placed`'s `register`, whose coordinates are `cell`; None if its register has no formula."""
        if buffer not in self.arrays:
            return Load(buffer, cell)
        table = own_registers(placed, self.place.fragments[buffer], placed.cells())
        assert table is not None
        at = register_at(placed, table, register)
        return None if at is None else Load(self.arrays[buffer], (at,))

    def array(self, hint: str, count: int, like: Buffer | DType) -> Buffer:
        """A new array of each thread."""
        dtype = like.type if isinstance(like, Buffer) else like
        made = Buffer(self.names.fresh(hint), (index(count),), dtype, "local")
        self.scratch.append(made)
        return made

    def tile(self, hint: str, shape: tuple[int, ...], dtype: DType) -> Buffer:
        """A new tile of the block."""
        made = self.names.tile(hint, tuple(index(n) for n in shape), dtype)
        self.scratch.append(made)
        return made


def _begins_with_barrier(body: Body) -> bool:
    return isinstance(next((s for s in body if not isinstance(s, DeviceCall)), None), Sync)


def _certainly_runs(loop: For | PipelinedFor) -> bool:
    start, stop, step = loop.start, loop.stop, loop.step if isinstance(loop, For) else 1
    return isinstance(start, Const) and isinstance(stop, Const) and (stop.value > start.value if step > 0 else stop.value < start.value)


def _head(stmt: Stmt) -> list[Expr]:
    """The condition, or the ends, of a statement with bodies."""
    match stmt:
        case If(cond) | While(cond):
            return [cond]
        case For(_, start, stop) | PipelinedFor(_, start, stop):
            return [start, stop]
        case _:
            return []
