"""Meanings of the words of sm_90: statements of `ir/explicit.py`, and the hint that makes other targets refuse the launch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...base.dtypes import INT32
from ...base.errors import TileRuntimeError, TileTypeError, TileValueError
from ...ir.explicit import ASYNC_ARRIVAL, BARRIER, CLOSE_STORES, EXPLICIT, GROUP, Asked, InGroups, StartBarriers, TensorMove, WaitStarted
from ...ir.expr import AddressOf, Expr, const
from ...ir.node import replace
from ...ir.stmt import Gemm, If
from ...language import hopper as words
from ...language._dispatch import impl
from ...language.tile import GemmWarpPolicy
from .. import arith
from ..builder import Builder, LaunchState, Scope, current
from ..clusters import block_of, mask_of, rank_of
from ..positions import here
from ..regions import pair
from ..scalars import ElementValue
from ..values import BufferValue, as_expr, as_side
from .tile import product

MOST_ARRIVALS = (1 << 20) - 1
_TO_16 = "the hardware has the barriers 0 to 15; 0 is T.sync_threads() of the whole block"


def explicit(word: str) -> tuple[Builder, LaunchState]:
    """The builder and the launch of a word that only sm_90 has, which the launch remembers."""
    builder = current(word)
    launch = builder.require_tile_op(word)
    if (EXPLICIT, "") not in launch.hints:
        launch.hints.append((EXPLICIT, ""))
    return builder, launch


def ask(word: str, name: str, *args: Expr, constants: tuple[int, ...] = (), arch: int = 90) -> None:
    """Emit the call of a device function for a word."""
    builder, _ = explicit(word)
    builder.emit(Asked(name, args, constants, word, arch))


# ---------------------------------------------------------------------------------------------- roles
class RoleContext:
    """`with T.ws(...):`."""

    def __init__(self, builder: Builder, first: int, count: int) -> None:
        self.builder, self.first, self.count, self.span = builder, first, count, here()
        self.scope: Scope | None = None

    def __enter__(self) -> None:
        self.scope = self.builder.open("ws", self.span)

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if kind is None and self.scope is not None:
            body = self.builder.close(self.scope)
            self.builder.emit(If(InGroups(self.first, self.count, span=self.span), body, span=self.span))


@impl(words.ws)
def _ws(*groups: int) -> Any:
    builder, launch = explicit("T.ws")
    threads = 1
    for extent in launch.threads:
        threads *= extent
    if not groups or not all(isinstance(g, int) and g >= 0 for g in groups):
        raise TileValueError(f"T.ws{groups}: give the numbers of warp groups", hint="T.ws(0) for threads 0 to 127, T.ws(1) for the next 128")
    first, count = min(groups), len(groups)
    if sorted(groups) != list(range(first, first + count)):
        raise TileValueError(f"T.ws{groups}: the groups of a role must be neighbours", hint="write T.ws twice, once for each")
    if threads % GROUP or (first + count) * GROUP > threads:
        raise TileValueError(
            f"T.ws: a block of {threads} threads has no warp group {first + count - 1}",
            hint=f"a warp group has {GROUP} threads: T.Kernel(..., threads={(first + count) * GROUP}) at least, a multiple of {GROUP}",
        )
    if any(s.kind == "ws" for s in builder.scopes):
        raise TileValueError("T.ws inside T.ws", hint="end the first role before the second")
    return RoleContext(builder, first, count)


# ---------------------------------------------------------------------------------------------- barriers
@impl(words.alloc_barrier)
def _alloc_barrier(arrive_count: Any) -> Any:
    return start_barriers("T.alloc_barrier", arrive_count)


def start_barriers(word: str, arrive_count: Any, of_cluster: bool = False) -> Any:
    """Barriers of the block, or of all blocks of a cluster."""
    builder, _ = explicit(word)
    counts = tuple(arrive_count) if isinstance(arrive_count, Sequence) else (arrive_count,)
    if not counts or not all(isinstance(c, int) and 0 < c <= MOST_ARRIVALS for c in counts):
        raise TileValueError(f"{word} needs the number of arrivals of a phase, or a list of them, got {arrive_count!r}", hint=f"{word}(128)")
    if builder.scopes[-1].kind != "launch":
        raise TileRuntimeError(
            f"{word} inside a loop, a condition or a role", hint="allocate at the start of the launch, where every thread comes once"
        )
    buffer = builder.alloc("", (len(counts),), BARRIER, "shared")
    builder.emit(StartBarriers(buffer, counts, of_cluster))
    return BufferValue(buffer)


def _barrier(word: str, value: Any) -> AddressOf:
    match value:
        case BufferValue(buffer=buffer) if buffer.type == BARRIER and buffer.static_shape() == (1,):
            return AddressOf(buffer, (const(0),))
        case ElementValue(buffer=buffer, indices=indices) if buffer.type == BARRIER and buffer.scope == "shared":
            return AddressOf(buffer, tuple(arith.as_index(i) for i in indices))
        case BufferValue(buffer=buffer) if buffer.type == BARRIER:
            raise TileTypeError(f"{word}: {buffer.name} is {buffer.static_shape()[0]} barriers", hint=f"choose one: {buffer.name}[0]")
    raise TileTypeError(f"{word} needs a barrier, got {value!r}", hint="a barrier comes from T.alloc_barrier")


def cluster_barrier(word: str, value: Any) -> AddressOf:
    """A barrier at which other blocks may arrive."""
    bar = _barrier(word, value)
    body = next(s.body for s in current(word).scopes if s.kind == "launch")
    if not any(isinstance(s, StartBarriers) and s.buffer == bar.buffer and s.of_cluster for s in body):
        raise TileTypeError(f"{word}: {bar.buffer.name} belongs to its block alone", hint="allocate it with T.alloc_cluster_barrier")
    return bar


@impl(words.mbarrier_wait_parity)
def _wait(mbarrier: Any, parity: Any) -> None:
    word = "mbarrier_wait_parity"
    ask(word, "twb_mbarrier_wait", _barrier(f"T.{word}", mbarrier), arith.cast(as_expr(parity), INT32))


@impl(words.mbarrier_arrive)
def _arrive(mbarrier: Any, cta_id: Any = None) -> None:
    word = "T.mbarrier_arrive"
    if cta_id is None:
        ask("mbarrier_arrive", "twb_mbarrier_arrive", _barrier(word, mbarrier))
        return
    _, launch = explicit(word)
    ask("mbarrier_arrive", "twb_mbarrier_arrive_at", cluster_barrier(word, mbarrier), block_of(word, launch, cta_id))


@impl(words.mbarrier_expect_tx)
def _expect(mbarrier: Any, tx: Any) -> None:
    ask("mbarrier_expect_tx", "twb_mbarrier_expect", _barrier("T.mbarrier_expect_tx", mbarrier), arith.cast(as_expr(tx), INT32))


@impl(words.mbarrier_arrive_expect_tx)
def _arrive_expect(mbarrier: Any, tx: Any) -> None:
    word = "mbarrier_arrive_expect_tx"
    ask(word, "twb_mbarrier_arrive_expect", _barrier(f"T.{word}", mbarrier), arith.cast(as_expr(tx), INT32))


def named(word: str, name: str, barrier_id: Any, arrive_count: Any) -> None:
    """A named barrier of the hardware."""
    if not isinstance(barrier_id, int) or not 0 < barrier_id < 16:
        raise TileValueError(f"T.{word}: there is no barrier {barrier_id!r} to choose", hint=_TO_16)
    if not isinstance(arrive_count, int) or arrive_count < 1 or arrive_count % 32:
        raise TileValueError(f"T.{word}: {arrive_count!r} threads cannot meet", hint="whole warps meet: give a multiple of 32")
    ask(word, name, const(barrier_id, INT32), const(arrive_count, INT32), arch=80)


@impl(words.named_barrier_arrive)
def _named_arrive(barrier_id: int, arrive_count: int) -> None:
    named("named_barrier_arrive", "twb_bar_arrive", barrier_id, arrive_count)


@impl(words.named_barrier_sync)
def _named_sync(barrier_id: int, arrive_count: int) -> None:
    named("named_barrier_sync", "twb_bar_sync", barrier_id, arrive_count)


@impl(words.fence_proxy_async)
def _fence() -> None:
    ask("fence_proxy_async", "twb_fence_proxy_async")


# ---------------------------------------------------------------------------------------------- copies
@impl(words.tma_copy)
def _tma_copy(
    src: Any, dst: Any, *, barrier: Any = None, cluster_mask: Any = None, leader_scope_threads: Any = None, eviction_policy: Any = None,
    annotations: Any = None,
) -> None:  # fmt: skip
    builder, launch = explicit("T.tma_copy")
    source, target = pair("T.tma_copy", as_side(src, "T.tma_copy"), as_side(dst, "T.tma_copy"))
    ways = source.buffer.scope, target.buffer.scope
    if ways == ("global", "shared"):
        if barrier is None:
            raise TileValueError(
                "T.tma_copy to shared memory needs a barrier, or nobody knows when it is done",
                hint="ready = T.alloc_barrier(128); T.tma_copy(..., barrier=ready); or use T.copy, which waits for itself",
            )
    elif ways != ("shared", "global"):
        raise TileValueError(
            f"T.tma_copy cannot copy from {ways[0]} to {ways[1]} memory", hint="it copies between global and shared memory; use T.copy"
        )
    elif barrier is not None:
        raise TileValueError("T.tma_copy to global memory has no barrier", hint="leave it out; T.tma_store_wait() waits for such copies")
    if cluster_mask is None:
        builder.emit(TensorMove(source, target, None if barrier is None else _barrier("T.tma_copy", barrier)))
        return
    if barrier is None:
        raise TileValueError("T.tma_copy(cluster_mask=...) is for copies to shared memory", hint="leave cluster_mask out")
    mask = mask_of("T.tma_copy", launch, cluster_mask)
    builder.emit(TensorMove(source, target, _barrier("T.tma_copy", barrier), mask, rank_of(launch)))


@impl(words.tma_store_arrive)
def _tma_store_arrive() -> None:
    ask("tma_store_arrive", CLOSE_STORES)


@impl(words.cp_async_barrier_noinc)
def _cp_async_barrier_noinc(barrier: Any) -> None:
    ask("cp_async_barrier_noinc", ASYNC_ARRIVAL, _barrier("T.cp_async_barrier_noinc", barrier))


@impl(words.tma_store_wait)
def _tma_store_wait(count: int = 0, read: bool = True) -> None:
    ask("tma_store_wait", "twb_bulk_wait_read" if read else "twb_bulk_wait", constants=(_count("T.tma_store_wait", count),))


# ---------------------------------------------------------------------------------------------- products
@impl(words.wgmma_gemm)
def _wgmma_gemm(
    A: Any, B: Any, C: Any, transpose_A: bool = False, transpose_B: bool = False, policy: Any = GemmWarpPolicy.Square, clear_accum: Any = False,
    annotations: Any = None,
) -> None:  # fmt: skip
    builder, _ = explicit("T.wgmma_gemm")
    made: Gemm = product("T.wgmma_gemm", A, B, C, transpose_A, transpose_B, policy, clear_accum)
    builder.emit(replace(made, is_async=True, unit="wgmma"))


@impl(words.wait_wgmma)
def _wait_wgmma(num_mma: int = 0) -> None:
    builder, _ = explicit("T.wait_wgmma")
    builder.emit(WaitStarted(_count("T.wait_wgmma", num_mma)))


def _count(word: str, count: Any) -> int:
    if not isinstance(count, int) or not 0 <= count < 8:
        raise TileValueError(f"{word}: {count!r} is no number of things that may be under way", hint="give a constant of 0 to 7")
    return int(count)
