"""A search's trials on a GPU, by a driver that runs nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from runtime.cuda_fakes import FakeArray, FakeDriver, scale_add_program, scale_add_text

import tileworkbench
from tileworkbench.runtime import cuda_arrays, targets
from tileworkbench.runtime.target_cuda import CudaTarget
from tileworkbench.tune.naming import machine_name
from tileworkbench.tune.trial import Inputs, Settings, Trial, execute


def test_a_trial_on_a_gpu(driver: FakeDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    """Arrays of the host are sent there once, times are the device's, results are read back to be compared, and the machine is the GPU."""
    monkeypatch.setitem(targets._added, "cuda", CudaTarget(scale_add_text))
    kernel = tileworkbench.compile(scale_add_program(), target="cuda", out_idx=2)
    a, b = np.ones(64, np.float32), np.full(64, 3, np.float32)
    sent: list[Any] = []
    monkeypatch.setattr(cuda_arrays, "send", lambda value: sent.append(value) or FakeArray(value))
    settings = Settings(warmup_ms=0.0, rep_ms=0.0, runs=3)
    for reference, status in ((None, "ran"), (lambda x, y, _: x * 2 + y, "wrong result")):
        inputs = Inputs.of((a, b, 2.0), reference)
        found = execute(Trial.of(kernel, inputs, settings=settings, is_isolated=False), [kernel], *inputs.load())
        assert found.status == status
        assert reference is not None or found.times_ms == (0.25, 0.25, 0.25), "what the driver's events say"
    assert len(sent) == 4
    assert machine_name("cuda") == "NVIDIA H200" and machine_name("sm_90a") == "NVIDIA H200" and "cores" in machine_name("c")
