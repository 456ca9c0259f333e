"""What the processor of this machine can do, and which compiler flags say so.

`host_isa()` reads the feature flags of the processor, never its model name: a virtual machine often masks the model, and
`-march=native` then picks code of half the speed.

>>> host_isa().vector_bytes in (16, 32, 64)
True
>>> AVX2.march
('-march=x86-64-v3', '-mprefer-vector-width=256')
"""

from __future__ import annotations

import ctypes
import platform
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Isa:
    """An instruction set to generate code for.

    name: "avx512", "avx2", "neon" or "generic". `flags` holds the feature names as Linux spells them ("avx512f", "f16c", "amx_bf16").
    `vector_bytes` is the width of one vector register, `registers` how many there are. `march` are the flags for gcc and clang: a level that
    compilers since gcc 11 and clang 12 know. `extensions` are the flags of newer instructions that the processor has (half precision, VNNI);
    only code that names those instructions needs them.
    """

    name: str
    flags: frozenset[str]
    vector_bytes: int
    registers: int
    march: tuple[str, ...]
    extensions: tuple[str, ...] = ()

    def has(self, flag: str) -> bool:
        """True if the processor has the feature `flag`."""
        return flag in self.flags


_V3 = frozenset(("avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe"))
_V4 = _V3 | frozenset(("avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"))
_EXTENSIONS = {"avx512_fp16": "-mavx512fp16", "avx512_vnni": "-mavx512vnni"}
AVX512 = Isa("avx512", _V4, 64, 32, ("-march=x86-64-v4", "-mprefer-vector-width=512"))
AMX = replace(AVX512, flags=_V4 | {"amx_tile", "amx_bf16", "amx_int8"})
AVX2 = Isa("avx2", _V3, 32, 16, ("-march=x86-64-v3", "-mprefer-vector-width=256"))
NEON = Isa("neon", frozenset(("asimd",)), 16, 32, ())
GENERIC = Isa("generic", frozenset(), 16, 16, ())


@cache
def host_isa() -> Isa:
    """The widest instruction set of this machine that the C target has code for."""
    machine = platform.machine().lower()
    if machine in ("aarch64", "arm64"):
        return NEON
    return isa_from_flags(_without_refused(_cpu_flags())) if machine in ("x86_64", "amd64") else GENERIC


def isa_from_flags(flags: frozenset[str]) -> Isa:
    """The x86 instruction set for a set of processor feature names.

    >>> isa_from_flags(frozenset(("sse2",))).name
    'generic'
    """
    if flags >= AVX512.flags:
        return replace(AVX512, flags=flags, extensions=tuple(option for flag, option in _EXTENSIONS.items() if flag in flags))
    if flags >= AVX2.flags:
        return replace(AVX2, flags=flags)
    return replace(GENERIC, flags=flags)


def _without_refused(flags: frozenset[str]) -> frozenset[str]:
    """The features without the matrix unit where the system does not let this process use it (Linux: arch_prctl ARCH_REQ_XCOMP_PERM, state 18)."""
    if "amx_tile" not in flags:
        return flags
    try:
        granted = ctypes.CDLL(None).syscall(158, ctypes.c_long(0x1023), ctypes.c_long(18)) == 0
    except (OSError, AttributeError):
        granted = False
    return flags if granted else frozenset(flag for flag in flags if not flag.startswith("amx_"))


def _cpu_flags() -> frozenset[str]:
    """The first processor's feature names from /proc/cpuinfo; empty where there is none (then code stays generic)."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="ascii", errors="replace")
    except OSError:
        return frozenset()
    for line in text.splitlines():
        if line.startswith("flags"):
            return frozenset(line.partition(":")[2].split())
    return frozenset()
