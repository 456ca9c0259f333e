"""The generic tree tools: children, walk, rewrite and its identity rule."""

from __future__ import annotations

import pytest
from handmade import BX, I, J, add, at, box, buf, copy, kernel, launch, mul, num, one_block, par, put, shared, whole

from tileworkbench.base.span import Span
from tileworkbench.ir.expr import Binary, Buffer, Const, Load, Var
from tileworkbench.ir.node import children, map_children, replace, rewrite, walk
from tileworkbench.ir.stmt import Copy, Fill, If, Kernel, Store

A, OUT, T = buf("a", 8, 8), buf("out", 8, 8), shared("t", 4, 4)
BODY = (
    copy(box(A, (mul(BX, 4), 4), (0, 4)), T),
    par((I, J), (4, 4), If(Binary("lt", I, J), (put(T, (I, J), add(at(T, I, J), 1.0)),))),
    Fill(whole(T), num(0)),
    copy(T, box(OUT, (mul(BX, 4), 4), (0, 4))),
)
PROGRAM = kernel([A, OUT], launch(2, BODY, (T,)))


def test_children_are_the_fields_in_order():
    load = at(A, I, add(J, 1))
    assert list(children(load)) == [A, I, add(J, 1)]
    assert list(children(A)) == []  # a symbol is a name: its shape is not part of the tree


def test_walk_is_in_program_order_parents_first():
    names = [n.name for n in walk(put(T, (I, J), add(at(A, J, I), 1.0))) if isinstance(n, Var)]
    assert names == ["i", "j", "j", "i"]
    kinds = [type(n).__name__ for n in PROGRAM.launches[0].body]
    assert kinds == ["Copy", "ParallelFor", "Fill", "Copy"]
    assert next(walk(PROGRAM)) is PROGRAM


def test_an_unchanged_tree_is_the_same_object():
    assert rewrite(PROGRAM, lambda node: node) is PROGRAM
    assert map_children(PROGRAM, lambda node: node) is PROGRAM


def test_what_does_not_change_is_shared():
    def one_more(node):
        return replace(node, value=num(5)) if isinstance(node, Fill) else node

    new = rewrite(PROGRAM, one_more)
    assert new is not PROGRAM
    before, after = PROGRAM.launches[0].body, new.launches[0].body
    assert [b is a for b, a in zip(before, after)] == [True, True, False, True]
    assert rewrite(new, one_more).launches[0].body[1] is before[1]
    assert new.params is PROGRAM.params


def test_an_equal_but_new_node_counts_as_a_change():
    new = rewrite(PROGRAM, lambda node: Const(node.value, node.type) if isinstance(node, Const) else node)
    assert new == PROGRAM
    assert new is not PROGRAM


def test_a_statement_may_become_several_or_none():
    def double(node):
        return (node, node) if isinstance(node, Copy) else None if isinstance(node, Fill) else node

    assert [type(s).__name__ for s in rewrite(PROGRAM, double).launches[0].body] == ["Copy", "Copy", "ParallelFor", "Copy", "Copy"]


def test_children_are_rewritten_before_their_parents():
    order = []
    rewrite(put(A, (I, J), at(T, J, I)), lambda node: order.append(type(node).__name__) or node)
    assert order == ["Buffer", "Var", "Var", "Buffer", "Var", "Var", "Load", "Store"]


def test_buffers_can_be_replaced_by_name():
    other = buf("b", 8, 8)
    new = rewrite(PROGRAM, lambda node: other if isinstance(node, Buffer) and node.name == "a" else node)
    assert [n.name for n in walk(new) if isinstance(n, Buffer) and not n.is_on_chip][:3] == ["b", "out", "b"]


def test_the_root_keeps_its_role():
    with pytest.raises(TypeError, match="the root Kernel cannot become None"):
        rewrite(PROGRAM, lambda node: None if isinstance(node, Kernel) else node)


def test_replace_keeps_the_span_unless_told():
    span = Span("f.py", 3, 0, 3, 5)
    store = Store(A, (I, J), num(1), span=span)
    assert replace(store, value=num(2)).span is span
    assert replace(store, span=None).span is None
    assert store == replace(store, span=None)  # spans take no part in equality
    load = Load(A, (I, J), span=span)
    assert rewrite(Store(A, (I, J), load), lambda n: I if n == J else n).value.span is span


def test_one_block_is_verified():
    """The helper of these tests must not hide invalid IR."""
    with pytest.raises(Exception, match="not bound"):
        one_block([A], put(A, (I, J), 0.0))
