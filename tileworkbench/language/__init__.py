"""The words a kernel author may write, imported as `T`.

    import tileworkbench.language as T

Every word is documented where it is declared: structure (functions, launches, loops, buffers), tile (copy, gemm, reduce, ...),
math, convert, atomic, thread, effects, hints, hopper, cluster. An unknown word raises TileNameError and suggests the nearest ones.
"""

from __future__ import annotations

import builtins
import difflib
from typing import Any

from ..base.dtypes import ALIASES, NAMES, DType
from ..base.errors import TileNameError, UnsupportedError
from . import atomic, cluster, convert, effects, gpu, hints, hopper, lanes, math, structure, thread, tile
from ._dispatch import WORDS
from .hints import Fragment, Layout
from .lanes import FOREIGN, LANE_PACKS
from .structure import Buffer, FragmentBuffer, LocalBuffer, Ref, SharedBuffer, StridedTensor, Tensor, dyn
from .tile import GemmWarpPolicy
from .types import TensorType

dtype = DType
MODULES = (atomic, cluster, convert, effects, gpu, hints, hopper, lanes, math, structure, thread, tile)

POINTERS = ("ptr", "handle", "make_tensor", "make_tensor_from_addr", "match_buffer", "decl_buffer", "tvm_access_ptr")

globals().update({name: DType(name) for name in (*NAMES, *ALIASES)})
globals().update({str(name): pack for name, pack in LANE_PACKS.items()})
globals().update(WORDS)

_TYPES = ("Buffer", "Fragment", "FragmentBuffer", "GemmWarpPolicy", "Layout", "LocalBuffer", "Ref", "SharedBuffer", "StridedTensor", "Tensor", "dyn")
__all__ = [*sorted({*WORDS, *NAMES, *ALIASES, *LANE_PACKS, *_TYPES, "dtype"} - {n for n in WORDS if n.startswith("_")})]  # the words are a table


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    if name in POINTERS:
        raise UnsupportedError(f"T.{name} works on raw pointers, which kernels here do not have", hint="annotate a parameter: T.Tensor(shape, dtype)")
    if name in FOREIGN:
        raise UnsupportedError(f"no target here can hold {name}", hint="use float8_e4m3fn, float8_e5m2, int8 or int4")
    raise TileNameError(f"`T.{name}` is not a word of the language", hint=suggestion(name))


def suggestion(name: str) -> str:
    """ "did you mean T.copy?" for an unknown word, or how to find the right one."""
    likeness = {word: difflib.SequenceMatcher(None, name.lower(), word.lower()).ratio() for word in difflib.get_close_matches(name, __all__, n=3)}
    likeness |= {word: 1.0 for word in __all__ if word.lower() == name.lower()}
    close = sorted((word for word in likeness if likeness[word] > builtins.max(likeness.values()) - 0.1), key=likeness.__getitem__, reverse=True)
    if not close:
        return "dir(T) lists the words"
    return "did you mean " + ", ".join(f"T.{word}" for word in close[:-1]) + (" or " if len(close) > 1 else "") + f"T.{close[-1]}?"


def __dir__() -> list[str]:
    return __all__
