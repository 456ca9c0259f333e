"""The words a kernel author may write, imported as `T`.

    import tileworkbench.language as T

Every word is documented where it is declared: structure (functions, launches, loops, buffers), tile (copy, gemm, reduce, ...),
math, convert, atomic, thread, effects, hints. An unknown word raises TileNameError and suggests the nearest ones.
"""
from __future__ import annotations

import difflib
from typing import Any

from ..base.dtypes import ALIASES, NAMES, DType
from ..base.errors import TileNameError, UnsupportedError
from . import atomic, convert, effects, gpu, hints, lanes, math, structure, thread, tile
from ._dispatch import WORDS
from .hints import Fragment, Layout
from .lanes import FOREIGN, LANE_PACKS
from .structure import Buffer, FragmentBuffer, LocalBuffer, Ref, SharedBuffer, StridedTensor, Tensor
from .tile import GemmWarpPolicy
from .types import TensorType

dtype = DType
MODULES = (atomic, convert, effects, gpu, hints, lanes, math, structure, thread, tile)

globals().update({name: DType(name) for name in (*NAMES, *ALIASES)})
globals().update(LANE_PACKS)
globals().update(WORDS)

_TYPES = ("Buffer", "Fragment", "FragmentBuffer", "GemmWarpPolicy", "Layout", "LocalBuffer", "Ref", "SharedBuffer", "StridedTensor", "Tensor", "dtype")
__all__ = [*sorted({*WORDS, *NAMES, *ALIASES, *LANE_PACKS, *_TYPES} - {n for n in WORDS if n.startswith("_")})]  # noqa: PLE0605  # the words are a table


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    if name in FOREIGN:
        raise UnsupportedError(f"no target here can hold {name}", hint="use float8_e4m3fn, float8_e5m2, int8 or int4")
    raise TileNameError(f"`T.{name}` is not a word of the language", hint=suggestion(name))


def suggestion(name: str) -> str:
    """"did you mean T.copy?" for an unknown word, or how to find the right one."""
    close = difflib.get_close_matches(name, __all__, n=3, cutoff=0.6)
    close += [word for word in __all__ if word.lower() == name.lower() and word not in close]
    if not close:
        return "dir(T) lists the words"
    return "did you mean " + ", ".join(f"T.{word}" for word in close[:-1]) + (" or " if len(close) > 1 else "") + f"T.{close[-1]}?"


def __dir__() -> list[str]:
    return __all__
