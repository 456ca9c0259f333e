"""Stepping through a kernel: the recurrence of the online sum, value by value, in all the forms that a viewer may take."""

from __future__ import annotations

import numpy as np
import pytest

import tileworkbench as tilelang
import tileworkbench.language as T
from tileworkbench.base.errors import ArgumentError, TileValueError
from tileworkbench.notebook.stepper import steps_of


@tilelang.jit(target="interpret")
def running_sum(X, BN=4):
    N = T.const("N")
    X: T.Tensor((N,), "float32")
    out = T.empty((1,), "float32")
    with T.Kernel(1, threads=32):
        x = T.alloc_fragment((1, BN), "float32")
        total = T.alloc_fragment((1,), "float32")
        T.clear(total)
        for k in T.serial(N // BN):
            T.copy(X[k * BN], x[0, :])
            for i in T.Parallel(1):
                total[i] = total[i] * 0.5
            T.reduce_sum(x, total, dim=1, clear=False)
        T.copy(total, out)
    return out


X = np.array([1, 2, 3, 4, 5, 6, 7, 8], dtype="float32")


@pytest.fixture(scope="module")
def steps():
    return steps_of(running_sum.compile(X), X, watch=("total",))


def test_the_values_are_those_of_the_recurrence(steps):
    written = [step.values[0] for step in steps.steps if "total" in step.changed]
    assert written == [0.0, 0.0, 10.0, 5.0, 31.0]
    assert [step.loops for step in steps.steps if step.kind == "reduce"] == [(("k", 0),), (("k", 1),)]


def test_a_step_shows_the_line_that_says_what_it_does(steps):
    lines = {step.kind: step.line for step in steps.steps}
    assert lines["parallel"] == "total[i] = total[i] * 0.5"
    assert lines["reduce"] == "T.reduce_sum(x, total, dim=1, clear=False)"


def test_text_html_and_picture_hold_the_same(steps):
    text, html = str(steps), steps.html()
    assert "31*" in text and "<b>31*</b>" in html
    assert text.count("\n") == len(steps.steps) + 1
    assert "<script" not in html and "<style" not in html
    assert steps.png()[:4] == b"\x89PNG"
    assert len(steps.first(3).steps) == 3


def test_a_tile_that_does_not_exist_is_named():
    with pytest.raises(TileValueError, match=r"no step writes totl; the buffers are .*total"):
        steps_of(running_sum.compile(X), X, watch=("totl",))


def test_wrong_arguments_are_refused():
    with pytest.raises(ArgumentError):
        steps_of(running_sum.compile(X), X.astype("float64"), watch=("total",))
