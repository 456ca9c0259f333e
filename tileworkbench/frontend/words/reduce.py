"""Meanings of reductions, scans, votes over a tile, and reducers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...base.errors import TileTypeError, TileValueError
from ...ir.expr import Binary, Buffer, Const, Expr, const
from ...ir.stmt import Atomic, Copy, Fill, Reduce, Region, Scan, whole
from ...language import tile as words
from ...language._dispatch import impl
from ...language.types import as_dtype, as_shape
from .. import arith
from ..builder import current
from ..regions import Side, check_inside, pair, shape_text
from ..values import BufferValue, ElementValue, RegionValue, Value, as_expr, as_side, shown
from .views import reshaped

_OPS = ("sum", "abssum", "max", "min", "absmax", "bitand", "bitor", "bitxor")
_SCOPES = {"shared", "fragment"}


# ---------------------------------------------------------------------------------------------- reductions
@impl(words.reduce_sum)
def _sum(buf: Any, out: Any, dim: int = -1, clear: bool = True, batch: int = 1, annotations: Any = None) -> None:
    _emit_reduce("reduce_sum", "sum", buf, out, dim, clear)


@impl(words.reduce_max)
def _max(buf: Any, out: Any, dim: int = -1, clear: bool = True, batch: int = 1, nan_propagate: bool = False, annotations: Any = None) -> None:
    _emit_reduce("reduce_max", "max", buf, out, dim, clear, nan_propagate)


@impl(words.reduce_min)
def _min(buf: Any, out: Any, dim: int = -1, clear: bool = True, batch: int = 1, nan_propagate: bool = False, annotations: Any = None) -> None:
    _emit_reduce("reduce_min", "min", buf, out, dim, clear, nan_propagate)


@impl(words.reduce_absmax)
def _absmax(buf: Any, out: Any, dim: int = -1, clear: bool = True, batch: int = 1, nan_propagate: bool = False, annotations: Any = None) -> None:
    _emit_reduce("reduce_absmax", "absmax", buf, out, dim, clear, nan_propagate)


@impl(words.reduce_abssum)
def _abssum(buf: Any, out: Any, dim: int = -1, batch: int = 1, annotations: Any = None) -> None:
    _emit_reduce("reduce_abssum", "abssum", buf, out, dim, True)


@impl(words.reduce_bitand)
def _bitand(buf: Any, out: Any, dim: int = -1, clear: bool = True, batch: int = 1, annotations: Any = None) -> None:
    _emit_reduce("reduce_bitand", "bitand", buf, out, dim, clear)


@impl(words.reduce_bitor)
def _bitor(buf: Any, out: Any, dim: int = -1, clear: bool = True, batch: int = 1, annotations: Any = None) -> None:
    _emit_reduce("reduce_bitor", "bitor", buf, out, dim, clear)


@impl(words.reduce_bitxor)
def _bitxor(buf: Any, out: Any, dim: int = -1, clear: bool = True, batch: int = 1, annotations: Any = None) -> None:
    _emit_reduce("reduce_bitxor", "bitxor", buf, out, dim, clear)


@impl(words.reduce)
def _reduce(buf: Any, out: Any, reduce_type: str, dim: int = -1, clear: bool = True) -> None:
    if reduce_type not in _OPS:
        raise TileValueError(f"T.reduce knows no {reduce_type!r}", hint=f"one of {', '.join(_OPS)}")
    _emit_reduce("reduce", reduce_type, buf, out, dim, clear)


def _emit_reduce(name: str, op: str, buf: Any, out: Any, dim: int, clear: bool, nan_propagate: bool = False) -> None:
    word = f"T.{name}"
    builder = current(word)
    builder.require_tile_op(word)
    src, kept = _tile(buf, word)
    dst, _ = _tile(out, word)
    for region in (src, dst):
        if region.buffer.scope == "global":
            raise TileValueError(f"{word} works on tiles; {region.buffer.name} is in global memory", hint="copy it to a fragment first")
    scopes = {src.buffer.scope, dst.buffer.scope}
    if not scopes <= _SCOPES and not (src.buffer.scope == "local" and dst.buffer.scope in ("local", "var")):
        raise TileValueError(
            f"{word} cannot reduce from {src.buffer.scope} to {dst.buffer.scope} memory",
            hint="both sides are shared or fragment tiles, or both local arrays",
        )
    if not isinstance(clear, int):
        raise TileTypeError(f"{word}: clear must be True or False, got {shown(clear)}", hint="clear=False adds to what the output holds")
    axis = _axis(word, dim, [src.extents[d] for d in kept], src.buffer)
    if op.startswith("bit") and src.buffer.type.is_float:
        raise TileTypeError(f"{word} needs integers or bools, {src.buffer.name} is {src.buffer.type}", hint="T.reinterpret gives the bits of a float")
    rest = [src.extents[d] for n, d in enumerate(kept) if n != axis]
    single = [*rest[:axis], const(1), *rest[axis:]]
    shape = list(dst.extents)
    is_scalar = not rest and len(shape) == 1 and shape == [const(1)]
    if shape not in (rest, single) and not is_scalar and [e for e in shape if e != const(1)] != [e for e in rest if e != const(1)]:
        gives = shape_text(rest or [const(1)])
        raise TileValueError(
            f"Invalid reduce output shape: {word} of {src.buffer.name} {shape_text(src.extents)} over dim {axis} gives {gives}, "
            f"{dst.buffer.name} is {shape_text(dst.extents)}",
            hint=f"allocate the output as {gives} or {shape_text(single)}",
        )
    builder.emit(Reduce(op, src, dst, kept[axis], bool(clear), bool(nan_propagate)))


def _tile(operand: Any, word: str) -> tuple[Region, list[int]]:
    """The region of a tile operand, and the dims that count (those that an index did not fix)."""
    side = as_side(operand, word)
    check_inside(word, side.region)
    kept = list(operand.dims) if isinstance(operand, RegionValue) else list(range(side.buffer.rank))
    return side.region, kept


def _axis(word: str, dim: Any, extents: Sequence[Expr], buffer: Buffer) -> int:
    rank = len(extents)
    if isinstance(dim, bool) or not isinstance(dim, int):
        raise TileTypeError(f"{word}: dim must be an int, got {shown(dim)}", hint=f"dim counts from 0 to {rank - 1}, or from -1 at the end")
    if not -rank <= dim < rank:
        raise TileValueError(
            f"{word}: dim {dim} is out of range for {buffer.name} {shape_text(extents)}",
            hint=f"dim counts from 0 to {rank - 1}, or from -1 at the end",
        )
    return dim % rank


# ---------------------------------------------------------------------------------------------- any and all
@impl(words.any_of)
def _any_of(*conditions: Any) -> Any:
    return _vote("any", "T.any_of", "or", conditions)


@impl(words.all_of)
def _all_of(*conditions: Any) -> Any:
    return _vote("all", "T.all_of", "and", conditions)


def _vote(op: str, word: str, logical: str, conditions: tuple[Any, ...]) -> Any:
    if len(conditions) == 1 and isinstance(conditions[0], BufferValue | RegionValue):
        return _vote_tile(op, word, conditions[0])
    if not conditions:
        raise TileValueError(f"{word} needs a tile or conditions")
    total = arith.to_bool(as_expr(conditions[0]))
    for other in conditions[1:]:
        total = arith.binary(logical, total, arith.to_bool(as_expr(other)))
    return Value(total)


def _vote_tile(op: str, word: str, operand: BufferValue | RegionValue) -> Value:
    builder = current(word)
    builder.require_tile_op(word)
    region, kept = _tile(operand, word)
    if not all(isinstance(e, Const) for e in region.extents):
        raise TileValueError(f"{word}: the extents of {shape_text(region.extents)} are not constant", hint="slice a part of constant size")
    count = 1
    for e in region.static_extents():
        count *= e
    extents = tuple(region.extents[d] for d in kept)
    tile = builder.alloc(f"{region.buffer.name}_{op}", extents, region.buffer.type, "fragment")
    builder.emit(Copy(region, whole(tile)))
    flat = reshaped(tile, (const(count),), tile.type)
    result = builder.alloc(op, (1,), as_dtype("bool"), "fragment")
    builder.emit(Reduce(op, whole(flat), whole(result), 0))
    return ElementValue(result, (const(0),))


# ---------------------------------------------------------------------------------------------- scans
@impl(words.cumsum)
def _cumsum(src: Any, dst: Any = None, dim: int = 0, reverse: bool = False, annotations: Any = None) -> None:
    _emit_scan("T.cumsum", "sum", src, dst, dim, reverse)


@impl(words.cummax)
def _cummax(src: Any, dst: Any = None, dim: int = 0, reverse: bool = False, annotations: Any = None) -> None:
    _emit_scan("T.cummax", "max", src, dst, dim, reverse)


def _emit_scan(word: str, op: str, src: Any, dst: Any, dim: int, reverse: bool) -> None:
    builder = current(word)
    builder.require_tile_op(word)
    one, kept = _tile(src, word)
    two = one if dst is None else _tile(dst, word)[0]
    if not one.buffer.is_on_chip or not two.buffer.is_on_chip:
        name = (one if not one.buffer.is_on_chip else two).buffer.name
        raise TileValueError(f"{word} works on tiles; {name} is in global memory", hint="copy it to a fragment or shared tile first")
    axis = _axis(word, dim, [one.extents[d] for d in kept], one.buffer)
    if one.extents != two.extents:
        raise TileValueError(f"{word}: src is {shape_text(one.extents)} and dst {shape_text(two.extents)}", hint="both have the same shape")
    builder.emit(Scan(op, one, two, kept[axis], bool(reverse)))


# ---------------------------------------------------------------------------------------------- reducers
_REDUCERS = {"sum": "add", "max": "max", "min": "min"}


class ReducerValue(BufferValue):
    """A tile that collects contributions: `acc[i] += x` and `acc[i] = T.max(acc[i], x)` count every iteration, also of a parallel loop."""

    __slots__ = ("op",)

    def __init__(self, buffer: Buffer, op: str) -> None:
        super().__init__(buffer)
        self.op = op

    @property
    def identity(self) -> Const:
        """What leaves any other value as it is."""
        kind = self.dtype
        if self.op == "sum":
            return const(0, kind)
        low = -float("inf") if kind.has_infinity else kind.min
        high = float("inf") if kind.has_infinity else kind.max
        return const(low if self.op == "max" else high, kind)

    def __getitem__(self, index: Any) -> Any:
        found = super().__getitem__(index)
        return ReducerElement(self, found.indices) if isinstance(found, ElementValue) else found


class ReducerElement(ElementValue):
    """One element of a reducer. Assigning `acc[i] op x` to `acc[i]` contributes x; anything else is a plain store."""

    __slots__ = ("reducer",)

    def __init__(self, reducer: ReducerValue, indices: tuple[Expr, ...]) -> None:
        super().__init__(reducer.buffer, indices)
        self.reducer = reducer

    def contribute(self, value: Any) -> None:
        box = Region(self.buffer, self.indices, tuple(const(1) for _ in self.indices))
        current("T.reducer_update").emit(Atomic(_REDUCERS[self.reducer.op], box, as_expr(value, self.dtype)))

    def assign(self, value: Any) -> None:
        wanted = _REDUCERS[self.reducer.op]
        match value.expr if isinstance(value, Value) else None:
            case Binary(op, old, x) if op == wanted and old == self.expr:
                self.contribute(Value(x))
            case Binary(op, x, old) if op == wanted and old == self.expr:
                self.contribute(Value(x))
            case Binary("sub", old, x) if wanted == "add" and old == self.expr:
                self.contribute(-Value(x))
            case _:
                super().assign(value)


@impl(words.alloc_reducer)
def _alloc_reducer(shape: Any, dtype: Any, op: str = "sum", replication: Any = None) -> Any:
    builder = current("T.alloc_reducer")
    builder.require_launch("T.alloc_reducer")
    if op not in _REDUCERS:
        raise TileValueError(f"T.alloc_reducer knows no operation {op!r}", hint='one of "sum", "max", "min"')
    return ReducerValue(builder.alloc("", [as_expr(d) for d in as_shape(shape)], as_dtype(dtype), "fragment"), op)


@impl(words.reducer_init)
def _reducer_init(acc: Any, init: Any = None) -> None:
    reducer = _reducer(acc, "T.reducer_init")
    builder = current("T.reducer_init")
    builder.require_tile_op("T.reducer_init")
    builder.emit(Fill(whole(reducer.buffer), reducer.identity if init is None else as_expr(init, reducer.dtype)))


@impl(words.reducer_update)
def _reducer_update(acc: Any, value: Any) -> None:
    if not isinstance(acc, ReducerElement):
        raise TileTypeError("T.reducer_update needs an element of a reducer", hint="T.reducer_update(acc[i], value), acc from T.alloc_reducer")
    acc.contribute(value)


@impl(words.finalize_reducer)
def _finalize_reducer(acc: Any, dst: Any = None, batch: int = 1) -> None:
    reducer = _reducer(acc, "T.finalize_reducer")
    builder = current("T.finalize_reducer")
    builder.require_tile_op("T.finalize_reducer")
    if dst is not None:
        source, target = pair("T.finalize_reducer", Side(whole(reducer.buffer)), as_side(dst, "T.finalize_reducer"))
        builder.emit(Copy(source, target))


def _reducer(acc: Any, word: str) -> ReducerValue:
    if isinstance(acc, ReducerValue):
        return acc
    raise TileTypeError(f"{word} needs a reducer, got {acc!r}"[:200], hint="make one with T.alloc_reducer(shape, dtype, op)")
