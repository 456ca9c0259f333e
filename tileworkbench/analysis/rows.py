"""What a lowered statement touches, and whether that stays within the rows of a loop.

`touched` lists the stretches of memory that a statement reads and writes, as sums of index variables. Two statements may change places if nothing
that one writes is in a buffer that the other touches; two loops over the same rows may become one if what they have in common lies, for each row,
in a stretch of that row alone.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..ir.expr import Buffer, CallExtern, Const, Expr, Var
from ..ir.lowered import Address, AtomicOp, CopyElements, Declare, Element, EndIteration, Fail, GemmCall, LibraryCall, Loop, PrintLine, SetElement
from ..ir.node import Node, children
from ..ir.stmt import Break, Continue, Let, Return, Stmt, While
from .aliasing import Aliasing, is_one_array
from .bounds import Bounds
from .linear import Linear, has_load

STRIP = 16  # rows that are done together: a vector of float32 scalars, one a row
_SHORT, _LONG = 16, 512  # elements of rows of which a strip stays in the first cache


@dataclass(frozen=True, slots=True)
class Stretch:
    """`count` elements of `buffer` from `offset` on; None: nobody knows how many."""

    buffer: Buffer
    offset: Linear
    count: int | None
    is_write: bool


@dataclass(frozen=True, slots=True)
class Touched:
    """The memory that a statement touches outside of itself. `own`: variables that it binds; `free`: those that it uses and does not."""

    stretches: tuple[Stretch, ...]
    own: frozenset[str]
    free: frozenset[str]


def touched(stmt: Stmt, bounds: Bounds) -> Touched | None:
    """What `stmt` touches; None if it does more than compute, read and write."""
    found: list[Stretch] = []
    private: set[Buffer] = set()
    own: set[str] = set()
    used: set[str] = set()
    waiting: list[Node] = [stmt]
    while waiting:
        node = waiting.pop()
        match node:
            case (
                CallExtern() | AtomicOp() | GemmCall() | PrintLine() | Return() | Fail() | Break() | Continue() | EndIteration() | While() | Address()
            ):
                return None
            case Declare(buffer) if node is stmt:
                found.append(Stretch(buffer, Linear({}), None, True))  # nothing that uses it may go in front of it
            case Declare(buffer):
                private.add(buffer)
            case Loop(var) | Let(var):
                own.add(var.name)
            case Var(name):
                used.add(name)
            case Element(buffer, offset):
                found.append(Stretch(buffer, bounds.sum(offset), 1, False))
            case SetElement(buffer, offset):
                found.append(Stretch(buffer, bounds.sum(offset), 1, True))
            case CopyElements(dst, dst_offset, src, src_offset, count):
                size = int(count.value) if isinstance(count, Const) else None
                found.append(Stretch(dst, bounds.sum(dst_offset), size, True))
                found.append(Stretch(src, bounds.sum(src_offset), size, False))
            case LibraryCall(name, (Address(buffer, offset), Const(count))) if name.startswith("twb_row_"):
                found.append(Stretch(buffer, bounds.sum(offset), int(count), False))
                waiting.append(offset)
                continue
            case _:
                pass
        waiting.extend(children(node))
    return Touched(tuple(s for s in found if s.buffer.root not in private), frozenset(own), frozenset(used - own))


def may_swap(a: Touched, b: Touched, aliasing: Aliasing) -> bool:
    """Whether the order of two statements does not matter."""
    if a.own & b.free or b.own & a.free:
        return False
    return not any((s.is_write or t.is_write) and aliasing.may_share(s.buffer, t.buffer) for s in a.stretches for t in b.stretches)


def stay_in_rows(a: Touched, row: Var, b: Touched, other: Var, aliasing: Aliasing, bounds: Bounds) -> bool:
    """Whether two loops, over `row` and over `other`, may run row by row: what they share and one writes is, in each row, that row's own."""
    for s in a.stretches:
        for t in b.stretches:
            if not (s.is_write or t.is_write) or not aliasing.may_share(s.buffer, t.buffer):
                continue
            if not is_one_array(s.buffer, t.buffer):
                return False
            mine, theirs = _in_row(s, row, a.own, bounds), _in_row(t, other, b.own, bounds)
            if mine is None or theirs is None or mine.step != theirs.step or mine.base != theirs.base:
                return False
            if max(mine.last, theirs.last) - min(mine.first, theirs.first) >= mine.step:
                return False
    return True


def row_elements(a: Touched, row: Var, b: Touched, other: Var, aliasing: Aliasing, bounds: Bounds) -> int:
    """The length of the longest row that both loops walk; 0 if none."""
    longest = 0
    for s in a.stretches:
        for t in b.stretches:
            if aliasing.may_share(s.buffer, t.buffer) and (s.buffer.root == t.buffer.root):
                mine, theirs = _in_row(s, row, a.own, bounds), _in_row(t, other, b.own, bounds)
                if mine is not None and theirs is not None and mine.base == theirs.base:
                    longest = max(longest, min(mine.last - mine.first, theirs.last - theirs.first) + 1)
    return longest


def is_for_strips(rows: int, length: int) -> bool:
    """Whether `rows` rows of `length` elements are better done in strips than one by one: there are many, and each is short."""
    return rows > STRIP and rows % STRIP == 0 and _SHORT <= length <= _LONG


@dataclass(frozen=True, slots=True)
class _InRow:
    """Elements `base + step * row + [first, last]`."""

    step: int
    base: object
    first: int
    last: int


def _in_row(s: Stretch, row: Var, own: frozenset[str], bounds: Bounds) -> _InRow | None:
    step = s.offset.coefficient(row)
    inner: dict[Expr, int] = {}
    outer: dict[Expr, int] = {}
    for atom, c in s.offset.without(row).terms.items():
        if not isinstance(atom, Var) or has_load(atom):
            return None
        (inner if atom.name in own else outer)[atom] = c
    low, high = bounds.span(Linear(inner, s.offset.const))
    if step <= 0 or s.count is None or low is None or high is None:
        return None
    return _InRow(step, frozenset(outer.items()), low, high + s.count - 1)
