"""Tensor maps of the driver, for the tests that run on a GPU."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from tileworkbench.emulator import TensorMap

_TYPES = {"uint8": 0, "uint16": 1, "uint32": 2, "int32": 3, "float16": 6, "float32": 7, "bfloat16": 9}


def encode(there: Any, spec: TensorMap) -> Any:
    """The 128 bytes that `cuTensorMapEncodeTiled` makes for the array at `there`, as CuPy passes them by value."""
    dims = spec.dims or tuple(reversed(spec.array.shape))
    strides = spec.strides or tuple(reversed(spec.array.strides[:-1]))
    n = len(dims)
    room = ctypes.create_string_buffer(256)
    at = (ctypes.addressof(room) + 63) & ~63
    code = ctypes.CDLL("libcuda.so.1").cuTensorMapEncodeTiled(
        ctypes.c_void_p(at), _TYPES[spec.array.dtype.name], ctypes.c_uint32(n), ctypes.c_void_p(there.data.ptr), (ctypes.c_uint64 * n)(*dims),
        (ctypes.c_uint64 * max(1, n - 1))(*strides), (ctypes.c_uint32 * n)(*spec.box), (ctypes.c_uint32 * n)(*([1] * n)), 0,
        {0: 0, 32: 1, 64: 2, 128: 3}[spec.swizzle], 2, int(spec.fill_nan),
    )  # fmt: skip
    assert code == 0, f"cuTensorMapEncodeTiled said {code}"
    return np.frombuffer(ctypes.string_at(at, 128), dtype="V128").copy()
