"""What is wrong with clusters and their words is said with the line, the reason and what to write."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tileworkbench as twb
import tileworkbench.language as T
from tileworkbench.base.errors import TileError, TileTypeError, TileValueError, UnsupportedError
from tileworkbench.frontend.prim_func import PrimFunc
from tileworkbench.interpret import run as interpret

F16, F32 = "float16", "float32"


def program(body: Callable[[Any, Any, Any], None], cluster: Any = 2, threads: int = 256) -> PrimFunc:
    """A launch of clusters with tiles a and b, and `body`."""
    within = T.macro(body)

    @T.prim_func
    def wrong(A: T.Tensor((64, 64), F16)):  # type: ignore[valid-type]
        with T.Kernel(4, threads=threads, cluster_dims=cluster):
            a, b = T.alloc_shared((64, 64), F16), T.alloc_shared((64, 64), F16)
            within(A, a, b)

    return wrong


# ---------------------------------------------------------------------------------------------- said at the word
def told_at_home(A: Any, a: Any, b: Any) -> None:
    bar = T.alloc_barrier(256)
    T.mbarrier_arrive(bar, 1)


def told_too_far(A: Any, a: Any, b: Any) -> None:
    bar = T.alloc_cluster_barrier(256)
    T.mbarrier_arrive(bar, 2)


def no_arrivals(A: Any, a: Any, b: Any) -> None:
    T.alloc_cluster_barrier(0)


def nowhere(A: Any, a: Any, b: Any) -> None:
    T.copy_cluster(a, b)


def both_ways(A: Any, a: Any, b: Any) -> None:
    T.copy_cluster(a, b, dst_block=1, cluster_mask=3)


def from_global(A: Any, a: Any, b: Any) -> None:
    T.copy_cluster(A, b, dst_block=1)


def to_many_from_a_tile(A: Any, a: Any, b: Any) -> None:
    T.copy_cluster(a, b, cluster_mask=3)


def to_many_told(A: Any, a: Any, b: Any) -> None:
    bar = T.alloc_cluster_barrier(1)
    T.copy_cluster(A, b, cluster_mask=3, remote_barrier=bar)


def to_more(A: Any, a: Any, b: Any) -> None:
    T.copy_cluster(A, b, cluster_mask=0b100)


def to_none(A: Any, a: Any, b: Any) -> None:
    bar = T.alloc_barrier(1)
    T.tma_copy(A, b, barrier=bar, cluster_mask=0)


def stored_to_many(A: Any, a: Any, b: Any) -> None:
    T.tma_copy(a, A, cluster_mask=3)


def converted(A: Any, a: Any, b: Any) -> None:
    c = T.alloc_shared((64, 64), F32)
    T.copy_cluster(a, c, dst_block=1)


def not_their_barrier(A: Any, a: Any, b: Any) -> None:
    bar = T.alloc_barrier(1)
    T.copy_cluster(a, b, dst_block=1, remote_barrier=bar)


IN_THE_WORD: dict[Callable[..., None], str] = {
    told_at_home: "bar belongs to its block alone", told_too_far: "there is no block 2 in a cluster of 2",
    no_arrivals: "needs the number of arrivals", nowhere: "needs one of dst_block and cluster_mask", to_many_told: "waits for itself",
    both_ways: "needs one of dst_block and cluster_mask", from_global: "from shared to shared memory, not from global",
    to_many_from_a_tile: "from global to shared memory, not from shared", to_more: "cluster_mask=4 names no blocks of a cluster of 2",
    to_none: "cluster_mask=0 names no blocks", stored_to_many: "for copies to shared memory", converted: "does not convert float16 to float32",
    not_their_barrier: "bar belongs to its block alone",
}  # fmt: skip


@pytest.mark.parametrize("body", IN_THE_WORD, ids=lambda f: f.__name__)
def test_a_word_that_cannot_be_meant(body: Callable[..., None]) -> None:
    with pytest.raises(TileError, match=IN_THE_WORD[body]) as caught:
        program(body)
    assert caught.value.hint and caught.value.span is not None


SHAPES = {
    (2.5, 1, 1): (TileTypeError, "must be ints known"), (0, 1, 1): (TileValueError, "is no shape of blocks"),
    (1, 1, 1, 2): (TileValueError, "is no shape of blocks"), (1, 2): (TileValueError, "that the grid does not have"),
    (16, 1, 1): (TileValueError, "a cluster of 16 blocks; every GPU with clusters has room for 8"),
}  # fmt: skip


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_shapes_of_clusters(shape: Any) -> None:
    kind, says = SHAPES[shape]
    with pytest.raises(kind, match=says) as caught:
        program(lambda A, a, b: None, cluster=shape)
    assert caught.value.span is not None


# ---------------------------------------------------------------------------------------------- said by the compiler
def met_in_a_role(A: Any, a: Any, b: Any) -> None:
    with T.ws(0):
        T.cluster_sync()


def copied_in_a_role(A: Any, a: Any, b: Any) -> None:
    with T.ws(0):
        T.copy_cluster(A, b, cluster_mask=3)


def leaving(A: Any, a: Any, b: Any) -> None:
    bar = T.alloc_cluster_barrier(256)
    if T.block_rank_in_cluster() == 0:
        T.thread_return()
    T.mbarrier_arrive(bar, 0)


def thread_apart(A: Any, a: Any, b: Any) -> None:
    bar = T.alloc_cluster_barrier(1)
    if T.get_thread_binding() == 0:
        T.mbarrier_arrive(bar, 1)


def odd_rows(A: Any, a: Any, b: Any) -> None:
    bar = T.alloc_barrier(1)
    T.tma_copy(A[:, 0:4], a[:, 0:4], barrier=bar, cluster_mask=3)


BY_THE_COMPILER: dict[Callable[..., None], str] = {
    met_in_a_role: "T.cluster_sync in a role: every thread of the cluster has to come", copied_in_a_role: "T.copy_cluster in a role",
    leaving: "T.thread_return in a launch with blocks that reach each other's memory", thread_apart: "asks for a thread's index",
    odd_rows: "the tensor copy engine cannot do this copy",
}  # fmt: skip


@pytest.mark.parametrize("body", BY_THE_COMPILER, ids=lambda f: f.__name__)
def test_what_clusters_cannot_do(body: Callable[..., None]) -> None:
    with pytest.raises(UnsupportedError, match=BY_THE_COMPILER[body]) as caught:
        twb.compile(program(body), target="emulate:sm_90a")
    assert caught.value.hint and caught.value.span is not None


# ---------------------------------------------------------------------------------------------- other targets
def meeting(A: Any, a: Any, b: Any) -> None:
    T.cluster_sync()


def waiting(A: Any, a: Any, b: Any) -> None:
    T.cluster_arrive_relaxed()
    T.cluster_wait()


def barrier(A: Any, a: Any, b: Any) -> None:
    T.alloc_cluster_barrier(1)


def handing_on(A: Any, a: Any, b: Any) -> None:
    T.copy_cluster(a, b, dst_block=1)


WORDS: dict[Callable[..., None], str] = {
    meeting: "cluster_sync", waiting: "cluster_arrive_relaxed", barrier: "alloc_cluster_barrier", handing_on: "copy_cluster",
}  # fmt: skip


@pytest.mark.parametrize("target", ["c", "emulate:sm_80", "interpret"])
@pytest.mark.parametrize("body", WORDS, ids=lambda f: f.__name__)
def test_other_targets_say_what_to_write(body: Callable[..., None], target: str) -> None:
    made = program(body)
    with pytest.raises(UnsupportedError, match=f"T.{WORDS[body]} needs a GPU of generation sm_90") as caught:
        interpret(made.kernel, [np.zeros((64, 64), np.float16)], {}, {}) if target == "interpret" else twb.compile(made, target=target)
    assert caught.value.span is not None and 'target="sm_90"' in (caught.value.hint or "")
