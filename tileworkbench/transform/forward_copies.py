"""A tile that only carries elements to or from global memory: they are read and written in place.

Before:  copy x <- X[bx * 8 :+ 8, 0 :+ 64]; for i, j in parallel(8, 64): x[i, j] = x[i, j] * 2; copy Y[bx * 8 :+ 8, 0 :+ 64] <- x
After:   for i, j in parallel(8, 64): Y[bx * 8 + i, j] = X[bx * 8 + i, j] * 2

A copy into a whole tile goes away if everything that reads the tile, until it is written whole again, is a parallel loop that walks along its rows
or a reduction's source, and may read the source instead: nothing in between writes it, or an argument that may be the same array. (An element
that one iteration reads and then writes is an exception: in one array it is one element.) A copy out of a whole tile goes away if the parallel loop
that last wrote every element of it may store to the destination instead, and so may the loops before it that made and changed the tile, if nobody
else looks at the destination. To a large destination only the last loop of all stores, once and past the caches (`stream_stores`); what comes
before stays near. A tile that is read, changed and written so falls into versions: the first is its source, the last ones its destination, and
only those between are on chip.

Only what is certainly inside both buffers is forwarded, so that no loop gets tests that a copy does once.
Requires: tile operations.  Preserves: everything else, and what the kernel computes.
"""

from __future__ import annotations

from ..analysis.accesses import is_opaque, mentions, reads, writes
from ..analysis.linear import has_load
from ..ir.build import cast
from ..ir.expr import AddressOf, Buffer, Load
from ..ir.node import Node, replace, rewrite, walk
from ..ir.stmt import (
    Assert,
    Atomic,
    Body,
    Break,
    Continue,
    Copy,
    For,
    Kernel,
    Let,
    ParallelFor,
    PipelinedFor,
    Reduce,
    Region,
    Return,
    Stmt,
    Store,
    While,
)
from .stream_stores import is_large
from .tile_versions import TileVersions, inside

MOST_READS = 3  # statements that read a tile's source in place: more of them are worth a copy near by
MOST_CONVERSIONS = 2  # the same, where each read converts


def forward_copies(kernel: Kernel) -> Kernel:
    """Return `kernel` without the copies that elements need not go through."""
    if not any(isinstance(n, Copy) for n in walk(kernel)):
        return kernel
    return _Forward(kernel).kernel(kernel)


class _Forward(TileVersions):
    def change_body(self, body: Body) -> Body | None:
        found = (self.change(body, place, s) for place, s in enumerate(body) if isinstance(s, Copy))
        return next((b for b in found if b is not None), None)

    def change(self, body: Body, place: int, copy: Copy) -> Body | None:
        """`body` without the copy at `place`, or None."""
        src, dst = copy.src, copy.dst
        if not src.buffer.is_on_chip and self.is_tile(dst) and self.is_fixed(src, dst.buffer):
            return self.read_in_place(body, place, copy)
        if not dst.buffer.is_on_chip and self.is_tile(src) and self.is_fixed(dst, src.buffer):
            return self.store_in_place(body, place, copy)
        return None

    # ------------------------------------------------------------------------------------------ reads
    def read_in_place(self, body: Body, place: int, copy: Copy) -> Body | None:
        """The readers of this version of the tile read its source."""
        tile, source = copy.dst.buffer, copy.src.buffer
        out: list[Stmt] = list(body[:place])
        readers = 0
        is_changed = False  # whether the source may have changed since the copy
        for n, stmt in enumerate(body[place + 1 :], place + 1):
            ends = self.overwrites(stmt, tile)
            if writes(stmt, tile) and not ends:
                return None
            if self.reads_old(stmt, tile) if ends else reads(stmt, tile):
                new = None if is_changed else self.reader(stmt, copy)
                if new is None:
                    return None
                readers += 1
                stmt = new
            out.append(stmt)
            if ends:
                out += body[n + 1 :]
                break
            is_changed = is_changed or any(self.may_write(m, source) for m in walk(stmt))
        else:
            if not self.is_dead_after(body, tile):
                return None
        most = MOST_READS if tile.type == source.type else MOST_CONVERSIONS
        return tuple(out) if 0 < readers <= most else None

    def reader(self, stmt: Stmt, copy: Copy) -> Stmt | None:
        match stmt:
            case ParallelFor():
                return self.loop(stmt, copy)
            case Reduce(src=src, dst=dst) if src.buffer == copy.dst.buffer and not has_load(dst) and not has_load(src):
                return self.reduce_from(stmt, copy.dst.buffer, copy.src)
            case _:
                return None

    def loop(self, loop: ParallelFor, copy: Copy) -> ParallelFor | None:
        """A parallel loop that reads elements along rows."""
        tile, source = copy.dst.buffer, copy.src.buffer
        if any(isinstance(n, (For, PipelinedFor, While, AddressOf, Atomic)) or is_opaque(n) for n in walk(loop)):
            return None
        last = self.first_store(loop, tile)
        old = loop.body if last is None else loop.body[: last + 1]
        loads = [(n, node) for n, s in enumerate(old) for node in walk(s) if isinstance(node, Load) and node.buffer == tile]
        stores = [(n, node) for n, s in enumerate(loop.body) for node in walk(s) if isinstance(node, Store)]
        for n, load in loads:
            if not self.walks_rows(loop, tile, load.indices) or tile.type != source.type and not self.covers(loop, tile, load.indices):
                return None
            for m, store in stores:
                if not self.aliasing.may_share(store.buffer, source):
                    continue
                at = inside(copy.src, tile, load.indices)
                one = self.covers(loop, tile, load.indices) and self.aliasing.same_element(source, at, store.buffer, store.indices, self.bounds)
                if not one or m < n or m == n and store is not loop.body[m]:
                    return None

        def change(node: Node) -> Node:
            if isinstance(node, Load) and node.buffer == tile:
                return cast(Load(source, inside(copy.src, tile, node.indices), span=node.span), tile.type)
            return node

        return replace(loop, body=(*(rewrite(s, change) for s in old), *loop.body[len(old) :]))

    # ------------------------------------------------------------------------------------------ stores
    def store_in_place(self, body: Body, place: int, copy: Copy) -> Body | None:
        """The loop that made this version of the tile stores to its destination; those that made it and changed it before too, if they may."""
        tile, out = copy.src.buffer, copy.dst
        makers = [n for n in range(place) if mentions(body[n], tile)]
        if not makers or not self.is_last_use(body, place, tile):
            return None
        if tile.type != out.buffer.type or is_large(out.buffer):
            makers = makers[-1:]
        for first in makers:
            new = self.stored(body[first:place], tile, out)
            if new is not None:
                return (*body[:first], *new, *body[place + 1 :])
        return None

    def is_last_use(self, body: Body, place: int, tile: Buffer) -> bool:
        """Whether nobody reads the tile after `place`."""
        later = next((s for s in body[place + 1 :] if mentions(s, tile)), None)
        if later is None:
            return self.is_dead_after(body, tile)
        return self.overwrites(later, tile) and not self.reads_old(later, tile)

    def stored(self, body: Body, tile: Buffer, out: Region) -> Body | None:
        """`body`, whose first statement makes the tile, with `out` in the tile's place; None if somebody else looks at what `out` may be."""
        first = self.first_stored(body[0], tile, out)
        if first is None:
            return None
        new: list[Stmt] = [first]
        for stmt in body[1:]:
            if any(isinstance(n, (Break, Continue, Return, Assert)) or self.may_touch(n, out.buffer) for n in walk(stmt)):
                return None
            changed = self.moved(stmt, tile, out) if mentions(stmt, tile) else stmt
            if changed is None:
                return None
            new.append(changed)
        return tuple(new) if sum(reads(s, tile) for s in body[1:]) <= MOST_READS else None

    def first_stored(self, loop: Stmt, tile: Buffer, region: Region) -> ParallelFor | None:
        """`loop`, which overwrites the tile, with its store going to `region`; what it reads of the tile afterwards is the stored value."""
        out = region.buffer
        place = self.first_store(loop, tile) if isinstance(loop, ParallelFor) else None
        if not isinstance(loop, ParallelFor) or place is None:
            return None
        store, rest = loop.body[place], loop.body[place + 1 :]
        assert isinstance(store, Store)
        at = inside(region, tile, store.indices)
        for n, stmt in enumerate(loop.body):
            for node in walk(stmt):
                if isinstance(node, Load) and self.aliasing.may_share(node.buffer, out):
                    if n > place or not self.aliasing.same_element(node.buffer, node.indices, out, at, self.bounds):
                        return None
                elif isinstance(node, Load) and node.buffer == tile:
                    if n > place and not self.is_same(node.indices, store.indices):
                        return None
                elif node is not store and (self.may_touch(node, out) or isinstance(node, Store) and node.buffer == tile):
                    return None
        value = store.value
        made: list[Stmt] = []
        if any(reads(s, tile) for s in rest):
            var = self.names.var(tile.name, value.dtype)
            made, value = [Let(var, value, span=store.span)], var

            def change(node: Node) -> Node:
                return var if isinstance(node, Load) and node.buffer == tile else node

            rest = tuple(rewrite(s, change) for s in rest)
        made.append(Store(out, at, cast(value, out.type), span=store.span))
        return replace(loop, body=(*loop.body[:place], *made, *rest))

    def moved(self, stmt: Stmt, tile: Buffer, region: Region) -> Stmt | None:
        """`stmt` with `region` in the place of the tile."""
        match stmt:
            case Reduce(src=src, dst=dst) if src.buffer == tile and dst.buffer != tile and not has_load(dst) and not has_load(src):
                return self.reduce_from(stmt, tile, region)
            case ParallelFor():
                return self.moved_loop(stmt, tile, region)
            case _:
                return None

    def moved_loop(self, loop: ParallelFor, tile: Buffer, region: Region) -> ParallelFor | None:
        out = region.buffer
        for node in walk(loop):
            if isinstance(node, (For, PipelinedFor, While, AddressOf, Atomic)) or is_opaque(node):
                return None
            if isinstance(node, (Load, Store)) and node.buffer == tile and not self.walks_rows(loop, tile, node.indices):
                return None

        def change(node: Node) -> Node:
            match node:
                case Load(buffer, indices) | Store(buffer, indices) if buffer == tile:
                    return replace(node, buffer=out, indices=inside(region, tile, indices))
                case _:
                    return node

        return rewrite(loop, change)
