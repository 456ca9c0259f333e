"""Every variable of a kernel is used where it exists.

Python lets a value leave the block that computed it, through a list, a dict or a closure; the kernel has no such value there.
`check_visible` walks the finished kernel and reports the first use of a variable outside its block.
"""

from __future__ import annotations

from ..base.errors import TileNameError
from ..base.span import Span
from ..ir.expr import Expr, Load, Var
from ..ir.node import Node, children
from ..ir.stmt import (
    Atomic,
    Body,
    Collective,
    For,
    If,
    Kernel,
    Launch,
    Let,
    ParallelFor,
    PipelinedFor,
    ScalarParam,
    Stmt,
    While,
)


def check_visible(kernel: Kernel) -> None:
    """Raises: TileNameError if a variable is used outside the block that defines it, or a dim belongs to no tensor."""
    _Checker({*kernel.dims, *(p.var for p in kernel.params if isinstance(p, ScalarParam))}).body(kernel.body)


class _Checker:
    def __init__(self, visible: set[Var]) -> None:
        self.visible = visible
        self.checked: dict[int, Node] = {}  # subtrees seen in the current block; kept alive, so that ids stay their own
        self.defined: set[Var] = set()

    def body(self, body: Body, *new: Var) -> None:
        outer, seen = self.visible, self.checked
        self.visible = outer | set(new)
        self.checked = {}
        self.defined |= set(new)
        for stmt in body:
            self.stmt(stmt)
        self.visible, self.checked = outer, seen

    def stmt(self, stmt: Stmt) -> None:
        match stmt:
            case Let():
                self.expr(stmt.value, stmt)
                self.add(stmt.var)
            case ParallelFor():
                self.exprs(stmt.extents, stmt)
                self.body(stmt.body, *stmt.vars)
            case For() | PipelinedFor():
                self.exprs((stmt.start, stmt.stop), stmt)
                self.body(stmt.body, stmt.var)
            case While():
                self.expr(stmt.cond, stmt)
                self.body(stmt.body)
            case If():
                self.expr(stmt.cond, stmt)
                self.body(stmt.then)
                self.body(stmt.other)
            case Launch():
                self.exprs(stmt.grid, stmt)
                self.body(stmt.body, *stmt.block_vars, *stmt.thread_vars)
            case Atomic() | Collective() if stmt.result is not None:
                self.exprs([c for c in children(stmt) if c is not stmt.result], stmt)
                self.add(stmt.result)
            case _:
                self.exprs(children(stmt), stmt)

    def add(self, var: Var) -> None:
        self.visible = self.visible | {var}
        self.defined.add(var)

    def exprs(self, nodes: object, stmt: Stmt) -> None:
        for node in nodes:  # type: ignore[attr-defined]  # an iterable of nodes
            self.expr(node, stmt)

    def expr(self, node: Node, stmt: Stmt, span: Span | None = None) -> None:
        if id(node) in self.checked:
            return
        if isinstance(node, Var):
            if node not in self.visible:
                self.fail(node, span or stmt.span)
            return
        span = node.span if isinstance(node, Load) and node.span is not None else span
        for child in children(node):
            self.expr(child, stmt, span)
        if isinstance(node, Expr):
            self.checked[id(node)] = node

    def fail(self, var: Var, span: Span | None) -> None:
        name = var.hint or var.name
        if var in self.defined:
            raise TileNameError(
                f"`{name}` is used outside the block that defines it", span=span,
                hint="it exists only inside that loop, branch or launch; keep it in a T.alloc_var or a buffer",
            )  # fmt: skip
        hint = "a T.dynamic dim must appear in the shape of some tensor parameter"
        raise TileNameError(f"the dim `{name}` belongs to no tensor of this kernel", span=span, hint=hint)
