"""Guarded access to the elements of a buffer from all lanes of a space at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .arithmetic import Value
from .frame import Frame, Mask, both, count, lane_axes
from .memory import READ, WRITTEN, Storage

Index = Sequence[Any]  # per dim an int for all lanes, or an array that broadcasts to the space


def inside(index: Index, shape: tuple[int, ...]) -> tuple[Mask, list[Any]]:
    """In which lanes the index lies inside `shape`, and the index with the others moved to 0."""
    valid: Mask = True
    moved: list[Any] = []
    for at, extent in zip(index, shape, strict=True):
        if not isinstance(at, np.ndarray):
            at = int(at)
            if not 0 <= at < extent:
                return False, []
        elif at.min() < 0 or at.max() >= extent:
            fits = (at >= 0) & (at < extent)
            valid = both(valid, fits)
            if valid is False:
                return False, []
            at = np.where(fits, at, 0)
        moved.append(at.astype(np.int64, copy=False) if isinstance(at, np.ndarray) else at)
    return valid, moved


def gather(storage: Storage, index: Index, safe: Value, frame: Frame) -> Value:
    """The element at `index` in every lane, `safe` where it is outside. Perhaps a view of memory."""
    valid, index = inside(index, storage.shape)
    if valid is False:
        return safe
    if frame.recorder is not None:
        note(storage, index, both(frame.mask, valid), READ, frame)
    if not any(isinstance(i, np.ndarray) for i in index):
        return storage.read((..., *index) if storage.lanes else tuple(index))
    if storage.lanes:
        index = [*lane_axes(storage.lanes), *index]
    found = storage.read(tuple(index))
    return found if valid is True else np.where(valid, found, safe)


def scatter(storage: Storage, index: Index, value: Value, frame: Frame, mask: Mask) -> None:
    """Store each lane's value at its index; outside and inactive lanes store nothing. Of two lanes with one index, the later wins."""
    valid, index = inside(index, storage.shape)
    mask = both(mask, valid)
    if mask is False:
        return
    if frame.recorder is not None:
        note(storage, index, mask, WRITTEN, frame)
    if not any(isinstance(i, np.ndarray) for i in index):
        if not storage.lanes:
            storage.write(tuple(index), last_active(value, mask, frame.space))
        else:
            write_where(storage, (..., *index), value, mask)
        return
    if storage.lanes:
        index = [*lane_axes(storage.lanes), *index]
    if isinstance(mask, np.ndarray):
        chosen = np.broadcast_to(mask, frame.space)
        storage.write(tuple(np.broadcast_to(i, frame.space)[chosen] for i in index), spread(value, frame.space)[chosen])
    else:
        storage.write(tuple(np.broadcast_to(i, frame.space) for i in index), value)


def write_where(storage: Storage, index: Any, value: Value, mask: Mask) -> None:
    """Store at a basic index those elements that the mask, which has the shape of the target, lets through."""
    if not isinstance(mask, np.ndarray):
        storage.write(index, value)
    elif storage.flat is None:
        np.copyto(storage.array[index], value, where=mask, casting="unsafe")
    else:
        storage.write(index, np.where(mask, value, storage.read(index)))


def last_active(value: Value, mask: Mask, space: tuple[int, ...]) -> Value:
    """The value in the last lane that the mask lets through."""
    if not isinstance(value, np.ndarray) or value.ndim == 0:
        return value
    whole = np.broadcast_to(value, space)
    return whole[np.broadcast_to(mask, space)][-1] if isinstance(mask, np.ndarray) else whole[(-1,) * len(space)]


def spread(value: Value, space: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """The value of every lane, as an array of the space's shape."""
    return np.broadcast_to(np.asarray(value), space)


def note(storage: Storage, index: Any, mask: Mask, bit: int, frame: Frame) -> None:
    """Tell the recorder about an access; `index` is what NumPy will be asked for."""
    recorder = frame.recorder
    if recorder is None or storage.lanes:
        return
    recorder.access(storage, count(mask, frame.space), bit)
    if storage.shadow is None:
        return
    if isinstance(mask, np.ndarray):
        chosen = np.broadcast_to(mask, frame.space)
        index = [np.broadcast_to(i, frame.space)[chosen] for i in index]
    storage.mark(tuple(index), bit)
