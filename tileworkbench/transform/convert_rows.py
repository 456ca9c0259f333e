"""Vector loops that only convert a row between float32 and a narrow float call the library's function for whole rows.

Before:  simd for j in [0, 128): p[i * 128 + j] = bfloat16(s[i * 128 + j])
After:   twb_copy_f32_to_bf16(&s[i * 128], &p[i * 128], 128)

The function names the processor's own instruction, of which compilers make no use in a loop.

Requires: narrow floats only in memory (widen_floats).  Preserves: everything else. Source and destination are different buffers.
"""

from __future__ import annotations

from ..analysis.linear import linear, to_expr, variables
from ..base.dtypes import FLOAT16, FLOAT32, INDEX, INT32, DType
from ..ir.build import cast, sub
from ..ir.expr import Cast, Expr, Var
from ..ir.lowered import Address, Element, LibraryCall, Loop, SetElement
from ..ir.node import Node, rewrite
from ..ir.stmt import Evaluate, Kernel

_CALLS = {
    (FLOAT32, DType("bfloat16")): "twb_copy_f32_to_bf16",
    (FLOAT32, FLOAT16): "twb_copy_f32_to_f16",
    (FLOAT16, FLOAT32): "twb_copy_f16_to_f32",
}


def convert_rows(kernel: Kernel) -> Kernel:
    """Return `kernel` with a call for every loop over a row that does nothing but convert; `kernel` itself if there is none."""
    return rewrite(kernel, _change)


def _change(node: Node) -> Node:
    match node:
        case Loop(var, start, stop, (SetElement(dst, to, Cast(Element(src, at), kind)),), 1, True, (), "") if dst.type == kind:
            call = _CALLS.get((src.type, kind))
            places = (_first(at, var, start), _first(to, var, start))
            if call is None or src.root == dst.root or places[0] is None or places[1] is None:
                return node
            count = sub(cast(stop, INDEX), cast(start, INDEX))
            return Evaluate(LibraryCall(call, (Address(src, places[0]), Address(dst, places[1]), count), INT32), span=node.span)
        case _:
            return node


def _first(offset: Expr, var: Var, start: Expr) -> Expr | None:
    """The offset in the loop's first iteration, if each iteration goes on by one element."""
    form = linear(offset)
    rest = form.without(var)
    if form.coefficient(var) != 1 or any(v.name == var.name for atom in rest.terms for v in variables(atom)):
        return None
    return to_expr(rest + linear(cast(start, INDEX)))
