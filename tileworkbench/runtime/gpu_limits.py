"""What a block of a kernel may have on an architecture, checked before anything is compiled or launched; the machine that stands for one.

machine_of("sm_90a").name                          # "NVIDIA H200"
check_source(source, kernel, "sm_80", schedule)    # raises CapacityError: bytes asked for, bytes there are, and what would fit
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..base.errors import CapacityError
from ..base.gpu import capability_limits
from ..base.machine import PRESETS, Machine, find_machine
from ..codegen.cuda_source import CudaSource
from ..ir.stmt import Kernel
from ..model.occupancy import occupancy
from .gpu_arch import capability


def machine_of(arch: str) -> Machine:
    """A GPU on paper of an architecture: of its own, else of its major number, else the H200."""
    number = arch.rstrip("af")
    gpus = [m for m in PRESETS.values() if m.gpu is not None]
    same = [m for m in gpus if m.gpu is not None and m.gpu.arch == number]
    near = [m for m in gpus if m.gpu is not None and m.gpu.capability[0] == capability(arch)[0]]
    return next(iter([*same, *near]), find_machine("h200"))


def check_source(source: CudaSource, kernel: Kernel, arch: str, schedule: Mapping[str, Any] | None = None) -> None:
    """Raise CapacityError for a launch that asks for more threads or shared memory than a block of `arch` has; `schedule` gives names for hints."""
    try:
        limits = capability_limits(arch.rstrip("af"))
    except KeyError:  # the compiler and the driver know
        return
    threads, shared = int(limits["max_threads_per_block"].count), int(limits["shared_per_block"].bytes)
    for made in source.kernels:
        x, y, z = made.block
        if x * y * z > threads:
            raise CapacityError(
                f"kernel {made.name} has {x * y * z} threads a block, {arch} has at most {threads}", hint=f"threads={threads} or fewer"
            )
        if made.shared_bytes > shared:
            raise CapacityError(too_much_shared(made.name, made.shared_bytes, 0, shared, arch), hint=what_fits(kernel, arch, schedule))


def too_much_shared(name: str, dynamic: int, static: int, available: int, where: str) -> str:
    """The sentence for a block that asks for more shared memory than there is; all in bytes."""
    return f"kernel {name} needs {dynamic + static} bytes of shared memory a block, {where} has {available} ({dynamic} dynamic, {static} static)"


def what_fits(kernel: Kernel, arch: str, schedule: Mapping[str, Any] | None = None) -> str:
    """The tiles that take the room, and the nearest change after which they fit; in general words where the model knows none."""
    found = occupancy(kernel, machine_of(arch), schedule=schedule)
    return next((str(r) for r in found.refusals if r.fits), "") or "smaller tiles, or fewer stages"
