"""A vector loop cut into pieces, for passes that do something else before or after each of them."""

from __future__ import annotations

from ..base.dtypes import INDEX, INT32
from ..ir.expr import Binary, Cast, Const, Unary, Var
from ..ir.lowered import Loop
from ..ir.node import Node, replace, rewrite, walk
from ..ir.stmt import Body

_QUICK = ("add", "sub", "mul", "max", "min", "neg", "abs")
_FUNCTION = 24  # operations that a function of one element stands for
_LIGHT = 40  # operations of an element, above which memory keeps up with them


def is_light(body: Body) -> bool:
    """Whether a loop with this body waits for memory rather than for arithmetic, or would if memory did not keep up."""
    nodes = [n for s in body for n in walk(s) if isinstance(n, (Binary, Unary)) and n.dtype.is_float]
    return sum(1 if n.op in _QUICK else _FUNCTION for n in nodes) <= _LIGHT


def piece_of(loop: Loop, piece: Var, size: int) -> Loop:
    """The `size` iterations of `loop` from `piece` on, whose variable counts from 0."""
    narrow = Binary("add", Cast(piece, INT32), loop.var)

    def change(node: Node) -> Node:
        match node:
            case Var(name) if name == loop.var.name:
                return narrow
            case Cast(x, to) if x == narrow and to == INDEX:
                return Binary("add", piece, Cast(loop.var, INDEX))
            case _:
                return node

    return replace(loop, stop=Const(size, INT32), body=tuple(rewrite(s, change) for s in loop.body))
