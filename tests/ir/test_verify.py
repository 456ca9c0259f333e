"""The verifier: valid kernels pass, and each rule finds its fault."""

from __future__ import annotations

import pytest
from handmade import BX, TX, I, K, add, at, box, buf, copy, launch, mul, num, op, par, put, select, shared, un, whole
from kernel_of_everything import everything

from tileworkbench.base.dtypes import BOOL, FLOAT32, DType
from tileworkbench.base.errors import InternalError
from tileworkbench.base.span import Span
from tileworkbench.ir.expr import Binary, Buffer, Const, Reinterpret, Unary, Var
from tileworkbench.ir.lowered import Element, Grid, SetElement
from tileworkbench.ir.node import replace
from tileworkbench.ir.stmt import (
    Assert,
    Atomic,
    Break,
    Collective,
    Copy,
    Evaluate,
    Fill,
    For,
    Gemm,
    If,
    Kernel,
    Let,
    Reduce,
    Region,
    ScalarParam,
    Scan,
    Store,
    Sync,
    TensorParam,
    While,
)
from tileworkbench.ir.verify import verify

A, T, U = buf("A", 8, 8), shared("t", 4, 4), shared("u", 4)


def program(*body, params=(TensorParam(A),), host=(), **more) -> Kernel:
    return Kernel("k", params, (), (), (*host, launch(1, body, (T, U), **more)))


def fault(kernel: Kernel, stage: str = "tile") -> str:
    with pytest.raises(InternalError) as caught:
        verify(kernel, stage)
    return str(caught.value)


def test_a_kernel_of_everything_is_valid():
    verify(everything(), "tile")
    verify(everything(), "any")


FAULTS = [
    ("i is used where it is not bound", program(put(T, (I, 0), 0.0))),
    ("variable i is bound twice", program(par((I, I), (4, 4), put(T, (I, I), 0.0)))),
    ("variable i is bound twice", program(par(I, 4, For(I, Const(0), Const(2), (put(T, (I, I), 0.0),))))),
    ("i is used where it is not bound", program(par(I, 4, put(U, I, 0.0)), put(U, I, 0.0))),
    ("x is used as float32", program(Let(Var("x"), Const(1)), put(U, 0, Var("x", FLOAT32)))),
    ("x is used where it is not bound", program(If(op("lt", BX, 1), (Let(Var("x"), Const(1)),)), put(U, Var("x"), 0.0))),
    ("tx is used where it is not bound", program(put(U, TX, 0.0))),
    ("buffer v is not declared", program(put(shared("v", 4), 0, 0.0))),
    ("two buffers are called u", program(put(shared("u", 5), 0, 0.0))),
    ("2 indices for the 1 dims of u", program(Store(U, (Const(0), Const(0)), num(0)))),
    ("1 indices for the 2 dims of t", program(put(U, 0, at(T, 0)))),
    ("an index of u is float32", program(Store(U, (num(0),), num(0)))),
    ("an index of t is no integer", program(put(U, 0, replace(at(T, 0, 0), indices=(num(0), Const(0)))))),
    ("a value of int32 for u of float32", program(put(U, 0, num(1, "int32")))),
    ("a value of float16 for t of float32", program(Fill(whole(T), num(1, "float16")))),
    ("let x: int64 = a value of float32", program(Let(Var("x"), num(1)))),
    ("add of float32 and int64", program(put(U, 0, Binary("add", num(1), Const(1))))),
    ("no such operator: plus", program(Let(Var("x"), Binary("plus", Const(1), Const(1))))),
    ("no such function: exq", program(put(U, 0, Unary("exq", num(1))))),
    ("div of int64", program(Let(Var("x"), op("div", BX, 2)))),
    ("and of int64", program(Let(Var("x", BOOL), op("and", BX, 2)))),
    ("shl of float32", program(put(U, 0, op("shl", num(1), 1.0)))),
    ("not of int64", program(Let(Var("x", BOOL), un("not", BX)))),
    ("a condition of int64", program(If(BX, ()))),
    ("a condition of float32", program(While(at(U, 0), ()))),
    ("a condition of int64", program(Assert(BX))),
    ("a condition of int64", program(put(U, 0, select(BX, num(0), num(1))))),
    ("a select of float32 and int64", program(put(U, 0, select(op("lt", BX, 1), num(0), Const(1))))),
    ("the bits of float32 as int16", program(Evaluate(Reinterpret(num(1), DType("int16"))))),
    ("300 is no uint8", program(Evaluate(Const(300, DType("uint8"))))),
    ("do not fit", program(copy(box(A, (0, 4), (0, 5)), T))),
    ("do not fit", program(copy(T, U))),
    ("a region of t with 1 extents", program(Fill(Region(T, (Const(0), Const(0)), (Const(4),)), num(0)))),
    ("1 indices for the 2 dims of t", program(Fill(Region(T, (Const(0),), (Const(4), Const(4))), num(0)))),
    ("a region of u of symbolic extent", program(Fill(box(U, (0, BX)), num(0)))),
    ("gemm of shapes that do not fit", program(Gemm(whole(T), box(T, (0, 4), (0, 3)), whole(T)))),
    ("gemm of shapes that do not fit", program(Gemm(box(T, (0, 2), (0, 4)), whole(T), box(T, (0, 2), (0, 4)), trans_a=True))),
    ("gemm of fewer than 2 dims", program(Gemm(whole(U), whole(T), whole(U)))),
    ("no such reduction: mean", program(Reduce("mean", whole(T), whole(U), 1))),
    ("reduce over dim 2 of 2", program(Reduce("sum", whole(T), whole(U), 2))),
    ("reduce over dim -1 of 2", program(Reduce("sum", whole(T), whole(U), -1))),
    ("reduce into a region that does not fit", program(Reduce("sum", whole(T), box(U, (0, 3)), 1))),
    ("no such scan: abssum", program(Scan("abssum", whole(T), whole(T)))),
    ("scan along dim 2 of 2", program(Scan("sum", whole(T), whole(T), 2))),
    ("scan into a region that does not fit", program(Scan("sum", whole(T), whole(U)))),
    ("no such atomic: mul", program(Atomic("mul", box(A, 0, 0), num(1)))),
    ("atomic load with the wrong number of values", program(Atomic("load", box(A, 0, 0), num(1)))),
    ("do not fit", program(Atomic("add", box(A, (0, 4), (0, 4)), whole(U)))),
    ("Copy in a parallel loop", program(par(I, 4, copy(T, T)))),
    ("Break outside a loop", program(Break())),
    ("a loop of step 0", program(For(K, Const(0), Const(4), (), 0))),
    ("threads (0,)", program(threads=0)),
    ("a grid needs 1-3 extents", Kernel("k", (), (), (), (replace(launch(1, ()), grid=()),))),
    ("a launch inside a launch", program(launch(1, ()))),
    ("Fill outside a launch", program(params=(TensorParam(A),), host=(Fill(whole(A), num(0)),))),
    ("A is allocated in a launch but global", Kernel("k", (), (), (), (launch(1, (), (A,)),))),
    ("s has a symbolic shape on chip", Kernel("k", (ScalarParam(Var("n")),), (), (), (launch(1, (), (buf("s", Var("n"), scope="shared"),)),))),
    ("a parameter or workspace is not global", Kernel("k", (TensorParam(T),), (), (), ())),
    ("variable n is bound twice", Kernel("k", (ScalarParam(Var("n")),), (Var("n"),), (), ())),
    ("SetElement before lowering", program(SetElement(U, Const(0), num(0)))),
    ("Element before lowering", program(put(U, 0, Element(U, Const(0))))),
]


@pytest.mark.parametrize(("text", "kernel"), FAULTS, ids=[f"{i} {text}" for i, (text, _) in enumerate(FAULTS)])
def test_each_rule(text, kernel):
    assert text in fault(kernel)


def test_all_faults_come_at_once_with_their_place_and_the_ir():
    span = Span("gemm.py", 12, 4, 12, 9, text="    x")
    broken = program(replace(put(U, 0, num(1, "int32")), span=span), Break())
    with pytest.raises(InternalError) as caught:
        verify(broken)
    assert str(caught.value) == "k is not valid tile IR: a value of int32 for u of float32 (gemm.py:12:5); Break outside a loop"
    assert caught.value.__notes__[0].startswith("kernel 'k':")
    assert "u[0] = 1i32  # gemm.py:12" in caught.value.__notes__[0]


def test_views_need_no_declaration_but_their_owner_does():
    bits = Buffer("bits", (Const(16),), DType("int32"), "shared", view_of=T)
    verify(program(put(bits, 3, 7)))
    orphan = Buffer("bits", (Const(16),), DType("int32"), "shared", view_of=shared("nowhere", 16))
    assert "buffer nowhere is not declared" in fault(program(put(orphan, 3, 7)))


def test_siblings_may_reuse_a_name_but_not_a_child():
    verify(program(par(I, 4, put(U, I, 0.0)), par(I, 4, put(U, I, 1.0))))
    verify(program(Let(Var("x"), Const(1)), par(I, 4, Let(Var("y"), add(I, Var("x"))), put(U, Var("y"), 0.0))))
    assert "variable x is bound twice" in fault(program(Let(Var("x"), Const(1)), par(I, 4, Let(Var("x"), I))))


def test_results_of_atomics_and_collectives_are_bound():
    old = Var("old", FLOAT32)
    verify(program(Atomic("add", box(A, 0, 0), num(1), old), put(U, 0, old)))
    word = Var("w", DType("int64"))
    verify(program(Collective("warp_sum", word, (TX,)), Sync(), put(A, (TX, 0), 0.0), used=True, threads=32))


def test_symbolic_extents_are_given_the_benefit_of_the_doubt():
    n = Var("n")
    a = buf("a", n, 4)
    verify(Kernel("k", (TensorParam(a),), (n,), (), (launch(1, (copy(box(a, (0, n), (0, 4)), box(a, (0, n), (0, 4))),)),)))


def test_lowered_kernels_hold_no_tile_operations():
    body = (SetElement(U, Const(0), num(0)),)
    lowered = Kernel("k", (), (), (), (Grid("k_0", (BX,), (Const(1),), (), body),))
    verify(lowered, "lowered")
    for left in (Copy(whole(T), whole(T)), Sync(), par(I, 4, put(U, I, 0.0))):
        text = fault(Kernel("k", (), (), (), (Grid("k_0", (BX,), (Const(1),), (), (left,)),)), "lowered")
        assert f"{type(left).__name__} after lowering" in text
    with pytest.raises(ValueError, match="no such stage"):
        verify(lowered, "later")


def test_expressions_are_checked_at_any_depth():
    assert "q is used where it is not bound" in fault(program(put(U, mul(add(1, mul(2, Var("q"))), 3), 0.0)))
