"""The process that a profiler watches: makes the calls of a folder (`saved_calls`), each between two readings of more memory than L2 holds.

So a call finds nothing of its arguments in the cache, as a first one does; and what it leaves there to be written back is written while somebody
counts: the reader writes nothing, so bytes that are written during it are the call's.

    python -m tileworkbench.runtime.counting_process FOLDER
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from .compiling import build
from .cuda_probes import MEMORY_TEXT, READ_BYTES
from .libcuda import require_driver
from .saved_calls import READER, Saved, load_calls

BLOCKS, THREADS = 528, 512
TIMES = 6  # so many times the bytes that L2 holds are read


class Sent:
    """A saved array in the GPU's memory, as the array interface describes it."""

    def __init__(self, memory: Any, saved: Saved) -> None:
        self.memory, self.dtype = memory, np.dtype(getattr(ml_dtypes, saved.dtype, saved.dtype))
        self.__cuda_array_interface__ = {
            "shape": saved.shape, "typestr": f"|V{self.dtype.itemsize}", "data": (memory.data.ptr, False), "version": 3,
        }  # fmt: skip


def main(folder: Path) -> None:
    """Make the calls of `folder`, in their order; the profiler counts each, and the reader behind it."""
    import cupy

    driver = require_driver()
    calls = load_calls(folder)
    cupy.cuda.Device(calls[0].ordinal).use()
    empty = emptier(cupy)
    sent: dict[str, Sent] = {}
    for call in calls:
        for saved in call.args:
            if isinstance(saved, Saved) and saved.file not in sent:
                sent[saved.file] = Sent(cupy.asarray(np.fromfile(folder / saved.file, np.uint8)), saved)
        kernel = build(call.code)
        bound = kernel.bind(*(sent[a.file] if isinstance(a, Saved) else a for a in call.args))
        kernel.executable.launch(bound)  # which loads it
        empty()
        cupy.cuda.runtime.deviceSynchronize()
        driver.call("cuProfilerStart")
        kernel.executable.launch(bound)
        empty()
        cupy.cuda.runtime.deviceSynchronize()
        driver.call("cuProfilerStop")


def emptier(cupy: Any) -> Callable[[], None]:
    """A function that starts the reading of so much memory that nothing else is left in L2."""
    l2_bytes = int(cupy.cuda.Device().attributes.get("L2CacheSize", 0)) or 64 << 20
    step = BLOCKS * THREADS * READ_BYTES
    data = cupy.zeros(-(-TIMES * l2_bytes // step) * step, cupy.uint8)
    module = cupy.RawModule(code=MEMORY_TEXT.replace("read_global", READER), options=("-std=c++17",))
    read, out = module.get_function(READER), cupy.zeros(THREADS, cupy.float32)

    def empty() -> None:
        read((BLOCKS,), (THREADS,), (data, np.int64(data.nbytes), np.int32(1), out))

    return empty


if __name__ == "__main__":
    main(Path(sys.argv[1]))
