"""Run the body of a `%%tile` cell: where its lines stand, what it binds, and what is left when it fails.

The body is compiled under the cell's own name with the line numbers that the author sees (the magic is line 1), so that a kernel's
source can be read back and an error points at the cell. A body that fails leaves every name of the namespace as it was.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any

from ..base.errors import TileError, TileSyntaxError
from ..base.frames import cell_label, is_users
from ..base.span import Span

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

_MISSING = object()


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell as the shell knows it: the file name of its code, its label, and its first line."""

    file: str
    label: str
    magic_line: str

    def span(self, start: int, stop: int) -> Span:
        """Characters `[start, stop)` of the magic line."""
        return Span(self.file, 1, start, 1, stop, label=self.label, text=self.magic_line)

    def span_of_option(self, value: str) -> Span:
        """Where `value` was written on the magic line; the whole line if it cannot be found."""
        start = self.magic_line.find(value)
        return self.span(start, start + len(value)) if value and start >= 0 else self.span(0, len(self.magic_line))


def prepare(shell: InteractiveShell, line: str, body: str) -> tuple[Cell, ast.Module]:
    """The cell and its parsed body. Raises TileSyntaxError, with the line and carets, for Python that cannot be parsed."""
    blank = next((i for i, text in enumerate(body.splitlines()) if text.strip()), 0)  # the shell drops leading empty lines
    source = "\n" * (1 + blank) + shell.transform_cell(body)
    name = shell.compile.cache(source, _running_cell(shell), raw_code=f"%%tile {line}\n{body}")
    cell = Cell(name, cell_label(name) or name, f"%%tile {line}".rstrip())
    try:
        tree = shell.compile.ast_parse(source, filename=name)
    except SyntaxError as error:
        raise _syntax_error(error, cell) from None
    return cell, shell.transform_ast(tree)


def _running_cell(shell: InteractiveShell) -> int:
    """The number of the cell that runs now. The shell's own counter may be one ahead of it, so ask the frame of the cell."""
    frame = inspect.currentframe()
    while frame is not None:
        number: int | None = shell.compile._filename_map.get(frame.f_code.co_filename)
        if number is not None:
            return number
        frame = frame.f_back
    return shell.execution_count


def execute(shell: InteractiveShell, cell: Cell, tree: ast.Module) -> object:
    """Run the statements in the user's namespace; the value of a last expression, or None."""
    space = shell.user_ns
    with _all_or_nothing(space), _errors_of_the_author(shell):
        value = None
        last = tree.body[-1] if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        try:
            code = shell.compile(ast.Module(tree.body[:-1] if last else tree.body, []), cell.file, "exec")  # type: ignore[arg-type]  # trees are accepted
            result = shell.compile(ast.Expression(last.value), cell.file, "eval") if last else None  # type: ignore[arg-type]
        except SyntaxError as error:
            raise _syntax_error(error, cell) from None
        exec(code, space)
        if result is not None:
            value = eval(result, space)
        return value


def bound_names(tree: ast.Module) -> list[str]:
    """Names that the cell's top level defines with `def` or by assignment, in order, each once."""
    names: list[str] = []
    for node in tree.body:
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                names.append(name)
            case ast.Assign(targets=targets):
                names += [n.id for target in targets for n in ast.walk(target) if isinstance(n, ast.Name)]
            case ast.AnnAssign(target=ast.Name(id=name)):
                names.append(name)
    return list(dict.fromkeys(names))


@contextmanager
def _all_or_nothing(space: dict[str, Any]) -> Iterator[None]:
    """Put the bindings of `space` back if the body fails. The shell's own names (In, Out, _, _i7, ...) are left alone."""
    before = dict(space)
    try:
        yield
    except BaseException:
        for name in [*space]:
            if not name.startswith("_") and space[name] is not before.get(name, _MISSING):
                if name in before:
                    space[name] = before[name]
                else:
                    del space[name]
        space.update({name: value for name, value in before.items() if name not in space})
        raise


@contextmanager
def _errors_of_the_author(shell: InteractiveShell) -> Iterator[None]:
    """Let an ordinary exception be shown by the shell with the author's frames only. A TileError shows itself."""
    try:
        yield
    except TileError:
        raise
    except Exception as error:
        trace = _only_users(error.__traceback__)
        show = partial(shell.InteractiveTB.structured_traceback, type(error), error, trace, tb_offset=0)
        if trace is not None and hasattr(error, "__dict__"):
            error._render_traceback_ = show  # type: ignore[attr-defined]  # IPython's protocol
        raise


def _only_users(trace: TracebackType | None) -> TracebackType | None:
    """`trace` without the frames that are not the author's."""
    if trace is None:
        return None
    rest = _only_users(trace.tb_next)
    return TracebackType(rest, trace.tb_frame, trace.tb_lasti, trace.tb_lineno) if is_users(trace.tb_frame) else rest


def _syntax_error(error: SyntaxError, cell: Cell) -> TileSyntaxError:
    line, col = error.lineno or 1, (error.offset or 1) - 1
    end_line, end_col = error.end_lineno or line, (error.end_offset or col + 2) - 1
    return TileSyntaxError(error.msg, span=Span(cell.file, line, col, end_line, max(end_col, col + 1), label=cell.label))
