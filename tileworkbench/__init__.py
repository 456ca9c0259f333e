"""Tile Workbench: write tile kernels in TileLang's language, run them on any machine, and see why they are as fast as they are.

    import tileworkbench
    import tileworkbench.language as T

    @tileworkbench.jit
    def add(A, B):
        N = T.const("N")
        A: T.Tensor((N,), T.float32)
        B: T.Tensor((N,), T.float32)
        C = T.empty((N,), T.float32)
        with T.Kernel(T.ceildiv(N, 1024)) as bx:
            for i in T.Parallel(1024):
                C[bx * 1024 + i] = A[bx * 1024 + i] + B[bx * 1024 + i]
        return C

The names here are those of TileLang's top level where they mean the same, so its programs run with the import changed. Everything but the language is
imported when it is first used. In a notebook: `%load_ext tileworkbench`.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

from . import frontend  # gives the words of the language their meanings

if TYPE_CHECKING:
    from .base.dtypes import DType as DataType
    from .base.errors import TileError as TileError
    from .base.machine import Machine as Machine
    from .base.machine import find_machine as find_machine
    from .base.machine import machines as machines
    from .base.pass_configs import PassConfigKey as PassConfigKey
    from .model.recorded import recordings as recordings
    from .notebook.workbench import workbench as workbench
    from .runtime.cache import disable_cache as disable_cache
    from .runtime.cache import enable_cache as enable_cache
    from .runtime.fork import set_num_threads as set_num_threads
    from .runtime.jit import compile as compile
    from .runtime.jit import jit as jit
    from .runtime.jit import lazy_jit as lazy_jit
    from .runtime.jit import par_compile as par_compile
    from .runtime.kernel import JITKernel as JITKernel
    from .runtime.notices import set_log_level as set_log_level
    from .runtime.profiler import Profiler as Profiler
    from .runtime.profiler import do_bench as do_bench
    from .runtime.scorecard import scorecard as scorecard
    from .runtime.supply import TensorSupplyType as TensorSupplyType
    from .runtime.testing import cdiv as cdiv
    from .runtime.testing import next_power_of_2 as next_power_of_2
    from .tune.autotune import AutoTuner as AutoTuner
    from .tune.autotune import autotune as autotune
    from .tune.autotune import set_autotune_inputs as set_autotune_inputs
    from .tune.schedule import Schedule as Schedule

__version__ = "0.1.0"

# The thin modules that carry TileLang's module names (profiler, autotuner, testing, carver, ...) lie in one folder.
__path__.append(os.path.join(os.path.dirname(__file__), "compat"))

# public name: (module, its name there)
_NAMES = {
    "AutoTuner": ("tune.autotune", "AutoTuner"),
    "DataType": ("base.dtypes", "DType"),
    "JITKernel": ("runtime.kernel", "JITKernel"),
    "Machine": ("runtime.measure", "Machine"),
    "PassConfigKey": ("base.pass_configs", "PassConfigKey"),
    "Profiler": ("runtime.profiler", "Profiler"),
    "Schedule": ("tune.schedule", "Schedule"),
    "TensorSupplyType": ("runtime.supply", "TensorSupplyType"),
    "TileError": ("base.errors", "TileError"),
    "autotune": ("tune.autotune", "autotune"),
    "cdiv": ("runtime.testing", "cdiv"),
    "compile": ("runtime.jit", "compile"),
    "disable_cache": ("runtime.cache", "disable_cache"),
    "do_bench": ("runtime.profiler", "do_bench"),
    "enable_cache": ("runtime.cache", "enable_cache"),
    "find_machine": ("base.machine", "find_machine"),
    "jit": ("runtime.jit", "jit"),
    "lazy_jit": ("runtime.jit", "lazy_jit"),
    "load_ipython_extension": ("notebook", "load_ipython_extension"),
    "machines": ("base.machine", "machines"),
    "next_power_of_2": ("runtime.testing", "next_power_of_2"),
    "par_compile": ("runtime.jit", "par_compile"),
    "recordings": ("model.recorded", "recordings"),
    "scorecard": ("runtime.scorecard", "scorecard"),
    "set_autotune_inputs": ("tune.autotune", "set_autotune_inputs"),
    "set_log_level": ("runtime.notices", "set_log_level"),
    "set_num_threads": ("runtime.fork", "set_num_threads"),
    "unload_ipython_extension": ("notebook", "unload_ipython_extension"),
    "workbench": ("notebook.workbench", "workbench"),
}
# modules that are attributes of the package without being imported by name, as in TileLang
_MODULES = ("autotuner", "carver", "engine", "env", "language", "layout", "math", "profiler", "testing", "tools", "transform", "tune", "utils")

__all__ = [*sorted(name for name in _NAMES if "ipython" not in name), "frontend"]


def __getattr__(name: str) -> Any:
    if name in _NAMES:
        module, attribute = _NAMES[name]
        value = getattr(import_module(f"{__name__}.{module}"), attribute)
    elif name in _MODULES:
        value = import_module(f"{__name__}.{name}")
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_NAMES, *_MODULES})
