"""NumPy and PyTorch on the demo's problems, one thread each, in a process of their own.

A separate process, because two OpenMP or BLAS thread pools in one process slow each other down many times over, and because the number of BLAS
threads is fixed when NumPy is loaded. Times are processor time of the one thread. Prints one JSON object:
{"numpy": {"version": ..., "gemm": [seconds, ...]}, ...}.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS", "VECLIB_MAXIMUM_THREADS"), "1")
GEMM = (1024, 1024, 1024)
ATTENTION = (1, 8, 1024, 64)


def measure_peers(seconds: float = 1.0, timeout_s: float = 120.0) -> dict[str, dict[str, Any]]:
    """Seconds of each run of f32 GEMM (NumPy) and attention (PyTorch), for those that are installed; empty if the process failed."""
    command = [sys.executable, "-m", "tileworkbench.bench.peers", str(seconds)]
    try:
        done = subprocess.run(command, env={**os.environ, **ONE_THREAD}, capture_output=True, text=True, timeout=timeout_s, check=True)
        found: dict[str, dict[str, Any]] = json.loads(done.stdout)
        return found
    except (subprocess.SubprocessError, OSError, ValueError):
        return {}


def cpu_times(function: Callable[[], Any], seconds: float) -> list[float]:
    """Processor seconds of this thread for each of the calls that fit into `seconds`, at least three.

    For work on one thread that is its run time, whatever else the machine does.
    """
    function()
    out: list[float] = []
    stop = time.perf_counter() + seconds
    while time.perf_counter() < stop or len(out) < 3:
        start = time.thread_time()
        function()
        out.append(time.thread_time() - start)
    return out


def _numpy(seconds: float) -> dict[str, Any]:
    m, n, k = GEMM
    a, b = np.ones((m, k), np.float32), np.ones((k, n), np.float32)
    out = np.empty((m, n), np.float32)
    return {"version": np.__version__, "gemm": cpu_times(lambda: np.matmul(a, b, out=out), seconds)}


def _torch(seconds: float) -> dict[str, Any]:
    import torch

    torch.set_num_threads(1)
    q, k, v = (torch.randn(ATTENTION) for _ in range(3))
    attend = torch.nn.functional.scaled_dot_product_attention
    with torch.no_grad():
        full = cpu_times(lambda: attend(q, k, v), seconds)
        causal = cpu_times(lambda: attend(q, k, v, is_causal=True), seconds)
    return {"version": torch.__version__, "attention": full, "causal": causal}


def main(seconds: float) -> dict[str, Any]:
    """Measure what is installed."""
    out = {"numpy": _numpy(seconds)}
    if importlib.util.find_spec("torch") is not None:
        out["torch"] = _torch(seconds)
    return out


if __name__ == "__main__":
    sys.stdout.write(json.dumps(main(float(sys.argv[1]) if len(sys.argv) > 1 else 1.0)))
