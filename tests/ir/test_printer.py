"""The printer: stable, readable, complete."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, fields
from typing import Any

import pytest
from handmade import I, J, add, box, buf, cast, launch, mul, num, op, put, select, shared, un, whole
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_of_everything import S, everything
from scalar_reference import value

from tileworkbench.base.dtypes import BOOL, FLOAT32, INDEX, DType
from tileworkbench.base.span import Span
from tileworkbench.ir import lowered_text as _lowered_text  # noqa: F401  # teaches the printer the lowered nodes
from tileworkbench.ir.expr import Binary, Buffer, Cast, Const, Expr, Load, Reinterpret, Select, Unary, Var, const
from tileworkbench.ir.lowered import Element
from tileworkbench.ir.node import Node, replace, rewrite, walk
from tileworkbench.ir.printer import print_expr, print_kernel, print_lines, print_stmt
from tileworkbench.ir.stmt import Body, Fill, Kernel, Stmt


def test_a_whole_kernel(golden):
    golden(print_kernel(everything()) + "\n", "everything.txt")


def test_lines_carry_their_spans():
    stmt = replace(put(buf("a", 4), 1, num(2)), span=Span("k.py", 7, 0, 7, 9))
    kernel = replace(everything(), body=(put(buf("a", 4), 0, num(1)), stmt))
    lines = print_lines(kernel)
    assert "\n".join(text for text, _ in lines) == print_kernel(kernel)
    assert [(text.strip(), span.line) for text, span in lines if span is not None] == [("a[1] = 2.0f32", 7)]


def test_printing_is_stable():
    assert print_kernel(everything()) == print_kernel(everything())
    assert print_kernel(rewrite(everything(), lambda node: node)) == print_kernel(everything())


def test_spans_are_comments_and_take_no_part_otherwise():
    stmt = put(buf("a", 4), 1, num(2))
    marked = replace(stmt, span=Span("k.py", 7, 0, 7, 9))
    assert print_stmt(marked) == print_stmt(stmt) == "a[1] = 2.0f32"
    assert print_stmt(marked, spans=True) == "a[1] = 2.0f32  # k.py:7"
    cell = replace(stmt, span=Span("/tmp/x.py", 2, 0, 2, 1, label="Cell In[3]"))
    assert print_stmt(cell, spans=True) == "a[1] = 2.0f32  # Cell In[3]:2"


@pytest.mark.parametrize(
    ("e", "text"),
    [
        (mul(add(I, 1), J), "(i + 1) * j"),
        (add(mul(I, 2), J), "i * 2 + j"),
        (op("sub", I, op("sub", J, 1)), "i - (j - 1)"),
        (op("sub", op("sub", I, J), 1), "i - j - 1"),
        (op("and", op("lt", I, J), un("not", op("eq", I, 0))), "i < j and not i == 0"),
        (op("eq", op("lt", I, J), op("lt", J, I)), "(i < j) == (j < i)"),
        (op("bitand", op("shl", I, 2), op("bitor", J, 1)), "i << 2 & (j | 1)"),
        (un("neg", un("neg", I)), "--i"),
        (un("neg", Const(5)), "-(5)"),
        (Const(-5), "-5"),
        (un("neg", add(I, J)), "-(i + j)"),
        (un("exp", num(1, "float16")), "exp(1.0f16)"),
        (op("min", I, 3), "min(i, 3)"),
        (select(op("lt", I, 2), I, select(op("lt", I, 3), J, Const(0))), "i if i < 2 else j if i < 3 else 0"),
        (add(select(op("lt", I, 2), I, J), 1), "(i if i < 2 else j) + 1"),
        (cast(I, "float8_e4m3fn"), "float8_e4m3fn(i)"),
        (Reinterpret(S, DType("int32")), "reinterpret(scale, int32)"),
        (const(True, BOOL), "True"),
        (num(math.inf), "inf.f32"),
        (num(-math.inf, "bfloat16"), "-inf.bf16"),
        (num(math.nan, "float64"), "nan.f64"),
        (num(0.1), "0.10000000149011612f32"),
        (num(7, "uint8"), "7u8"),
        (box(buf("a", 4, 8), (I, 2), (0, 8)), "a[i :+ 2, 0 :+ 8]"),
        (whole(buf("a", 4, 8)), "a"),
        (box(buf("a", 4, 8), (0, 4), (1, 8)), "a[0 :+ 4, 1 :+ 8]"),
        (Var("odd name"), "'odd name'"),
    ],
)
def test_expressions(e, text):
    assert print_expr(e) == text


@dataclass(frozen=True, slots=True)
class Later(Stmt):
    """A statement of some later stage, which the printer has never heard of."""

    buffer: Buffer
    value: Expr
    body: Body = ()
    fast: bool = False


def test_nodes_of_later_stages_print_without_being_known():
    t = shared("t", 4)
    loop = Later(t, add(I, 1), (Later(t, Element(t, I)), put(t, 0, num(1))), True)
    assert print_stmt(loop).splitlines() == [
        "Later(buffer=t, value=i + 1, fast=True)",
        "  body:",
        f"    Later(buffer=t, value={print_expr(Element(t, I))}, body=(), fast=False)",
        "    t[0] = 1.0f32",
    ]
    assert print_expr(Element(t, I)) == "t@[i]?"


# ---------------------------------------------------------------------------------------------- completeness
def variants(node: Node) -> Any:
    """Nodes that differ from `node` in one plain field."""
    for f in fields(node):
        field = getattr(node, f.name)
        if f.name == "span" or isinstance(field, Node) or not f.compare:
            continue
        if isinstance(field, DType):
            yield replace(node, **{f.name: DType("uint16") if field != "uint16" else DType("int16")})
        elif isinstance(field, bool):
            yield replace(node, **{f.name: not field})
        elif isinstance(field, int | float):
            yield replace(node, **{f.name: field + 1})
        elif isinstance(field, str):
            yield replace(node, **{f.name: field + "2"})
        elif isinstance(field, tuple) and field:
            yield replace(node, **{f.name: field[:-1]})


def substitute(root: Kernel, old: Node, new: Node) -> Kernel:
    """`root` with the one node `old` (by identity) replaced; symbols by equality, everywhere."""
    if isinstance(old, Buffer):
        return rewrite(root, lambda node: new if isinstance(node, Buffer) and node == old else node)
    return rewrite(root, lambda node: new if node is old else node)


def test_every_field_of_every_node_shows():
    """Changing any one plain field of any one node of the kernel changes the text."""
    root = everything()
    text = print_kernel(root)
    tried = 0
    for node in walk(root):
        for other in variants(node):
            if node is root:
                changed = other
            elif isinstance(node, Var | Const):
                continue  # shared objects: covered by the random expressions below
            else:
                changed = substitute(root, node, other)
            if changed == root:
                continue
            tried += 1
            assert print_kernel(changed) != text, f"{type(node).__name__}: {other}"
    assert tried > 150


def test_bool_int_and_float_literals_of_one_value_differ():
    texts = {
        print_expr(const(1, DType(d))) for d in ("bool", "int8", "uint8", "int32", "int64", "float16", "float32", "float64", "bfloat16", "tfloat32")
    }
    assert len(texts) == 10
    assert print_expr(num(0.0)) != print_expr(num(-0.0))


@pytest.mark.parametrize(
    "change",
    [
        {"safe_value": 1.0},
        {"strides": (Const(8), Const(1))},
        {"scope": "fragment"},
        {"type": DType("float16")},
        {"offset": Const(4)},
        {"view_of": buf("A", 4)},
    ],
    ids=str,
)
def test_every_property_of_a_buffer_shows(change):
    t = shared("t", 4, 8)
    same = lambda buffer: Kernel("k", (), (), (), (launch(1, (Fill(whole(buffer), num(0)),), (buffer,)),))
    assert print_kernel(same(t)) != print_kernel(same(replace(t, **change)))


def test_two_buffers_of_one_name_are_told_apart():
    one, two = shared("t", 4), shared("t", 5)
    mixed = lambda a, b: Kernel("k", (), (), (), (launch(1, (Fill(whole(a), num(0)), Fill(whole(b), num(0))), (one, two)),))
    assert len({print_kernel(mixed(a, b)) for a in (one, two) for b in (one, two)}) == 4


# ---------------------------------------------------------------------------------------------- random expressions
NAMES = [Var("i"), Var("j"), Var("x", FLOAT32), Var("b", BOOL)]
T = shared("t", 4)


def grow(below: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
    binary = st.sampled_from(["add", "sub", "mul", "floordiv", "lt", "eq", "and", "or", "bitand", "bitor", "bitxor", "shl", "min", "pow"])
    return st.one_of(
        st.builds(Binary, binary, below, below),
        st.builds(Unary, st.sampled_from(["neg", "not", "bitnot", "exp", "abs"]), below),
        st.builds(Select, below, below, below),
        st.builds(Cast, below, st.sampled_from([INDEX, FLOAT32])),
        st.builds(lambda i: Load(T, (i,)), below),
    )


LITERALS = st.one_of(
    st.integers(-3, 3).map(Const),
    st.sampled_from([num(1.0), num(-1.0), num(0.5), const(True, BOOL), const(False, BOOL), num(1, "int32"), num(1, "float16")]),
)
EXPRESSIONS = st.recursive(st.one_of(st.sampled_from(NAMES), LITERALS), grow, max_leaves=6)


@settings(max_examples=400, deadline=None)
@given(EXPRESSIONS, EXPRESSIONS)
def test_different_expressions_print_differently(a, b):
    assert (print_expr(a) == print_expr(b)) == (a == b)


def test_small_expressions_print_differently_exhaustively():
    """All trees of two operators over two leaves."""
    ops, leaves = ["add", "sub", "mul", "lt", "eq", "and", "or", "bitand", "shl"], [I, J]
    pairs = [Binary(o, a, b) for o in ops for a in leaves for b in leaves]
    pairs += [Unary(o, a) for o in ("neg", "not", "bitnot") for a in leaves] + [Select(I, I, J), Select(J, I, I)]
    deep: list[Expr] = [*pairs]
    for o in ops:
        deep += [Binary(o, p, q) for p, q in itertools.product(pairs, leaves)] + [Binary(o, q, p) for p, q in itertools.product(pairs, leaves)]
    for o in ("neg", "not", "bitnot"):
        deep += [Unary(o, p) for p in pairs]
    for p in pairs:
        deep += [Select(p, I, J), Select(I, p, J), Select(I, J, p)]
    texts = [print_expr(e) for e in deep]
    assert len(set(texts)) == len(set(deep)) == len(texts)


@settings(max_examples=200, deadline=None)
@given(st.recursive(st.one_of(st.sampled_from([I, J]), st.integers(-5, 5).map(Const)), lambda below: st.one_of(
    st.builds(Binary, st.sampled_from(["add", "sub", "mul", "bitand", "bitor", "bitxor"]), below, below),
    st.builds(Unary, st.sampled_from(["neg", "bitnot", "abs"]), below),
    st.builds(lambda o, a, b, t, f: Select(Binary(o, a, b), t, f), st.sampled_from(["lt", "ge", "eq"]), below, below, below, below),
), max_leaves=8))  # fmt: skip
def test_integer_expressions_are_python(e):
    """Precedence and parentheses are right: Python reads the text as the tree means it."""
    env = {"i": 6, "j": -7}
    assert eval(print_expr(e), {"abs": abs}, dict(env)) == value(e, env, {})
