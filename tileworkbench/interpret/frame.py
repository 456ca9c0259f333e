"""What a running block knows: variables, buffers, and which lanes are active.

A *space* is the shape of the lanes that a statement runs for: () for the block itself, (z, y, x) threads in a kernel that uses thread
indices, and the extents of a `ParallelFor` in front of that inside one. A value is either one for all lanes or an array that broadcasts
to the space. A *mask* is True (every lane), False (none) or such an array of bool.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .memory import Storage
from .trace import Recorder

Mask = Any  # bool or np.ndarray of bool


class Loop:
    """The lanes that left the innermost loop, or its iteration."""

    __slots__ = ("broken", "continued")

    def __init__(self) -> None:
        self.broken: Mask = False
        self.continued: Mask = False


@dataclass(slots=True)
class Frame:
    """The state of one block (or of the host part of a kernel)."""

    env: dict[str, Any]
    buffers: dict[str, Storage]
    space: tuple[int, ...] = ()
    mask: Mask = True
    loop: Loop = field(default_factory=Loop)
    block: tuple[int, ...] = ()
    recorder: Recorder | None = None
    loops: list[tuple[str, Any]] = field(default_factory=list)  # sequential loops around the statement that runs, outermost first
    pause: Callable[[], None] | None = None  # what a grid barrier does

    def lanes(self) -> int:
        """How many lanes are active."""
        return count(self.mask, self.space)


def count(mask: Mask, space: tuple[int, ...]) -> int:
    """How many lanes of `space` the mask lets through."""
    if isinstance(mask, np.ndarray):
        hidden = 1  # lanes along axes that the mask does not distinguish
        for have, want in zip((1,) * (len(space) - mask.ndim) + mask.shape, space, strict=True):
            hidden *= want if have == 1 else 1
        return int(np.count_nonzero(mask)) * hidden
    total = int(mask)
    for extent in space:
        total *= extent
    return total


def both(mask: Mask, cond: Any) -> Mask:
    """The lanes of `mask` in which `cond` holds; exactly True if that is all of the space, exactly False if there is none."""
    if not isinstance(cond, np.ndarray):
        return mask if cond else False
    if mask is True:
        return True if cond.all() else cond if cond.any() else False
    if mask is False:
        return False
    met = mask & cond
    return met if met.any() else False


def either(a: Mask, b: Mask) -> Mask:
    """The lanes of `a` and those of `b`."""
    if a is True or b is True:
        return True
    if a is False:
        return b
    return a if b is False else a | b


def negation(cond: Any) -> Any:
    """The lanes in which `cond` does not hold."""
    return ~cond if isinstance(cond, np.ndarray) else not cond


def lane_axes(lanes: tuple[int, ...]) -> list[np.ndarray[Any, Any]]:
    """Per axis of `lanes` the index of each lane along it, ready to broadcast."""
    return [np.arange(n).reshape((n,) + (1,) * (len(lanes) - 1 - axis)) for axis, n in enumerate(lanes)]


def first_active(value: Any, frame: Frame) -> Any:
    """The value in the first active lane."""
    if not isinstance(value, np.ndarray) or value.ndim == 0:
        return value
    whole = np.broadcast_to(value, frame.space)
    if not isinstance(frame.mask, np.ndarray):
        return whole.flat[0]
    return whole[np.broadcast_to(frame.mask, frame.space)][0]


def is_uniform(value: Any, frame: Frame) -> bool:
    """Whether all active lanes hold one value (NaN equals NaN)."""
    if not isinstance(value, np.ndarray) or value.ndim == 0:
        return True
    chosen = value if not isinstance(frame.mask, np.ndarray) else np.broadcast_to(value, frame.space)[np.broadcast_to(frame.mask, frame.space)]
    first = chosen.flat[0] if chosen.size else 0
    return bool(np.all((chosen == first) | ((chosen != chosen) & (first != first))))


def spread_mask(mask: Mask, space: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """The mask as an array of the space's shape."""
    return np.broadcast_to(np.asarray(mask), space)
