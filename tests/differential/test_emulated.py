"""The random programs as CUDA text, thread by thread: they mean what the interpreter says, and no thread races another."""

from __future__ import annotations

import shutil

import pytest
from differential import families
from differential.emulated import compare_emulated, compiled

pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")
REFUSED = "threads of a block that meet in a loop which they leave at different times"  # all that the CUDA target refuses of these


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("family", sorted(families.FAMILIES))
def test_emulated_programs_mean_the_same(family: str, arch: str) -> None:
    program, taken, refused = compiled([families.make(family, seed) for seed in range(3)], arch)
    assert [f.text for f in refused if REFUSED not in f.text] == []
    faults = compare_emulated(taken, sanitize=True, program=program)
    assert not faults, "\n\n".join(f"{f.case.name}: {f.text}" for f in faults[:3])


def test_a_difference_is_seen() -> None:
    case = families.make("copy", 0)
    case.tensors[-1][1].memory[0] ^= 1  # a guard byte, which no kernel may touch
    assert "wrote outside" in compare_emulated([case])[0].text
