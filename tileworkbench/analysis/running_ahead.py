"""Which copies of a pipelined loop may run iterations ahead of the loop, or why not.

A copy may, if it would write the same tile with the same elements then: what its place and its conditions depend on is known before the loop or
follows from the loop's variable, and nothing in the loop writes what it reads. And nobody else may see a difference: each use of the tile, in the
whole launch, comes after a copy or fill of all of it in the same body, so that no value stays in the tile from one iteration, or loop, to another.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import combinations

from ..ir.device import DeviceCall, Specialised
from ..ir.expr import AddressOf, Buffer, Expr, Load, Var
from ..ir.node import children, walk
from ..ir.stmt import (
    Body,
    Break,
    Copy,
    Fill,
    For,
    If,
    Launch,
    Let,
    ParallelFor,
    PipelinedFor,
    Print,
    Reduce,
    Return,
    Scan,
    Stmt,
    Store,
    While,
    is_whole,
)  # fmt: skip
from .accesses import accessed, is_opaque
from .aliasing import Aliasing
from .async_copies import async_copy
from .bounds import Bounds
from .uses import uses


@dataclass(slots=True)
class RunningAhead:
    """`copies` that may run ahead with the bytes of their pieces, by identity; `lets` that they need; `why` others may not."""

    copies: dict[int, int] = field(default_factory=dict)
    tiles: list[Buffer] = field(default_factory=list)
    lets: set[Var] = field(default_factory=set)
    why: list[tuple[Stmt, str]] = field(default_factory=list)


def running_ahead(loop: PipelinedFor, launch: Launch, aliasing: Aliasing, bounds: Bounds, aligned: bool = True) -> RunningAhead:
    """What may run ahead in `loop` of `launch`. `bounds` knows the bindings in the loop; `aligned`: arrays begin at multiples of 16 bytes."""
    return _Loop(loop, launch, aliasing, bounds, aligned).run()


class _Loop:
    def __init__(self, loop: PipelinedFor, launch: Launch, aliasing: Aliasing, bounds: Bounds, aligned: bool) -> None:
        self.loop, self.launch, self.aliasing, self.bounds, self.aligned = loop, launch, aliasing, bounds, aligned
        found = uses(loop.body)
        self.bound, self.written = found.bound, {b.root for b in found.written}
        self.inside = [n for s in loop.body for n in walk(s)]
        self.whole = [n for s in launch.body for n in walk(s)]

    def run(self) -> RunningAhead:
        out = RunningAhead()
        copies = list(_copies(self.loop.body, (), (), {}))
        if (stopper := self.stopper()) is not None:
            why, at = stopper
            out.why = [(at, why)] if copies else []
            return out
        for tile in dict.fromkeys(c.copy.dst.buffer for c in copies):
            needed: set[Var] = set()
            writers = [c for c in copies if c.copy.dst.buffer == tile]
            made = [async_copy(c.copy, self.bounds, self.aligned) for c in writers]
            moving = [self.why_not(c.copy.src.buffer, (*c.conditions, *c.copy.src.starts), c.lets, needed) for c in writers]
            reasons = [why or m.why for why, m in zip(moving, made, strict=True)]
            taken = "" if any(reasons) else self.tile_taken(tile, writers)
            for c, m, why in zip(writers, made, reasons, strict=True):
                if why or taken:
                    out.why.append((c.copy, f"the copy into {tile.name} does not run ahead: {why or taken}"))
                elif not any(reasons):
                    out.copies[id(c.copy)] = m.bytes
            if not taken and not any(reasons):
                out.tiles.append(tile)
                out.lets |= needed
        return out

    def stopper(self) -> tuple[str, Stmt] | None:
        """What keeps every copy of the loop from running ahead."""
        for stmt in _own(self.loop.body):
            if isinstance(stmt, (Break, Return)):
                return f"no copy runs ahead: a {type(stmt).__name__.lower()} may end the loop early", stmt
        for node in self.inside:
            if isinstance(node, (DeviceCall, Specialised)):
                return "no copy runs ahead: the loop holds asynchronous steps of its own", self.loop
            if is_opaque(node):
                return "no copy runs ahead: other blocks may change memory while the loop runs", self.loop
        return None

    def tile_taken(self, tile: Buffer, writers: list[_Candidate]) -> str:
        """Why `tile` cannot have versions, or ""."""
        if any(b.view_of is not None and b.root == tile for b in self.launch.allocs):
            return "another tile is a view of it"
        for node in self.whole:
            match node:
                case AddressOf(buffer) | Print(buffer=Buffer() as buffer) if buffer == tile:
                    return "its address is taken" if isinstance(node, AddressOf) else "it is printed"
                case Reduce(_, src) | Scan(_, src) if src.buffer == tile:
                    return f"a {type(node).__name__.lower()} reads it where it is"
                case _:
                    pass
        if len(writers) != sum(tile in accessed(n)[1] for n in self.inside) or not all(_exclude(a, b) for a, b in combinations(writers, 2)):
            return "the loop writes it elsewhere too"
        return "" if is_fresh(self.launch.body, tile) else "what an iteration leaves in it is used later"

    def why_not(self, source: Buffer, reads: tuple[Expr, ...], lets: dict[Var, Let], needed: set[Var]) -> str:
        """Why these values, and the elements of `source`, may be others before the loop comes to them; adds the bindings that they need."""
        for root in self.written:
            if self.aliasing.may_share(root, source):
                same = "" if root == source.root else f", which may be {source.name} itself"
                return f"the loop writes {root.name}{same}"
        for node in (n for e in reads for n in walk(e)):
            match node:
                case Load(buffer):
                    changed = next((w for w in self.written if self.aliasing.may_share(w, buffer)), None)
                    if changed is not None:
                        return f"where it reads depends on {buffer.name}, which the loop changes"
                case Var() if node in self.bound and node not in needed and node != self.loop.var:
                    let = lets.get(node)
                    if let is None:
                        return f"where it reads depends on {node.hint or node.name}"
                    needed.add(node)
                    if why := self.why_not(source, (let.value,), lets, needed):
                        return why
                case _:
                    pass
        return ""


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A copy that runs at most once an iteration: the branches that lead to it (an `If` by identity, which of its bodies), their conditions, and the
    bindings that it sees."""

    copy: Copy
    branches: tuple[tuple[int, bool], ...]
    conditions: tuple[Expr, ...]
    lets: dict[Var, Let]


def _copies(body: Body, branches: tuple[tuple[int, bool], ...], conditions: tuple[Expr, ...], lets: dict[Var, Let]) -> Iterator[_Candidate]:
    """Copies from global to shared memory in no loop within `body`."""
    for stmt in body:
        match stmt:
            case Let(var):
                lets = {**lets, var: stmt}
            case Copy(src, dst) if src.buffer.scope == "global" and dst.buffer.scope == "shared":
                yield _Candidate(stmt, branches, conditions, lets)
            case If(cond, then, other):
                yield from _copies(then, (*branches, (id(stmt), True)), (*conditions, cond), lets)
                yield from _copies(other, (*branches, (id(stmt), False)), (*conditions, cond), lets)
            case _:
                pass


def _exclude(a: _Candidate, b: _Candidate) -> bool:
    """Whether an iteration runs at most one of the two."""
    return any((which, not way) in b.branches for which, way in a.branches)


def _own(body: Body) -> Iterator[Stmt]:
    """Statements of a loop's body, and of bodies in it; of loops in it without those that leave only them."""
    for stmt in body:
        yield stmt
        match stmt:
            case If(_, then, other):
                yield from _own((*then, *other))
            case For(body=inside) | PipelinedFor(body=inside) | While(body=inside):
                yield from (s for s in _own(inside) if not isinstance(s, Break))
            case _:
                pass


def is_fresh(body: Body, tile: Buffer) -> bool:
    """Whether every use of `tile` sees only what was written before it in its own body, or a body around it, beginning with a write of all of it.

    So no value passes from one iteration of a loop to another, into a loop that writes the tile, or out of one.
    """
    return _state(body, tile, False) is not None


def _state(body: Body, tile: Buffer, is_defined: bool) -> bool | None:
    """Whether `body` leaves the tile with a value of its own or of `is_defined`; None where it uses one that it does not have."""
    for stmt in body:
        found = uses(stmt)
        if tile not in found.buffers:
            continue
        if _fills(stmt, tile):
            is_defined = True
            continue
        heads = [e for e in children(stmt) if isinstance(e, Expr)]
        if not is_defined and tile in uses(heads).read:
            return None
        match stmt:
            case If(_, then, other):
                ends = _state(then, tile, is_defined), _state(other, tile, is_defined)
                if None in ends:
                    return None
                is_defined = all(ends)
            case For(body=inside) | PipelinedFor(body=inside) | While(body=inside) if tile in found.written:
                if (isinstance(stmt, While) and tile in uses(heads).read) or _state(inside, tile, False) is None:
                    return None
                is_defined = False
            case _ if not is_defined:
                return None
            case _:
                pass
    return is_defined


def _fills(stmt: Stmt, tile: Buffer) -> bool:
    """Whether `stmt` writes all of `tile` and reads none of it."""
    match stmt:
        case Copy(src, dst):
            return dst.buffer == tile and is_whole(dst) and src.buffer != tile
        case Fill(dst):
            return dst.buffer == tile and is_whole(dst)
        case ParallelFor(loop_vars, extents, body):
            writes = any(isinstance(s, Store) and s.buffer == tile and s.indices == loop_vars for s in body)
            return extents == tile.shape and writes and not any(isinstance(n, Load) and n.buffer == tile for s in body for n in walk(s))
        case _:
            return False
