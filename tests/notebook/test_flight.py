"""Recording and breaking a kernel: `record`, `fly`, `modelled`, `break_it`."""

from __future__ import annotations

import numpy as np
import pytest

import tileworkbench as tilelang
import tileworkbench.language as T
from tileworkbench.base.errors import TileValueError
from tileworkbench.base.machine import find_machine
from tileworkbench.kernels.attention import Schedule, attention
from tileworkbench.notebook.breaking import FAULTS, break_it
from tileworkbench.notebook.flight import fly, modelled, record
from tileworkbench.views.error_map import error_map

SEQ, DIM, TILE = 64, 16, 16


@tilelang.jit(out_idx=-1)
def copy_rows(N):
    @T.prim_func
    def main(X: T.Tensor((N, 8), "float32"), Y: T.Tensor((N, 8), "float32")):
        with T.Kernel(N // 8) as bx:
            x = T.alloc_shared((8, 8), "float32")
            T.copy(X[bx * 8, 0], x)
            T.copy(x, Y[bx * 8, 0])

    return main


@pytest.fixture(scope="module")
def inputs():
    rng = np.random.default_rng(0)
    return tuple(rng.standard_normal((1, 1, SEQ, DIM)).astype(np.float32) for _ in range(3))


@pytest.fixture(scope="module")
def kernel():
    return attention(1, 1, SEQ, DIM, schedule=Schedule(TILE, TILE))


def reference(q, k, v):
    q, k, v = (x[0, 0].astype(np.float64) for x in (q, k, v))
    scores = q @ k.T / DIM**0.5
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    return (weights / weights.sum(axis=1, keepdims=True) @ v)[None, None]


def test_a_recordings_bytes_are_those_of_the_report(kernel, inputs):
    recording = record(kernel, *inputs, machine="reference")
    facts = modelled(kernel, *inputs, machine="reference").first_launch
    assert recording.totals["DRAM"] > 0
    assert recording.totals == {level.name: level.bytes for level in facts.levels}
    assert recording.ops[-1].bytes == pytest.approx(recording.totals)


def test_a_machine_may_be_a_value(kernel, inputs):
    assert modelled(kernel, machine=find_machine("h200")).machine.name == modelled(kernel, *inputs).machine.name


def test_bad_requests_say_what_there_is(kernel, inputs):
    with pytest.raises(TileValueError, match="no tile is called scores; the tiles are q, k"):
        record(kernel, *inputs, watch=("scores",))
    with pytest.raises(TileValueError, match="ran no block"):
        record(kernel, *inputs, block=(99,))


def test_any_kernel_can_be_recorded():
    view = fly(copy_rows.compile(32), np.ones((32, 8), np.float32))
    assert [role.name for role in view.recording.roles] == ["x"]
    assert view.scene().svg().startswith("<svg")
    assert view.live()["names"][0] == "block"


# ---------------------------------------------------------------------------------------------- break it
@pytest.mark.parametrize("fault", ["no rescale", "wrong maximum"])
def test_a_broken_kernel_is_wrong_where_the_maximum_rose(kernel, inputs, fault):
    broken = break_it(kernel, fault)(*inputs)
    good, bad = error_map({"good": kernel(*inputs), "bad": broken}, reference(*inputs), tile=(TILE, DIM)).variants
    assert good.wrong_tiles == 0
    assert bad.wrong_tiles > 0


def test_the_first_step_alone_needs_no_rescale(inputs):
    """One key tile: there is nothing to rescale, so the faults change nothing."""
    kernel = attention(1, 1, SEQ, DIM, schedule=Schedule(TILE, SEQ))
    for fault in ("no rescale", "wrong maximum"):
        np.testing.assert_allclose(break_it(kernel, fault)(*inputs), kernel(*inputs), rtol=1e-5)


def test_without_a_maximum_small_scores_are_right_and_large_ones_overflow(kernel, inputs):
    broken = break_it(kernel, "no maximum")
    np.testing.assert_allclose(broken(*inputs), kernel(*inputs), rtol=1e-3, atol=1e-5)
    large = (np.float32(100) * inputs[0], *inputs[1:])
    assert np.isfinite(kernel(*large)).all()
    assert not np.isfinite(broken(*large)).all()


def test_breaking_leaves_the_kernel_alone(kernel, inputs):
    before = kernel(*inputs)
    broken = break_it(kernel, "no rescale")
    assert broken.name == "attention_no_rescale"
    assert broken.target == kernel.target
    np.testing.assert_array_equal(kernel(*inputs), before)


def test_faults_are_named(kernel):
    assert FAULTS == ("no rescale", "wrong maximum", "no maximum")
    with pytest.raises(TileValueError, match="no fault is called 'no sums'"):
        break_it(kernel, "no sums")
    with pytest.raises(TileValueError, match="is not attention"):
        break_it(copy_rows.compile(32), "no rescale")
