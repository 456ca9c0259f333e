"""Random loops whose copies run ahead, as CUDA text in the emulator: what the interpreter says, and no fault."""

from __future__ import annotations

import pytest
from differential import families
from differential.emulated import compare_emulated, compiled
from differential.harness import join

from tileworkbench.ir.printer import print_kernel
from tileworkbench.runtime.target_emulate import EmulateTarget
from tileworkbench.transform import share_tiles

pytestmark = pytest.mark.skipif(bool(EmulateTarget().usable()), reason=EmulateTarget().usable())


@pytest.mark.parametrize("first", [0, *(pytest.param(n, marks=pytest.mark.slow) for n in range(12, 60, 12))])
def test_random_pipelines(first: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(share_tiles, "FEW_BYTES", 0)  # the tiles are small
    program, cases, refused = compiled([families.make("pipelines", seed) for seed in range(first, first + 12)])
    assert [f.text for f in refused] == []
    faults = compare_emulated(cases, sanitize=True, program=program)
    assert not faults, "\n\n".join(f"{f.case.name}: {f.text}\n{print_kernel(join([f.case]))}" for f in faults[:2])
    assert sum("twb_cp_async<" in kernel for kernel in program.source.split("__global__")) >= 3  # else this tests nothing
