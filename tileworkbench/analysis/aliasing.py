"""Which global buffers may be one array: what the caller may do with the arguments, and what the runtime refuses.

The same array may be given twice, and then is two names for the same elements (`runtime/overlap.py` refuses arrays that share a part of their
memory, or that begin at one place and differ in size). So two contiguous arguments of one type are one array or have nothing in common, and in
one array equal flat offsets are the same element. Outputs that the runtime allocates, and workspaces, are memory of their own.
"""

from __future__ import annotations

from ..base.dtypes import INDEX
from ..ir.build import cast
from ..ir.expr import Buffer, Const, Expr
from ..ir.stmt import Kernel, TensorParam
from .access import flat_offset
from .bounds import Bounds


class Aliasing:
    """What is known about the global buffers of one kernel."""

    def __init__(self, kernel: Kernel) -> None:
        outputs = {p.buffer for p in kernel.params if isinstance(p, TensorParam) and p.is_output}
        self.own: set[Buffer] = outputs | set(kernel.workspaces)

    def may_share(self, a: Buffer, b: Buffer) -> bool:
        """Whether `a` and `b`, global or on chip, may have an element in common."""
        a, b = a.root, b.root
        if a == b:
            return True
        if a.is_on_chip or b.is_on_chip or a in self.own or b in self.own:
            return False
        return a.strides is not None or b.strides is not None or not _differ_in_size(a, b)

    def same_element(self, a: Buffer, at: tuple[Expr, ...], b: Buffer, there: tuple[Expr, ...], bounds: Bounds) -> bool:
        """Whether `a[at]` and `b[there]` are certainly one element if the buffers share memory at all."""
        if not is_one_array(a, b):
            return False
        if a == b or a.shape[1:] == b.shape[1:]:
            return all(is_one_index(i, j, bounds) for i, j in zip(at, there, strict=True))
        return is_one_index(flat_offset(a, at), flat_offset(b, there), bounds)


def is_one_array(a: Buffer, b: Buffer) -> bool:
    """Whether equal offsets are equal elements if the buffers share memory."""
    return a == b or (a.strides is None and b.strides is None and a.view_of is None and b.view_of is None and a.type == b.type)


def is_one_index(i: Expr, j: Expr, bounds: Bounds) -> bool:
    """Whether two indices are certainly equal, be it because they differ by the variable of a loop of one turn."""
    return bounds.span(bounds.sum(cast(i, INDEX)) - bounds.sum(cast(j, INDEX))) == (0, 0)


def _differ_in_size(a: Buffer, b: Buffer) -> bool:
    """Whether the arrays certainly have different sizes, or no elements."""
    if a.shape == b.shape:
        return a.type.bits != b.type.bits
    if not all(isinstance(d, Const) for d in (*a.shape, *b.shape)):
        return False
    return a.static_bytes() != b.static_bytes()
