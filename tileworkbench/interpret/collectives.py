"""Exchange between the threads of a block: shuffles, votes, sums over a warp or the block."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..base.dtypes import BOOL, DType
from ..base.errors import InternalError
from ..ir.stmt import Collective
from .access import spread
from .arithmetic import caster, compute_dtype, rounder
from .expressions import Run, Scope, evaluate
from .frame import Frame
from .tiles import identity

WARP = 32
Array = Any


def collective(s: Collective, scope: Scope) -> Run:
    """Bind the result of a collective in every active thread; inactive threads take no part."""
    args = [evaluate(a, scope) for a in s.args]
    dtype = s.args[0].dtype
    operation, given = _operation(s.op, dtype, s.width)
    finish = caster(given, s.result.dtype)

    def run(f: Frame) -> None:
        values = [spread(a(f), f.space).reshape(-1) for a in args]
        active = spread(f.mask, f.space).reshape(-1)
        found = operation(values, active).reshape(f.space)
        f.env[s.result.name] = found if finish is None else finish(found)

    return run


def _operation(op: str, dtype: DType, width: int) -> tuple[Callable[[list[Array], Array], Array], DType]:
    """The function (arguments, active) -> result over the threads in linear order, and the dtype of its result."""
    if op.startswith("shfl"):
        return (lambda values, active: _shuffle(op, values[0], values[1], width)), dtype
    if op in ("any", "all", "ballot"):
        return (lambda values, active: _vote(op, values[0], active)), DType("uint32") if op == "ballot" else BOOL
    scope, _, fold = op.partition("_")
    if scope == "block" and fold in ("any", "all", "count"):
        return (lambda values, active: _block_vote(fold, values[0], active)), BOOL if fold != "count" else DType("int64")
    if scope in ("warp", "block") and fold in ("sum", "max", "min", "bitand", "bitor"):
        return (lambda values, active: _fold(fold, values[0], active, dtype, WARP if scope == "warp" else len(active))), dtype
    raise InternalError(f"no such collective: {op}")


def _shuffle(op: str, value: Array, argument: Array, width: int) -> Array:
    thread = np.arange(len(value))
    lane = thread % width
    target = {"shfl": argument, "shfl_xor": lane ^ argument, "shfl_up": lane - argument, "shfl_down": lane + argument}[op]
    source = thread - lane + target
    there = (target >= 0) & (target < width) & (source < len(value))
    return value[np.where(there, source, thread)]


def _groups(value: Array, size: int, padding: Any) -> Array:
    """The threads in rows of `size`, the last one filled up."""
    rows = -(-len(value) // size)
    padded = np.full(rows * size, padding, value.dtype)
    padded[: len(value)] = value
    return padded.reshape(rows, size)


def _everyone(per_group: Array, size: int, threads: int) -> Array:
    return np.repeat(per_group, size)[:threads]


def _vote(op: str, predicate: Array, active: Array) -> Array:
    holds = predicate != 0
    if op == "ballot":
        bits = _groups(holds & active, WARP, False).astype(np.uint64) << np.arange(WARP, dtype=np.uint64)
        return _everyone(bits.sum(axis=1, dtype=np.uint64).astype(np.uint32), WARP, len(active))
    rows = _groups(holds & active if op == "any" else holds | ~active, WARP, op == "all")
    return _everyone(rows.any(axis=1) if op == "any" else rows.all(axis=1), WARP, len(active))


def _block_vote(fold: str, predicate: Array, active: Array) -> Array:
    holds = (predicate != 0) & active
    total: Any = holds.any() if fold == "any" else (holds | ~active).all() if fold == "all" else np.count_nonzero(holds)
    return np.full(len(active), total, np.int64 if fold == "count" else np.bool_)


def _fold(fold: str, value: Array, active: Array, dtype: DType, size: int) -> Array:
    functions: dict[str, Any] = {"sum": np.add, "max": np.fmax, "min": np.fmin, "bitand": np.bitwise_and, "bitor": np.bitwise_or}
    neutral = identity(fold, dtype)
    rows = _groups(np.where(active, value, neutral).astype(compute_dtype(dtype)), size, neutral)
    total = functions[fold].reduce(rows, axis=1)
    finish = rounder(dtype)
    total = (total if finish is None else finish(total)).astype(compute_dtype(dtype))
    return _everyone(total, size, len(active))
