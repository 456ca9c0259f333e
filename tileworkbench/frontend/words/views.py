"""Meanings of `T.view` and `T.reshape`: another shape or dtype over the same storage."""

from __future__ import annotations

from typing import Any

from ...base.dtypes import DType
from ...base.errors import TileTypeError, TileValueError
from ...ir.expr import Buffer, Const, Expr, const
from ...language import tile as words
from ...language._dispatch import impl
from ...language.types import as_dtype, as_shape
from .. import arith
from ..builder import current
from ..regions import shape_text
from ..values import BufferValue, as_expr


@impl(words.view)
def _view(buf: Any, shape: Any = None, dtype: Any = None) -> Any:
    return _alias("T.view", buf, shape, dtype)


@impl(words.reshape)
def _reshape(buf: Any, shape: Any) -> Any:
    return _alias("T.reshape", buf, shape, None)


def _alias(word: str, buf: Any, shape: Any, dtype: Any) -> BufferValue:
    current(word)
    if not isinstance(buf, BufferValue):
        raise TileTypeError(f"{word} needs a whole buffer, got {buf!r}"[:200], hint="slices are regions already; copy the slice to a tile first")
    old = buf.buffer
    kind = old.type if dtype is None else as_dtype(dtype)
    if old.strides is not None:
        raise TileValueError(f"{word}: {old.name} has strides of its own, so its elements do not lie in one row", hint="copy it to a tile first")
    dims = _default_shape(old, kind) if shape is None else tuple(arith.as_index(as_expr(d)) for d in as_shape(shape))
    before, after = _bits(old.shape, old.type), _bits(dims, kind)
    if arith.is_equal(before, after) is not True:
        raise TileValueError(
            f"T.reshape/view shape check failed: {old.name} {shape_text(old.shape)} {old.type} and {shape_text(dims)} {kind} differ in size",
            hint="the total number of bits must stay the same",
        )
    return BufferValue(reshaped(old, dims, kind))


def reshaped(buffer: Buffer, shape: tuple[Expr, ...], dtype: DType) -> Buffer:
    """A view of `buffer`, registered with the builder."""
    return current().alloc(current().take_hint(f"{buffer.name}_view"), shape, dtype, buffer.scope, view_of=buffer, safe_value=buffer.safe_value)


def _default_shape(old: Buffer, dtype: DType) -> tuple[Expr, ...]:
    """The shape of a view that only changes the dtype: the last dim grows or shrinks."""
    last = old.shape[-1]
    count = arith.const_int(last)
    if old.type.bits == dtype.bits:
        return old.shape
    if count is None or count * old.type.bits % dtype.bits:
        raise TileValueError(f"T.view: the last dim of {old.name} cannot be read as {dtype}", hint="give the new shape too")
    return (*old.shape[:-1], const(count * old.type.bits // dtype.bits))


def _bits(shape: tuple[Expr, ...], dtype: DType) -> Expr:
    total: Expr = Const(dtype.bits)
    for d in shape:
        total = arith.binary("mul", total, arith.as_index(d))
    return total
