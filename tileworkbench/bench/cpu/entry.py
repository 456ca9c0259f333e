"""What a contestant brings to a problem: ways to do the work once, into arrays that are there, and the result.

All contestants get the same numbers. Nobody allocates or converts in the timed call; where a library's function makes its own result, the result
before it is freed first and `match` has the allocator keep its memory, so that no fresh pages are paid for.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from .problems import SCALE_COLUMNS, Problem

EPS = 1e-5
LINE = 64  # bytes of a cache line
Run = Callable[[], Any]


@dataclass(frozen=True, slots=True)
class Entry:
    """A contestant's work: each of `ways` does it once (the fastest counts), `result` gives the output as float64, `version` names what ran."""

    ways: dict[str, Run]
    result: Callable[[], Any]
    version: str
    schedule: str = ""


def one_way(run: Run, out: Any, version: str, schedule: str = "") -> Entry:
    """An entry that writes into the NumPy array `out`."""
    return Entry({"": run}, lambda: out.astype(np.float64), version, schedule)


def room(shape: tuple[int, ...], dtype: Any) -> Any:
    """An array that begins at a cache line, as PyTorch makes its own; NumPy's large ones begin 16 bytes behind one."""
    size = math.prod(shape) * np.dtype(dtype).itemsize
    memory = np.empty(size + LINE, np.uint8)
    skip = -memory.ctypes.data % LINE
    return memory[skip : skip + size].view(dtype).reshape(shape)


def inputs(p: Problem) -> list[Any]:
    """The problem's arrays, from a fixed seed: standard normal floats, or all values of an integer type."""
    made = []
    for array in _values(p):
        made.append(room(array.shape, array.dtype))
        made[-1][...] = array
    return made


def _values(p: Problem) -> list[Any]:
    rng = np.random.default_rng(12345)

    def normal(*shape: int) -> Any:
        return rng.standard_normal(shape, dtype=np.float32)

    match p.kind:
        case "gemm":
            m, n, k = p.shape
            if p.dtype == "int8":
                return [rng.integers(-128, 128, size, dtype=np.int8) for size in ((m, k), (k, n))]
            return [_as(normal(m, k), p.dtype), _as(normal(k, n), p.dtype)]
        case "gemv":
            n, k = p.shape
            return [_as(normal(k), p.dtype), _as(normal(n, k), p.dtype)]
        case "w4":
            m, n, k = p.shape
            return [normal(m, k), rng.integers(0, 256, (n, k // 2), dtype=np.uint8), np.abs(normal(n, k // SCALE_COLUMNS))]
        case "attention":
            return [_as(normal(*p.shape), p.dtype) for _ in range(3)]
        case "layernorm" | "rmsnorm":
            extra = [normal(p.shape[1]) for _ in range(2 if p.kind == "layernorm" else 1)]
            return [normal(*p.shape), *extra]
        case "add":
            return [normal(*p.shape), normal(*p.shape)]
        case _:
            return [normal(*p.shape)]


def _as(a: Any, dtype: str) -> Any:
    if dtype != "bfloat16":
        return a
    import ml_dtypes

    return a.astype(ml_dtypes.bfloat16)


def unpacked(packed: Any, scales: Any) -> Any:
    """Four-bit weights as float32."""
    q = np.stack([packed & 15, packed >> 4], axis=-1).reshape(len(packed), -1).astype(np.float32) - 8
    return q * np.repeat(scales, SCALE_COLUMNS, axis=1)
