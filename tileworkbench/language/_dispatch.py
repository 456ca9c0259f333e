"""Words and their meanings: how `T.copy(...)` finds the frontend.

A *word* is a stub with a signature and a docstring; it holds no behaviour. The frontend binds its *meaning* with `@impl`:

    @word
    def clear(buf, annotations=None): "Fill `buf` with zero."        # language/
    @impl(clear)
    def _clear(buf, annotations=None): ...                           # frontend/words/

So this package can be imported, documented and completed without a compiler, and the two sides cannot drift apart:
`impl` refuses a meaning whose parameters differ from the stub's.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import FunctionType
from typing import Any, TypeVar

from ..base.entry import shorten
from ..base.errors import JITNoBuilderError, TileTypeError

F = TypeVar("F", bound=Callable[..., Any])

WORDS: dict[str, Callable[..., Any]] = {}
"""Every word by the name of its stub."""


def word(stub: F) -> F:
    """Make `stub` a word: calling it runs the meaning that the frontend bound to it.

    Raises (when called): TileTypeError if the arguments do not fit the stub's signature; JITNoBuilderError if no frontend is loaded.
    """
    meaning: Callable[..., Any] | None = None

    def call(*args: Any, **kwargs: Any) -> Any:
        if meaning is None:
            raise JITNoBuilderError(f"T.{stub.__name__} has no meaning here", hint="import tileworkbench, which loads the frontend")
        try:
            return meaning(*args, **kwargs)
        except Exception as error:
            trace = error.__traceback__
            if type(error) is TypeError and trace is not None and trace.tb_next is None:  # from the call itself, not from inside the meaning
                raise _wrong_call(stub, args, kwargs, error) from None
            shorten(error)
            raise

    def bind(function: Callable[..., Any]) -> None:
        nonlocal meaning
        meaning = function

    call.__name__, call.__qualname__, call.__doc__ = stub.__name__, stub.__name__, stub.__doc__
    call.__module__ = stub.__module__
    call.__wrapped__ = stub  # type: ignore[attr-defined]  # inspect.signature and completers follow it
    call.bind = bind  # type: ignore[attr-defined]
    WORDS[stub.__name__] = call
    return call  # type: ignore[return-value]


def impl(stub: Callable[..., Any]) -> Callable[[F], F]:
    """Bind the decorated function as the meaning of the word `stub`.

    Raises: TypeError if the two differ in parameter names, order, kinds or defaults.
    """

    def decorate(meaning: F) -> F:
        declared = stub.__wrapped__  # type: ignore[attr-defined]
        if _shape(declared) != _shape(meaning):
            raise TypeError(f"meaning of T.{stub.__name__}: {inspect.signature(meaning)} does not agree with its stub {inspect.signature(declared)}")
        stub.bind(meaning)  # type: ignore[attr-defined]
        return meaning

    return decorate


def alias(name: str, stub: F) -> F:
    """A second name for a word; it is the same object."""
    WORDS[name] = stub
    return stub


def is_word(value: object) -> bool:
    """True for an object that `word` made."""
    return isinstance(value, FunctionType) and hasattr(value, "bind") and hasattr(value, "__wrapped__")


def _shape(function: Callable[..., Any]) -> tuple[Any, ...]:
    """What must agree: parameter names in order, their kinds and their defaults (read from the code object, which is fast)."""
    assert isinstance(function, FunctionType)
    code = function.__code__
    count = code.co_argcount + code.co_kwonlyargcount + bool(code.co_flags & 4) + bool(code.co_flags & 8)
    kinds = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags & 12)
    return code.co_varnames[:count], kinds, repr(function.__defaults__), repr(function.__kwdefaults__)


def _bare_signature(stub: Callable[..., Any]) -> inspect.Signature:
    """The signature without annotations, as an author would write the call."""
    found = inspect.signature(stub)
    empty = inspect.Parameter.empty
    return found.replace(parameters=[p.replace(annotation=empty) for p in found.parameters.values()], return_annotation=empty)


def _wrong_call(stub: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], error: TypeError) -> TypeError:
    """The author's mistake in a call, said with the word's name; `error` itself if the call fits after all."""
    try:
        inspect.signature(stub).bind(*args, **kwargs)
    except TypeError as why:
        return TileTypeError(f"T.{stub.__name__}: {why}", hint=f"the signature is T.{stub.__name__}{_bare_signature(stub)}")
    return error
