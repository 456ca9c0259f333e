"""New names that no other variable or buffer of the kernel has."""

from __future__ import annotations

from ..analysis.linear import has_load
from ..base.dtypes import INDEX, DType
from ..ir.build import index
from ..ir.expr import Buffer, Expr, Var
from ..ir.lowered import Loop
from ..ir.node import replace, walk
from ..ir.stmt import Body, Kernel, Launch, Let


class Names:
    """The names of one kernel. `fresh("row")` gives row, then row_1, row_2 ..., always the same for the same kernel.

    >>> n = Names()
    >>> n.fresh("row"), n.fresh("row")
    ('row', 'row_1')
    """

    def __init__(self, kernel: Kernel | None = None) -> None:
        self.kernel = kernel
        self.used: set[str] | None = None  # not looked for until a name is asked for: most passes find nothing to do
        self.count: dict[str, int] = {}

    def fresh(self, hint: str) -> str:
        """A new name that starts with `hint`."""
        name, used = hint, self._used()
        while name in used:
            self.count[hint] = self.count.get(hint, 0) + 1
            name = f"{hint}_{self.count[hint]}"
        used.add(name)
        return name

    def _used(self) -> set[str]:
        if self.used is None:
            self.used = set()
            for node in walk(self.kernel) if self.kernel is not None else ():
                if isinstance(node, (Var, Buffer, Kernel)):
                    self.used.add(node.name)
                elif isinstance(node, Launch):
                    self.used.update(b.name for b in node.allocs)
        return self.used

    def var(self, hint: str, dtype: DType = INDEX) -> Var:
        """A new variable."""
        return Var(self.fresh(hint), dtype, hint=hint)

    def scalar(self, hint: str, dtype: DType) -> Buffer:
        """A new mutable scalar."""
        return Buffer(self.fresh(hint), (index(1),), dtype, "var")

    def tile(self, hint: str, shape: tuple[Expr, ...], dtype: DType, scope: str = "shared") -> Buffer:
        """A new buffer."""
        return Buffer(self.fresh(hint), shape, dtype, scope)


def with_fixed_end(loop: Loop, names: Names) -> Body:
    """The loop, after its end if that reads memory, which the body may change."""
    if not has_load(loop.stop):
        return (loop,)
    end = names.var(f"{loop.var.hint or loop.var.name}_stop")
    return (Let(end, loop.stop, span=loop.span), replace(loop, stop=end))
