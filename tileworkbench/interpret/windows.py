"""Regions while a kernel runs: reading and writing boxes of buffers, with everything outside guarded.

A tile operation runs once for the block, on the values of the first active thread, unless it touches a buffer that each thread has for
itself or its region differs between threads; then it runs in every active lane, and arrays have the lanes in front.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..ir.stmt import Region
from .access import inside, note, scatter, write_where
from .arithmetic import Value, compute_dtype, scalar
from .expressions import Scope, evaluate, is_private, storage_of
from .frame import Frame, count, first_active, is_uniform, lane_axes
from .memory import READ, WRITTEN, Storage


class Window:
    """A region with its numbers: where it starts (per lane, if lanes differ), and its extents."""

    __slots__ = ("extents", "region", "starts", "storage")

    def __init__(self, region: Region, storage: Storage, starts: list[Any], extents: tuple[int, ...]) -> None:
        self.region, self.storage, self.starts, self.extents = region, storage, starts, extents


def window(region: Region, scope: Scope) -> Callable[[Frame], Window]:
    """The closure that evaluates a region."""
    find = storage_of(region.buffer, scope)
    starts = [evaluate(s, scope) for s in region.starts]
    extents = [evaluate(e, scope) for e in region.extents]
    return lambda f: Window(region, find(f), [s(f) for s in starts], tuple(max(0, int(first_active(e(f), f))) for e in extents))


def settle(f: Frame, windows: Sequence[Window], *values: Value) -> bool:
    """Whether the operation runs per lane; if not, the starts become plain ints."""
    if not f.space:
        return False
    differ = any(is_private(w.region.buffer) or not all(is_uniform(s, f) for s in w.starts) for w in windows)
    if differ or not all(is_uniform(v, f) for v in values):
        return True
    for w in windows:
        w.starts = [first_active(s, f) for s in w.starts]
    return False


def read(w: Window, f: Frame, per_lane: bool) -> np.ndarray[Any, Any]:
    """The elements, shape `extents`, or with the lanes (or 1 for lanes that agree) in front. Outside: the safe value. Perhaps a view of memory."""
    dtype = w.region.buffer.dtype
    safe = scalar(w.region.buffer.safe_value or 0, dtype)
    if any(isinstance(s, np.ndarray) for s in w.starts):
        return _gather(w, f, safe)
    here, there = _clip(w)
    found = np.asarray(w.storage.read((..., *here)))
    if f.recorder is not None:
        _count(w, here, f, per_lane, READ)
    if found.shape[len(w.storage.lanes) :] == w.extents:
        return found
    whole = np.full(w.storage.lanes + w.extents, safe, compute_dtype(dtype))
    box: Any = (..., *there)
    whole[box] = found
    return whole


def write(w: Window, value: Any, f: Frame, per_lane: bool) -> None:
    """Store `value`, which broadcasts to the extents (with lanes in front, if `per_lane`); what is outside is skipped."""
    if per_lane and (not w.storage.lanes or any(isinstance(s, np.ndarray) for s in w.starts)):
        _scatter(w, value, f)
        return
    here, there = _clip(w)
    if f.recorder is not None:
        _count(w, here, f, per_lane, WRITTEN)
    shape = w.storage.lanes + w.extents
    if isinstance(value, np.ndarray) and value.ndim:
        box: Any = (..., *there)
        value = np.broadcast_to(value, shape)[box]
    mask = f.mask
    if isinstance(mask, np.ndarray) and w.storage.lanes:
        mask = mask.reshape(mask.shape + (1,) * len(w.extents))
    else:
        mask = True
    write_where(w.storage, (..., *here), value, mask)


def _clip(w: Window) -> tuple[list[slice], list[slice]]:
    """The part of the window that is inside, as slices of the buffer and of the window."""
    here, there = [], []
    for start, extent, size in zip(w.starts, w.extents, w.storage.shape, strict=True):
        low = min(max(int(start), 0), size)
        high = max(low, min(int(start) + extent, size))
        here.append(slice(low, high))
        there.append(slice(low - int(start), high - int(start)) if high > low else slice(0, 0))
    return here, there


def _count(w: Window, here: list[slice], f: Frame, per_lane: bool, bit: int) -> None:
    elements = count(f.mask, f.space) if per_lane else 1
    for part in here:
        elements *= part.stop - part.start
    if f.recorder is not None and not w.storage.lanes:
        f.recorder.access(w.storage, elements, bit)
        w.storage.mark(tuple(here), bit)


def _lanes_in_front(w: Window, f: Frame) -> tuple[Storage, list[Any], Frame]:
    """The window as a gather: a storage without lanes, an index per element of each lane, and a frame whose space is lanes + extents."""
    rank = len(w.extents)
    index: list[Any] = []
    for dim, (start, extent) in enumerate(zip(w.starts, w.extents, strict=True)):
        step = np.arange(extent).reshape((extent,) + (1,) * (rank - 1 - dim))
        index.append((start.reshape(start.shape + (1,) * rank) if isinstance(start, np.ndarray) else start) + step)
    storage = w.storage
    if storage.lanes:
        index = [axis.reshape(axis.shape + (1,) * rank) for axis in lane_axes(storage.lanes)] + index
        storage = Storage(storage.buffer, storage.array, (), storage.flat)
    mask = f.mask.reshape(f.mask.shape + (1,) * rank) if isinstance(f.mask, np.ndarray) else f.mask
    return storage, index, Frame(f.env, f.buffers, f.space + w.extents, mask, recorder=f.recorder if not w.storage.lanes else None)


def _gather(w: Window, f: Frame, safe: Value) -> np.ndarray[Any, Any]:
    storage, index, wide = _lanes_in_front(w, f)
    valid, index = inside(index, storage.shape)
    if valid is False or 0 in wide.space:
        return np.full(wide.space, safe, compute_dtype(storage.dtype))
    if wide.recorder is not None:
        note(storage, index, wide.mask if valid is True else valid & wide.mask, READ, wide)
    found = storage.read(tuple(np.broadcast_to(i, wide.space) for i in index))
    return np.asarray(found if valid is True else np.where(valid, found, safe))


def _scatter(w: Window, value: Any, f: Frame) -> None:
    storage, index, wide = _lanes_in_front(w, f)
    if 0 not in wide.space:
        scatter(storage, index, value, wide, wide.mask)
