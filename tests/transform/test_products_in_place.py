"""read_operands_in_place and sum_in_place: what they change, what they must leave alone, and results on ragged, tiny and shared arrays."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import tileworkbench.language as T
from tileworkbench.frontend.prim_func import PrimFunc
from tileworkbench.ir.lowered import Apart, GemmCall
from tileworkbench.ir.node import walk
from tileworkbench.ir.stmt import Copy, Fill, Gemm, If, Kernel
from tileworkbench.kernels import gemm
from tileworkbench.runtime.jit import compile
from tileworkbench.transform.absorb_fills import absorb_fills
from tileworkbench.transform.lowering import lower
from tileworkbench.transform.read_operands_in_place import read_operands_in_place
from tileworkbench.transform.sum_in_place import sum_in_place

F32 = "float32"


def matmul(m: int, n: int, k: int, bm: int = 32, bn: int = 32, bk: int = 32, dtype: str = F32, out: str = F32, relu: bool = False) -> PrimFunc:
    return gemm.program(m, n, k, bm, bn, bk, 2, dtype, out, relu)


def passed(program: PrimFunc) -> Kernel:
    return sum_in_place(read_operands_in_place(absorb_fills(program.kernel)))


def count(kernel: Kernel, kind: type) -> int:
    return sum(isinstance(n, kind) for n in walk(kernel))


def run(program: PrimFunc, *arrays: np.ndarray, target: str = "c") -> None:
    compile(program, target=target)(*arrays)


def check(program: PrimFunc, *shapes: tuple[int, ...], dtype: str = F32) -> None:
    """The C target gives what the interpreter gives, into arrays that held something else before."""
    rng = np.random.default_rng(1)
    arrays = [rng.integers(-4, 5, shape).astype(dtype) for shape in shapes]
    ours, theirs = [a.copy() for a in arrays], [a.copy() for a in arrays]
    run(program, *ours)
    run(program, *theirs, target="interpret")
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(a, b)


# ------------------------------------------------------------------------------------------- what changes
def test_whole_tiles_are_not_made() -> None:
    kernel = read_operands_in_place(matmul(64, 96, 128).kernel)
    assert count(kernel, Copy) == 1 and count(kernel, If) == 0, "only the copy to C stays"
    (product,) = [n for n in walk(kernel) if isinstance(n, Gemm)]
    assert (product.a.buffer.name, product.b.buffer.name) == ("A", "B")
    assert [b.name for b in kernel.launches[0].allocs] == ["acc"]
    assert read_operands_in_place(kernel) is kernel


def test_a_rim_keeps_both_ways() -> None:
    kernel = read_operands_in_place(matmul(64, 90, 128).kernel)
    (choice,) = [n for n in walk(kernel) if isinstance(n, If)]
    assert [type(s) for s in choice.then] == [Gemm] and [type(s) for s in choice.other] == [Copy, Gemm]
    (rim,) = [s for s in choice.other if isinstance(s, Gemm)]
    assert (rim.a.buffer.name, rim.b.buffer.name) == ("A", "B_tile"), "A is inside for certain, and is not copied for B's sake"
    assert read_operands_in_place(kernel) is kernel


def test_sums_go_to_c_unless_it_is_passed_twice() -> None:
    kernel = passed(matmul(64, 96, 128))
    (choice,) = [n for n in walk(kernel) if isinstance(n, If)]
    assert {(n.a.name, n.b.name) for n in walk(choice.cond) if isinstance(n, Apart)} == {("A", "C"), ("B", "C")}
    assert not any(isinstance(n, Fill | Copy) for s in choice.then for n in walk(s))
    assert [n.c.buffer.name for s in choice.then for n in walk(s) if isinstance(n, Gemm)] == ["C"]
    assert sum_in_place(kernel) is kernel
    calls = [n for n in walk(lower(matmul(64, 96, 128).kernel)) if isinstance(n, GemmCall)]
    assert [c.c.buffer.name for c in calls] == ["C", "acc"]
    assert count(sum_in_place(read_operands_in_place(matmul(64, 96, 128).kernel), asks=False), If) == 0


# ------------------------------------------------------------------------------------------- what must not
def test_a_tile_that_something_else_uses_is_made() -> None:
    @T.prim_func
    def reads(A: T.Tensor((32, 32), F32), B: T.Tensor((32, 32), F32), C: T.Tensor((32, 32), F32)):
        with T.Kernel(1):
            a, b = T.alloc_shared((32, 32), F32), T.alloc_shared((32, 32), F32)
            c = T.alloc_fragment((32, 32), F32)
            T.copy(A, a)
            T.copy(B, b)
            T.gemm(a, b, c, clear_accum=True)
            for i, j in T.Parallel(32, 32):
                c[i, j] = c[i, j] + a[i, j]
            T.copy(c, C)

    kernel = read_operands_in_place(reads.kernel)
    assert [n.a.buffer.name for n in walk(kernel) if isinstance(n, Gemm)] == ["a"]
    assert sum_in_place(kernel) is kernel, "the loop uses c"
    check(reads, (32, 32), (32, 32), (32, 32))


def test_a_source_that_the_launch_writes_is_copied() -> None:
    @T.prim_func
    def changes(A: T.Tensor((32, 32), F32), B: T.Tensor((32, 32), F32), C: T.Tensor((32, 32), F32)):
        with T.Kernel(1):
            a, b = T.alloc_shared((32, 32), F32), T.alloc_shared((32, 32), F32)
            c = T.alloc_fragment((32, 32), F32)
            T.copy(A, a)
            T.copy(B, b)
            for i, j in T.Parallel(32, 32):
                A[i, j] = 0.0
            T.gemm(a, b, c, clear_accum=True)
            T.copy(c, C)

    (product,) = [n for n in walk(read_operands_in_place(changes.kernel)) if isinstance(n, Gemm)]
    assert (product.a.buffer.name, product.b.buffer.name) == ("a", "b"), "B may be A"
    check(changes, (32, 32), (32, 32), (32, 32))


def test_a_tile_read_in_the_next_iteration_is_made() -> None:
    @T.prim_func
    def late(A: T.Tensor((4, 32, 32), F32), B: T.Tensor((32, 32), F32), C: T.Tensor((32, 32), F32)):
        with T.Kernel(1):
            a, b = T.alloc_shared((32, 32), F32), T.alloc_shared((32, 32), F32)
            c = T.alloc_fragment((32, 32), F32)
            T.copy(B, b)
            T.clear(a)
            T.clear(c)
            for step in T.serial(4):
                T.gemm(a, b, c)
                T.copy(A[step, 0, 0], a)
            T.copy(c, C)

    assert read_operands_in_place(late.kernel) is late.kernel
    check(late, (4, 32, 32), (32, 32), (32, 32))


def test_blocks_that_share_a_result_sum_on_chip() -> None:
    """Every block along z writes the same values to C: harmless, unless they summed there."""

    @T.prim_func
    def thrice(A: T.Tensor((64, 64), F32), B: T.Tensor((64, 64), F32), C: T.Tensor((64, 64), F32)):
        with T.Kernel(2, 2, 3) as (bx, by, bz):
            a, b = T.alloc_shared((32, 32), F32), T.alloc_shared((32, 32), F32)
            c = T.alloc_fragment((32, 32), F32)
            T.clear(c)
            for ko in T.Pipelined(2, num_stages=2):
                T.copy(A[by * 32, ko * 32], a)
                T.copy(B[ko * 32, bx * 32], b)
                T.gemm(a, b, c)
            T.copy(c, C[by * 32, bx * 32])

    assert [n.c.buffer.name for n in walk(passed(thrice)) if isinstance(n, Gemm)] == ["c"]
    check(thrice, (64, 64), (64, 64), (64, 64))


@pytest.mark.parametrize("make", [lambda: matmul(64, 64, 64, relu=True), lambda: matmul(64, 64, 64, out="float16")], ids=["relu", "float16"])
def test_a_result_that_is_changed_on_the_way_is_summed_on_chip(make: Callable[[], PrimFunc]) -> None:
    assert {n.c.buffer.name for n in walk(passed(make())) if isinstance(n, Gemm)} == {"acc"}


@pytest.mark.parametrize("out", ["float16", "bfloat16"])
def test_one_product_rounds_into_a_narrower_result(out: str) -> None:
    """Of two products, the first must not be rounded."""
    one, two = (passed(matmul(64, 64, 64, bk=bk, out=out)) for bk in (64, 32))
    assert {n.c.buffer.name for n in walk(one) if isinstance(n, Gemm)} == {"C", "acc"}
    assert {n.c.buffer.name for n in walk(two) if isinstance(n, Gemm)} == {"acc"}
    calls = [n for n in walk(lower(matmul(64, 64, 64, bk=64, out=out).kernel)) if isinstance(n, GemmCall)]
    assert [c.c.buffer.name for c in calls] == ["C", "acc"]


def test_a_narrower_result_is_not_summed_in_more_often_than_once() -> None:
    """The walk's length is an argument: one step in most launches, but not in all."""
    n = T.dynamic("n")

    @T.prim_func
    def walk_of(A: T.Tensor((32, 64), F32), B: T.Tensor((64, 32), F32), C: T.Tensor((32, 32), "float16"), N: T.Tensor((n,), F32)):
        with T.Kernel(1):
            a, b = T.alloc_shared((32, 32), F32), T.alloc_shared((32, 32), F32)
            c = T.alloc_fragment((32, 32), F32)
            T.clear(c)
            for ko in T.Pipelined(n, num_stages=2):
                T.copy(A[0, ko * 32], a)
                T.copy(B[ko * 32, 0], b)
                T.gemm(a, b, c)
            T.copy(c, C)

    assert {n.c.buffer.name for n in walk(passed(walk_of)) if isinstance(n, Gemm)} == {"c"}


@pytest.mark.parametrize("shape", [(1, 1, 1), (5, 3, 7), (33, 31, 65), (64, 96, 128), (100, 232, 36), (47, 400, 70)], ids=str)
@pytest.mark.parametrize("kind", ["float16", "bfloat16"])
@pytest.mark.parametrize("shift", [0, 3])
def test_narrower_results_are_those_of_one_rounding(shape: tuple[int, int, int], kind: str, shift: int) -> None:
    """With arrays that begin at a cache line, and with others."""
    ml_dtypes = pytest.importorskip("ml_dtypes")
    dtype = np.dtype(ml_dtypes.bfloat16 if kind == "bfloat16" else kind)
    m, n, k = shape
    rng = np.random.default_rng(6)

    def array(rows: int, columns: int) -> np.ndarray:
        raw = np.zeros(rows * columns + 64, dtype)
        start = -raw.ctypes.data % 64 // 2 + shift
        out = raw[start : start + rows * columns].reshape(rows, columns)
        out[...] = rng.integers(-4, 5, (rows, columns))
        return out

    a, b, c = array(m, k), array(k, n), array(m, n)
    run(gemm.program(m, n, k, 48, 208, 80, 2, kind, kind, False, F32), a, b, c)
    np.testing.assert_array_equal(c, (a.astype(np.float32) @ b.astype(np.float32)).astype(dtype))


def test_a_walk_of_no_steps_leaves_zeros() -> None:
    n = T.dynamic("n")

    @T.prim_func
    def walk_of(A: T.Tensor((32, 64), F32), B: T.Tensor((64, 32), F32), C: T.Tensor((32, 32), F32), N: T.Tensor((n,), F32)):
        with T.Kernel(1):
            a, b = T.alloc_shared((32, 32), F32), T.alloc_shared((32, 32), F32)
            c = T.alloc_fragment((32, 32), F32)
            T.clear(c)
            for ko in T.Pipelined(T.min(n, 2), num_stages=2):
                T.copy(A[0, ko * 32], a)
                T.copy(B[ko * 32, 0], b)
                T.gemm(a, b, c)
            T.copy(c, C)

    for length in (0, 1, 2):
        check(walk_of, (32, 64), (64, 32), (32, 32), (length,))


# ------------------------------------------------------------------------------------------- results
@pytest.mark.parametrize("shape", [(1, 1, 1), (5, 3, 7), (33, 31, 65), (64, 96, 128), (100, 70, 36), (32, 200, 33)], ids=str)
@pytest.mark.parametrize("dtype", [F32, "float16", "float64"])
def test_ragged_and_tiny_sizes(shape: tuple[int, int, int], dtype: str) -> None:
    m, n, k = shape
    out = "float64" if dtype == "float64" else F32
    program = gemm.program(m, n, k, 32, 48, 32, 2, dtype, out, False, out)
    rng = np.random.default_rng(2)
    a, b = rng.integers(-4, 5, (m, k)).astype(dtype), rng.integers(-4, 5, (k, n)).astype(dtype)
    c = np.full((m, n), np.nan, out)
    run(program, a, b, c)
    np.testing.assert_array_equal(c, a.astype(np.float64) @ b.astype(np.float64))


def test_bfloat16_and_int8_on_the_matrix_unit_or_without() -> None:
    import ml_dtypes

    rng = np.random.default_rng(3)
    for kind, out in ((ml_dtypes.bfloat16, F32), (np.int8, "int32")):
        a, b = rng.integers(-4, 5, (70, 130)).astype(kind), rng.integers(-4, 5, (130, 90)).astype(kind)
        c = np.full((70, 90), 9, out)
        run(gemm.program(70, 90, 130, 32, 32, 64, 2, np.dtype(kind).name, out, False, out), a, b, c)
        np.testing.assert_array_equal(c, a.astype(np.float64) @ b.astype(np.float64))


def test_an_array_passed_twice_is_read_before_it_is_written() -> None:
    """C = A @ C in one block: the interpreter's answer is that of the program."""
    rng = np.random.default_rng(4)
    a, c = rng.integers(-4, 5, (32, 32)).astype(F32), rng.integers(-4, 5, (32, 32)).astype(F32)
    want = a @ c
    run(matmul(32, 32, 32, bk=16), a, c, c)
    np.testing.assert_array_equal(c, want)
    both = a.copy()
    run(matmul(32, 32, 32, bk=16), both, both, both)
    np.testing.assert_array_equal(both, a @ a)


def test_an_argument_with_strides_may_share_a_part_of_c() -> None:
    """It need not begin where C does, so no test of pointers tells them apart: C = A @ (every second row of C's own memory), in one block."""

    @T.prim_func
    def main(A: T.Tensor((16, 16), F32), B: T.StridedTensor((16, 16), (16, 1), F32), C: T.Tensor((32, 16), F32)):
        with T.Kernel(1) as bx:
            b = T.alloc_shared((16, 16), F32)
            acc = T.alloc_fragment((32, 16), F32)
            a = T.alloc_shared((32, 16), F32)
            T.clear(acc)
            T.copy(A, a[0:16, :])
            T.copy(A, a[16:32, :])
            for k in T.serial(2):
                T.copy(B, b)
                T.gemm(a, b, acc)
            T.copy(acc, C)

    assert count(passed(main), Apart) == 0
    rng = np.random.default_rng(5)
    a, c = rng.integers(-4, 5, (16, 16)).astype(F32), rng.integers(-4, 5, (32, 16)).astype(F32)
    b = c[8:24]
    want = 2 * np.concatenate([a @ b, a @ b])
    run(main, a, b, c)
    np.testing.assert_array_equal(c, want)


def test_regions_of_more_dims_and_transposed_factors() -> None:
    @T.prim_func
    def batched(A: T.Tensor((3, 40, 64), F32), B: T.Tensor((3, 48, 64), F32), C: T.Tensor((3, 40, 48), F32)):
        with T.Kernel(3, 2, 3) as (bx, by, bz):
            a, b = T.alloc_shared((32, 32), F32), T.alloc_shared((16, 32), F32)
            c = T.alloc_fragment((32, 16), F32)
            T.clear(c)
            for ko in T.Pipelined(2, num_stages=2):
                T.copy(A[bz, by * 32 : by * 32 + 32, ko * 32 : ko * 32 + 32], a)
                T.copy(B[bz, bx * 16 : bx * 16 + 16, ko * 32 : ko * 32 + 32], b)
                T.gemm(a, b, c, transpose_B=True)
            T.copy(c, C[bz, by * 32 : by * 32 + 32, bx * 16 : bx * 16 + 16])

    assert {n.c.buffer.name for n in walk(passed(batched)) if isinstance(n, Gemm)} == {"C", "c"}
    check(batched, (3, 40, 64), (3, 48, 64), (3, 40, 48))
