"""Measuring a GPU: what is said without one, and what is made of the timings of a made-up one."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tileworkbench.base.errors import UnsupportedError
from tileworkbench.base.machine import Machine, find_machine
from tileworkbench.kernels import gemm
from tileworkbench.model.report import report
from tileworkbench.runtime import measure_cuda as module
from tileworkbench.runtime import target_cuda
from tileworkbench.runtime.cuda_probes import MEMORY_TEXT, cuda_probes
from tileworkbench.runtime.measure import measure
from tileworkbench.runtime.measure_cuda import gpu_number, measure_cuda, measured_before

SPEED = {"read_shared": 25e12, "read_global": 4e12}  # bytes a second; arithmetic runs at 30e12 operations a second, tensor units at 500e12


def test_one_line_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cupy", None)
    monkeypatch.setattr(Machine, "measurer", measure)
    with pytest.raises(UnsupportedError, match="measuring a GPU needs CuPy, which is not installed") as caught:
        Machine.measure(device="cuda")
    assert "pip install cupy-cuda12x" in str(caught.value)
    with pytest.raises(ValueError, match="'tpu' is no device that can be measured"):
        Machine.measure(device="tpu")
    assert gpu_number("cuda:3") == 3


def test_a_driver_without_a_gpu_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeCupy()
    fake.cuda.runtime.getDeviceCount = _fails
    monkeypatch.setitem(sys.modules, "cupy", fake)
    with pytest.raises(UnsupportedError, match="CuPy finds no GPU: cudaErrorNoDevice"):
        measure_cuda()
    monkeypatch.setitem(sys.modules, "cupy", FakeCupy())
    with pytest.raises(UnsupportedError, match="there is no GPU number 5, only 1 of them"):
        measure_cuda(5)


def _fails() -> int:
    raise RuntimeError("cudaErrorNoDevice: no CUDA-capable device is detected")


def test_a_gpu_is_measured_with_its_theory_beside(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    fake = FakeCupy(refused=("mma_int8",))
    monkeypatch.setitem(sys.modules, "cupy", fake)
    monkeypatch.setattr(module, "cache_folder", lambda: tmp_path)
    machine = measure_cuda()
    assert machine.theory == find_machine("h200")
    assert machine.bandwidth("shared").value == pytest.approx(25_000, rel=0.01) and machine.bandwidth("shared").measured
    assert machine.bandwidth("DRAM").value == pytest.approx(4_000, rel=0.01)
    assert machine.peak("float32").value == pytest.approx(30_000, rel=0.01)
    assert machine.peak("bfloat16>float32").value == pytest.approx(500_000, rel=0.01)
    assert machine.find_peak("bfloat16>float32").unit == "tensor"
    assert any("mma.sync m16n8k32 (int8>int32) was not measured: no such instruction" in note for note in machine.notes)
    assert not machine.find_peak("int8>int32").machine.measured, "from the data sheet, and marked so"
    gpu = machine.gpu
    assert gpu is not None and gpu.shared_per_block.bytes == 232_448 and gpu.launch.measured
    assert machine.date and "measured" in str(machine)
    assert gpu.sustained_clock == machine.theory.gpu.sustained_clock and machine.find_peak("float16>float32", "tensor").per_clock.value == 4096
    assert measured_before("NVIDIA H200", 13000) == machine and measured_before("NVIDIA H200", 12080) is None
    calls = len(fake.calls)
    assert measure_cuda() == machine and len(fake.calls) == calls, "the second time it is read from the cache"
    assert measure_cuda(force=True).name == machine.name and len(fake.calls) > calls


def test_reports_use_the_measured_gpu_from_then_on(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    """Roofs are the data sheet's until somebody measures; then they are marked as measured, and products are predicted as long as before."""
    monkeypatch.setitem(sys.modules, "cupy", FakeCupy())
    monkeypatch.setattr(module, "cache_folder", lambda: tmp_path)
    monkeypatch.setattr(target_cuda, "_device_name", lambda arch: "NVIDIA H200")
    monkeypatch.setattr(target_cuda, "find_driver", lambda: SimpleNamespace(version=(13, 0)))
    paper = target_cuda.machine_for("sm_90a")
    assert paper == find_machine("h200") and not paper.bandwidth("DRAM").measured
    measure_cuda()
    timed = target_cuda.machine_for("sm_90a")
    assert timed.bandwidth("DRAM").measured and timed.peak("float16>float32").measured and timed.theory == paper
    kernel = gemm.program(8192, 8192, 8192, 128, 256, 64, 4, "float16", "float16", False, "float32", 256, 8).kernel
    peaks = tuple(replace(p, machine=replace(p.machine, value=840_000.0)) if p.unit == "tensor" else p for p in timed.peaks)
    slow, fast = (report(kernel, m, {}, registers=168) for m in (replace(timed, levels=paper.levels, peaks=peaks), paper))
    assert slow.compute_seconds == pytest.approx(fast.compute_seconds * 989.4 / 840)
    assert slow.predicted.value == pytest.approx(fast.predicted.value, rel=0.01), "the power limit leaves the same clock to both"


def test_newer_gpus_are_asked_for_more() -> None:
    def names(capability: tuple[int, int]) -> set[str]:
        return {p.entry for p in cuda_probes(capability)}

    assert "mma_bfloat16" not in names((7, 5)) and "mma_float16" in names((7, 5))
    assert "mma_float8_e4m3fn" in names((8, 9)) - names((8, 6))
    assert names((9, 0)) - names((10, 0)) == {"wgmma_f16", "wgmma_bf16"}
    for probe in cuda_probes((9, 0)):
        assert f'extern "C" __global__ void __launch_bounds__(256) {probe.entry}(' in probe.text
        assert probe.text.count("{") == probe.text.count("}") and probe.ops > 0 and "#include" not in probe.text
    products = {p.entry: p.ops for p in cuda_probes((9, 0))}
    assert products["mma_float16"] == 4 * 2 * 16 * 8 * 16 / 32, "a warp's products, over its 32 threads"
    assert products["wgmma_f16"] == 4 * 2 * 64 * 256 * 16 / 128, "a warp group's, over its 128"
    assert "ld.global.cg" in MEMORY_TEXT, "reads of L2 and DRAM must not stay in L1"


class FakeCupy(ModuleType):
    """Enough of CuPy to run the measurement: a launch advances a clock by the time that the work would take at made-up speeds."""

    float32, uint32 = np.float32, np.uint32

    def __init__(self, refused: tuple[str, ...] = ()) -> None:
        super().__init__("cupy")
        self.now, self.calls, self.refused = 0.0, [], refused
        attributes = {"MultiProcessorCount": 132, "L2CacheSize": 50 << 20, "ClockRate": 1980_000, "MaxSharedMemoryPerBlockOptin": 232_448}
        runtime = SimpleNamespace(
            getDeviceCount=lambda: 1, driverGetVersion=lambda: 13000, memGetInfo=lambda: (1 << 22, 1 << 22), deviceSynchronize=lambda: None,
            getDeviceProperties=lambda n: {"name": b"NVIDIA H200", "major": 9, "minor": 0, "totalGlobalMem": 141 << 30},
        )  # fmt: skip
        self.cuda = SimpleNamespace(
            runtime=runtime, Event=lambda: FakeEvent(self), Device=lambda n: FakeDevice(attributes),
            get_elapsed_time=lambda a, b: (b.at - a.at) * 1e3,
        )  # fmt: skip
        self.random = SimpleNamespace(random=lambda n, dtype: np.zeros(n, dtype))

    def zeros(self, n: int, dtype: Any) -> Any:
        return np.zeros(n, dtype)

    def asarray(self, a: Any) -> Any:
        return a

    def RawModule(self, code: str, options: tuple[str, ...]) -> Any:
        return SimpleNamespace(get_function=lambda name: self.kernel(name))

    def kernel(self, name: str) -> Callable[..., None]:
        if name in self.refused:
            raise RuntimeError("no such instruction\nand more")
        probe = next((p for p in cuda_probes((9, 0)) if p.entry == name), None)

        def launch(grid: tuple[int], block: tuple[int], args: tuple[Any, ...], shared_mem: int = 0) -> None:
            self.calls.append(name)
            if probe is not None:
                speed = 500e12 if probe.unit == "tensor" else 30e12
                self.now += probe.ops * block[0] * grid[0] * int(args[1]) / speed
            elif name == "read_shared":
                self.now += grid[0] * 256 * 128 * int(args[0]) / SPEED[name]
            elif name == "read_global":
                self.now += int(args[1]) * int(args[2]) / SPEED[name]
            elif name.startswith("chase"):
                self.now += 200e-9 * int(args[-2])

        return launch


class FakeEvent:
    def __init__(self, cupy: FakeCupy) -> None:
        self.cupy, self.at = cupy, 0.0

    def record(self) -> None:
        self.at = self.cupy.now

    def synchronize(self) -> None:
        pass


class FakeDevice:
    def __init__(self, attributes: dict[str, int]) -> None:
        self.attributes = attributes

    def __enter__(self) -> FakeDevice:
        return self

    def __exit__(self, *error: object) -> None:
        pass
