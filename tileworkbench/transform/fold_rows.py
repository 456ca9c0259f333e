"""The rows of a strip are reduced together: one call gives the sixteen results, and what each row does with its own is a vector loop.

Before:  for i in 0..16: top[i] = max(top[i], twb_row_max(&s[i * 64], 64))
After:   var row_max[16]; twb_rows_max(&s[0], 64, 64, &row_max[0])
         for i in 0..16 simd: top[i] = max(top[i], row_max[i])

A vector of partial results takes as long to fold to one number as a short row takes to read; sixteen vectors are folded to one vector in twice that.

Requires: strips are made (`strip_rows`), sums are taken on the way (`join_sums`).  Preserves: everything else; sums are taken in another order.
"""

from __future__ import annotations

from ..analysis.aliasing import Aliasing
from ..analysis.linear import to_expr, variables
from ..analysis.rows import STRIP
from ..base.dtypes import FLOAT32, INDEX, INT32
from ..ir.build import ZERO, cast, index
from ..ir.expr import Binary, Buffer, Cast, Const, Expr, Select, Unary, Var, is_const
from ..ir.lowered import Address, Declare, Element, LibraryCall, Loop, SetElement
from ..ir.node import Node, rewrite, walk
from ..ir.stmt import Evaluate, Kernel, Stmt
from .names import Names
from .scoped import Result, Scoped

_CALLS = {f"twb_row_{op}_f32": f"twb_rows_{op}_f32" for op in ("max", "min", "sum")}
_PLAIN = (Const, Var, Unary, Binary, Select, Cast, Element, Address, LibraryCall, Buffer)


def fold_rows(kernel: Kernel) -> Kernel:
    """Return `kernel` with such loops as calls; `kernel` itself if there are none."""
    if not any(isinstance(n, LibraryCall) and n.name in _CALLS for n in walk(kernel)):
        return kernel
    return _Fold(kernel).kernel(kernel)


class _Fold(Scoped):
    def __init__(self, kernel: Kernel) -> None:
        super().__init__()
        self.names = Names(kernel)
        self.aliasing = Aliasing(kernel)

    def on_stmt(self, stmt: Stmt) -> Result:
        match stmt:
            case Loop(var, start, stop, (SetElement() as store,), 1, False, (), "") if is_const(start, 0) and is_const(stop, STRIP):
                return self.together(stmt, var, store)
            case _:
                return stmt

    def together(self, loop: Loop, var: Var, store: SetElement) -> Result:
        """The call and the vector loop; `loop` itself where rows may not be taken together."""
        calls = [n for n in walk(store.value) if isinstance(n, LibraryCall)]
        if len(calls) != 1 or calls[0].name not in _CALLS or not isinstance(calls[0].args[0], Address) or not self.is_apart(store, var):
            return loop
        source, count = calls[0].args
        assert isinstance(source, Address)
        step, first = self.split(source.offset, var)
        if step < 1:
            return loop
        one = self.names.var(var.hint or var.name, INT32)
        found = self.names.tile(f"row_{calls[0].name.split('_')[2]}", (index(STRIP),), FLOAT32, "local")

        def change(node: Node) -> Node:
            match node:
                case LibraryCall(name) if name in _CALLS:
                    return Element(found, cast(one, INDEX))
                case Var(name) if name == var.name:
                    return cast(one, INDEX)
                case _:
                    return node

        call = LibraryCall(_CALLS[calls[0].name], (Address(source.buffer, first), index(step), count, Address(found, ZERO)), INT32)
        each = Loop(one, Const(0, INT32), Const(STRIP, INT32), (rewrite(store, change),), simd=True, span=loop.span)
        return (Declare(found, span=loop.span), Evaluate(call, span=store.span or loop.span), each)

    def split(self, offset: Expr, var: Var) -> tuple[int, Expr]:
        """The step of `offset` from row to row, and where it starts; a step of 0 if there is none."""
        form = self.bounds.sum(offset)
        first = to_expr(form.without(var))
        return (0, first) if any(v.name == var.name for v in variables(first)) else (form.coefficient(var), first)

    def is_apart(self, store: SetElement, var: Var) -> bool:
        """Whether each row writes a place of its own, one after the other, which no other row reads."""
        if self.split(store.offset, var)[0] != 1 or not all(isinstance(n, _PLAIN) for n in walk(store.value)):
            return False
        reads = [n for n in walk(store.value) if isinstance(n, (Element, Address))]
        others = [n for n in reads if not (isinstance(n, Element) and n.buffer == store.buffer and n.offset == store.offset)]
        return not any(self.aliasing.may_share(n.buffer, store.buffer) for n in others)
