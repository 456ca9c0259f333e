"""Put a chosen schedule into the author's text: a new cell that calls the function with it, or the old cell with its numbers replaced."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any

from ..frontend.eager import signature_of
from ..tune.problem import Problem
from ..tune.schedule import Schedule


def with_schedule(source: str, function: str, schedule: Mapping[str, Any]) -> str:
    """`source` with the values of `schedule` in place of `function`'s defaults and of constants in its calls; "" if there is nothing to replace.

    >>> with_schedule("def f(A, bm=64, bn=64):\\n    ...\\nf(X, bn=32)", "f", {"bm": 128, "bn": 16})
    'def f(A, bm=128, bn=16):\\n    ...\\nf(X, bn=16)'
    """
    head = source[: source.find("\n") + 1] if source.startswith("%%") else ""
    source = source[len(head) :]
    try:
        tree = ast.parse(source)
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
    if not places:
        return ""
    starts = [0]
    for line in source.encode().splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    text = source.encode()
    for node, value in sorted(places, key=lambda p: (p[0].lineno, p[0].col_offset), reverse=True):
        begin = starts[node.lineno - 1] + node.col_offset
        end = starts[(node.end_lineno or node.lineno) - 1] + (node.end_col_offset or node.col_offset)
        text = text[:begin] + repr(value).encode() + text[end:]
    return head + text.decode()


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
