"""The registry of targets.

A target is an object with `name`, `usable()` and `compile(kernel, options)` (see `executable.Target`), advertised under the entry-point group
`tileworkbench.targets`. Ours register the same way; when the package runs from a source tree that was never installed, they are known all the same.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any

from ..base.errors import TileValueError, UnsupportedError
from .executable import Target
from .notices import notice_once

GROUP = "tileworkbench.targets"
BUILT_IN = {
    "c": "tileworkbench.runtime.target_c:TARGET",
    "interpret": "tileworkbench.runtime.target_interpret:TARGET",
    "cuda": "tileworkbench.runtime.target_cuda:TARGET",
    "emulate": "tileworkbench.runtime.target_emulate:TARGET",
}
ALIASES = {"cpu": "c", "llvm": "c", "openmp": "c", "python": "interpret", "numpy": "interpret"}
_added: dict[str, Target] = {}


def register(target: Target) -> None:
    """Add a target by hand, for a test or a notebook; it replaces one of the same name."""
    _added[target.name] = target


def is_by_hand(name: str) -> bool:
    """Whether the target `name` was added with `register`: another process does not know it."""
    return name in _added


def target_names() -> tuple[str, ...]:
    """Names of all targets, built-in ones first."""
    return tuple(dict.fromkeys([*BUILT_IN, *_advertised(), *_added]))


@cache
def _advertised() -> dict[str, str]:
    return {point.name: point.value for point in entry_points(group=GROUP)}


@cache
def _load(value: str) -> Target:
    module, _, attribute = value.partition(":")
    target: Target = getattr(import_module(module), attribute)
    return target


def get_target(name: str) -> Target:
    """The target called `name`. Raises TileValueError naming the ones there are."""
    wanted = ALIASES.get(name, name)
    if wanted in _added:
        return _added[wanted]
    value = BUILT_IN.get(wanted) or _advertised().get(wanted)
    if value is None:
        raise TileValueError(f"there is no target {name!r}", hint=f"the targets here are {', '.join(target_names())}")
    return _load(value)


def why_not_run(name: str) -> str:
    """Why nothing that the target `name` compiles can run on this machine (CUDA where there is no GPU), or ""."""
    own: Callable[[], str] | None = getattr(get_target(name), "why_not_run", None)
    return own() if own is not None else ""


def emulator() -> Any:
    """The emulator, which also says what a kernel does wrong and what it moves (`sanitize`, `count`). Raises UnsupportedError where it cannot run."""
    return choose_target("emulate")


def choose_target(name: str, *, is_to_run: bool = True) -> Target:
    """The target `name`, or for "" the compiler's, or without a compiler the interpreter, with a notice.

    Not `is_to_run`: a target is good enough if it can write its text (`writes`), even where nothing compiles that.
    Raises: UnsupportedError with the reason if a target that was asked for cannot be used on this machine.
    """
    if name:
        target = get_target(name)
        why = target.usable() if is_to_run or not getattr(target, "writes", False) else ""
        if why:
            install = str(getattr(target, "install", ""))
            raise UnsupportedError(f"target {name!r} cannot be used here: {why}", hint=install or 'target="interpret" runs everywhere, slowly')
        return target
    target = get_target("c")
    why = target.usable()
    if not why:
        return target
    notice_once(f"{why}; kernels run in the interpreter, which is slow")
    return get_target("interpret")
