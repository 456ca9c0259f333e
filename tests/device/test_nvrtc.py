"""NVRTC takes the GPU's text of every function and of every case, without headers, for every architecture that has it."""

from __future__ import annotations

import pytest
from device.atomic_cases import CASES as ATOMICS
from device.hopper_cases import CASES as HOPPER
from device.number_cases import CASES as NUMBERS
from device.suite import joined
from device.tile_cases import CASES as TILES

from tileworkbench.device import FUNCTIONS, from_text, library, why_missing

nvrtc = pytest.importorskip("tileworkbench.runtime.nvrtc")
pytestmark = pytest.mark.skipif(nvrtc.find_nvrtc() is None, reason="NVRTC is not installed")
CASES = (*NUMBERS, *ATOMICS, *TILES, *HOPPER)
PLACES = joined(CASES)
ARCHS = ("sm_75", "sm_80", "sm_89", "sm_90a", "sm_100")


@pytest.mark.parametrize("arch", ARCHS)
def test_all_functions(arch: str) -> None:
    names = [name for name in FUNCTIONS if not why_missing(name, arch)]
    assert len(names) > 300
    nvrtc.compile_text(library(names, arch, "gpu") + 'extern "C" __global__ void k() {}\n', arch)


@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_89", "sm_90a"])
def test_all_cases(arch: str) -> None:
    """The kernels of an architecture as one text, so that templates are made too."""
    texts = {text for case, (text, _) in ((c, PLACES[c.name]) for c in CASES) if case.arch == arch}
    (joint,) = texts
    nvrtc.compile_text(library(from_text(joint), arch, "gpu") + joint, arch)
