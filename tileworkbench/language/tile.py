"""Words for whole tiles: copy, fill, matrix products, reductions, scans, views.

A *tile operand* is a buffer, a slice `A[0:64, k]`, or an element `A[i, j]` that serves as the first corner of the tile. Tile operations
are done by the whole block and are complete before the next statement; they cannot stand inside `T.Parallel`.

    T.copy(A[by * 64, k * 32], A_shared)      # a 64x32 tile, its extent taken from A_shared
    T.gemm(A_shared, B_shared, C_local)
    T.reduce_max(scores, row_max, dim=1)
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any

from ._dispatch import alias, word


class GemmWarpPolicy(IntEnum):
    """How the warps of a block share the tile of a `T.gemm`. It never changes results."""

    Square = 0
    FullRow = 1
    FullCol = 2


# ---------------------------------------------------------------------------------------------- moving and filling
@word
def copy(
    src: Any, dst: Any, *, coalesced_width: Any = None, disable_tma: bool = False, eviction_policy: Any = None, prefer_instruction: Any = None,
    annotations: Any = None, loop_layout: Any = None,
) -> None:  # fmt: skip
    """Copy a tile from `src` to `dst`, converted element by element to dst's dtype.

    An element such as `A[i, j]` is a first corner and takes the other side's extents, aligned to the right. Dims other than 1 must agree in
    order. Elements of a global `src` outside it read as its safe value (0); elements of a global `dst` outside it are skipped.
    The keyword arguments are hints for GPUs. Two elements make it a plain store.

    Raises: TileValueError if the extents differ or neither side has any; TileBoundsError if a tile leaves an on-chip buffer.
    Example: `T.copy(A[by * 64 : (by + 1) * 64, 0:32], A_shared)`
    """


@word
def async_copy(src: Any, dst: Any, *, coalesced_width: Any = None, annotations: Any = None, loop_layout: Any = None) -> None:
    """As `T.copy`, but the author waits for it with `T.ptx_wait_group`. Results are those of a plain copy."""


@word
def fill(buf: Any, value: Any, annotations: Any = None) -> None:
    """Set every element of a buffer or slice to `value`, converted to its dtype. Example: `T.fill(m, -T.infinity("float32"))`"""


@word
def clear(buf: Any, annotations: Any = None) -> None:
    """Set every element of a buffer or slice to zero."""


@word
def transpose(src: Any, dst: Any) -> None:
    """`dst[j, i] = src[i, j]` for tiles (M, N) and (N, M) that do not overlap."""


@word
def im2col(img: Any, col: Any, nhw_step: Any, c_step: Any, kernel: int, stride: int, dilation: int, pad: int, eviction_policy: Any = None) -> None:
    """Load a tile of the im2col matrix of `img` (N, H, W, C) into `col` (block_M, block_K).

    Row m of the matrix is output pixel m of (N, OH, OW), column k is (kh, kw, c) of the kernel; `nhw_step` and `c_step` count tiles.
    Pixels in the padding and rows or columns beyond the matrix are zero.
    """


# ---------------------------------------------------------------------------------------------- matrix products
@word
def gemm(
    A: Any, B: Any, C: Any, transpose_A: bool = False, transpose_B: bool = False, policy: Any = GemmWarpPolicy.Square, clear_accum: Any = False,
    k_pack: int = 1, mbar: Any = None, annotations: Any = None, wg_wait: int = 0,
) -> None:  # fmt: skip
    """`C += op(A) @ op(B)` on tiles (M, K), (K, N), (M, N); products and sums in C's dtype.

    `transpose_A`: A is (K, M); `transpose_B`: B is (N, K). `clear_accum` (may be an expression such as `k == 0`) starts from zero.
    A and B are shared or fragment tiles, C a fragment (or shared) tile; dims before the last two must be 1. The rest are GPU hints.

    Raises: TileValueError if M, N or K disagree, or an operand is in global memory.
    Example: `T.gemm(Q_shared, K_shared, scores, transpose_B=True)`
    """


@word
def dp4a(A: Any, B: Any, C: Any) -> None:
    """`C += A[0] * B[0] + ... + A[3] * B[3]` for four int8 (or uint8) elements from A and B on, in int32."""


# ---------------------------------------------------------------------------------------------- reductions
@word
def reduce_sum(buf: Any, out: Any, dim: int = -1, clear: bool = True, batch: int = 1, annotations: Any = None) -> None:
    """Sum of `buf` over dim `dim` into `out`, whose shape is buf's without that dim, or with 1 there.

    With `clear=False` the old value of `out` takes part once. Sums of narrow floats run in float32.
    Raises: TileValueError for a bad `dim`, a shape that does not fit, or a global buffer.
    Example: `T.reduce_sum(exp_x, row_sum, dim=1)`
    """


@word
def reduce_max(buf: Any, out: Any, dim: int = -1, clear: bool = True, batch: int = 1, nan_propagate: bool = False, annotations: Any = None) -> None:
    """Maximum over `dim`, as `reduce_sum`. NaN is ignored unless `nan_propagate`; a row of only NaN gives NaN."""


@word
def reduce_min(buf: Any, out: Any, dim: int = -1, clear: bool = True, batch: int = 1, nan_propagate: bool = False, annotations: Any = None) -> None:
    """Minimum over `dim`, as `reduce_max`."""


@word
def reduce_absmax(
    buf: Any, out: Any, dim: int = -1, clear: bool = True, batch: int = 1, nan_propagate: bool = False, annotations: Any = None
) -> None:
    """Maximum of absolute values over `dim`, as `reduce_max`."""


@word
def reduce_abssum(buf: Any, out: Any, dim: int = -1, batch: int = 1, annotations: Any = None) -> None:
    """Sum of absolute values over `dim`; `out` starts at zero."""


@word
def reduce_bitand(buf: Any, out: Any, dim: int = -1, clear: bool = True, batch: int = 1, annotations: Any = None) -> None:
    """Bitwise and over `dim` of integers or bools, as `reduce_sum`."""


@word
def reduce_bitor(buf: Any, out: Any, dim: int = -1, clear: bool = True, batch: int = 1, annotations: Any = None) -> None:
    """Bitwise or over `dim` of integers or bools, as `reduce_sum`."""


@word
def reduce_bitxor(buf: Any, out: Any, dim: int = -1, clear: bool = True, batch: int = 1, annotations: Any = None) -> None:
    """Bitwise exclusive or over `dim` of integers or bools, as `reduce_sum`."""


@word
def reduce(buf: Any, out: Any, reduce_type: str, dim: int = -1, clear: bool = True) -> None:
    """The reduction named `reduce_type`: "sum", "abssum", "max", "min", "absmax", "bitand", "bitor" or "bitxor"."""


@word
def any_of(*conditions: Any) -> Any:
    """True if any element of a buffer or slice is not zero; of several scalar conditions, their `or`."""


@word
def all_of(*conditions: Any) -> Any:
    """True if no element of a buffer or slice is zero; of several scalar conditions, their `and`."""


# ---------------------------------------------------------------------------------------------- scans
@word
def cumsum(src: Any, dst: Any = None, dim: int = 0, reverse: bool = False, annotations: Any = None) -> None:
    """Inclusive running sum of `src` along `dim` into `dst` (None: in place); `reverse` runs from the end.

    Raises: TileValueError for a bad `dim` or shapes that differ.
    """


@word
def cummax(src: Any, dst: Any = None, dim: int = 0, reverse: bool = False, annotations: Any = None) -> None:
    """Inclusive running maximum, as `cumsum`."""


# ---------------------------------------------------------------------------------------------- deferred reductions
@word
def alloc_reducer(shape: Any, dtype: Any, op: str = "sum", replication: Any = None) -> Any:
    """A tile that collects contributions from any number of iterations; op "sum", "max" or "min".

    `reducer_init(acc)`, then `reducer_update(acc[i], value)` or `acc[i] += value` inside `T.Parallel`, then `finalize_reducer(acc, dst)`.
    """


@word
def reducer_init(acc: Any, init: Any = None) -> None:
    """Start a reducer from `init`, or from the identity of its operation."""


@word
def reducer_update(acc: Any, value: Any) -> None:
    """Contribute `value` to one element of a reducer: `T.reducer_update(acc[i], x)`."""


@word
def finalize_reducer(acc: Any, dst: Any = None, batch: int = 1) -> None:
    """End the collection and copy the result to `dst`; with None it stays in `acc`."""


# ---------------------------------------------------------------------------------------------- views
@word
def view(buf: Any, shape: Any = None, dtype: Any = None) -> Any:
    """The same bits as `buf` under another shape or dtype. Raises: TileValueError if the total number of bits differs.

    Example: `halves = T.view(words_u32, (64, 2), "float16")`
    """


@word
def reshape(buf: Any, shape: Any) -> Any:
    """The same elements as `buf`, row-major, under another shape."""


c2d_im2col = alias("c2d_im2col", im2col)
