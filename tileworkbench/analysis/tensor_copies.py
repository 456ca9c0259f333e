"""Which copies of a launch the tensor copy engine can do ahead of time, beside the threads (sm_90), and why the others cannot.

A tile qualifies when one copy fills it, from an array that the launch does not write, and only later statements of the same body read it.
What decides where the copy reads from, and whether it runs, must be known to a thread that does nothing else: block indices, loops, scalars, arrays
that are only read. No write to global memory may come before the copy, since the caller may pass one array twice.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from ..base.span import Span
from ..ir.expr import Buffer, Const, Expr, Load, is_const
from ..ir.node import Node, walk
from ..ir.stmt import (
    Atomic,
    Body,
    Break,
    Continue,
    Copy,
    For,
    If,
    Launch,
    Let,
    PipelinedFor,
    Reduce,
    Return,
    Scan,
    Stmt,
    While,
    is_whole,
)  # fmt: skip
from ..ir.tile_form import TensorView
from .access import static_strides, strides
from .tile_forms import form_of
from .uses import uses

MOST_RANK, MOST_BOX, PIECE = 5, 256, 16
_LEAVES = (Break, Continue, Return)


@dataclass(frozen=True, slots=True)
class TensorCopy:
    """A copy that may run ahead: `view` is the array as the engine sees it, `columns` and `rows` the pieces of the tile that one box fills."""

    copy: Copy
    view: TensorView
    rows: int
    columns: int
    loops: tuple[For | PipelinedFor, ...]
    stages: int

    @property
    def tile(self) -> Buffer:
        return self.copy.dst.buffer

    @property
    def bytes(self) -> int:
        return self.tile.static_bytes()


@dataclass(slots=True)
class TensorCopies:
    """`found` by identity of the copy; `refused` says of the other copies into shared memory where they stand and why not."""

    found: dict[int, TensorCopy] = field(default_factory=dict)
    refused: list[tuple[Span | None, str]] = field(default_factory=list)


def tensor_copies(launch: Launch) -> TensorCopies:
    """The copies of `launch` that the tensor copy engine can do ahead."""
    out = TensorCopies()
    _Search(launch, out).body(launch.body, ())
    return out


class _Search:
    def __init__(self, launch: Launch, out: TensorCopies) -> None:
        self.launch, self.out = launch, out
        self.all = uses(launch.body)
        self.written = {b.root for b in self.all.written}
        self.viewed = {b.root for b in launch.allocs if b.view_of is not None} | {b.root for b in self.all.buffers if b.view_of is not None}
        self.has_written = False  # global memory, so far
        self.impure: set[str] = set()  # scalars that only the threads know

    def body(self, body: Body, around: tuple[Stmt, ...]) -> None:
        for at, stmt in enumerate(body):
            match stmt:
                case Copy() if stmt.dst.buffer.scope == "shared" and stmt.src.buffer.scope == "global":
                    why = self.why_not(stmt, body[at + 1 :], around)
                    if why:
                        self.out.refused.append((stmt.span, why))
                case Let(var, value) if not self.is_pure(value):
                    self.impure.add(var.name)
                case Atomic(result=var) if var is not None:
                    self.impure.add(var.name)
                case For(body=inside, kind="blocks" | "pair"):  # what one block writes is not what another reads
                    self.body(inside, (*around, stmt))
                case For(body=inside) | PipelinedFor(body=inside) | While(body=inside):
                    self.has_written |= self.writes_global([stmt]) and self.copies_inside(inside)
                    self.body(inside, (*around, stmt))
                case If(_, then, other):
                    self.body(then, (*around, stmt))
                    self.body(other, (*around, stmt))
                case _:
                    pass
            self.has_written |= self.writes_global([stmt])

    def writes_global(self, stmts: Sequence[Stmt]) -> bool:
        return any(b.root.scope == "global" for b in uses(stmts).written)

    @staticmethod
    def copies_inside(body: Body) -> bool:
        return any(isinstance(n, Copy) and n.dst.buffer.scope == "shared" for s in body for n in walk(s))

    # ------------------------------------------------------------------------------------------ what must hold
    def why_not(self, copy: Copy, later: Body, around: tuple[Stmt, ...]) -> str:
        """Why the engine cannot do `copy`, or ""; if it can it is noted."""
        array = copy.src.buffer
        if self.has_written:
            return "something is written to global memory before it, and the caller may pass one array twice"
        if array.root in self.written:
            return f"{array.name} is written in this launch"
        loops = tuple(s for s in around if isinstance(s, (For, PipelinedFor)))
        stages = max(1, loops[-1].num_stages if loops and isinstance(loops[-1], PipelinedFor) else 1)
        why = self.why_not_apart(copy, later, stages) or self.why_not_known(copy, around)
        if why:
            return why
        made = _boxes(copy, self.launch)
        if isinstance(made, str):
            return made
        view, rows, columns = made
        self.out.found[id(copy)] = TensorCopy(copy, view, rows, columns, loops, stages)
        return ""

    def why_not_apart(self, copy: Copy, later: Body, stages: int) -> str:
        """The tile belongs to this copy and what follows it."""
        tile = copy.dst.buffer
        if tile.root in self.viewed or tile.view_of is not None:
            return f"another tile is a view of {tile.name}"
        if _count(self.launch.body, tile) != 1 + _count(later, tile) or uses(later).written & {tile}:
            return f"{tile.name} is used before it is filled, or filled twice"
        if stages > 1 and any(isinstance(n, (Reduce, Scan, Atomic)) and tile in uses(n).buffers for s in later for n in walk(s)):
            return f"{tile.name} is reduced whole"
        return ""

    def why_not_known(self, copy: Copy, around: tuple[Stmt, ...]) -> str:
        """What decides about the copy is known to any thread."""
        for stmt in around:
            match stmt:
                case While():
                    return "it stands in a loop with a condition"
                case For(_, start, stop) | PipelinedFor(_, start, stop):
                    known: tuple[Expr, ...] = (start, stop)
                case If(cond):
                    known = (cond,)
                case _:
                    known = ()
            if not all(self.is_pure(e) for e in known):
                return "a condition or the end of a loop around it depends on what the block computes"
            if any(isinstance(n, _LEAVES) for n in walk(stmt)):
                return "a loop around it may be left early"
        return "" if all(self.is_pure(s) for s in copy.src.starts) else "where it reads from depends on what the block computes"

    def is_pure(self, e: Expr) -> bool:
        """Whether a thread that only copies knows `e`."""
        for n in walk(e):
            if isinstance(n, Load) and (n.buffer.root.scope != "global" or n.buffer.root in self.written):
                return False
        return not any(v.name in self.impure for v in uses(e).used)


def _boxes(copy: Copy, launch: Launch) -> tuple[TensorView, int, int] | str:
    """The view of the source, and rows and columns of the tile that a box fills; or why there is none."""
    tile, array = copy.dst.buffer, copy.src.buffer
    steps = static_strides(array)
    size = array.type.bits // 8
    if array.view_of is not None or array.type != tile.type or array.type.bits % 8 or array.safe_value not in (None, 0):
        return "it converts, or reads a view, packed elements or an array with a safe value"
    if not is_whole(copy.dst) or tile.rank not in (1, 2) or tile.strides is not None:
        return f"it does not fill a tile of one or two dims whose rows follow one another ({tile.name})"
    if array.rank > MOST_RANK or not is_const(strides(array)[-1], 1):
        return f"{array.name} has more than five dims, or none of them lies in a row"
    if steps is None or any(s * size % PIECE or s == 0 for s in steps[:-1]):
        return f"rows of {array.name} are not known to begin at multiples of {PIECE} bytes"
    moving = [d for d, e in enumerate(copy.src.extents) if not is_const(e, 1)]
    extents = [int(e.value) if isinstance(e, Const) else 0 for e in copy.src.extents]
    columns = tile.static_shape()[-1]
    if moving and moving[-1] != array.rank - 1 or len(moving) > tile.rank or tuple(extents[d] for d in moving) != tile.static_shape()[-len(moving) :]:
        return f"rows of {tile.name} are not rows of {array.name}"
    if len(moving) < tile.rank:
        return f"{tile.name} has dims of extent 1"
    form = form_of(launch.forms, tile)
    row_bytes = form.row_bytes if form is not None else 0
    wide = min(columns, row_bytes // size if row_bytes else MOST_BOX)
    rows = tile.static_shape()[0] if tile.rank == 2 else 1
    high = next((h for h in range(min(rows, MOST_BOX), 0, -1) if rows % h == 0 and (h % 8 == 0 or h == rows)), 0)
    if wide * size % PIECE or columns % wide or (wide < columns and not row_bytes and tile.rank == 2) or not high:
        return f"rows of {tile.name} are no boxes of the tensor copy engine"
    box = [1] * array.rank
    box[moving[-1]] = wide
    if tile.rank == 2:
        box[moving[0]] = high
    return TensorView(array, tuple(box), row_bytes), high, wide


def _count(body: Sequence[Node], buffer: Buffer) -> int:
    return sum(b == buffer for b in _mentions(body))


def _mentions(body: Sequence[Node]) -> Iterator[Buffer]:
    for stmt in body:
        for n in walk(stmt):
            if isinstance(n, Buffer):
                yield n
