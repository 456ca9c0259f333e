"""Kernels built by hand from IR nodes, and a counter that visits every point with plain Python: the oracle of the model's tests."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from itertools import product

from tileworkbench.base.dtypes import FLOAT16, FLOAT32, DType
from tileworkbench.base.span import Span
from tileworkbench.ir.expr import Binary, Buffer, Cast, Const, Expr, Load, Select, Unary, Var, const
from tileworkbench.ir.stmt import Copy, Fill, For, Gemm, If, Kernel, Launch, Let, ParallelFor, PipelinedFor, Reduce, Region, Store, TensorParam, whole


def c(value: int) -> Const:
    return Const(value)


def mul(a: Expr, b: int) -> Expr:
    return Binary("mul", a, Const(b))


def add(a: Expr, b: Expr) -> Expr:
    return Binary("add", a, b)


def line(n: int) -> Span:
    return Span("hand.py", n, 4, n, 9, text=f"    line {n}")


def buffer(name: str, shape: tuple[int, ...], dtype: DType = FLOAT32, scope: str = "global") -> Buffer:
    return Buffer(name, tuple(Const(d) for d in shape), dtype, scope)


def region(buf: Buffer, starts: tuple[Expr, ...], extents: tuple[int, ...]) -> Region:
    return Region(buf, starts, tuple(Const(e) for e in extents))


def gemm(m: int, n: int, k: int, bm: int, bn: int, bk: int, dtype: DType = FLOAT32) -> Kernel:
    """C = A @ B by tiles, ragged edges allowed."""
    a, b, out = buffer("A", (m, k), dtype), buffer("B", (k, n), dtype), buffer("C", (m, n))
    a_s, b_s, acc = buffer("A_s", (bm, bk), dtype, "shared"), buffer("B_s", (bk, bn), dtype, "shared"), buffer("acc", (bm, bn), scope="fragment")
    bx, by, ko = Var("bx"), Var("by"), Var("ko")
    loop = PipelinedFor(
        ko, c(0), c(-(-k // bk)),
        (
            Copy(region(a, (mul(by, bm), mul(ko, bk)), (bm, bk)), whole(a_s), span=line(3)),
            Copy(region(b, (mul(ko, bk), mul(bx, bn)), (bk, bn)), whole(b_s), span=line(4)),
            Gemm(whole(a_s), whole(b_s), whole(acc), span=line(5)),
        ),
        num_stages=2, span=line(2),
    )  # fmt: skip
    store = Copy(whole(acc), region(out, (mul(by, bm), mul(bx, bn)), (bm, bn)), span=line(6))
    body = (Fill(whole(acc), const(0.0, FLOAT32), span=line(1)), loop, store)
    grid = (c(-(-n // bn)), c(-(-m // bm)))
    launch = Launch(grid, (bx, by), (128,), (), (a_s, b_s, acc), body)
    return Kernel("gemm", (TensorParam(a), TensorParam(b), TensorParam(out, is_output=True)), (), (), (launch,))


def causal(seq: int, dim: int, block: int) -> Kernel:
    """The loop structure of causal attention: the key loop ends at the diagonal, and only masked elements are replaced."""
    q, k, out = buffer("Q", (seq, dim)), buffer("K", (seq, dim)), buffer("O", (seq, seq))
    q_s, k_s = buffer("Q_s", (block, dim), scope="shared"), buffer("K_s", (block, dim), scope="shared")
    s, top = buffer("S", (block, block), scope="fragment"), buffer("top", (block,), scope="fragment")
    bx, kb, i, j, row = Var("bx"), Var("kb"), Var("i"), Var("j"), Var("row")
    mask = ParallelFor(
        (i, j), (c(block), c(block)),
        (
            Let(row, add(mul(bx, block), i), span=line(5)),
            Store(s, (i, j), Select(
                Binary("ge", row, add(mul(kb, block), j)), Binary("mul", Load(s, (i, j)), const(0.5, FLOAT32)), const(-1e30, FLOAT32)), span=line(6)),
        ),
        span=line(5),
    )  # fmt: skip
    loop = For(
        kb, c(0), add(bx, c(1)),
        (
            Copy(region(k, (mul(kb, block), c(0)), (block, dim)), whole(k_s), span=line(3)),
            Gemm(whole(q_s), whole(k_s), whole(s), trans_b=True, clear=Const(True, DType("bool")), span=line(4)),
            mask,
            Reduce("max", whole(s), whole(top), 1, clear=False, span=line(7)),
            If(Binary("eq", kb, bx), (Copy(whole(s), region(out, (mul(bx, block), mul(kb, block)), (block, block)), span=line(9)),), span=line(8)),
        ),
        span=line(2),
    )  # fmt: skip
    load = Copy(region(q, (mul(bx, block), c(0)), (block, dim)), whole(q_s), span=line(1))
    launch = Launch((c(-(-seq // block)),), (bx,), (128,), (), (q_s, k_s, s, top), (load, loop))
    return Kernel("causal", (TensorParam(q), TensorParam(k), TensorParam(out)), (), (), (launch,))


def rows(m: int, n: int, block: int) -> Kernel:
    """out = exp(x - 1) / 3, element by element over a ragged grid, with the author's own guard."""
    x, out = buffer("x", (m, n), FLOAT16), buffer("out", (m, n))
    bx, i, j = Var("bx"), Var("i"), Var("j")
    at = (add(mul(bx, block), i), j)
    value = Binary("div", Unary("exp", Binary("sub", Cast(Load(x, at), FLOAT32), const(1.0, FLOAT32))), const(3.0, FLOAT32))
    body = (ParallelFor((i, j), (c(block), c(n)), (If(Binary("lt", at[0], c(m)), (Store(out, at, value, span=line(2)),), span=line(1)),)),)
    return Kernel("rows", (TensorParam(x), TensorParam(out)), (), (), (Launch((c(-(-m // block)),), (bx,), (128,), (), (), body),))


@dataclass
class Brute:
    """Counts by visiting every point; only what the kernels above use."""

    flops: Counter[str] = field(default_factory=Counter)
    special: Counter[str] = field(default_factory=Counter)
    read: Counter[str] = field(default_factory=Counter)
    write: Counter[str] = field(default_factory=Counter)
    lines: Counter[tuple[int, str]] = field(default_factory=Counter)
    touched: dict[str, set[tuple[str, tuple[int, ...]]]] = field(default_factory=dict)
    accesses: list[tuple[str, str, tuple[int, ...]]] = field(default_factory=list)  # every element, in order: (r or w, buffer, index)

    def body(self, body, env):
        for stmt in body:
            env = self.stmt(stmt, env) or env

    def stmt(self, s, env):
        match s:
            case Launch():
                spaces = [range(self.value(e, env)) for e in reversed(s.grid)]
                for at in product(*spaces):
                    self.body(s.body, {**env, **{v.name: b for v, b in zip(s.block_vars, reversed(at), strict=True)}})
            case For() | PipelinedFor():
                for v in range(self.value(s.start, env), self.value(s.stop, env), getattr(s, "step", 1)):
                    self.body(s.body, {**env, s.var.name: v})
            case ParallelFor():
                for at in product(*(range(self.value(e, env)) for e in s.extents)):
                    self.body(s.body, {**env, **{v.name: x for v, x in zip(s.vars, at, strict=True)}})
            case If():
                self.body(s.then if self.value(s.cond, env) else s.other, env)
            case Let():
                return {**env, s.var.name: self.value(s.value, env)}
            case Copy():
                self.region("r", s.src, env, s)
                self.region("w", s.dst, env, s)
            case Fill():
                self.region("w", s.dst, env, s)
            case Gemm():
                self.region("r", s.a, env, s)
                self.region("r", s.b, env, s)
                if not s.clear.value:
                    self.region("r", s.c, env, s)
                self.region("w", s.c, env, s)
                m, n = s.c.static_extents()
                k = s.a.static_extents()[0 if s.trans_a else 1]
                narrow, wide = s.a.buffer.type, s.c.buffer.type
                self.flops[str(wide) if narrow == wide else f"{narrow}>{wide}"] += 2 * m * n * k
            case Reduce():
                self.region("r", s.src, env, s)
                if not s.clear:
                    self.region("r", s.dst, env, s)
                self.region("w", s.dst, env, s)
                m, n = s.src.static_extents()
                self.special["min/max"] += m * n
            case Store():
                self.value(s.value, env, s)
                self.touch("w", s.buffer, tuple(self.value(i, env) for i in s.indices), s)
            case _:
                raise NotImplementedError(s)
        return None

    def region(self, kind, r, env, s):
        starts = [self.value(x, env) for x in r.starts]
        for at in product(*(range(e) for e in r.static_extents())):
            self.touch(kind, r.buffer, tuple(a + b for a, b in zip(starts, at, strict=True)), s)

    def touch(self, kind, buf, index, s):
        if all(0 <= i < d for i, d in zip(index, buf.static_shape(), strict=True)):
            (self.read if kind == "r" else self.write)[buf.name] += buf.type.nbytes
            self.lines[(s.span.line, buf.name)] += buf.type.nbytes
            self.accesses.append((kind, buf.name, index))
            if not buf.is_on_chip:
                self.touched.setdefault(buf.name, set()).add((kind, index))

    def value(self, e, env, s=None):
        match e:
            case Const():
                return e.value
            case Var():
                return env[e.name]
            case Cast():
                return self.value(e.x, env, s)
            case Load():
                self.touch("r", e.buffer, tuple(self.value(i, env) for i in e.indices), s)
                return 1.0
            case Select():
                return self.value(e.then if self.value(e.cond, env, s) else e.other, env, s)
            case Unary():
                if e.op == "exp":
                    self.special["exp"] += 1
                return self.value(e.x, env, s)
            case Binary():
                a, b = self.value(e.a, env, s), self.value(e.b, env, s)
                if e.a.dtype.is_float:
                    if e.op in ("add", "sub", "mul"):
                        self.flops[str(e.a.dtype)] += 1
                    elif e.op == "div":
                        self.special["div"] += 1
                return {"add": a + b, "sub": a - b, "mul": a * b, "div": a, "ge": a >= b, "lt": a < b, "eq": a == b}[e.op]
        raise NotImplementedError(e)


def brute(kernel: Kernel) -> Brute:
    out = Brute()
    out.body(kernel.body, {})
    return out
