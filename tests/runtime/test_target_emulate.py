"""The library's tile programs as CUDA text in the emulator, and the text of one of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from conftest import Golden

import tileworkbench.language as T
from tileworkbench.frontend.prim_func import PrimFunc
from tileworkbench.kernels import attention, gemm, norms, softmax
from tileworkbench.runtime.options import Options
from tileworkbench.runtime.target_emulate import EmulateTarget
from tileworkbench.runtime.translate_cuda import translate_cuda


def run(program: PrimFunc, *arrays: Any) -> None:
    """Change `arrays` in place."""
    made = EmulateTarget().compile(program.kernel, Options(arch="sm_80"))
    for kernel in made.made.kernels:
        grid = [int(g.value) for g in kernel.grid]  # type: ignore[attr-defined]
        made.program[kernel.name](grid, kernel.block, arrays, shared_bytes=kernel.shared_bytes)


def random(seed: int, *shape: int, dtype: str = "float32") -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("shape", [(32, 64, 32), (37, 50, 29)], ids=str)
def test_gemm(shape: tuple[int, int, int], dtype: str) -> None:
    m, n, k = shape
    a, b, c = random(0, m, k, dtype=dtype), random(1, k, n, dtype=dtype), np.zeros((m, n), dtype)
    run(gemm.program(m, n, k, 32, 32, 16, 2, dtype, dtype, True), a, b, c)
    want = np.maximum(a.astype(np.float64) @ b.astype(np.float64), 0)
    np.testing.assert_allclose(c.astype(np.float64), want, atol=k * 4 * float(np.finfo(dtype).eps), rtol=0)


def test_softmax_of_ragged_rows() -> None:
    x, y = random(2, 5, 100), np.zeros((5, 100), np.float32)
    run(softmax.program(5, 100, 2, "float32"), x, y)
    e = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
    np.testing.assert_allclose(y, e / e.sum(1, keepdims=True), atol=1e-6)


@pytest.mark.parametrize("causal", [False, True])
def test_attention(causal: bool) -> None:
    q, k, v = (random(s, 1, 1, 48, 16) for s in range(3))
    out = np.zeros_like(q)
    run(attention.program(1, 1, 48, 16, causal, 32, 16, "float32"), q, k, v, out)
    scores = q[0, 0].astype(np.float64) @ k[0, 0].T / 4.0
    if causal:
        scores[np.triu_indices(48, 1)] = -np.inf
    e = np.exp(scores - scores.max(1, keepdims=True))
    np.testing.assert_allclose(out[0, 0], e / e.sum(1, keepdims=True) @ v[0, 0], atol=2e-5)


def test_rmsnorm() -> None:
    x, w, y = random(4, 6, 96), random(5, 96), np.zeros((6, 96), np.float32)
    run(norms.rmsnorm_program(6, 96, 4, "float32", 1e-5), x, w, y)
    want = x / np.sqrt((x.astype(np.float64) ** 2).mean(1, keepdims=True) + 1e-5) * w
    np.testing.assert_allclose(y, want, atol=1e-5)


def test_text_of_a_softmax(golden: Golden) -> None:
    source, records = translate_cuda(softmax.program(64, 128, 4, "float32").kernel, "sm_80")
    golden(source.text, "softmax.cu")
    assert [r.name for r in records][-1] == "narrow_indices"
    (kernel,) = source.kernels
    assert (kernel.name, kernel.block) == ("softmax", (128, 1, 1))


def sanitized(program: PrimFunc, *arrays: Any) -> list[str]:
    """The faults of a run that changes `arrays` in place."""
    made = EmulateTarget().compile(program.kernel, Options(arch="sm_80"))
    found: list[str] = []
    for kernel in made.made.kernels:
        grid = [int(g.value) for g in kernel.grid]  # type: ignore[attr-defined]
        result = made.program[kernel.name].run(grid, kernel.block, arrays, shared_bytes=kernel.shared_bytes, sanitize=True)
        found += [str(f) for f in result.findings]
    return found


def test_conditions_are_read_before_the_body_changes_them() -> None:
    @T.prim_func
    def counts(X: T.Tensor((4,), "int32"), Y: T.Tensor((4,), "int32")):  # type: ignore[valid-type]
        with T.Kernel(1, threads=64):
            s = T.alloc_shared((4,), "int32")
            T.copy(X, s)
            while s[0] > 0:
                s[0] = s[0] - 1
                s[1] = s[1] + 2
            if s[1] > 3:
                s[1] = 0
            for _ in T.serial(s[2]):  # the end is what it was before the first turn
                s[2] = s[2] + 1
                s[3] = s[3] + 10
            T.copy(s, Y)

    x, y = np.array([3, 0, 2, 1], np.int32), np.zeros(4, np.int32)
    assert sanitized(counts, x, y) == []
    assert y.tolist() == [0, 0, 4, 21]
