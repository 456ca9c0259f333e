"""A block's program as a thread's: the same random programs, shared out to threads, run through C and mean what they meant."""

from __future__ import annotations

import shutil

import pytest
from differential import families, harness
from differential.harness import compare

from tileworkbench.ir.stmt import Kernel
from tileworkbench.transform.copies_as_loops import copies_as_loops
from tileworkbench.transform.lowering import Step
from tileworkbench.transform.spread_threads import spread_threads

pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")
FAMILIES = sorted(families.FAMILIES)


def spread(kernel: Kernel) -> Kernel:
    return spread_threads(copies_as_loops(kernel))


@pytest.mark.parametrize("family", FAMILIES)
def test_spread_programs_mean_the_same(family: str, monkeypatch: pytest.MonkeyPatch) -> None:
    at = [s.name for s in harness.SHARED].index("fission_threads")
    monkeypatch.setattr(harness, "SHARED", (*harness.SHARED[:at], Step(spread), *harness.SHARED[at:]))
    faults = compare([families.make(family, seed) for seed in range(8)], ("",), (1,), refusable=True)
    assert not faults, "\n\n".join(f"{f.case.name}: {f.text}" for f in faults[:3])
