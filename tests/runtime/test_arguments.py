"""One test per fault of a call: the message names kernel and argument, what was expected, what came, and what to change."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from runtime.programs import matmul_program, scale_program

import tileworkbench
import tileworkbench.language as T
from tileworkbench.base.errors import ArgumentError, TileValueError
from tileworkbench.runtime.kernel import JITKernel

A = np.zeros((8, 4), np.float32)
B = np.zeros((4, 6), np.float32)


@pytest.fixture(scope="module")
def matmul() -> JITKernel:
    m, n, k = T.dynamic("m"), T.dynamic("n"), T.dynamic("k")
    return tileworkbench.compile(matmul_program(m, n, k), out_idx=-1, target="interpret")


@pytest.fixture(scope="module")
def static() -> JITKernel:
    return tileworkbench.compile(matmul_program(8, 6, 4), out_idx=-1, target="interpret")


@pytest.fixture(scope="module")
def scale() -> JITKernel:
    return tileworkbench.compile(scale_program(32), target="interpret")


def fault(call: Any, *args: Any, **kwargs: Any) -> str:
    with pytest.raises(ArgumentError) as caught:
        call(*args, **kwargs)
    return str(caught.value)


def test_too_few(matmul: JITKernel) -> None:
    assert fault(matmul, A) == "argument error: kernel matmul takes 2 arguments (A, B), got 1\n  hint: missing: B"


def test_output_passed(matmul: JITKernel) -> None:
    assert fault(matmul, A, B, A) == (
        "argument error: kernel matmul takes 2 arguments (A, B), got 3\n  hint: the outputs (C) are allocated and returned: do not pass them"
    )


def test_unknown_and_double_names(matmul: JITKernel) -> None:
    assert fault(matmul, A, Z=B) == "argument error: kernel matmul has no argument 'Z'\n  hint: its arguments are A, B"
    assert fault(matmul, A, A=B) == "argument error: kernel matmul got argument A twice"


def test_none(matmul: JITKernel) -> None:
    assert fault(matmul, None, B) == "argument error: kernel matmul, argument A: expected a float32 array of shape (m, k), got None"


def test_not_an_array(matmul: JITKernel) -> None:
    text = fault(matmul, [[1.0]], B)
    assert text.startswith("argument error: kernel matmul, argument A: expected a float32 array of shape (m, k), got a list\n  hint: pass an array")
    assert "got 3.0 (float)" in fault(matmul, 3.0, B)


def test_rank(matmul: JITKernel) -> None:
    assert fault(matmul, A[0], B) == "argument error: kernel matmul, argument A: expected 2 dims (m, k), got 1 dim (4,)\n  hint: reshape A"


def test_dtype(matmul: JITKernel) -> None:
    assert fault(matmul, A.astype(np.float64), B) == (
        "argument error: kernel matmul, argument A: expected dtype float32, got float64\n  hint: convert it: A.astype(np.float32)"
    )
    assert "got float32 of foreign byte order" in fault(matmul, A.astype(">f4"), B)


def test_bits_are_not_taken_for_numbers() -> None:
    kernel = tileworkbench.compile(matmul_program(8, 6, 4, "bfloat16"), out_idx=-1, target="interpret")
    text = fault(kernel, A.astype(np.uint16), B.astype(ml_dtypes.bfloat16))
    assert "expected dtype bfloat16, got uint16" in text
    assert "if it holds the bits of bfloat16: A.view(ml_dtypes.bfloat16); if it holds numbers: A.astype(ml_dtypes.bfloat16)" in text


def test_static_shape(static: JITKernel) -> None:
    assert fault(static, A[:7], B) == (
        "argument error: kernel matmul, argument A: expected shape (8, 4), got (7, 4)\n"
        "  hint: the kernel was compiled for these sizes; compile it for others, or use T.dynamic dims"
    )


def test_symbolic_dims_disagree(matmul: JITKernel) -> None:
    assert fault(matmul, A, np.zeros((5, 6), np.float32)) == (
        "argument error: kernel matmul, argument B: dim 0 is 5, but k is 4 from A.shape[1] (shape (k, n), got (5, 6))\n"
        "  hint: the sizes of the arguments must agree"
    )


def test_not_contiguous(matmul: JITKernel) -> None:
    assert fault(matmul, np.zeros((4, 8), np.float32).T, B) == (
        "argument error: kernel matmul, argument A: it is not contiguous: shape (8, 4) with strides (1, 8), expected (4, 1)\n"
        "  hint: pass np.ascontiguousarray(A), or declare it as T.StridedTensor"
    )


def test_all_faults_at_once(matmul: JITKernel) -> None:
    with pytest.raises(ValueError) as caught:
        matmul(A.astype(np.int8), B[0])
    assert "argument A: expected dtype float32, got int8" in str(caught.value)
    assert "argument B: expected 2 dims (k, n), got 1 dim (6,)" in str(caught.value)


def test_read_only_output(scale: JITKernel) -> None:
    x, y = np.zeros(32, np.float32), np.zeros(32, np.float32)
    y.flags.writeable = False
    assert fault(scale, x, 2.0, y) == (
        "argument error: kernel scale, argument B: the kernel writes it, but it is read-only\n  hint: pass a copy: B.copy()"
    )
    x.flags.writeable = False
    scale(x, 2.0, np.zeros(32, np.float32))  # an input may be read-only


def test_unaligned(scale: JITKernel) -> None:
    raw = np.zeros(32 * 4 + 1, np.uint8)[1:].view(np.float32)
    assert "its elements are not aligned in memory\n  hint: pass a copy: A.copy()" in fault(scale, raw, 2.0, np.zeros(32, np.float32))


def test_masked_array(scale: JITKernel) -> None:
    text = fault(scale, np.ma.masked_array(np.zeros(32, np.float32)), 2.0, np.zeros(32, np.float32))
    assert text.endswith("got a masked array\n  hint: the mask would be lost: pass value.filled(...)")


def test_scalars(scale: JITKernel) -> None:
    x, y = np.ones(32, np.float32), np.zeros(32, np.float32)
    assert "argument factor: expected a number (float32), got str" in fault(scale, x, "2", y)
    scale(x, np.float32(2.0), y)
    scale(x, 3, y)
    assert (y == 3).all()


@pytest.mark.parametrize(("value", "text"), [(2.5, "expected a whole number (int8), got 2.5"), (300, "300 does not fit int8 (-128 to 127)")])
def test_integer_scalar_out_of_range(value: float, text: str) -> None:
    @T.prim_func
    def shift(A: T.Tensor((4,), "int8"), by: T.int8):
        with T.Kernel(1, threads=1):
            for i in T.Parallel(4):
                A[i] = A[i] + by

    kernel = tileworkbench.compile(shift, target="interpret")
    assert text in fault(kernel, np.zeros(4, np.int8), value)
    array = np.zeros(4, np.int8)
    kernel(array, 5.0)  # a whole number, whatever its type
    assert array.tolist() == [5] * 4


def test_solved_dims() -> None:
    m = T.dynamic("m")

    @T.prim_func
    def shifted(A: T.Tensor((2 * m + 1,), "float32"), B: T.Tensor((m,), "float32")):
        with T.Kernel(1, threads=1):
            for i in T.serial(m):
                B[i] = A[2 * i + 1]

    kernel = tileworkbench.compile(shifted, target="interpret", out_idx=-1)
    assert kernel(np.arange(7, dtype=np.float32)).tolist() == [1, 3, 5]
    assert fault(kernel, np.zeros(8, np.float32)) == (
        "argument error: kernel shifted, argument A: dim 0 is 8, but 2 * m + 1 cannot have that value\n  hint: m is found from A.shape[0]"
    )


def test_dim_that_no_argument_shows() -> None:
    m = T.dynamic("m")

    @T.prim_func
    def hidden(A: T.Tensor((T.ceildiv(m, 4),), "float32")):
        with T.Kernel(1, threads=1):
            for i in T.serial(m):
                A[i // 4] = 0.0

    with pytest.raises(TileValueError, match="the symbolic dim m of kernel hidden cannot be found from its arguments"):
        tileworkbench.compile(hidden, target="interpret")


def test_unused_tensor_may_be_none() -> None:
    @T.prim_func
    def some(A: T.Tensor((4,), "float32"), unused: T.Tensor((4,), "float32")):
        with T.Kernel(1, threads=1):
            for i in T.Parallel(4):
                A[i] = 1.0

    for target in ("interpret", "c"):
        a = np.zeros(4, np.float32)
        kernel = tileworkbench.compile(some, target=target)
        kernel(a, None)
        assert a.tolist() == [1] * 4
        assert "argument A: expected a float32 array of shape (4,), got None" in fault(kernel, None, None)


def test_torch_faults(matmul: JITKernel) -> None:
    torch = pytest.importorskip("torch")
    a, b = torch.zeros(8, 4), torch.zeros(4, 6)
    assert "expected dtype float32, got float16\n  hint: convert it: A.to(torch.float32)" in fault(matmul, a.half(), b)
    assert "hint: pass A.contiguous()" in fault(matmul, torch.zeros(4, 8).T, b)
    assert "got a tensor on meta" in fault(matmul, torch.zeros(8, 4, device="meta"), b)
    assert "got a tensor of layout torch.sparse_coo\n  hint: make it dense" in fault(matmul, a.to_sparse(), b)


@pytest.mark.parametrize("target", ["c", "interpret"])
def test_arrays_that_begin_at_one_place_must_be_one_array(target: str) -> None:
    """Passes count on it: a part of an array is refused beside the whole on the first call and, by the short way, on later ones."""

    @T.prim_func
    def head(X: T.Tensor((64,), "float32"), Y: T.Tensor((32,), "float32")):
        with T.Kernel(1):
            for i in T.Parallel(32):
                Y[i] = X[i] + 1.0

    kernel = tileworkbench.compile(head, target=target)
    x = np.ones(64, np.float32)
    for _ in range(3):
        said = fault(kernel, x, x[:32])
        assert "arguments X and Y: they share 128 bytes of memory, and the kernel writes Y\n  hint: pass a copy of one of them" in said
        kernel(x, np.zeros(32, np.float32))
    assert x.tolist() == [1.0] * 64
