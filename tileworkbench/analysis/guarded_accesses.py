"""Which elements of memory that threads share a body reads and writes, and under which conditions.

Conditions are those of branches, of `and`, `or` and of selections around an access; all of them hold where it happens.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ..ir.build import negate
from ..ir.expr import Binary, Buffer, Const, Expr, Select
from ..ir.lowered import Element, SetElement
from ..ir.node import Node, children
from ..ir.stmt import Body, If, Stmt
from .linear import Linear


@dataclass(slots=True)
class GuardedAccess:
    """One read or write in the loop. `conds` hold where it happens; `place` counts statements."""

    node: Element | SetElement
    conds: tuple[Expr, ...]
    place: int
    fill: Const | None = None  # what a read gives where the last of `conds` does not hold
    width: int = 0  # elements of one access; 0: it stays as it is
    starts: tuple[Linear, ...] = ()  # where each access begins

    @property
    def buffer(self) -> Buffer:
        return self.node.buffer

    @property
    def is_store(self) -> bool:
        return isinstance(self.node, SetElement)

    def key(self) -> tuple[object, ...]:
        """Equal for reads that give the same."""
        return (self.buffer, tuple(s.key() for s in self.starts), self.conds, self.fill, self.width)


def guarded_accesses(body: Body) -> Iterator[GuardedAccess]:
    """Every access of memory that threads share, in order."""
    count = iter(range(1 << 30))
    for stmt in body:
        yield from _of_stmt(stmt, (), count)


def _of_stmt(stmt: Stmt, conds: tuple[Expr, ...], count: Iterator[int]) -> Iterator[GuardedAccess]:
    place = next(count)
    match stmt:
        case If(cond, then, other):
            yield from _of_expr(cond, conds, place)
            for inside in then:
                yield from _of_stmt(inside, (*conds, cond), count)
            for inside in other:
                yield from _of_stmt(inside, (*conds, negate(cond)), count)
        case SetElement(buffer, offset, value):
            yield from _of_expr(offset, conds, place)
            yield from _of_expr(value, conds, place)
            if _is_shared(buffer):
                yield GuardedAccess(stmt, conds, place)
        case _:
            for part in children(stmt):
                yield from _of_expr(part, conds, place)


def _of_expr(node: Node, conds: tuple[Expr, ...], place: int) -> Iterator[GuardedAccess]:
    match node:
        case Select(cond, Element(buffer, offset) as element, Const() as fill) if _is_shared(buffer):
            yield from _of_expr(cond, conds, place)
            yield from _of_expr(offset, (*conds, cond), place)
            yield GuardedAccess(element, (*conds, cond), place, fill)
        case Select(cond, then, other):
            yield from _of_expr(cond, conds, place)
            yield from _of_expr(then, (*conds, cond), place)
            yield from _of_expr(other, (*conds, negate(cond)), place)
        case Binary("and" | "or" as op, a, b):
            yield from _of_expr(a, conds, place)
            yield from _of_expr(b, (*conds, a if op == "and" else negate(a)), place)
        case Element(buffer, offset):
            yield from _of_expr(offset, conds, place)
            if _is_shared(buffer):
                yield GuardedAccess(node, conds, place)
        case _:
            for part in children(node):
                yield from _of_expr(part, conds, place)


def _is_shared(buffer: Buffer) -> bool:
    return buffer.scope not in ("local", "var")
