"""`if`, `while`, `raise` and `assert` of a kernel function.

Over Python values they do what Python does while the kernel is built; over kernel values both sides of a branch, and the body of a
`while` once, are traced into statements.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from ..base.dtypes import BOOL
from ..base.errors import TileRuntimeError, TileSyntaxError
from ..ir.expr import Buffer, CallExtern, Const, Expr, Load
from ..ir.node import walk
from ..ir.stmt import Assert, Body, Break, Continue, If, Return, Stmt, While
from . import arith
from .builder import Scope, current
from .loops import jump, leave_python_loop
from .operators import condition_of, is_kernel
from .positions import here

ENDLESS = 100_000  # iterations of a Python `while` after which it is taken to be endless


class Handle(Protocol):
    """A loop or branch while it is traced."""

    is_kernel: bool


class PythonBranch:
    """An `if` over a Python value: one side runs."""

    __slots__ = ("taken",)
    is_kernel = False

    def __init__(self, taken: bool) -> None:
        self.taken = taken

    def then(self) -> bool:
        return self.taken

    def otherwise(self) -> bool:
        return not self.taken

    def close(self) -> None: ...

    def end(self) -> None: ...


class KernelBranch:
    """An `if` over a kernel value: both sides are traced."""

    __slots__ = ("builder", "condition", "span", "scope", "bodies")
    is_kernel = True

    def __init__(self, condition: Expr) -> None:
        self.builder = current("if")
        self.condition = condition
        self.span = here()
        self.scope: Scope | None = None
        self.bodies: list[tuple[Stmt, ...]] = []

    def then(self) -> bool:
        self.scope = self.builder.open("if", self.span)
        return True

    otherwise = then

    def close(self) -> None:
        assert self.scope is not None
        self.bodies.append(self.builder.close(self.scope))

    def end(self) -> None:
        self.builder.emit(If(self.condition, *self.bodies, span=self.span))


_TAKEN, _NOT_TAKEN = PythonBranch(True), PythonBranch(False)


def branch(condition: Any) -> PythonBranch | KernelBranch:
    """The handle of an `if` statement."""
    if is_kernel(condition):
        test = condition_of(condition)
        if not isinstance(test, Const):
            return KernelBranch(test)
        condition = test.value
    return _TAKEN if condition else _NOT_TAKEN


class WhileLoop:
    """A `while`, of the kernel or of Python; its first condition decides."""

    def __init__(self, is_endless: bool, has_break: bool) -> None:
        self.builder = current("while")
        self.is_kernel = is_endless and self.builder.launch is not None
        self.has_break = has_break
        self.depth = len(self.builder.scopes)
        self.scope: Scope | None = None
        self.condition: Expr | None = None
        self.count = 0

    def test(self, condition: Callable[[], Any]) -> bool:
        """True to trace the body: once for a kernel loop, as long as the condition holds for a Python loop."""
        if self.scope is not None:
            self._end()
            return False
        probe = self.builder.open("while")
        try:
            value = condition()
        finally:
            self.builder.close(probe)
        if self.is_kernel or is_kernel(value):
            self.is_kernel = True
            self._begin(value, probe.body)
            return True
        for stmt in probe.body:
            self.builder.emit(stmt)
        self.count += bool(value)
        if self.count > ENDLESS:
            self._endless()
        return bool(value)

    def _begin(self, value: Any, prelude: list[Stmt]) -> None:
        test = condition_of(value)
        if isinstance(test, Const) and test.value and not self.has_break:
            self._endless()
        self.scope = self.builder.open("while", here())
        self.condition = test
        if prelude:  # the condition has effects of its own: they run before each iteration
            self.scope.body += [*prelude, If(arith.unary("not", test), (Break(),), span=here())]
            self.condition = Const(True, BOOL)

    def _end(self) -> None:
        assert self.scope is not None and self.condition is not None
        body = self.builder.close(self.scope)
        if _never_changes(self.condition, body):
            raise TileRuntimeError(
                "Infinite while loop detected: nothing in its body changes the condition", span=self.scope.span,
                hint="change a T.alloc_var or a buffer element that the condition reads, or leave with `break`",
            )  # fmt: skip
        self.builder.emit(While(self.condition, body, span=self.scope.span))

    def _endless(self) -> None:
        raise TileRuntimeError(
            "Infinite while loop detected: its condition is always true", span=here(),
            hint="test a T.alloc_var or a buffer element that the body changes, or leave with `break`",
        )  # fmt: skip

    def leave(self) -> bool:
        if not self.is_kernel:
            return leave_python_loop("break", self.depth)
        jump("break", "while").emit(Break())
        return False

    def skip(self) -> bool:
        if not self.is_kernel:
            return leave_python_loop("continue", self.depth)
        jump("continue", "while").emit(Continue())
        return False


def _never_changes(condition: Expr, body: Body) -> bool:
    """True if a loop that is entered cannot end: its condition reads nothing that the body, or another thread, may change."""
    nodes = [n for s in body for n in walk(s)]
    if isinstance(condition, Const) or any(isinstance(n, Break | Return) for n in nodes):
        return False
    read = {n.buffer.root for n in walk(condition) if isinstance(n, Load)}
    if any(isinstance(n, CallExtern) for n in walk(condition)) or any(b.scope not in ("var", "local") for b in read):
        return False
    touched = {b.root for n in nodes if not isinstance(n, Load) and isinstance(b := getattr(n, "buffer", None), Buffer)}
    return not read & touched


while_loop = WhileLoop


def loop_else(handle: Handle) -> None:
    """Refuse the `else` of a kernel loop: whether it was left by `break` is known only when the kernel runs."""
    if handle.is_kernel:
        raise TileSyntaxError("`else` of a loop of the kernel", span=here(), hint="record the `break` in a T.alloc_var and test it after the loop")


def raising(*handles: Handle) -> None:
    """Refuse a `raise` that depends on a kernel value."""
    if any(h.is_kernel for h in handles):
        raise TileSyntaxError(
            "`raise` inside a loop or branch of the kernel would fail while it is built", span=here(), hint="use T.device_assert(cond, message)"
        )


def check(condition: Any, message: Callable[[], Any], text: str) -> None:
    """An `assert` statement: of the kernel, or now."""
    if is_kernel(condition):
        test = condition_of(condition)
        if not isinstance(test, Const):
            current("assert").emit(Assert(test, str(message()) or text))
            return
        condition = test.value
    if not condition:
        raise AssertionError(message() or text)
