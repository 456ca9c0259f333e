"""What the C target runs: statements and expressions that exist only after the passes of `transform/lowering.py`.

A lowered launch is a `Grid` whose body is one block's program. Every access is flat: `Element` and `SetElement` count elements from the
start of a buffer (a view's from the start of the view), and are known to be inside it. There are no tile operations, no threads and no
barriers any more; loops are `Loop`s that say whether they are vector loops; a matrix product is a `GemmCall` of a micro-kernel. Arithmetic is
on types that C has, except that storage may be narrower: an `Element` of a float16 buffer is the stored bits, and a `Cast` around it converts.

Names of C functions in `LibraryCall` are those of `codegen/clib`.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..base.dtypes import BOOL, INDEX, DType
from .expr import Buffer, Expr, Var
from .node import Node
from .remark import Remark
from .stmt import Body, Stmt
from .tile_form import TensorView


# ---------------------------------------------------------------------------------------------- expressions
@dataclass(frozen=True, slots=True)
class Element(Expr):
    """Element `offset` of `buffer`, counted from its start. `anywhere` says it may be read whether or not control reaches it."""

    buffer: Buffer
    offset: Expr
    anywhere: bool = False

    @property
    def dtype(self) -> DType:
        return self.buffer.type


@dataclass(frozen=True, slots=True)
class Address(Expr):
    """A pointer to element `offset` of `buffer`, as an argument of a call."""

    buffer: Buffer
    offset: Expr

    @property
    def dtype(self) -> DType:
        return INDEX


@dataclass(frozen=True, slots=True)
class Apart(Expr):
    """Whether two global arrays of a call are not one: the caller may pass an array twice, but not two that overlap in another way."""

    a: Buffer
    b: Buffer

    @property
    def dtype(self) -> DType:
        return BOOL


@dataclass(frozen=True, slots=True)
class LibraryCall(Expr):
    """A call of a function of the C library, such as a row reduction."""

    name: str
    args: tuple[Expr, ...]
    type: DType

    @property
    def dtype(self) -> DType:
        return self.type


@dataclass(frozen=True, slots=True)
class AtomicOp(Expr):
    """An atomic operation on one element that other cores may touch too; the value is the element's old one. op as in `Atomic`."""

    op: str
    buffer: Buffer
    offset: Expr
    value: Expr | None

    @property
    def dtype(self) -> DType:
        return self.buffer.type


# ---------------------------------------------------------------------------------------------- statements
@dataclass(frozen=True, slots=True)
class SetElement(Stmt):
    """`buffer[offset] = value`, known to be inside."""

    buffer: Buffer
    offset: Expr
    value: Expr


@dataclass(frozen=True, slots=True)
class Declare(Stmt):
    """A scalar ("var") or small array ("local") of its own for the enclosing body; `init` is a scalar's first value."""

    buffer: Buffer
    init: Expr | None = None


@dataclass(frozen=True, slots=True)
class Loop(Stmt):
    """`for (var = start; var < stop; var += step)`, downwards for a negative step.

    `simd` says that iterations are independent and that a vector of them may run at once; such a loop's variable is an int32.
    `reductions` are (operator, scalar buffer) pairs that a vector loop combines, OpenMP's spelling. `label` names the end of the body, where
    an `EndIteration` goes. `unroll`: its iterations touch registers that must be known to the compiler.
    `by` is a step that is known only at run time, instead of `step`.
    """

    var: Var
    start: Expr
    stop: Expr
    body: Body
    step: int = 1
    simd: bool = False
    reductions: tuple[tuple[str, Buffer], ...] = ()
    label: str = ""
    unroll: bool = False
    by: Expr | None = None


@dataclass(frozen=True, slots=True)
class AllocateGlobal(Stmt):
    """Memory for a global buffer of this call's own, until the call ends; only at host level."""

    buffer: Buffer


@dataclass(frozen=True, slots=True)
class CopyElements(Stmt):
    """`count` consecutive elements from `src` to `dst`, of one storage type, not overlapping."""

    dst: Buffer
    dst_offset: Expr
    src: Buffer
    src_offset: Expr
    count: Expr


@dataclass(frozen=True, slots=True)
class LoadVector(Stmt):
    """Read `count` neighbours of `buffer` from element `offset` on in one access, into the thread's array `into` from its element `at` on.

    The access has 16 bytes at most, and its address is a multiple of its size: `offset` is one of `count`.
    """

    into: Buffer
    at: Expr
    buffer: Buffer
    offset: Expr
    count: int


@dataclass(frozen=True, slots=True)
class StoreVector(Stmt):
    """Write `count` neighbours of `buffer` from element `offset` on in one access, from the thread's array `source`; otherwise as `LoadVector`."""

    buffer: Buffer
    offset: Expr
    source: Buffer
    at: Expr
    count: int


@dataclass(frozen=True, slots=True)
class GemmCall(Stmt):
    """`c = (clear ? 0 : c) + op(a) @ op(b)` through the micro-kernel for these sizes; `ld*` are row strides in elements."""

    m: int
    n: int
    k: int
    a: Address
    b: Address
    c: Address
    lda: int
    ldb: int
    ldc: int
    trans_a: bool
    trans_b: bool
    clear: Expr


@dataclass(frozen=True, slots=True)
class EndIteration(Stmt):
    """Go on with the next iteration of the enclosing parallel loop, or of the `Loop` whose `label` is this one's."""

    label: str = ""


@dataclass(frozen=True, slots=True)
class Fail(Stmt):
    """Record that assertion number `index` did not hold and leave the block."""

    index: int
    message: str


@dataclass(frozen=True, slots=True)
class PrintLine(Stmt):
    """Print `parts` one after the other, a line in all: texts as they are, floats as %f, integers as %d."""

    parts: tuple[Text | Expr, ...]


@dataclass(frozen=True, slots=True)
class Text(Node):
    """Characters of a `PrintLine`."""

    text: str


@dataclass(frozen=True, slots=True)
class Tile(Node):
    """Where an on-chip buffer lies in the block's scratch memory, in bytes."""

    buffer: Buffer
    offset: int


@dataclass(frozen=True, slots=True)
class Grid(Stmt):
    """A launch: `body` for every block, blocks in any order on any core. `extents` and `vars` are x first.

    `tiles` lie in a scratch area of `scratch_bytes` that belongs to the core; what the micro-kernels need comes behind it.
    On a GPU the scratch area is the block's shared memory, and `body` is the program of each of its `threads`.
    From `enough_blocks` on, blocks are worth sharing between threads (0: always; None: never, whatever there will be of them).
    Each core does `after`, which knows no block, behind its last block. `cluster` as in `Launch`. `together`: how many blocks a multiprocessor
    should hold at once, which bounds the registers of a thread (0: nobody said so).
    """

    name: str
    vars: tuple[Var, ...]
    extents: tuple[Expr, ...]
    tiles: tuple[Tile, ...]
    body: Body
    scratch_bytes: int = 0
    enough_blocks: int | None = 0
    threads: tuple[int, ...] = ()
    views: tuple[TensorView, ...] = ()  # what `MapOf` counts
    remarks: tuple[Remark, ...] = ()
    after: Body = ()
    cluster: tuple[int, int, int] = (1, 1, 1)
    together: int = 0
