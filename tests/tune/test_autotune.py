"""TileLang's `autotune` and `AutoTuner`; no test asserts a time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from runtime.programs import copy_program, matmul_program
from tileworkbench.autotuner import AutoTuner, autotune, set_autotune_inputs
from tune.programs import double

import tileworkbench
import tileworkbench.language as T
from tileworkbench.base.errors import TileValueError
from tileworkbench.runtime.supply import TensorSupplyType


def product(a: Any, b: Any) -> Any:
    return a @ b


SEARCH = {"warmup": 1, "rep": 1}


def test_decorated_factory() -> None:
    @autotune(configs=[{"block": 16}, {"block": 0}, {"block": 32}], ref_prog=product, **SEARCH)
    @tileworkbench.jit(out_idx=-1, target="interpret")
    def matmul(M, N, K, block=16):
        return matmul_program(M, N, K, block=block)

    kernel = matmul(8, 6, 4)
    assert kernel.config in ({"block": 16}, {"block": 32})
    assert kernel.latency > 0
    assert kernel.ref_latency > 0
    (result,) = matmul.results.values()
    assert sorted(c.config["block"] for c in result.candidates) == [16, 32]
    (failure,) = result.failures
    assert failure.config == {"block": 0}
    assert failure.reason
    assert matmul(8, 6, 4) is kernel, "searched once"
    assert matmul(9, 6, 4, block=16).config is None, "with every tunable given, nothing is searched"
    assert len(matmul.results) == 1


def test_wrong_results_are_dropped() -> None:
    @autotune(configs=[{"block": 16}], ref_prog=lambda a, b: a @ b + 1, **SEARCH)
    @tileworkbench.jit(out_idx=-1, target="interpret")
    def matmul(M, N, K, block=16):
        return matmul_program(M, N, K, block=block)

    with pytest.raises(TileValueError) as caught:
        matmul(8, 6, 4)
    assert str(caught.value).startswith("value error: no configuration works (1 tried):\n  block=16: wrong result: output 0 differs in 48 of 48")


def test_candidates_run_on_copies() -> None:
    @autotune(configs=[{"block": 8}, {"block": 16}], **SEARCH)
    @tileworkbench.jit(target="interpret")
    def grow(A, block=8):
        N = T.const("N")
        A: T.Tensor((N,), T.float32)
        with T.Kernel(T.ceildiv(N, block), threads=1) as bx:
            for i in T.Parallel(block):
                A[bx * block + i] += 1.0

    a = np.zeros(20, np.float32)
    grow(a)
    assert (a == 1).all(), "the array that the caller passed was changed by one run"


def test_given_inputs() -> None:
    seen: list[Any] = []

    def reference(x: Any) -> Any:
        seen.append(x)
        return x.copy()

    @autotune(configs=[{"cols": 4}], ref_prog=reference, **SEARCH)
    @tileworkbench.jit(out_idx=-1, target="interpret")
    def copy(rows, cols=4):
        return copy_program((rows, cols), "float32")

    with set_autotune_inputs(np.full((2, 4), 7, np.float32)):
        copy(2)
    assert (seen[0] == 7).all()


def test_a_timeout_interrupts() -> None:
    """TileLang's timeout, on a candidate that would run for ever."""
    search = autotune(configs=[{"mode": "hang"}, {"mode": "right"}], timeout=5, **SEARCH)(double)
    got = search(np.arange(20, dtype=np.float32))
    np.testing.assert_array_equal(got, np.arange(20) * 2)
    (result,) = search.results.values()
    assert [(f.config, f.reason) for f in result.failures] == [({"mode": "hang"}, "killed after 5 s")]


def test_the_next_session_starts_with_the_results() -> None:
    def make(block: int) -> Any:
        return matmul_program(8, 6, 4, block=block)

    def run() -> Any:
        tuner = AutoTuner.from_kernel(kernel=make, configs=[{"block": 16}, {"block": 32}]).set_compile_args(out_idx=[-1], target="interpret")
        return tuner.run(warmup=1, rep=1)

    first, second = run(), run()
    assert all(c.is_reused for c in second.candidates)
    assert [c.times_ms for c in second.candidates] == [c.times_ms for c in first.candidates]


def test_auto_tuner_object() -> None:
    def make(block=None):
        return matmul_program(8, 6, 4, block=block)

    tuner = AutoTuner.from_kernel(kernel=make, configs=[{"block": 16}, {"block": 32}])
    tuner.set_compile_args(out_idx=[-1], target="interpret").set_profile_args(supply_type=TensorSupplyType.Auto, ref_prog=product, backend="event")
    result = tuner.run(warmup=1, rep=1)
    assert result.config["block"] in (16, 32)
    assert result.kernel.latency == result.latency
    assert "matmul" in result.libcode


@pytest.mark.parametrize("by_hand", [False, True])
def test_pass_configs_are_no_arguments(by_hand: bool) -> None:
    """TileLang's configurations may carry options for its compiler."""
    configs = [{"block": 16, "pass_configs": {"tl.disable_warp_specialized": ws}} for ws in (True, False)]
    if by_hand:
        tuner = AutoTuner.from_kernel(kernel=lambda block=None: matmul_program(8, 6, 4, block=block), configs=configs)
        found = tuner.set_compile_args(out_idx=[-1], target="interpret").run(warmup=1, rep=1, enable_grouped_compile=True)
        assert found.config == configs[0]
        return

    @autotune(configs=configs, **SEARCH)
    @tileworkbench.jit(out_idx=-1, target="interpret")
    def matmul(M, N, K, block=16):
        return matmul_program(M, N, K, block=block)

    assert matmul(8, 6, 4).config == configs[0]
    assert matmul(9, 6, 4, block=16).config is None, "with every tunable given, nothing is searched"


def test_checked_by_hand() -> None:
    seen: list[tuple[Any, Any]] = []

    def check(got: Any, wanted: Any) -> None:
        seen.append((got, wanted))
        if len(seen) == 1:
            raise AssertionError("not good enough")

    tuner = AutoTuner.from_kernel(kernel=lambda block=None: matmul_program(8, 6, 4, block=block), configs=[{"block": 16}, {"block": 32}])
    tuner.set_compile_args(out_idx=[-1], target="interpret").set_profile_args(ref_prog=product, manual_check_prog=check)
    found = tuner.run(warmup=1, rep=1)
    assert [f.reason for f in found.failures] == ["AssertionError: not good enough"]
    np.testing.assert_allclose(seen[0][0][0], seen[0][1][0], rtol=1e-4)


def test_nothing_to_try() -> None:
    with pytest.raises(TileValueError, match="there is no configuration to try"):
        AutoTuner.from_kernel(kernel=lambda: None, configs=[]).run()
