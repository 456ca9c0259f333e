"""Which copies of a pipelined loop may run iterations ahead of the loop, or why not.

A copy may, if it would write the same tile with the same elements then: what its place and its conditions depend on is known before the loop or
follows from the loop's variable, and nothing in the loop writes what it reads. And nobody else may see a difference: each use of the tile, in the
whole launch, comes after a copy or fill of all of it in the same body, so that no value stays in the tile from one iteration, or loop, to another.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

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
    Region,
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
        copies = list(_copies(self.loop.body, (), {}))
        if (stopper := self.stopper()) is not None:
            why, at = stopper
            out.why = [(at, why)] if copies else []
            return out
        for copy, conditions, lets in copies:
            made = async_copy(copy, self.bounds, self.aligned)
            needed: set[Var] = set()
            reads = (*conditions, *copy.src.starts)
            why = self.why_not(copy.src.buffer, reads, lets, needed) or made.why or self.tile_taken(copy.dst.buffer)
            if why:
                out.why.append((copy, f"the copy into {copy.dst.buffer.name} does not run ahead: {why}"))
            else:
                out.copies[id(copy)] = made.bytes
                out.tiles.append(copy.dst.buffer)
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

    def tile_taken(self, tile: Buffer) -> str:
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
        writers = [n for n in self.inside if tile in accessed(n)[1]]
        if len(writers) != 1:
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


def _copies(body: Body, conditions: tuple[Expr, ...], lets: dict[Var, Let]) -> Iterator[tuple[Copy, tuple[Expr, ...], dict[Var, Let]]]:
    """Copies from global to on-chip memory that run once an iteration, their conditions, and the bindings that they see."""
    for stmt in body:
        match stmt:
            case Let(var):
                lets = {**lets, var: stmt}
            case Copy(src, dst) if src.buffer.scope == "global" and dst.buffer.is_on_chip:
                yield stmt, conditions, lets
            case If(cond, then, other):
                yield from _copies(then, (*conditions, cond), lets)
                yield from _copies(other, (*conditions, cond), lets)
            case _:
                pass


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
    """Whether every use of `tile` sees only what stands before it in its own body, or a body around it, and begins with a write of all of it.

    So no value passes from one iteration of a loop to another, into a loop that writes the tile, or out of one.
    """
    is_defined = False
    for stmt in body:
        found = uses(stmt)
        if tile not in found.buffers:
            continue
        match stmt:
            case Copy(Region(source), dst) if dst.buffer == tile and is_whole(dst) and source != tile:
                is_defined = True
                continue
            case Fill(dst) if dst.buffer == tile and is_whole(dst):
                is_defined = True
                continue
            case ParallelFor(loop_vars, extents, inside) if extents == tile.shape and _fills(inside, tile, loop_vars):
                is_defined = True
                continue
            case For(body=inside) | PipelinedFor(body=inside):
                bodies: tuple[Body, ...] = (inside,)
            case While(cond, inside):
                bodies = (inside,)
                if tile in found.written and tile in uses(cond).read:
                    return False
            case If(cond, then, other):
                bodies = (then, other)
            case _:
                bodies = ()
        if bodies and tile in found.written:
            heads = [e for e in children(stmt) if isinstance(e, Expr)]
            if (tile in uses(heads).read and not is_defined) or not all(is_fresh(b, tile) for b in bodies):
                return False
            is_defined = False
        elif not is_defined:
            return False
    return True


def _fills(body: Body, tile: Buffer, loop_vars: tuple[Var, ...]) -> bool:
    """Whether each iteration writes its own element of `tile`, and reads none."""
    writes = any(isinstance(s, Store) and s.buffer == tile and s.indices == loop_vars for s in body)
    return writes and not any(isinstance(n, Load) and n.buffer == tile for s in body for n in walk(s))
