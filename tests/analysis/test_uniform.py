"""Which values all threads of a block share."""

from __future__ import annotations

import tileworkbench.language as T
from tileworkbench.analysis.uniform import Uniformity


def varying(function) -> set[str]:
    return Uniformity(function.kernel.launches[0]).varying


def test_what_varies() -> None:
    """A thread index, what is computed or chosen by one, what only some threads write; not what they read from one place."""

    @T.prim_func
    def f(A: T.Tensor((128,), "int32"), B: T.Tensor((128,), "int32")):
        with T.Kernel(4, threads=128) as bx:
            tx = T.get_thread_binding(0)
            same = A[bx] + 1
            own = A[tx]
            counter = T.alloc_var("int32", init=0)
            some = T.alloc_var("int32", init=0)
            chosen = T.alloc_var("int32", init=0)
            for k in T.serial(same):
                counter = counter + k
                if own > 3:
                    some = 1
            for j in T.serial(own):
                chosen = chosen + 1
            total = T.syncthreads_count(own > 0)
            lane = T.shfl_xor(own, 1)
            B[tx] = same + counter + some + chosen + total + lane

    found = varying(f)
    assert {"tx", "own", "some", "chosen", "j"} <= found
    assert not found & {"bx", "same", "counter", "k", "total"}


def test_a_break_of_single_threads_makes_the_loop_diverge() -> None:
    @T.prim_func
    def f(A: T.Tensor((128,), "int32")):
        with T.Kernel(1, threads=128) as bx:
            tx = T.get_thread_binding(0)
            n = T.alloc_var("int32", init=0)
            m = T.alloc_var("int32", init=0)
            for k in T.serial(10):
                if tx == k:
                    break
                n = n + 1
            for k2 in T.serial(10):
                if bx == k2:
                    break
                m = m + 1
            A[tx] = n + m

    assert "n" in varying(f)
    assert "m" not in varying(f)
