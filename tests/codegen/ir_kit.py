"""Short spellings to build tile IR by hand."""

from __future__ import annotations

from tileworkbench.base.dtypes import BOOL, INDEX, DType
from tileworkbench.ir.expr import Binary, Buffer, Cast, Const, Expr, Load, Reinterpret, Select, Unary, Var, const
from tileworkbench.ir.stmt import Kernel, Launch, Region, ScalarParam, Store, TensorParam, whole

F16, F32, F64, I32, I64 = (DType(n) for n in ("float16", "float32", "float64", "int32", "int64"))


def ix(value) -> Expr:
    return Const(value) if isinstance(value, int) else value


def _pair(a, b):
    if not isinstance(a, Expr):
        a = const(a, b.dtype)
    if not isinstance(b, Expr):
        b = const(b, a.dtype)
    return a, b


def op(name: str, a, b) -> Expr:
    return Binary(name, *_pair(a, b))


def add(a, b):
    return op("add", a, b)


def sub(a, b):
    return op("sub", a, b)


def mul(a, b):
    return op("mul", a, b)


def lt(a, b):
    return op("lt", a, b)


def ge(a, b):
    return op("ge", a, b)


def both(a, b):
    return Binary("and", a, b)


def tensor(name: str, shape, dtype="float32", **kw) -> Buffer:
    return Buffer(name, tuple(ix(d) for d in shape), DType(dtype), "global", **kw)


def tile(name: str, shape, dtype="float32", scope="shared", **kw) -> Buffer:
    return Buffer(name, tuple(ix(d) for d in shape), DType(dtype), scope, **kw)


def at(buffer: Buffer, *indices) -> Load:
    return Load(buffer, tuple(ix(i) for i in indices))


def put(buffer: Buffer, *rest) -> Store:
    *indices, value = rest
    return Store(buffer, tuple(ix(i) for i in indices), value if isinstance(value, Expr) else const(value, buffer.type))


def box(buffer: Buffer, starts, extents) -> Region:
    return Region(buffer, tuple(ix(s) for s in starts), tuple(ix(e) for e in extents))


def block(grid, block_vars, body, allocs=(), threads=(128,), thread_vars=(), threads_used=False) -> Launch:
    return Launch(tuple(ix(g) for g in grid), tuple(block_vars), threads, tuple(thread_vars), tuple(allocs), tuple(body), threads_used)


def kernel(name, buffers, body, dims=(), scalars=(), workspaces=(), imports=()) -> Kernel:
    params = (*(TensorParam(b) for b in buffers), *(ScalarParam(v) for v in scalars))
    return Kernel(name, params, tuple(dims), tuple(workspaces), tuple(body), tuple(imports))


__all__ = [n for n in dir() if not n.startswith("_")] + ["BOOL", "INDEX", "Cast", "Reinterpret", "Select", "Unary", "Var", "whole"]
