"""Statements: the whole tile language on one page.

A *kernel* is a host-level body; each `Launch` in it runs a grid of blocks. Inside a launch, statements work on tiles:

    Copy Fill Gemm Reduce Scan Atomic          whole-tile operations, executed once by the block
    ParallelFor                                independent iterations over tile elements
    PipelinedFor For While If Break Continue   control flow of the block (or of each thread, see below)
    Let Store                                  an immutable scalar; one element written
    Sync Collective                            between the threads of the block
    Print Assert Evaluate                      the rest

Meaning, for every target:

- Statements run in order; a tile operation is complete before the next statement starts. Pipelining, threads and layouts never
  change results.
- Blocks are independent and run in any order. Data passes between them only through `Atomic` or between two launches.
- Iterations of a `ParallelFor` are independent; if two write one element, either value may stay. A "local" or "var" buffer written
  inside belongs to the iteration.
- Writes outside a global buffer are skipped, reads give the safe value, per dim, on both sides. So are on-chip accesses that
  cannot be proved inside; a proved fault is an error before the kernel runs.
- **Threads.** A launch that binds a thread index (`Launch.threads_used`) runs its scalar statements once per thread, in lockstep as far
  as results can tell between two `Sync`s (in one statement, every thread reads before any writes); "local" and "var" buffers and `Let`s
  belong to a thread. Without thread indices every thread
  would do the same, so a scalar statement simply runs once per block.
- Loop bounds are evaluated once, before the first iteration. `step` is a non-zero constant. Trip counts of zero or less run nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import prod

from ..base.dtypes import BOOL
from .expr import Buffer, Const, Expr, Var, is_const
from .node import Node, children
from .remark import Remark
from .tile_form import HeldTile, TensorView, TileForm, TileOrder
from .tile_place import TilePlace


@dataclass(frozen=True, slots=True)
class Stmt(Node):
    """Base of statements."""


Body = tuple[Stmt, ...]


@dataclass(frozen=True, slots=True)
class Region(Node):
    """A box of a buffer: `starts` and `extents` count elements, one per dim. Extents are constants on chip and usually elsewhere."""

    buffer: Buffer
    starts: tuple[Expr, ...]
    extents: tuple[Expr, ...]

    def static_extents(self) -> tuple[int, ...]:
        """The extents as ints; raises ValueError if one is not constant."""
        sizes = [int(e.value) for e in self.extents if isinstance(e, Const)]
        if len(sizes) != len(self.extents):
            raise ValueError(f"a region of {self.buffer.name} has a symbolic extent")
        return tuple(sizes)


def whole(buffer: Buffer) -> Region:
    """The region that covers all of `buffer`."""
    return Region(buffer, tuple(Const(0) for _ in buffer.shape), buffer.shape)


def is_whole(region: Region) -> bool:
    """Whether the region is all of its buffer."""
    return region.extents == region.buffer.shape and all(is_const(s, 0) for s in region.starts)


# ---------------------------------------------------------------------------------------------- scalars
@dataclass(frozen=True, slots=True)
class Let(Stmt):
    """Bind `var` to the value of `value` now; visible until the end of the enclosing body."""

    var: Var
    value: Expr


@dataclass(frozen=True, slots=True)
class Store(Stmt):
    """`buffer[indices] = value`; `value` has the buffer's dtype."""

    buffer: Buffer
    indices: tuple[Expr, ...]
    value: Expr


# ---------------------------------------------------------------------------------------------- tile operations
@dataclass(frozen=True, slots=True)
class Copy(Stmt):
    """`dst = cast(src)`, element by element. The dims of extent other than 1 of the two regions agree in number, order and extent.

    Elements of src outside its buffer give the safe value; elements of dst outside are skipped. All of src is read first, where dst overlaps it.
    A symbolic extent of less than nothing is nothing.
    `is_async` records that the author asked for a copy that is not waited for; results are those of a synchronous one.
    With `async_bytes` the copy is only started, so many bytes at a time, and the threads that started it have to wait for it
    (`transform/pipeline_copies.py`).
    """

    src: Region
    dst: Region
    is_async: bool = False
    async_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Fill(Stmt):
    """Every element of `dst` becomes `value` (of dst's dtype, evaluated once)."""

    dst: Region
    value: Expr


@dataclass(frozen=True, slots=True)
class Gemm(Stmt):
    """`c = (0 if clear else c) + op(a) @ op(b)`, products and sums in c's dtype (each operand converted to it first).

    A matrix unit may take subnormal numbers of its operands' dtype as 0.

    a is (M, K) or, with `trans_a`, (K, M); b is (K, N) or, with `trans_b`, (N, K); c is (M, N). Leading dims have extent 1.
    c may overlap a or b, which are read first. `policy` is "square", "full_row" or "full_col": how warps share the tile; it never changes results.
    `is_async` says that nobody touches c, or writes a or b, before a `WaitProducts` (`ir/device.py`): the product may still run meanwhile.
    `unit` "wgmma": by warp groups, or not at all.
    `apart` (depth, columns, groups): warp groups add up products of so many k and columns apart, which plain additions bring to c, and so many groups
    take turns at that (1: each goes its way); (0, 0, 1): all in c.
    """

    a: Region
    b: Region
    c: Region
    trans_a: bool = False
    trans_b: bool = False
    clear: Expr = field(default_factory=lambda: Const(False, BOOL))
    policy: str = "square"
    is_async: bool = False
    unit: str = ""
    apart: tuple[int, int, int] = (0, 0, 1)


@dataclass(frozen=True, slots=True)
class Reduce(Stmt):
    """Reduce `src` over dim `dim` into `dst`, whose shape is src's without the dim, or with 1 there.

    op: sum abssum max min absmax bitand bitor bitxor any all. With `clear` dst starts at the identity, else its old value takes part once.
    Elements are converted to dst's dtype, but at least float32 for narrower floats, then made absolute, then combined; the result is rounded once.
    max and min ignore NaN, unless `nan_propagate`; a row of only NaN gives NaN. any and all test the elements themselves.
    dst may lie in src: all of src is read first.

    `share` is of a sum in two parts, which a pass makes: "own" leaves in dst, a fragment, what each thread has of src; "join" adds up what the
    threads have in dst, whose rows lie as those of src, which is not read.
    """

    op: str
    src: Region
    dst: Region
    dim: int
    clear: bool = True
    nan_propagate: bool = False
    share: str = ""


@dataclass(frozen=True, slots=True)
class Scan(Stmt):
    """Inclusive scan of `src` along `dim` into `dst`. op: sum, max, min, in the dtypes of `Reduce`. `reverse` scans from the end.

    dst may overlap src: all of src is read first.
    """

    op: str
    src: Region
    dst: Region
    dim: int = 0
    reverse: bool = False


@dataclass(frozen=True, slots=True)
class Atomic(Stmt):
    """`dst = op(dst, value)` atomically, element by element. op: add max min or and xor exch load store.

    dst is one element (all extents 1) with an Expr `value`, or a tile with a Region `value`. `result` receives dst's old value (for load:
    the value). Elements outside a global dst are skipped; `result` is then the safe value.
    """

    op: str
    dst: Region
    value: Expr | Region | None
    result: Var | None = None
    memory_order: str = "relaxed"


# ---------------------------------------------------------------------------------------------- control flow
@dataclass(frozen=True, slots=True)
class ParallelFor(Stmt):
    """Independent iterations over a box; all loops of one author-written nest, outermost first. Each starts at 0."""

    vars: tuple[Var, ...]
    extents: tuple[Expr, ...]
    body: Body


@dataclass(frozen=True, slots=True)
class For(Stmt):
    """Sequential loop `for var in range(start, stop, step)`. kind: "serial", "unroll", "vectorized" (all the same result).

    "blocks" is made by a pass: iterations are blocks, independent of one another, and the loop goes on by the number of blocks of the launch.
    So is "pair": iterations are blocks that one block does one after the other.
    """

    var: Var
    start: Expr
    stop: Expr
    body: Body
    step: int = 1
    kind: str = "serial"


@dataclass(frozen=True, slots=True)
class PipelinedFor(Stmt):
    """Sequential loop whose copies may run ahead by `num_stages` buffers. `order` and `stage` are the author's manual schedule, or empty."""

    var: Var
    start: Expr
    stop: Expr
    body: Body
    num_stages: int = 0
    order: tuple[int, ...] = ()
    stage: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class While(Stmt):
    """Run `body` while `cond` holds; `cond` is evaluated before each iteration."""

    cond: Expr
    body: Body


@dataclass(frozen=True, slots=True)
class If(Stmt):
    """Run one of two bodies."""

    cond: Expr
    then: Body
    other: Body = ()


@dataclass(frozen=True, slots=True)
class Break(Stmt):
    """Leave the innermost `For`, `PipelinedFor` or `While`."""


@dataclass(frozen=True, slots=True)
class Continue(Stmt):
    """Go on with the next iteration of the innermost loop."""


@dataclass(frozen=True, slots=True)
class Return(Stmt):
    """`T.thread_return()`: this thread (block) does nothing more in this launch."""


# ---------------------------------------------------------------------------------------------- threads and the rest
@dataclass(frozen=True, slots=True)
class Sync(Stmt):
    """A barrier. scope: "block", "warp" or "grid"."""

    scope: str = "block"


@dataclass(frozen=True, slots=True)
class Collective(Stmt):
    """Threads exchange values: `result` in each thread.

    op and args: shfl (value, lane), shfl_xor (value, mask), shfl_up / shfl_down (value, delta), all with `width`;
    any all ballot (predicate) over a warp; block_any block_all block_count (predicate) over the block;
    warp_sum warp_max warp_min warp_bitand warp_bitor (value) over a warp; block_sum block_max block_min (value) over the block.
    Warps have 32 threads. A shuffle from a lane outside the width returns the thread's own value.
    """

    op: str
    result: Var
    args: tuple[Expr, ...]
    width: int = 32


@dataclass(frozen=True, slots=True)
class Print(Stmt):
    """Print `message` and the values (or the whole buffer) once per block, or per thread where threads are used."""

    message: str
    values: tuple[Expr, ...] = ()
    buffer: Buffer | None = None


@dataclass(frozen=True, slots=True)
class Assert(Stmt):
    """The kernel fails with `message` if `cond` does not hold."""

    cond: Expr
    message: str = ""


@dataclass(frozen=True, slots=True)
class Evaluate(Stmt):
    """Evaluate an expression for its effect: only `CallExtern` has one."""

    value: Expr


# ---------------------------------------------------------------------------------------------- launch and kernel
@dataclass(frozen=True, slots=True)
class Launch(Stmt):
    """A grid of blocks. `grid` holds 1-3 extents, x first; `block_vars` as many variables, each in [0, extent).

    `threads` are the extents of the block's threads (x, y, z), `thread_vars` their variables; `threads_used` says that the body asks
    for a thread index, syncs or shuffles, so that the threads are visible. `allocs` are the on-chip buffers, views included,
    in the order of allocation. `cluster`: blocks along x, y, z that run together, where hardware can do that; the grid is a multiple of it.
    """

    grid: tuple[Expr, ...]
    block_vars: tuple[Var, ...]
    threads: tuple[int, ...]
    thread_vars: tuple[Var, ...]
    allocs: tuple[Buffer, ...]
    body: Body
    threads_used: bool = False
    hints: tuple[tuple[str, str], ...] = ()  # ("use_swizzle", "10"): accepted, for targets that can use them
    forms: tuple[TileForm, ...] = ()  # of tiles that do not lie row after row; no two of one buffer
    orders: tuple[TileOrder, ...] = ()  # of other tiles that do not
    held: tuple[HeldTile, ...] = ()  # where the fragments are, once the launch is one thread's program
    views: tuple[TensorView, ...] = ()  # what `MapOf` counts
    places: tuple[TilePlace, ...] = ()  # of tiles that share bytes; others lie behind them
    remarks: tuple[Remark, ...] = ()
    cluster: tuple[int, int, int] = (1, 1, 1)

    @property
    def count_threads(self) -> int:
        """The threads of a block."""
        return prod(self.threads)

    @property
    def cluster_size(self) -> int:
        """The blocks of a cluster."""
        return prod(self.cluster)


@dataclass(frozen=True, slots=True)
class TensorParam(Node):
    """A tensor argument. `is_output` marks those that the caller does not pass: the runtime allocates and returns them."""

    buffer: Buffer
    is_output: bool = False
    const_dims: tuple[str, ...] = ()  # per dim the T.const name it was specialised from, or ""


@dataclass(frozen=True, slots=True)
class ScalarParam(Node):
    """A run-time scalar argument."""

    var: Var
    default: int | float | None = None


@dataclass(frozen=True, slots=True)
class Kernel(Node):
    """A whole kernel: parameters in call order, workspaces (`T.alloc_global`), and a host-level body of `Let`, `If`, `For` and `Launch`.

    `dims` are the symbolic dims, each the value of some tensor parameter's shape or stride (`T.dynamic`).
    """

    name: str
    params: tuple[TensorParam | ScalarParam, ...]
    dims: tuple[Var, ...]
    workspaces: tuple[Buffer, ...]
    body: Body
    imports: tuple[str, ...] = ()  # C source from T.import_source
    attrs: tuple[tuple[str, str], ...] = ()

    @property
    def launches(self) -> tuple[Launch, ...]:
        """Every launch, in program order, also those under host-level control flow."""
        return tuple(_launches(self))


def _launches(node: Node) -> Iterator[Launch]:
    """A launch holds no other launch, so what lies below one is not searched."""
    if isinstance(node, Launch):
        yield node
        return
    for child in children(node):
        yield from _launches(child)
