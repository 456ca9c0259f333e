"""Every device function runs in some case; the emulator gives what NumPy gives, and so does a GPU where there is one."""

from __future__ import annotations

import copy

import pytest
from device.atomic_cases import CASES as ATOMICS
from device.cluster_cases import CASES as CLUSTERS
from device.gpu_maps import encode
from device.hopper_cases import CASES as HOPPER
from device.nibble_cases import CASES as NIBBLES
from device.number_cases import CASES as NUMBERS
from device.suite import Case, compare, emulate, joined, on_gpu
from device.tile_cases import CASES as TILES

from tileworkbench.device import FUNCTIONS, arch_number, from_text

CASES = (*NUMBERS, *ATOMICS, *TILES, *NIBBLES, *HOPPER, *CLUSTERS)
PLACES = joined(CASES)
UNCOVERED = {"twb_fail"}  # it ends the program: tests/emulator/test_program.py


@pytest.mark.parametrize("case", CASES, ids=str)
def test_emulated(case: Case) -> None:
    after, result = emulate(case, *PLACES[case.name])
    assert [str(f) for f in result.findings] == []
    compare(case, case.args(), after)


@pytest.mark.cuda
@pytest.mark.parametrize("case", CASES, ids=str)
def test_on_a_gpu(case: Case) -> None:
    cupy = pytest.importorskip("cupy")
    here = int(cupy.cuda.Device().compute_capability)
    if here < arch_number(case.arch) or (case.arch == "sm_90a" and here != 90):
        pytest.skip(f"needs {case.arch}, this is sm_{here}")
    compare(case, case.args(), on_gpu(case, cupy, encode))


def test_every_function_runs_in_some_case() -> None:
    used = {name for case in CASES for name in from_text(case.text)}
    assert set(FUNCTIONS) - used - UNCOVERED == set()


def test_a_wrong_result_would_fail() -> None:
    case = next(c for c in CASES if c.name == "integers i32")
    after, _ = emulate(case, *PLACES[case.name])
    wrong = copy.deepcopy(after)
    wrong[2][0, 0] += 1
    with pytest.raises(AssertionError):
        compare(case, case.args(), wrong)
