"""Random programs on a GPU mean what they mean to the interpreter; those that the CUDA target refuses are left out."""

from __future__ import annotations

import pytest
from differential import families
from differential.emulated import refusals
from differential.on_gpu import compare_on_gpu

from tileworkbench.runtime.gpu_arch import DEFAULT
from tileworkbench.runtime.libcuda import find_driver, why_no_driver

pytestmark = [pytest.mark.cuda, pytest.mark.skipif(find_driver() is None, reason=f"no GPU: {why_no_driver()}")]
FAMILIES = sorted(families.FAMILIES)


@pytest.mark.parametrize("first", [0, 12, 24])
@pytest.mark.parametrize("family", FAMILIES)
def test_random_programs(family: str, first: int) -> None:
    cupy = pytest.importorskip("cupy")
    driver = find_driver()
    arch = driver.device(0).arch if driver is not None else DEFAULT
    taken, _ = refusals([families.make(family, seed) for seed in range(first, first + 12)], arch)
    faults = compare_on_gpu(cupy, taken) if taken else []
    assert not faults, "\n\n".join(f"{f.case.name}: {f.text}" for f in faults[:3])
