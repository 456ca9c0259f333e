"""Plain helper functions called from a kernel.

    def swap_max(a, b):              # no decorator
        m = a[0]
        if b[0] > m: ...

A helper that is handed kernel values may branch on them and assign them, so it is rewritten like the kernel when it is called. Loops
over Python values, `range` included, keep running in Python there; in a `T.macro`, `range` is a loop of the kernel. A helper whose
source is missing, or that holds a statement no kernel may hold, simply runs as it is.
"""

from __future__ import annotations

from types import BuiltinMethodType, FunctionType, MethodType
from typing import Any

from ..base.errors import TileSyntaxError
from .compiled import kernel_function
from .names import settle
from .positions import is_plain_author_code
from .values import Tile, Value, VarCell


def call(function: Any, *args: Any, **kwargs: Any) -> Any:
    """`function(*args, **kwargs)`, rewritten first if it is a helper of the author's and gets a kernel value."""
    if type(function) is FunctionType:
        if is_plain_author_code(function.__code__) and _any_kernel(args, kwargs):
            return _rewritten(function)(*args, **kwargs)
    elif type(function) is MethodType and type(function.__func__) is FunctionType:
        if is_plain_author_code(function.__func__.__code__) and _any_kernel(args, kwargs):
            return _rewritten(function.__func__)(function.__self__, *args, **kwargs)
    elif type(function) is BuiltinMethodType and isinstance(function.__self__, list | dict | set):  # kept.append(A[i]) keeps the value of now
        args = tuple(settle(a) if isinstance(a, Value) and not isinstance(a, VarCell) else a for a in args)
    return function(*args, **kwargs)


def _rewritten(function: FunctionType) -> FunctionType:
    if function.__code__.co_name == "<lambda>" or hasattr(function, "__wrapped__"):
        return function
    try:
        return kernel_function(function, is_helper=True)
    except TileSyntaxError:
        return function


def _any_kernel(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    return any(_holds_kernel(a) for a in args) or any(_holds_kernel(a) for a in kwargs.values())


def _holds_kernel(value: Any) -> bool:
    if isinstance(value, Value | Tile):
        return True
    if isinstance(value, dict):
        value = value.values()
    return isinstance(value, tuple | list | type({}.values())) and any(isinstance(v, Value | Tile) for v in value)
