"""`Print`: one line per block, or per active thread where threads are visible."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from ..base.dtypes import DType
from ..ir.stmt import Print
from .access import spread
from .expressions import Run, Scope, evaluate, storage_of
from .frame import Frame


def printer(s: Print, scope: Scope) -> Run:
    """Print the message and the values, or every element of a buffer, to `sys.stdout`."""
    values = [(evaluate(v, scope), v.dtype) for v in s.values]
    find = None if s.buffer is None else storage_of(s.buffer, scope)

    def run(f: Frame) -> None:
        found = [(v(f), dtype) for v, dtype in values]
        whole = None if find is None else find(f)
        if whole is not None and not whole.lanes:
            elements = np.asarray(whole.read(...))
            for index in np.ndindex(elements.shape):
                sys.stdout.write(_line(s.message, [*[text(v, d) for v, d in found], f"{list(index)} = {text(elements[index], whole.dtype)}"]))
            return
        active = spread(f.mask, f.space)
        for lane in np.ndindex(f.space):
            if active[lane]:
                shown = [text(spread(v, f.space)[lane], dtype) for v, dtype in found]
                if whole is not None:
                    elements = np.broadcast_to(whole.read(...), f.space + whole.shape)[lane]
                    shown += [f"{list(index)} = {text(elements[index], whole.dtype)}" for index in np.ndindex(elements.shape)]
                sys.stdout.write(_line(s.message, shown))

    return run


def _line(message: str, shown: list[str]) -> str:
    return " ".join([message] * bool(message) + shown) + "\n"


def text(value: Any, dtype: DType) -> str:
    """A value as C's `%d`, or `%f` for floats."""
    if dtype.is_float:
        return f"{float(value):f}"
    return str(int(value))
