"""Which copies a GPU can start and go on (cp.async): how many bytes at a time, or why not.

The hardware moves pieces of 16, 8 or 4 bytes from global to shared memory, both at multiples of their size, and writes zeros for a piece that is
outside. So rows must begin at multiples of a piece and a piece must be wholly inside or wholly outside. An array begins at a multiple of 16 bytes,
unless the caller says otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..base.dtypes import INDEX
from ..ir.build import cast
from ..ir.expr import Const
from ..ir.stmt import Copy, Region, is_whole
from .access import strides
from .bounds import Bounds
from .linear import Linear

PIECES = (16, 8, 4)


@dataclass(frozen=True, slots=True)
class AsyncCopy:
    """`bytes` of a piece, or 0 and `why` the copy cannot run beside the threads."""

    bytes: int
    why: str = ""


def async_copy(copy: Copy, bounds: Bounds, aligned: bool = True) -> AsyncCopy:
    """How `copy`, which stands where `bounds` holds, can be made with cp.async; if not `aligned`, arrays begin at any multiple of an element."""
    src, dst = copy.src.buffer, copy.dst.buffer
    if why := _why_not(copy):
        return AsyncCopy(0, why)
    size = src.type.bits // 8
    if copy.src.static_extents()[-1] == 1 or copy.dst.static_extents()[-1] == 1:
        return AsyncCopy(0, f"neighbours in {dst.name} are not neighbours in {src.name}")
    for piece in PIECES:
        count = piece // size
        if (count > 1 and not aligned) or not count:
            continue
        if copy.dst.static_extents()[-1] % count == 0 and _is_aligned(copy.src, count, bounds):
            return AsyncCopy(piece)
    return AsyncCopy(0, f"rows of {src.name} do not certainly begin at multiples of 4 bytes, or end within one")


def _why_not(copy: Copy) -> str:
    """What rules a copy out whatever its alignment is."""
    src, dst = copy.src.buffer, copy.dst.buffer
    if src.scope != "global" or dst.scope != "shared":
        return "only copies from global to shared memory can"
    if src.view_of is not None or dst.view_of is not None:
        return "it is between views of other buffers"
    if dst.strides is not None:
        return f"{dst.name} lies as its author asked, not row after row"
    if src.type != dst.type:
        return f"it converts {src.type} to {dst.type} on the way"
    if src.type.bits < 8:
        return "its elements share bytes"
    if src.safe_value:
        return f"elements outside {src.name} become {src.safe_value}, not 0"
    if not all(isinstance(e, Const) for e in (*copy.src.extents, *copy.dst.extents, *dst.shape)):
        return "its size is not known beforehand"
    return "" if is_whole(copy.dst) else f"it fills a part of {dst.name}"


def _is_aligned(region: Region, count: int, bounds: Bounds) -> bool:
    """Whether pieces of `count` elements begin at multiples of that, and are wholly inside or outside."""
    *steps, unit = (bounds.sum(cast(s, INDEX)) for s in strides(region.buffer))
    *starts, start = (bounds.sum(cast(s, INDEX)) for s in region.starts)
    *extents, extent = region.static_extents()
    if unit.terms or unit.const != 1 or not _is_multiple(start, count):
        return False
    for step, at, times in zip(steps, starts, extents, strict=True):
        if not _is_multiple(step, count) and (times != 1 or step.terms or not _is_multiple(at.scale(step.const), count)):
            return False
    size = bounds.sum(region.buffer.shape[-1])
    return _is_multiple(size, count) or (bounds.at_least_zero(start) and bounds.at_least_zero(size - start.shift(extent)))


def _is_multiple(form: Linear, of: int) -> bool:
    return form.const % of == 0 and all(c % of == 0 for c in form.terms.values())
