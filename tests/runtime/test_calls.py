"""Calls that must work: every array library and dtype, no copies, outputs of the caller's kind, symbolic and zero sizes, strides."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from runtime.programs import copy_program, matmul_program, scale_program

import tileworkbench
import tileworkbench.language as T
from tileworkbench.base.errors import DeviceAssertError

TARGETS = ("c", "interpret")
DTYPES = {
    "float64": np.float64, "float32": np.float32, "float16": np.float16, "bfloat16": ml_dtypes.bfloat16, "float8_e4m3fn": ml_dtypes.float8_e4m3fn,
    "float8_e5m2": ml_dtypes.float8_e5m2, "int8": np.int8, "int16": np.int16, "int32": np.int32, "int64": np.int64, "uint8": np.uint8,
    "uint16": np.uint16, "uint32": np.uint32, "uint64": np.uint64, "bool": np.bool_,
}  # fmt: skip


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype_in_numpy(dtype: str, target: str) -> None:
    kernel = tileworkbench.compile(copy_program((3, 5), dtype), out_idx=-1, target=target)
    a = (np.arange(15).reshape(3, 5) % 2).astype(DTYPES[dtype])
    for _ in range(3):  # the long way, the one that prepares, and the short one
        b = kernel(a)
        assert type(b) is np.ndarray
        assert b.dtype == a.dtype
        assert b.tobytes() == a.tobytes()


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_no_dims_at_all(dtype: str) -> None:
    @T.prim_func
    def double(A: T.Tensor((), dtype), B: T.Tensor((), dtype)):
        with T.Kernel(1, threads=1):
            B[()] = A[()] + A[()]

    kernel = tileworkbench.compile(double, out_idx=-1)
    for _ in range(4):
        got = kernel(np.asarray(1.5, DTYPES[dtype]))
        assert got.shape == ()
        assert got == 3


@pytest.mark.parametrize("dtype", [d for d in DTYPES if d not in ("uint16", "uint32", "uint64")])
def test_every_dtype_in_torch(dtype: str) -> None:
    torch = pytest.importorskip("torch")
    kernel = tileworkbench.compile(copy_program((3, 5), dtype), out_idx=-1)
    a = (torch.arange(15).reshape(3, 5) % 2).to(getattr(torch, dtype))
    for _ in range(3):
        b = kernel(a)
        assert isinstance(b, torch.Tensor)
        assert b.dtype == a.dtype
        assert torch.equal(b.float(), a.float())


@pytest.mark.parametrize("target", TARGETS)
def test_outputs_are_written_in_place(target: str) -> None:
    torch = pytest.importorskip("torch")
    kernel = tileworkbench.compile(scale_program(32), target=target)
    for make in (lambda: np.ones(32, np.float32), lambda: torch.ones(32), lambda: torch.ones(32, requires_grad=True)):
        x, y = make(), make()
        for factor in (2.0, 3.0, 4.0):
            assert kernel(x, factor, y) is None
            assert (y == factor).all()


def test_kinds_may_change_from_call_to_call() -> None:
    torch = pytest.importorskip("torch")
    kernel = tileworkbench.compile(scale_program(T.dynamic("n")))
    for n in (32, 5, 32, 1, 64):
        for x, y in ((np.ones(n, np.float32), np.zeros(n, np.float32)), (torch.ones(n), torch.zeros(n))):
            kernel(x, 2.0, y)
            kernel(x, 5, y)
            assert (y == 5).all()


def test_short_way_still_checks() -> None:
    kernel = tileworkbench.compile(scale_program(T.dynamic("n")))
    x, y = np.ones(8, np.float32), np.zeros(8, np.float32)
    for _ in range(4):
        kernel(x, 2.0, y)
    locked = y.copy()
    locked.flags.writeable = False
    bad: list[tuple[Any, Any, Any]] = [
        (x.astype(np.float64), 2.0, y),
        (x[::2], 2.0, y[:4]),
        (x, 2.0, y[:4]),
        (x, "2", y),
        (x, 2.0, locked),
        (x.reshape(2, 4), 2.0, y),
        (None, 2.0, y),
    ]
    for args in bad:
        with pytest.raises(ValueError):
            kernel(*args)
        with pytest.raises(ValueError):
            kernel(*args[:2])
    kernel(x, 7.0, y)
    assert (y == 7).all()


def test_short_way_checks_alignment_and_writability() -> None:
    kernel = tileworkbench.compile(scale_program(T.dynamic("n")))
    odd = np.zeros(8 * 4 + 1, np.uint8)[1:].view(np.float32)
    empty, locked = np.zeros(0, np.float32), np.zeros(8, np.float32)
    locked.flags.writeable = False
    for x in (np.ones(8, np.float32), empty):  # the second prepares the way that reads the array interface
        for _ in range(4):
            kernel(x, 2.0, x.copy())
        with pytest.raises(ValueError, match="argument A: its elements are not aligned"):
            kernel(odd, 2.0, np.zeros(8, np.float32))
        for _ in range(4):
            kernel(x, 2.0, x.copy())
        with pytest.raises(ValueError, match="argument B: the kernel writes it, but it is read-only"):
            kernel(np.ones(8, np.float32), 2.0, locked)


@pytest.mark.parametrize("target", TARGETS)
def test_symbolic_sizes(target: str) -> None:
    m, n, k = T.dynamic("m, n, k")
    kernel = tileworkbench.compile(matmul_program(m, n, k), out_idx=-1, target=target)
    rng = np.random.default_rng(0)
    for sizes in ((16, 16, 16), (5, 7, 9), (1, 1, 1), (33, 2, 17), (0, 4, 3), (4, 0, 3), (4, 3, 0)):
        a = rng.standard_normal((sizes[0], sizes[2])).astype(np.float32)
        b = rng.standard_normal((sizes[2], sizes[1])).astype(np.float32)
        for _ in range(3):
            c = kernel(a, b)
            np.testing.assert_allclose(c, a.astype(np.float64) @ b, rtol=1e-5, atol=sizes[2] * 2.0**-22)


@pytest.mark.parametrize("target", TARGETS)
def test_strides(target: str) -> None:
    n, s = T.dynamic("n, s")

    @T.prim_func
    def gather(A: T.StridedTensor((4, n), (s, 2), "float32"), B: T.Tensor((4, n), "float32")):
        with T.Kernel(4, threads=32) as bx:
            for j in T.serial(n):
                B[bx, j] = A[bx, j] + 1.0

    kernel = tileworkbench.compile(gather, out_idx=-1, target=target)
    whole = np.arange(80, dtype=np.float32).reshape(4, 20)
    for view in (whole[:, ::2], whole[:, 4:14:2]):
        for _ in range(3):
            np.testing.assert_array_equal(kernel(view), view + 1)
    with pytest.raises(ValueError, match="expected stride 2 in dim 1, got 1"):
        kernel(whole)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("shape", [(2, 6), (3, 8)])
def test_int4_is_packed_and_unpacked(shape: tuple[int, int], target: str) -> None:
    kernel = tileworkbench.compile(copy_program(shape, "int4"), target=target)
    values = (np.arange(shape[0] * shape[1]).reshape(shape) % 16 - 8).astype(ml_dtypes.int4)
    out = np.zeros(shape, ml_dtypes.int4)
    kernel(values, out)
    np.testing.assert_array_equal(out.astype(int), values.astype(int))
    returning = tileworkbench.compile(copy_program(shape, "int4"), target=target, out_idx=-1)
    got = returning(values)
    assert got.dtype == values.dtype
    np.testing.assert_array_equal(got.astype(int), values.astype(int))
    packed = (values.astype(int) & 15)[:, 0::2] | (values.astype(int) & 15)[:, 1::2] << 4
    for host in (packed.astype(np.uint8), packed.astype(np.uint8).view(np.int8)):
        got = returning(host)
        assert got.shape == (shape[0], shape[1] // 2)
        assert got.tobytes() == host.tobytes()


@pytest.mark.parametrize("target", TARGETS)
def test_bool_takes_int8(target: str) -> None:
    kernel = tileworkbench.compile(copy_program((1, 4), "bool"), out_idx=-1, target=target)
    for host in (np.array([[0, 1, 1, 0]], np.int8), np.array([[0, 1, 1, 0]], np.uint8), np.array([[0, -3, 7, 0]], np.int8)):
        assert kernel(host).tolist() == [[False, True, True, False]]


def test_no_copy() -> None:
    """The kernel writes through a view into the middle of the caller's memory."""
    kernel = tileworkbench.compile(scale_program(32))
    memory = np.zeros(96, np.float32)
    for _ in range(3):
        memory[:] = 0
        kernel(np.ones(32, np.float32), 1.0, memory[32:64])
        assert memory.sum() == 32
        assert memory[32:64].sum() == 32


def test_dlpack_only_object() -> None:
    class Foreign:
        """Nothing but DLPack, as an array of a library that we do not know."""

        def __init__(self, array: np.ndarray) -> None:
            self.array = array

        def __dlpack__(self, **options: Any) -> Any:
            return self.array.__dlpack__(**options)

        def __dlpack_device__(self) -> tuple[int, int]:
            return self.array.__dlpack_device__()

    kernel = tileworkbench.compile(scale_program(32))
    x, y = np.ones(32, np.float32), np.zeros(32, np.float32)
    kernel(Foreign(x), 3.0, Foreign(y))
    assert (y == 3).all()


def test_output_in_a_library_that_speaks_the_array_api() -> None:
    class Handed:
        def __init__(self, array: np.ndarray) -> None:
            self.array = array

    class Space:
        from_dlpack = staticmethod(Handed)

    class Foreign:
        """An array of some library, with its array namespace."""

        def __init__(self, array: np.ndarray) -> None:
            self.array = array

        def __dlpack__(self, **options: Any) -> Any:
            return self.array.__dlpack__(**options)

        def __dlpack_device__(self) -> tuple[int, int]:
            return self.array.__dlpack_device__()

        def __array_namespace__(self) -> type:
            return Space

    kernel = tileworkbench.compile(copy_program((1, 4), "float32"), out_idx=-1)
    for _ in range(3):
        got = kernel(Foreign(np.arange(4, dtype=np.float32).reshape(1, 4)))
        assert isinstance(got, Handed)
        assert got.array.tolist() == [[0, 1, 2, 3]]


def test_gpu_memory_is_refused() -> None:
    class OnGpu:
        __cuda_array_interface__ = {"shape": (32,), "typestr": "<f4", "data": (1, False), "version": 3}

    class OnOtherDevice:
        def __dlpack__(self, **_: Any) -> Any:
            raise AssertionError

        def __dlpack_device__(self) -> tuple[int, int]:
            return (2, 0)

    kernel = tileworkbench.compile(scale_program(32))
    y = np.zeros(32, np.float32)
    with pytest.raises(ValueError, match="array in GPU memory\n  hint: move it to the host"):
        kernel(OnGpu(), 1.0, y)
    with pytest.raises(ValueError, match="array on DLPack device 2\n  hint: move it to the host; this target runs on the CPU"):
        kernel(OnOtherDevice(), 1.0, y)


def test_scalar_default_and_keywords() -> None:
    @T.prim_func
    def shift(A: T.Tensor((4,), "int32"), by: T.int32 = 3):
        with T.Kernel(1, threads=1):
            for i in T.Parallel(4):
                A[i] = A[i] + by

    kernel = tileworkbench.compile(shift)
    a = np.zeros(4, np.int32)
    for _ in range(3):
        kernel(a)
    assert a.tolist() == [9] * 4
    kernel(by=1, A=a)
    assert a.tolist() == [10] * 4


@pytest.mark.parametrize("target", ["c", "interpret"])
def test_an_assertion_behind_one_that_always_holds(target: str) -> None:
    @T.prim_func
    def checks(A: T.Tensor((8,), "float32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(8):
                T.device_assert(8 > 3, "never")
                T.device_assert(A[i] >= 0, "the second")
                A[i] = 1

    with pytest.raises(DeviceAssertError, match="the second") as caught:
        tileworkbench.compile(checks, target=target)(-np.ones(8, np.float32))
    assert caught.value.span is not None


def test_device_assert() -> None:
    @T.prim_func
    def checked(A: T.Tensor((4,), "int32")):
        with T.Kernel(1, threads=1):
            for i in T.serial(4):
                T.device_assert(A[i] >= 0, "negative")

    kernel = tileworkbench.compile(checked)
    for _ in range(3):
        kernel(np.zeros(4, np.int32))
    with pytest.raises(AssertionError, match="negative") as caught:
        kernel(np.array([0, -1, 0, 0], np.int32))
    assert 'T.device_assert(A[i] >= 0, "negative")' in str(caught.value)
