"""Meanings of the tile words that move, fill and multiply: copy, fill, clear, transpose, gemm, dp4a, im2col.

Every statement reaches the IR with complete regions: extents inferred, shapes checked, on-chip boxes proved inside where that is possible.
"""

from __future__ import annotations

from typing import Any

from ...base.dtypes import INT32
from ...base.errors import TileTypeError, TileValueError
from ...ir.expr import Binary, Const, Expr, Load, Var, const
from ...ir.stmt import Copy, Fill, Gemm, ParallelFor, Region, Store
from ...language import tile as words
from ...language._dispatch import impl
from .. import arith
from ..builder import current
from ..regions import Side, check_inside, pair, shape_text, tile_shape
from ..values import BufferValue, as_expr, as_side, store
from .common import one_element

_POLICY = {0: "square", 1: "full_row", 2: "full_col"}


# ---------------------------------------------------------------------------------------------- copy and fill
@impl(words.copy)
def _copy(
    src: Any, dst: Any, *, coalesced_width: Any = None, disable_tma: bool = False, eviction_policy: Any = None, prefer_instruction: Any = None,
    annotations: Any = None, loop_layout: Any = None,
) -> None:  # fmt: skip
    _emit_copy("T.copy", src, dst, is_async=False)


@impl(words.async_copy)
def _async_copy(src: Any, dst: Any, *, coalesced_width: Any = None, annotations: Any = None, loop_layout: Any = None) -> None:
    _emit_copy("T.async_copy", src, dst, is_async=True)


def _emit_copy(word: str, src: Any, dst: Any, is_async: bool) -> None:
    builder = current(word)
    builder.require_launch(word)
    one, two = as_side(src, word), as_side(dst, word)
    if one.is_corner and two.is_corner:
        store(two.buffer, two.region.starts, src)
        return
    builder.require_tile_op(word)
    source, target = pair(word, one, two)
    builder.emit(Copy(source, target, is_async))


@impl(words.fill)
def _fill(buf: Any, value: Any, annotations: Any = None) -> None:
    _emit_fill("T.fill", buf, value)


@impl(words.clear)
def _clear(buf: Any, annotations: Any = None) -> None:
    _emit_fill("T.clear", buf, 0)


def _emit_fill(word: str, buf: Any, value: Any) -> None:
    builder = current(word)
    side = as_side(buf, word)
    if side.is_corner:
        builder.require_launch(word)
        store(side.buffer, side.region.starts, value)
        return
    builder.require_tile_op(word)
    check_inside(word, side.region)
    builder.emit(Fill(side.region, as_expr(value, side.buffer.type)))


@impl(words.transpose)
def _transpose(src: Any, dst: Any) -> None:
    builder = current("T.transpose")
    builder.require_tile_op("T.transpose")
    one, two = as_side(src, "T.transpose").region, as_side(dst, "T.transpose").region
    a, b = tile_shape(one, 2), tile_shape(two, 2)
    if a is None or b is None or (a[0], a[1]) != (b[1], b[0]):
        raise TileValueError(
            f"T.transpose: {shape_text(one.extents)} does not fit {shape_text(two.extents)}",
            hint="src is (M, N) and dst (N, M); dims before them are 1",
        )
    if one.buffer.root is two.buffer.root:
        raise TileValueError("T.transpose cannot work in place", hint="give it a second buffer")
    i, j = Var(builder.fresh("i")), Var(builder.fresh("j"))
    value = arith.cast(Load(one.buffer, _inside(one, (i, j))), two.buffer.type)
    builder.emit(ParallelFor((i, j), a, (Store(two.buffer, _inside(two, (j, i)), value, span=builder.span()),)))


def _inside(region: Region, at: tuple[Expr, ...]) -> tuple[Expr, ...]:
    """The indices of element `at` of the last dims of `region`."""
    lead = len(region.starts) - len(at)
    return (*region.starts[:lead], *(arith.binary("add", s, x) for s, x in zip(region.starts[lead:], at, strict=True)))


# ---------------------------------------------------------------------------------------------- matrix products
@impl(words.gemm)
def _gemm(
    A: Any, B: Any, C: Any, transpose_A: bool = False, transpose_B: bool = False, policy: Any = words.GemmWarpPolicy.Square, clear_accum: Any = False,
    k_pack: int = 1, mbar: Any = None, annotations: Any = None, wg_wait: int = 0,
) -> None:  # fmt: skip
    builder = current("T.gemm")
    builder.require_tile_op("T.gemm")
    builder.emit(product("T.gemm", A, B, C, transpose_A, transpose_B, policy, clear_accum))


def product(word: str, A: Any, B: Any, C: Any, transpose_A: bool, transpose_B: bool, policy: Any, clear_accum: Any) -> Gemm:
    """The product that `word` was given, checked."""
    a, b, c = _matrix("A", A), _matrix("B", B), _matrix("C", C)
    (m, n), (k_a, m_a), (n_b, k_b) = _dims(c), _dims(a, not transpose_A), _dims(b, not transpose_B)
    _agree("M", ("A", a, m_a), ("C", c, m), transpose_A)
    _agree("N", ("B", b, n_b), ("C", c, n), transpose_B)
    _agree("K", ("A", a, k_a), ("B", b, k_b), transpose_A or transpose_B)
    for name, region in (("A", a), ("B", b)):
        if region.buffer.type.is_float and not c.buffer.type.is_float:
            raise TileTypeError(
                f"{word} cannot add products of {region.buffer.type} ({name}) in C, which is {c.buffer.type}", hint='make C a "float32" fragment'
            )
    return Gemm(a, b, c, bool(transpose_A), bool(transpose_B), arith.to_bool(as_expr(clear_accum)), _policy(policy))


def _policy(policy: Any) -> str:
    if isinstance(policy, int) and int(policy) in _POLICY:
        return _POLICY[int(policy)]
    raise TileTypeError(f"T.gemm: {policy!r} is no warp policy", hint="T.GemmWarpPolicy.Square, .FullRow or .FullCol")


def _matrix(name: str, operand: Any) -> Region:
    """The region of a gemm operand: on chip, at least 2-D, constant extents, 1 before the last two dims."""
    side = as_side(operand, "T.gemm")
    if side.is_corner or tile_shape(side.region, 2) is None:
        raise TileValueError(
            f"T.gemm: {name} must be a matrix, got {side.describe()}", hint="give a 2-D tile, or a slice whose dims before the last two are 1"
        )
    if not side.buffer.is_on_chip:
        tensor = side.buffer.name
        raise TileValueError(
            f"T.gemm: {name} is the tensor {tensor}, in global memory", hint=f"copy a tile of it first: T.copy({tensor}[...], {name}_shared)"
        )
    check_inside("T.gemm", side.region)
    return side.region


def _dims(region: Region, swapped: bool = False) -> tuple[Expr, Expr]:
    rows, columns = region.extents[-2:]
    return (columns, rows) if swapped else (rows, columns)


def _agree(dim: str, left: tuple[str, Region, Expr], right: tuple[str, Region, Expr], is_transposed: bool) -> None:
    if arith.is_equal(left[2], right[2]) is True:
        return
    parts = [f"{name} {shape_text(region.extents)} has {dim} = {_number(size)}" for name, region, size in (left, right)]
    raise TileValueError(
        f"T.gemm {dim} shape check failed: {parts[0]}, {parts[1]}",
        hint="A is (M, K), B is (K, N), C is (M, N); transpose_A makes A (K, M), transpose_B makes B (N, K)"
        + ("" if is_transposed else "; did you forget one of them?"),
    )


def _number(e: Expr) -> str:
    return str(e.value) if isinstance(e, Const) else "?"


@impl(words.dp4a)
def _dp4a(A: Any, B: Any, C: Any) -> None:
    a, b, c = (one_element(x, "T.dp4a") for x in (A, B, C))
    total = arith.cast(Load(c.buffer, c.region.starts), INT32)
    for lane in range(4):
        x, y = (arith.cast(Load(side.buffer, _next(side, lane)), INT32) for side in (a, b))
        total = arith.binary("add", total, arith.binary("mul", x, y))
    current("T.dp4a").emit(Store(c.buffer, c.region.starts, arith.cast(total, c.buffer.type)))


def _next(side: Side, step: int) -> tuple[Expr, ...]:
    return (*side.region.starts[:-1], arith.binary("add", side.region.starts[-1], const(step)))


# ---------------------------------------------------------------------------------------------- convolution
@impl(words.im2col)
def _im2col(img: Any, col: Any, nhw_step: Any, c_step: Any, kernel: int, stride: int, dilation: int, pad: int, eviction_policy: Any = None) -> None:
    builder = current("T.im2col")
    builder.require_tile_op("T.im2col")
    side = as_side(col, "T.im2col")
    tile = tile_shape(side.region, 2)
    if not isinstance(img, BufferValue) or img.ndim != 4 or tile is None:
        raise TileValueError(
            "T.im2col loads from a whole image (N, H, W, C) into a tile (block_M, block_K)", hint="give the 4-D buffer and a 2-D tile"
        )
    images, height, width, channels = (arith.as_index(d) for d in img.buffer.shape)
    op = arith.binary

    def pixels(size: Expr) -> Expr:
        return op("add", op("floordiv", op("add", size, const(2 * pad - dilation * (kernel - 1) - 1)), const(stride)), const(1))

    i, j = Var(builder.fresh("i")), Var(builder.fresh("j"))
    rows, columns = pixels(height), pixels(width)
    m = op("add", op("mul", arith.as_index(as_expr(nhw_step)), tile[0]), i)
    k = op("add", op("mul", arith.as_index(as_expr(c_step)), tile[1]), j)

    def place(pixel: Expr, tap: Expr) -> Expr:
        return op("add", op("add", op("mul", pixel, const(stride)), op("mul", tap, const(dilation))), const(-pad))

    tap = op("floordiv", k, channels)
    y = place(op("floormod", op("floordiv", m, columns), rows), op("floordiv", tap, const(kernel)))
    x = place(op("floormod", m, columns), op("floormod", tap, const(kernel)))
    n = op("floordiv", m, op("mul", rows, columns))
    tests = [op("lt", n, images), op("lt", tap, const(kernel * kernel))]
    tests += [test for p, size in ((y, height), (x, width)) for test in (op("ge", p, const(0)), op("lt", p, size))]
    inside = tests[0]
    for test in tests[1:]:
        inside = Binary("and", inside, test) if not isinstance(test, Const) else inside
    value = arith.select(inside, Load(img.buffer, (n, y, x, op("floormod", k, channels))), const(0, img.dtype))
    target = Store(side.buffer, _inside(side.region, (i, j)), arith.cast(value, side.buffer.type), span=builder.span())
    builder.emit(ParallelFor((i, j), tile, (target,)))
