"""Tile operations on a thread's own buffers, as loops of element statements that each thread runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..base.dtypes import FLOAT32, INDEX
from ..base.errors import UnsupportedError
from ..ir.build import ZERO, add, cast, index
from ..ir.expr import Binary, Const, Expr, Load, Unary, Var
from ..ir.node import replace
from ..ir.stmt import Body, Copy, Fill, For, Gemm, If, Let, ParallelFor, PipelinedFor, Reduce, Region, Scan, Stmt, Store, While
from .names import Names
from .reduce_loops import combine_step, identity


def scalarise(stmt: Stmt, names: Names) -> Body:
    """`stmt`, which each thread runs on its own, without tile operations."""
    match stmt:
        case Copy(src, dst):
            return _copy(src, dst, names, stmt)
        case Fill(dst, value):
            var = names.var("value", value.dtype)
            store = _nest(dst, names, lambda at: (Store(dst.buffer, _at(dst, at), var, span=stmt.span),))
            return (Let(var, value, span=stmt.span), *store)
        case Reduce():
            return _reduce(stmt, names)
        case Scan():
            return _scan(stmt, names)
        case Gemm():
            raise UnsupportedError("T.gemm on a thread's own buffer", span=stmt.span, hint="use T.alloc_fragment or T.alloc_shared for the operands")
        case ParallelFor(loop_vars, extents, body):
            inside = _all(body, names)
            for var, extent in reversed(list(zip(loop_vars, extents, strict=True))):
                inside = (For(var, ZERO, extent, inside, span=stmt.span),)
            return inside
        case If(_, then, other):
            return (replace(stmt, then=_all(then, names), other=_all(other, names)),)
        case PipelinedFor(var, start, stop, body):
            return (For(var, start, stop, _all(body, names), span=stmt.span),)
        case For(body=body) | While(body=body):
            return (replace(stmt, body=_all(body, names)),)
        case _:
            return (stmt,)


def _all(body: Body, names: Names) -> Body:
    return tuple(part for s in body for part in scalarise(s, names))


def _copy(src: Region, dst: Region, names: Names, stmt: Stmt) -> Body:
    moving = _moving(src)

    def element(at: Sequence[Expr]) -> Body:
        there = dict(zip(moving, at, strict=False))
        source = [add(cast(s, INDEX), there[d]) if d in there else s for d, s in enumerate(src.starts)]
        value = cast(Load(src.buffer, tuple(source)), dst.buffer.type)
        return (Store(dst.buffer, _at(dst, at), value, span=stmt.span),)

    return _nest(dst, names, element)


def _reduce(stmt: Reduce, names: Names) -> Body:
    src, dst = stmt.src, stmt.dst
    work = dst.buffer.type if not dst.buffer.type.is_float or dst.buffer.type.bits >= 32 else FLOAT32
    kept = [d for d in _moving(src) if d != stmt.dim]

    def result(at: Sequence[Expr]) -> Body:
        acc = names.scalar(stmt.op, work)
        k = names.var("k")
        there = {**dict(zip(kept, at, strict=False)), stmt.dim: k}
        where = [add(cast(s, INDEX), there[d]) if d in there else s for d, s in enumerate(src.starts)]
        value = cast(Load(src.buffer, tuple(where)), work)
        value = Unary("abs", value) if stmt.op in ("abssum", "absmax") else value
        held = Load(acc, (ZERO,))
        start: Expr = identity(stmt.op, work, stmt.nan_propagate) if stmt.clear else cast(Load(dst.buffer, _at(dst, at)), work)
        return (
            Store(acc, (ZERO,), start),
            For(k, ZERO, cast(src.extents[stmt.dim], INDEX), (Store(acc, (ZERO,), combine_step(stmt.op, held, value, stmt.nan_propagate)),)),
            Store(dst.buffer, _at(dst, at), cast(held, dst.buffer.type), span=stmt.span),
        )

    return _nest(dst, names, result)


def _scan(stmt: Scan, names: Names) -> Body:
    src, dst = stmt.src, stmt.dst
    acc = names.scalar("running", dst.buffer.type)
    held = Load(acc, (ZERO,))
    count = cast(src.extents[stmt.dim], INDEX)
    others = [d for d in range(len(src.extents)) if d != stmt.dim]
    k = names.var("k")
    loop_vars = {d: names.var("i") for d in others}
    step = Binary("sub", Binary("sub", count, index(1)), k) if stmt.reverse else k
    at = {**loop_vars, stmt.dim: step}

    def where(region: Region) -> tuple[Expr, ...]:
        return tuple(add(cast(s, INDEX), at[d]) for d, s in enumerate(region.starts))

    update = Store(acc, (ZERO,), combine_step(stmt.op, held, cast(Load(src.buffer, where(src)), acc.type), False))
    body: Body = (
        Store(acc, (ZERO,), identity(stmt.op, acc.type)),
        For(k, ZERO, count, (update, Store(dst.buffer, where(dst), held, span=stmt.span))),
    )
    for d in reversed(others):
        body = (For(loop_vars[d], ZERO, cast(src.extents[d], INDEX), body),)
    return body


def _moving(region: Region) -> list[int]:
    return [d for d, e in enumerate(region.extents) if not (isinstance(e, Const) and int(e.value) == 1)]


def _at(region: Region, at: Sequence[Expr]) -> tuple[Expr, ...]:
    there = dict(zip(_moving(region), at, strict=True))
    return tuple(add(cast(s, INDEX), there[d]) if d in there else s for d, s in enumerate(region.starts))


def _nest(region: Region, names: Names, leaf: Callable[[Sequence[Expr]], Body]) -> Body:
    """Serial loops over the dims of `region` whose extent is not 1."""
    moving = _moving(region)
    loop_vars: list[Var] = [names.var("ijklmn"[min(n, 5)]) for n in range(len(moving))]
    body = leaf(loop_vars)
    for var, d in reversed(list(zip(loop_vars, moving, strict=True))):
        body = (For(var, ZERO, cast(region.extents[d], INDEX), body),)
    return body
