"""What a kernel author holds in a Python variable.

Value         an expression (scalars.py)
ElementValue  a Value that is one element of a buffer, `A[i, j]`; also an address for `T.copy` and atomics
VarCell       a mutable scalar from `T.alloc_var`; reads give its value at that point of the program
BufferValue   a buffer; indexing gives elements and slices, item assignment stores
RegionValue   a slice of a buffer, `A[0:64, k]`
"""

from __future__ import annotations

from typing import Any

from ..base.dtypes import DType
from ..base.errors import TileBoundsError, TileTypeError, TileValueError
from ..ir.expr import Buffer, Const, Expr, const
from ..ir.printer import print_expr
from ..ir.stmt import Copy, Fill, Region, whole
from . import arith
from .builder import current
from .regions import Side, check_inside, pair, shape_text
from .scalars import NUMBERS, ElementValue, Tile, Value, as_expr, both, is_number, shown, store

__all__ = [
    "NUMBERS", "BufferValue", "ElementValue", "RegionValue", "Tile", "Value", "VarCell", "as_expr", "as_region", "as_side", "assign_item", "plain",
    "both", "is_number", "shown", "store",
]  # fmt: skip


class VarCell(ElementValue):
    """A mutable scalar of the kernel. Assigning to its name stores: `x = x + 1`, `x += 1`."""

    __slots__ = ()

    def __init__(self, buffer: Buffer) -> None:
        super().__init__(buffer, (const(0),))

    def store(self, value: Any) -> None:
        """Emit the assignment."""
        self.assign(value)

    def __getitem__(self, index: Any) -> ElementValue:
        return BufferValue(self.buffer)[index]  # type: ignore[no-any-return]

    def __setitem__(self, index: Any, value: Any) -> None:
        BufferValue(self.buffer)[index] = value


class BufferValue(Tile):
    """A buffer of the kernel: `.shape`, `.dtype`, `.strides`, `.scope()`, indexing and item assignment."""

    __slots__ = ("buffer",)

    def __init__(self, buffer: Buffer) -> None:
        self.buffer = buffer

    @property
    def dtype(self) -> DType:
        return self.buffer.type

    @property
    def name(self) -> str:
        return self.buffer.name

    @property
    def shape(self) -> tuple[Any, ...]:
        """Ints where known, else Values."""
        return tuple(plain(d) for d in self.buffer.shape)

    @property
    def ndim(self) -> int:
        return self.buffer.rank

    @property
    def data(self) -> BufferValue:
        """The storage, for `T.Tensor(shape, dtype, buf.data)`: the same elements under another shape."""
        return self

    @property
    def strides(self) -> tuple[Any, ...]:
        """Elements between neighbours of each dim."""
        if self.buffer.strides is not None:
            return tuple(plain(s) for s in self.buffer.strides)
        strides: list[Expr] = []
        step: Expr = const(1)
        for d in reversed(self.buffer.shape):
            strides.append(step)
            step = arith.binary("mul", step, arith.as_index(d))
        return tuple(plain(s) for s in reversed(strides))

    def scope(self) -> str:
        """TileLang's name of the memory: "global", "shared", "local.fragment", "local" or "local.var"."""
        return {"fragment": "local.fragment", "var": "local.var"}.get(self.buffer.scope, self.buffer.scope)

    def describe(self) -> str:
        return f"{self.buffer.name}{shape_text(self.buffer.shape)}"

    def __repr__(self) -> str:
        return f"<buffer {self.describe()} {self.dtype} {self.scope()}>"

    def __hash__(self) -> int:
        return hash(self.buffer)

    def __eq__(self, other: Any) -> bool:
        return isinstance(other, BufferValue) and other.buffer is self.buffer

    def __getitem__(self, index: Any) -> Any:
        return _index(whole(self.buffer), tuple(range(self.buffer.rank)), index)

    def __setitem__(self, index: Any, value: Any) -> None:
        assign_item(self[index], value)


class RegionValue(Tile):
    """A slice of a buffer. `.shape` holds the extents of the dims that were sliced; indexing it counts from the slice's start."""

    __slots__ = ("region", "dims")

    def __init__(self, region: Region, dims: tuple[int, ...]) -> None:
        self.region = region
        self.dims = dims  # which dims of the buffer are still there

    @property
    def buffer(self) -> Buffer:
        return self.region.buffer

    @property
    def dtype(self) -> DType:
        return self.buffer.type

    @property
    def shape(self) -> tuple[Any, ...]:
        return tuple(plain(self.region.extents[d]) for d in self.dims)

    @property
    def ndim(self) -> int:
        return len(self.dims)

    def scope(self) -> str:
        return BufferValue(self.buffer).scope()

    def describe(self) -> str:
        return f"a slice {shape_text(self.region.extents)} of {self.buffer.name}"

    def __repr__(self) -> str:
        return f"<{self.describe()} {self.dtype}>"

    def __getitem__(self, index: Any) -> Any:
        return _index(self.region, self.dims, index)

    def __setitem__(self, index: Any, value: Any) -> None:
        assign_item(self[index], value)


def plain(e: Expr) -> Any:
    """A Python number for a constant, else a Value."""
    return e.value if isinstance(e, Const) else Value(e)


# ---------------------------------------------------------------------------------------------- indexing
def _index(base: Region, dims: tuple[int, ...], index: Any) -> Any:
    """`base[index]`, where `dims` are the dims of the buffer that can still be indexed."""
    items = _expand(base, dims, index)
    starts, extents, kept = list(base.starts), list(base.extents), []
    for dim, item in zip(dims, items, strict=True):
        if isinstance(item, slice):
            kept.append(dim)
            low, extents[dim] = _slice(base, dim, item)
        else:
            low, extents[dim] = _element(base, dim, item), const(1)
        starts[dim] = arith.binary("add", base.starts[dim], low)
    if not kept:
        return ElementValue(base.buffer, tuple(starts))
    return RegionValue(Region(base.buffer, tuple(starts), tuple(extents)), tuple(kept))


def _expand(base: Region, dims: tuple[int, ...], index: Any) -> list[Any]:
    """One item per dim: `...` and missing items at the end become full slices."""
    items = list(index) if isinstance(index, tuple) else [index]
    dots = [i for i, item in enumerate(items) if item is Ellipsis]
    missing = len(dims) - (len(items) - len(dots))
    if missing < 0 or len(dots) > 1:
        many = len(items) - len(dots)
        raise TileValueError(
            f"{base.buffer.name} has {len(dims)} dim{'s' * (len(dims) != 1)} {shape_text([base.extents[d] for d in dims])}, got {many} indices",
            hint="give one index or slice per dim",
        )
    where = dots[0] if dots else len(items)
    items[where : where + len(dots)] = [slice(None)] * missing
    return items


def _element(base: Region, dim: int, item: Any) -> Expr:
    if isinstance(item, Tile):
        raise TileTypeError(f"{item.describe()} cannot be an index", hint="index with one of its elements, inside T.Parallel or T.serial")
    index = arith.as_index(as_expr(item))
    at, size = arith.const_int(index), base.extents[dim]
    if at is None:
        return index
    total = arith.const_int(size)
    if base.buffer.is_on_chip and total is not None and not -total <= at < total:
        raise TileBoundsError(
            f"index {at} is outside dim {dim} of {base.buffer.name}{shape_text(base.buffer.shape)}", hint=f"it holds the indices 0 to {total - 1}"
        )
    return arith.binary("add", arith.as_index(size), index) if at < 0 else index


def _slice(base: Region, dim: int, item: slice) -> tuple[Expr, Expr]:
    """First index and extent of a slice."""
    if item.step is not None and not (isinstance(item.step, int) and item.step == 1):
        raise TileValueError(f"a slice of {base.buffer.name} has the step {item.step}", hint="slices are dense; for a stride, loop over the elements")
    size = arith.as_index(base.extents[dim])
    if item.start is None and item.stop is None:
        return const(0), base.extents[dim]
    low = const(0) if item.start is None else _bound(size, item.start)
    high = size if item.stop is None else _bound(size, item.stop)
    extent = arith.difference(high, low)
    text = f"[{print_expr(low)}:{print_expr(high)}]"
    first, count, total = arith.const_int(low), arith.const_int(extent), arith.const_int(size)
    if count is not None and (count < 0 or (count == 0 and base.buffer.is_on_chip)):
        raise TileValueError(f"the slice {text} of {base.buffer.name} is empty", hint="the stop must lie behind the start")
    if base.buffer.is_on_chip:
        if count is None:
            raise TileValueError(
                f"the slice {text} of {base.buffer.name} has no constant length",
                hint="on-chip slices have a constant length: write [start : start + 64]",
            )
        if total is not None and (count > total or (first is not None and not 0 <= first <= total - count)):
            raise TileBoundsError(
                f"the slice {text} leaves dim {dim} of {base.buffer.name}{shape_text(base.buffer.shape)}",
                hint=f"the dim has {total} elements",
            )
    return low, extent


def _bound(size: Expr, item: Any) -> Expr:
    bound = arith.as_index(as_expr(item))
    at = arith.const_int(bound)
    return arith.binary("add", size, bound) if at is not None and at < 0 else bound


# ---------------------------------------------------------------------------------------------- operands
def as_side(x: Any, word: str) -> Side:
    """The operand `x` of the tile operation `word`. Raises: TileTypeError if it is no buffer, slice or element."""
    match x:
        case BufferValue():
            return Side(whole(x.buffer))
        case RegionValue():
            return Side(x.region)
        case ElementValue():
            return Side(Region(x.buffer, x.indices, tuple(const(1) for _ in x.indices)), is_corner=True)
        case Buffer():
            return Side(whole(x))
    raise TileTypeError(
        f"{word} needs a buffer, a slice or an element of one, got {shown(x)}",
        hint="a tile comes from a tensor parameter or from T.alloc_shared, T.alloc_fragment, ...",
    )


def as_region(x: Any, word: str = "this operation") -> Region:
    """The box that `x` means by itself: an element is a box of one."""
    region = as_side(x, word).region
    check_inside(word, region)
    return region


def assign_item(target: Any, value: Any) -> None:
    """`target = value` for an element (a store) or a slice (a fill or a copy)."""
    if isinstance(target, ElementValue):
        target.assign(value)
        return
    side = as_side(target, "an assignment")
    builder = current(f"assigning to {side.buffer.name}")
    builder.require_tile_op("assigning to a slice")
    if isinstance(value, Tile):
        src, dst = pair("an assignment", as_side(value, "an assignment"), side)
        builder.emit(Copy(src, dst))
    else:
        builder.emit(Fill(side.region, as_expr(value, side.buffer.type)))
