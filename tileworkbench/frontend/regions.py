"""Which box of a buffer an operand means, and how the two boxes of a copy fit together.

An operand of a tile operation is a whole buffer, a slice, or an element that serves as the first corner. `pair` turns two of them into
two regions whose dims of extent other than 1 agree, as `Copy` and tile atomics need:

- a whole buffer has its shape, a slice its extents, an element no extent;
- a side without extents takes the other's, aligned to the right, with 1 in the dims before (two elements: one element);
- otherwise the dims other than 1 pair up in order; one that is only known at run time takes the constant of the other side, and of two
  that are only known at run time the on-chip side (else the source) decides;
- constants that differ are an error: the language has no broadcasting, and no silent cut.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..base.errors import TileBoundsError, TileValueError
from ..ir.expr import Buffer, Const, Expr, const, is_const
from ..ir.node import replace
from ..ir.printer import print_expr
from ..ir.stmt import Region
from . import arith

_RANK = {"global": 0, "shared": 1, "fragment": 2, "local": 2, "var": 2}


@dataclass(frozen=True, slots=True)
class Side:
    """An operand: its box, and whether the author gave it an extent (`is_corner`: no, it is `A[i, j]`)."""

    region: Region
    is_corner: bool = False

    @property
    def buffer(self) -> Buffer:
        return self.region.buffer

    def describe(self) -> str:
        if self.is_corner:
            return f"{self.buffer.name}[{', '.join(print_expr(s) for s in self.region.starts)}]"
        return f"{self.buffer.name} {shape_text(self.region.extents)}"


def shape_text(dims: Sequence[Expr]) -> str:
    """`(64, n)`: a shape for messages."""
    return "(" + ", ".join(print_expr(d) for d in dims) + ("," if len(dims) == 1 else "") + ")"


def pair(word: str, src: Side, dst: Side) -> tuple[Region, Region]:
    """The regions of `word` from `src` to `dst`.

    Raises: TileValueError if the extents do not fit, TileBoundsError if a box leaves an on-chip buffer.
    """
    if src.is_corner:
        one = _grow(word, src, dst.region)
        two = dst.region
    elif dst.is_corner:
        one, two = src.region, _grow(word, dst, src.region)
    else:
        one, two = _agree(word, src, dst)
    check_inside(word, one)
    check_inside(word, two)
    return one, two


def _grow(word: str, corner: Side, other: Region) -> Region:
    """`corner` with the extents of `other`, aligned to the right."""
    rank, extents = corner.buffer.rank, list(other.extents)
    while len(extents) > rank and is_const(extents[0], 1):
        del extents[0]
    if len(extents) > rank:
        many = [e for e in extents if not is_const(e, 1)]
        if len(many) > rank:
            raise TileValueError(
                f"{word}: {corner.describe()} has {rank} dim{'s' * (rank != 1)}, the other side is {shape_text(other.extents)}",
                hint=f"index a buffer of at least {len(many)} dims, or slice the other side down to {rank}",
            )
        extents = many
    ones: list[Expr] = [const(1)] * (rank - len(extents))
    return replace(corner.region, extents=(*ones, *extents))


def _agree(word: str, src: Side, dst: Side) -> tuple[Region, Region]:
    left = [d for d, e in enumerate(src.region.extents) if not is_const(e, 1)]
    right = [d for d, e in enumerate(dst.region.extents) if not is_const(e, 1)]
    if len(left) != len(right):
        raise _mismatch(word, src, dst)
    one, two = list(src.region.extents), list(dst.region.extents)
    prefer_dst = _RANK[dst.buffer.scope] > _RANK[src.buffer.scope]
    for a, b in zip(left, right, strict=True):
        same = arith.is_equal(one[a], two[b])
        if same is False:
            raise _mismatch(word, src, dst)
        if same is None:
            take = one[a] if isinstance(one[a], Const) else two[b] if isinstance(two[b], Const) or prefer_dst else one[a]
            one[a] = two[b] = take
        else:
            one[a] = two[b] = two[b] if isinstance(two[b], Const) else one[a]
    return replace(src.region, extents=tuple(one)), replace(dst.region, extents=tuple(two))


def _mismatch(word: str, src: Side, dst: Side) -> TileValueError:
    return TileValueError(
        f"{word}: the shapes do not fit: {src.describe()} to {dst.describe()}",
        hint="the dims other than 1 must be equal, in order; slice the larger side, such as tile[0:48, :]",
    )


def check_inside(word: str, region: Region) -> None:
    """Refuse a box that provably leaves an on-chip buffer; boxes of global buffers are guarded when the kernel runs."""
    buffer = region.buffer
    if not buffer.is_on_chip:
        return
    for d, (start, extent, size) in enumerate(zip(region.starts, region.extents, buffer.shape, strict=True)):
        first, count, total = arith.const_int(start), arith.const_int(extent), arith.const_int(size)
        if count is None or total is None:
            continue
        low = first if first is not None else 0
        if low < 0 or low + count > total:
            raise TileBoundsError(
                f"{word} touches {buffer.name}{shape_text(buffer.shape)} from {low} to {low + count} in dim {d}, which has {total} elements",
                hint=f"make the slice or the other side at most {max(total - max(low, 0), 0)} long there, or the buffer larger",
            )


def tile_shape(region: Region, rank: int) -> tuple[Expr, ...] | None:
    """The last `rank` extents of a region whose dims before those are all 1; None if they are not."""
    lead = region.extents[: len(region.extents) - rank]
    return region.extents[len(region.extents) - rank :] if len(region.extents) >= rank and all(is_const(e, 1) for e in lead) else None
