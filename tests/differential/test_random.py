"""Random programs on the interpreter and through C: on one and two threads, for every instruction set, and under gcc's sanitizers.

A failing seed is one command away: `python -m differential.sweep FAMILY SEED 1 -v`, from the tests folder.
"""

from __future__ import annotations

import random
import shutil
import subprocess

import pytest
from differential import families
from differential.cases import Case
from differential.harness import ISAS, acceptable, compare, join
from differential.sanitized import command
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tileworkbench.ir.printer import print_kernel

NAMES = sorted(families.FAMILIES)
pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")


def check(cases: list[Case], *isas: str) -> None:
    faults = compare(cases, isas, refusable=True)
    assert not faults, "\n\n".join(f"{f.case.name}: {f.text}\n{print_kernel(join([f.case]))}" for f in faults[:3])


@pytest.mark.parametrize("family", NAMES)
def test_c_agrees_with_the_interpreter(family: str) -> None:
    check([families.make(family, seed) for seed in range(16)], "")


def test_every_generator_makes_programs_that_compile() -> None:
    """A generator whose programs are refused tests nothing."""
    for family in NAMES:
        assert len(acceptable([families.make(family, seed) for seed in range(10)])) >= 8, family


@settings(max_examples=6, derandomize=True, database=None, deadline=None, suppress_health_check=list(HealthCheck))
@given(rng=st.randoms(use_true_random=False), family=st.sampled_from(["copy", "parallel", "threads"]))
def test_a_difference_shrinks(rng: random.Random, family: str) -> None:
    """The same generators, with hypothesis choosing: what fails here is reduced to a small program."""
    check([families.FAMILIES[family](rng, "small")], "")


@pytest.mark.slow
@pytest.mark.parametrize("family", NAMES)
def test_every_instruction_set_agrees(family: str) -> None:
    """Other programs than above; sweep.py runs as many more as one has time for."""
    check([families.make(family, seed) for seed in range(100, 120)], *ISAS)


@pytest.mark.slow
@pytest.mark.parametrize("isa", sorted({"", "generic"} & {"", *ISAS}))
def test_no_access_outside(isa: str) -> None:
    """No read or write next to a tile or a tensor, no misaligned vector, no undefined shift."""
    line, env = command(NAMES, 0, 8, isa)
    done = subprocess.run(line, env=env, capture_output=True, text=True)
    said = done.stdout + done.stderr
    ended = [name for name in NAMES if f"{name}: done" in done.stdout]
    assert done.returncode == 0 and ended == NAMES and "runtime error" not in said, said[-3000:]
