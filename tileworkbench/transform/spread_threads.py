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

from ..analysis.fragments import Placement, place_fragments, reads_back, registers_at
from ..analysis.held import held_tiles
from ..analysis.matrix_units import GROUP
from ..analysis.uses import uses
from ..base.dtypes import INT32, DType
from ..base.errors import UnsupportedError
from ..base.span import Span
from ..ir.bodies import heads
from ..ir.build import TRUE, add, cast, index, mul
from ..ir.device import DeviceCall, Specialised, WaitProducts
from ..ir.expr import Binary, Buffer, CallExtern, Const, Expr, Load, Var, is_const
from ..ir.launches import rewrite_launches
from ..ir.node import Node, replace, rewrite, walk
from ..ir.send import HandOver, SendTile
from ..ir.stmt import (
    Assert,
    Atomic,
    Body,
    Collective,
    Copy,
    Evaluate,
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
    Region,
    Scan,
    Stmt,
    Store,
    Sync,
    While,
)
from ..ir.tile_form import HeldTile, TileForm, TileOrder
from ..layout.fragments import Fragment, own_registers
from .barriers import leaves, meets_first, runs, sharing
from .certain_regions import certain_regions
from .held_tiles import coordinates, is_first, is_live, register_at
from .names import Names
from .roles import in_roles
from .skip_ones import unless_ones
from .spread_async import spread_async
from .spread_fma import spread_product
from .spread_mma import spread_mma
from .spread_sends import fits, is_as_sent, sends, spread_hand_over, spread_send, without_sends
from .spread_tiles import spread_reduce, spread_scan
from .spread_wgmma import spread_wait, spread_wgmma
from .stay_on_chip import KIND as BLOCKS
from .stay_on_chip import PAIR
from .strided import strided


def spread_threads(kernel: Kernel, arch: int = 0) -> Kernel:
    """Return `kernel` with thread-level launches, for compute capability `arch`."""
    names, certain = Names(kernel), certain_regions(kernel)

    def change(node: Launch) -> Launch:
        if node.threads_used:
            return node
        spread = Spread(node, arch, names, certain)
        made = spread.launch() if is_as_sent(node, spread.place.fragments) else None
        if made is None or spread.sends and not fits(made):
            return Spread(without_sends(node, names), arch, names, certain).launch()
        return made

    return rewrite_launches(kernel, change)


class Spread:
    """One launch on its way."""

    def __init__(self, launch: Launch, arch: int, names: Names, certain: Sequence[Region] = ()) -> None:
        self.roles = launch.body[0] if len(launch.body) == 1 and isinstance(launch.body[0], Specialised) else None
        self.old, self.names = launch, names
        self.certain = {id(region) for region in certain}  # which live as long as the kernel
        body = launch.body if self.roles is None else self.roles.consumers
        self.place: Placement = place_fragments(replace(launch, body=body), arch)
        self.operations = [n for s in body for n in walk(s) if isinstance(n, (Gemm, Reduce))]
        self.vars = tuple(launch.thread_vars[d] if d < len(launch.thread_vars) else names.var(f"t{'xyz'[d]}") for d in range(len(launch.threads)))
        self.thread: Expr = self.vars[-1]
        for var, count in zip(reversed(self.vars[:-1]), reversed(launch.threads[:-1]), strict=True):
            self.thread = add(var, mul(self.thread, index(count)))
        self.arrays = {b: Buffer(names.fresh(f"{b.name}_r"), (index(f.registers),), b.type, "local") for b, f in self.place.fragments.items()}
        self.scratch: list[Buffer] = []
        self.read: set[Buffer] = set()  # since the last barrier
        self.wrote: set[Buffer] = set()
        self.sharing = sharing(launch.places)
        self.sends = sends(launch)
        self.sent = {n.src.buffer.root for n in self.sends if n.stage is None}  # what the tensor copy engine may still read
        groups = [n for n in self.operations if isinstance(n, Gemm) and self.place.units[id(n)].kind == "wgmma"]
        self.factors = {r.buffer.root for n in groups for r in (n.a, n.b)} | self.sent  # what warp groups read past the threads' own view of memory
        self.start: list[Stmt] = []  # what every thread does first
        self._group: Var | None = None

    def launch(self) -> Launch:
        body = self.body(self.old.body if self.roles is None else self.roles.consumers)
        last = (DeviceCall("twb_bulk_wait_read", constants=(0,), span=self.old.span),) if self.sends else ()  # the engine may read tiles until then
        body = (*self.start, *body, *last)
        kept = tuple(b for b in self.old.allocs if b not in self.arrays)
        allocs = (*self.arrays.values(), *kept, *self.scratch)
        forms = tuple(form for form in self.forms if form.buffer not in self.arrays)
        launch = replace(self.old, thread_vars=self.vars, threads_used=True, allocs=allocs, body=body, forms=forms, held=self.held())
        return launch if self.roles is None else in_roles(launch, self.roles, self.names)

    def held(self, first_thread: int = 0) -> tuple[HeldTile, ...]:
        """Where the fragments are, for who looks at the program."""
        return held_tiles(self.place, self.operations, first_thread)

    @property
    def forms(self) -> tuple[TileForm, ...]:
        return self.old.forms

    @property
    def orders(self) -> tuple[TileOrder, ...]:
        return self.old.orders

    def group(self) -> Var:
        """The number of the thread's warp group, which the compiler is told is one for all of a warp."""
        if self._group is None:
            self._group = self.names.var("group", INT32)
            number = cast(Binary("floordiv", self.thread, index(GROUP)), INT32)
            self.start.append(Collective("shfl", self._group, (number, Const(0, INT32))))
        return self._group

    def body(self, body: Body) -> Body:
        out: list[Stmt] = []
        for stmt in body:
            if isinstance(stmt, DeviceCall):  # whoever made it saw to its barriers
                out.append(stmt)
                continue
            inside = isinstance(stmt, (For, PipelinedFor, While, If))
            reads, writes = self.shared([stmt] if not inside else heads(stmt))
            self.barrier(out, reads, writes, stmt)
            if isinstance(stmt, Copy):  # one that is only started: whoever started it waits for it, and lets all threads meet then
                reads, writes = {stmt.src.buffer.root}, set()
            self.read |= reads if inside else set()  # a thread may still read the condition when another is in the body
            out += self.stmt(stmt)
            if not isinstance(stmt, Sync):
                self.read |= reads
                self.wrote |= writes
        return tuple(out)

    def around(self, body: Body, again: list[Expr], are_blocks: bool = False) -> Body:
        """The body of a loop: what an iteration leaves behind is settled before the next one, which evaluates `again`.

        Where iterations are blocks, what they leave in global memory is nothing to the next one. A body that begins with a barrier settles it itself.
        """
        reads, writes = self.shared([*body, *again])
        if meets_first(body):
            reads, writes = set(), set()
        if are_blocks:
            reads, writes = ({b for b in found if b.scope != "global"} for found in (reads, writes))
        start: list[Stmt] = []
        if leaves(body):
            self.read, self.wrote = self.read | reads, self.wrote | writes
        self.barrier(start, reads, writes, body[0] if body else None)
        inside = list(self.body(body))
        self.barrier(inside, reads, writes, body[-1] if body else None)
        return (*start, *inside)

    def shared(self, nodes: Sequence[Node]) -> tuple[set[Buffer], set[Buffer]]:
        """The memory that several threads may touch in `nodes`: read, and written."""
        found = uses(nodes)
        mine = {b for b in found.buffers if b in self.arrays or b.scope in ("local", "var")}
        return {b.root for b in found.read - mine}, {b.root for b in found.written - mine}

    def barrier(self, out: list[Stmt], reads: set[Buffer], writes: set[Buffer], stmt: Stmt | None) -> None:
        """Let all threads come together, if what follows touches what others may not have finished with."""
        wrote, read = self.with_neighbours(self.wrote), self.with_neighbours(self.read)
        if reads & wrote or writes & (read | wrote):
            late = writes & self.with_neighbours(self.read & self.sent)
            out += (DeviceCall("twb_bulk_wait_read", constants=(0,)),) if late else ()
            out += self.meet(None if stmt is None else stmt.span)
            self.read -= self.sent if late else set()

    def with_neighbours(self, tiles: set[Buffer]) -> set[Buffer]:
        """`tiles`, and those that share bytes with them."""
        return tiles.union(*(self.sharing[b] for b in tiles if b in self.sharing)) if self.sharing else tiles

    def meet(self, span: Span | None) -> Body:
        """A barrier; what warp groups are going to read past it is made visible to them first."""
        shown = (DeviceCall("twb_fence_proxy_async", span=span),) if self.wrote & self.factors else ()
        self.read, self.wrote = self.read & self.sent, set()
        return (*shown, Sync(span=span))

    def stmt(self, stmt: Stmt) -> Body:
        match stmt:
            case ParallelFor():
                return unless_ones(stmt, self.loop(stmt), self)
            case Reduce():
                return spread_reduce(stmt, self)
            case Gemm() if self.place.units[id(stmt)].kind == "wgmma":
                return spread_wgmma(stmt, self.place.units[id(stmt)], self)
            case Gemm():
                unit = self.place.units[id(stmt)]
                return spread_mma(stmt, unit, self) if unit.kind == "mma" else spread_product(stmt, self)
            case WaitProducts():
                return spread_wait(stmt, self)
            case Scan():
                return spread_scan(stmt, self)
            case SendTile() | HandOver():
                return spread_send(stmt, self) if isinstance(stmt, SendTile) else spread_hand_over(stmt, self)
            case Copy():
                return spread_async(stmt, self)
            case For() | PipelinedFor() | While():
                return (self.repeated(stmt),)
            case If(_, then, other):
                before = set(self.read), set(self.wrote)
                yes = self.body(then)
                after = self.read, self.wrote
                self.read, self.wrote = before
                no = self.body(other)
                self.read, self.wrote = self.read | after[0], self.wrote | after[1]
                return (replace(stmt, then=yes, other=no),)
            case Sync():
                return (*self.meet(stmt.span)[:-1], stmt)
            case Store(buffer) if buffer.scope in ("local", "var"):
                return (stmt,)
            case Let(var, value) if calls(value):
                return self.given(stmt, var, value)
            case Store() | Print() | Assert() | Evaluate():
                return (self.by_one(stmt),)
            case Atomic(result=None):
                return (self.by_one(stmt),)
            case Atomic():
                return self.told(stmt)
            case _:
                return (stmt,)

    def repeated(self, stmt: For | PipelinedFor | While) -> Stmt:
        """A loop; where it may not run at all, its barriers are none."""
        before = set(self.read), set(self.wrote)
        are_blocks = isinstance(stmt, For) and stmt.kind in (BLOCKS, PAIR)
        out = replace(stmt, body=self.around(stmt.body, [stmt.cond] if isinstance(stmt, While) else [], are_blocks))
        if not runs(stmt):
            self.read, self.wrote = self.read | before[0], self.wrote | before[1]
        if leaves(stmt.body):
            reads, writes = self.shared(stmt.body)
            self.read, self.wrote = self.read | reads, self.wrote | writes
        return out

    def given(self, stmt: Let, var: Var, value: Expr) -> Body:
        """What a function of the author's gives, which may do more than that: the block calls it once."""
        tile = self.tile(f"{var.hint or var.name}_given", (1,), var.type)
        meet = Sync(span=stmt.span)
        return (meet, self.by_one(Store(tile, (index(0),), value, span=stmt.span)), meet, Let(var, Load(tile, (index(0),)), span=stmt.span))

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
            return strided(loop, self.thread, self.place.threads, self.names)
        asks = any(isinstance(n, Atomic) and n.result is not None for n in walk(loop)) or calls(loop) or reads_back(loop, frozenset(self.arrays))
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
        table = registers_at(node.indices, loop.vars, placed, self.place.fragments[node.buffer], node.buffer.static_shape())
        assert not isinstance(table, str)
        return register_at(placed, table, register)

    def once(self, stmt: Stmt, placed: Fragment) -> Stmt:
        """`stmt`, in which only the first of the threads with the same cells writes what others see."""

        def change(node: Node) -> Node:
            if isinstance(node, Print):
                return If(is_first(placed, self.thread), (node,), span=node.span)
            if isinstance(node, (Store, Atomic)):
                buffer = node.buffer if isinstance(node, Store) else node.dst.buffer
                if buffer.scope not in ("local", "var"):
                    return If(is_first(placed, self.thread), (node,), span=node.span)
            return node

        return rewrite(stmt, change)

    # ------------------------------------------------------------------------------------------ for the other files
    def value(self, buffer: Buffer, cell: tuple[Expr, ...], placed: Fragment, register: Expr) -> Expr | None:
        """The element of `buffer` at the cell of `placed`'s `register`, whose coordinates are `cell`; None if its register has no formula."""
        if buffer not in self.arrays:
            return Load(buffer, cell)
        table = own_registers(placed, self.place.fragments[buffer], placed.cells())
        assert table is not None
        at = register_at(placed, table, register)
        return None if at is None else Load(self.arrays[buffer], (at,))

    def is_inside(self, region: Region) -> bool:
        """Whether an operand of a product needs no test."""
        return id(region) in self.certain

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


def calls(node: Node) -> bool:
    """Whether a function of the author's is called, which may have an effect."""
    return any(isinstance(n, CallExtern) for n in walk(node))
