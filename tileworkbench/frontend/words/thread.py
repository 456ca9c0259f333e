"""Meanings of the thread words. A thread index, a shuffle or a vote makes the threads of the launch visible.

A barrier alone does not: where no thread asks who it is, all do the same, and statements already run in order.
"""

from __future__ import annotations

from typing import Any

from ...base.dtypes import BOOL, INT32, DType
from ...base.errors import TileTypeError, TileValueError
from ...ir.expr import Expr, Var, const
from ...ir.stmt import Collective, Sync
from ...language import thread as words
from ...language._dispatch import impl
from .. import arith
from ..builder import LaunchState, current
from ..values import Value, as_expr, plain
from .hopper import named

UINT32 = DType("uint32")
WARP = 32


# ---------------------------------------------------------------------------------------------- indices
def _launch(word: str) -> LaunchState:
    return current(word).require_launch(word)


def _checked(word: str, dim: Any, what: str) -> int:
    if not isinstance(dim, int) or not 0 <= dim < 3:
        raise TileValueError(f"{word}({dim!r}): {what} have the dims 0 (x), 1 (y) and 2 (z)")
    return dim


@impl(words.get_thread_binding)
def _thread_binding(dim: int = 0) -> Any:
    launch = _launch("T.get_thread_binding")
    _checked("T.get_thread_binding", dim, "threads")
    index = launch.thread_index(dim) if dim < len(launch.thread_vars) else const(0)
    return Value(index)


@impl(words.get_thread_bindings)
def _thread_bindings() -> Any:
    launch = _launch("T.get_thread_bindings")
    return [Value(launch.thread_index(d)) for d in range(len(launch.threads))]


@impl(words.get_thread_extent)
def _thread_extent(dim: int = 0) -> Any:
    launch = _launch("T.get_thread_extent")
    _checked("T.get_thread_extent", dim, "threads")
    return launch.threads[dim] if dim < len(launch.threads) else 1


@impl(words.get_thread_extents)
def _thread_extents() -> Any:
    return list(_launch("T.get_thread_extents").threads)


@impl(words.get_block_binding)
def _block_binding(dim: int = 0) -> Any:
    launch = _launch("T.get_block_binding")
    _checked("T.get_block_binding", dim, "blocks")
    return Value(launch.block_vars[dim] if dim < len(launch.block_vars) else const(0))


@impl(words.get_block_bindings)
def _block_bindings() -> Any:
    return [Value(v) for v in _launch("T.get_block_bindings").block_vars]


@impl(words.get_block_extent)
def _block_extent(dim: int = 0) -> Any:
    launch = _launch("T.get_block_extent")
    _checked("T.get_block_extent", dim, "blocks")
    return plain(launch.grid[dim]) if dim < len(launch.grid) else 1


@impl(words.get_block_extents)
def _block_extents() -> Any:
    return [plain(e) for e in _launch("T.get_block_extents").grid]


def linear_thread(launch: LaunchState) -> Expr:
    """The index of this thread in its block, x fastest."""
    total: Expr = const(0)
    stride = 1
    for d, extent in enumerate(launch.threads):
        if extent > 1 or d == 0:
            total = arith.binary("add", total, arith.binary("mul", launch.thread_index(d), const(stride)))
        stride *= extent
    return total


def _unit(word: str, size: Any) -> int:
    if not isinstance(size, int) or size < 1:
        raise TileValueError(f"{word} needs a constant size of at least 1, got {size!r}")
    return size


@impl(words.get_lane_idx)
def _lane(warp_size: int = 32) -> Any:
    size = _unit("T.get_lane_idx", warp_size)
    return Value(arith.binary("floormod", linear_thread(_launch("T.get_lane_idx")), const(size)))


@impl(words.get_warp_idx)
def _warp(warp_size: int = 32) -> Any:
    size = _unit("T.get_warp_idx", warp_size)
    return Value(arith.binary("floordiv", linear_thread(_launch("T.get_warp_idx")), const(size)))


@impl(words.get_warp_group_idx)
def _warp_group(warp_size: int = 32, warps_per_group: int = 4) -> Any:
    size = _unit("T.get_warp_group_idx", warp_size) * _unit("T.get_warp_group_idx", warps_per_group)
    return Value(arith.binary("floordiv", linear_thread(_launch("T.get_warp_group_idx")), const(size)))


@impl(words.shuffle_elect)
def _elect(thread_extent: int = 0) -> Any:
    index = linear_thread(_launch("T.shuffle_elect"))
    if thread_extent:
        index = arith.binary("floormod", index, const(_unit("T.shuffle_elect", thread_extent)))
    return Value(arith.binary("eq", index, const(0)))


# ---------------------------------------------------------------------------------------------- barriers
def _sync(word: str, scope: str) -> None:
    builder = current(word)
    builder.require_tile_op(word)
    builder.emit(Sync(scope))


@impl(words.sync_threads)
def _sync_threads(barrier_id: Any = None, arrive_count: Any = None) -> None:
    if barrier_id and any(s.kind == "ws" for s in current("T.sync_threads").scopes):
        named("sync_threads", "twb_bar_sync", barrier_id, arrive_count)
        return
    _sync("T.sync_threads", "block")


@impl(words.sync_warp)
def _sync_warp(mask: Any = None) -> None:
    _sync("T.sync_warp", "warp")


@impl(words.sync_grid)
def _sync_grid() -> None:
    _sync("T.sync_grid", "grid")


@impl(words.tvm_storage_sync)
def _storage_sync(scope: str = "shared") -> None:
    _sync("T.tvm_storage_sync", "warp" if scope == "warp" else "block")


# ---------------------------------------------------------------------------------------------- shuffles, votes, reductions
def _collective(word: str, op: str, result: DType, args: tuple[Expr, ...], width: Any = WARP) -> Value:
    builder = current(word)
    launch = builder.require_tile_op(word)
    if not isinstance(width, int) or width not in (1, 2, 4, 8, 16, 32):
        raise TileValueError(f"{word}: the width must be a power of two up to 32, got {width!r}")
    launch.threads_used = True
    var = Var(builder.fresh(builder.take_hint(op)), result)
    builder.emit(Collective(op, var, args, width))
    return Value(var)


def _shuffle(word: str, op: str, value: Any, lane: Any, width: Any) -> Value:
    x = as_expr(value)
    return _collective(word, op, x.dtype, (x, arith.cast(arith.as_index(as_expr(lane)), INT32)), width)


@impl(words.shfl_sync)
def _shfl(value: Any, lane: Any, width: int = 32, mask: Any = None) -> Any:
    return _shuffle("T.shfl_sync", "shfl", value, lane, width)


@impl(words.shfl_xor)
def _shfl_xor(value: Any, lane_mask: Any, width: int = 32, mask: Any = None) -> Any:
    return _shuffle("T.shfl_xor", "shfl_xor", value, lane_mask, width)


@impl(words.shfl_up)
def _shfl_up(value: Any, delta: Any, width: int = 32, mask: Any = None) -> Any:
    return _shuffle("T.shfl_up", "shfl_up", value, delta, width)


@impl(words.shfl_down)
def _shfl_down(value: Any, delta: Any, width: int = 32, mask: Any = None) -> Any:
    return _shuffle("T.shfl_down", "shfl_down", value, delta, width)


@impl(words.tvm_warp_shuffle)
def _warp_shuffle(mask: Any, value: Any, lane: Any, width: int = 32, warp_size: int = 32) -> Any:
    return _shuffle("T.tvm_warp_shuffle", "shfl", value, lane, width)


@impl(words.tvm_warp_shuffle_up)
def _warp_shuffle_up(mask: Any, value: Any, delta: Any, width: int = 32, warp_size: int = 32) -> Any:
    return _shuffle("T.tvm_warp_shuffle_up", "shfl_up", value, delta, width)


@impl(words.tvm_warp_shuffle_down)
def _warp_shuffle_down(mask: Any, value: Any, delta: Any, width: int = 32, warp_size: int = 32) -> Any:
    return _shuffle("T.tvm_warp_shuffle_down", "shfl_down", value, delta, width)


def _vote(word: str, op: str, result: DType, predicate: Any) -> Value:
    return _collective(word, op, result, (arith.to_bool(as_expr(predicate)),))


@impl(words.any_sync)
def _any_sync(predicate: Any, mask: Any = None) -> Any:
    return _vote("T.any_sync", "any", BOOL, predicate)


@impl(words.all_sync)
def _all_sync(predicate: Any, mask: Any = None) -> Any:
    return _vote("T.all_sync", "all", BOOL, predicate)


@impl(words.ballot_sync)
def _ballot_sync(predicate: Any, mask: Any = None) -> Any:
    return _vote("T.ballot_sync", "ballot", UINT32, predicate)


@impl(words.activemask)
def _activemask() -> Any:
    return _vote("T.activemask", "ballot", UINT32, True)


@impl(words.syncthreads_or)
def _syncthreads_or(predicate: Any) -> Any:
    return _vote("T.syncthreads_or", "block_any", BOOL, predicate)


@impl(words.syncthreads_and)
def _syncthreads_and(predicate: Any) -> Any:
    return _vote("T.syncthreads_and", "block_all", BOOL, predicate)


@impl(words.syncthreads_count)
def _syncthreads_count(predicate: Any) -> Any:
    return _vote("T.syncthreads_count", "block_count", INT32, predicate)


def _warp_reduce(name: str, value: Any) -> Value:
    x = as_expr(value)
    if "bit" in name and not x.dtype.is_int:
        raise TileTypeError(f"T.warp_reduce_{name} needs an integer, got {x.dtype}")
    return _collective(f"T.warp_reduce_{name}", f"warp_{name}", x.dtype, (x,))


@impl(words.warp_reduce_sum)
def _warp_sum(value: Any) -> Any:
    return _warp_reduce("sum", value)


@impl(words.warp_reduce_max)
def _warp_max(value: Any) -> Any:
    return _warp_reduce("max", value)


@impl(words.warp_reduce_min)
def _warp_min(value: Any) -> Any:
    return _warp_reduce("min", value)


@impl(words.warp_reduce_bitand)
def _warp_bitand(value: Any) -> Any:
    return _warp_reduce("bitand", value)


@impl(words.warp_reduce_bitor)
def _warp_bitor(value: Any) -> Any:
    return _warp_reduce("bitor", value)
