"""Random parallel loops: guards, gathers, scatters, branches, lets, serial loops and private buffers inside, buffers updated in place."""

from __future__ import annotations

from differential.cases import FLOATS, INTS, Maker
from differential.exprs import EXACT, Exprs, Sized, clamp

from tileworkbench.base.dtypes import DType
from tileworkbench.ir.expr import Binary, Buffer, Cast, Const, Expr, Load, Var, const
from tileworkbench.ir.stmt import Atomic, Break, Continue, Copy, Fill, For, If, Let, ParallelFor, PipelinedFor, Region, Stmt, Store, whole

SCALARS = (*FLOATS[:4], *INTS, "bool", "float32", "float32", "int32", "float8_e4m3fn", "int4", "uint4")


class ParallelMaker(Maker):
    """Some parallel nests over a few tensors and tiles. Every iteration writes elements of its own, and of a written buffer reads only these."""

    def make(self):
        self.bounds: dict[str, float] = {}
        self.tiles: list[Buffer] = []
        self.lets: list[tuple[Var, float]] = []
        self.scalars: list[tuple[Var, float]] = []
        self.own: dict[str, tuple[Buffer, tuple[Expr, ...]]] = {}  # root of a buffer that this nest writes -> the buffer and index it uses
        bx, by = self.var("bx"), self.var("by")
        self.blocks = [bx, by]
        self.outer: list[Var] = [bx, by]
        self.sizes = [self.pick((1, 3, 4, 5, 8, 9, 16, 17, 32, 33, 64)), self.pick((1, 2, 3, 5, 8)), self.pick((1, 2, 3, 7))]
        self.inputs = [self.source() for _ in range(self.between(2, 4))]
        self.perms = [self.permutation(self.sizes[0]), self.permutation(self.sizes[1])]
        self.wild = self.tensor([self.sizes[0]], "int32", None, self.numbers.integers(-3, self.sizes[0] + 4, self.sizes[0]).astype("int32"))
        self.outputs = [self.target() for _ in range(self.between(1, 3))]
        if self.chance(0.3):
            var = self.var("s", self.pick(("int32", "float32", "float16", "bool", "uint8", "float64", "int64")))
            self.case.scalars[var] = self.between(0, 1) if var.type.is_bool else self.between(0, 3)
            self.scalars.append((var, 3))
        body: list[Stmt] = []
        for _ in range(self.between(0, 3)):
            self.new_tile(body)
        for _ in range(self.between(1, 4)):
            body += self.top(2)
        for t in self.tiles:
            if t.view_of is None and self.chance(0.7):
                shape = self.size_of(t)
                body.append(Copy(whole(t), whole(self.tensor(shape, t.type))))
        self.launch(body, self.tiles, [(bx, 1), (by, 1)])
        return self.case

    # ------------------------------------------------------------------------------------------ buffers
    def dims_of(self, rank: int) -> list[int]:
        return [max(1, n + self.pick((0, 0, 0, -1, 1, 3))) for n in self.rng.sample(self.sizes, rank)]

    def source(self) -> Buffer:
        shape: list = self.dims_of(self.between(1, 3))
        shape = [self.dim(n) if self.chance(0.25) else n for n in shape]
        buffer = self.tensor(shape, self.pick(SCALARS))
        self.bounds[buffer.name] = 4
        return buffer

    def target(self) -> Buffer:
        buffer = self.tensor([self.dim(n) if self.chance(0.3) else n for n in self.dims_of(self.between(1, 3))], self.pick(SCALARS))
        self.bounds[buffer.name] = 4
        return buffer

    def permutation(self, n: int) -> Buffer:
        order = self.numbers.permutation(n).astype("int32")
        return self.tensor([n], "int32", None, order)

    def new_tile(self, body: list[Stmt]) -> None:
        shape = self.dims_of(self.between(1, 3))
        tile = self.tile(shape, self.pick(SCALARS))
        self.tiles.append(tile)
        self.bounds[tile.name] = 4
        fill = Fill(whole(tile), const(self.between(0, 1), tile.type))
        body.append(Copy(whole(self.tensor(shape, tile.type)), whole(tile)) if self.chance(0.8) else fill)
        if self.chance(0.2) and tile.type.bits >= 8:
            count = 1
            for n in shape:
                count *= n
            view = Buffer(self.fresh("v"), (Const(count),), tile.type, tile.scope, view_of=tile)
            self.tiles.append(view)
            self.bounds[view.name] = float("inf")

    # ------------------------------------------------------------------------------------------ statements of the block
    def top(self, depth: int) -> list[Stmt]:
        what = self.rng.random()
        if depth and what < 0.12:
            return [self.loop(depth)]
        if depth and what < 0.2:
            e = self.exprs([])
            return [If(e.test(1), tuple(self.top(depth - 1)), tuple(self.top(depth - 1)) if self.chance(0.4) else ())]
        if what < 0.25:
            var = self.var("w", self.pick(("int32", "float32", "int64")))
            value, size = self.exprs([]).value(var.type, 2)
            self.lets.append((var, size))
            out = [Let(var, value), *self.nest()]
            self.lets.pop()
            return out
        return self.nest()

    def loop(self, depth: int) -> Stmt:
        var = self.var("k")
        self.outer.append(var)
        self.bounds = dict.fromkeys(self.bounds, float("inf"))  # values grow from one iteration to the next
        body = [*self.top(depth - 1)]
        if self.chance(0.3):
            body.insert(self.between(0, len(body)), If(self.exprs([]).test(1), (self.pick((Break(), Continue())),)))
        if self.chance(0.4):
            body += self.top(depth - 1)
        self.outer.pop()
        start, stop = Const(self.between(-1, 1)), Const(self.between(0, 4))
        if self.chance(0.3):
            return PipelinedFor(var, start, stop, tuple(body), self.between(0, 3))
        return For(var, start, stop, tuple(body), 1, self.pick(("serial", "unroll")))

    # ------------------------------------------------------------------------------------------ a nest
    def nest(self) -> list[Stmt]:
        rank = self.pick((1, 1, 2, 2, 2, 3))
        self.loops = [self.var("ijk"[n]) for n in range(rank)]
        self.extents = self.sizes[:rank]
        order = list(range(rank))
        self.rng.shuffle(order)
        self.extents = [self.extents[d] for d in order]
        self.perm_of = dict(zip(self.loops, [self.perms[d] if d < 2 else None for d in order], strict=True))
        self.own, self.private = {}, []
        kept = len(self.lets)
        extents = [self.dim(n) if self.chance(0.15) else Const(n) for n in self.extents]
        if self.chance(0.05):
            extents[0] = Const(0)
        before: list[Stmt] = []
        if self.chance(0.25):
            scope = self.pick(("var", "local"))
            buffer = self.tile([1 if scope == "var" else self.between(1, 4)], self.pick(("float32", "int32", "float16", "int64", "uint8")), scope)
            self.tiles.append(buffer)
            self.private.append(buffer)
            self.bounds[buffer.name] = float("inf")
            value = const(self.between(0, 3), buffer.type)
            before += [Store(buffer, (Const(n),), value) for n in range(self.size_of(buffer)[0])]
        body = [self.inner_loop(2)] if self.chance(0.1) else self.inside(2)
        if self.chance(0.15):
            body = [If(self.guard(self.exprs(self.loops)), tuple(body))]
        del self.lets[kept:]
        self.tiles = [t for t in self.tiles if t not in self.private]
        self.case_private = getattr(self, "case_private", []) + self.private
        loops, self.loops = self.loops, []
        private, self.private = self.private, []
        return [*before, ParallelFor(tuple(loops), tuple(extents), tuple(body))]

    def launch(self, body, allocs=(), grid=(), **more):
        super().launch(body, [*allocs, *getattr(self, "case_private", [])], grid, **more)

    def inside(self, depth: int) -> list[Stmt]:
        out: list[Stmt] = []
        kept = len(self.lets)
        for _ in range(self.pick((1, 1, 1, 2, 2, 3))):
            out += self.one(depth)
        del self.lets[kept:]
        return out

    def one(self, depth: int) -> list[Stmt]:
        e = self.exprs(self.loops)
        what = self.rng.random()
        if what < 0.15:
            var = self.var("x", self.pick(("float32", "int32", "int64", "float16", "bool", "int8")))
            value, size = e.value(var.type, 2)
            self.lets.append((var, size))
            return [Let(var, value)]
        if depth and what < 0.35:
            return [If(self.guard(e), tuple(self.inside(depth - 1)), tuple(self.inside(depth - 1)) if self.chance(0.3) else ())]
        if depth and what < 0.43:
            return [self.inner_loop(depth)]
        if self.private and what < 0.6:
            buffer = self.pick(self.private)
            value, _ = e.value(buffer.type, 2)
            if buffer.type.is_float:
                value = clamp(value)
            return [Store(buffer, (Const(self.between(0, self.size_of(buffer)[0] - 1)),), value)]
        if what < 0.5:
            return self.atomic(e)
        return self.store(e)

    def guard(self, e: Exprs) -> Expr:
        if self.chance(0.3):
            return e.test(1)
        var = self.pick(self.loops)
        b = self.pick([*self.case.dims, Const(self.between(-1, 12)), *self.outer])
        if self.chance(0.3):
            b = self.pick([Cast(v, DType("int64")) if v.type != "int64" else v for v, _ in self.lets if v.type.is_int] or [b])
        elif self.chance(0.3):
            other = self.pick((self.wild, *self.perms))
            b = Cast(Load(other, (self.place(self.size_of(other)[0]),)), DType("int64"))
        return Binary(self.pick(("lt", "lt", "le", "ge", "gt")), e.index(var), b)

    def inner_loop(self, depth: int) -> Stmt:
        var = self.var("r")
        self.outer.append(var)
        for root in list(self.own):
            self.bounds[self.own[root][0].name] = float("inf")
        for b in (*self.outputs, *self.tiles):
            self.bounds[b.name] = float("inf")
        body = self.inside(depth - 1)
        if self.chance(0.3):
            body = [If(self.guard(self.exprs([*self.loops, var])), tuple(body))]
        elif self.chance(0.25):
            body.insert(self.between(0, len(body)), If(self.exprs([*self.loops, var]).test(1), (self.pick((Break(), Continue())),)))
        self.outer.pop()
        stop: Expr = Const(self.between(0, 4)) if self.chance(0.7) else Binary("floormod", self.pick([*self.loops, *self.outer]), Const(4))
        return For(var, Const(self.pick((0, 0, 1))), stop, tuple(body), 1, self.pick(("serial", "unroll", "vectorized")))

    def atomic(self, e: Exprs) -> list[Stmt]:
        """A counter that many iterations bump."""
        buffer = self.pick((*self.outputs, *self.tiles))
        if buffer.root.name in self.own or buffer.type.bits < 8 or buffer.type.is_bool or buffer.type.is_float and buffer.type.bits < 32:
            return []
        places = [Cast(e.value(DType("int32"), 1)[0], DType("int64")) for _ in range(buffer.rank)]
        index = tuple(Binary("floormod", at, Const(n + self.pick((0, 1)))) for at, n in zip(places, self.size_of(buffer), strict=True))
        self.own[buffer.root.name] = (buffer, ())  # nothing else may touch it in this nest
        value, _ = e.value(buffer.type, 1)
        if buffer.type.is_float:
            value = clamp(value, 2)
        op = self.pick(("add", "add", "max", "min") + (() if buffer.type.is_float else ("or", "xor", "and")))
        one = tuple(Const(1) for _ in index)
        return [Atomic(op, Region(buffer, index, one), value)]

    def store(self, e: Exprs) -> list[Stmt]:
        choices = [b for b in (*self.outputs, *self.tiles) if b.rank >= len(self.loops)]
        choices = [b for b in choices if b.root.name not in self.own or (self.own[b.root.name][0] == b and self.own[b.root.name][1])]
        if not choices:
            return []
        buffer = self.pick(choices)
        if buffer.root.name not in self.own:
            self.own[buffer.root.name] = (buffer, self.own_index(buffer))
        index = self.own[buffer.root.name][1]
        value, size = e.value(buffer.type, self.pick((1, 2, 3)))
        if buffer.type.is_float and size > EXACT[buffer.type] / 4:
            value, size = clamp(value), 3
        self.bounds[buffer.name] = max(self.bounds[buffer.name], size)
        return [Store(buffer, index, value)]

    def own_index(self, buffer: Buffer) -> tuple[Expr, ...]:
        """An index that differs between iterations: a different one of its parts belongs to every loop variable."""
        places = self.rng.sample(range(buffer.rank), len(self.loops))
        size = self.size_of(buffer)
        index: list[Expr] = [Const(self.between(0, n - 1)) for n in size]
        for d, var in zip(places, self.loops, strict=True):
            index[d] = self.moved(var)
        return tuple(index)

    def moved(self, var: Var) -> Expr:
        """An injective function of a loop variable."""
        match self.between(0, 9):
            case 0:
                return Binary("add", var, Const(self.between(-2, 3)))
            case 1:
                return Binary("add", Binary("mul", self.pick(self.blocks), Const(4)), var)
            case 2:
                return Binary("sub", Const(self.between(0, 8)), var)
            case 3:
                return Binary("mul", var, Const(2))
            case 4 if self.perm_of[var] is not None:
                return Cast(Load(self.perm_of[var], (var,)), DType("int64"))
            case _:
                return var

    # ------------------------------------------------------------------------------------------ reads
    def exprs(self, loops: list[Var]) -> Exprs:
        return Exprs(self, self.leaf, [*loops, *self.outer])

    loops: list[Var] = []
    private: list[Buffer] = []

    def leaf(self, dtype: DType) -> Sized | None:
        if not self.loops:
            self.own = {}
        choices: list[Sized] = [(v, s) for v, s in (*self.lets, *self.scalars)]
        for b in self.private:
            choices.append((Load(b, (Const(self.between(0, self.size_of(b)[0] - 1)),)), self.bounds[b.name]))
        for b, index in self.own.values():
            if index:
                choices.append((Load(b, index), self.bounds[b.name]))
        for b in self.rng.sample(self.inputs, min(2, len(self.inputs))):
            choices.append((Load(b, tuple(self.place(n) for n in self.size_of(b))), self.bounds[b.name]))
        same = [c for c in choices if c[0].dtype == dtype]
        x, size = self.pick(same) if same and self.chance(0.7) else self.pick(choices)
        if x.dtype == dtype:
            return x, size if dtype.is_float or dtype.is_bool else float("inf")
        if dtype.is_float and size > EXACT[dtype] or x.dtype.is_int and dtype.is_float:
            x, size = (clamp(x), 3) if not x.dtype.is_bool else (x, 1)
        return Cast(x, dtype), size if dtype.is_float else float("inf")

    def place(self, n: int) -> Expr:
        """Any index, perhaps outside; perhaps one that was loaded."""
        indices = [*self.loops, *self.loops, *self.outer]
        var = self.pick(indices)
        match self.between(0, 9):
            case 0:
                return Const(self.between(0, n - 1))
            case 1:
                return Binary("add", var, Const(self.between(-2, 2)))
            case 2:
                return Binary(self.pick(("floordiv", "floormod")), var, Const(self.pick((2, 3, 4))))
            case 3:
                return Cast(Load(self.wild, (var,)), DType("int64"))
            case 4:
                return Binary("add", Binary("mul", var, Const(self.pick((2, 3)))), self.pick(indices))
            case 5:
                return Binary("min", var, Const(max(0, n - 1)))
            case _:
                return var
