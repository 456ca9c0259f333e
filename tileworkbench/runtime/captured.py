"""What a kernel function reads from outside itself, and whether that has changed.

A kernel is specialised to its globals and closure as it is to its arguments: redefine `BLOCK = 64`, a helper function or a macro, and the next
call must compile anew, never run stale code. `Captured` finds those values, through nested and helper functions of the author's and through
the attributes that they name, and then answers two questions: `is_same()`, quickly, at each call; `key()`, a hashable value that is equal
whenever the meaning is.
"""

from __future__ import annotations

import ast
import builtins
import dis
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np

from ..base.errors import TileError
from ..frontend.prim_func import PrimFunc
from ..frontend.source import source_of
from ..frontend.syntax import walk
from .freezing import ATOMS, can_change_inside, frozen, is_authors_object, is_library

_MISSING = object()


@dataclass(frozen=True, slots=True)
class _Slot:
    """One outside name: in a dict (a module's globals, an object's attributes), or in a closure cell."""

    place: Any
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
        finder = _Finder()
        finder.visit(self.function)
        self._slots = tuple(finder.slots.values())
        self._values = tuple(slot.read() for slot in self._slots)
        self._live = tuple(v for v in self._values if can_change_inside(v))
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

    def values(self) -> tuple[tuple[str, Any], ...]:
        """The outside values now, by name, in the order in which they were found."""
        self.key()
        return tuple((slot.name, value) for slot, value in zip(self._slots, self._values, strict=True))


def _never() -> bool:
    return False


# ---------------------------------------------------------------------------------------- finding names
class _Finder:
    """Follows a function to everything of the author's that it may read."""

    def __init__(self) -> None:
        self.slots: dict[tuple[int, str], _Slot] = {}
        self.seen: set[int] = set()
        self.attributes: dict[str, None] = {}  # every attribute that some function names
        self.owners: list[dict[str, Any]] = []  # attributes of modules and objects

    def visit(self, value: Any) -> None:
        """Take in `value`, and what the functions in it read."""
        if id(value) in self.seen:
            return
        self.seen.add(id(value))
        for function in _functions_in(value):
            self.function(function)
        if isinstance(value, types.ModuleType):
            if not is_library(value.__name__):
                self.owner(vars(value))
        elif is_authors_object(value):
            self.owner(vars(value))
            self.visit(type(value))
        elif isinstance(value, type) and not is_library(value.__module__):
            for member in vars(value).values():
                self.visit(member.fget if isinstance(member, property) else member)

    def function(self, function: types.FunctionType) -> None:
        if is_library(str(function.__globals__.get("__name__", ""))) or id(function.__code__) in self.seen:
            return
        self.seen.add(id(function.__code__))
        self.name_attributes(function.__code__.co_names, function.__code__)
        for name in (*_global_names(function.__code__), *_annotation_names(function)):
            if name in function.__globals__ or hasattr(builtins, name):
                self.slot(_Slot(function.__globals__, name))
        for cell, name in zip(function.__closure__ or (), function.__code__.co_freevars, strict=True):
            self.slot(_Slot(cell, name))
        for default in (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()):
            self.visit(default)

    def slot(self, slot: _Slot) -> None:
        if (id(slot.place), slot.name) not in self.slots:
            self.slots[id(slot.place), slot.name] = slot
            self.visit(slot.read())

    def owner(self, attributes: dict[str, Any]) -> None:
        """A module or object: the attributes that functions name are outside values too."""
        self.owners.append(attributes)
        for name in list(self.attributes):
            if name in attributes:
                self.slot(_Slot(attributes, name))

    def name_attributes(self, names: tuple[str, ...], code: types.CodeType) -> None:
        fresh = [n for n in (*names, *_inner_names(code)) if n not in self.attributes]
        self.attributes.update(dict.fromkeys(fresh))
        for attributes in list(self.owners):
            for name in fresh:
                if name in attributes:
                    self.slot(_Slot(attributes, name))


def _functions_in(value: Any) -> Iterator[types.FunctionType]:
    """The Python functions that `value` is or wraps (a macro, a program, a jitted function, a partial, a method)."""
    for _ in range(8):
        if isinstance(value, types.FunctionType):
            yield value
        if isinstance(value, (partial, types.MethodType)):
            value = value.func if isinstance(value, partial) else value.__func__
        elif isinstance(value, (classmethod, staticmethod)):
            value = value.__func__
        elif isinstance(value, PrimFunc):
            value = value.function
        else:
            inner = getattr(value, "__wrapped__", None) if not isinstance(value, (types.ModuleType, np.ndarray)) else None
            if inner is None or inner is value:
                return
            value = inner


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


@cache
def _inner_names(code: types.CodeType) -> tuple[str, ...]:
    """Names in the code of nested functions."""
    inner = [c for c in code.co_consts if isinstance(c, types.CodeType)]
    return tuple(dict.fromkeys(n for c in inner for n in (*c.co_names, *_inner_names(c))))


def _annotation_names(function: types.FunctionType) -> tuple[str, ...]:
    """Names that only annotations in the source read: Python compiles no code for those of local variables, but a kernel means them."""
    try:
        tree = source_of(function).tree
    except TileError:
        return ()
    notes = [n.annotation for n in walk(tree) if isinstance(n, (ast.AnnAssign, ast.arg)) and n.annotation is not None]
    names = {n.id for note in notes for n in ast.walk(note) if isinstance(n, ast.Name)}
    return tuple(sorted(name for name in names if name in function.__globals__))


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
    return type(a) is type(b) and isinstance(a, ATOMS) and repr(a) == repr(b)
