"""`tileworkbench.tools`: TileLang's analyser, on this package's counts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tileworkbench.base.errors import TileTypeError, UnsupportedError
from tileworkbench.base.machine import Machine
from tileworkbench.frontend.prim_func import PrimFunc
from tileworkbench.ir.stmt import Kernel
from tileworkbench.model.counts import count
from tileworkbench.runtime.kernel import JITKernel


@dataclass(frozen=True, slots=True)
class AnalysisResult:
    """Counts of one launch, and the least time that this machine's float32 peak and DRAM need for them, in seconds."""

    total_flops: int
    total_global_bytes: int
    estimated_time: float
    expected_tflops: float
    expected_bandwidth_GBps: float


class Analyzer:
    """Counts the work of a kernel with static sizes."""

    @staticmethod
    def analysis(fn: Any, device: Any = None) -> AnalysisResult:
        """Analyse a `T.prim_func`, a kernel or tile IR; `device` may be a `Machine`. Raises TileTypeError for anything else."""
        kernel = fn.kernel if isinstance(fn, PrimFunc) else fn.ir if isinstance(fn, JITKernel) else fn
        if not isinstance(kernel, Kernel):
            raise TileTypeError(f"Analyzer takes a T.prim_func or a kernel, got {type(fn).__name__}")
        machine = device if isinstance(device, Machine) else Machine.measure()
        counted = count(kernel, {})
        flops, moved = sum(counted.flops.values()), counted.compulsory_bytes
        peak, rate = machine.peak("float32", machine.cores).value, machine.bandwidth("DRAM", machine.cores).value
        seconds = max(flops / peak / 1e9, moved / rate / 1e9, 1e-12)
        return AnalysisResult(flops, moved, seconds, flops / seconds / 1e12, moved / seconds / 1e9)


def plot_layout(*_args: Any, **_options: Any) -> None:
    """TileLang's picture of a fragment's layout. Raises UnsupportedError: a CPU keeps tiles row-major, so there is none."""
    raise UnsupportedError("fragments have no layout on the CPU targets", hint="a CUDA target will show one")


__all__ = ["AnalysisResult", "Analyzer", "plot_layout"]
