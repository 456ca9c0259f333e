"""Branches that are certain go; others, and what reads memory, stay."""

from __future__ import annotations

import numpy as np

import tileworkbench as tilelang
import tileworkbench.language as T
from tileworkbench.ir.node import walk
from tileworkbench.ir.stmt import If
from tileworkbench.transform.decide_branches import decide_branches
from tileworkbench.transform.index_loops import index_loops


def masked(n: int, block: int = 8):
    @T.prim_func
    def main(A: T.Tensor((n,), "float32"), B: T.Tensor((n,), "float32")):
        with T.Kernel(T.ceildiv(n, block)) as bx:
            t = T.alloc_fragment((block,), "float32")
            T.copy(A[bx * block], t)
            if (bx + 1) * block > n:
                for i in T.Parallel(block):
                    t[i] = T.if_then_else(bx * block + i < n, t[i], 7.0)
            else:
                for i in T.Parallel(block):
                    t[i] = t[i] + 1.0
            if t[0] > 3.0:
                for i in T.Parallel(block):
                    t[i] = t[i] * 2.0
            T.copy(t, B[bx * block])

    return main


def branches(n: int) -> int:
    return sum(isinstance(node, If) for node in walk(decide_branches(index_loops(masked(n).kernel))))


def test_certain_tests_go_and_others_stay() -> None:
    """With 32 elements the first test is false for each of four blocks; with 30 it depends on the block. What reads memory is never certain."""
    assert branches(32) == 1
    assert branches(30) == 2


def test_nothing_to_decide_is_the_same_kernel() -> None:
    kernel = decide_branches(index_loops(masked(30).kernel))
    assert decide_branches(kernel) is kernel


def test_the_taken_branch_is_what_runs() -> None:
    for n in (32, 30):
        a = np.linspace(0, 4, n, dtype=np.float32)
        b = np.zeros_like(a)
        tilelang.compile(masked(n), target="c")(a, b)
        want = a.copy()
        for at in range(0, n, 8):
            part = want[at : at + 8]
            if len(part) == 8:
                part += 1
            if part[0] > 3:
                part *= 2
        np.testing.assert_array_equal(b, want)


def test_names_of_a_taken_branch_keep_their_scope() -> None:
    """Two branches bind the same name; both are taken."""

    @T.prim_func
    def main(A: T.Tensor((4,), "int32")):
        with T.Kernel(4) as bx:
            if bx < 4:
                x = bx * 2
                A[bx] = x
            if bx >= 0:
                x = bx * 3
                A[bx] = A[bx] + x

    a = np.zeros(4, np.int32)
    tilelang.compile(main, target="c")(a)
    np.testing.assert_array_equal(a, [0, 5, 10, 15])
