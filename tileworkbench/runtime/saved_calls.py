"""Calls of kernels in a folder, for another process: the kernels' parts, and copies of their arguments' bytes."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from . import cuda_arrays
from .code import Code

if TYPE_CHECKING:
    from .kernel import JITKernel

_CALLS = "calls.pickle"
READER = "tileworkbench_reads_all"  # the kernel that empties L2 behind a call


@dataclass(frozen=True, slots=True)
class Saved:
    """An array in a file of the folder: its bytes, as they lie in memory."""

    file: str
    shape: tuple[int, ...]
    dtype: str


@dataclass(frozen=True, slots=True)
class SavedCall:
    """One call of a kernel on GPU number `ordinal`: arrays as `Saved`, anything else as it is."""

    code: Code
    args: tuple[Any, ...]
    ordinal: int = 0


def save_calls(folder: Path, calls: Sequence[tuple[JITKernel, Sequence[Any]]]) -> str:
    """Write kernels with their arguments into `folder`; an array that several calls take once. Returns why that cannot be done, or ""."""
    known: dict[tuple[Any, ...], Saved] = {}
    out = []
    for kernel, args in calls:
        arrays = [value for value in args if is_in_memory(value)]
        saved = []
        for value in args:
            if not is_in_memory(value):
                saved.append(value)
                continue
            host = cuda_arrays.describe(value)
            if not host.is_contiguous:
                return f"no counters: an argument of {kernel.name} is not contiguous; count on a contiguous copy"
            key = (host.pointer, host.shape, host.dtype)
            if key not in known:
                known[key] = Saved(f"{len(known)}.bin", host.shape, host.dtype)
                np.ascontiguousarray(cuda_arrays.fetch(value)).reshape(-1).view(np.uint8).tofile(folder / known[key].file)
            saved.append(known[key])
        out.append(SavedCall(Code.of(kernel), tuple(saved), min(cuda_arrays.ordinals(arrays), default=0)))
    (folder / _CALLS).write_bytes(pickle.dumps(out, protocol=5))
    return ""


def load_calls(folder: Path) -> list[SavedCall]:
    """The calls of a folder that this program wrote."""
    found: list[SavedCall] = pickle.loads((folder / _CALLS).read_bytes())
    return found


def is_in_memory(value: Any) -> bool:
    """Whether an argument is an array, or a tensor, whose bytes can be fetched; a number is none, nor is one of NumPy's."""
    return hasattr(value, "__cuda_array_interface__") or hasattr(value, "data_ptr") or hasattr(value, "__dlpack__")
