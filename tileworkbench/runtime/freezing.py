"""Values as keys: what a kernel was built with, in a form that can be compared and hashed.

>>> frozen([1, {"a": 2}]) == frozen([1, {"a": 2}]), frozen(1) == frozen(True)
(True, False)
"""

from __future__ import annotations

import enum
import hashlib
import sys
import types
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any

import numpy as np

ATOMS = (int, float, complex, str, bytes, bool, type(None), type(Ellipsis))
_LIBRARIES = frozenset({"tileworkbench", "tilelang", "numpy", "torch", "ml_dtypes", "cupy", "jax", "IPython"})


@cache
def is_library(module: str) -> bool:
    """Whether a module (by name) belongs to Python, to us, or to an installed package: its functions and constants stay what they are."""
    root = module.partition(".")[0]
    if root == "__main__" or not root:
        return False
    if root in _LIBRARIES or root in sys.stdlib_module_names:
        return True
    file = getattr(sys.modules.get(root), "__file__", None) or ""
    return "site-packages" in file or "dist-packages" in file


def can_change_inside(value: Any) -> bool:
    """Whether `value` may mean something else later while it is the same object."""
    if isinstance(value, (tuple, frozenset)):
        return any(map(can_change_inside, value))
    if (
        isinstance(value, (*ATOMS, type, types.BuiltinFunctionType, enum.Enum, np.dtype))
        or isinstance(value, types.ModuleType)
        and is_library(value.__name__)
    ):
        return False
    if is_dataclass(value) and not isinstance(value, type):  # one without slots is watched attribute by attribute
        return not hasattr(value, "__dict__") and not value.__dataclass_params__.frozen  # type: ignore[attr-defined]
    return isinstance(value, (list, dict, set, bytearray, np.ndarray))


def is_authors_object(value: Any) -> bool:
    """A plain object of a class that the author wrote: its attributes are part of its meaning."""
    return hasattr(value, "__dict__") and not callable(value) and not is_library(str(type(value).__module__))


def frozen(value: Any, depth: int = 6) -> Any:
    """A hashable stand-in: equal for values of equal meaning and type (1, 1.0 and True differ). What is not understood stands for itself."""
    if isinstance(value, ATOMS):
        return (type(value).__name__, repr(value))
    if isinstance(value, enum.Enum):
        return (type(value).__qualname__, value.name)
    if depth == 0:
        return ("object", id(value))
    if isinstance(value, (list, tuple)):
        return (type(value).__name__, tuple(frozen(v, depth - 1) for v in value))
    if isinstance(value, dict):
        return (type(value).__name__, tuple((frozen(k, depth - 1), frozen(v, depth - 1)) for k, v in value.items()))
    if isinstance(value, (set, frozenset)):
        return (type(value).__name__, frozenset(frozen(v, depth - 1) for v in value))
    if isinstance(value, np.ndarray):
        return ("ndarray", value.dtype.str, value.shape, hashlib.sha256(value.tobytes()).hexdigest())
    if isinstance(value, (np.generic, np.dtype)):
        return (type(value).__name__, str(value))
    if isinstance(value, types.ModuleType):
        return ("module", value.__name__)
    if is_dataclass(value) and not isinstance(value, type):
        return (type(value).__qualname__, id(type(value)), tuple((f.name, frozen(getattr(value, f.name, None), depth - 1)) for f in fields(value)))
    if is_authors_object(value):
        return (type(value).__qualname__, id(type(value)), tuple((k, frozen(v, depth - 1)) for k, v in vars(value).items()))
    return ("object", id(value))
