"""The predicted time of a launch, whatever the machine: a waterfall from the binding roof down."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..base.hardware import Machine
from ..ir.stmt import Kernel
from .counts import Counts
from .cpu_time import cpu_waterfall
from .excess import Excess
from .gpu_time import gpu_waterfall
from .occupancy import Occupancy
from .space import Array
from .traffic import Traffic
from .waterfall import Waterfall


def predict_time(
    kernel: Kernel,
    counts: Counts,
    traffic: Traffic,
    machine: Machine,
    dims: Mapping[str, int],
    *,
    threads: int = 1,
    fit: Occupancy | None = None,
    is_warm: bool = False,
    useful_flops: int | None = None,
    scalars: Mapping[str, Any] | None = None,
    arrays: Mapping[str, Array] | None = None,
    excess: Excess | None = None,
) -> Waterfall:
    """From the roof to the prediction. `counts` and `traffic` are those of the same kernel, dims and threads.

    `excess` is what an emulated run saw, of a launch on a GPU. On a CPU the prediction is for a launch that repeats; on a GPU for a first one, unless
    `is_warm`.
    """
    known: dict[str, Any] = {"scalars": scalars, "arrays": arrays}
    if machine.is_gpu:
        return gpu_waterfall(kernel, counts, traffic, machine, dims, fit, is_warm=is_warm, useful_flops=useful_flops, excess=excess, **known)
    return cpu_waterfall(kernel, counts, traffic, machine, dims, threads=threads, **known)
