"""For which machine a library kernel is made: a CPU, or a GPU of some architecture. Each kernel has a schedule for both.

>>> gpu_of("c"), gpu_of("emulate:sm_80"), gpu_of("cuda:sm_90a")
('', 'sm_80', 'sm_90a')
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..base.gpu import capability_limits
from ..frontend.prim_func import PrimFunc
from ..runtime.gpu_arch import DEFAULT, capability
from ..runtime.gpu_limits import machine_of
from ..runtime.jit import JITFunction, jit
from ..runtime.options import target_arch, target_name
from ..runtime.target_cuda import choose_arch

_NEAREST = {87: "sm_86", 103: "sm_100", 110: "sm_100", 121: "sm_120"}
_jitted: dict[tuple[Callable[..., PrimFunc], str, str], JITFunction] = {}


def gpu_of(target: Any = None) -> str:
    """The architecture that a target compiles for ("sm_90a"), or "" for a target that runs on CPUs. None: the default target's."""
    name, arch = target_name(target), target_arch(target)
    if name == "cuda":
        return choose_arch(arch)
    return arch or DEFAULT if name == "emulate" else ""


def has_wgmma(arch: str) -> bool:
    """Whether products of an architecture are those of warp groups, whose operands come from shared memory."""
    return arch == "sm_90a"


def shared_bytes(arch: str) -> int:
    """The most shared memory of a block."""
    return int(capability_limits(_limits(arch))["shared_per_block"].value) * 1024


def multiprocessors(arch: str) -> int:
    """How many blocks have a multiprocessor of their own, on the GPU on paper that stands for an architecture: the H200, the A100, ..."""
    return machine_of(arch).cores


def part_of(size: int, fewest: int) -> int:
    """The size of equal parts, a multiple of 16, of which `fewest` and a few more cover `size`: exactly if up to twice as many can.

    >>> part_of(4096, 3), part_of(100, 3)
    (1024, 48)
    """
    parts = next((p for p in range(fewest, 2 * fewest) if size % (16 * p) == 0), fewest)
    return 16 * -(-size // (16 * parts))


def _limits(arch: str) -> str:
    major, minor = capability(arch)
    return _NEAREST.get(10 * major + minor, f"sm_{10 * major + minor}")


def compiled(program: Callable[..., PrimFunc], target: Any = None) -> JITFunction:
    """`program` with its last tensor as the result, compiled for a target when it is called, and remembered."""
    key = (program, target_name(target), target_arch(target))
    if key not in _jitted:
        _jitted[key] = jit(out_idx=-1, target=target)(program)
    return _jitted[key]
