"""Hardware counters of a GPU around calls of kernels, through Nsight Compute: bytes at DRAM and L2, conflicts of banks, instructions, cycles.

The calls run again in a process that `ncu` watches, on copies of their arguments, which takes some seconds. What is counted is a launch that finds
nothing in L2 (a first one), and its bytes are all that it makes memory move: also those that it leaves in L2, to be written back later. Where ncu is
missing or may not count, one line says why and what to do, and nothing fails.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..model.counters import Counters
from .ncu import Launched, find_ncu, profile, why_absent
from .saved_calls import READER, save_calls

if TYPE_CHECKING:
    from .kernel import JITKernel

PROCESS = "tileworkbench.runtime.counting_process"
START_S, CALL_S = 120.0, 30.0
_SECTORS = {"L2 sectors read": "L2 read", "L2 sectors written": "L2 written"}
_LATER = ("DRAM written",)  # what a call leaves in L2 is written back while the reader behind it runs


def count_calls(calls: Sequence[tuple[JITKernel, Sequence[Any]]]) -> list[Counters]:
    """The counters of each call (a kernel and its arguments, in the GPU's memory). Counters that cannot be had raise nothing."""
    program = find_ncu()
    if program is None:
        return [Counters(missing=why_absent())] * len(calls)
    with tempfile.TemporaryDirectory(prefix="tileworkbench-calls-") as folder:
        why = save_calls(Path(folder), calls)
        if why:
            return [Counters(missing=why)] * len(calls)
        command = (sys.executable, "-m", PROCESS, folder)
        found = profile(program, command, timeout_s=START_S + CALL_S * len(calls), environment=_environment())
    if found.why:
        return [Counters(missing=found.why)] * len(calls)
    counted = list(by_call(found.launches))
    lost = Counters(missing="no counters: the process that ncu watched ended before this call")
    return counted[: len(calls)] + [lost] * (len(calls) - len(counted))


def by_call(launches: Sequence[Launched]) -> Iterator[Counters]:
    """The launches of each call summed up: a call ends with the reader, during which what the call left in L2 is written back."""
    sums: dict[str, float] = {}
    for launched in launches:
        is_end = launched.kernel.startswith(READER)
        for name, value in launched.values.items():
            if not is_end or name in _LATER:
                name = _SECTORS.get(name, name)
                sums[name] = sums.get(name, 0.0) + value
        if is_end:
            yield Counters(sums, 1, source="ncu", is_first=True)
            sums = {}


def _environment() -> Mapping[str, str]:
    """This process's, where the package is found as here."""
    root = str(Path(__file__).resolve().parents[2])
    known = os.environ.get("PYTHONPATH", "")
    return {**os.environ, "PYTHONPATH": os.pathsep.join([root, known] if known else [root])}
