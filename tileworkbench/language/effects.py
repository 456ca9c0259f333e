"""Words that print, check, call C, or leave a loop or a kernel."""

from __future__ import annotations

from typing import Any

from ._dispatch import word


@word
def print(obj: Any, msg: str = "", warp_group_id: int = 0, warp_id: int = 0) -> None:
    """Print a value or a whole buffer when the kernel runs: once per block, or per thread where threads are used."""


@word
def device_assert(cond: Any, msg: str = "", no_stack_info: bool = False) -> None:
    """Stop the kernel with `msg` if `cond` does not hold; the call raises DeviceAssertError."""


@word
def assume(cond: Any) -> None:
    """A promise to the compiler. It makes no code and is not checked."""


@word
def evaluate(value: Any) -> None:
    """Evaluate an expression for its effect."""


@word
def call_extern(*args: Any, dtype: Any = None) -> Any:
    """Call a C function brought by `T.import_source`: `T.call_extern("float32", "f", x)`, or `T.call_extern("f", x, dtype="float32")`.

    The result has that dtype ("handle" or "void": none). The call happens where it is written, once.
    Arguments are numbers, values, and pointers: a buffer, `T.address_of(buf[i])` or `T.access_ptr(buf, "r")`.
    """


@word
def import_source(source: str | None) -> None:
    """C source to compile in front of the kernel; None is none."""


@word
def address_of(element: Any) -> Any:
    """A pointer to an element or to the first element of a buffer, as an argument of `T.call_extern`."""


@word
def access_ptr(buf: Any, access: str = "r", *, extent: Any = None, offset: Any = 0) -> Any:
    """As `T.address_of`; `access` ("r", "w", "rw") and `extent` are notes for the reader."""


@word
def loop_break() -> None:
    """Leave the innermost sequential loop; `break` means the same."""


@word
def thread_return() -> None:
    """This thread (without thread indices: this block) does nothing more in this launch."""
