"""Groups of warps that issue their products in turn, if the author asks for it (sm_90a)."""

from __future__ import annotations

import numpy as np
import pytest

import tileworkbench
from tileworkbench.frontend.prim_func import PrimFunc
from tileworkbench.ir.device import DeviceCall
from tileworkbench.ir.node import walk
from tileworkbench.kernels import attention
from tileworkbench.runtime import toolchain
from tileworkbench.transform.cuda_lowering import cuda_steps

pytestmark = pytest.mark.skipif(toolchain.default_compiler() is None, reason="needs a host C++ compiler")
SEQ, DIM = 300, 64


def program(rows: int = 192, in_turn: bool = True, causal: bool = True) -> PrimFunc:
    return attention.program(1, 1, SEQ, DIM, causal, rows, 32, "float16", 0, 2, 2 * rows, in_turn)


def calls(made: PrimFunc) -> list[str]:
    """Turns, products and waits of a launch, in the order of the text."""
    kernel = made.kernel
    for step in cuda_steps(90):
        kernel = step.run(kernel)
        if step.name == "spread_threads":
            break
    found = [n.name for n in walk(kernel) if isinstance(n, DeviceCall)]
    return [name for name in found if name.startswith(("twb_turn", "twb_wgmma_m", "twb_wgmma_rs", "twb_wgmma_wait"))]


def test_products_stand_between_a_turn_and_the_next() -> None:
    found = calls(program())
    assert found.count("twb_turn_begin") == found.count("twb_turn_wait") == found.count("twb_turn_pass") == 1
    turn = found[found.index("twb_turn_wait") + 1 : found.index("twb_turn_pass")]
    assert [name[:12] for name in turn] == ["twb_wgmma_m6", "twb_wgmma_rs"]
    assert not any("turn" in name for name in calls(program(in_turn=False)) + calls(program(64)))  # not asked for; one group


@pytest.mark.parametrize("causal", [False, True])
def test_three_groups_in_turn(causal: bool) -> None:
    rng = np.random.default_rng(5)
    q, k, v = (rng.standard_normal((1, 1, SEQ, DIM)).astype(np.float16) for _ in range(3))
    out = np.full_like(q, -7)
    kernel = tileworkbench.compile(program(causal=causal), target="emulate:sm_90a")
    kernel(q, k, v, out)
    scores = q.astype(np.float64) @ k.astype(np.float64).swapaxes(-1, -2) / DIM**0.5
    if causal:
        scores = np.where(np.tril(np.ones((SEQ, SEQ), dtype=bool)), scores, -np.inf)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights /= weights.sum(axis=-1, keepdims=True)
    assert np.all(np.abs(out - weights @ v.astype(np.float64)) <= 2.0**-9 * (weights @ np.abs(v.astype(np.float64))))
    found = kernel.sanitize(q, k, v, out, arch="sm_90a")
    assert found.is_clean, str(found)
