"""What is wrong with explicit roles, barriers, copies and products is said with the line, the reason and what to write."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tileworkbench as twb
import tileworkbench.language as T
from tests.gpu import explicit_programs as programs
from tileworkbench.base.errors import TileError, UnsupportedError
from tileworkbench.frontend.prim_func import PrimFunc
from tileworkbench.interpret import run as interpret

F16, F32 = "float16", "float32"


def program(body: Callable[[Any, Any, Any, Any, Any], None], threads: int = 256, k: int = 64) -> PrimFunc:
    """A launch with tiles a and b, a sum, and `body`."""
    within = T.macro(body)

    @T.prim_func
    def wrong(A: T.Tensor((64, k), F16), C: T.Tensor((64, 64), F32)):  # type: ignore[valid-type]
        with T.Kernel(1, threads=threads):
            a, b = T.alloc_shared((64, 64), F16), T.alloc_shared((64, 64), F16)
            acc = T.alloc_fragment((64, 64), F32)
            within(A, C, a, b, acc)

    return wrong


def group_of_none(A: Any, C: Any, a: Any, b: Any, acc: Any) -> None:
    with T.ws(2):
        T.clear(acc)


def groups_apart(A: Any, C: Any, a: Any, b: Any, acc: Any) -> None:
    with T.ws(0, 2):
        T.clear(acc)


def role_in_role(A: Any, C: Any, a: Any, b: Any, acc: Any) -> None:
    with T.ws(0):
        with T.ws(1):
            T.clear(acc)


def no_arrivals(A: Any, C: Any, a: Any, b: Any, acc: Any) -> None:
    bar = T.alloc_barrier(0)


def barrier_in_loop(A: Any, C: Any, a: Any, b: Any, acc: Any) -> None:
    for _ in T.serial(2):
        bar = T.alloc_barrier(128)


def no_barrier(A: Any, C: Any, a: Any, b: Any, acc: Any) -> None:
    T.barrier_arrive(a)


def which_barrier(A: Any, C: Any, a: Any, b: Any, acc: Any) -> None:
    bars = T.alloc_barrier([1, 2])
    T.barrier_arrive(bars)


def load_without_barrier(A: Any, C: Any, a: Any, b: Any, acc: Any) -> None:
    T.tma_copy(A, a)


def store_with_barrier(A: Any, C: Any, a: Any, b: Any, acc: Any) -> None:
    bar = T.alloc_barrier(128)
    T.tma_copy(a, A, barrier=bar)


def tensor_copy_on_chip(A: Any, C: Any, a: Any, b: Any, acc: Any) -> None:
    T.tma_copy(a, b)


def named_zero(A: Any, C: Any, a: Any, b: Any, acc: Any) -> None:
    T.named_barrier_sync(0, 256)


def named_half_a_warp(A: Any, C: Any, a: Any, b: Any, acc: Any) -> None:
    T.named_barrier_sync(1, 48)


def many_under_way(A: Any, C: Any, a: Any, b: Any, acc: Any) -> None:
    T.wait_wgmma(9)


def odd_registers(A: Any, C: Any, a: Any, b: Any, acc: Any) -> None:
    with T.ws(0):
        T.set_max_nreg(100, 1)


IN_THE_WORD: dict[Callable[..., None], str] = {
    group_of_none: "a block of 256 threads has no warp group 2", groups_apart: "groups of a role must be neighbours",
    role_in_role: "T.ws inside T.ws", no_arrivals: "needs the number of arrivals", barrier_in_loop: "inside a loop, a condition or a role",
    no_barrier: "needs a barrier", which_barrier: "bars is 2 barriers", load_without_barrier: "nobody knows when it is done",
    store_with_barrier: "has no barrier", tensor_copy_on_chip: "cannot copy from shared to shared", named_zero: "there is no barrier 0",
    named_half_a_warp: "48 threads cannot meet", many_under_way: "9 is no number", odd_registers: "cannot have 100 registers",
}  # fmt: skip


@pytest.mark.parametrize("body", IN_THE_WORD, ids=lambda f: f.__name__)
def test_a_word_that_cannot_be_meant(body: Callable[..., None]) -> None:
    with pytest.raises(TileError, match=IN_THE_WORD[body]) as caught:
        program(body)
    assert caught.value.hint and caught.value.span is not None


# ---------------------------------------------------------------------------------------------- found by the compiler
def sum_of_the_block(A: Any, C: Any, a: Any, b: Any, acc: Any) -> None:
    T.clear(acc)
    with T.ws(0):
        T.copy(acc, C)


def sum_of_two_roles(A: Any, C: Any, a: Any, b: Any, acc: Any) -> None:
    with T.ws(0):
        T.clear(acc)
    with T.ws(1):
        T.copy(acc, C)


def overlapping_roles(A: Any, C: Any, a: Any, b: Any, acc: Any) -> None:
    with T.ws(0, 1):
        T.clear(acc)
    with T.ws(0):
        T.fill(a, 0)


def many_registers(A: Any, C: Any, a: Any, b: Any, acc: Any) -> None:
    with T.ws(0):
        T.inc_max_nreg(256)
    with T.ws(1):
        T.inc_max_nreg(256)


def leaving(A: Any, C: Any, a: Any, b: Any, acc: Any) -> None:
    for i in T.serial(4):
        with T.ws(0):
            T.fill(a, 0)
        if i == 2:
            break


def part_of_a_piece(A: Any, C: Any, a: Any, b: Any, acc: Any) -> None:
    bar = T.alloc_barrier(256)
    T.tma_copy(A[:, 0:32], a[:, 0:32], barrier=bar)
    T.clear(acc)
    T.gemm(a, b, acc)


def written_before(A: Any, C: Any, a: Any, b: Any, acc: Any) -> None:
    bar = T.alloc_barrier(256)
    A[0, 0] = 0
    T.tma_copy(A, a, barrier=bar)


def converting(A: Any, C: Any, a: Any, b: Any, acc: Any) -> None:
    bar = T.alloc_barrier(256)
    T.tma_copy(C, a, barrier=bar)


def few_rows(A: Any, C: Any, a: Any, b: Any, acc: Any) -> None:
    T.wgmma_gemm(a, b, acc)  # two groups need 128 rows
    T.wait_wgmma(0)


def sum_in_shared(A: Any, C: Any, a: Any, b: Any, acc: Any) -> None:
    c = T.alloc_shared((64, 64), F32)
    with T.ws(0):
        T.wgmma_gemm(a, b, c)


def thread_apart(A: Any, C: Any, a: Any, b: Any, acc: Any) -> None:
    bar = T.alloc_barrier(1)
    if T.get_thread_binding() == 0:
        T.barrier_arrive(bar)


BY_THE_COMPILER: dict[Callable[..., None], str] = {
    sum_of_the_block: "the fragment acc is used by different warp groups", sum_of_two_roles: "the fragment acc is used by different warp groups",
    overlapping_roles: "warp group 0 is of two roles", many_registers: "the roles ask for 65536|the roles ask for", leaving: "left early",
    part_of_a_piece: "does not begin and end at multiples of 8 rows and 64 columns", written_before: "A is written in this launch",
    converting: "it does not convert", few_rows: "64 rows are no multiple of 64 for each of 2 groups",
    sum_in_shared: "c does not lie in registers", thread_apart: "asks for a thread's index",
}  # fmt: skip


@pytest.mark.parametrize("body", BY_THE_COMPILER, ids=lambda f: f.__name__)
def test_what_warp_groups_cannot_do(body: Callable[..., None]) -> None:
    made = program(body, threads=384 if body is many_registers else 256)
    with pytest.raises(UnsupportedError, match=BY_THE_COMPILER[body]) as caught:
        twb.compile(made, target="emulate:sm_90a")
    assert caught.value.hint and caught.value.span is not None


# ---------------------------------------------------------------------------------------------- other targets
def fence(A: Any, C: Any, a: Any, b: Any, acc: Any) -> None:
    T.fence_proxy_async()


def started(A: Any, C: Any, a: Any, b: Any, acc: Any) -> None:
    T.wgmma_gemm(a, b, acc)


def waiting(A: Any, C: Any, a: Any, b: Any, acc: Any) -> None:
    T.wait_wgmma(0)


def barrier(A: Any, C: Any, a: Any, b: Any, acc: Any) -> None:
    bar = T.alloc_barrier(1)


def role(A: Any, C: Any, a: Any, b: Any, acc: Any) -> None:
    with T.ws(0):
        T.clear(acc)


def storing(A: Any, C: Any, a: Any, b: Any, acc: Any) -> None:
    T.tma_copy(a, A)


WORDS: dict[Callable[..., None], str] = {
    fence: "T.fence_proxy_async", started: "T.wgmma_gemm", waiting: "T.wait_wgmma", barrier: "T.alloc_barrier", role: "T.ws", storing: "T.tma_copy",
}  # fmt: skip


def _compile(made: PrimFunc, target: str) -> None:
    if target == "interpret":
        interpret(made.kernel, [np.zeros((64, 64), np.float16), np.zeros((64, 64), np.float32)], {}, {})
    else:
        twb.compile(made, target=target)


@pytest.mark.parametrize("target", ["c", "emulate:sm_80", "interpret"])
@pytest.mark.parametrize("body", WORDS, ids=lambda f: f.__name__)
def test_other_targets_say_what_to_write(body: Callable[..., None], target: str) -> None:
    made = program(body)
    with pytest.raises(UnsupportedError, match=f"{WORDS[body]} needs a GPU of generation sm_90") as caught:
        _compile(made, target)
    assert caught.value.span is not None and 'target="sm_90"' in (caught.value.hint or "")


def test_a_named_barrier_is_for_every_gpu() -> None:
    """sm_80 has them too; the C target has not."""

    def meet(A: Any, C: Any, a: Any, b: Any, acc: Any) -> None:
        T.named_barrier_sync(1, 256)

    made = program(meet)
    twb.compile(made, target="emulate:sm_80")
    with pytest.raises(UnsupportedError, match="T.named_barrier_sync needs a GPU"):
        twb.compile(made, target="c")


def test_whole_programs_are_refused_elsewhere() -> None:
    with pytest.raises(UnsupportedError):
        twb.compile(programs.attention(128, 128), target="c")
