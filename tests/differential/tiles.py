"""Random reductions, scans, matrix products and atomics on whole tiles and parts of them."""

from __future__ import annotations

from differential.cases import INTS, Maker

from tileworkbench.base.dtypes import BOOL, DType
from tileworkbench.ir.expr import Binary, Buffer, Cast, Const, Expr, Load, const
from tileworkbench.ir.stmt import Atomic, Copy, Fill, Gemm, ParallelFor, Reduce, Region, Scan, Stmt, Store, whole

REDUCTIONS = ("sum", "abssum", "max", "min", "absmax", "bitand", "bitor", "bitxor", "any", "all")
GEMM_TYPES = (
    ("float32", "float32", "float32"), ("float16", "float16", "float32"), ("bfloat16", "bfloat16", "float32"), ("float64", "float64", "float64"),
    ("float16", "float16", "float16"), ("int8", "int8", "int32"), ("uint8", "int8", "int32"), ("float8_e4m3fn", "float8_e5m2", "float32"),
    ("float16", "float32", "float32"), ("bfloat16", "bfloat16", "bfloat16"), ("int32", "int32", "int32"), ("int16", "int16", "int32"),
    ("int8", "int8", "int8"), ("float32", "float32", "float16"), ("int64", "int64", "int64"), ("uint8", "uint8", "uint32"), ("int4", "int4", "int32"),
    ("float8_e4m3fn", "float8_e4m3fn", "float16"), ("int8", "float16", "float32"), ("float32", "float32", "int32"),
)  # fmt: skip


class TileMaker(Maker):
    """Operands in tiles, tensors or parts of them; results copied out."""

    tiles: list[Buffer]
    before: list[Stmt]

    def start(self):
        self.tiles, self.before = [], []
        self.bx = self.var("bx")

    def done(self, body: list[Stmt]):
        for t in self.tiles:
            body.append(Copy(whole(t), whole(self.tensor(self.size_of(t), t.type))))
        self.launch([*self.before, *body], self.tiles, [(self.bx, 1)])
        return self.case

    def operand(self, extents: list[int], kind: str, wild: bool = False, fragment: bool = False) -> Region:
        """A region of these extents with its own random numbers: a tile, part of a tile, a region of a tensor that may stick out."""
        dtype = DType(kind)
        fill = self.any_data if wild else (lambda shape, t: self.data(shape, t, 3))
        how = "tile" if fragment else self.pick(("tile", "tile", "part", "part", "tensor", "lead", "strided"))
        lead = [1] if how == "lead" else []
        shape = [n if how in ("tile", "strided") else n + self.between(0, 3) for n in extents]
        steps = None
        if how == "strided" and dtype.bits >= 8 and len(shape) == 2:
            steps = tuple(Const(s) for s in self.pick(((1, shape[0]), (shape[1] + 2, 1))))
        shape = [self.between(1, 3) for _ in lead] + shape
        tensor = self.tensor(shape, kind, None, fill(shape, dtype))
        spare = [n - e for n, e in zip(shape, [*lead, *extents], strict=True)]
        if how == "tensor":
            starts = [Const(self.between(-2 if self.chance(0.3) else 0, s + (2 if self.chance(0.3) else 0))) for s in spare]
            return Region(tensor, tuple(starts), tuple(Const(e) for e in extents))
        tile = self.tile(shape, kind, strides=steps)
        self.tiles.append(tile)
        self.before.append(Copy(whole(tensor), whole(tile)))
        starts = [Const(self.between(0, s)) for s in spare]
        if how == "part" and self.chance(0.4):
            starts = [Binary("add", s, Binary("mul", self.bx, Const(5))) for s in starts]
        return Region(tile, tuple(starts), tuple(Const(e) for e in (*lead, *extents)))

    def reduce(self):
        self.start()
        body: list[Stmt] = []
        for _ in range(self.between(1, 4)):
            op = self.pick(REDUCTIONS)
            floats = ("float32", "float32", "float64", "float16", "bfloat16", "float8_e5m2")
            kinds = (*INTS, "int4", "uint4", "bool") if op.startswith("bit") else (*floats, *INTS)
            kind = self.pick(kinds)
            other = kind if self.chance(0.5) else self.pick(kinds)
            if op in ("any", "all"):
                kind = self.pick(("bool", "float32", "int32", "uint8", "float16", "int64"))
                other = self.pick(("bool", "int32", "uint8", "float32", kind))
            if kind == "bool" and op not in ("any", "all") or other == "bool" and op not in ("any", "all"):
                other = kind
            extents = [self.pick((1, 2, 3, 5, 7, 8, 16, 17, 31, 64)) for _ in range(self.pick((1, 2, 2, 2, 3)))]
            dim = self.between(0, len(extents) - 1)
            wild = not op.endswith("sum") and self.chance(0.5)
            rest = [n for d, n in enumerate(extents) if d != dim] or [1]
            if self.chance(0.3) and len(extents) > 1:
                rest = [1 if d == dim else n for d, n in enumerate(extents)]
            src, dst = self.operand(extents, kind, wild), self.operand(rest, other, wild and self.chance(0.5))
            while len(src.extents) != len(extents):
                src = self.operand(extents, kind, wild)
            while len(dst.extents) != len(rest):
                dst = self.operand(rest, other)
            body.append(Reduce(op, src, dst, dim, self.chance(0.6), self.chance(0.3) and op in ("max", "min", "absmax")))
        return self.done(body)

    def scan(self):
        self.start()
        body: list[Stmt] = []
        for _ in range(self.between(1, 3)):
            op = self.pick(("sum", "max", "min"))
            kind = self.pick(("float32", "float64", "float16", "int32", "int8", "uint16", "int64", "bfloat16"))
            extents = [self.pick((1, 2, 3, 5, 8, 16, 17, 31)) for _ in range(self.pick((1, 2, 2, 3)))]
            src = self.operand(extents, kind, op != "sum" and self.chance(0.5))
            while len(src.extents) != len(extents):
                src = self.operand(extents, kind)
            dst = src
            if self.chance(0.6):
                other = kind if self.chance(0.6) else self.pick(("float32", "int32", "float64", "int16"))
                dst = self.operand(extents, other)
                while len(dst.extents) != len(extents):
                    dst = self.operand(extents, other)
            body.append(Scan(op, src, dst, self.between(0, len(extents) - 1), self.chance(0.5)))
        return self.done(body)

    def gemm(self):
        self.start()
        body: list[Stmt] = []
        for _ in range(self.between(1, 2)):
            a, b, c = self.pick(GEMM_TYPES)
            m, n, k = (self.pick((1, 2, 3, 5, 8, 13, 16, 17, 24, 32, 33, 48, 64, 100)) for _ in range(3))
            ta, tb = self.chance(0.4), self.chance(0.4)
            x = self.operand([k, m] if ta else [m, k], a)
            y = self.operand([n, k] if tb else [k, n], b)
            z = self.operand([m, n], c)
            clear: Expr = const(self.chance(0.5), BOOL)
            if self.chance(0.3):
                clear = Binary("eq", self.bx, Const(self.between(0, 1)))
            if self.chance(0.3):
                clear = Binary("lt", Load(self.tensor([1], "int32"), (Const(0),)), const(1, DType("int32")))
            body.append(Gemm(x, y, z, ta, tb, clear))
            if self.chance(0.3):
                body.append(Gemm(x, y, z, ta, tb, const(False, BOOL)))
        return self.done(body)

    def alias(self):
        """Operations whose result lies in their own operand."""
        self.start()
        kind = self.pick(("float32", "float64", "int32", "float16"))
        n = self.pick((3, 4, 8, 16, 17))
        whole_ = self.operand([n, n], kind, fragment=True)
        body: list[Stmt] = []
        what = self.between(0, 3)
        other = self.operand([n, n], kind)
        while len(other.extents) != 2:
            other = self.operand([n, n], kind)
        flag = const(self.chance(0.5), BOOL)
        if what == 0:
            body.append(Gemm(whole_, other, whole_, self.chance(0.3), self.chance(0.3), flag))
        elif what == 1:
            body.append(Gemm(other, whole_, whole_, self.chance(0.3), self.chance(0.3), flag))
        elif what == 2:
            dim, at = self.between(0, 1), self.between(0, n - 1)
            starts, extents = [Const(0), Const(0)], [Const(n), Const(n)]
            starts[dim], extents[dim] = Const(at), Const(1)
            body.append(Reduce(self.pick(("sum", "max", "min")), whole_, Region(whole_.buffer, tuple(starts), tuple(extents)), dim, self.chance(0.5)))
        else:
            size = n - 1
            first = [Const(self.between(0, 1)) for _ in range(2)]
            second = [Const(self.between(0, 1)) for _ in range(2)]
            box = (Const(size), Const(size))
            src, dst = Region(whole_.buffer, tuple(first), box), Region(whole_.buffer, tuple(second), box)
            body.append(Scan(self.pick(("sum", "max")), src, dst, self.between(0, 1), self.chance(0.5)))
        return self.done(body)

    def atomic(self):
        """Sums and maxima of many blocks in one tensor, by element and by tile, with values that do not depend on the order."""
        self.start()
        blocks = self.between(1, 4)
        bx = self.bx
        kind = self.pick(("float32", "float64", "int32", "int64", "uint32", "float16", "bfloat16", "uint64", "int8", "int16", "uint8", "uint16"))
        dtype = DType(kind)
        shape = [self.between(1, 5), self.pick((1, 3, 8, 17))]
        target = self.tensor(shape, kind, None, self.data(shape, dtype, 2))
        tile = self.tile(shape, kind)
        self.tiles.append(tile)
        self.before += [Copy(whole(self.tensor(shape, kind, None, self.data(shape, dtype, 2))), whole(tile))]
        op = self.pick(("add", "max", "min", *(() if dtype.is_float else ("or", "and", "xor"))))
        body: list[Stmt] = []
        region = Region(target, tuple(Const(self.between(-1, 1)) for _ in shape), tuple(Const(n) for n in shape))
        source: Region = whole(tile)
        if self.chance(0.3):
            source = whole(self.tensor(shape, self.pick(("float32", "int8", kind))))
        body.append(Atomic(op, region, source))
        start = self.data([1], DType("int32"))
        counter, first = self.tensor([1], "int32", None, start), self.tensor([1], "int32", None, start)
        seen = self.tensor([64], "int32", None, self.data([64], DType("int32"), 0))
        i, j = self.var("i"), self.var("j")
        one = tuple(Const(1) for _ in shape)
        value = Load(tile, (i, j))
        single = Atomic(op, Region(target, (Binary("sub", i, Const(self.between(0, 1))), j), one), value)
        body.append(ParallelFor((i, j), tuple(Const(n) for n in shape), (single,)))
        old = self.var("old", "int32")
        k = self.var("k")
        # every ticket is drawn once, whatever the order
        body.append(ParallelFor((k,), (Const(7),), (
            Atomic("add", Region(counter, (Const(0),), (Const(1),)), const(1, DType("int32")), old),
            Store(seen, (Cast(Binary("sub", old, Load(first, (Const(0),))), DType("int64")),), const(1, DType("int32"))),
        )))  # fmt: skip
        if self.chance(0.5):
            got = self.var("got", kind)
            o = self.tensor([blocks], kind)
            body += [Atomic("load", Region(self.tensor([2], kind), (Const(self.between(-1, 2)),), (Const(1),)), None, got), Store(o, (bx,), got)]
        if self.chance(0.5):
            local = self.tile([5], "int32", "shared")
            p = self.var("p")
            body += [Fill(whole(local), const(0, DType("int32")))]
            body += [ParallelFor((p,), (Const(29),), (
                Atomic("add", Region(local, (Binary("floormod", Binary("mul", p, p), Const(6)),), (Const(1),)), const(1, DType("int32"))),
            ))]  # fmt: skip
            body.append(Copy(whole(local), Region(self.tensor([blocks, 5], "int32"), (bx, Const(0)), (Const(1), Const(5)))))
            self.tiles.append(local)
        self.launch([*self.before, *body], self.tiles, [(bx, blocks)])
        return self.case
