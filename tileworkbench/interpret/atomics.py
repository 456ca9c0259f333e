"""Atomic updates. Lanes that meet at one address act one after the other, in the order of the lanes."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..base.dtypes import DType
from ..base.errors import InternalError
from ..ir.stmt import Atomic, Region
from .access import inside, note, spread
from .arithmetic import binary, caster, compute_dtype, scalar
from .expressions import Run, Scope, evaluate, storage_of
from .frame import Frame, both, lane_axes
from .memory import READ, WRITTEN, Storage
from .tiles import convert, in_front
from .windows import read, settle, window, write

Array = Any
_OPS = {"add": "add", "max": "max", "min": "min", "or": "bitor", "and": "bitand", "xor": "bitxor"}
_AT: dict[str, Any] = {
    "add": np.add, "max": np.fmax, "min": np.fmin, "or": np.bitwise_or, "and": np.bitwise_and, "xor": np.bitwise_xor,
}  # fmt: skip


def combine(op: str, dtype: DType, old: Array, value: Array) -> Array:
    """What memory holds afterwards."""
    if op in ("exch", "store"):
        return value
    return old if op == "load" else binary(_OPS[op], dtype)(old, value)


def atomic(s: Atomic, scope: Scope) -> Run:
    """An atomic on one element per lane, or on a tile."""
    if s.op not in (*_OPS, "exch", "load", "store"):
        raise InternalError(f"no such atomic: {s.op}")
    if isinstance(s.value, Region):
        return _tile(s, s.value, scope)
    return _element(s, scope)


def _tile(s: Atomic, source: Region, scope: Scope) -> Run:
    into, values, dtype = window(s.dst, scope), window(source, scope), s.dst.buffer.dtype

    def run(f: Frame) -> None:
        a, b = values(f), into(f)
        per_lane = settle(f, (a, b))
        x = read(a, f, per_lane)
        x = convert(in_front(x, x.ndim - len(a.extents), b.extents), source.buffer.dtype, dtype)
        if not per_lane:
            old = read(b, f, False)
            write(b, combine(s.op, dtype, old, x), f, False)
            return
        lanes = np.ndindex(f.space)  # tiles of different lanes may overlap, so one after the other
        active, whole = spread(f.mask, f.space), np.broadcast_to(x, f.space + b.extents)
        starts = [spread(i, f.space) for i in b.starts]
        for lane in lanes:
            if active[lane]:
                b.starts = [int(i[lane]) for i in starts]
                alone = Frame(f.env, f.buffers, recorder=f.recorder)
                write(b, combine(s.op, dtype, read(b, alone, False), whole[lane]), alone, False)

    return run


def _element(s: Atomic, scope: Scope) -> Run:
    buffer, result = s.dst.buffer, s.result
    find, index = storage_of(buffer, scope), [evaluate(i, scope) for i in s.dst.starts]
    value = None if s.value is None or isinstance(s.value, Region) else evaluate(s.value, scope)
    change = None if s.value is None or isinstance(s.value, Region) else caster(s.value.dtype, buffer.dtype)
    safe = scalar(buffer.safe_value or 0, buffer.dtype)
    finish = None if result is None else caster(buffer.dtype, result.dtype)

    def run(f: Frame) -> None:
        storage, at = find(f), [i(f) for i in index]
        x = scalar(0, buffer.dtype) if value is None else value(f)
        old = element(storage, at, x if change is None else change(x), s.op, f, result is not None, safe)
        if result is not None:
            f.env[result.name] = old if finish is None else finish(old)

    return run


def element(storage: Storage, index: list[Any], value: Any, op: str, f: Frame, wanted: bool, safe: Any) -> Any:
    """Update one element per active lane; the old values if `wanted`."""
    valid, at = inside(index, storage.shape)
    mask = both(f.mask, valid)
    if mask is False:
        return safe
    if f.recorder is not None:
        for bit in (READ, WRITTEN) if op not in ("load", "store") else (READ,) if op == "load" else (WRITTEN,):
            note(storage, at, mask, bit, f)
    if storage.lanes:  # a buffer of the thread: nothing to meet
        at = [*lane_axes(storage.lanes), *at]
        storage = Storage(storage.buffer, storage.array, (), storage.flat)
    if not f.space:
        old = storage.read(tuple(at))
        storage.write(tuple(at), combine(op, storage.dtype, old, value))
        return old
    chosen = spread(mask, f.space)
    places = [np.broadcast_to(i, f.space)[chosen] for i in at]
    before = update(storage, places, spread(value, f.space)[chosen], op, wanted)
    if not wanted:
        return safe
    everywhere = np.full(f.space, safe, compute_dtype(storage.dtype))
    everywhere[chosen] = before
    return everywhere


def update(storage: Storage, index: list[Array], value: Array, op: str, wanted: bool) -> Array:
    """Update elements at `index` (arrays of one length) in order; the old values if `wanted`."""
    native = storage.flat is None and storage.array.dtype.isbuiltin == 1
    if op in _AT and native and not wanted:
        _AT[op].at(storage.array, tuple(index), value.astype(storage.array.dtype))
        return None
    place = np.ravel_multi_index(tuple(index), storage.shape)
    order = np.argsort(place, kind="stable")
    first = np.concatenate(([True], np.diff(place[order]) != 0))
    starts = np.flatnonzero(first)
    turn = np.arange(len(order)) - np.repeat(starts, np.diff(np.append(starts, len(order))))  # how many came before at one place
    if op == "add" and storage.dtype.is_int and native:
        return _add_in_order(storage, index, value, order, first)
    old = np.zeros(len(order), compute_dtype(storage.dtype))
    for round_ in range(int(turn.max()) + 1):
        now = order[turn == round_]
        at = tuple(i[now] for i in index)
        old[now] = storage.read(at)
        storage.write(at, combine(op, storage.dtype, old[now], value[now]))
    return old


def _add_in_order(storage: Storage, index: list[Array], value: Array, order: Array, first: Array) -> Array:
    """Integer additions through prefix sums per address, since a counter that every lane bumps would take a round each."""
    sums = np.cumsum(value[order], dtype=value.dtype)
    group = np.cumsum(first) - 1
    base = (sums - value[order])[first][group]
    start = storage.read(tuple(i[order] for i in index))
    old = np.empty_like(start)
    old[order] = start + (sums - value[order] - base)
    np.add.at(storage.array, tuple(index), value.astype(storage.array.dtype))
    return old
