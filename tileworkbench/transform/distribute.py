"""Serial loops inside a parallel one: the vector loop goes inside them.

Before:  for j in parallel(64): acc = 0; for k in serial(0, 8): acc = acc + a[k] * b[k, j]; c[j] = acc
After:   own acc[64]; vector j: acc[j] = 0; for k in serial(0, 8): vector j: acc[j] = acc[j] + a[k] * b[k, j]; vector j: c[j] = acc[j]

Iterations are independent, so each may be interrupted and the others go on. A scalar of the iteration that lives across becomes a small array;
index arithmetic is repeated instead.
"""

from __future__ import annotations

from collections.abc import Callable

from ..analysis.uses import uses
from ..ir.build import ZERO, index
from ..ir.expr import Buffer, Var
from ..ir.lowered import Declare, Element, Loop, SetElement
from ..ir.node import Node, replace, rewrite, walk
from ..ir.stmt import Body, Let, Stmt
from .names import Names

_MOST = 4096  # elements of an array on the stack
Runs = list["Run | Turns"]


class Run:
    """Statements that a vector loop can run."""

    def __init__(self, body: Body) -> None:
        self.body = body


class Turns:
    """A serial loop around runs."""

    def __init__(self, loop: Loop, inside: Runs) -> None:
        self.loop, self.inside = loop, inside


def distribute(body: Body, var: Var, extent: int, is_simple: Callable[[Stmt], bool], names: Names) -> tuple[Body, Runs] | None:
    """Declarations and runs that do what `body` does for every `var`; None if it cannot be taken apart."""
    varying = {var.name} | {v.name for v in uses(body).bound}
    scalars = {s.buffer: s.init for s in body if isinstance(s, Declare) and s.buffer.scope == "var"}
    if extent > _MOST or not scalars.keys() >= {n.buffer for s in body for n in walk(s) if isinstance(n, Declare)}:
        return None
    runs = _runs(body, varying, is_simple)
    if runs is None or not any(isinstance(r, Turns) for r in runs):
        return None
    arrays = {b: replace(b, name=names.fresh(b.name), shape=(index(extent),), scope="local") for b in scalars}
    parts = flat(runs)
    _repeat_bindings(parts, arrays, var, extent, names)
    for run in parts:
        run.body = tuple(_spread(s, arrays, var) for s in run.body)
    return tuple(Declare(a) for a in arrays.values()), runs


def _runs(body: Body, varying: set[str], is_simple: Callable[[Stmt], bool]) -> Runs | None:
    out: Runs = []
    run: list[Stmt] = []
    for stmt in body:
        if isinstance(stmt, Loop):
            ends = uses((stmt.start, stmt.stop))
            inside = _runs(stmt.body, varying, is_simple)
            if inside is None or any(v.name in varying for v in ends.used) or any(isinstance(n, Element) for n in walk(stmt.stop)):
                return None
            if run:
                out.append(Run(tuple(run)))
                run = []
            out.append(Turns(stmt, inside))
        elif isinstance(stmt, Declare) and stmt.init is not None:
            run.append(SetElement(stmt.buffer, ZERO, stmt.init, span=stmt.span))
        elif isinstance(stmt, Declare):
            continue
        elif is_simple(stmt):
            run.append(stmt)
        else:
            return None
    if run:
        out.append(Run(tuple(run)))
    return out


def flat(runs: Runs) -> list[Run]:
    """The runs in program order.

    >>> flat([])
    []
    """
    return [r for item in runs for r in ([item] if isinstance(item, Run) else flat(item.inside))]


def _repeat_bindings(runs: list[Run], arrays: dict[Buffer, Buffer], var: Var, extent: int, names: Names) -> None:
    """A variable that another run bound: computed again if it reads nothing, else kept in an array."""
    lets = {n.var.name: (r, n) for r in runs for s in r.body for n in walk(s) if isinstance(n, Let)}
    kept: dict[str, Buffer] = {}

    def bring(name: str, into: Run, done: dict[str, Stmt]) -> None:
        if name in done or name not in lets or lets[name][0] is into:
            return
        let = lets[name][1]
        if any(isinstance(n, Element) for n in walk(let.value)):
            if name not in kept:
                kept[name] = Buffer(names.fresh(let.var.hint or name), (index(extent),), let.var.type, "local")
            done[name] = Let(let.var, Element(kept[name], var, True))
            return
        for n in walk(let.value):
            if isinstance(n, Var):
                bring(n.name, into, done)
        done[name] = let

    for run in runs:
        done: dict[str, Stmt] = {}
        for n in (n for s in run.body for n in walk(s) if isinstance(n, Var)):
            bring(n.name, run, done)
        run.body = (*done.values(), *run.body)
    for name, array in kept.items():
        owner, let = lets[name]
        owner.body = tuple(part for s in owner.body for part in ((s, SetElement(array, var, let.var)) if s is let else (s,)))
        arrays[array] = array


def _spread(stmt: Stmt, arrays: dict[Buffer, Buffer], var: Var) -> Stmt:
    def change(node: Node) -> Node:
        match node:
            case Element(buffer) if buffer in arrays and buffer.scope == "var":
                return Element(arrays[buffer], var, True)
            case SetElement(buffer) if buffer in arrays and buffer.scope == "var":
                return replace(node, buffer=arrays[buffer], offset=var)
            case _:
                return node

    return rewrite(stmt, change)
