"""The example of extensions/README.md, installed as a package would be, and used."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "extensions" / "README.md").read_text(encoding="utf-8")

PROGRAM = """
import numpy as np
import tileworkbench as tilelang
import tileworkbench.language as T

@tilelang.jit(target="trace")
def double(A):
    N = T.const("N")
    A: T.Tensor((N,), "float32")
    B = T.empty((N,), "float32")
    with T.Kernel(T.ceildiv(N, 32), threads=32) as bx:
        for i in T.Parallel(32):
            B[bx * 32 + i] = A[bx * 32 + i] * 2
    return B

A = np.arange(96, dtype="float32")
kernel = double.compile(A)
assert (kernel(A) == 2 * A).all()
print(kernel.target, kernel.executable.trace.compulsory_bytes)
"""


def block(language: str) -> str:
    match = re.search(rf"^```{language}\n(.*?)^```$", PAGE, flags=re.M | re.S)
    assert match
    return match[1]


def test_a_target_of_another_package(tmp_path: Path):
    (tmp_path / "tileworkbench_trace.py").write_text(block("python"))
    info = tmp_path / "tileworkbench_trace-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: tileworkbench-trace\nVersion: 1.0\n")
    entry = re.search(r'^trace = "(.*)"$', block("toml"), flags=re.M)
    assert entry
    (info / "entry_points.txt").write_text(f"[tileworkbench.targets]\ntrace = {entry[1]}\n")
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    path = os.pathsep.join([str(tmp_path), str(ROOT)])
    done = subprocess.run([sys.executable, str(program)], env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["trace", str(2 * 96 * 4)]
