"""Profilers, made-up inputs and timing; no test asserts a time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from runtime.programs import copy_program, matmul_program, scale_program
from tileworkbench.profiler import do_bench

import tileworkbench
import tileworkbench.language as T
from tileworkbench.base.errors import ArgumentError, ExpectationError
from tileworkbench.runtime.profiler import assert_close
from tileworkbench.runtime.supply import TensorSupplyType, get_tensor_supply
from tileworkbench.runtime.timing import Timing, measure


def product(a: Any, b: Any) -> Any:
    return a @ b


# ------------------------------------------------------------------------------------------- supply
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "float8_e4m3fn", "int8", "uint8", "int32", "bool"])
@pytest.mark.parametrize("kind", list(TensorSupplyType))
def test_supply_makes_what_the_kernel_takes(kind: TensorSupplyType, dtype: str) -> None:
    kernel = tileworkbench.compile(copy_program((3, 4), dtype), out_idx=-1, target="interpret")
    (made,) = kernel.get_profiler(kind).inputs()
    assert kernel(made) is not None
    values = np.asarray(made.float() if hasattr(made, "float") else made.astype(np.float32))
    if kind in (TensorSupplyType.Zero, TensorSupplyType.One):
        assert (values == (kind is TensorSupplyType.One)).all()
    elif kind is TensorSupplyType.Integer:
        assert (values == np.round(values)).all()


def test_supply_is_seeded() -> None:
    param = tileworkbench.compile(copy_program((3, 4), "float32"), target="interpret").params[0]
    first, second = (np.asarray(get_tensor_supply(seed=1)(param)) for _ in range(2))
    np.testing.assert_array_equal(first, second)


def test_supply_cannot_know_a_symbolic_size() -> None:
    kernel = tileworkbench.compile(matmul_program(T.dynamic("m"), 6, 4), out_idx=-1, target="interpret")
    with pytest.raises(ArgumentError, match=r"the size of A \(float32\[m, 4\]\) is only known at run time\n  hint: pass input_tensors"):
        kernel.get_profiler().do_bench()
    with pytest.raises(ArgumentError, match="the value of the scalar factor cannot be made up"):
        tileworkbench.compile(scale_program(8), target="interpret").get_profiler().run_once()


# ------------------------------------------------------------------------------------------- profiler
def test_profiler_agrees_and_disagrees() -> None:
    kernel = tileworkbench.compile(matmul_program(8, 6, 4), out_idx=-1, target="interpret")
    profiler = kernel.get_profiler(tileworkbench.TensorSupplyType.Normal)
    profiler.assert_allclose(product, rtol=1e-5, atol=1e-5)
    profiler.assert_consistent(3)
    with pytest.raises(ExpectationError, match="output 0 of matmul differs in 48 of 48 elements, most at"):
        profiler.assert_allclose(lambda a, b: a @ b + 1, rtol=1e-5, atol=1e-5)
    with pytest.raises(ExpectationError, match="returns 1 outputs, the reference 2"):
        profiler.assert_allclose(lambda a, b: (a, b))
    assert profiler.do_bench(n_warmup=1, n_repeat=2) > 0
    assert profiler.do_bench(product, n_warmup=1, n_repeat=2, return_mode="min") > 0
    given = [np.ones((8, 4), np.float32), np.ones((4, 6), np.float32)]
    profiler.assert_allclose(product, input_tensors=given)


def test_assert_close() -> None:
    a = np.array([1.0, np.nan, np.inf, 5.0])
    assert_close(a, a.copy())
    with pytest.raises(ExpectationError, match=r"differs in 1 of 4 elements, most at \(3,\): got 5, expected 6"):
        assert_close(a, np.array([1.0, np.nan, np.inf, 6.0]))
    assert_close(a, np.array([1.0, np.nan, np.inf, 6.0]), max_mismatched_ratio=0.25)
    with pytest.raises(ExpectationError, match="differs in 1 of 4"):
        assert_close(a, np.array([1.0, np.nan, -np.inf, 5.0]))
    with pytest.raises(ExpectationError, match=r"has shape \(4,\), the reference \(3,\)"):
        assert_close(a, a[:3])


def test_timing_is_a_value() -> None:
    timing = Timing((4.0, 1.0, 2.0, 3.0))
    assert (timing.median_ms, timing.mean_ms, timing.best_ms, timing.quantile(0.5), timing.quantile(1.0)) == (2.5, 2.5, 1.0, 2.5, 4.0)
    assert str(timing) == "2.5 ms (median of 4, best 1 ms, spread 100%; measured)"


def test_measure_runs_as_often_as_asked() -> None:
    calls: list[int] = []
    timing = measure(lambda: calls.append(1), warmup_runs=4, runs=5)
    assert len(timing.runs_ms) == 5
    assert len(calls) == 3 + 4 + 5  # three estimate how long a run takes


def test_do_bench_takes_tilelangs_arguments() -> None:
    assert isinstance(do_bench(lambda: None, warmup=1, rep=1, backend="cupti", fast_flush=True), float)
    assert len(do_bench(lambda: None, warmup=1, rep=1, quantiles=[0.2, 0.8])) == 2
    with pytest.raises(ValueError, match="return_mode must be one of mean, median, min, max"):
        do_bench(lambda: None, warmup=1, rep=1, return_mode="best")


def test_slow_functions_are_given_up() -> None:
    timing = measure(lambda: sum(range(1000)), warmup_ms=0.1, rep_ms=1, baseline_ms=1e-9, stop_factor=1.2)
    assert timing.was_stopped
    assert len(timing.runs_ms) == 3


def test_a_signalling_nan_equals_a_nan() -> None:
    """Memory that nobody wrote may hold one; NumPy warns when it converts it."""
    signalling = np.array([0x7FA00000], np.uint32).view(np.float32)
    assert_close(signalling, np.array([np.nan], np.float32))


@pytest.mark.parametrize("kinds", [("numpy", "numpy"), ("torch", "torch"), ("torch", "numpy")])
def test_the_worst_element_is_found_whatever_the_library(kinds: tuple[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Compared piece by piece: the worst of all pieces, and its place in the whole."""
    torch = pytest.importorskip("torch")
    monkeypatch.setattr("tileworkbench.runtime.profiler.PIECE", 100)
    wanted = np.linspace(1, 2, 30 * 41).reshape(30, 41)
    got = wanted.copy()
    got[3, 3], got[29, 40], got[20, 7] = 0.0, np.nan, np.inf
    as_kind = {"numpy": lambda x: x, "torch": torch.tensor}
    pair = [as_kind[kind](x) for kind, x in zip(kinds, (got, wanted), strict=True)]
    with pytest.raises(ExpectationError, match=r"differs in 3 of 1230 elements, most at \(20, 7\): got inf, expected 1.672"):
        assert_close(*pair)
    pair[0][20, 7], pair[0][29, 40] = wanted[20, 7], wanted[29, 40]
    with pytest.raises(ExpectationError, match=r"differs in 1 of 1230 elements, most at \(3, 3\): got 0, expected 1.1"):
        assert_close(*pair)
    assert_close(*pair, max_mismatched_ratio=1e-3)
