"""Random kernels of visible threads: exchange through shared memory, shuffles, votes, branches and loops that threads take apart.

Threads write elements of their own. They read those of others only where control flow is uniform; what they then see is what lockstep says,
with or without a barrier.
"""

from __future__ import annotations

from differential.cases import Maker
from differential.exprs import EXACT, Exprs, Sized, clamp

from tileworkbench.base.dtypes import DType
from tileworkbench.ir.expr import Binary, Buffer, Cast, Const, Expr, Load, Var, const
from tileworkbench.ir.stmt import Atomic, Break, Collective, Continue, Copy, Fill, For, If, Let, ParallelFor, Region, Stmt, Store, Sync, While, whole

TYPES = ("float32", "float32", "int32", "int32", "float16", "int64", "uint8", "uint32", "float64", "bool", "int8", "bfloat16")


class ThreadMaker(Maker):
    """One launch of one or two blocks."""

    def make(self):
        self.blocks = self.pick((1, 2, 3))
        bx, tx, ty = self.var("bx"), self.var("tx"), self.var("ty")
        self.bx = bx
        if self.chance(0.25):
            self.extents, self.lanes = self.pick(((8, 4), (16, 3), (5, 7))), (tx, ty)
            self.total = self.extents[0] * self.extents[1]
            self.thread: Expr = Binary("add", Binary("mul", ty, Const(self.extents[0])), tx)
        else:
            self.total = self.pick((32, 64, 40, 128, 7, 33))
            self.extents, self.lanes, self.thread = (self.total,), (tx,), tx
        self.exchange_ok = False
        self.lets: list[tuple[Var, float]] = []
        self.indices: list[Var] = [*self.lanes, bx]
        self.uniform: list[Var] = [bx]
        self.depth = 0
        self.inputs = [self.tensor([self.blocks, self.total], self.pick(TYPES)) for _ in range(self.between(1, 3))]
        self.vars = [self.tile([1], self.pick(TYPES), "var") for _ in range(self.between(1, 3))]
        self.locals = [self.tile([self.between(2, 4)], self.pick(TYPES), "local") for _ in range(self.between(0, 2))]
        self.shared = [self.tile([self.total], self.pick(TYPES), "shared") for _ in range(self.between(1, 2))]
        self.outs: list[Buffer] = []
        body: list[Stmt] = [Store(v, (Const(0),), const(self.between(0, 3), v.type)) for v in self.vars]
        for b in self.locals:
            body += [Store(b, (Const(n),), const(self.between(0, 3), b.type)) for n in range(self.size_of(b)[0])]
        for b in self.shared:
            body.append(Store(b, (self.thread,), self.value(b.type, 1)))
        self.exchange_ok = True  # every tile has values now
        body += self.block(3, True)
        for b in (*self.vars, *self.shared, *self.locals):
            at = self.thread if b.scope == "shared" else Const(0)
            if b.scope == "shared":
                body.append(Sync())
            body.append(Store(self.out(b.type), (bx, self.thread), Load(b, (at,))))
        self.launch(body, [*self.vars, *self.locals, *self.shared], [(bx, self.blocks)], threads=self.extents, lanes=self.lanes)
        return self.case

    def out(self, dtype: DType) -> Buffer:
        return self.tensor([self.blocks, self.total], dtype)

    def block(self, depth: int, uniform: bool) -> list[Stmt]:
        kept = len(self.lets)
        out: list[Stmt] = []
        for _ in range(self.between(1, 4 if depth == 3 else 3)):
            out += self.statement(depth, uniform)
        del self.lets[kept:]
        return out

    def statement(self, depth: int, uniform: bool) -> list[Stmt]:
        what = self.rng.random()
        if what < 0.12:
            var = self.var("x", self.pick(TYPES))
            value, size = self.exprs(uniform).value(var.type, 2)
            self.lets.append((var, size))
            return [Let(var, value)]
        if what < 0.24:
            return self.write_private(uniform)
        if what < 0.4:
            return self.write_shared(uniform)
        if what < 0.48 and uniform:
            return [Sync("block" if self.chance(0.8) else "warp")]
        if what < 0.58 and uniform:
            return self.collective()
        if what < 0.63:
            return [Store(self.out(DType(kind := self.pick(TYPES))), (self.bx, self.thread), self.value(DType(kind), 2, uniform))]
        if what < 0.7 and uniform:
            return self.whole_block()
        if what < 0.74:
            return self.atomic(uniform)
        if depth == 0:
            return self.write_private(uniform)
        if what < 0.86:
            return self.branch(depth, uniform)
        if what < 0.96:
            return self.loop(depth, uniform)
        return self.loop_while(depth, uniform)

    # ------------------------------------------------------------------------------------------ values
    def exprs(self, uniform: bool) -> Exprs:
        return Exprs(self, lambda dtype: self.leaf(dtype, uniform), self.indices)

    def value(self, dtype: DType, depth: int, uniform: bool = False) -> Expr:
        x, size = self.exprs(uniform).value(dtype, depth)
        if dtype.is_float and size > EXACT[dtype] / 4:
            return clamp(x)
        return x

    def leaf(self, dtype: DType, uniform: bool) -> Sized | None:
        choices: list[Sized] = list(self.lets)
        big = float("inf")
        choices += [(Load(v, (Const(0),)), big) for v in self.vars]
        choices += [(Load(b, (Const(self.between(0, self.size_of(b)[0] - 1)),)), big) for b in self.locals]
        choices += [(Load(b, (self.bx, self.thread)), 4) for b in self.inputs]
        if self.exchange_ok:
            choices += [(Load(b, (self.other() if uniform else self.thread,)), big) for b in self.shared]
        same = [c for c in choices if c[0].dtype == dtype]
        x, size = self.pick(same) if same and self.chance(0.7) else self.pick(choices)
        if x.dtype.is_float and size > 4:
            x, size = clamp(x), 3
        if x.dtype == dtype:
            return x, size
        if dtype.is_float and not x.dtype.is_bool:
            x, size = clamp(x), 3
        return Cast(x, dtype), size if dtype.is_float else big

    def other(self) -> Expr:
        match self.between(0, 4):
            case 0:
                return Binary("floormod", Binary("add", self.thread, Const(self.between(1, self.total))), Const(self.total))
            case 1:
                return Binary("sub", Const(self.total - 1), self.thread)
            case 2:
                return Binary("sub", self.thread, Const(1))
            case 3:
                return Const(self.between(0, self.total - 1))
            case _:
                return self.thread

    # ------------------------------------------------------------------------------------------ statements
    def write_private(self, uniform: bool) -> list[Stmt]:
        b = self.pick((*self.vars, *self.locals))
        index: Expr = Const(self.between(0, self.size_of(b)[0] - 1))
        if b.scope == "local" and self.chance(0.3):
            index = Binary("floormod", self.pick(self.indices), Const(self.size_of(b)[0]))
        return [Store(b, (index,), self.value(b.type, 2, uniform))]

    def write_shared(self, uniform: bool) -> list[Stmt]:
        b = self.pick(self.shared)
        at = self.thread
        if uniform and self.chance(0.3):
            shifted = Binary("floormod", Binary("add", self.thread, Const(3)), Const(self.total))
            at = self.pick((Binary("sub", Const(self.total - 1), self.thread), shifted))
        return [Store(b, (at,), self.value(b.type, 2, uniform))]

    def collective(self) -> list[Stmt]:
        op = self.pick((
            "shfl", "shfl_xor", "shfl_up", "shfl_down", "any", "all", "ballot", "block_any", "block_all", "block_count", "warp_sum", "warp_max",
            "warp_min", "block_sum", "block_max", "block_min",
        ))  # fmt: skip
        width = 32
        if op.startswith("shfl"):
            width = self.pick((32, 32, 16, 8, 4))
            kind = DType(self.pick([t for t in TYPES if t != "bool"]))
            lane = Const(self.between(0, 9)) if self.chance(0.6) else Cast(clamp(self.value(DType("int32"), 1, True), 9), DType("int64"))
            args: tuple[Expr, ...] = (self.value(kind, 1, True), Cast(lane, DType("int32")))
        elif op in ("any", "all", "ballot", "block_any", "block_all", "block_count"):
            kind = DType({"ballot": "uint32", "block_count": "int32"}.get(op, "bool"))
            args = (self.exprs(True).test(1),)
        else:
            kind = DType(self.pick(("float32", "int32", "int64", "float64", "uint32")))
            x = self.value(kind, 1, True)
            args = (clamp(x) if kind.is_float else x,)
        var = self.var("c", kind)
        self.lets.append((var, float("inf")))
        return [Collective(op, var, args, width)]

    def whole_block(self) -> list[Stmt]:
        """Work of the block as a whole, on shared tiles."""
        b = self.pick(self.shared)
        source = self.tensor([self.total], self.pick((b.type, "float32", "int32")))
        match self.between(0, 3):
            case 0:
                return [Copy(whole(source), whole(b))]
            case 1:
                return [Fill(whole(b), const(self.between(0, 3), b.type))]
            case 2:
                return [Copy(whole(b), Region(self.out(b.type), (self.bx, Const(0)), (Const(1), Const(self.total))))]
            case _:
                i = self.var("p")
                x = Load(source, (i,))
                value: Expr = x if source.type == b.type else Cast(clamp(x) if not x.dtype.is_bool else x, b.type)
                if not b.type.is_bool:
                    held = Load(b, (i,))
                    value = Binary("add", clamp(held), value) if b.type.is_float else Binary("bitxor", held, value)
                return [ParallelFor((i,), (Const(self.total),), (Store(b, (i,), value),))]

    def atomic(self, uniform: bool) -> list[Stmt]:
        kind = DType(self.pick(("int32", "float32", "int64", "uint32")))
        value = self.value(kind, 1, uniform)
        if kind.is_float:
            value = clamp(value, 2)
        place = Binary("floormod", Binary("mul", self.thread, self.thread), Const(5))
        target = self.tensor([4], kind)
        return [Atomic(self.pick(("add", "max", "min")), Region(target, (place,), (Const(1),)), value)]

    def branch(self, depth: int, uniform: bool) -> list[Stmt]:
        if uniform and self.chance(0.4):  # all threads of a block agree
            cond: Expr = Binary(self.pick(("lt", "eq", "ge")), self.pick(self.uniform), Const(self.between(0, 2)))
            return [If(cond, tuple(self.block(depth - 1, True)), tuple(self.block(depth - 1, True)) if self.chance(0.5) else ())]
        cond = self.exprs(False).test(1) if self.chance(0.6) else Binary("lt", self.thread, Const(self.between(0, self.total)))
        return [If(cond, tuple(self.block(depth - 1, False)), tuple(self.block(depth - 1, False)) if self.chance(0.5) else ())]

    def loop(self, depth: int, uniform: bool) -> list[Stmt]:
        var = self.var("k")
        apart = not uniform or self.chance(0.35)
        stop: Expr = Const(self.between(0, 4))
        if apart and self.chance(0.7):
            stop = Binary("floormod", self.thread, Const(self.between(1, 4)))
        elif not apart and self.chance(0.3):
            stop = Binary("add", self.pick(self.uniform), Const(1))
        self.indices.append(var)
        if not apart:
            self.uniform.append(var)
        body = self.block(depth - 1, not apart)
        if self.chance(0.3):
            if apart:
                test = self.exprs(False).test(1)
            else:
                test = Binary("eq", self.pick(self.uniform), Const(self.between(0, 3)))
            body.insert(self.between(0, len(body)), If(test, (self.pick((Break(), Continue())),)))
        self.indices.remove(var)
        if not apart:
            self.uniform.remove(var)
        start, step = Const(self.pick((0, 0, 0, 1, -1))), 1
        return [For(var, start, stop, tuple(body), step, self.pick(("serial", "unroll")))]

    def loop_while(self, depth: int, uniform: bool) -> list[Stmt]:
        """A counter of the thread's own, or of the block's, that runs down."""
        counter = self.tile([1], "int32", "var")
        self.extra = [*getattr(self, "extra", []), counter]
        apart = not uniform or self.chance(0.6)
        first = Cast(Binary("floormod", self.thread, Const(4)), counter.type) if apart else const(self.between(0, 3), counter.type)
        here = Load(counter, (Const(0),))
        body = self.block(depth - 1, not apart)
        down = Store(counter, (Const(0),), Binary("sub", here, const(1, counter.type)))
        return [Store(counter, (Const(0),), first), While(Binary("gt", here, const(0, counter.type)), (down, *body))]

    def launch(self, body, allocs=(), grid=(), **more):
        super().launch(body, [*allocs, *getattr(self, "extra", [])], grid, **more)
