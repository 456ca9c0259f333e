"""Swizzles that a kernel asks for: which bytes of a shared tile's rows change places so that columns fall into different banks.

A `Swizzle` is a request, not yet a layout: targets with banks fulfil it, a CPU does not need it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Swizzle:
    """A request for one buffer: rows of `span_bytes` are permuted in pieces of 16 bytes; 0 means plain row-major."""

    buffer: str
    span_bytes: int


def make_swizzled_layout(buffer: Any, k_major: bool = True, allow_pad: bool = True) -> Swizzle:
    """The widest swizzle that the rows of `buffer` allow."""
    del k_major, allow_pad
    return Swizzle(_name(buffer), 128)


def make_full_bank_swizzled_layout(buffer: Any) -> Swizzle:
    """Rows of 128 bytes: all 32 banks."""
    return Swizzle(_name(buffer), 128)


def make_half_bank_swizzled_layout(buffer: Any) -> Swizzle:
    """Rows of 64 bytes: half of the banks."""
    return Swizzle(_name(buffer), 64)


def make_quarter_bank_swizzled_layout(buffer: Any) -> Swizzle:
    """Rows of 32 bytes: a quarter of the banks."""
    return Swizzle(_name(buffer), 32)


def make_mma_swizzle_layout(buffer: Any, is_smooth: bool = False) -> Swizzle:
    """The swizzle that matrix instructions read without conflicts."""
    del is_smooth
    return Swizzle(_name(buffer), 128)


def make_linear_layout(buffer: Any) -> Swizzle:
    """Plain row-major."""
    return Swizzle(_name(buffer), 0)


def _name(buffer: Any) -> str:
    return str(getattr(buffer, "name", buffer))
