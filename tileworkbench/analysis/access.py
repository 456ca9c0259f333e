"""Where the elements of a buffer lie: strides, flat offsets, and what two accesses have in common."""

from __future__ import annotations

from collections.abc import Sequence

from ..base.dtypes import INDEX
from ..ir.build import add, cast, index, mul, total
from ..ir.expr import Buffer, Const, Expr


def strides(buffer: Buffer) -> tuple[Expr, ...]:
    """Elements from one index to the next, per dim.

    >>> strides(Buffer("A", (Const(4), Const(8)), INDEX))
    (Const(value=8, type=int64), Const(value=1, type=int64))
    """
    if buffer.strides is not None:
        return buffer.strides
    out: list[Expr] = []
    step: Expr = index(1)
    for dim in reversed(buffer.shape):
        out.append(step)
        step = mul(step, dim)
    return tuple(reversed(out))


def flat_offset(buffer: Buffer, indices: Sequence[Expr]) -> Expr:
    """The element offset of `buffer[indices]` from the buffer's start, written as the author would: `(i * 8 + j) * 4 + k`."""
    where = [cast(i, INDEX) for i in indices]
    if buffer.strides is not None:
        return total(mul(i, s) for i, s in zip(where, buffer.strides, strict=True))
    offset: Expr = index(0)
    for i, dim in zip(where, buffer.shape, strict=True):
        offset = add(mul(offset, dim), i)
    return offset


def static_strides(buffer: Buffer) -> tuple[int, ...] | None:
    """The strides as ints, or None if one is symbolic."""
    found = strides(buffer)
    return tuple(int(s.value) for s in found if isinstance(s, Const)) if all(isinstance(s, Const) for s in found) else None
