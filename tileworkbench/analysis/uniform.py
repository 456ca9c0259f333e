"""Which values are the same in every thread of a block.

A variable or a thread's own buffer ("local", "var") is *varying* if two threads may see different values in it: because a thread index goes
into it, or because only some threads write it. Memory that threads share has one value, so a load from it varies only with its indices.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..ir.expr import AddressOf, Buffer, CallExtern, Expr, Load, Var
from ..ir.node import Node, walk
from ..ir.stmt import (
    Atomic,
    Body,
    Break,
    Collective,
    Continue,
    Copy,
    Fill,
    For,
    If,
    Launch,
    Let,
    ParallelFor,
    PipelinedFor,
    Reduce,
    Region,
    Scan,
    Stmt,
    Store,
    While,
)


class Uniformity:
    """The varying names of one launch, found by repeated walks until nothing changes."""

    def __init__(self, launch: Launch) -> None:
        self.launch = launch
        self.varying: set[str] = {v.name for v in launch.thread_vars}
        self.settle()

    def settle(self) -> None:
        """Walk until no more names become varying."""
        count = -1
        while count != len(self.varying):
            count = len(self.varying)
            self._body(self.launch.body, False)

    def is_uniform(self, node: Node) -> bool:
        """True if every thread gets the same value."""
        for n in walk(node):
            match n:
                case Var(name) if name in self.varying:
                    return False
                case Load(buffer) if buffer.root.name in self.varying:
                    return False
                case Region(buffer) if buffer.root.name in self.varying:
                    return False
                case CallExtern() | AddressOf():
                    return False
        return True

    def all_uniform(self, nodes: Iterable[Node]) -> bool:
        """True if all are."""
        return all(self.is_uniform(n) for n in nodes)

    # ------------------------------------------------------------------------------------------ the walk
    def _body(self, body: Body, divergent: bool) -> None:
        for stmt in body:
            self._stmt(stmt, divergent)

    def _stmt(self, stmt: Stmt, divergent: bool) -> None:
        match stmt:
            case Let(var, value):
                self._mark(var.name, not self.is_uniform(value))
            case Store(buffer, indices, value) if is_private(buffer):
                self._mark(buffer.root.name, divergent or not self.all_uniform((*indices, value)))
            case Copy(dst=dst) | Fill(dst=dst) | Reduce(dst=dst) | Scan(dst=dst) if is_private(dst.buffer):
                self._mark(dst.buffer.root.name, True)  # each thread runs it
            case Atomic(dst=dst, result=result):
                if result is not None:
                    self._mark(result.name, True)
                self._mark(dst.buffer.root.name, is_private(dst.buffer))
            case Collective(op, result):
                self._mark(result.name, not op.startswith("block_"))
            case If(cond, then, other):
                inside = divergent or not self.is_uniform(cond)
                self._body(then, inside)
                self._body(other, inside)
            case For(var, start, stop, body) | PipelinedFor(var, start, stop, body):
                apart = not self.all_uniform((start, stop))
                self._mark(var.name, apart)
                self._body(body, divergent or apart or self.leaves_apart(body))
            case While(cond, body):
                self._body(body, divergent or not self.is_uniform(cond) or self.leaves_apart(body))
            case ParallelFor(body=body):
                self._body(body, True)
            case _:
                pass

    def _mark(self, name: str, varies: bool) -> None:
        if varies:
            self.varying.add(name)

    def leaves_apart(self, body: Body, divergent: bool = False) -> bool:
        """Whether some threads may leave the loop around `body` (or an iteration of it) before others."""
        for stmt in body:
            match stmt:
                case Break() | Continue():
                    if divergent:
                        return True
                case If(cond, then, other):
                    inside = divergent or not self.is_uniform(cond)
                    if self.leaves_apart(then, inside) or self.leaves_apart(other, inside):
                        return True
                case _:
                    pass
        return False


def is_private(buffer: Buffer) -> bool:
    """True for a buffer of which every thread has its own."""
    return buffer.root.scope in ("local", "var")


def touches_private(node: Node) -> bool:
    """Whether `node` reads or writes a thread's own buffer."""
    return any(isinstance(n, (Load, Store, Region)) and is_private(n.buffer) for n in walk(node))


def is_pure(expr: Expr) -> bool:
    """True if the value depends on variables only, so it may be computed again anywhere."""
    return not any(isinstance(n, (Load, CallExtern, AddressOf)) for n in walk(expr))
