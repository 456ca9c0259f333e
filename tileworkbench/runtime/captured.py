"""What a kernel function reads from outside itself, and whether that has changed.

A kernel is specialised to its globals and closure as it is to its arguments: redefine `BLOCK = 64`, a helper function or a macro, and the next
call must compile anew, never run stale code. `Captured` finds those values, through nested and helper functions of the author's, and then
answers two questions: `is_same()`, quickly, at each call; `key()`, a hashable value that is equal whenever the meaning is.
"""

from __future__ import annotations

import ast
import builtins
import dis
import enum
import hashlib
import sys
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, is_dataclass
from functools import cache, partial
from typing import Any

import numpy as np

from ..base.errors import TileError
from ..frontend.source import source_of
from ..frontend.syntax import walk

_ATOMS = (int, float, complex, str, bytes, bool, type(None), type(Ellipsis))
_LIBRARIES = frozenset({"tileworkbench", "tilelang", "numpy", "torch", "ml_dtypes", "cupy", "jax", "IPython"})
_MISSING = object()


@dataclass(frozen=True, slots=True)
class _Slot:
    """One outside name: in a module's globals, or a closure cell."""

    place: Any  # the globals dict, or the cell
    name: str

    def read(self) -> Any:
        if isinstance(self.place, dict):
            return self.place.get(self.name, _MISSING)
        try:
            return self.place.cell_contents
        except ValueError:
            return _MISSING


class Captured:
    """The outside values of one function. It holds on to them, so an `id` in a key stays theirs."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self._check: Callable[[], bool] = _never  # looking takes a millisecond: not before the first call
        self._live: tuple[Any, ...] = ()
        self._live_keys: tuple[Any, ...] = ()

    def _refresh(self) -> None:
        slots: dict[tuple[int, str], _Slot] = {}
        _collect(self.function, slots, set())
        self._slots = tuple(slots.values())
        self._values = tuple(slot.read() for slot in self._slots)
        self._live = tuple(v for v in self._values if _can_change_inside(v))
        self._live_keys = tuple(map(frozen, self._live))
        self._key: tuple[Any, ...] | None = None
        self._check = _checker(self._slots, self._values)

    def is_same(self) -> bool:
        """Whether every outside value is what it was at the last `key()`. Redefining an equal number counts as the same."""
        if not self._check():
            return False
        return not self._live or tuple(map(frozen, self._live)) == self._live_keys

    def key(self) -> tuple[Any, ...]:
        """The outside values now, as a hashable value; looks again if one has changed."""
        if not self.is_same():
            self._refresh()
        if self._key is None:
            self._key = tuple((slot.name, frozen(value)) for slot, value in zip(self._slots, self._values, strict=True))
        return self._key


def _never() -> bool:
    return False


# ---------------------------------------------------------------------------------------- finding names
def _collect(value: Any, slots: dict[tuple[int, str], _Slot], seen: set[int]) -> None:
    """Add the outside names of a function, and of the author's functions among their values."""
    for function in _functions_in(value):
        if id(function) in seen or not _is_authors(function):
            continue
        seen.add(id(function))
        for name in (*_global_names(function.__code__), *_annotation_names(function)):
            slot = _Slot(function.__globals__, name)
            if (id(slot.place), name) not in slots and not _is_plain_builtin(slot):
                slots[id(slot.place), name] = slot
                _collect(slot.read(), slots, seen)
        for cell, name in zip(function.__closure__ or (), function.__code__.co_freevars, strict=True):
            if (id(cell), name) not in slots:
                slots[id(cell), name] = _Slot(cell, name)
                _collect(_Slot(cell, name).read(), slots, seen)
        for default in (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()):
            _collect(default, slots, seen)


def _functions_in(value: Any) -> Iterator[types.FunctionType]:
    """The Python functions that `value` is or wraps (a macro, a jitted function, a partial, a method)."""
    for _ in range(8):
        if isinstance(value, types.FunctionType):
            yield value
        if isinstance(value, partial):
            value = value.func
        elif isinstance(value, types.MethodType):
            value = value.__func__
        else:
            inner = getattr(value, "__wrapped__", None) if not isinstance(value, (types.ModuleType, np.ndarray)) else None
            if inner is None or inner is value:
                return
            value = inner


def _is_plain_builtin(slot: _Slot) -> bool:
    return slot.read() is _MISSING and not hasattr(builtins, slot.name)


@cache
def _global_names(code: types.CodeType) -> tuple[str, ...]:
    """Names that `code` and the code inside it read from globals or builtins, in order of first use."""
    names: dict[str, None] = {}
    for instruction in dis.get_instructions(code):
        if instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            names[instruction.argval] = None
        elif isinstance(instruction.argval, types.CodeType):
            names.update(dict.fromkeys(_global_names(instruction.argval)))
    return tuple(names)


def _annotation_names(function: types.FunctionType) -> tuple[str, ...]:
    """Names that only annotations in the source read: Python compiles no code for those of local variables, but a kernel means them."""
    try:
        tree = source_of(function).tree
    except TileError:
        return ()
    notes = [n.annotation for n in walk(tree) if isinstance(n, (ast.AnnAssign, ast.arg)) and n.annotation is not None]
    names = {n.id for note in notes for n in ast.walk(note) if isinstance(n, ast.Name)}
    return tuple(sorted(name for name in names if name in function.__globals__))


def _is_authors(function: types.FunctionType) -> bool:
    return not _is_library(str(function.__globals__.get("__name__", "")))


@cache
def _is_library(module: str) -> bool:
    """Whether a module (by name) belongs to Python, to us, or to an installed package: its functions and constants stay what they are."""
    root = module.partition(".")[0]
    if root == "__main__" or not root:
        return False
    if root in _LIBRARIES or root in sys.stdlib_module_names:
        return True
    file = getattr(sys.modules.get(root), "__file__", None) or ""
    return "site-packages" in file or "dist-packages" in file


# ---------------------------------------------------------------------------------------- comparing values
def _checker(slots: tuple[_Slot, ...], values: tuple[Any, ...]) -> Callable[[], bool]:
    """A function that says whether each slot still holds its value: straight-line Python, about 40 ns a name."""
    tests, names = [], {"_missing": _MISSING, "_equal": _equal}
    for i, (slot, value) in enumerate(zip(slots, values, strict=True)):
        names[f"p{i}"], names[f"v{i}"] = slot.place, value
        now = f"p{i}.get({slot.name!r}, _missing)" if isinstance(slot.place, dict) else f"p{i}.cell_contents"
        tests.append(f"({now} is v{i} or _equal({now}, v{i}))")
    text = f"def check():\n  try: return {' and '.join(tests) or 'True'}\n  except ValueError: return False\n"
    exec(compile(text, "<captured values>", "exec"), names)
    check: Callable[[], bool] = names["check"]  # type: ignore[assignment]  # made by exec
    return check


def _equal(a: Any, b: Any) -> bool:
    return type(a) is type(b) and isinstance(a, _ATOMS) and repr(a) == repr(b)


def _can_change_inside(value: Any) -> bool:
    """Whether `value` may mean something else later while it is the same object."""
    if isinstance(value, (tuple, frozenset)):
        return any(map(_can_change_inside, value))
    if (
        isinstance(value, (*_ATOMS, type, types.BuiltinFunctionType, enum.Enum, np.dtype))
        or isinstance(value, types.ModuleType)
        and _is_library(value.__name__)
    ):
        return False
    return isinstance(value, (list, dict, set, bytearray, np.ndarray, types.ModuleType)) or _is_authors_object(value)


def _is_authors_object(value: Any) -> bool:
    """A plain object of a class that the author wrote: its attributes are part of its meaning."""
    return hasattr(value, "__dict__") and not callable(value) and not _is_library(str(type(value).__module__))


def frozen(value: Any, depth: int = 6) -> Any:
    """A hashable stand-in: equal for values of equal meaning and type (1, 1.0 and True differ). What is not understood stands for itself."""
    if isinstance(value, _ATOMS):
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
        return ("module", value.__name__) if _is_library(value.__name__) else ("module", value.__name__, _module_values(value))
    if is_dataclass(value) and not isinstance(value, type):
        return (type(value).__qualname__, id(type(value)), tuple((f.name, frozen(getattr(value, f.name, None), depth - 1)) for f in fields(value)))
    if _is_authors_object(value):
        return (type(value).__qualname__, id(type(value)), tuple((k, frozen(v, depth - 1)) for k, v in vars(value).items()))
    return ("object", id(value))


def _module_values(module: types.ModuleType) -> tuple[Any, ...]:
    """The constants of a module of the author's; a helper module's functions stand for themselves."""
    return tuple((k, frozen(v, 2)) for k, v in vars(module).items() if not k.startswith("__") and not isinstance(v, types.ModuleType))
