"""How a kernel is to be compiled, as one value, and which of TileLang's options mean nothing here."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..base.errors import TileTypeError, TileValueError
from ..base.pass_configs import MEANT
from .fork import check_threads

OutIdx = int | list[int] | tuple[int, ...] | None
_ARCH = re.compile(r"(?:sm|compute)_?\d+[a-z]?")  # "sm_90a" alone means CUDA for it


@dataclass(frozen=True, slots=True)
class Options:
    """Compile options. `target` "" means: choose. `ignored` names the pass configurations that were given and change nothing.

    `arch` is the GPU architecture to compile for ("sm_90a"); "" means the device's. `schedule`: the build-time choices by name, for words in errors.
    """

    target: str = ""
    out_idx: tuple[int, ...] = ()
    num_threads: int | None = None
    compile_flags: tuple[str, ...] = ()
    pass_configs: tuple[tuple[str, str], ...] = ()
    verbose: bool = False
    arch: str = ""
    schedule: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)

    @property
    def ignored(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.pass_configs if name not in MEANT)


def make_options(
    *,
    target: Any = None,
    out_idx: OutIdx = None,
    num_threads: int | None = None,
    pass_configs: Mapping[Any, Any] | None = None,
    compile_flags: str | Iterable[str] | None = None,
    verbose: bool | None = None,
) -> Options:
    """Options from the arguments of `jit` and `compile`. Raises TileTypeError or TileValueError for what cannot be meant."""
    try:
        check_threads(num_threads)
    except ValueError as error:
        raise TileValueError(str(error)) from None
    if isinstance(out_idx, int):
        indices: tuple[int, ...] = (out_idx,)
    elif out_idx is None:
        indices = ()
    elif isinstance(out_idx, (list, tuple)) and all(isinstance(i, int) for i in out_idx):
        indices = tuple(out_idx)
    else:
        raise TileTypeError(f"out_idx must be a number or a list of numbers, got {out_idx!r}")
    if pass_configs is not None and not isinstance(pass_configs, Mapping):
        raise TileTypeError(f"pass_configs must be a dict, got {pass_configs!r}")
    if compile_flags is not None and not (isinstance(compile_flags, (str, list, tuple)) and all(isinstance(f, str) for f in compile_flags)):
        raise TileTypeError(f"compile_flags must be a string or a list of strings, got {compile_flags!r}")
    flags = compile_flags.split() if isinstance(compile_flags, str) else compile_flags or ()
    configs = tuple(sorted((str(key), repr(value)) for key, value in (pass_configs or {}).items()))
    return Options(target_name(target), indices, num_threads, tuple(flags), configs, bool(verbose), target_arch(target))


def target_name(target: Any) -> str:
    """The name of a target given as a string, a TileLang target dict ({"kind": "c"}), or an object with a name; "" for the default.

    >>> target_name("emulate:sm_80"), target_name("sm_90a"), target_name({"kind": "c"})
    ('emulate', 'cuda', 'c')
    """
    target = _from_environment() if target is None or target == "auto" else target
    if isinstance(target, Mapping):
        return str(target.get("kind", ""))
    if isinstance(target, str):
        word = target.split()[0].partition(":")[0] if target.strip() else ""
        return "cuda" if _ARCH.fullmatch(word) else word
    name = getattr(target, "kind", None) or getattr(target, "name", None)
    if name is None:
        raise TileTypeError(f'target must be a name such as "c" or "interpret", got {type(target).__name__}')
    return str(getattr(name, "name", name))


def target_arch(target: Any) -> str:
    """The GPU architecture that a target names, or "".

    >>> target_arch("cuda:sm_80"), target_arch("cuda -arch=sm_90a"), target_arch({"kind": "cuda", "arch": "sm_90a"}), target_arch("c")
    ('sm_80', 'sm_90a', 'sm_90a', '')
    >>> target_arch("sm_90a")
    'sm_90a'
    """
    target = _from_environment() if target is None or target == "auto" else target
    if isinstance(target, Mapping):
        return str(target.get("arch", ""))
    if isinstance(target, str):
        words = target.split()
        after = [w.lstrip("-").removeprefix("arch=") for w in words[1:] if w.lstrip("-").startswith("arch=")]
        if after or not words:
            return after[0] if after else ""
        return words[0] if _ARCH.fullmatch(words[0]) else words[0].partition(":")[2]
    return str(getattr(target, "arch", ""))


def _from_environment() -> str:
    """The target that the environment names; ours goes before TileLang's."""
    text = os.environ.get("TILEWORKBENCH_TARGET") or os.environ.get("TILELANG_DEFAULT_TARGET", "")
    return "" if text == "auto" else text
