"""The parts of statements with bodies: what runs before a body, and the bodies themselves."""

from __future__ import annotations

from collections.abc import Iterator

from .expr import Expr
from .node import Node, children
from .stmt import Body, For, If, PipelinedFor, Stmt, While


def heads(stmt: Stmt) -> tuple[Expr, ...]:
    """The condition, or the ends, of a statement with bodies; () for another."""
    match stmt:
        case If(cond) | While(cond):
            return (cond,)
        case For(_, start, stop) | PipelinedFor(_, start, stop):
            return (start, stop)
        case _:
            return ()


def bodies(stmt: Stmt) -> tuple[Body, ...]:
    """The bodies of a branch or a loop; () for another statement."""
    match stmt:
        case If(_, then, other):
            return then, other
        case For(body=body) | PipelinedFor(body=body) | While(body=body):
            return (body,)
        case _:
            return ()


def statements(node: Node) -> Iterator[Stmt]:
    """The statements at and below `node`, parents first, in program order: `walk` without the expressions, which are most of a kernel."""
    waiting = [node]
    while waiting:
        top = waiting.pop()
        if isinstance(top, Stmt):
            yield top
        waiting += [n for n in reversed(children(top)) if isinstance(n, Stmt)]
