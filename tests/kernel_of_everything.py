"""One kernel with every statement, every parameter kind and every buffer property, for tests of the IR's tools."""

from __future__ import annotations

import math

from handmade import BX, TX, I, J, K, add, at, box, buf, copy, launch, mul, num, op, par, put, shared, whole

from tileworkbench.base.dtypes import FLOAT32, DType
from tileworkbench.ir.expr import AddressOf, Buffer, CallExtern, Const, Var
from tileworkbench.ir.node import replace
from tileworkbench.ir.stmt import (
    Assert,
    Atomic,
    Break,
    Collective,
    Continue,
    Evaluate,
    Fill,
    For,
    Gemm,
    If,
    Kernel,
    Let,
    PipelinedFor,
    Print,
    Reduce,
    Return,
    ScalarParam,
    Scan,
    Sync,
    TensorParam,
    While,
)

N, S = Var("n"), Var("scale", FLOAT32)


def everything() -> Kernel:
    """A kernel with every statement, every parameter kind and every buffer property. Nonsense, but valid."""
    by = Var("by")
    a = buf("A", N, 64, dtype="float16", safe_value=-1.0)
    b = buf("B", 64, 64, strides=(Const(128), Const(1)))
    flags = buf("flags", N, dtype="int32")
    w = buf("W", N, 4)
    flat = Buffer("flat", (mul(N, 64),), DType("float16"), view_of=a)
    s, t, u = shared("s", 64, 64, dtype="float16"), shared("t", 64, 64), shared("u", 64)
    v = Buffer("v", (Const(4096),), DType("int16"), "shared", view_of=s, offset=Const(0))
    c, n = buf("c", 1, dtype="int32", scope="var"), buf("loc", 4, scope="local")
    old, row, lane, word = Var("old", DType("int32")), Var("row"), Var("lane", DType("uint32")), Var("word", DType("int32"))
    loop = (
        copy(box(a, (mul(by, 64), 64), (0, 64)), s),
        replace(copy(b, t), is_async=True),
        Gemm(whole(s), whole(s), whole(t), True, False, op("eq", K, 0), "full_row"),
        If(op("gt", K, 3), (Break(),), (Continue(),)),
    )
    body = (
        Let(row, add(mul(BX, 64), TX)),
        Fill(whole(t), num(0)),
        PipelinedFor(K, Const(0), op("floordiv", N, 64), loop, 2, (0, 1), (0, 1)),
        Reduce("max", whole(t), whole(u), 1, False, True),
        Scan("sum", whole(t), whole(t), 1, True),
        par((I, J), (64, 64), put(t, (I, J), op("max", mul(at(t, I, J), S), 0.0)), put(v, I, 3)),
        Atomic("add", box(flags, row), Const(1, old.type), old, "seq_cst"),
        Atomic("max", box(w, BX, (0, 4)), box(u, (0, 4))),
        put(c, 0, old),
        While(op("lt", at(c, 0), 9), (put(c, 0, add(at(c, 0), 1)), If(op("eq", TX, 1), (Return(),)))),
        For(Var("m"), Const(10), Const(0), (put(n, op("floormod", Var("m"), 4), num(math.inf)),), -2, "unroll"),
        Collective("shfl_xor", word, (at(c, 0), Const(16)), 16),
        Collective("ballot", lane, (op("ne", word, 0),)),
        Sync(),
        Assert(op("ge", row, 0), "row >= 0"),
        Print("t = ", (row, at(u, 0)), t),
        Evaluate(CallExtern("f", (AddressOf(flat, (row,)), S), FLOAT32)),
        copy(box(s, (0, 32), (0, 64)), box(a, (mul(by, 64), 32), (0, 64))),
    )
    start = launch((op("floordiv", N, 64), 2), body, (s, t, u, v, c, n), (64, 2), True, hints=(("use_swizzle", "10"),))
    params = (TensorParam(a), TensorParam(b, True, ("M", "")), TensorParam(flags), ScalarParam(S, 0.5))
    host = (Let(Var("blocks"), add(N, 1)), If(op("gt", Var("blocks"), 1), (start,)))
    return Kernel("everything", params, (N,), (w,), host, ("int f(void);",), (("fast_math", "1"),))
