"""Every error that the author of a kernel can meet.

An error has a message, a span when it concerns the source, and a hint that says what to change.
`str(error)` is the finished text with file, line, the source line and carets. The classes also derive from the
built-in exception that TileLang raises in the same place, so `except ValueError` keeps working.
"""

from __future__ import annotations

from .frames import render
from .span import Span


class TileError(Exception):
    """Base of all errors that speak to the author of a kernel."""

    stage = "error"

    def __init__(self, message: str, *, span: Span | None = None, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.span = span
        self.hint = hint

    def at(self, span: Span | None) -> TileError:
        """This error with `span` filled in, if it had none."""
        if self.span is None:
            self.span = span
        return self

    def __str__(self) -> str:
        head = f"{self.stage}: {self.message}"
        text = self.span.render(head) if self.span is not None else head
        return f"{text}\n  hint: {self.hint}" if self.hint else text

    def _render_traceback_(self) -> list[str]:
        """What IPython prints for this error: the author's calls and the text, without a frame of ours."""
        return render(self)


class TileSyntaxError(TileError, ValueError):
    """Python that cannot be part of a kernel (an unsupported statement, source that cannot be read)."""

    stage = "syntax error"


class TileTypeError(TileError, TypeError):
    """A value of the wrong kind: a buffer as a condition, a float as an index, a wrong dtype."""

    stage = "type error"


class TileValueError(TileError, ValueError):
    """A value out of its range: a shape that does not fit, `threads=0`, a bad `dim`."""

    stage = "value error"


class TileNameError(TileError, AttributeError, RuntimeError):
    """An unknown `T.` word, or a kernel variable used where it does not exist."""

    stage = "name error"


class TileBoundsError(TileError, IndexError, ValueError):
    """An access that is provably outside an on-chip buffer."""

    stage = "out of bounds"


class TileRuntimeError(TileError, RuntimeError):
    """A rule of the language broken at build time (an endless `while`, assigning to a whole buffer)."""

    stage = "language error"


class UnsupportedError(TileError, NotImplementedError):
    """A correct program that this target cannot run; the hint says what can."""

    stage = "not supported"


class CapacityError(TileError, ValueError):
    """A tile program that needs more on-chip memory than the target has."""

    stage = "out of capacity"


class JITNoBuilderError(TileError, RuntimeError):
    """A kernel word was used outside a kernel."""

    stage = "no kernel"


class ArgumentError(TileError, ValueError, TypeError):
    """A call with an argument that does not fit the kernel's signature; names kernel and argument."""

    stage = "argument error"


class CompilerError(TileError, RuntimeError):
    """The C compiler is missing, failed or did not end in time."""

    stage = "compiler error"


class DeviceAssertError(TileError, AssertionError):
    """A `T.device_assert` (or `assert` on a kernel value) that did not hold at run time."""

    stage = "assertion failed"


class ExpectationError(TileError, AssertionError):
    """`%%tile --expect` or `--check` did not hold."""

    stage = "expectation failed"


class InternalError(Exception):
    """A fault of ours, not of the kernel's author; carries the printed IR as a note."""


class ErrorGroup(TileError, ValueError, TypeError, RuntimeError):
    """Several faults found by one check, reported together."""

    stage = "errors"

    def __init__(self, errors: list[TileError]) -> None:
        super().__init__(f"{len(errors)} errors", span=errors[0].span)
        self.errors = tuple(errors)

    def __str__(self) -> str:
        return "\n".join(str(e) for e in self.errors)


def raise_all(errors: list[TileError]) -> None:
    """Raise nothing, the one error, or all of them as a group."""
    if len(errors) == 1:
        raise errors[0]
    if errors:
        raise ErrorGroup(errors)
