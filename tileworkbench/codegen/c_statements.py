"""Statements that C and CUDA spell alike: blocks, branches, and whose line an error is put on. It decides nothing."""

from __future__ import annotations

from ..base.errors import TileError
from ..base.span import Span
from ..ir.bodies import statements
from ..ir.expr import Expr
from ..ir.lowered import Fail, Text
from ..ir.stmt import Body, Kernel, Stmt
from .c_family import CFamily
from .c_names import c_string
from .writer import Writer


def asserts_of(kernel: Kernel) -> tuple[tuple[str, Span | None], ...]:
    """Message and place of every assertion by its number; one that a pass proved to hold leaves a gap."""
    found = {n.index: (n.message, n.span) for n in statements(kernel) if isinstance(n, Fail)}
    return tuple(found.get(i, ("", None)) for i in range(1 + max(found, default=-1)))


class CStatements(CFamily):
    """Writes bodies to `out`; a target says in `stmt` what each statement is."""

    def __init__(self) -> None:
        super().__init__()
        self.out = Writer()

    def stmt(self, s: Stmt) -> None:
        """Write one statement."""
        raise NotImplementedError

    def body(self, body: Body) -> None:
        """Write statements in order; an error of one stands at its line."""
        for stmt in body:
            self.out.at(stmt.span)
            try:
                self.stmt(stmt)
            except TileError as error:
                raise error.at(stmt.span) from None

    def print_arguments(self, parts: tuple[Text | Expr, ...]) -> str:
        """What `printf` is given for a line."""
        text, args = "", ""
        for part in parts:
            if isinstance(part, Text):
                text += part.text.replace("%", "%%")
            elif part.dtype.is_float:
                text, args = text + "%f", f"{args}, (double){self.expr(part, 12)}"
            else:
                text, args = text + "%lld", f"{args}, (long long){self.expr(part, 12)}"
        return c_string(text) + args

    def repeat(self, cond: Expr, body: Body) -> None:
        """A loop with a condition."""
        with self.out.block(f"while ({self.expr(cond)})"), self.scope():
            self.body(body)

    def branch(self, cond: Expr, then: Body, other: Body) -> None:
        """One of two bodies."""
        with self.out.block(f"if ({self.expr(cond)})", "} else {" if other else "}"), self.scope():
            self.body(then)
        if other:
            self.out.depth += 1
            with self.scope():
                self.body(other)
            self.out.depth -= 1
            self.out.line("}")
