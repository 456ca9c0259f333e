"""4-bit elements: two to a byte, which two threads may share."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gpu.programs import run

import tileworkbench.language as T
from tileworkbench.frontend.prim_func import PrimFunc
from tileworkbench.ir.device import DeviceCall
from tileworkbench.ir.expr import Buffer
from tileworkbench.ir.node import walk
from tileworkbench.transform.cuda_lowering import cuda_steps
from tileworkbench.transform.lowering import run_steps
from tileworkbench.transform.pack_nibbles import pack_nibbles


def packed(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    bits = np.append(values.reshape(-1).astype(np.uint8) & 15, np.zeros(values.size % 2, np.uint8))
    return (bits[0::2] | bits[1::2] << 4).astype(np.uint8)


def unpacked(data: np.ndarray[Any, Any], dtype: str, count: int) -> np.ndarray[Any, Any]:
    bits = np.stack([data & 15, data >> 4], -1).reshape(-1)[:count].astype(np.int8)
    return bits if dtype == "uint4" else (bits ^ 8) - 8


def steps(dtype: str, rows: int, columns: int) -> PrimFunc:
    """Through shared memory, registers and a view of bytes, with rows that begin within a byte where `columns` is odd."""

    @T.prim_func
    def program(X: T.Tensor((rows, columns), dtype), Y: T.Tensor((rows, columns), dtype), Z: T.Tensor((rows, columns), "float32")):  # type: ignore[valid-type]
        with T.Kernel(1, threads=64):
            s, f = T.alloc_shared((rows, columns), dtype), T.alloc_fragment((rows, columns), dtype)
            T.copy(X, s)
            T.copy(s, f)
            for i, j in T.Parallel(rows, columns):
                f[i, j] = f[i, j] + T.cast(1, dtype)
            T.copy(f, s)
            for i, j in T.Parallel(rows, columns):
                Z[i, j] = T.cast(s[i, columns - 1 - j], "float32")
                Y[i, j] = T.cast(s[i, j] * T.cast(3, dtype), dtype)

    return program


@pytest.mark.parametrize("dtype", ["int4", "uint4"])
@pytest.mark.parametrize("shape", [(8, 32), (5, 13)], ids=str)
def test_halves_of_bytes(dtype: str, shape: tuple[int, int]) -> None:
    low = 0 if dtype == "uint4" else -8
    x = np.random.default_rng(0).integers(low, low + 16, shape)
    count = x.size
    y, z = np.full(-(-count // 2), 0xFF, np.uint8), np.zeros(shape, np.float32)
    run(steps(dtype, *shape), packed(x), y, z)
    wrap = (lambda v: v & 15) if dtype == "uint4" else (lambda v: (v & 15 ^ 8) - 8)
    assert np.array_equal(z, wrap(x + 1)[:, ::-1])
    assert np.array_equal(unpacked(y, dtype, count), wrap(wrap(x + 1) * 3).reshape(-1))
    if count % 2:
        assert y[-1] >> 4 == 15  # the half behind the last element stays


def test_a_view_of_bytes_as_halves() -> None:
    @T.prim_func
    def halves(X: T.Tensor((32,), "uint8"), Y: T.Tensor((64,), "int32")):  # type: ignore[valid-type]
        with T.Kernel(1, threads=64):
            tx = T.get_thread_binding()
            s, mine = T.alloc_shared((32,), "uint8"), T.alloc_local((1,), "uint8")
            if tx < 32:
                s[tx] = X[tx]
            nibbles, parts = T.view(s, (64,), "int4"), T.view(mine, (2,), "uint4")
            mine[0] = T.cast(tx, "uint8")
            parts[1] = T.cast(5, "uint4")
            Y[tx] = T.cast(nibbles[tx], "int32") + T.cast(mine[0], "int32") * 100

    x, y = np.random.default_rng(1).integers(0, 256, 32).astype(np.uint8), np.zeros(64, np.int32)
    run(halves, x, y)
    assert np.array_equal(y, unpacked(x, "int4", 64) + (np.arange(64) % 16 + 80) * 100)


def test_who_writes_a_byte() -> None:
    """Memory of the block and of all is written a half at a time, a thread's own array is not packed; other kernels stay as they are."""
    seen: list[Any] = []
    run_steps(steps("int4", 8, 32).kernel, cuda_steps(80), lambda step, was, now: seen.append(now) if step.run is pack_nibbles else None)
    (packed_kernel,) = seen
    calls = [n for n in walk(packed_kernel) if isinstance(n, DeviceCall)]
    assert {c.name for c in calls} == {"twb_set_nibble"}
    assert {str(b.type) for c in calls for b in walk(c.args[0]) if isinstance(b, Buffer)} == {"uint8"}
    assert {b.name: str(b.type) for b in walk(packed_kernel) if isinstance(b, Buffer)}["f_r"] == "int4"
    other = steps("int8", 8, 32).kernel
    assert pack_nibbles(other) is other
