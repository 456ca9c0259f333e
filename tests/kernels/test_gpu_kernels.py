"""Every kernel of the library as CUDA text, run thread by thread: small and ragged sizes, against NumPy in float64."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tileworkbench.base.dtypes import DType
from tileworkbench.base.machine import find_machine
from tileworkbench.kernels import attention, elementwise, gemm, linear, norms, softmax
from tileworkbench.kernels.choice import gpu_of, multiprocessors, shared_bytes
from tileworkbench.transform import stay_on_chip

NUMPY = {"bfloat16": ml_dtypes.bfloat16, "float8_e4m3fn": ml_dtypes.float8_e4m3fn, "tfloat32": np.float32}
ONE = 2.0**-24  # what a sum in float32 may lose with each term, of the sum of absolute values


@pytest.fixture(params=["sm_80", "sm_90a"])
def target(request: pytest.FixtureRequest) -> str:
    """The emulator of an architecture of each kind: products of warps, and of warp groups with tensor copies."""
    return f"emulate:{request.param}"


def random(seed: int, *shape: int, dtype: str = "float32") -> Any:
    rng = np.random.default_rng(seed)
    if dtype in ("int8", "uint8"):
        return rng.integers(np.iinfo(dtype).min, np.iinfo(dtype).max + 1, shape, dtype=dtype)
    return rng.standard_normal(shape).astype(NUMPY.get(dtype, dtype))


def wide(array: Any) -> Any:
    return np.asarray(array).astype(np.float64)


def rounding(dtype: str) -> float:
    return 0.0 if DType(dtype).is_int else float(DType(dtype).unit_roundoff)


# ------------------------------------------------------------------------------------------- products
TILE = gemm.Schedule(64, 64, 32, 3, 128, 8)
GROUP_TILE = gemm.Schedule(128, 64, 64, 2, 256, 8)


@pytest.mark.parametrize("is_nt", [False, True], ids=["nn", "nt"])
@pytest.mark.parametrize(
    ("dtype", "shape", "schedule"),
    [
        ("float16", (70, 72, 80), TILE), ("float16", (70, 37, 83), TILE), ("float16", (1, 5, 3), TILE), ("float16", (128, 72, 136), GROUP_TILE),
        ("bfloat16", (64, 64, 32), TILE),
        ("float16", (128, 128, 136), gemm.Schedule(64, 64, 64, 3, 128, 0, 2, 1)),
        ("float16", (150, 140, 96), None), ("float16", (16, 70, 256), None), ("bfloat16", (33, 64, 100), None), ("float32", (70, 72, 40), None),
        ("int8", (70, 72, 128), gemm.Schedule(64, 64, 64, 3, 128)), ("int8", (20, 40, 130), None),
        ("tfloat32", (70, 72, 64), gemm.Schedule(64, 64, 16, 3, 128)),
        ("float16", (70, 75, 340), gemm.Schedule(64, 64, 64, 3, 128, 8, split_k=3)),
        ("int8", (20, 40, 130), gemm.Schedule(32, 64, 32, 2, 128, split_k=2)),
        ("float16", (150, 256, 330), gemm.Schedule(128, 128, 64, 2, 256, 8, 2, 1, split_k=2)),
    ],
)  # fmt: skip
def test_gemm(dtype: str, shape: tuple[int, int, int], schedule: gemm.Schedule | None, is_nt: bool, target: str) -> None:
    m, n, k = shape
    a, b = random(1, m, k, dtype=dtype), random(2, *((n, k) if is_nt else (k, n)), dtype=dtype)
    got = wide(gemm.gemm(m, n, k, dtype=dtype, is_nt=is_nt, schedule=schedule, target=target)(a, b))
    left, right = wide(a), wide(b).T if is_nt else wide(b)
    want, size = left @ right, np.abs(left) @ np.abs(right)
    if dtype == "int8":
        assert np.array_equal(got, want)
        return
    lost = 2.1 * 2.0**-10 if dtype == "tfloat32" else 0.0  # of the factors, which are rounded, or cut by warp groups
    assert np.all(np.abs(got - want) <= (k * ONE + lost) * size + rounding("float32" if dtype == "tfloat32" else dtype) * np.abs(want))


def test_gemm_ends_with_relu(target: str) -> None:
    a, b = random(1, 40, 48, dtype="float16"), random(2, 48, 56, dtype="float16")
    got = wide(gemm.gemm(40, 56, 48, dtype="float16", out_dtype="float32", relu=True, target=target)(a, b))
    assert np.all(np.abs(got - np.maximum(wide(a) @ wide(b), 0)) <= 48 * ONE * (np.abs(wide(a)) @ np.abs(wide(b))))
    assert (got == 0).any()
    in_parts = gemm.Schedule(32, 32, 16, 2, 128, split_k=2)
    joined = wide(gemm.gemm(40, 56, 48, dtype="float16", out_dtype="float32", relu=True, schedule=in_parts, target=target)(a, b))
    assert np.all(np.abs(joined - got) <= 48 * ONE * (np.abs(wide(a)) @ np.abs(wide(b)))) and np.array_equal(joined == 0, got == 0)


@pytest.mark.parametrize("shape", [(64, 64, 128), (70, 40, 96)], ids=str)
def test_scaled_gemm_of_eight_bits(shape: tuple[int, int, int], target: str) -> None:
    m, n, k = shape
    a, b, scale = random(1, m, k, dtype="float8_e4m3fn"), random(2, n, k, dtype="float8_e4m3fn"), np.array([0.37], np.float32)
    got = wide(gemm.scaled_gemm(m, n, k, target=target.replace("80", "89"))(a, b, scale))
    want = wide(scale) * (wide(a) @ wide(b).T)
    lost = 2.0**-11 if target.endswith("sm_90a") else 0.0  # by warp groups, which add up 128 products in 14 bits: several times what is usual
    assert np.all(np.abs(got - want) <= (k * ONE + lost) * (np.abs(wide(a)) @ np.abs(wide(b)).T) + 1.01 * rounding("bfloat16") * np.abs(want))


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("shape", [(37, 100), (8, 2056)], ids=str)
def test_gemv(shape: tuple[int, int], dtype: str, target: str) -> None:
    n, k = shape
    x, w = random(3, k, dtype=dtype), random(4, n, k, dtype=dtype)
    got = wide(linear.gemv(n, k, dtype=dtype, target=target)(x, w))
    size = (np.abs(wide(w)) * np.abs(wide(x))).sum(axis=1)
    assert np.all(np.abs(got - wide(w) @ wide(x)) <= k * ONE * size + rounding(dtype) * np.abs(wide(w) @ wide(x)))


@pytest.mark.parametrize(("m", "n", "k", "group"), [(1, 64, 128, 32), (5, 37, 256, 64), (20, 40, 128, 128)], ids=str)
def test_linear_with_four_bit_weights(m: int, n: int, k: int, group: int, target: str) -> None:
    x, packed, scales = random(5, m, k, dtype="float16"), random(6, n, k // 2, dtype="uint8"), np.abs(random(7, n, k // group))
    q = np.stack([packed & 15, packed >> 4], axis=-1).reshape(n, k).astype(np.float64) - 8
    w = q * np.repeat(wide(scales), group, axis=1)
    got = wide(linear.linear_w4(m, n, k, group=group, dtype="float16", block_k=128, target=target)(x, packed, scales))
    size, half = np.abs(wide(x)) @ np.abs(w).T, rounding("float16")  # a weight is rounded to float16, and so is the result
    assert np.all(np.abs(got - wide(x) @ w.T) <= (k * ONE + 1.01 * half) * size + half * np.abs(wide(x) @ w.T))


# ------------------------------------------------------------------------------------------- attention
SMALL = attention.Schedule(64, 32, 2, 128)


@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
@pytest.mark.parametrize(
    ("dtype", "heads", "kv_heads", "seq", "dim", "schedule"),
    [
        ("float16", 2, 0, 128, 32, SMALL), ("float16", 4, 2, 75, 32, SMALL), ("bfloat16", 1, 0, 130, 64, None), ("bfloat16", 2, 1, 7, 32, SMALL),
        ("float16", 1, 0, 70, 128, None), ("float32", 2, 0, 50, 32, None),
    ],
)  # fmt: skip
def test_attention(dtype: str, heads: int, kv_heads: int, seq: int, dim: int, schedule: attention.Schedule | None, causal: bool, target: str) -> None:
    q = random(8, 1, heads, seq, dim, dtype=dtype)
    k, v = (random(seed, 1, kv_heads or heads, seq, dim, dtype=dtype) for seed in (9, 10))
    kernel = attention.attention(1, heads, seq, dim, causal=causal, dtype=dtype, kv_heads=kv_heads, schedule=schedule, target=target)
    got = wide(kernel(q, k, v))
    keys, values = (np.repeat(wide(t), heads // (kv_heads or heads), axis=1) for t in (k, v))
    scores, sizes = (f(wide(q)) @ f(keys).swapaxes(-1, -2) / math.sqrt(dim) for f in (np.positive, np.abs))
    if causal:
        scores = np.where(np.tril(np.ones((seq, seq), dtype=bool)), scores, -np.inf)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights /= weights.sum(axis=-1, keepdims=True)
    slip = 2 * (dim + seq + 32) * ONE * (1 + sizes.max(axis=-1, keepdims=True))  # of a weight, by its score and the sums
    narrow = 0.0 if dtype == "float32" else 2.02 * rounding(dtype)  # of a weight, and of the result
    assert np.all(np.abs(got - weights @ values) <= (2 * slip + narrow) * (weights @ np.abs(values)))


def test_attention_whose_scores_grow(target: str) -> None:
    """Maxima that grow by less than what attention lets weights grow by, and by more, in some warps only; from the first key on or late."""
    seq, dim, schedule = 192, 32, attention.Schedule(128, 32, 2, 256)
    q, k, v = (random(seed, 1, 1, seq, dim, dtype="float16") for seed in (8, 9, 10))
    q[..., 40:, :] *= np.float16(0.2)
    k *= np.linspace(0.5, 12, seq, dtype=np.float16)[:, None]
    got = wide(attention.attention(1, 1, seq, dim, dtype="float16", schedule=schedule, target=target)(q, k, v))
    scores, sizes = (f(wide(q)) @ f(wide(k)).swapaxes(-1, -2) / math.sqrt(dim) for f in (np.positive, np.abs))
    assert np.ptp(scores.reshape(seq, 6, 32).max(axis=-1), axis=-1).max() > 20
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights /= weights.sum(axis=-1, keepdims=True)
    slip = 2 * (dim + seq + 32) * ONE * (1 + sizes.max(axis=-1, keepdims=True)) + 2.0**-24  # a weight that is no float16 is lost
    assert np.all(np.abs(got - weights @ wide(v)) <= (2 * slip + 2.02 * rounding("float16")) * (weights @ np.abs(wide(v)) + 2.0**-14))


def test_heads_that_share_keys_divide_evenly(target: str) -> None:
    with pytest.raises(ValueError, match="must be a multiple of kv_heads=2"):
        attention.attention(1, 3, 64, 32, kv_heads=2, target=target)


# ------------------------------------------------------------------------------------------- rows and elements
@pytest.mark.parametrize(("rows", "cols", "dtype"), [(3, 1000, "float32"), (13, 40, "float32"), (5, 1, "float32"), (2, 2048, "float16")])
def test_rows(rows: int, cols: int, dtype: str, target: str) -> None:
    x, w, b = random(11, rows, cols, dtype=dtype), random(12, cols, dtype=dtype), random(13, cols, dtype=dtype)
    given, narrow = wide(x), rounding(dtype)
    weights = np.exp(given - given.max(axis=1, keepdims=True))
    weights /= weights.sum(axis=1, keepdims=True)
    got = wide(softmax.softmax(rows, cols, dtype=dtype, target=target)(x))
    assert np.all(np.abs(got - weights) <= weights * (narrow + (cols + 64) * ONE) + (2.0**-25 if dtype == "float16" else 0))
    away = given - given.mean(axis=1, keepdims=True)
    normal = away / np.sqrt((away**2).mean(axis=1, keepdims=True) + 1e-5) * wide(w)
    got = wide(norms.layernorm(rows, cols, dtype=dtype, target=target)(x, w, b))
    assert np.all(np.abs(got - normal - wide(b)) <= narrow * np.abs(normal + wide(b)) + (cols + 64) * ONE * (1 + np.abs(normal) + np.abs(wide(b))))
    scaled = given / np.sqrt((given**2).mean(axis=1, keepdims=True) + 1e-5) * wide(w)
    got = wide(norms.rmsnorm(rows, cols, dtype=dtype, target=target)(x, w))
    assert np.all(np.abs(got - scaled) <= (narrow + (cols + 64) * ONE) * np.abs(scaled))


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("size", [10000, 1])
def test_elementwise(size: int, dtype: str, target: str) -> None:
    x, y = random(14, size, dtype=dtype), random(15, size, dtype=dtype)
    assert np.array_equal(wide(elementwise.add(size, dtype=dtype, target=target)(x, y)), wide(x + y))
    want = 0.5 * wide(x) * (1 + np.array([math.erf(v / math.sqrt(2)) for v in wide(x)]))
    got = wide(elementwise.gelu(size, dtype=dtype, target=target)(x))
    assert np.all(np.abs(got - want) <= rounding(dtype) * np.abs(want) + 2.0**-21 * np.abs(wide(x)) + 2.0**-25)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("shape", [(128, 64), (100, 70), (1, 3)], ids=str)
def test_transpose(shape: tuple[int, int], dtype: str, target: str) -> None:
    x = random(16, *shape, dtype=dtype)
    assert np.array_equal(elementwise.transpose(*shape, dtype=dtype, target=target)(x), x.T)


@pytest.mark.parametrize("block", [(16, 4), (32, 24), (64, 64)], ids=str)
def test_pieces_of_any_block_change_places(block: tuple[int, int], target: str) -> None:
    """Rows shorter than a piece, of three pieces, of eight; a column of eight is read without bank conflicts."""
    x = random(17, 96, 136, dtype="float16")
    kernel = elementwise.transpose(96, 136, dtype="float16", block=block, target=target)
    assert np.array_equal(kernel(x), x.T)
    if block == (64, 64):
        counted = kernel.count(x).total
        assert counted.shared_load_wavefronts == counted.shared_load_ideal and counted.shared_store_wavefronts == counted.shared_store_ideal


# ------------------------------------------------------------------------------------------- schedules
def test_a_target_says_which_schedule() -> None:
    assert [gpu_of(t) for t in ("c", "interpret", "emulate:sm_80", "emulate", {"kind": "cuda", "arch": "sm_90a"})] == [
        "",
        "",
        "sm_80",
        "sm_90a",
        "sm_90a",
    ]
    assert gemm.default_schedule(4096, 4096, 4096, "float16", target="c") == gemm.default_schedule(4096, 4096, 4096, "float16", target="interpret")
    assert gemm.default_schedule(64, 64, 64).threads == 0


@pytest.mark.parametrize(
    ("size", "dtype", "arch", "text"),
    [
        ((4096, 4096, 4096), "float16", "sm_90a", "128x256x64 s4 t256"), ((2048, 2048, 2048), "bfloat16", "sm_90a", "128x256x64 s4 t256"),
        ((1024, 1024, 1024), "float16", "sm_90a", "64x128x64 s8 t128"), ((4096, 4096, 4096), "float8_e4m3fn", "sm_90a", "128x256x128 s4 t256"),
        ((8192, 8192, 8192), "int8", "sm_90a", "128x256x128 s4 t256"), ((8192, 8192, 8192), "tfloat32", "sm_90a", "128x256x32 s4 t256"),
        ((1000, 3000, 5000), "float16", "sm_90a", "128x192x64 s4 t256 c1x2"),  # 128 blocks: one wave; rows that straddle lines are shared
        ((1000, 3072, 5120), "float16", "sm_90a", "128x192x64 s4 t256"), ((128, 8192, 8192), "bfloat16", "sm_90a", "64x128x64 s8 t128 c1x2"),
        ((256, 256, 16384), "float16", "sm_90a", "64x64x64 s8 t128 k8"), ((512, 512, 512), "float16", "sm_90a", "64x64x64 s8 t128"),
        ((16, 8192, 8192), "float16", "sm_90a", "16x32x256 s4 t64"), ((64, 8192, 8192), "float16", "sm_90a", "64x64x128 s6 t128"),
        ((4096, 4096, 4096), "float16", "sm_80", "128x128x32 s3 t128"), ((1024, 1024, 1024), "float16", "sm_80", "128x128x32 s3 t128"),
        ((4096, 4096, 4096), "int8", "sm_80", "128x128x64 s3 t128"), ((4096, 4096, 4096), "float16", "sm_90", "128x128x32 s3 t128"),
        ((256, 256, 256), "float32", "sm_80", "32x32x16 s3 t128"),
    ],
)  # fmt: skip
def test_the_rule_of_products(size: tuple[int, int, int], dtype: str, arch: str, text: str) -> None:
    assert str(gemm.gpu_schedule(*size, dtype, arch)) == text


@pytest.mark.parametrize(
    ("seq", "dim", "dtype", "arch", "text"),
    [
        (4096, 128, "bfloat16", "sm_90a", "128x128 s2 t256"), (4096, 64, "float16", "sm_90a", "192x128 s2 t384"),
        (4096, 256, "float16", "sm_90a", "128x80 s2 t256"), (64, 64, "float16", "sm_90a", "64x128 s2 t128"),
        (4096, 128, "float16", "sm_80", "64x64 s2 t128"), (4096, 64, "float16", "sm_80", "128x64 s2 t128"),
        (512, 64, "float32", "sm_80", "32x32 s2 t128"),
    ],
)  # fmt: skip
def test_the_rule_of_attention(seq: int, dim: int, dtype: str, arch: str, text: str) -> None:
    assert str(attention.gpu_schedule(seq, dim, dtype, arch)) == text


def test_gemv_reads_whole_rows_of_some_size() -> None:
    found = [linear.schedule_for(8192, k, dtype, "cuda:sm_90a") for k, dtype in ((8192, "bfloat16"), (4096, "bfloat16"), (4096, "float32"))]
    assert found == [(2, 8192, 256), (4, 1024, 128), (2, 4096, 256)]


def test_short_causal_heads_take_two_groups() -> None:
    """Three groups of 64 queries compute half as much again as there is to do at 1024, an eighth more at 4096."""
    found = [str(attention.gpu_schedule(seq, 64, "float16", "sm_90a", causal)) for seq in (1024, 4096) for causal in (False, True)]
    assert found == ["192x128 s2 t384", "128x128 s2 t256", "192x128 s2 t384", "192x128 s2 t384"]


@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_90a", "sm_100", "sm_120"])
@pytest.mark.parametrize("dtype", ["float16", "int8", "tfloat32", "float32"])
def test_schedules_fit_into_shared_memory(dtype: str, arch: str) -> None:
    """Their tiles do, at least; and no block asks for more threads than there are."""
    size = DType(dtype).bits // 8
    for shape in ((8192, 8192, 8192), (16, 8192, 8192), (1, 1, 1), (300, 40, 7)):
        s = gemm.default_schedule(*shape, dtype, target=f"cuda:{arch}")
        assert s.stages * (s.block_m + s.block_n) * s.block_k * size <= shared_bytes(arch) - 1024
        assert s.threads <= 1024 and s.threads % 32 == 0
    for dim in (32, 64, 128, 256):
        a = attention.default_schedule(4096, dim, dtype, target=f"cuda:{arch}")
        assert (a.block_m + 2 * a.stages * a.block_n) * dim * size <= shared_bytes(arch) - 1024 or (dim, arch) in ((256, "sm_75"),)


def test_chips_have_the_multiprocessors_of_their_presets() -> None:
    """One source: schedules are made, and blocks dealt out, for the GPUs that reports are about."""
    assert [multiprocessors(a) for a in ("sm_80", "sm_90a", "sm_89")] == [find_machine(m).cores for m in ("a100", "h200", "l4")] == [108, 132, 58]
    assert stay_on_chip.MULTIPROCESSORS == multiprocessors("sm_90a")


@pytest.mark.parametrize(
    ("rows", "cols", "text"), [(8, 64, "8 rows t64"), (4096, 1024, "1 row t64"), (4096, 4096, "1 row t256"), (9, 10**6, "1 row t1024")]
)
def test_row_schedules(rows: int, cols: int, text: str) -> None:
    assert str(softmax.default_schedule(rows, cols, target="cuda:sm_80")) == text
