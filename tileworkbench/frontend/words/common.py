"""Helpers that several groups of words share."""

from __future__ import annotations

from typing import Any

from ...ir.expr import const
from ...ir.node import replace
from ..regions import Side
from ..values import as_side


def one_element(operand: Any, word: str) -> Side:
    """`operand` as the address of one element; a buffer or slice means its first element."""
    side = as_side(operand, word)
    if side.is_corner:
        return side
    return Side(replace(side.region, extents=tuple(const(1) for _ in side.region.extents)), is_corner=True)
