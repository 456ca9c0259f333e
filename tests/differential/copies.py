"""Random copies and fills: every form of region, type, stride and view."""

from __future__ import annotations

from differential.cases import ALL, Maker

from tileworkbench.base.dtypes import DType
from tileworkbench.ir.expr import Binary, Buffer, Cast, Const, Expr, Load, Var, const
from tileworkbench.ir.stmt import Copy, Fill, For, Region, Stmt, whole


class CopyMaker(Maker):
    """A few tensors and tiles, and copies between them. `where` are the index variables in scope, with their largest values."""

    def make(self):
        self.kinds = self.rng.sample(ALL, self.between(1, 3))
        exact = self.chance(0.5)
        self.fill = self.data if exact else self.any_data
        self.globals = [self.some_tensor() for _ in range(self.between(1, 3))]
        self.tiles: list[Buffer] = []
        for _ in range(self.between(1, 3)):
            self.tiles += self.some_tile()
        bx, by = self.var("bx"), self.var("by")
        self.where: list[tuple[Var, int]] = [(bx, 1), (by, 2)]
        # blocks may not write each other's elements in an unknown order: only one block, unless it writes tiles only
        self.grid = [(bx, 1), (by, 1)]
        body = [Copy(whole(self.same_shape(t)), whole(t)) for t in self.tiles if t.view_of is None]
        for _ in range(self.between(2, 5)):
            body += self.statement()
        for t in self.tiles:
            if self.chance(0.6):
                body.append(Copy(whole(t), whole(self.same_shape(t))))
        self.launch(body, self.tiles, self.grid)
        return self.case

    # ------------------------------------------------------------------------------------------ buffers
    def shape(self, rank: int = 0) -> list[int]:
        rank = rank or self.pick((1, 2, 2, 2, 3, 3, 4))
        return [self.pick((1, 1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 33)) if rank < 3 else self.pick((1, 2, 3, 4, 5)) for _ in range(rank)]

    def some_tensor(self) -> Buffer:
        shape: list = self.shape()
        if self.chance(0.06):
            shape[self.between(0, len(shape) - 1)] = 0
        kind = self.pick(self.kinds)
        values = self.fill(shape, DType(kind))
        safe = {} if self.chance(0.7) else {"safe_value": self.between(0, 1) if kind == "bool" or kind.startswith("uint") else self.between(-3, 3)}
        if self.chance(0.25) and DType(kind).bits >= 8:
            order = list(range(len(shape)))
            self.rng.shuffle(order)
            steps, step = [0] * len(shape), self.pick((1, 1, 2))
            for d in reversed(order):
                steps[d] = step
                step *= max(shape[d], 1) + self.pick((0, 0, 1, 3))
            return self.tensor(shape, kind, steps, values, **safe)
        made = [self.dim(n) if self.chance(0.3) else n for n in shape]
        return self.tensor(made, kind, None, values, **safe)

    def same_shape(self, tile: Buffer) -> Buffer:
        """A tensor of the shape of a tile."""
        kind = tile.type if self.chance(0.7) else self.pick(self.kinds)
        shape = self.size_of(tile)
        return self.tensor(shape, kind, None, self.fill(shape, DType(kind)))

    def some_tile(self) -> list[Buffer]:
        shape, kind = self.shape(), self.pick(self.kinds)
        if len(shape) == 2 and self.chance(0.25) and DType(kind).bits >= 8:  # a transposed or padded tile
            n, m = shape
            steps = self.pick(((1, n), (m + 1, 1), (1, n + 3)))
            return [self.tile(shape, kind, "shared", strides=tuple(Const(s) for s in steps))]
        tile = self.tile(shape, kind)
        return [tile, *self.views(tile)] if self.chance(0.3) else [tile]

    def views(self, tile: Buffer) -> list[Buffer]:
        """The same storage with another shape or type."""
        size = self.size_of(tile)
        count = 1
        for n in size:
            count *= n
        out = [Buffer(self.fresh("v"), (Const(count),), tile.type, tile.scope, view_of=tile)]
        other = self.pick([k for k in ALL if DType(k).bits >= 8 and k != "bool"])
        if tile.type.bits >= 8 and not tile.type.is_bool and count * tile.type.bits % DType(other).bits == 0:
            out.append(Buffer(self.fresh("v"), (Const(count * tile.type.bits // DType(other).bits),), DType(other), tile.scope, view_of=tile))
        if count % 2 == 0:
            half = Const(count // 2)
            if tile.type.bits >= 8:
                out.append(Buffer(self.fresh("v"), (half,), tile.type, tile.scope, view_of=tile, offset=half))
            out.append(Buffer(self.fresh("v"), (Const(2), half), tile.type, tile.scope, view_of=tile))
        return self.rng.sample(out, self.between(1, len(out)))

    # ------------------------------------------------------------------------------------------ statements
    def statement(self, depth: int = 0) -> list[Stmt]:
        what = self.rng.random()
        if what < 0.15 and depth == 0:
            var = self.var("k")
            start, stop, step = self.pick(((0, 3, 1), (2, -1, -1), (0, 5, 2), (1, 1, 1), (-1, 2, 1)))
            self.where.append((var, 3))
            body = [s for _ in range(self.between(1, 2)) for s in self.statement(1)]
            self.where.pop()
            return [For(var, Const(start), Const(stop), tuple(body), step, self.pick(("serial", "unroll")))]
        if what < 0.35:
            region = self.region(self.pick((*self.globals, *self.tiles)))
            value = const(self.between(0, 5), region.buffer.type)
            source = self.pick(self.globals)
            if self.chance(0.3) and 0 not in self.size_of(source):
                value = Cast(Load(source, tuple(Const(self.between(0, n - 1)) for n in self.size_of(source))), region.buffer.type)
                value = value.x if value.x.dtype == region.buffer.type else value
            return [Fill(region, value)]
        return [self.copy()]

    def copy(self) -> Copy:
        """A copy between random regions; the dims of extent other than 1 agree, but those of extent 1 may lie anywhere."""
        a, b = self.pick((*self.globals, *self.tiles)), self.pick((*self.globals, *self.tiles))
        if b.rank < a.rank:
            a, b = b, a
        long = [self.pick((2, 3, 4, 5, 8, 9, 16)) for _ in range(a.rank)]
        if self.chance(0.3):
            long[self.between(0, a.rank - 1)] = 1
        long = [min(n, 2 * max(1, s)) for n, s in zip(long, self.size_of(a), strict=True)]
        moving = [n for n in long if n != 1]
        places = sorted(self.rng.sample(range(b.rank), len(moving)))
        extents = [1] * b.rank
        for d, n in zip(places, moving, strict=True):
            extents[d] = n
        first, second = self.box(a, long), self.box(b, extents)
        return Copy(first, second) if self.chance(0.5) else Copy(second, first)

    def region(self, buffer: Buffer) -> Region:
        if self.chance(0.2):
            return whole(buffer)
        return self.box(buffer, [self.between(1, max(1, n + 1)) for n in self.size_of(buffer)])

    def box(self, buffer: Buffer, extents: list[int]) -> Region:
        starts = tuple(self.start(n, e) for n, e in zip(self.size_of(buffer), extents, strict=True))
        return Region(buffer, starts, tuple(Const(e) for e in extents))

    def start(self, size: int, extent: int) -> Expr:
        """Inside mostly; else before, behind or across an end; perhaps a block or loop variable with a factor."""
        low, high = (0, max(0, size - extent)) if self.chance(0.5) else (-extent - 1, size + 1)
        at = self.between(low, high)
        if self.chance(0.5):
            return Const(at)
        var, _ = self.pick(self.where)
        index: Expr = var if self.chance(0.5) else Binary("mul", var, Const(self.pick((2, 3, 8, -1))))
        if self.chance(0.15):
            index = Binary(self.pick(("floordiv", "floormod")), index, Const(2))
        return Binary("add", index, Const(at)) if at >= 0 or self.chance(0.5) else Binary("sub", index, Const(-at))


def symbolic_extents(maker: Maker):
    """Copies whose extent only the call knows, also none and less than none."""
    kind, other = maker.pick(ALL[:12]), maker.pick(ALL[:12])
    n, cols = maker.pick((0, 1, 2, 5, 9)), maker.pick((1, 3, 8))
    dim = maker.dim(n)
    a, b = maker.tensor([dim, cols], kind), maker.tensor([dim, cols], other if maker.chance(0.5) else kind)
    off = maker.between(0, 3)
    extent = Binary("sub", dim, Const(off)) if off else dim
    first, second = Const(maker.between(-1, off)), Const(maker.between(-1, off))
    body = [Copy(Region(a, (first, Const(0)), (extent, Const(cols))), Region(b, (second, Const(0)), (extent, Const(cols))))]
    if maker.chance(0.5):
        body.append(Fill(Region(a, (Const(maker.between(-1, 2)), Const(0)), (extent, Const(cols))), const(1, a.type)))
    maker.launch(body)
    return maker.case
