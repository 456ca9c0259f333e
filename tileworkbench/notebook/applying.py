"""Put what was chosen into the author's text: a schedule as a new cell that calls the function with it, or as the old cell with its numbers replaced;
a layout that a finder found as a line of the kernel (`views.annotating`)."""

from __future__ import annotations

import ast
import linecache
from collections.abc import Mapping
from typing import Any

from ..base.errors import TileValueError
from ..base.span import Span
from ..base.text_edits import edited, without_magic
from ..frontend.eager import signature_of
from ..tune.problem import Problem
from ..tune.schedule import Schedule
from ..views.layout_finder import FinderView


def with_schedule(source: str, function: str, schedule: Mapping[str, Any]) -> str:
    """`source` with the values of `schedule` in place of `function`'s defaults and of constants in its calls; "" if there is nothing to replace.

    >>> with_schedule("def f(A, bm=64, bn=64):\\n    ...\\nf(X, bn=32)", "f", {"bm": 128, "bn": 16})
    'def f(A, bm=128, bn=16):\\n    ...\\nf(X, bn=16)'
    """
    head, body = without_magic(source)
    try:
        tree = ast.parse(body)
    except SyntaxError:  # the shell's own syntax
        return ""
    places: list[tuple[ast.expr, Any]] = []
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name, args=args) if name == function:
                places += _defaults(args, schedule)
            case ast.Call(func=ast.Name(id=name), keywords=keywords) if name == function:
                named = [(k.value, k.arg) for k in keywords if k.arg is not None and isinstance(k.value, ast.Constant)]
                places += [(value, schedule[keyword]) for value, keyword in named if keyword in schedule]
    return head + edited(body, [(node, repr(value)) for node, value in places]) if places else ""


def _defaults(args: ast.arguments, schedule: Mapping[str, Any]) -> list[tuple[ast.expr, Any]]:
    plain = [*args.posonlyargs, *args.args]
    pairs: list[tuple[ast.arg, ast.expr | None]] = [
        *zip(plain[len(plain) - len(args.defaults) :], args.defaults, strict=True),
        *zip(args.kwonlyargs, args.kw_defaults, strict=True),
    ]
    return [(default, schedule[arg.arg]) for arg, default in pairs if default is not None and arg.arg in schedule]


def call_of(problem: Problem, schedule: Schedule, space: Mapping[str, Any]) -> str:
    """Text that makes and calls the kernel with this schedule; arrays by the names that `space` (a namespace) has for them."""
    names = signature_of(problem.function.function).runtime
    fixed = {name: value for name, value in problem.fixed.items() if name not in names}
    chosen = ", ".join(f"{name}={value!r}" for name, value in {**fixed, **schedule}.items())
    arrays = [_name_of(array, space) or (names[i] if i < len(names) else f"array_{i}") for i, array in enumerate(problem.given or ())]
    function = _name_of(problem.function, space) or problem.name
    if names:
        return f"result = {function}({', '.join([*(arrays or names), chosen])})"
    return f"kernel = {function}({chosen})\nresult = kernel({', '.join(arrays)})"


def _name_of(value: Any, space: Mapping[str, Any]) -> str:
    """The name under which a namespace holds this very value; "" if none does."""
    return next((name for name, held in space.items() if held is value and not name.startswith("_")), "")


# ---------------------------------------------------------------------------------------------- layouts
def layout_applied(view: FinderView, layout: str, shell: Any) -> dict[str, str]:
    """What the browser is told when the reader applies a layout to `buffer`: `text`, the cell with it, and `before`, the cell as it is.

    Where the kernel's text is not at hand, or the place cannot be found, `text` is the line to paste and `say` the reason.
    """
    before, buffer = cell_text(view.found.span, shell), view.found.buffer
    try:
        return {"text": view.apply(before, layout), "before": before, "say": "", "buffer": buffer}
    except TileValueError as error:
        return {"text": view.chosen(layout).annotation(buffer), "before": "", "say": error.message, "buffer": buffer}


def cell_text(span: Span | None, shell: Any) -> str:
    """The text of the cell, as it was typed, or of the file that `span` points into; "" if it is gone."""
    if span is None:
        return ""
    number = getattr(getattr(shell, "compile", None), "_filename_map", {}).get(span.file)
    typed = shell.history_manager.input_hist_raw if shell is not None else []
    return str(typed[number]) if number is not None and number < len(typed) else "".join(linecache.getlines(span.file))
