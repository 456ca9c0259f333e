"""Threads of a launch: workers on processors of their own, the caller's thread left alone, tile memory that kernels share."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from runtime.programs import matmul_program

import tileworkbench
from tileworkbench.runtime import loader, toolchain

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.skipif(toolchain.default_compiler() is None, reason="needs a C compiler")

HEAD = """
import os, numpy as np, tileworkbench
from runtime.programs import matmul_program
def tasks():
    own = os.sched_getaffinity(0)
    return sorted(tuple(m) for t in os.listdir("/proc/self/task") if (m := os.sched_getaffinity(int(t))) != own)
A, B = np.ones((256, 256), np.float32), np.ones((256, 256), np.float32)
def run(threads):
    kernel = tileworkbench.compile(matmul_program(256, 256, 256), out_idx=-1, num_threads=threads)
    assert "twb_pin" in kernel.source
    for _ in range(3):
        assert (kernel(A, B) == 256).all()
before = os.sched_getaffinity(0)
"""
PINNED = """
run(len(before))
assert os.sched_getaffinity(0) == before
assert tasks() == [(cpu,) for cpu in sorted(before)[1:]], tasks()
"""
LOOSE = """
run(len(before) + 1)
assert os.sched_getaffinity(0) == before and tasks() == []
"""
NARROW = """
os.sched_setaffinity(0, {min(before)})
run(2)
assert os.sched_getaffinity(0) == {min(before)} and tasks() == []
"""


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity") or len(os.sched_getaffinity(0)) < 2, reason="needs two processors")
@pytest.mark.parametrize("code", [PINNED, LOOSE, NARROW], ids=("a full team", "more threads than processors", "one processor"))
def test_who_stays_where(code: str) -> None:
    """Workers of a team as large as the machine stay on one processor each; nobody else's choice of processors changes."""
    paths = os.pathsep.join([str(ROOT), str(ROOT / "tests")])
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("OMP_", "GOMP_"))} | {"PYTHONPATH": paths, "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-c", HEAD + code], capture_output=True, text=True, timeout=120, env=environment, check=False)
    assert done.returncode == 0, done.stderr


def test_kernels_share_their_tile_memory() -> None:
    """The second library takes its memory from the first one's function; results stay right while the area grows and is handed on."""
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((90, 70)).astype(np.float32), rng.standard_normal((70, 50)).astype(np.float32)
    kernels = [tileworkbench.compile(matmul_program(90, 50, 70, block=block), out_idx=-1) for block in (8, 16, 48, 16, 8)]
    for kernel in kernels:
        assert "twb_share" in kernel.source
        assert np.abs(kernel(a, b) - a.astype(np.float64) @ b).max() < 70 * 8 * 2.0**-23
    assert {_memory_of(kernel.executable.library) for kernel in kernels} == set(loader._shared)


def _memory_of(library: Path) -> int:
    """The address of the function that gives this kernel its tile memory."""
    share = loader.open_library(str(library)).twb_share
    share.argtypes, share.restype = (ctypes.c_void_p,), ctypes.c_void_p
    return int(share(None))
