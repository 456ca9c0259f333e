"""Barriers where threads pass data through memory without saying so.

Before:  s[tx] = x; y = s[127 - tx]
After:   s[tx] = x; sync block; y = s[127 - tx]

A barrier goes before a statement that reads what another thread may have written since the last barrier, or writes what another may have read
or written; and at the end of a loop body whose next iteration would. A store that itself reads what another thread's store may write is taken
apart: every thread reads, then every thread writes. Two accesses are one thread's own if an index, the same in both, tells the
threads apart.

Requires: author-level statements.  Preserves: launches whose threads are not visible.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ..analysis.linear import Linear, linear
from ..analysis.uniform import is_private
from ..base.dtypes import INDEX
from ..ir.bodies import heads
from ..ir.build import cast
from ..ir.expr import AddressOf, Buffer, Expr, Load, Var
from ..ir.launches import rewrite_launches
from ..ir.node import Node, replace, walk
from ..ir.stmt import (
    Atomic,
    Body,
    Collective,
    Copy,
    Fill,
    For,
    Gemm,
    If,
    Kernel,
    Launch,
    Let,
    ParallelFor,
    PipelinedFor,
    Reduce,
    Region,
    Scan,
    Stmt,
    Store,
    Sync,
    While,
)
from .barriers import leaves, runs
from .names import Names

_TOGETHER = (Copy, Fill, Gemm, Reduce, Scan, ParallelFor)  # the block is together before and after these
Owner = tuple[object, ...] | None  # which index tells the threads apart, or None


def insert_barriers(kernel: Kernel) -> Kernel:
    """Return `kernel` with the barriers that its threads need."""
    if not any(launch.threads_used for launch in kernel.launches):
        return kernel
    names = Names(kernel)
    return rewrite_launches(kernel, lambda node: _launch(node, names))


def _launch(node: Launch, names: Names) -> Launch:
    if not node.threads_used:
        return node
    body = _Barriers(node, names).body(node.body, _Since())
    return node if body is node.body else replace(node, body=body)


@dataclass(slots=True)
class _Since:
    """What has been read and written since the last barrier: buffer -> owners."""

    reads: dict[Buffer, set[Owner]] = field(default_factory=dict)
    writes: dict[Buffer, set[Owner]] = field(default_factory=dict)

    def add(self, other: _Since) -> None:
        for mine, theirs in ((self.reads, other.reads), (self.writes, other.writes)):
            for buffer, owners in theirs.items():
                mine.setdefault(buffer, set()).update(owners)

    def clear(self) -> None:
        self.reads.clear()
        self.writes.clear()

    def clashes(self, later: _Since) -> bool:
        """Whether `later` must see everything here done."""
        for buffer, owners in self.writes.items():
            after = later.reads.get(buffer, set()) | later.writes.get(buffer, set())
            if after and _apart(owners | after):
                return True
        return any(buffer in later.writes and _apart(owners | later.writes[buffer]) for buffer, owners in self.reads.items())


def _apart(owners: set[Owner]) -> bool:
    """Whether two threads may meet in one element."""
    return len(owners) != 1 or None in owners


class _Barriers:
    def __init__(self, launch: Launch, names: Names) -> None:
        self.names = names
        self.threads = {v: e for v, e in zip(launch.thread_vars, launch.threads, strict=False) if e > 1}
        self.hidden = len(launch.thread_vars) < len([e for e in launch.threads if e > 1])  # a thread dim that no index names
        self.definitions: dict[str, Linear] = {}
        self.moving: list[Var] = []  # variables of serial loops around

    def body(self, body: Body, since: _Since) -> Body:
        out: list[Stmt] = []
        changed = False
        for stmt in body:
            if _is_meeting(stmt):
                since.clear()
                out.append(stmt)
                continue
            if isinstance(stmt, Let) and not any(isinstance(n, Load) for n in walk(stmt.value)) and stmt.var.type == INDEX:
                self.definitions[stmt.var.name] = linear(stmt.value, self.definitions)
            head = self.accesses(heads(stmt) or (stmt,))
            if since.clashes(head):
                out.append(Sync(span=stmt.span))
                since.clear()
                changed = True
            if isinstance(stmt, Store) and _Since(reads=head.reads).clashes(_Since(writes=head.writes)):
                out += self.apart(stmt)
                since.clear()
                since.add(_Since(writes=head.writes))
                changed = True
                continue
            since.add(head)
            new = self.inside(stmt, since)
            changed |= new is not stmt
            out.append(new)
        return tuple(out) if changed else body

    def apart(self, stmt: Store) -> Body:
        """A store in two steps: what it reads, and the writing."""
        lets: list[Stmt] = []

        def bound(e: Expr, hint: str) -> Expr:
            if not any(isinstance(n, Load) for n in walk(e)):
                return e
            var = self.names.var(hint, e.dtype)
            lets.append(Let(var, e, span=stmt.span))
            return var

        value, indices = bound(stmt.value, "value"), tuple(bound(i, "at") for i in stmt.indices)
        return (*lets, Sync(span=stmt.span), replace(stmt, indices=indices, value=value))

    def inside(self, stmt: Stmt, since: _Since) -> Stmt:
        match stmt:
            case If(_, then, other):
                sides = (_copy(since), _copy(since))
                bodies = (self.body(then, sides[0]), self.body(other, sides[1]))
                since.clear()
                for side in sides:
                    since.add(side)
                return stmt if bodies[0] is then and bodies[1] is other else replace(stmt, then=bodies[0], other=bodies[1])
            case For(body=body) | PipelinedFor(body=body) | While(body=body):
                if not isinstance(stmt, While):
                    self.moving.append(stmt.var)
                before = _copy(since)
                if leaves(body):
                    before.add(self.accesses(body, across=True))
                    since.add(before)
                first = self.body(body, since)
                again = _copy(since)
                if self.wraps(first, again):
                    first = (*first, Sync(span=stmt.span))
                    since.clear()
                if not runs(stmt) or leaves(body):  # then its barriers may be none
                    since.add(before)
                if not isinstance(stmt, While):
                    self.moving.pop()
                return stmt if first is body else replace(stmt, body=first)
            case _:
                return stmt

    def wraps(self, body: Body, at_end: _Since) -> bool:
        """Whether the start of the next iteration clashes with the end of this one."""
        for stmt in body:
            if _is_meeting(stmt):
                return False
            if at_end.clashes(self.accesses((stmt,), across=True)):
                return True
        return False

    # ------------------------------------------------------------------------------------------ accesses
    def accesses(self, nodes: tuple[Node, ...], across: bool = False) -> _Since:
        """Shared and global accesses of `nodes`; `across` iterations, an index with a loop variable tells nothing."""
        out = _Since()
        for node in nodes:
            for n in walk(node):
                match n:
                    case Load(buffer, indices):
                        self._note(out.reads, buffer, indices, across)
                    case Store(buffer, indices) | Atomic(dst=Region(buffer, indices)):
                        self._note(out.writes, buffer, indices, across)
                    case AddressOf(buffer):
                        self._note(out.writes, buffer, (), across)
        return out

    def _note(self, into: dict[Buffer, set[Owner]], buffer: Buffer, indices: tuple[Expr, ...], across: bool) -> None:
        if not is_private(buffer):
            owner = self.owner(indices, across) if buffer.view_of is None else None
            into.setdefault(buffer.root, set()).add(owner)

    def owner(self, indices: tuple[Expr, ...], across: bool) -> Owner:
        """The place and sum of the first index that differs between any two threads."""
        if self.hidden:
            return None
        found: list[object] = []
        left = dict(self.threads)
        for place, i in enumerate(indices):
            form = linear(cast(i, INDEX), self.definitions)
            mine = sorted(((abs(c), v) for v, c in ((v, form.coefficient(v)) for v in left) if c), key=lambda pair: (pair[0], pair[1].name))
            others = [a for a in form.terms if a not in self.threads]
            simple = all(isinstance(a, Var) and not (across and a in self.moving) for a in others)
            if mine and simple and self._is_injective(mine):
                found.append((place, form.key()))
                for _, v in mine:
                    del left[v]
        return tuple(found) if not left and found else None

    def _is_injective(self, mine: list[tuple[int, Var]]) -> bool:
        reach = 0
        for c, v in mine:
            if c <= reach:
                return False
            reach += c * (self.threads[v] - 1)
        return True


def _is_meeting(stmt: Stmt) -> bool:
    """Whether the block is together before and after `stmt`. A warp that comes together or exchanges values does not wait for the others."""
    match stmt:
        case Sync(scope):
            return scope != "warp"
        case Collective(op):
            return op.startswith("block_")
        case _:
            return isinstance(stmt, _TOGETHER)


def _copy(since: _Since) -> _Since:
    out = _Since()
    out.add(since)
    return out
