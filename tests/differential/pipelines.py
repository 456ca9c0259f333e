"""Random loops whose copies may run ahead, alone, nested and one after the other, and tiles that may share bytes."""

from __future__ import annotations

from differential.cases import Maker

from tileworkbench.base.dtypes import DType
from tileworkbench.ir.expr import Binary, Buffer, Cast, Const, Expr, Load, Var, const
from tileworkbench.ir.stmt import Break, Continue, Copy, Fill, For, If, Let, ParallelFor, PipelinedFor, Region, Stmt, Store, whole

KINDS = ("float16", "float32", "int32", "int8", "float64")


class PipelineMaker(Maker):
    """Tiles of one shape, a sum of what goes through them, and sources that are read piece by piece."""

    def make(self):
        self.rows, self.columns = self.pick((2, 4, 5, 8)), self.pick((2, 4, 6, 8, 16))
        self.kind = self.pick(KINDS)
        shape = [self.rows, self.columns]
        self.tiles = [self.tile(shape, self.kind, "shared") for _ in range(self.between(1, 3))]
        self.sum = self.tile(shape, "int32")
        self.staged = self.tile(shape, "int32", "shared")
        self.sources = [self.source() for _ in range(self.between(1, 2))]
        self.pages = self.tensor([8], "int32", None, self.numbers.integers(-1, 4, 8).astype("int32"))
        self.result = self.tensor([24 * self.rows, self.columns], "int32")
        self.at = 0
        self.scalars = [self.tile([1], "int32", "var")]
        body: list[Stmt] = [Store(self.scalars[0], (Const(0),), Const(0, DType("int32"))), Fill(whole(self.sum), Const(0, self.sum.type))]
        body += [Fill(whole(t), const(1, t.type)) for t in self.tiles]
        for _ in range(self.between(1, 3)):
            body += self.part([], 1)
        body += self.out()
        self.launch(body, [*self.tiles, self.sum, self.staged, *self.scalars], threads=(self.pick((32, 64, 128)),))
        return self.case

    def source(self) -> Buffer:
        """Pieces below one another, some cut off at the end."""
        height = 6 * self.rows - self.pick((0, 0, 1))
        width = self.columns if self.chance(0.6) else 2 * self.columns + self.pick((0, 0, 2))
        shape: list = [self.dim(height) if self.chance(0.2) else height, self.dim(width) if self.chance(0.1) else width]
        safe = {"safe_value": 3} if self.chance(0.1) else {}
        return self.tensor(shape, self.kind if self.chance(0.9) else self.pick(KINDS), None, self.data([height, width], DType(self.kind)), **safe)

    def part(self, around: list[Var], depth: int) -> list[Stmt]:
        what = self.rng.random()
        if depth and what < 0.3:
            var = self.var("t")
            inside = [s for _ in range(self.between(1, 2)) for s in self.part([*around, var], depth - 1)]
            return [For(var, Const(0), Const(self.between(0, 3)), tuple(inside))]
        if what < 0.45 and not around:
            return self.out()
        return [self.loop(around)]

    def loop(self, around: list[Var]) -> Stmt:
        k = self.var("k")
        start: Expr = Const(self.pick((0, 0, 0, 1)))
        stop: Expr = self.dim(self.between(0, 6)) if self.chance(0.6) else Const(self.between(0, 6))
        body: list[Stmt] = []
        index: Expr = k
        if self.chance(0.3):
            page = self.var("page", "int32")
            body.append(Let(page, Load(self.pages, (Binary("floormod", k, Const(8)),))))
            index = Cast(page, DType("int64"))
        if self.chance(0.1):
            index = Cast(Load(self.scalars[0], (Const(0),)), DType("int64"))
        if around and self.chance(0.5):
            index = Binary("add", index, self.pick(around))
        for tile in self.rng.sample(self.tiles, self.between(1, min(2, len(self.tiles)))):
            steps = [Copy(self.piece(index), whole(tile)), self.use(tile, k)]
            if self.chance(0.15):
                steps.insert(self.between(0, 1), self.use(self.pick(self.tiles), k) if self.chance(0.3) else self.step())
            if self.chance(0.15):
                steps[0] = If(self.test(k, index), (steps[0],), (Copy(self.piece(k), whole(tile)),) if self.chance(0.7) else ())
            body += [If(self.test(k, index), tuple(steps))] if self.chance(0.25) else steps
        if self.chance(0.12):
            body.insert(self.between(0, len(body)), If(self.test(k, index), (self.pick((Break(), Continue())),)))
        if self.chance(0.2):
            body += self.out()
        if index is not k and self.chance(0.5):
            body.append(self.step())
        return PipelinedFor(k, start, stop, tuple(body), self.between(0, 4))

    def piece(self, index: Expr) -> Region:
        source = self.pick(self.sources)
        column = Const(0) if self.chance(0.7) else Const(self.pick((2, 4, self.columns)))
        return Region(source, (Binary("mul", index, Const(self.rows)), column), (Const(self.rows), Const(self.columns)))

    def test(self, k: Var, index: Expr) -> Expr:
        return self.pick((Binary("ge", index, Const(0)), Binary("ne", Binary("floormod", k, Const(3)), Const(1)), Binary("lt", k, Const(3))))

    def step(self) -> Stmt:
        one = Const(1, DType("int32"))
        return Store(self.scalars[0], (Const(0),), Binary("bitand", Binary("add", Load(self.scalars[0], (Const(0),)), one), Const(3, DType("int32"))))

    def use(self, tile: Buffer, k: Var) -> Stmt:
        i, j = self.var("i"), self.var("j")
        term = Cast(Load(tile, (i, j)), self.sum.type)
        if self.chance(0.3):
            term = Binary("mul", term, Binary("add", Cast(k, self.sum.type), Const(1, self.sum.type)))
        store = Store(self.sum, (i, j), Binary("add", Load(self.sum, (i, j)), term))
        return ParallelFor((i, j), (Const(self.rows), Const(self.columns)), (store,))

    def out(self) -> list[Stmt]:
        """The sum so far to memory, perhaps through a tile."""
        self.at += 1
        there = Region(self.result, (Const(self.at % 24 * self.rows), Const(0)), (Const(self.rows), Const(self.columns)))
        if self.chance(0.4):
            return [Copy(whole(self.sum), there)]
        return [Copy(whole(self.sum), whole(self.staged)), Copy(whole(self.staged), there)]
