"""`tileworkbench.profiler`: TileLang's timing functions."""

from __future__ import annotations

from tileworkbench.runtime.profiler import Profiler, Timing, assert_close, do_bench, measure
from tileworkbench.runtime.supply import KernelParam, TensorSupplyType, get_tensor_supply

__all__ = ["KernelParam", "Profiler", "TensorSupplyType", "Timing", "assert_close", "do_bench", "get_tensor_supply", "measure"]
