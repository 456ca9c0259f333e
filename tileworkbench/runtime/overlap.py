"""Refuse arguments that share a part of their memory while the kernel writes one of them.

A kernel may work in place: the same array given twice is two names for the same elements. An array that begins in the middle of another, or at
the same place and has another size, is not: iterations of T.Parallel are independent, so what it holds afterwards would depend on their order, and
on the target. (`analysis/aliasing.py` counts on it.)
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Protocol

from ..base.errors import ArgumentError
from .signature import TensorSpec


class Placed(Protocol):
    """A tensor of a call with its place in memory."""

    @property
    def spec(self) -> TensorSpec: ...
    @property
    def pointer(self) -> int: ...
    @property
    def nbytes(self) -> int: ...


def check_overlap(kernel: str, tensors: Sequence[Placed]) -> list[ArgumentError]:
    """The faults: contiguous arrays that overlap without being the same stretch of memory, at least one of them written."""
    errors = []
    for a, b in combinations(tensors, 2):
        if a.spec.strides is not None or b.spec.strides is not None or not (a.spec.is_written or b.spec.is_written):
            continue
        first, second = sorted((a, b), key=lambda t: t.pointer)
        same = first.pointer == second.pointer and first.nbytes == second.nbytes
        if not same and second.pointer < first.pointer + first.nbytes and second.nbytes:
            shared = min(first.pointer + first.nbytes, second.pointer + second.nbytes) - second.pointer
            written = b if b.spec.is_written else a
            errors.append(
                ArgumentError(
                    f"kernel {kernel}, arguments {a.spec.name} and {b.spec.name}: they share {shared} bytes of memory, and the kernel writes "
                    f"{written.spec.name}", hint="pass a copy of one of them; only the same array may be given twice",
                )
            )  # fmt: skip
    return errors
