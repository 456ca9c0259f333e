"""Scalars, control flow, host level, views, workspaces, C functions, assertions: against the interpreter."""

from __future__ import annotations

import numpy as np
import pytest
from codegen.c_runner import Compiled, source_of
from codegen.differ import agree, random_array
from codegen.ir_kit import BOOL, F32, F64, I32, Cast, Var, add, at, block, box, const, ix, kernel, lt, mul, op, put, tensor, tile

from tileworkbench.base.dtypes import DType
from tileworkbench.base.errors import CapacityError, UnsupportedError
from tileworkbench.ir.expr import AddressOf, Buffer, CallExtern, Const
from tileworkbench.ir.stmt import (
    Assert,
    Atomic,
    Break,
    Continue,
    Copy,
    Evaluate,
    For,
    Gemm,
    If,
    Let,
    ParallelFor,
    PipelinedFor,
    Print,
    Return,
    Sync,
    While,
    whole,
)

BX, I, J, K = (Var(n) for n in ("bx", "i", "j", "k"))


def test_loops_branches_and_mutable_scalars() -> None:
    """Downward steps, empty ranges, break and continue in every kind of loop, while, early return of a block."""
    out = tensor("out", (8, 16), "int32")
    n, m = tile("n", (1,), "int32", "var"), tile("m", (1,), "int32", "var")
    row = Var("row")
    body = [
        put(n, 0, 0),
        For(I, ix(10), ix(0), (If(op("eq", op("floormod", I, 3), 0), (Continue(),)), put(n, 0, add(at(n, 0), Cast(I, I32)))), step=-2),
        put(out, BX, 0, at(n, 0)),
        For(J, ix(3), ix(3), (put(n, 0, -99),)),
        PipelinedFor(K, ix(0), add(BX, 1), (If(op("gt", K, 4), (Break(),)), put(out, BX, add(K, 1), Cast(K, I32))), num_stages=2),
        put(m, 0, 100),
        While(op("gt", at(m, 0), 3), (put(m, 0, op("floordiv", at(m, 0), 2)), If(op("eq", at(m, 0), 6), (Break(),)), put(n, 0, add(at(n, 0), 1)))),
        put(out, BX, 8, at(n, 0)),
        put(out, BX, 9, at(m, 0)),
        If(op("eq", BX, 5), (Return(),), (put(out, BX, 10, 1),)),
        Let(row, mul(BX, 3)),
        If(lt(row, 10), (put(out, BX, 11, Cast(row, I32)),), (If(lt(row, 15), (put(out, BX, 11, 15),), (put(out, BX, 11, 16),)),)),
    ]
    k = kernel("control", [out], [block((8,), (BX,), body, [n, m])])
    agree(k, [np.zeros((8, 16), np.int32)], threads=2)


def test_scalar_parameters() -> None:
    """Every type arrives: integers by value, floats through float64, narrow floats rounded."""
    kinds = ["int32", "int64", "float32", "float64", "float16", "bool", "uint8"]
    scalars = [Var(f"s_{k}", DType(k)) for k in kinds]
    out = tensor("out", (len(kinds),), "float64")
    body = [put(out, n, Cast(v, F64)) for n, v in enumerate(scalars)]
    k = kernel("scalars", [out], [block((1,), (BX,), body)], scalars=scalars)
    values = {v.name: x for v, x in zip(scalars, (-5, 1 << 40, 0.1, 0.1, 0.1, 1, 200), strict=True)}
    agree(k, [np.zeros(len(kinds))], scalars=values)


def test_host_level_control_flow_and_several_launches() -> None:
    """Launches in a loop and a branch; a workspace carries data from one to the next; a grid of no blocks does nothing."""
    n = Var("n")
    a, w = tensor("A", (n,)), tensor("W", (n,))
    step, limit = Var("step_1", hint="step"), Var("limit_1", hint="limit")
    here = add(mul(BX, 16), I)
    copy_in = block((op("floordiv", add(n, 15), 16),), (BX,), [ParallelFor((I,), (ix(16),), (put(w, here, at(a, here)),))])
    by = Var("by")
    neighbours = add(at(w, add(mul(by, 16), J)), at(w, op("sub", op("sub", n, limit), add(mul(by, 16), J))))
    copy_out = block((op("floordiv", add(n, 15), 16),), (by,), [ParallelFor((J,), (ix(16),), (put(a, add(mul(by, 16), J), neighbours),))])
    body = [Let(limit, add(op("floormod", n, 3), 1)), For(step, ix(0), limit, (copy_in, If(op("gt", n, 20), (copy_out,))))]
    k = kernel("host", [a], body, dims=(n,), workspaces=(w,))
    assert source_of(k).text.count("static void host_block") == 2
    for size in (0, 5, 33):
        agree(k, [random_array((size,), "float32")], dims={"n": size}, threads=2)


def test_views_share_storage() -> None:
    """The same bytes under another shape and another type, on chip and global."""
    a, b = tensor("A", (4, 8)), tensor("B", (32,), "int32")
    s = tile("s", (4, 8))
    flat = Buffer("flat", (ix(32),), F32, "shared", view_of=s)
    bits = Buffer("bits", (ix(32),), I32, "shared", view_of=s)
    whole_a = Buffer("whole_a", (ix(2), ix(16)), F32, "global", view_of=a)
    body = [
        Copy(whole(a), whole(s)),
        ParallelFor((I,), (ix(32),), (put(flat, I, mul(at(flat, I), 2.0)),)),
        ParallelFor((J,), (ix(32),), (put(b, J, at(bits, J)),)),
        put(whole_a, 1, 3, 7.5),
    ]
    k = kernel("views", [a, b], [block((1,), (BX,), body, [s, flat, bits])])
    x = random_array((4, 8), "float32")
    out = agree(k, [x, np.zeros(32, np.int32)])
    np.testing.assert_array_equal(out[1].view(np.float32), 2 * x.ravel())
    assert out[0][2, 3] == 7.5


def test_c_functions_of_the_author() -> None:
    a = tensor("A", (8,))
    source = "static float twice(float x) { return 2 * x; }\nstatic void bump(float *p) { *p += 1; }"
    body = [
        For(I, ix(0), ix(8), (put(a, I, CallExtern("twice", (at(a, I),), F32)),)),
        Evaluate(CallExtern("bump", (AddressOf(a, (ix(2),)),), I32)),
    ]
    k = kernel("extern", [a], [block((1,), (BX,), body)], imports=(source,))
    x = np.arange(8, dtype=np.float32)
    assert Compiled(k)(x) == 0
    np.testing.assert_array_equal(x, [0, 2, 5, 6, 8, 10, 12, 14])


def test_assertions_return_their_number() -> None:
    """In a block, in a parallel loop, at host level; what follows a failed one in its block does not run."""
    n = Var("n")
    a = tensor("A", (16,), "int32")
    body = [
        Assert(lt(BX, 3), "too many blocks"),
        ParallelFor((I,), (ix(4),), (Assert(op("ne", at(a, add(mul(BX, 4), I)), 13), "unlucky"), put(a, add(mul(BX, 4), I), 1))),
    ]
    k = kernel("asserts", [a], [Assert(op("gt", n, 0), "no blocks"), block((n,), (BX,), body)], dims=(n,))
    compiled = Compiled(k)
    assert [message for message, _ in compiled.source.asserts] == ["no blocks", "too many blocks", "unlucky"]
    x = np.zeros(16, np.int32)
    assert compiled(x, dims={"n": 3}) == 0
    assert compiled(x, dims={"n": 0}) == 1
    assert compiled(x, dims={"n": 4}) == 2
    x[6] = 13
    assert compiled(x, dims={"n": 3}, threads=2) == 3
    assert x[6] == 13


def test_printing(capfd: pytest.CaptureFixture[str]) -> None:
    a, s = tensor("A", (2,), "float16"), tile("s", (2, 2), "int32")
    body = [
        For(I, ix(0), ix(2), (For(J, ix(0), ix(2), (put(s, I, J, Cast(add(mul(I, 2), J), I32)),)),)),
        Print("100% of", (at(a, 1), BX, const(True, BOOL))),
        Print("s", (), s),
    ]
    Compiled(kernel("prints", [a], [block((1,), (BX,), body, [s])]))(np.array([1, 2.5], np.float16))
    assert capfd.readouterr().out == "100% of 2.500000 0 1\ns [0, 0] = 0\ns [0, 1] = 1\ns [1, 0] = 2\ns [1, 1] = 3\n"


def test_barriers_of_an_invisible_block_do_nothing() -> None:
    a = tensor("A", (4,))
    k = kernel("sync", [a], [block((1,), (BX,), [put(a, 0, 1.0), Sync(), put(a, 1, 2.0)])])
    agree(k, [np.zeros(4, np.float32)])


def test_names_that_c_reserves() -> None:
    a = tensor("double", (4,))
    k = kernel("int", [a], [block((1,), (Var("float"),), [For(Var("while"), ix(0), ix(4), (put(a, Var("while"), 1.0),))])])
    agree(k, [np.zeros(4, np.float32)])


def test_names_repeat_where_scopes_allow_it() -> None:
    """Two loops of one name stay so in C; a third inside one of them gets a number."""
    a = tensor("A", (4, 4))
    first, second, inner = Var("i_1", hint="i"), Var("i_2", hint="i"), Var("i_3", hint="i")
    body = [For(first, ix(0), ix(4), (put(a, first, 0, 1.0),)), For(second, ix(0), ix(4), (For(inner, ix(1), ix(4), (put(a, second, inner, 2.0),)),))]
    k = kernel("names", [a], [block((1,), (BX,), body)])
    agree(k, [np.zeros((4, 4), np.float32)])
    text = source_of(k).text
    assert "A[i * 4] = 1.0f" in text
    assert "A[i * 4 + i_1] = 2.0f" in text


def test_the_same_kernel_gives_the_same_text() -> None:
    a, s = tensor("A", (64, 64)), tile("s", (64, 64))
    k = kernel("same", [a], [block((2,), (BX,), [Copy(whole(a), whole(s)), Gemm(whole(s), whole(s), whole(a))], [s])])
    assert source_of(k) == source_of(k)


def test_too_much_memory() -> None:
    big = tile("big", (1 << 15, 1 << 14))
    with pytest.raises(CapacityError, match="MiB"):
        source_of(kernel("big", [], [block((1,), (BX,), [put(big, 0, 0, 1.0)], [big])]))


def test_what_the_target_refuses() -> None:
    a = tensor("A", (4,), "float8_e5m2")
    with pytest.raises(UnsupportedError, match="atomic add on float8_e5m2"):
        source_of(kernel("refused", [a], [block((1,), (BX,), [Atomic("add", box(a, (0,), (1,)), Const(1.0, a.type))])]))
