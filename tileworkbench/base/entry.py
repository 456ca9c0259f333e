"""Short tracebacks: what an author calls hides what happened inside.

Every public entry point passes its errors through `shorten`, so that a traceback shows the author's frames only: the call, and the kernel that
was being traced. A fault of ours, an `InternalError` or an exception that our own code let slip,
keeps all its frames: they are what a bug report needs.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import TracebackType
from typing import ParamSpec, TypeVar

from .errors import InternalError, TileError
from .frames import is_users

P = ParamSpec("P")
R = TypeVar("R")


def entry(function: Callable[P, R]) -> Callable[P, R]:
    """Make `function` a public entry point: the errors that leave it have short tracebacks."""

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except (Exception, KeyboardInterrupt) as error:
            shorten(error)
            raise

    return call


def shorten(error: BaseException) -> None:
    """Take the frames of this package out of the traceback of `error`, unless it is a fault of ours. A bare `raise` behind it adds none."""
    authors: list[TracebackType] = []
    trace, last = error.__traceback__, None
    while trace is not None:
        if is_users(trace.tb_frame):
            authors.append(trace)
        trace, last = trace.tb_next, trace
    is_told = isinstance(error, (TileError, KeyboardInterrupt, MemoryError))
    if isinstance(error, InternalError) or not (is_told or (authors and last is authors[-1])):
        return
    short: TracebackType | None = None
    for frame in reversed(authors):
        short = TracebackType(short, frame.tb_frame, frame.tb_lasti, frame.tb_lineno)
    error.__traceback__ = short
