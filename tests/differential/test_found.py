"""What random programs have found: each fault once, small, with the values that are right."""

from __future__ import annotations

import numpy as np
import pytest
from codegen.differ import agree
from codegen.ir_kit import BOOL, I32, I64, Cast, Reinterpret, Unary, Var, add, at, block, box, const, ix, kernel, lt, op, put, tensor, tile, whole

import tileworkbench.language as T
from tileworkbench.base.dtypes import DType
from tileworkbench.interpret import run as interpret
from tileworkbench.ir.expr import Const
from tileworkbench.ir.stmt import Copy, Fill, For, Gemm, If, Let, ParallelFor, Reduce, Scan

BX, I, J, K = (Var(n) for n in ("bx", "i", "j", "k"))


def one(name, tensors, body, allocs=(), **more):
    return kernel(name, tensors, [block((1,), (BX,), body, allocs)], **more)


# ---------------------------------------------------------------------------------------------- copies
@pytest.mark.parametrize("rows", [0, 1, 4])
def test_a_symbolic_extent_below_zero_is_nothing(rows: int) -> None:
    """A[1:n] of an empty tensor has extent -1: C must not copy -1 elements."""
    n = Var("n")
    a, b = tensor("A", (n, 3), "int32"), tensor("B", (n, 3), "int32")
    extent = (op("sub", n, 1), ix(3))
    body = [Copy(box(a, (1, 0), extent), box(b, (0, 0), extent)), Fill(box(a, (0, 0), extent), const(9, I32))]
    x = np.arange(rows * 3, dtype=np.int32).reshape(rows, 3)
    out = agree(one("shift", [a, b], body, dims=(n,)), [x, np.full_like(x, -1)], dims={"n": rows})
    np.testing.assert_array_equal(out[1][: max(rows - 1, 0)], x[1:])
    np.testing.assert_array_equal(out[0][: max(rows - 1, 0)], 9)


def test_a_region_that_is_certainly_outside_a_dynamic_tensor() -> None:
    """Nothing of A is read, so its dim appears in no statement; the call of the block still names it."""
    n = Var("n")
    a, b = tensor("A", (n,), safe_value=5), tensor("B", (4,))
    k = one("outside", [a, b], [Copy(box(a, (-6,), (4,)), whole(b))], dims=(n,))
    out = agree(k, [np.ones(3, np.float32), np.zeros(4, np.float32)], dims={"n": 3})
    np.testing.assert_array_equal(out[1], 5)


@pytest.mark.parametrize("kind", ["bfloat16", "float8_e4m3fn", "float8_e5m2", "float32"])
@pytest.mark.parametrize("steps", [(1, 3), (7, 1), (1, 8)])
def test_tiles_with_strides(kind: str, steps: tuple[int, int]) -> None:
    """Transposed and padded tiles have room for their last element, and neighbours keep theirs."""
    a, b = tensor("A", (3, 5), kind), tensor("B", (3, 5), kind)
    t, other = tile("t", (3, 5), kind, strides=tuple(Const(s) for s in steps)), tile("u", (64,), kind)
    body = [Copy(whole(a), whole(t)), Fill(whole(other), const(0, DType(kind))), Copy(whole(t), whole(b))]
    x = (np.arange(15) % 7 - 3).reshape(3, 5).astype(DType(kind).to_numpy())
    out = agree(one("strided", [a, b], body, [t, other]), [x, np.zeros_like(x)])
    np.testing.assert_array_equal(out[1].astype(float), (np.arange(15) % 7 - 3).reshape(3, 5))


def test_an_empty_tensor_of_four_bits() -> None:
    a = tensor("A", (0, 1), "int4")
    interpret(one("empty", [a], [Fill(whole(a), const(1, a.type))]), [np.zeros(0, np.uint8)])


# ---------------------------------------------------------------------------------------------- reductions, scans, products
@pytest.mark.parametrize("kind", ["float32", "float64", "float16"])
@pytest.mark.parametrize("dim", [0, 1])
def test_a_maximum_that_propagates_nan_starts_below_every_number(kind: str, dim: int) -> None:
    """It must not start from NaN, as one does that ignores NaN."""
    a, t, r, o = tensor("A", (4, 6), kind), tile("t", (4, 6), kind), tile("r", (24 // (4, 6)[dim],), kind), tensor("O", (24 // (4, 6)[dim],), kind)
    k = one("nan", [a, o], [Copy(whole(a), whole(t)), Reduce("max", whole(t), whole(r), dim, True, True), Copy(whole(r), whole(o))], [t, r])
    x = -np.arange(24).reshape(4, 6).astype(kind)
    x[2, 3] = np.nan
    out = agree(k, [x, np.zeros(24 // (4, 6)[dim], kind)])
    np.testing.assert_array_equal(out[1], x.max(dim))


def test_reductions_convert_first() -> None:
    """The largest magnitude of int8 -128 is 128 in an int32; 300 in an int8 is 44 before it is compared."""
    a, b = tensor("A", (3,), "int8"), tensor("B", (3,), "int32")
    s, t, wide, small = tile("s", (3,), "int8"), tile("t", (3,), "int32"), tile("w", (1,), "int32"), tile("m", (1,), "int8")
    o, p = tensor("O", (1,), "int32"), tensor("P", (1,), "int8")
    body = [
        Copy(whole(a), whole(s)), Copy(whole(b), whole(t)), Reduce("absmax", whole(s), whole(wide), 0), Reduce("max", whole(t), whole(small), 0),
        Copy(whole(wide), whole(o)), Copy(whole(small), whole(p)),
    ]  # fmt: skip
    k = one("convert", [a, b, o, p], body, [s, t, wide, small])
    out = agree(k, [np.array([-128, 3, 5], np.int8), np.array([300, 5, -7], np.int32), np.zeros(1, np.int32), np.zeros(1, np.int8)])
    assert (out[2][0], out[3][0]) == (128, 44)


@pytest.mark.parametrize("mine", ["a", "b"])
def test_a_product_into_its_own_operand(mine: str) -> None:
    a, t, u = tensor("A", (16, 16)), tile("t", (16, 16)), tile("u", (16, 16))
    b = tensor("B", (16, 16))
    left, right = (t, u) if mine == "a" else (u, t)
    product = Gemm(whole(left), whole(right), whole(t), clear=const(True, BOOL))
    body = [Copy(whole(a), whole(t)), Copy(whole(b), whole(u)), product, Copy(whole(t), whole(a))]
    x, y = (np.random.default_rng(n).integers(-3, 4, (16, 16)).astype(np.float32) for n in (0, 1))
    out = agree(one("own", [a, b], body, [t, u]), [x, y])
    np.testing.assert_array_equal(out[0], x @ y if mine == "a" else y @ x)


def test_a_product_of_four_bit_integers() -> None:
    a, b, c = tensor("A", (3, 4), "int8"), tensor("B", (4, 5), "int8"), tensor("C", (3, 5), "int32")
    s, t, r = tile("s", (3, 4), "int4"), tile("t", (4, 5), "uint4"), tile("r", (3, 5), "int32")
    body = [Copy(whole(a), whole(s)), Copy(whole(b), whole(t)), Gemm(whole(s), whole(t), whole(r), clear=const(True, BOOL)), Copy(whole(r), whole(c))]
    x, y = np.arange(12, dtype=np.int8).reshape(3, 4) - 6, np.arange(20, dtype=np.int8).reshape(4, 5) % 15
    out = agree(one("nibbles", [a, b, c], body, [s, t, r]), [x, y, np.zeros((3, 5), np.int32)])
    np.testing.assert_array_equal(out[2], x.astype(np.int32) @ y.astype(np.int32))


def test_a_sum_into_a_column_of_its_own_source() -> None:
    a, t = tensor("A", (3, 4)), tile("t", (3, 4))
    column, row = box(t, (0, 1), (3, 1)), box(t, (1, 0), (1, 4))
    body = [Copy(whole(a), whole(t)), Reduce("sum", whole(t), column, 1), Reduce("sum", whole(t), row, 0), Copy(whole(t), whole(a))]
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    want = x.copy()
    want[:, 1] = want.sum(1)
    want[1] = want.sum(0)
    np.testing.assert_array_equal(agree(one("column", [a], body, [t]), [x])[0], want)


def test_a_scan_into_a_shifted_part_of_its_source() -> None:
    a, t = tensor("A", (6, 6), "int32"), tile("t", (6, 6), "int32")
    body = [Copy(whole(a), whole(t)), Scan("sum", box(t, (0, 0), (5, 5)), box(t, (1, 1), (5, 5)), 0), Copy(whole(t), whole(a))]
    x = np.arange(36, dtype=np.int32).reshape(6, 6)
    want = x.copy()
    want[1:, 1:] = x[:5, :5].cumsum(0)
    np.testing.assert_array_equal(agree(one("shifted", [a], body, [t]), [x])[0], want)


# ---------------------------------------------------------------------------------------------- parallel loops
def test_a_test_against_what_the_loop_binds_is_no_loop_end() -> None:
    """`x` differs from row to row, so `j < x` cannot end the loops from outside."""
    a, o, x = tensor("A", (8,), "int32"), tensor("O", (8, 16)), Var("x", I32)
    body = [ParallelFor((I, J), (ix(8), ix(16)), (Let(x, at(a, I)), If(lt(J, Cast(x, I64)), (put(o, I, J, 1.0),))))]
    out = agree(one("row", [a, o], body), [np.arange(8, dtype=np.int32) * 2, np.zeros((8, 16), np.float32)])
    np.testing.assert_array_equal(out[1].sum(1), np.arange(8) * 2)


def test_a_test_against_an_inner_loop_is_no_loop_end() -> None:
    o = tensor("O", (16,))
    body = [ParallelFor((J,), (ix(16),), (For(K, ix(0), ix(8), (If(lt(J, K), (put(o, J, add(at(o, J), 1.0)),)),)),))]
    out = agree(one("triangle", [o], body), [np.zeros(16, np.float32)])
    np.testing.assert_array_equal(out[0], np.maximum(7 - np.arange(16), 0))


# ---------------------------------------------------------------------------------------------- expressions
def test_int32_against_uint32_compares_numbers() -> None:
    """Both become int64; C alone would compare them as unsigned."""
    a, b, o = tensor("A", (4,), "int32"), tensor("B", (4,), "uint32"), tensor("O", (4, 2), "bool")
    less = lt(Cast(at(a, I), I64), Cast(at(b, I), I64))
    body = [For(I, ix(0), ix(4), (put(o, I, 0, less), put(o, I, 1, op("gt", Cast(at(b, I), I64), -1))))]
    out = agree(one("signs", [a, b, o], body), [np.array([-1, 0, 5, 7], np.int32), np.array([0, 0, 4, 2**32 - 1], np.uint32), np.zeros((4, 2), bool)])
    np.testing.assert_array_equal(out[2], [[True, True], [False, True], [False, True], [True, True]])


def test_bits_of_a_half_as_a_brain_float() -> None:
    bf16 = DType("bfloat16")
    a, o, v = tensor("A", (5,), "float16"), tensor("O", (5,), "bfloat16"), Var("v", bf16)
    body = [ParallelFor((I,), (ix(5),), (Let(v, Reinterpret(at(a, I), bf16)), put(o, I, v)))]
    x = np.array([1, -2, 0.5, 3, 100], np.float16)
    out = agree(one("bits", [a, o], body), [x, np.zeros(5, bf16.to_numpy())])
    np.testing.assert_array_equal(out[1].view(np.uint16), x.view(np.uint16))


def test_four_bit_integers_have_four_bits() -> None:
    """Counts of bits see four of them; what leaves the range wraps before it is used."""
    i4 = DType("int4")
    a, o = tensor("A", (3,), "int8"), tensor("O", (3, 4), "int32")
    x = Cast(at(a, I), i4)
    values = [Unary("clz", x), Unary("popcount", x), Unary("abs", x), op("floordiv", x, const(-1, i4))]
    body = [For(I, ix(0), ix(3), tuple(put(o, I, n, Cast(v, I32)) for n, v in enumerate(values)))]
    out = agree(one("four", [a, o], body), [np.array([1, -1, -8], np.int8), np.zeros((3, 4), np.int32)])
    np.testing.assert_array_equal(out[1], [[3, 1, 1, -1], [0, 4, 1, 1], [0, 1, -8, -8]])


# ---------------------------------------------------------------------------------------------- threads
@pytest.mark.parametrize("by", [1, 127])
def test_a_thread_that_overwrites_what_its_neighbour_reads(by: int) -> None:
    """Every thread reads before any writes, also within one statement."""

    @T.prim_func
    def turn(A: T.Tensor((128,), "float32"), B: T.Tensor((128,), "float32")):
        with T.Kernel(1, threads=128):
            tx = T.get_thread_binding(0)
            s = T.alloc_shared((128,), "float32")
            s[tx] = A[tx]
            T.sync_threads()
            s[tx] = s[(tx + by) % 128] + 1.0
            T.sync_threads()
            B[tx] = s[tx]

    a = np.arange(128, dtype=np.float32)
    np.testing.assert_array_equal(agree(turn.kernel, [a, np.zeros_like(a)])[1], np.roll(a, -by) + 1)
