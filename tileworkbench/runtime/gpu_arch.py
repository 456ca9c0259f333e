"""Names of GPU architectures, as NVIDIA's compilers write them.

A name is `sm_` and the compute capability; an `a` behind it admits the instructions that only this chip has (wgmma on sm_90a).

>>> parse_arch("sm_90a"), parse_arch("sm90a"), capability("sm_100a")
('sm_90a', 'sm_90a', (10, 0))
>>> of_capability(9, 0), of_capability(8, 6)
('sm_90a', 'sm_86')
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from ..base.errors import TileValueError

FIRST_WITH_OWN = 90  # from this capability on a chip has instructions of its own, behind the `a`
KNOWN = (75, 80, 86, 87, 89, 90, 100, 103, 110, 120, 121)
DEFAULT = "sm_90a"  # what is compiled for where there is no GPU and nobody named one
RESERVED_SHARED = 1024  # bytes of every block's shared memory that the system keeps, from 8.0 on


def arch_names(numbers: Sequence[int] = KNOWN) -> tuple[str, ...]:
    """The names for compute capabilities such as 80 and 90."""
    return tuple(name for n in numbers for name in ((f"sm_{n}", f"sm_{n}a") if n >= FIRST_WITH_OWN else (f"sm_{n}",)))


def parse_arch(text: str, known: Sequence[str] = ()) -> str:
    """The architecture that `text` names. Raises TileValueError with the list of those that there are (`known`: what the compiler at hand knows)."""
    names = tuple(known) or arch_names()
    found = re.fullmatch(r"(?:sm_?|compute_?)?(\d{2,3}[af]?)", text.strip().lower())
    name = f"sm_{found[1]}" if found else text
    if name not in names:
        near = [n for n in names if found and n.rstrip("af") == name.rstrip("af")]
        hint = f"did you mean {' or '.join(near)}?" if near else f"there are {', '.join(names)}"
        raise TileValueError(f"there is no GPU architecture {text!r}", hint=hint)
    return name


def capability(arch: str) -> tuple[int, int]:
    """The compute capability of an architecture."""
    number = int(arch.removeprefix("sm_").rstrip("af"))
    return number // 10, number % 10


def of_capability(major: int, minor: int) -> str:
    """The architecture to compile for on a device: with its own instructions where it has some."""
    number = major * 10 + minor
    return f"sm_{number}a" if number >= FIRST_WITH_OWN else f"sm_{number}"


def why_not_on(arch: str, device: tuple[int, int]) -> str:
    """Why machine code for `arch` does not run on a device of that capability, or "". Code runs upwards within its major number, `a` only at home."""
    mine = capability(arch)
    if arch.endswith("a") and mine != device or mine[0] != device[0] or mine[1] > device[1]:
        return f"code for {arch} does not run on a GPU of compute capability {device[0]}.{device[1]} (that is {of_capability(*device)})"
    return ""
