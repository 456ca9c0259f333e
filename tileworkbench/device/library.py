"""The table of all device functions, and the text of those that a kernel uses."""

from __future__ import annotations

import re
from collections.abc import Iterable
from types import MappingProxyType

from .atomics import atomic_functions
from .cluster import cluster_functions
from .convert import convert_functions
from .copies import copy_functions
from .function import EMULATOR, GPU, DeviceFunction
from .integers import integer_functions
from .math import math_functions
from .mbarrier import mbarrier_functions
from .memory import memory_functions
from .mma import mma_functions
from .nibble import nibble_functions
from .prelude import GPU_PRELUDE
from .threads import thread_functions
from .tma import tma_functions
from .warp import warp_functions
from .wgmma import wgmma_function, wgmma_functions

_TABLE: dict[str, DeviceFunction] = {
    f.name: f
    for f in (
        *memory_functions(), *thread_functions(), *warp_functions(), *convert_functions(), *integer_functions(), *nibble_functions(), *math_functions(),
        *copy_functions(), *mma_functions(), *atomic_functions(), *mbarrier_functions(), *tma_functions(), *cluster_functions(), *wgmma_functions(),
    )
}  # fmt: skip
FUNCTIONS = MappingProxyType(_TABLE)  # name -> function; wgmma products are made when they are asked for (`find`)


def find(name: str) -> DeviceFunction:
    """The function called `name`. Raises KeyError if there is none."""
    made = _TABLE.get(name) or wgmma_function(name)
    if made is None:
        raise KeyError(f"the device library has no function {name}")
    return made


def arch_number(arch: str) -> int:
    """The number of an architecture: 90 for "sm_90a" and for "sm_90"."""
    return int(arch.removeprefix("sm_").rstrip("af"))


def why_missing(name: str, arch: str) -> str:
    """Why `name` cannot be used on `arch`, or "": it does not exist, or needs a newer (or the architecture-specific) one."""
    try:
        function = find(name)
    except KeyError as error:
        return str(error.args[0])
    if arch_number(arch) < function.least_arch:
        return f"{name} needs sm_{function.least_arch} or newer, not {arch}"
    if name.startswith(("twb_wgmma", "twb_set_max_registers")) and arch != "sm_90a":
        return f"{name} exists on sm_90a only, not on {arch}"
    return ""


def from_text(text: str) -> tuple[str, ...]:
    """Names of this library that `text` uses, in order of first use."""
    names = dict.fromkeys(re.findall(r"\btwb_\w+", text))
    return tuple(name for name in names if name in _TABLE or wgmma_function(name) is not None)


def library(names: Iterable[str], arch: str, where: str) -> str:
    """The text of the functions in `names` with all they need, callees first; for "gpu" with the prelude, for "emulator" without (the emulator owns it).

    Raises: KeyError for an unknown name, ValueError for one that `arch` does not have or for another `where`.
    """
    if where not in (GPU, EMULATOR):
        raise ValueError(f'where is "gpu" or "emulator", not {where!r}')
    done: dict[str, DeviceFunction] = {}
    for name in names:
        _add(name, done, arch)
    prelude = f"#define TWB_ARCH {arch_number(arch)}\n" + (GPU_PRELUDE if where == GPU else "")
    return prelude + "".join(f.text(where) for f in done.values())


def _add(name: str, done: dict[str, DeviceFunction], arch: str) -> None:
    if name in done:
        return
    why = why_missing(name, arch)
    if why:
        find(name)  # an unknown name is a KeyError
        raise ValueError(why)
    function = find(name)
    for other in function.needs:
        _add(other, done, arch)
    done[name] = function
