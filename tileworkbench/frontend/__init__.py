"""A Python function becomes tile IR. Importing this package gives the words of `language` their meanings."""

from __future__ import annotations

from . import control, macro, prim_func, structure, words

__all__ = ["control", "macro", "prim_func", "structure", "words"]
