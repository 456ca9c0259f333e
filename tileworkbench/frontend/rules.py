"""Rules of the language that only the finished kernel shows.

- Outside a launch a kernel computes with dims and scalar parameters; it neither reads nor writes tensors.
- A `local` array belongs to one thread, so a T.Parallel variable, whose iterations are spread over the threads, cannot index it.
- A T.Parallel loop over a fragment has constant extents.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..base.errors import TileError, TileRuntimeError, TileValueError, raise_all
from ..ir.expr import Buffer, Const, Expr, Load, Var
from ..ir.node import Node, children, walk
from ..ir.stmt import Assert, Body, Evaluate, For, If, Kernel, Launch, Let, ParallelFor, PipelinedFor, Print, Store, While


def check_rules(kernel: Kernel) -> None:
    """Raises: TileError, or all of them as a group."""
    launches: list[Launch] = []
    errors = [*_host(kernel.body, launches)]
    for launch in launches:
        has_local = any(b.scope == "local" for b in launch.allocs)
        for loop in _parallel_loops(launch.body):
            if has_local or not all(isinstance(e, Const) for e in loop.extents):  # nothing else can be wrong
                errors += _parallel(loop)
    raise_all(errors)


def _parallel_loops(body: Body) -> Iterator[ParallelFor]:
    for stmt in body:
        match stmt:
            case ParallelFor():
                yield stmt
            case If():
                yield from _parallel_loops(stmt.then + stmt.other)
            case For() | PipelinedFor() | While():
                yield from _parallel_loops(stmt.body)


def _host(body: Body, launches: list[Launch]) -> Iterator[TileError]:
    """Faults of the statements between launches; the launches themselves are collected."""
    for stmt in body:
        match stmt:
            case Launch():
                launches.append(stmt)
                yield from _reads(stmt.grid, stmt)
            case If():
                yield from _reads((stmt.cond,), stmt)
                yield from _host(stmt.then + stmt.other, launches)
            case For() | While():
                yield from _reads((stmt.cond,) if isinstance(stmt, While) else (stmt.start, stmt.stop), stmt)
                yield from _host(stmt.body, launches)
            case Let() | Assert() | Evaluate() | Print():
                yield from _reads(tuple(children(stmt)), stmt)
            case _:
                hint = "put it in `with T.Kernel(...)`"
                yield TileRuntimeError("this statement works on a block and stands outside a launch", span=stmt.span, hint=hint)


def _reads(exprs: tuple[Node, ...], stmt: Node) -> Iterator[TileError]:
    for expr in exprs:
        for node in walk(expr):
            if isinstance(node, Load):
                yield TileRuntimeError(
                    f"an element of {node.buffer.name} is read outside a launch", span=node.span or stmt.span,
                    hint="read it inside `with T.Kernel(...)`, or pass the number as a scalar parameter",
                )  # fmt: skip
                return


def _parallel(loop: ParallelFor) -> Iterator[TileError]:
    is_symbolic = not all(isinstance(e, Const) for e in loop.extents)
    own = {node.var for stmt in loop.body for node in walk(stmt) if isinstance(node, Let) and _uses(node.value, set(loop.vars))}
    variables = {*loop.vars, *own}
    seen: set[str] = set()
    for stmt in loop.body:
        for node in walk(stmt):
            if not isinstance(node, Load | Store) or node.buffer.root.name in seen:
                continue
            if not any(_uses(i, variables) for i in node.indices):
                continue
            fault = _fault(node.buffer.root, is_symbolic)
            if fault is not None:
                seen.add(node.buffer.root.name)
                yield fault.at(node.span or stmt.span)


def _fault(buffer: Buffer, is_symbolic: bool) -> TileError | None:
    if buffer.scope == "local":
        return TileValueError(
            f"the local array {buffer.name} is indexed by a T.Parallel variable, but belongs to one thread",
            hint="allocate it with T.alloc_fragment or T.alloc_shared, or loop with T.serial",
        )
    if buffer.scope == "fragment" and is_symbolic:
        return TileValueError(
            f"a T.Parallel loop of run-time extent indexes the fragment {buffer.name}", hint="loop over the whole tile and guard with `if`"
        )
    return None


def _uses(expr: Expr, variables: set[Var]) -> bool:
    return any(isinstance(n, Var) and n in variables for n in walk(expr))
