"""Meanings of the atomic words: one element, or a whole tile."""

from __future__ import annotations

from typing import Any

from ...base.errors import TileTypeError, TileValueError, UnsupportedError
from ...ir.expr import Load, Var, const
from ...ir.stmt import Atomic, Region
from ...language import atomic as words
from ...language._dispatch import impl
from .. import arith
from ..builder import current
from ..regions import Side, check_inside, pair
from ..values import Tile, Value, as_expr, as_side
from .common import one_element

_ORDERS = ("relaxed", "consume", "acquire", "release", "acq_rel", "seq_cst")


@impl(words.atomic_add)
def _add(dst: Any, value: Any, memory_order: Any = None, return_prev: bool = False, use_tma: bool = False, annotations: Any = None) -> Any:
    return _emit("add", dst, value, memory_order, return_prev)


@impl(words.atomic_max)
def _max(dst: Any, value: Any, memory_order: Any = None, return_prev: bool = False) -> Any:
    return _emit("max", dst, value, memory_order, return_prev)


@impl(words.atomic_min)
def _min(dst: Any, value: Any, memory_order: Any = None, return_prev: bool = False) -> Any:
    return _emit("min", dst, value, memory_order, return_prev)


@impl(words.atomic_or)
def _or(dst: Any, value: Any, memory_order: Any = None, return_prev: bool = False) -> Any:
    return _emit("or", dst, value, memory_order, return_prev)


@impl(words.atomic_and)
def _and(dst: Any, value: Any, memory_order: Any = None, return_prev: bool = False) -> Any:
    return _emit("and", dst, value, memory_order, return_prev)


@impl(words.atomic_xor)
def _xor(dst: Any, value: Any, memory_order: Any = None, return_prev: bool = False) -> Any:
    return _emit("xor", dst, value, memory_order, return_prev)


@impl(words.atomic_exch)
def _exch(dst: Any, value: Any, memory_order: Any = None, return_prev: bool = False) -> Any:
    return _emit("exch", dst, value, memory_order, return_prev)


@impl(words.atomic_load)
def _load(src: Any, memory_order: str = "seq_cst") -> Any:
    return _emit_one("load", _element(src, "T.atomic_load"), None, memory_order, True)


@impl(words.atomic_store)
def _store(dst: Any, value: Any, memory_order: str = "seq_cst") -> None:
    _emit_one("store", _element(dst, "T.atomic_store"), value, memory_order, False)


@impl(words.atomic_addx2)
def _addx2(dst: Any, value: Any, return_prev: bool = False) -> Any:
    return _emit_lanes("T.atomic_addx2", 2, dst, value, return_prev)


@impl(words.atomic_addx4)
def _addx4(dst: Any, value: Any, return_prev: bool = False) -> Any:
    return _emit_lanes("T.atomic_addx4", 4, dst, value, return_prev)


def _emit(op: str, dst: Any, value: Any, memory_order: Any, return_prev: bool) -> Any:
    word = f"T.atomic_{op}"
    current(word).require_launch(word)
    side = as_side(dst, word)
    if side.buffer.type.is_float and op in ("or", "and", "xor"):
        raise TileTypeError(f"{word} needs integers, {side.buffer.name} is {side.buffer.type}", hint="view the buffer as an integer dtype: T.view")
    if side.is_corner and not isinstance(value, Tile):
        return _emit_one(op, side, value, memory_order, return_prev)
    if return_prev:
        raise UnsupportedError(f"{word} of a tile cannot return the previous values", hint="update the elements one by one inside T.Parallel")
    return _emit_tile(op, side, value, memory_order)


def _emit_one(op: str, side: Side, value: Any, memory_order: Any, wants_result: bool) -> Any:
    word = f"T.atomic_{op}"
    builder = current(word)
    builder.require_launch(word)
    result = Var(builder.fresh(builder.take_hint("prev")), side.buffer.type) if wants_result else None
    check_inside(word, side.region)
    amount = None if op == "load" else as_expr(value, side.buffer.type)
    builder.emit(Atomic(op, side.region, amount, result, _order(word, memory_order)))
    return Value(result) if result is not None else None


def _emit_tile(op: str, side: Side, value: Any, memory_order: Any) -> None:
    word = f"T.atomic_{op}"
    builder = current(word)
    builder.require_tile_op(word)
    if not isinstance(value, Tile):
        raise TileValueError(
            f"{word}: {side.describe()} is a tile, the value is one number", hint="give a tile of the same extents, or one element such as C[i, j]"
        )
    source, target = pair(word, as_side(value, word), side)
    builder.emit(Atomic(op, target, source, None, _order(word, memory_order)))


def _emit_lanes(word: str, lanes: int, dst: Any, value: Any, return_prev: bool) -> None:
    if return_prev:
        raise UnsupportedError(f"{word} cannot return the previous values", hint="use T.atomic_add on each element with return_prev=True")
    builder = current(word)
    builder.require_launch(word)
    target, source = one_element(dst, word), one_element(value, word)
    for lane in range(lanes):
        at, of = (_next(side.region, lane) for side in (target, source))
        amount = arith.cast(Load(of.buffer, of.starts), target.buffer.type)
        builder.emit(Atomic("add", at, amount))


def _next(region: Region, lane: int) -> Region:
    return Region(region.buffer, (*region.starts[:-1], arith.binary("add", region.starts[-1], const(lane))), region.extents)


def _element(operand: Any, word: str) -> Side:
    side = as_side(operand, word)
    if not side.is_corner and any(e != const(1) for e in side.region.extents):
        raise TileValueError(f"{word} needs one element, got {side.describe()}", hint="index it: buf[i]")
    return side


def _order(word: str, memory_order: Any) -> str:
    order = "relaxed" if memory_order is None else memory_order
    if order not in _ORDERS:
        raise TileValueError(f"{word} knows no memory order {order!r}", hint=f"one of {', '.join(_ORDERS)}")
    return str(order)
