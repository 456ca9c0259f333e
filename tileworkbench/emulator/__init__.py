"""The emulator: CUDA text that runs on a CPU, thread by thread, and says what it did wrong and what it moved.

`source` turns emitted CUDA text into C++ for the host's compiler, `Program` loads the library that the compiler made and runs kernels over NumPy
arrays: blocks one after the other, the blocks of a cluster together, one fiber a thread. Asynchronous copies and products happen as late as the
program allows, so that a missing wait shows. Who compiles is a room higher up (`runtime.emulating`).
"""

from __future__ import annotations

from .counters import COUNTERS, Counters, LineCounters
from .findings import Finding
from .program import Emulated, FailedAssertion, Program, RunResult
from .tensor_map import TensorMap
from .text import Kernel, Source, runtime_files, source

__all__ = [
    "COUNTERS",
    "Counters",
    "Emulated",
    "FailedAssertion",
    "Finding",
    "Kernel",
    "LineCounters",
    "Program",
    "RunResult",
    "Source",
    "TensorMap",
    "runtime_files",
    "source",
]
