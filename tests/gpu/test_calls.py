"""Calls of tile programs, in the emulator and on a GPU: the same arrays go in, the same come out; assertions, prints, branches of the host, sizes."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import tileworkbench
import tileworkbench.language as T
from tileworkbench.base.errors import CapacityError, DeviceAssertError
from tileworkbench.frontend.prim_func import PrimFunc
from tileworkbench.kernels import attention, elementwise, gemm, norms, softmax
from tileworkbench.runtime.libcuda import find_driver, why_no_driver

GPU = pytest.param("cuda", marks=[pytest.mark.cuda, pytest.mark.skipif(find_driver() is None, reason=f"no GPU: {why_no_driver()}")])
n = T.dynamic("n")


@dataclass
class Place:
    """A target, and the way of arrays there and back."""

    target: str
    there: Callable[[Any], Any]
    back: Callable[[Any], Any]

    def compile(self, program: PrimFunc, **how: Any) -> Any:
        return tileworkbench.compile(program, target=self.target, **how)


@pytest.fixture(params=["emulate:sm_80", "emulate:sm_90a", GPU])
def place(request: pytest.FixtureRequest) -> Place:
    if request.param != "cuda":
        return Place(request.param, lambda a: a, lambda a: a)
    cupy = pytest.importorskip("cupy")
    return Place("cuda", cupy.asarray, cupy.asnumpy)


def random(seed: int, *shape: int, dtype: Any = "float32") -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


# ------------------------------------------------------------------------------------------- the library
@pytest.mark.parametrize(("dtype", "shape"), [("float16", (64, 64, 64)), ("float16", (33, 40, 72)), ("float32", (37, 50, 29))])
def test_products(place: Place, dtype: str, shape: tuple[int, int, int]) -> None:
    m, k, cols = shape
    a, b = random(0, m, k, dtype=dtype), random(1, k, cols, dtype=dtype)
    program = gemm.program(m, cols, k, 32, 32, 16, 2, dtype, "float32", True)
    c = place.back(place.compile(program, out_idx=-1)(place.there(a), place.there(b)))
    wide = np.abs(a.astype(np.float64)) @ np.abs(b.astype(np.float64))
    want = np.maximum(a.astype(np.float64) @ b.astype(np.float64), 0)
    assert (np.abs(c - want) <= 2.0**-23 * (k + 2) * wide + 1e-7).all()


@pytest.mark.parametrize("causal", [False, True])
def test_attention(place: Place, causal: bool) -> None:
    q, k, v = (random(s, 1, 1, 80, 32) for s in range(3))
    kernel = place.compile(attention.program(1, 1, 80, 32, causal, 32, 16, "float32"), out_idx=-1)
    out = place.back(kernel(*map(place.there, (q, k, v))))
    scores = q[0, 0].astype(np.float64) @ k[0, 0].T / np.sqrt(32)
    if causal:
        scores[np.triu_indices(80, 1)] = -np.inf
    e = np.exp(scores - scores.max(1, keepdims=True))
    np.testing.assert_allclose(out[0, 0], e / e.sum(1, keepdims=True) @ v[0, 0], atol=3e-5)


def test_rows(place: Place) -> None:
    x, w = random(4, 7, 200), random(5, 200)
    wide = x.astype(np.float64)
    got = place.back(place.compile(softmax.program(7, 200, 2, "float32"), out_idx=-1)(place.there(x)))
    e = np.exp(wide - wide.max(1, keepdims=True))
    np.testing.assert_allclose(got, e / e.sum(1, keepdims=True), atol=1e-6)
    got = place.back(place.compile(norms.rmsnorm_program(7, 200, 4, "float32", 1e-5), out_idx=-1)(place.there(x), place.there(w)))
    np.testing.assert_allclose(got, wide / np.sqrt((wide**2).mean(1, keepdims=True) + 1e-5) * w, atol=1e-5)
    got = place.back(place.compile(elementwise.transpose_program(70, 45, 32, 32, "float32"), out_idx=-1)(place.there(random(6, 70, 45))))
    np.testing.assert_array_equal(got, random(6, 70, 45).T)


# ------------------------------------------------------------------------------------------- calls
def scaled() -> PrimFunc:
    @T.prim_func
    def scales(X: T.Tensor((n,), "float32"), Y: T.Tensor((n,), "float32"), factor: T.float16):
        with T.Kernel(T.ceildiv(n, 128), threads=64) as b:
            for i in T.Parallel(128):
                Y[b * 128 + i] = X[b * 128 + i] * factor

    return scales


def test_calls_of_many_sizes(place: Place) -> None:
    """The first calls on the long way, later ones on the short one; slices begin where they like; nothing is nothing."""
    kernel = place.compile(scaled(), out_idx=1)
    for size in (300, 128, 1, 0, 77, 300):
        for shift in (0, 1, 3):
            x = random(size, size + shift)
            got = place.back(kernel(place.there(x)[shift:], 0.1))
            np.testing.assert_array_equal(got, x[shift:] * np.float32(np.float16(0.1)))


def test_branches_and_loops_of_the_host(place: Place) -> None:
    @T.prim_func
    def branches(X: T.Tensor((n,), "float32"), turns: T.int32, s: T.float32):
        W = T.alloc_global((n,), "float32")
        for j in T.serial(turns):
            if s > 0.5:
                with T.Kernel(T.ceildiv(n, 32), threads=32) as b:
                    for i in T.Parallel(32):
                        X[b * 32 + i] = X[b * 32 + i] + j
            else:
                with T.Kernel(T.ceildiv(n, 32), threads=32) as b:
                    for i in T.Parallel(32):
                        W[b * 32 + i] = s
                with T.Kernel(T.ceildiv(n, 32), threads=32) as b:
                    for i in T.Parallel(32):
                        X[b * 32 + i] = X[b * 32 + i] * W[b * 32 + i]

    kernel = place.compile(branches)
    for turns, s, add, times in ((3, 0.75, 3, 1), (2, 0.5, 0, 0.25), (0, 1.0, 0, 1)) * 2:
        x = np.arange(70, dtype=np.float32)
        there = place.there(x.copy())
        kernel(there, turns, s)
        np.testing.assert_array_equal(place.back(there), (x + add) * np.float32(times))


def test_assertions_name_themselves_and_spoil_nothing(place: Place) -> None:
    @T.prim_func
    def checks(X: T.Tensor((n,), "float32"), Y: T.Tensor((n,), "float32")):
        T.device_assert(n > 3, "n is more than three")
        with T.Kernel(T.ceildiv(n, 64), threads=64) as b:
            s = T.alloc_shared((64,), "float32")
            T.copy(X[b * 64], s)
            for i in T.Parallel(64):
                T.device_assert(s[i] < 90, "X is small")
                T.device_assert(s[63 - i] > -90, "X is not far below zero")
            T.copy(s, Y[b * 64])

    kernel = place.compile(checks, out_idx=1)
    good = random(0, 200)
    low, high = good.copy(), good.copy()
    high[150], low[30] = 100, -100
    for _ in range(4):
        np.testing.assert_array_equal(place.back(kernel(place.there(good))), good)
        for bad, says in ((high, "X is small"), (low, "X is not far below zero"), (good[:2], "n is more than three")):
            with pytest.raises(DeviceAssertError, match=says) as caught:
                kernel(place.there(bad))
            assert caught.value.span is not None


def test_prints_come_with_the_call(place: Place, capfd: pytest.CaptureFixture[str]) -> None:
    @T.prim_func
    def shows(X: T.Tensor((4,), "float32")):
        with T.Kernel(1, threads=32):
            T.print(X[1], msg="second")
            X[0] = 1

    kernel = place.compile(shows)
    x = place.there(np.arange(4, dtype=np.float32))
    for _ in range(3):
        kernel(x)
        sys.stdout.flush()
        assert capfd.readouterr().out == "second 1.000000\n"


def test_what_does_not_fit_is_refused_with_what_would(place: Place) -> None:
    @T.prim_func
    def large(X: T.Tensor((512, 512), "float32"), Y: T.Tensor((512, 512), "float32")):
        with T.Kernel(1, threads=128):
            s = T.alloc_shared((512, 512), "float32")
            T.copy(X, s)
            T.sync_threads()
            for i, j in T.Parallel(512, 512):
                Y[i, j] = s[j, i]

    with pytest.raises(CapacityError, match="needs 1048576 bytes of shared memory a block") as caught:
        place.compile(large)
    assert "instead of 512 fit" in caught.value.hint


def test_what_the_emulator_sees(place: Place) -> None:
    """Asked of a kernel for a GPU, with its arrays there, too."""
    kernel = place.compile(scaled(), out_idx=1)
    x = place.there(random(1, 256))
    assert kernel.sanitize(x, 0.5).is_clean
    assert kernel.count(x, 0.5).total.global_load_bytes == 1024


# ------------------------------------------------------------------------------------------- a GPU only
@pytest.mark.cuda
@pytest.mark.skipif(find_driver() is None, reason=f"no GPU: {why_no_driver()}")
class TestOnAGpu:
    def test_pytorch_tensors(self) -> None:
        torch = pytest.importorskip("torch")
        kernel = tileworkbench.compile(scaled(), target="cuda", out_idx=1)
        stream = torch.cuda.Stream()
        for size in (100, 300, 300, 300):
            with torch.cuda.stream(stream):
                x = torch.randn(size, device="cuda")
                y = kernel(x, 0.5)
            stream.synchronize()
            assert torch.equal(y, x * 0.5)

    def test_narrow_products_of_pytorch(self) -> None:
        torch = pytest.importorskip("torch")
        kernel = gemm.gemm(256, 192, 320, dtype="bfloat16", out_dtype="float32", target="cuda")
        a, b = (torch.randn(shape, device="cuda").to(torch.bfloat16) for shape in ((256, 320), (320, 192)))
        torch.testing.assert_close(kernel(a, b).double(), a.double() @ b.double(), atol=2e-3, rtol=1e-4)

    def test_inside_a_graph(self) -> None:
        """Assertions are not asked for while a graph is captured; the graph runs like the calls."""
        cupy = pytest.importorskip("cupy")
        kernel = tileworkbench.compile(scaled(), target="cuda")
        x, y = cupy.arange(300, dtype=cupy.float32), cupy.zeros(300, cupy.float32)
        stream = cupy.cuda.Stream(non_blocking=True)
        with stream:
            kernel(x, y, 2.0)
            stream.begin_capture()
            kernel(x, y, 3.0)
            graph = stream.end_capture()
            graph.launch(stream)
            stream.synchronize()
        cupy.testing.assert_array_equal(y, x * 3)

    def test_reports_measure(self) -> None:
        cupy = pytest.importorskip("cupy")
        kernel = softmax.softmax(4096, 1024, target="cuda")
        x = cupy.random.standard_normal((4096, 1024), dtype=cupy.float32)
        made = kernel.report(args=(x,))
        assert made.machine.is_gpu and made.measured is not None and 1e-6 < made.measured.value < 1e-2
        assert made.occupancy is not None and made.occupancy.registers == kernel.n_regs
        assert kernel.resources.kernels[0].spill_bytes == 0 and "SM" in str(kernel.resources)
        assert kernel.profile(x).median_ms < 10
