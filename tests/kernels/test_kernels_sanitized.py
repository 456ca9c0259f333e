"""The library's kernels as a GPU would run them: the sanitizer finds nothing, and products are where a GPU has units for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tileworkbench.kernels import attention, elementwise, gemm, linear, norms, softmax
from tileworkbench.runtime.kernel import JITKernel

Array = np.ndarray[Any, Any]
Made = tuple[Callable[[str], JITKernel], tuple[Array, ...]]


def numbers(*shape: int, dtype: Any = np.float32, seed: int = 0) -> Array:
    return np.random.default_rng((seed, *shape)).standard_normal(shape).astype(dtype)


def product(m: int, n: int, k: int, dtype: Any, **how: Any) -> Made:
    kind = np.dtype(dtype).name
    b = (n, k) if how.get("is_nt") else (k, n)
    arrays = [(numbers(*s, dtype=np.float32) * 9).astype(dtype) for s in ((m, k), b)]
    return lambda t: gemm.gemm(m, n, k, dtype=kind, target=t, **how), tuple(arrays)


def heads(count: int, seq: int, dim: int, dtype: Any, causal: bool) -> Made:
    arrays = tuple(numbers(1, count, seq, dim, dtype=dtype, seed=i) for i in range(3))
    return lambda t: attention.attention(1, count, seq, dim, dtype=np.dtype(dtype).name, causal=causal, target=t), arrays


F16, BF16, F8 = np.float16, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn
ROWS = numbers(5, 300)
KERNELS: dict[str, Made] = {
    "gemm f16": product(256, 128, 128, F16),
    "gemm f16 ragged relu": product(200, 136, 72, F16, out_dtype="float32", relu=True),
    "gemm bf16 nt": product(128, 128, 64, BF16, is_nt=True),
    "gemm int8": product(64, 64, 64, np.int8),
    "gemm f32": product(96, 64, 32, np.float32),
    "scaled gemm e4m3": (
        lambda t: gemm.scaled_gemm(128, 128, 128, target=t),
        (numbers(128, 128, dtype=F8), numbers(128, 128, dtype=F8, seed=1), np.ones(1, np.float32)),
    ),
    "attention f16": heads(2, 256, 64, F16, causal=False),
    "attention bf16 causal, ragged": heads(1, 200, 128, BF16, causal=True),
    "attention f32": heads(1, 64, 32, np.float32, causal=False),
    "softmax": (lambda t: softmax.softmax(5, 300, target=t), (ROWS,)),
    "softmax f16": (lambda t: softmax.softmax(3, 1024, dtype="float16", target=t), (numbers(3, 1024, dtype=F16),)),
    "layernorm": (lambda t: norms.layernorm(5, 300, target=t), (ROWS, ROWS[0], ROWS[1])),
    "rmsnorm bf16": (lambda t: norms.rmsnorm(5, 256, dtype="bfloat16", target=t), (numbers(5, 256, dtype=BF16), numbers(256, dtype=BF16))),
    "add": (lambda t: elementwise.add(1000, target=t), (ROWS.reshape(-1)[:1000], ROWS.reshape(-1)[500:])),
    "gelu f16": (lambda t: elementwise.gelu(1000, dtype="float16", target=t), (numbers(1000, dtype=F16),)),
    "transpose": (lambda t: elementwise.transpose(70, 45, target=t), (numbers(70, 45),)),
    "gemv bf16": (lambda t: linear.gemv(24, 512, dtype="bfloat16", target=t), (numbers(512, dtype=BF16), numbers(24, 512, dtype=BF16))),
}
ON_UNITS = ("gemm f16", "gemm f16 ragged relu", "gemm bf16 nt", "attention f16", "attention bf16 causal, ragged")


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("name", KERNELS)
def test_nothing_is_found(name: str, arch: str) -> None:
    make, arrays = KERNELS[name]
    kernel = make(f"emulate:{arch}")
    assert kernel.sanitize(*arrays).is_clean, str(kernel.sanitize(*arrays))
    if name in ON_UNITS:
        total = kernel.count(*arrays).total
        assert total.mma_flops + total.wgmma_flops > 0
