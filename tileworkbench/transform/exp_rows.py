"""A vector loop that only takes powers of two of a row is a call, which names the processor's instructions for that.

Before:  for j in 0..128 simd: s[i * 128 + j] = exp2(s[i * 128 + j] * scale - top)
After:   exp2_row(&s[i * 128], &s[i * 128], 128, 0, scale, top)

A processor with 512-bit vectors takes what is left of a number beside the next whole one, and a number times a power of two, in an instruction each.
Compilers make no use of them in a loop, and spend a third more. The results are the same, bit by bit. Also for exp2((s[..] - top) * scale).

Requires: vector loops are as they will be emitted.  Preserves: everything else. Elements are read and written at the same place, or in two buffers.
"""

from __future__ import annotations

from ..analysis.linear import has_load, linear, to_expr
from ..base.dtypes import FLOAT32
from ..ir.build import index
from ..ir.expr import Binary, Buffer, Const, Expr, Unary, Var, const, is_const
from ..ir.lowered import Address, AtomicOp, Element, LibraryCall, Loop, SetElement
from ..ir.node import Node, rewrite, walk
from ..ir.stmt import Evaluate, Kernel

EXP2_ROW = "twb_exp2_row_f32"
_SHORT = 32  # elements that are not worth it


def exp_rows(kernel: Kernel) -> Kernel:
    """Return `kernel` with such loops called; `kernel` itself if there is none."""
    return rewrite(kernel, _change)


def _change(node: Node) -> Node:
    match node:
        case Loop(var, start, Const(count), (SetElement(dst, to, Unary("exp2", scaled)),), 1, True, (), "") if int(count) >= _SHORT:
            source, before, factor, after = _parts(scaled)
            if not is_const(start, 0) or not isinstance(source, Element) or not all(_is_fixed(e, var) for e in (before, factor, after)):
                return node
            made, given = _row(dst, to, var), _row(source.buffer, source.offset, var)
            if made is None or given is None or (dst.root == source.buffer.root and made != given):
                return node
            return Evaluate(LibraryCall(EXP2_ROW, (made, given, index(int(count)), before, factor, after), FLOAT32), span=node.span)
        case _:
            return node


def _parts(scaled: Expr) -> tuple[Expr, Expr, Expr, Expr]:
    """x, b, c and a, if `scaled` is (x - b) * c - a, each of which may be missing."""
    zero, one = const(0.0, FLOAT32), const(1.0, FLOAT32)
    scaled, after = (scaled.a, scaled.b) if isinstance(scaled, Binary) and scaled.op == "sub" else (scaled, zero)
    if not isinstance(scaled, Binary) or scaled.op != "mul":
        return scaled, zero, one, after
    inner = scaled.a
    if after == zero and isinstance(inner, Binary) and inner.op == "sub":
        return inner.a, inner.b, scaled.b, after
    return inner, zero, scaled.b, after


def _is_fixed(e: Expr, var: Var) -> bool:
    """Whether `e` is one number all the way along the row."""
    return e.dtype == FLOAT32 and not any(isinstance(n, (Element, AtomicOp)) or n == var for n in walk(e))


def _row(buffer: Buffer, offset: Expr, var: Var) -> Address | None:
    """The place of the first element, if each iteration goes on by one float32."""
    form = linear(offset)
    rest = form.without(var)
    fits = buffer.type == FLOAT32 and buffer.scope != "var" and form.coefficient(var) == 1
    return Address(buffer, to_expr(rest)) if fits and not any(has_load(atom) or var in walk(atom) for atom in rest.terms) else None
