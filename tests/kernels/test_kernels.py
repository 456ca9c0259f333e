"""The kernel library against float64 formulas, on the default target and in the interpreter, at even and ragged sizes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tileworkbench.base.cpu import AVX2, GENERIC, host_isa
from tileworkbench.base.dtypes import DType
from tileworkbench.codegen import openmp
from tileworkbench.frontend.prim_func import PrimFunc
from tileworkbench.ir.node import walk
from tileworkbench.ir.stmt import Copy, Gemm
from tileworkbench.kernels import attention, elementwise, gemm, linear, norms, softmax
from tileworkbench.runtime import target_c
from tileworkbench.runtime.jit import compile
from tileworkbench.transform import stream_stores

NARROWER = {"avx2": AVX2, "generic": GENERIC}  # the target c, restricted to what these have
TARGETS = ["c", *(name for name, isa in NARROWER.items() if isa.flags <= host_isa().flags), "interpret"]


def run(program: PrimFunc, target: str, *inputs: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    if target in NARROWER:
        with pytest.MonkeyPatch.context() as patch:
            for module in (target_c, openmp):
                patch.setattr(module, "host_isa", lambda: NARROWER[target])
            return run(program, "c", *inputs)
    out: np.ndarray[Any, Any] = np.asarray(compile(program, out_idx=-1, target=target)(*inputs), dtype=np.float64)
    return out


def random(seed: int, *shape: int, dtype: str = "float32") -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("shape", [(64, 96, 48), (37, 50, 29), (1, 5, 3)], ids=str)
def test_gemm(shape: tuple[int, int, int], dtype: str, target: str) -> None:
    m, n, k = shape
    a, b = random(1, m, k, dtype=dtype), random(2, k, n, dtype=dtype)
    got = run(gemm.program(m, n, k, 32, 32, 16, 2, dtype, dtype, True), target, a, b)
    wide = a.astype(np.float64), b.astype(np.float64)
    want = np.maximum(wide[0] @ wide[1], 0)
    allowed = k * 2.0**-24 * (np.abs(wide[0]) @ np.abs(wide[1])) + DType(dtype).unit_roundoff * want
    assert np.all(np.abs(got - want) <= allowed)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("is_nt", [False, True])
@pytest.mark.parametrize("size", [(128, 96), (37, 100), (1, 5)], ids=str)
def test_gemm_of_one_row(size: tuple[int, int], is_nt: bool, dtype: str, target: str) -> None:
    """By the library's schedule: a walk over B, whichever way it lies."""
    n, k = size
    kind = DType(dtype).to_numpy()
    a, b = random(1, 1, k).astype(kind), random(2, k, n).astype(kind)
    s = gemm.default_schedule(1, n, k, dtype, is_nt=is_nt)
    program = gemm.scheduled(1, n, k, s, dtype, "float32", True, is_nt)
    assert s.block_m == 1 and not any(isinstance(node, Gemm) for node in walk(program.kernel))
    got = run(program, target, a, np.ascontiguousarray(b.T) if is_nt else b)
    wide = a.astype(np.float64), b.astype(np.float64)
    assert np.all(np.abs(got - np.maximum(wide[0] @ wide[1], 0)) <= (k + 4) * 2.0**-24 * (np.abs(wide[0]) @ np.abs(wide[1])))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("shape", [(8, 64), (13, 40), (1, 1)], ids=str)
def test_softmax(shape: tuple[int, int], target: str) -> None:
    x = 5 * random(3, *shape)
    got = run(softmax.program(*shape, 4, "float32"), target, x)
    away = x.astype(np.float64) - x.max(axis=1, keepdims=True)
    want = np.exp(away) / np.exp(away).sum(axis=1, keepdims=True)
    assert np.all(np.abs(got - want) <= want * 2.0**-24 * (2 * np.abs(away) + 16 + shape[1]))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("shape", [(8, 64), (13, 40), (1, 1)], ids=str)
def test_norms(shape: tuple[int, int], target: str) -> None:
    """LayerNorm and RMSNorm, on rows far from 0: the mean cancels only what it must."""
    rows, cols = shape
    x, w, b = random(7, rows, cols) + 3, random(8, cols), random(9, cols)
    wide, eps = x.astype(np.float64), 1e-5
    away = wide - wide.mean(axis=1, keepdims=True)
    scale = 1 / np.sqrt((away**2).mean(axis=1, keepdims=True) + eps)
    want = away * scale * w + b
    got = run(norms.layernorm_program(rows, cols, 4, "float32", eps), target, x, w, b)
    slip = (cols + 8) * 2.0**-24 * np.abs(wide).mean(axis=1, keepdims=True)  # of the mean; then of the scale, relative
    assert np.all(
        np.abs(got - want) <= 4 * scale * np.abs(w) * (slip + np.abs(away) * ((cols + 8) * 2.0**-24 + slip * scale)) + 2.0**-22 * np.abs(want)
    )
    size = 1 / np.sqrt((wide**2).mean(axis=1, keepdims=True) + eps)
    got = run(norms.rmsnorm_program(rows, cols, 4, "float32", eps), target, x, w)
    assert np.all(np.abs(got - wide * size * w) <= (cols + 8) * 2.0**-24 * np.abs(wide * size * w))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("shape", [(37, 100), (1, 7)], ids=str)
def test_gemv(shape: tuple[int, int], target: str) -> None:
    n, k = shape
    x, w = random(13, k), random(14, n, k)
    wide = w.astype(np.float64) * x
    allowed = (k + 4) * 2.0**-24 * np.abs(wide).sum(axis=1)
    assert np.all(np.abs(run(linear.gemv_program(n, k, 8, 32, "float32"), target, x, w) - wide.sum(axis=1)) <= allowed)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("m", "n", "k", "group"), [(1, 37, 128, 32), (5, 37, 128, 32), (2, 1, 64, 64), (3, 16, 96, 8), (6, 70, 48, 6)], ids=str)
@pytest.mark.parametrize("by_rows", [False, True])
def test_linear_with_four_bit_weights(m: int, n: int, k: int, group: int, by_rows: bool, target: str) -> None:
    x, scales = random(15, m, k), np.abs(random(16, n, k // group))
    packed = np.random.default_rng(17).integers(0, 256, (n, k // 2)).astype("uint8")
    q = np.stack([packed & 15, packed >> 4], axis=-1).reshape(n, k).astype(np.float64) - 8
    w = q * np.repeat(scales.astype(np.float64), group, axis=1)
    block_k = max(group, 32) if group % 8 == 0 else 4 * group
    by_rows = by_rows and group % 8 == 0
    program = linear.w4_rows_program(m, n, k, group, 16, "float32") if by_rows else linear.w4_program(m, n, k, group, 4, 16, block_k, "float32")
    got = run(program, target, x, packed, scales)
    wide = x.astype(np.float64)
    assert np.all(np.abs(got - wide @ w.T) <= (k + 4) * 2.0**-24 * (np.abs(wide) @ np.abs(w.T)))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("size", [1000, 1])
def test_elementwise(size: int, target: str) -> None:
    x, y = random(10, size), random(11, size)
    assert np.array_equal(run(elementwise.add_program(size, 256, "float32"), target, x, y), (x + y).astype(np.float64))
    wide = x.astype(np.float64)
    want = 0.5 * wide * (1 + np.array([math.erf(v / math.sqrt(2)) for v in wide]))
    assert np.all(np.abs(run(elementwise.gelu_program(size, 256, "float32"), target, x) - want) <= 2.0**-21 * np.abs(wide))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("shape", [(64, 32), (37, 50), (1, 3)], ids=str)
def test_transpose(shape: tuple[int, int], target: str) -> None:
    x = random(12, *shape)
    assert np.array_equal(run(elementwise.transpose_program(*shape, 16, 16, "float32"), target, x), x.T)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("shape", [(256, 128), (256, 144), (128, 64), (100, 64)], ids=str)
def test_transpose_of_much(shape: tuple[int, int], target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the result outgrew the caches: in blocks that divide it, and in others; the default ones too."""
    monkeypatch.setattr(stream_stores, "_LARGE", 1)
    x = random(12, *shape)
    for block in ((64, 32), (32, 64), (16, 4), elementwise.transpose_schedule(*shape)):
        assert np.array_equal(run(elementwise.transpose_program(*shape, *block, "float32"), target, x), x.T)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("seq", "block_m"), [(64, 16), (50, 16), (7, 16), (64, 32), (75, 48), (7, 32)])
def test_attention(seq: int, block_m: int, causal: bool, target: str) -> None:
    """Sizes that the tiles divide, that end inside a tile, and that are smaller than one; rows one by one and in strips."""
    heads, dim = 2, 16
    q, k, v = (random(seed, 1, heads, seq, dim) for seed in (4, 5, 6))
    got = run(attention.program(1, heads, seq, dim, causal, block_m, 32, "float32"), target, q, k, v)
    want, allowed = exact_attention(q, k, v, causal)
    assert np.all(np.abs(got - want) <= allowed)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("seq", "block_m"), [(64, 32), (75, 48), (7, 16)])
def test_attention_in_bfloat16(seq: int, block_m: int, causal: bool, target: str) -> None:
    import ml_dtypes

    heads, dim = 2, 32
    q, k, v = (random(seed, 1, heads, seq, dim).astype(ml_dtypes.bfloat16) for seed in (4, 5, 6))
    got = run(attention.program(1, heads, seq, dim, causal, block_m, 32, "bfloat16"), target, q, k, v)
    wide = [t.astype(np.float64) for t in (q, k, v)]
    want, slip = exact_attention(*wide, causal)
    weighted, _ = exact_attention(wide[0], wide[1], np.abs(wide[2]), causal)  # weights are rounded, and so is the result
    assert np.all(np.abs(got - want) <= slip + DType("bfloat16").unit_roundoff * (1.01 * weighted + 1.01 * np.abs(want)))


def exact_attention(q: Any, k: Any, v: Any, causal: bool) -> tuple[Any, Any]:
    """The formula in float64, and how far rounding to float32 may lead: a score off by e changes its weight by the factor exp(e)."""
    seq, dim = q.shape[-2:]
    wide = [t.astype(np.float64) for t in (q, k, v)]
    scores = wide[0] @ wide[1].swapaxes(-1, -2) / np.sqrt(dim)
    slip = (dim + 8) * 2.0**-24 * (np.abs(wide[0]) @ np.abs(wide[1]).swapaxes(-1, -2) / np.sqrt(dim)).max(axis=-1, keepdims=True)
    if causal:
        scores = np.where(np.tril(np.ones((seq, seq), dtype=bool)), scores, -np.inf)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights /= weights.sum(axis=-1, keepdims=True)
    return weights @ wide[2], (2 * slip + 2 * (seq + 16) * 2.0**-24) * (weights @ np.abs(wide[2]))


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: gemm.default_schedule(1024, 1024, 1024), "1024x128x1024"),
        (lambda: gemm.default_schedule(1024, 1024, 1024, blocks=16), "1024x64x1024"),
        (lambda: gemm.default_schedule(512, 512, 512), "512x256x512"),
        (lambda: gemm.default_schedule(2048, 2048, 2048, "bfloat16"), "2048x256x2048"),
        (lambda: gemm.default_schedule(128, 11008, 4096), "128x256x512"),
        (lambda: gemm.default_schedule(5, 0, 300), "16x16x304"),
        (lambda: gemm.default_schedule(1, 11008, 4096), "1x1376x8"),
        (lambda: gemm.default_schedule(1, 11008, 4096, "bfloat16", is_nt=True), "1x64x4096"),
        (lambda: gemm.default_schedule(1, 4096, 4096, blocks=16), "1x256x8"),
        (lambda: gemm.default_schedule(1, 0, 3), "1x16x3"),
        (lambda: gemm.default_schedule(1, 64, 64, "int8"), "16x64x64"),
        (lambda: softmax.default_schedule(8192, 4096), "8 rows"),
        (lambda: softmax.default_schedule(100, 4096), "3 rows"),
        (lambda: softmax.default_schedule(8192, 512), "16 rows"),
        (lambda: softmax.default_schedule(8, 100_000), "1 row"),
        (lambda: attention.default_schedule(1024), "256x128"),
        (lambda: attention.default_schedule(1024, 128), "512x128"),
        (lambda: attention.default_schedule(1000, 128, "bfloat16"), "256x256"),
        (lambda: attention.default_schedule(2048, 128), "512x128"),
        (lambda: attention.default_schedule(384), "192x128"),
        (lambda: attention.default_schedule(1024, causal=True), "128x128"),
        (lambda: attention.default_schedule(2048, 64, "bfloat16", causal=True), "256x256"),
        (lambda: attention.default_schedule(7), "16x16"),
    ],
)
def test_default_schedules_fit_the_shape(make: Callable[[], object], text: str) -> None:
    assert str(make()) == text


def test_textbook_flops() -> None:
    assert gemm.flops(2, 3, 4) == 48
    assert attention.flops(1, 2, 8, 4) == 2 * attention.flops(1, 2, 8, 4, causal=True) == 4 * 2 * 64 * 4
    assert softmax.flops(3, 5) == 60


def test_a_product_in_parts_takes_the_steps_of_a_whole_one() -> None:
    """Both walk along k by one helper, so what is learnt of one holds for the other: the statements of a step are the same lines."""
    whole = gemm.scheduled(128, 128, 128, gemm.Schedule(64, 64, 32), "float32")
    parts = gemm.scheduled(128, 128, 128, gemm.Schedule(64, 64, 32, threads=128, split_k=2), "float32")
    steps = [[(s.span.file, s.span.line) for s in walk(p.kernel) if isinstance(s, Copy | Gemm) and s.span] for p in (whole, parts)]
    assert len(steps[0]) == 4 and steps[0][:3] == steps[1][:3]
