"""Every kind of statement as CUDA text through NVIDIA's compiler: the random programs of each family, for each architecture, without a warning."""

from __future__ import annotations

import pytest
from differential import emulated, families
from differential.harness import join

from tileworkbench.base.errors import TileError
from tileworkbench.runtime import nvrtc
from tileworkbench.runtime.translate_cuda import translate_gpu

ARCHS = ("sm_80", "sm_89", "sm_90a")
PROGRAMS = 4  # of a family, for each architecture others


@pytest.mark.skipif(nvrtc.find_nvrtc() is None, reason="NVRTC is not installed")
@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("family", sorted(families.FAMILIES))
def test_random_programs_compile(family: str, arch: str) -> None:
    first = ARCHS.index(arch) * PROGRAMS
    cases = [families.make(family, seed) for seed in range(first, first + PROGRAMS)]
    try:
        source, _ = translate_gpu(join(cases), arch)
    except TileError:  # of one of them
        taken, _ = emulated.refusals(cases)
        assert len(taken) >= PROGRAMS // 2, "most programs are to be compiled, not refused"
        source, _ = translate_gpu(join(taken), arch)
    made = nvrtc.compile_text(source.text, arch, source.flags, source.lines)
    assert made.cubin and not [w for w in made.warnings if not w.endswith("was set but never used")]  # random programs hold such variables
