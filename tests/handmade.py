"""Short ways to write tile IR by hand, for tests that must not depend on the frontend.

Python numbers become literals: of the other operand's dtype in `op`, of the index dtype in indices, starts and extents.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tileworkbench.base.dtypes import INDEX, DType
from tileworkbench.interpret import run
from tileworkbench.ir.expr import Binary, Buffer, Cast, Expr, Load, Select, Unary, Var, const
from tileworkbench.ir.stmt import Body, Copy, Kernel, Launch, ParallelFor, Region, ScalarParam, Store, TensorParam, whole
from tileworkbench.ir.verify import verify


def idx(value: Any) -> Expr:
    """An index expression."""
    return value if isinstance(value, Expr) else const(value, INDEX)


def num(value: Any, dtype: str = "float32") -> Expr:
    """A literal of `dtype`."""
    return const(value, DType(dtype))


def op(name: str, a: Any, b: Any) -> Binary:
    """`Binary`, with literals of the other side's dtype."""
    if not isinstance(a, Expr):
        a = const(a, b.dtype if isinstance(b, Expr) else INDEX)
    return Binary(name, a, b if isinstance(b, Expr) else const(b, a.dtype))


def add(a: Any, b: Any) -> Binary:
    return op("add", a, b)


def mul(a: Any, b: Any) -> Binary:
    return op("mul", a, b)


def cast(x: Expr, dtype: str) -> Expr:
    return Cast(x, DType(dtype))


def select(cond: Expr, then: Expr, other: Expr) -> Select:
    return Select(cond, then, other)


def un(name: str, x: Expr) -> Unary:
    return Unary(name, x)


def buf(name: str, *shape: Any, dtype: str = "float32", scope: str = "global", **more: Any) -> Buffer:
    return Buffer(name, tuple(idx(s) for s in shape), DType(dtype), scope, **more)


def shared(name: str, *shape: int, dtype: str = "float32") -> Buffer:
    return buf(name, *shape, dtype=dtype, scope="shared")


def at(buffer: Buffer, *indices: Any) -> Load:
    return Load(buffer, tuple(idx(i) for i in indices))


def put(buffer: Buffer, indices: Any, value: Any) -> Store:
    indices = indices if isinstance(indices, tuple) else (indices,)
    return Store(buffer, tuple(idx(i) for i in indices), value if isinstance(value, Expr) else const(value, buffer.dtype))


def box(buffer: Buffer, *dims: Any) -> Region:
    """A region; each dim is (start, extent) or an index."""
    pairs = [d if isinstance(d, tuple) else (d, 1) for d in dims]
    return Region(buffer, tuple(idx(s) for s, _ in pairs), tuple(idx(e) for _, e in pairs))


def copy(src: Any, dst: Any) -> Copy:
    return Copy(src if isinstance(src, Region) else whole(src), dst if isinstance(dst, Region) else whole(dst))


def par(loop_vars: Any, extents: Any, *body: Any) -> ParallelFor:
    loop_vars = loop_vars if isinstance(loop_vars, tuple) else (loop_vars,)
    extents = extents if isinstance(extents, tuple) else (extents,)
    return ParallelFor(loop_vars, tuple(idx(e) for e in extents), body)


def launch(grid: Any, body: Body, allocs: tuple[Buffer, ...] = (), threads: Any = (128,), used: bool = False, **more: Any) -> Launch:
    """A launch with block variables bx, by, bz and thread variables tx, ty, tz."""
    grid = grid if isinstance(grid, tuple) else (grid,)
    threads = threads if isinstance(threads, tuple) else (threads,)
    blocks, lanes = tuple(map(Var, ("bx", "by", "bz")[: len(grid)])), tuple(map(Var, ("tx", "ty", "tz")[: len(threads)]))
    return Launch(tuple(idx(g) for g in grid), blocks, threads, lanes, allocs, body, threads_used=used, **more)


def kernel(params: Any, *body: Any, dims: tuple[Var, ...] = (), workspaces: tuple[Buffer, ...] = (), name: str = "k") -> Kernel:
    """A kernel that has passed the verifier; buffers and variables in `params` become tensor and scalar parameters."""
    made = tuple(TensorParam(p) if isinstance(p, Buffer) else ScalarParam(p) if isinstance(p, Var) else p for p in params)
    built = Kernel(name, made, dims, workspaces, body)
    verify(built, "tile")
    return built


def one_block(params: Any, *body: Any, allocs: tuple[Buffer, ...] = (), threads: Any = (128,), used: bool = False, **more: Any) -> Kernel:
    """A kernel of one launch of one block."""
    return kernel(params, launch(1, body, allocs, threads, used), **more)


def elementwise(expr: Expr, inputs: list[Buffer], out_dtype: str, n: int) -> Kernel:
    """`out[i] = expr` for i in [0, n), in a parallel loop whose variable is `i`."""
    out = buf("out", n, dtype=out_dtype)
    return one_block([*inputs, out], par(Var("i"), n, Store(out, (Var("i"),), expr)))


def outputs(k: Kernel, *arrays: Any, **more: Any) -> Any:
    """Run on the given arrays and return the last one."""
    run(k, list(arrays), **more)
    return arrays[-1]


def zeros(*shape: int, dtype: str = "float32") -> np.ndarray:
    return np.zeros(shape, DType(dtype).to_numpy())


I, J, K = Var("i"), Var("j"), Var("k")
BX, TX = Var("bx"), Var("tx")
