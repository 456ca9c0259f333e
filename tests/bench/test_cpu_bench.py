"""Ours beside its peers: everybody solves the same small problems alike, ratios are what they say. Nothing here asserts a time."""

from __future__ import annotations

import importlib.util
from dataclasses import replace

import numpy as np
import pytest

from tileworkbench.base.machine import REFERENCE_CPU
from tileworkbench.bench.cpu.contestants import CONTESTANTS
from tileworkbench.bench.cpu.match import Result
from tileworkbench.bench.cpu.problems import GROUPS, KINDS, PROBLEMS, Problem
from tileworkbench.bench.cpu.table import Found, reached, run
from tileworkbench.runtime import toolchain

SMALL = {
    "gemm": (48, 40, 32), "gemv": (40, 96), "w4": (3, 32, 256), "attention": (1, 2, 48, 16), "softmax": (6, 40), "layernorm": (6, 40),
    "rmsnorm": (6, 40), "add": (100,), "gelu": (100,), "transpose": (40, 24),
}  # fmt: skip


@pytest.mark.skipif(toolchain.default_compiler() is None, reason="needs a C compiler")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("peer", ["numpy", "torch"])
def test_a_peer_solves_the_same_problem(kind: str, peer: str) -> None:
    if importlib.util.find_spec(peer) is None:
        pytest.skip(f"{peer} is not installed")
    problem = Problem(kind, kind, SMALL[kind], "float32", 1, 1.0)
    ours, other = CONTESTANTS["ours"](problem), CONTESTANTS[peer](problem)
    assert ours is not None
    if other is None:
        assert peer == "numpy", "NumPy has no single call for it"
        return
    for entry in (ours, other):
        entry.run()
    mine, theirs = ours.result(), other.result()
    assert mine.shape == theirs.shape
    assert np.abs(mine - theirs).max() <= 2.0**-18 * np.abs(theirs).max()  # both round float32 a few dozen times


def test_every_group_has_a_floor_and_a_name() -> None:
    assert set(GROUPS) >= {"gemm_f32", "gemm_bf16", "attention_f32", "softmax", "transpose"}
    assert len({(p.name, p.threads) for p in PROBLEMS}) == len(PROBLEMS)
    assert all(p.floor > 0 and (p.flops or p.bytes) for p in PROBLEMS)


def test_the_ratio_is_to_the_best_peer_and_the_worst_comes_last() -> None:
    fast = Result(
        PROBLEMS[0], {"ours": 1.0, "numpy": 3.0, "torch": 2.0}, {"ours": 5, "numpy": 5, "torch": 5}, {"ours": "a", "numpy": "b", "torch": "c"}
    )
    slow = replace(fast, problem=PROBLEMS[1], seconds={"ours": 4.0, "torch": 2.0})
    broken = replace(fast, problem=PROBLEMS[2], seconds={"torch": 2.0}, errors={"ours": "no such kernel"})
    assert (fast.best_peer, fast.ratio, slow.ratio, broken.ratio) == ("torch", 2.0, 0.5, None)
    assert reached(broken) == 0
    found = Found((broken, slow, fast), REFERENCE_CPU)
    assert not found.is_within and Found((fast,), REFERENCE_CPU).is_within
    lines = found.table().splitlines()
    assert [PROBLEMS[0].name in lines[2], PROBLEMS[1].name in lines[3], PROBLEMS[2].name in lines[4]] == [True] * 3
    assert "below" in lines[3] and "failed" in lines[4] and "no such kernel" in lines[5]
    assert found.as_json()["results"][0]["errors"] == {"ours": "no such kernel"}


def test_an_unknown_group_is_named() -> None:
    with pytest.raises(ValueError, match="no group 'gemm'; the groups are gemm_f32"):
        run(["gemm"])
