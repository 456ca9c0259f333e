"""From a function of the author's to one that builds a kernel: read, rewrite, compile, attach the closure.

The result shares the original's globals, closure cells and defaults, so whatever the author's code can see, it sees too.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Mapping
from dataclasses import dataclass
from types import CellType, CodeType, FunctionType
from typing import Any

from .. import language
from ..base.errors import TileSyntaxError
from .positions import register
from .rewriter import HIDDEN, rewrite_function
from .source import FUTURE, Source, source_of
from .syntax import function_def

_HIDDEN = CellType()  # filled with the module `control`, which imports this one


def set_hidden(namespace: Any) -> None:
    """Say what the hidden name of rewritten functions stands for."""
    _HIDDEN.cell_contents = namespace


@dataclass(frozen=True, slots=True)
class Compiled:
    """The rewritten code of one definition."""

    source: Source
    code: CodeType
    captured: tuple[str, ...]  # names that only annotations read, so that Python made no closure cell for them


_cache: dict[tuple[int, tuple[str, ...], bool], Compiled] = {}


def kernel_function(function: FunctionType, scope: Mapping[str, Any] | None = None, *, is_helper: bool = False) -> FunctionType:
    """`function` with its control flow and assignments rewritten; calling it needs an active builder.

    `scope` holds the local variables around the definition, for names that only its annotations use.
    In a helper, loops over Python's `range` stay loops of Python.
    Raises: TileSyntaxError if the source cannot be read or holds a statement that no kernel may hold.
    """
    made = compiled(function, is_helper)
    cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
    cells[HIDDEN] = _HIDDEN
    for name in made.captured:
        if scope is not None and name in scope:
            cells.setdefault(name, CellType(scope[name]))
    missing = [name for name in made.code.co_freevars if name not in cells]
    if missing:
        raise TileSyntaxError(
            f"`{missing[0]}` is not visible in `{function.__name__}`", span=made.source.span(made.source.tree),
            hint="use the name in the body as well, or drop `from __future__ import annotations`",
        )  # fmt: skip
    closure = tuple(cells[name] for name in made.code.co_freevars)
    new = FunctionType(made.code, function.__globals__, function.__name__, function.__defaults__, closure)
    new.__kwdefaults__ = function.__kwdefaults__
    new.__qualname__, new.__module__ = function.__qualname__, function.__module__
    return new


def compiled(function: FunctionType, is_helper: bool = False) -> Compiled:
    """The rewritten code of `function`, made once for each text of its definition."""
    source = source_of(function)
    key = (id(source), function.__code__.co_freevars, is_helper)  # the entry holds its source, so the id stays its own
    made = _cache.get(key)
    if made is None or made.source is not source:
        made = _cache[key] = _compile(source, function, is_helper)
    return made


def _compile(source: Source, function: FunctionType, is_helper: bool) -> Compiled:
    code = function.__code__
    tree = source.tree
    own = {*code.co_varnames, *code.co_cellvars, *code.co_freevars}
    captured = tuple(n for n in source.noted if n not in own and n not in function.__globals__ and not hasattr(builtins, n))
    new = rewrite_function(source, is_helper, lambda name: function.__globals__.get(name) is language)
    new.args.defaults, new.args.kw_defaults = [], [None] * len(new.args.kwonlyargs)
    new.name = f"{HIDDEN}_function"  # its own name, inside it, is that of the decorated object
    outer_args = [ast.copy_location(ast.arg(name), tree) for name in dict.fromkeys((HIDDEN, *code.co_freevars, *captured))]
    outer = function_def(f"{HIDDEN}_outer", ast.arguments([], outer_args, None, [], [], None, []), [new], tree)
    whole = compile(ast.Module([outer], []), source.file, "exec", flags=code.co_flags & FUTURE, dont_inherit=True)
    middle = next(c for c in whole.co_consts if isinstance(c, CodeType))
    inner = next(c for c in middle.co_consts if isinstance(c, CodeType)).replace(co_name=tree.name, co_qualname=code.co_qualname)
    register(inner, tree.name)
    return Compiled(source, inner, captured)
