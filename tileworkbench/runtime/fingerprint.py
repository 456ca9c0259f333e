"""A kernel as a hash: equal for kernels that compile to the same code, whatever file, line or cell they stand in.

Every field of every node goes in except spans, so a new node or field cannot be forgotten.
"""

from __future__ import annotations

import hashlib
from dataclasses import fields
from typing import Any

from ..ir.expr import Buffer
from ..ir.node import Node
from ..ir.stmt import Kernel


def fingerprint(kernel: Kernel) -> str:
    """64 hexadecimal digits that stand for all of `kernel` but its spans."""
    parts: list[str] = []
    _collect(kernel, parts, set())
    return hashlib.sha256("\x1f".join(parts).encode()).hexdigest()


_fields: dict[type[Node], tuple[str, ...]] = {}


def _names(kind: type[Node]) -> tuple[str, ...]:
    found = _fields.get(kind)
    if found is None:
        found = _fields[kind] = tuple(f.name for f in fields(kind) if f.name != "span")
    return found


def _collect(value: Any, parts: list[str], seen: set[int]) -> None:
    if isinstance(value, Buffer):
        if id(value) in seen:  # named again: its definition stands further up
            parts.append(value.name)
            return
        seen.add(id(value))
    if isinstance(value, Node):
        kind = type(value)
        parts.append(kind.__name__)
        for name in _names(kind):
            _collect(getattr(value, name), parts, seen)
        parts.append(")")
    elif isinstance(value, tuple):
        parts.append("(")
        for item in value:
            _collect(item, parts, seen)
        parts.append(")")
    elif isinstance(value, (bool, float)):
        parts.append(repr(value))
    else:
        parts.append(f"{type(value).__name__}:{value}")
