"""Whole-tile operations: copy, fill, gemm, reduce, scan."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..base.dtypes import BOOL, FLOAT32, DType
from ..base.errors import InternalError
from ..ir.stmt import Copy, Fill, Gemm, Reduce, Scan
from .arithmetic import caster, compute_dtype, rounder, scalar, unary
from .expressions import Run, Scope, evaluate
from .frame import Frame, first_active
from .windows import Window, read, settle, window, write

Array = Any


def convert(value: Array, source: DType, target: DType) -> Array:
    """An array of values in another dtype."""
    change = caster(source, target)
    return value if change is None else np.asarray(change(value))


def in_front(value: Array, lanes_rank: int, shape: tuple[int, ...]) -> Array:
    """`value`, of shape lanes + anything, with the part behind the lanes reshaped to `shape`."""
    return value.reshape(value.shape[:lanes_rank] + shape)


def _lanes_rank(value: Array, w: Window) -> int:
    return int(value.ndim) - len(w.extents)


def copy(s: Copy, scope: Scope) -> Run:
    """`dst = cast(src)`."""
    source, target = window(s.src, scope), window(s.dst, scope)
    change = caster(s.src.buffer.dtype, s.dst.buffer.dtype)

    def run(f: Frame) -> None:
        a, b = source(f), target(f)
        per_lane = settle(f, (a, b))
        value = read(a, f, per_lane)
        if a.extents != b.extents:
            value = in_front(value, _lanes_rank(value, a), b.extents)
        write(b, value if change is None else np.asarray(change(value)), f, per_lane)

    return run


def fill(s: Fill, scope: Scope) -> Run:
    """Every element becomes one value."""
    target, value = window(s.dst, scope), evaluate(s.value, scope)

    def run(f: Frame) -> None:
        w, v = target(f), value(f)
        per_lane = settle(f, (w,), v)
        if not per_lane:
            v = first_active(v, f)
        elif isinstance(v, np.ndarray) and v.ndim:
            v = v.reshape(v.shape + (1,) * len(w.extents))
        write(w, v, f, per_lane)

    return run


# ---------------------------------------------------------------------------------------------- gemm
def multiplier(a: DType, b: DType, c: DType) -> Callable[[Array, Array], Array]:
    """`a @ b` of the last two dims, in c's dtype: narrow floats in float32, integers exactly and then wrapped."""
    wide = compute_dtype(c)
    if c.is_float:
        return lambda x, y: np.matmul(convert(x, a, c), convert(y, b, c))
    bits = min(a.bits, c.bits) + min(b.bits, c.bits)

    def exact(x: Array, y: Array) -> Array:
        x, y = convert(x, a, c), convert(y, b, c)
        if bits + max(x.shape[-1], 1).bit_length() <= 53:  # no sum leaves the integers that a double holds, and BLAS is faster
            return np.matmul(x.astype(np.float64), y.astype(np.float64)).astype(np.int64).astype(wide)
        return np.matmul(x.astype(np.int64), y.astype(np.int64)).astype(wide)

    return exact


def gemm(s: Gemm, scope: Scope) -> Run:
    """`c = (0 if clear else c) + op(a) @ op(b)`."""
    left, right, into, clear = window(s.a, scope), window(s.b, scope), window(s.c, scope), evaluate(s.clear, scope)
    kinds = s.a.buffer.dtype, s.b.buffer.dtype, s.c.buffer.dtype
    multiply, finish = multiplier(*kinds), rounder(kinds[2])

    def run(f: Frame) -> None:
        a, b, c = left(f), right(f), into(f)
        per_lane = settle(f, (a, b, c))
        x, y = read(a, f, per_lane), read(b, f, per_lane)
        x = in_front(x, _lanes_rank(x, a), a.extents[-2:])
        y = in_front(y, _lanes_rank(y, b), b.extents[-2:])
        total = multiply(x.swapaxes(-1, -2) if s.trans_a else x, y.swapaxes(-1, -2) if s.trans_b else y)
        if not first_active(clear(f), f):
            old = read(c, f, per_lane)
            total = total + in_front(old, _lanes_rank(old, c), c.extents[-2:])
        if f.recorder is not None:
            f.recorder.operations(kinds[0], 2 * c.extents[-2] * c.extents[-1] * x.shape[-2 if s.trans_a else -1] * (f.lanes() if per_lane else 1))
        total = total if finish is None else finish(total)
        write(c, in_front(total, total.ndim - 2, c.extents), f, per_lane)

    return run


# ---------------------------------------------------------------------------------------------- reductions
_FOLD: dict[str, tuple[Any, Any]] = {  # op: (fold, the same where a NaN wins)
    "sum": (np.add, np.add), "abssum": (np.add, np.add), "max": (np.fmax, np.maximum), "min": (np.fmin, np.minimum),
    "absmax": (np.fmax, np.maximum), "bitand": (np.bitwise_and,) * 2, "bitor": (np.bitwise_or,) * 2, "bitxor": (np.bitwise_xor,) * 2,
    "any": (np.logical_or,) * 2, "all": (np.logical_and,) * 2,
}  # fmt: skip


def identity(op: str, dtype: DType) -> Any:
    """What a reduction of nothing gives."""
    if op in ("sum", "abssum", "absmax", "bitor", "bitxor", "any"):
        return scalar(0, dtype)
    if op in ("bitand", "all"):
        return scalar(1 if op == "all" or dtype.is_bool else -1 if dtype.kind == "i" else dtype.max, dtype)
    lowest = -float("inf") if dtype.has_infinity else dtype.min
    highest = float("inf") if dtype.has_infinity else dtype.max
    return scalar(lowest if op == "max" else highest, dtype)


def working_dtype(op: str, source: DType, target: DType) -> DType:
    """The dtype in which a reduction or scan folds: the target's, but at least float32. Tests look at the source's elements."""
    if op in ("any", "all"):
        return source
    return FLOAT32 if target.is_float and target.bits < 32 else target


def reduction(op: str, x: Array, axis: int, dtype: DType, nan: bool) -> Array:
    """Fold the values `x` of `dtype` along an axis."""
    fold = _FOLD[op][nan]
    if op in ("abssum", "absmax"):
        x = unary("abs", dtype)(x)
    if op in ("any", "all"):
        return fold.reduce(x != 0, axis=axis)
    if x.shape[axis] == 0:
        return np.full(x.shape[:axis] + x.shape[axis + 1 :], identity(op, dtype), compute_dtype(dtype))
    total = fold.reduce(x, axis=axis, dtype=compute_dtype(dtype)) if fold is np.add else fold.reduce(x, axis=axis)
    finish = rounder(dtype) if fold is np.add else None
    return total if finish is None else finish(total)


def reduce(s: Reduce, scope: Scope) -> Run:
    """Reduce one dim of a tile."""
    source, target = window(s.src, scope), window(s.dst, scope)
    have, want = s.src.buffer.dtype, s.dst.buffer.dtype
    work = working_dtype(s.op, have, want)
    finish = _finish(s.op, work, want, s.nan_propagate)

    def run(f: Frame) -> None:
        a, b = source(f), target(f)
        per_lane = settle(f, (a, b))
        x = read(a, f, per_lane)
        rank = _lanes_rank(x, a)
        if f.recorder is not None and have.is_float:
            f.recorder.operations(have, x.size * (f.lanes() if per_lane and rank == 0 else 1))
        total = in_front(np.asarray(reduction(s.op, convert(x, have, work), rank + s.dim, work, s.nan_propagate)), rank, b.extents)
        write(b, finish(total) if s.clear else finish(total, read(b, f, per_lane)), f, per_lane)

    return run


def _finish(op: str, work: DType, want: DType, nan: bool) -> Callable[..., Array]:
    """What turns the folded values, and the target's old ones if they take part, into values of the target."""
    join, rounding = _FOLD[op][nan], rounder(work)

    def finish(total: Array, old: Array | None = None) -> Array:
        if op in ("any", "all"):
            return convert(total if old is None else join(total, old != 0), BOOL, want)
        if old is not None:
            total = join(total, convert(old, want, work))
            total = total if rounding is None else rounding(total)
        return convert(total, work, want)

    return finish


def scan(s: Scan, scope: Scope) -> Run:
    """Inclusive scan along one dim."""
    source, target = window(s.src, scope), window(s.dst, scope)
    have, want = s.src.buffer.dtype, s.dst.buffer.dtype
    work = working_dtype(s.op, have, want)
    if s.op not in ("sum", "max", "min"):
        raise InternalError(f"no such scan: {s.op}")
    fold = _FOLD[s.op][0]

    def run(f: Frame) -> None:
        a, b = source(f), target(f)
        per_lane = settle(f, (a, b))
        x = read(a, f, per_lane)
        axis = _lanes_rank(x, a) + s.dim
        if f.recorder is not None and have.is_float:
            f.recorder.operations(have, int(x.size))
        x = convert(x, have, work)
        x = np.flip(x, axis) if s.reverse else x
        total = fold.accumulate(x, axis=axis, dtype=compute_dtype(work))
        finish = rounder(work)
        total = total if finish is None else finish(total)
        total = np.flip(total, axis) if s.reverse else total
        write(b, in_front(convert(total, work, want), _lanes_rank(x, a), b.extents), f, per_lane)

    return run
