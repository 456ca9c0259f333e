"""`T.macro`: a helper that is inlined where it is called, and `T.meta_class`: classes whose methods are macros.

A macro's body is rewritten like a kernel's. Scalar arguments are computed at the call; `T.Ref` parameters stand for the caller's
element, variable or slice. Being called is all that happens: closures, recursion over build-time values and returned values work
as in Python.
"""

from __future__ import annotations

import functools
import inspect
from types import FunctionType
from typing import Any

from ..base.errors import TileTypeError, TileValueError
from ..language import structure
from ..language._dispatch import impl
from ..language.types import RefWord
from .builder import current
from .compiled import kernel_function
from .names import Reference
from .values import BufferValue, ElementValue, RegionValue


class Macro:
    """What `@T.macro` returns. Calling it in a kernel runs its body there."""

    def __init__(self, function: FunctionType) -> None:
        functools.update_wrapper(self, function)
        self.function = function
        self._compiled: FunctionType | None = None
        self._references = [name for name, annotation in function.__annotations__.items() if _is_reference(annotation)]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        builder = current(f"the macro `{self.__name__}`")  # type: ignore[attr-defined]  # update_wrapper sets it
        if self._compiled is None:
            self._compiled = kernel_function(self.function)
        if self._references:
            args, kwargs = self._by_reference(args, kwargs)
        builder.hint = ""
        return self._compiled(*args, **kwargs)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def __repr__(self) -> str:
        return f"<T.macro {self.__name__}>"  # type: ignore[attr-defined]  # update_wrapper sets it

    def _by_reference(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        bound = inspect.signature(self.function).bind(*args, **kwargs)
        for name in self._references:
            if name in bound.arguments:
                bound.arguments[name] = _reference(name, bound.arguments[name])
        return bound.args, bound.kwargs


def _is_reference(annotation: Any) -> bool:
    """True for `T.Ref`, also as the string that `from __future__ import annotations` makes of it."""
    return isinstance(annotation, RefWord) or (isinstance(annotation, str) and annotation.split(".")[-1] == "Ref")


def _reference(name: str, value: Any) -> Any:
    if isinstance(value, ElementValue):
        return Reference(value)
    if isinstance(value, BufferValue | RegionValue):
        return value
    raise TileValueError(
        f"the argument for `{name}: T.Ref` must be an element, a T.alloc_var or a slice", hint="pass buf[i], or a variable from T.alloc_var"
    )


@impl(structure.macro)
def _macro(func: Any = None) -> Any:
    if func is None:
        return _macro
    if isinstance(func, Macro):
        return func
    if not isinstance(func, FunctionType):
        raise TileTypeError(f"T.macro decorates functions, not {type(func).__name__}")
    return Macro(func)


@impl(structure.meta_class)
def _meta_class(cls: Any) -> Any:
    if not isinstance(cls, type):
        raise TileTypeError(f"T.meta_class decorates classes, not {type(cls).__name__}")
    for name, member in list(vars(cls).items()):
        if isinstance(member, FunctionType) and not member.__code__.co_filename.startswith("<string"):  # a dataclass writes its own methods
            setattr(cls, name, Macro(member))
        elif isinstance(member, property) and isinstance(member.fget, FunctionType):
            setattr(cls, name, property(Macro(member.fget)))
    return cls
