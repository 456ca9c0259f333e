"""Tiles as a body's statements write and read them: who overwrites one, who reads which version, where a tile's elements lie in a region.

The common ground of passes that take a tile away (`forward_copies`).
"""

from __future__ import annotations

from ..analysis.access import static_strides, strides
from ..analysis.accesses import accessed, count_accesses, is_opaque, mentions, reads, writes
from ..analysis.aliasing import Aliasing, is_one_index
from ..analysis.linear import has_load
from ..base.dtypes import INDEX
from ..ir.build import add, cast, index
from ..ir.expr import Buffer, Const, Expr, Load, Var, is_const
from ..ir.node import Node, replace, walk
from ..ir.stmt import Body, Copy, Fill, Gemm, Kernel, Launch, ParallelFor, PipelinedFor, Reduce, Region, Stmt, Store, is_whole
from .names import Names
from .scoped import Result, Scoped


class TileVersions(Scoped):
    """A rewrite that knows the tiles of the launch it stands in. `change_body` is asked for each body, inner ones first, until it has no answer."""

    def __init__(self, kernel: Kernel) -> None:
        super().__init__()
        self.source = kernel
        self.known_names: Names | None = None
        self.aliasing = Aliasing(kernel)
        self.launch: Launch | None = None
        self.viewed: set[Buffer] = set()
        self.accesses: dict[Buffer, int] = {}  # in the whole launch
        self.depth = 0  # of the body that is looked at: 1 is the launch's own

    def change_body(self, body: Body) -> Body | None:
        """A better body, or None."""
        raise NotImplementedError

    @property
    def names(self) -> Names:
        if self.known_names is None:
            self.known_names = Names(self.source)
        return self.known_names

    def stmt(self, stmt: Stmt) -> Result:
        match stmt:
            case Launch(threads_used=False):
                self.launch, self.depth = stmt, 0
                self.viewed = {b.root for b in stmt.allocs if b.view_of is not None}
                self.accesses = count_accesses(stmt.body)
                new = super().stmt(stmt)
                self.launch = None
                return new
            case Launch():
                return stmt
            case PipelinedFor() if stmt.order or stmt.stage:
                return stmt  # the author has counted its statements
            case _:
                return super().stmt(stmt)

    def body(self, body: Body) -> Body:
        self.depth += 1
        new = self._changed(super().body(body))
        self.depth -= 1
        return new

    def _changed(self, new: Body) -> Body:
        while self.launch is not None:
            after = self.change_body(new)
            if after is None:
                return new
            old, left = count_accesses(new), count_accesses(after)
            for b in old.keys() | left.keys():
                self.accesses[b] = self.accesses.get(b, 0) + left.get(b, 0) - old.get(b, 0)
            new = after
        return new

    # ------------------------------------------------------------------------------------------ tiles and regions
    def is_tile(self, region: Region) -> bool:
        """All of an on-chip tile whose storage is its own."""
        b = region.buffer
        return b.scope in ("shared", "fragment") and b.view_of is None and b not in self.viewed and b.type.bits >= 8 and is_whole(region)

    def is_fixed(self, region: Region, tile: Buffer) -> bool:
        """Whether the region is the tile's shape, inside its buffer, contiguous along rows, and the same whenever it is looked at."""
        b, along = region.buffer, moving(region.extents)
        if b.view_of is not None or b.type.bits < 8 or any(has_load(s) for s in region.starts):
            return False
        if [region.extents[d] for d in along] != [tile.shape[d] for d in moving(tile.shape)]:
            return False
        return (not along or strides(b)[along[-1]] == index(1)) and self.bounds.holds(region)

    def is_same(self, a: tuple[Expr, ...], b: tuple[Expr, ...]) -> bool:
        return all(is_one_index(i, j, self.bounds) for i, j in zip(a, b, strict=True))

    # ------------------------------------------------------------------------------------------ versions of a tile
    def overwrites(self, stmt: Stmt, tile: Buffer) -> bool:
        """Whether `stmt` certainly writes every element of `tile`."""
        match stmt:
            case Copy(dst=dst) | Fill(dst=dst) | Reduce(dst=dst, clear=True) if dst.buffer == tile:
                return is_whole(dst)
            case Gemm(c=c, clear=clear) if c.buffer == tile:
                return is_const(clear, True) and is_whole(c)
            case ParallelFor():
                return self.first_store(stmt, tile) is not None
            case _:
                return False

    def first_store(self, loop: ParallelFor, tile: Buffer) -> int | None:
        """Where the body of `loop` first writes the tile, if it is a store that covers it."""
        for place, s in enumerate(loop.body):
            if writes(s, tile):
                return place if isinstance(s, Store) and self.covers(loop, tile, s.indices) else None
        return None

    def covers(self, loop: ParallelFor, tile: Buffer, indices: tuple[Expr, ...]) -> bool:
        """Whether each iteration of `loop` has an element of the tile of its own, and each element an iteration."""
        sizes = dict(zip(loop.vars, loop.extents, strict=True))
        used: set[Expr] = set()
        for at, dim in zip(indices, tile.shape, strict=True):
            form = self.bounds.sum(cast(at, INDEX))
            if not form.terms and form.const == 0 and dim == index(1):
                continue
            var = next(iter(form.terms), None)
            if len(form.terms) != 1 or form.const or not isinstance(var, Var) or form.terms[var] != 1 or var in used:
                return False
            size = sizes.get(var)
            if not isinstance(size, Const) or not isinstance(dim, Const) or size.value != dim.value:
                return False
            used.add(var)
        return all(v in used or is_const(size, 1) for v, size in sizes.items())

    def reads_old(self, stmt: Stmt, tile: Buffer) -> bool:
        """Whether `stmt`, which overwrites the tile, reads what it held before."""
        place = self.first_store(stmt, tile) if isinstance(stmt, ParallelFor) else None
        if not isinstance(stmt, ParallelFor) or place is None:
            return reads(stmt, tile)
        store = stmt.body[place]
        assert isinstance(store, Store)
        if any(reads(s, tile) for s in stmt.body[: place + 1]):
            return True
        after = (n for s in stmt.body[place + 1 :] for n in walk(s) if tile in accessed(n)[0])
        return any(not isinstance(n, Load) or not self.is_same(n.indices, store.indices) for n in after)

    def is_dead_after(self, body: Body, tile: Buffer) -> bool:
        """Whether nothing needs what the tile holds at the end of `body`."""
        if self.depth == 1:
            return True
        if self.accesses.get(tile, 0) != count_accesses(body).get(tile, 0):
            return False
        first = next((s for s in body if mentions(s, tile)), None)
        return first is not None and self.overwrites(first, tile) and not self.reads_old(first, tile)

    # ------------------------------------------------------------------------------------------ memory that may be shared
    def may_write(self, node: Node, buffer: Buffer) -> bool:
        return is_opaque(node) or any(self.aliasing.may_share(b, buffer) for b in accessed(node)[1])

    def may_touch(self, node: Node, buffer: Buffer) -> bool:
        return self.may_write(node, buffer) or any(self.aliasing.may_share(b, buffer) for b in accessed(node)[0])

    # ------------------------------------------------------------------------------------------ what may read a region in the place of a tile
    def reduce_from(self, stmt: Reduce, tile: Buffer, region: Region) -> Reduce | None:
        """A reduction along the rows of `tile`, which reads `region` instead."""
        source = region.buffer
        mine, theirs = moving(tile.shape), moving(region.extents)
        if not mine or stmt.dim != mine[-1] or static_strides(source) is None or tile.type != source.type or not self.bounds.holds(stmt.src):
            return None
        extents: list[Expr] = [index(1)] * source.rank
        for d, s in zip(mine, theirs, strict=True):
            extents[s] = stmt.src.extents[d]
        return replace(stmt, src=Region(source, inside(region, tile, stmt.src.starts), tuple(extents)), dim=theirs[-1])

    def walks_rows(self, loop: ParallelFor, tile: Buffer, indices: tuple[Expr, ...]) -> bool:
        """Whether the access is inside the tile, and neighbours in the innermost loop are neighbours in memory."""
        inner = loop.vars[-1]
        if not all(self.bounds.is_inside(i, d) == (True, True) for i, d in zip(indices, tile.shape, strict=True)):
            return False
        *outer, along = indices
        form = self.bounds.sum(cast(along, INDEX))
        apart = any(inner in walk(i) for i in (*outer, *(a for a in form.terms if a != inner)))
        return not apart and form.coefficient(inner) in (0, 1) and not any(has_load(i) for i in indices)


def moving(extents: tuple[Expr, ...]) -> list[int]:
    """The dims whose extent is not 1."""
    return [d for d, e in enumerate(extents) if not is_const(e, 1)]


def inside(region: Region, tile: Buffer, indices: tuple[Expr, ...]) -> tuple[Expr, ...]:
    """Where element `indices` of a tile lies that is a copy of `region`."""
    steps = dict(zip(moving(region.extents), (indices[d] for d in moving(tile.shape)), strict=True))
    return tuple(add(cast(s, INDEX), cast(steps[d], INDEX)) if d in steps else s for d, s in enumerate(region.starts))
