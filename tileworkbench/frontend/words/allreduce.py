"""Meaning of `T.tvm_thread_allreduce`: through a shared array, so that any reducer and any thread axes work.

Before:  with T.attr(T.comm_reducer(lambda x, y: x + y, [0]), "reduce_scope", _): T.tvm_thread_allreduce(1, v, True, out[0], ty)
After:   slots[thread] = v; sync; out[0] = identity; for t in range(extent of y): out[0] = out[0] + slots[...]; sync
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from ...base.errors import TileTypeError, TileValueError
from ...ir.expr import Const, Expr, Load, Var, const
from ...ir.stmt import For, Stmt, Store, Sync
from ...language import thread as words
from ...language._dispatch import impl
from .. import arith
from ..builder import Builder, LaunchState, current
from ..values import Value, as_expr
from .common import one_element
from .thread import linear_thread


@dataclass(frozen=True, slots=True)
class CommReducer:
    """How two values combine, and what leaves a value as it is."""

    combine: Callable[[Any, Any], Any]
    identity: Any


@impl(words.comm_reducer)
def _comm_reducer(combine: Any, identity: Any) -> Any:
    values = list(identity) if isinstance(identity, list | tuple) else [identity]
    if len(values) != 1:
        raise TileValueError(f"T.comm_reducer over {len(values)} values at once", hint="reduce them one after another")
    return CommReducer(combine, values[0])


_open: list[CommReducer] = []


@impl(words.attr)
def _attr(node: Any, key: str, value: Any) -> Any:
    return _scope(node if isinstance(node, CommReducer) else None)


@contextmanager
def _scope(reducer: CommReducer | None) -> Iterator[None]:
    if reducer is not None:
        _open.append(reducer)
    try:
        yield
    finally:
        if reducer is not None:
            _open.pop()


@impl(words.tvm_thread_allreduce)
def _allreduce(size: Any, value: Any, predicate: Any, out: Any, *axes: Any, dtype: Any = "handle") -> Any:
    word = "T.tvm_thread_allreduce"
    builder = current(word)
    launch = builder.require_tile_op(word)
    if not _open:
        raise TileValueError(f"{word} has no reducer", hint='put it in `with T.attr(T.comm_reducer(lambda x, y: x + y, [0]), "reduce_scope", 0):`')
    target = one_element(out, word)
    kind = target.buffer.type
    reducer, dims = _open[-1], _axes(word, launch, axes)
    identity = as_expr(reducer.identity, kind)
    mine = arith.select(as_expr(predicate), as_expr(value, kind), identity)
    me = linear_thread(launch)
    count = 1
    for extent in launch.threads:
        count *= extent
    slots = builder.alloc("allreduce", (count,), kind, "shared")
    builder.emit(Store(slots, (me,), mine))
    builder.emit(Sync("block"))
    place = target.region.starts
    builder.emit(Store(target.buffer, place, identity))

    def step(visited: Expr) -> Stmt:
        total = reducer.combine(Value(Load(target.buffer, place)), Value(Load(slots, (visited,))))
        return Store(target.buffer, place, as_expr(total, kind), span=builder.span())

    builder.emit(_loops(builder, launch, dims, step))
    builder.emit(Sync("block"))
    return None


def _axes(word: str, launch: LaunchState, axes: tuple[Any, ...]) -> list[int]:
    """The dims of the block that the author's thread bindings name; none given means all."""
    if not axes:
        return list(range(len(launch.threads)))
    dims = []
    for axis in axes:
        e = axis.expr if isinstance(axis, Value) else None
        if isinstance(e, Const):
            continue  # a dim of one thread
        if not isinstance(e, Var) or e not in launch.thread_vars:
            raise TileTypeError(f"{word}: an axis must be a thread index, got {axis!r}", hint="use T.get_thread_binding(dim)")
        dims.append(launch.thread_vars.index(e))
    return dims


def _loops(builder: Builder, launch: LaunchState, dims: list[int], body: Callable[[Expr], Stmt]) -> Stmt:
    """Nested loops over the threads of `dims`; `body` gets the linear index of the thread visited."""
    visited: Expr = const(0)
    stride, loops = 1, []
    for d, extent in enumerate(launch.threads):
        index = launch.thread_vars[d]
        if d in dims:
            index = Var(builder.fresh("t"))
            loops.append((index, extent))
        if d in dims or extent > 1:
            visited = arith.binary("add", visited, arith.binary("mul", index, const(stride)))
        stride *= extent
    stmt = body(visited)
    for index, extent in loops:
        stmt = For(index, const(0), const(extent), (stmt,), span=builder.span())
    return stmt
