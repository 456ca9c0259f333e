"""From where to where each tile of a launch holds something that is still needed.

Statements are numbered in program order. A tile is needed from its first to its last use; in a loop it is needed all the time, unless each use in the
loop's body comes after a statement of the body that writes all of it, and nothing of the kind is used outside. What copies write that are only
started (`Copy.async_bytes`) is needed as long as the loop runs in which they stand.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ..ir.device import DeviceCall
from ..ir.expr import AddressOf, Buffer
from ..ir.node import Node, walk
from ..ir.stmt import Body, Copy, For, If, Launch, PipelinedFor, While
from .running_ahead import is_fresh
from .uses import uses

Loop = For | PipelinedFor | While


@dataclass(slots=True)
class Life:
    """The first and the last statement for which the tile is needed, and the innermost loops that use it, by identity."""

    first: int
    last: int
    inner: set[int] = field(default_factory=set)

    def meets(self, other: Life) -> bool:
        """Whether both are needed at one time, or are used in one innermost loop: a barrier between them there would cost more than bytes."""
        return (self.first <= other.last and other.first <= self.last) or bool(self.inner & other.inner)


def lives(launch: Launch) -> dict[Buffer, Life]:
    """The life of every tile in shared memory whose uses are all known, in the order of first use."""
    return _Lives(launch).out


class _Lives:
    def __init__(self, launch: Launch) -> None:
        self.launch, self.count = launch, 0
        self.out: dict[Buffer, Life] = {}
        taken = {n.buffer.root for s in launch.body for n in walk(s) if isinstance(n, AddressOf)}
        taken |= {b for s in launch.body for n in walk(s) if isinstance(n, DeviceCall) for b in uses(n).buffers}
        viewed = {b.root for b in launch.allocs if b.view_of is not None}
        self.tiles = {b for b in launch.allocs if b.scope == "shared" and b.view_of is None} - taken - viewed
        self.body(launch.body)

    def body(self, body: Body) -> None:
        for stmt in body:
            self.count += 1
            match stmt:
                case For() | PipelinedFor() | While():
                    self.loop(stmt)
                case If(cond, then, other):
                    self.use([cond])
                    self.body(then)
                    self.body(other)
                case _:
                    self.use([stmt])

    def use(self, nodes: list[Node]) -> None:
        for tile in sorted(self.tiles & uses(nodes).buffers, key=lambda b: b.name):
            life = self.out.setdefault(tile, Life(self.count, self.count))
            life.last = self.count

    def loop(self, loop: Loop) -> None:
        first = self.count
        self.use([loop.cond] if isinstance(loop, While) else [loop.start, loop.stop])
        self.body(loop.body)
        self.count += 1
        innermost = not any(isinstance(n, Loop) for s in loop.body for n in walk(s))
        for tile in self.tiles & uses(loop).buffers:
            life = self.out[tile]
            if innermost:
                life.inner.add(id(loop))
            if not self.begins_anew(loop, tile):
                life.first, life.last = min(life.first, first), self.count

    def begins_anew(self, loop: Loop, tile: Buffer) -> bool:
        """Whether no iteration sees what another left in the tile."""
        if any(_starts(n, tile) for n in walk(loop)):  # the loop that pipeline_copies made, or one around it
            inside = (n for s in loop.body for n in walk(s) if isinstance(n, Loop))
            return any(_starts(n, tile) for each in inside for n in walk(each))
        conditions = [loop.cond] if isinstance(loop, While) else []
        return tile not in uses(conditions).buffers and is_fresh(loop.body, tile) and is_fresh(self.launch.body, tile)


def _starts(node: Node, tile: Buffer) -> bool:
    return isinstance(node, Copy) and node.async_bytes > 0 and node.dst.buffer == tile
