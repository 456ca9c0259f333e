"""Calls of kernels for a GPU, from arrays to a driver that remembers what it was asked: both ways of a call, streams, reports."""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from runtime.cuda_fakes import FakeArray, FakeDriver, arrays, scale_add_program, scale_add_text

import tileworkbench
import tileworkbench.language as T
from tileworkbench.base.errors import ArgumentError, DeviceAssertError, UnsupportedError
from tileworkbench.base.machine import find_machine
from tileworkbench.codegen.cuda_source import CudaKernel, CudaSource, Pointer
from tileworkbench.ir.expr import const
from tileworkbench.runtime import cuda_arrays, cuda_fastcall, targets
from tileworkbench.runtime.observing import observe
from tileworkbench.runtime.target_cuda import CudaTarget


@pytest.fixture
def target(monkeypatch: pytest.MonkeyPatch) -> CudaTarget:
    """Target "cuda" with text written by hand."""
    made = CudaTarget(scale_add_text)
    monkeypatch.setitem(targets._added, "cuda", made)
    return made


def test_a_call_goes_from_arrays_to_the_driver(driver: FakeDriver, target: CudaTarget, fresh_cache: Path) -> None:
    kernel = tileworkbench.compile(scale_add_program(), target="cuda")
    driver.expect(8, 8, 8, 4, 8)
    a, b, c = arrays(1000)
    for count in range(1, 5):  # the third call and those after it take the short way
        assert kernel(a, b, c, 1.5) is None
        assert driver.get("launches") == count
        assert driver.arguments("QQQfq") == (a.data.ptr, b.data.ptr, c.data.ptr, 1.5, 1000)
        assert (driver.get("stream"), driver.shape()) == (5, (8, 1, 1, 128, 1, 1)), "on CuPy's current stream"
    assert kernel._fast.__name__ == "call" and driver.get("loaded") == 1 and driver.get("synced") == 0
    assert [k.max_threads for k in kernel.executable.kernels] == [128]
    assert kernel.executable.occupancy(None)[0].blocks == 16
    assert "NVRTC" in kernel.facts.compiler and "sm_90a" in kernel.facts.compiler and not kernel.facts.was_cached
    again = tileworkbench.compile(scale_add_program(), target="cuda")
    assert again.facts.was_cached and again.source == kernel.source and "__global__" in again.source
    again(a, b, c, 2.0)
    assert driver.arguments("QQQfq")[3] == 2.0


def test_an_array_that_begins_between_goes_to_the_text_without_wide_accesses(
    driver: FakeDriver, monkeypatch: pytest.MonkeyPatch, fresh_cache: Path
) -> None:
    asked: list[bool] = []

    def translate(kernel: Any, arch: str, aligned: bool = True) -> Any:
        asked.append(aligned)
        source, records = scale_add_text(kernel, arch)
        (launch,) = source.kernels
        params = tuple(Pointer(p.name, 16) if aligned and isinstance(p, Pointer) and p.name != "c" else p for p in launch.params)
        text = source.text if aligned else source.text + "\n"
        return replace(source, text=text, kernels=(replace(launch, params=params),)), records

    monkeypatch.setitem(targets._added, "cuda", CudaTarget(translate))
    kernel = tileworkbench.compile(scale_add_program(), target="cuda")
    driver.expect(8, 8, 8, 4, 8)
    a, b, c = arrays(1000)
    start = -a.data.ptr % 16 // 4  # where this array's addresses are multiples of 16
    whole, odd = FakeArray(a.host[start : start + 900]), FakeArray(a.host[start + 1 : start + 901])
    b, c = FakeArray(b.host[-b.data.ptr % 16 // 4 :][:900]), FakeArray(c.host[1 - c.data.ptr % 16 // 4 :][:900])
    for count, first in enumerate([whole, whole, whole, odd, odd, whole], 1):
        kernel(first, b, c, 1.5)
        assert driver.get("launches") == count and driver.arguments("QQQfq")[0] == first.data.ptr
        assert (asked, driver.get("loaded")) == (([True], 1) if count < 4 else ([True, False], 2))
    assert kernel.executable.alignments == {"a": 16, "b": 16}


def test_a_text_that_always_needs_aligned_arrays_refuses_others(driver: FakeDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    def translate(kernel: Any, arch: str, aligned: bool = True) -> Any:
        source, records = scale_add_text(kernel, arch)
        (launch,) = source.kernels
        params = tuple(Pointer(p.name, 16) if isinstance(p, Pointer) else p for p in launch.params)
        return replace(source, kernels=(replace(launch, params=params),)), records

    monkeypatch.setitem(targets._added, "cuda", CudaTarget(translate))
    kernel = tileworkbench.compile(scale_add_program(), target="cuda")
    driver.expect(8, 8, 8, 4, 8)
    a, b, c = arrays(1000)
    odd = FakeArray(b.host[1 + -b.data.ptr % 16 // 4 :][:900])
    a, c = (FakeArray(x.host[-x.data.ptr % 16 // 4 :][:900]) for x in (a, c))
    with pytest.raises(ArgumentError, match="the address of b has to be a multiple of 16 bytes") as caught:
        kernel(a, odd, c, 1.5)
    assert "copy" in caught.value.hint


def test_outputs_come_back_as_what_came_in(driver: FakeDriver, target: CudaTarget) -> None:
    kernel = tileworkbench.compile(scale_add_program(), target="cuda", out_idx=2)
    driver.expect(8, 8, 8, 4, 8)
    a, b, _ = arrays(300)
    for _ in range(4):
        c = kernel(a, b, 0.5)
        assert type(c) is FakeArray and c.shape == (300,) and c.dtype == np.float32
        assert driver.arguments("QQQfq") == (a.data.ptr, b.data.ptr, c.data.ptr, 0.5, 300)


def test_jit_reads_the_sizes_of_gpu_arrays(driver: FakeDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    """`T.const` sizes come from arrays in the GPU's memory too, and each size gets its kernel."""

    def translate(kernel: Any, arch: str) -> Any:
        tensors = tuple(Pointer(p.buffer.name) for p in kernel.params)
        text = 'extern "C" __global__ void copy(const float *a, float *b) { b[blockIdx.x] = a[blockIdx.x]; }'
        return CudaSource(text, (CudaKernel("copy", (kernel.params[0].buffer.shape[0], const(1), const(1)), (1, 1, 1), tensors),)), ()

    @tileworkbench.jit(target="cuda")
    def copy(A):
        N = T.const("N")
        A: T.Tensor((N,), T.float32)
        B = T.empty((N,), T.float32)
        with T.Kernel(N, threads=1) as bx:
            B[bx] = A[bx]
        return B

    monkeypatch.setitem(targets._added, "cuda", CudaTarget(translate))
    driver.expect(8, 8)
    for n in (5, 7):
        a = FakeArray(np.arange(n, dtype=np.float32))
        for _ in range(4):
            b = copy(a)
            assert type(b) is FakeArray and b.shape == (n,) and driver.shape()[0] == n
            assert driver.arguments("QQ") == (a.data.ptr, b.data.ptr)


def test_the_devices_clock_and_the_compilers_numbers(
    driver: FakeDriver, target: CudaTarget, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kernel = tileworkbench.compile(scale_add_program(), target="cuda")
    timing = kernel.profile(*arrays(64), 1.0, warmup_ms=0, runs=3)
    assert timing.runs_ms == (0.25, 0.25, 0.25) and driver.get("event_stream") == 5, "what the driver's events say, on the stream of the call"
    usage = kernel.resource_usage["scale_add"]
    assert (kernel.n_regs, kernel.n_spills) == (usage["registers"], 0) and usage["max_threads"] == 128
    with pytest.raises(UnsupportedError, match="has no PTX"):
        kernel.show_ptx()
    kernel.export(str(tmp_path))
    assert (tmp_path / "scale_add.cu").read_text() == kernel.source
    kernel.export_library(str(tmp_path / "k.cubin"))
    assert (tmp_path / "k.cubin").read_bytes() == kernel.executable.cubin
    stage = kernel.assembly()
    if stage.why:
        with pytest.raises(UnsupportedError, match="nvdisasm"):
            kernel.show_sass()
    else:
        kernel.show_sass()
        assert "LDG" in capsys.readouterr().out


def test_the_machine_of_a_kernel_runs_its_code(driver: FakeDriver, target: CudaTarget) -> None:
    """The GPU here only where the code is for it."""
    here, elsewhere = (tileworkbench.compile(scale_add_program(), target=name, out_idx=2) for name in ("cuda", "sm_80"))
    assert here.machine.name == "NVIDIA H200" and elsewhere.machine.name == "NVIDIA A100 80GB SXM"
    assert elsewhere.resources.machine == elsewhere.machine.name and elsewhere.resources.by.endswith(" for sm_80")


class _Unreadable(np.ndarray):
    """A view whose elements nobody may ask for."""

    __array_ufunc__ = None

    def __getitem__(self, key: Any) -> Any:
        raise AssertionError("an element of the GPU's memory was read")

    def __setitem__(self, key: Any, value: Any) -> None:
        raise AssertionError("an element of the GPU's memory was written")

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        raise AssertionError("the GPU's memory was read")


def test_reports_profilers_and_observers_do_not_read_the_gpus_memory(driver: FakeDriver, target: CudaTarget, monkeypatch: pytest.MonkeyPatch) -> None:
    """A view of the GPU's memory may not be read: here reading one fails at once."""
    real = cuda_arrays.window
    monkeypatch.setattr(cuda_arrays, "window", lambda *args: real(*args).view(_Unreadable))
    kernel = tileworkbench.compile(scale_add_program(), target="cuda", out_idx=2)
    a, b, _ = arrays(64)
    made = kernel.report(find_machine("h200"), args=(a, b, 2.0))
    assert made.machine.name == "NVIDIA H200"
    seen: list[Any] = []
    with observe(lambda _, call, seconds: seen.append(call.readable())):
        kernel(a, b, 2.0)
    assert driver.get("synced") == 1 and seen[0]["a"].tolist() == a.host.tolist(), "what an observer times has run"
    with observe(lambda _, call, seconds: seen.append(call.readable()), launch=False):
        kernel(a, b, 2.0)
    assert np.isnan(seen[1]["c"]).all()
    profiler = kernel.get_profiler()
    assert profiler.do_bench(input_tensors=[a, b, 2.0], n_repeat=2) == 0.25
    profiler.assert_allclose(lambda *_: FakeArray(np.zeros(64, np.float32)), input_tensors=[a, b, 1.0], max_mismatched_ratio=1.0)
    assert type(kernel.executable.send(a.host)) is FakeArray


def test_faults_of_a_call_are_explained_on_both_ways(driver: FakeDriver, target: CudaTarget) -> None:
    driver.set("devices", 2)
    kernel = tileworkbench.compile(scale_add_program(), target="cuda")
    a, b, c = arrays(64)
    shared = np.zeros(65, np.float32)
    for _ in range(2):
        with pytest.raises(ArgumentError, match="a numpy array in the host's memory"):
            kernel(a, b.host, c, 1.0)
        with pytest.raises(ArgumentError, match="expected dtype float32, got float64"):
            kernel(a, b, FakeArray(np.zeros(64)), 1.0)
        with pytest.raises(ArgumentError, match="dim 0 is 32, but n is 64"):
            kernel(a, FakeArray(np.zeros(32, np.float32)), c, 1.0)
        with pytest.raises(ArgumentError, match="not contiguous"):
            kernel(a, FakeArray(np.zeros(128, np.float32)[::2]), c, 1.0)
        with pytest.raises(ArgumentError, match="share 252 bytes of memory"):
            kernel(a, FakeArray(shared[:64]), FakeArray(shared[1:]), 1.0)
        with pytest.raises(ArgumentError, match="lie on GPUs 0, 1"):
            kernel(a, FakeArray(np.zeros(64, np.float32), device=1), c, 1.0)
        kernel(a, b, c, 1.0)
        kernel(a, b, c, 1.0)
    assert driver.get("launches") == 4


def test_an_assertion_waits_and_is_raised(driver: FakeDriver, target: CudaTarget) -> None:
    kernel = tileworkbench.compile(scale_add_program(status=True), target="cuda")
    a, b, c = arrays(64)
    for _ in range(4):
        kernel(a, b, c, 1.0)
        driver.set("status", 1)
        with pytest.raises(DeviceAssertError, match="factor is positive"):
            kernel(a, b, c, -1.0)
    kernel(a, b, c, 1.0)
    waited = driver.get("synced")
    driver.set("capturing", 1)
    driver.set("status", 1)
    kernel(a, b, c, -1.0)
    assert driver.get("synced") == waited == 9, "in a graph it cannot wait"


def test_pytorch_tensors_go_on_its_current_stream(driver: FakeDriver, target: CudaTarget, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tensors that say they are on a GPU, over the host's memory."""
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(torch._C, "_cuda_getCurrentRawStream", lambda ordinal: 40 + ordinal, raising=False)
    monkeypatch.setattr("tileworkbench.runtime.cuda_arrays._on_gpu", lambda value: True)
    kernel = tileworkbench.compile(scale_add_program(), target="cuda")
    driver.expect(8, 8, 8, 4, 8)
    a, b, c = (torch.arange(256, dtype=torch.float32) for _ in range(3))
    kernel(a, b, c, 3.0)
    assert driver.get("stream") == 40
    assert driver.arguments("QQQfq") == (a.data_ptr(), b.data_ptr(), c.data_ptr(), 3.0, 256)


@pytest.mark.parametrize("several", [False, True])
def test_the_short_way_leaves_a_tensor_of_the_host_to_the_long_one(several: bool) -> None:
    """What it launched with such a tensor would end every kernel of the process."""
    torch = pytest.importorskip("torch")
    signature = tileworkbench.compile(scale_add_program(), target="interpret").signature
    launched: list[Any] = []
    missed: list[Any] = []
    kinds = ("torch", "torch", "torch", "scalar")
    call = cuda_fastcall.make(signature, kinds, lambda *a: launched.append(a), None, 0, lambda args, _: missed.append(args), several=several)
    assert call is not None
    call(*(torch.ones(8) for _ in range(3)), 1.0)
    call(*(torch.ones(8, device="meta") for _ in range(3)), 1.0)
    assert launched == [] and len(missed) == 2


def test_without_cupy_an_output_says_what_to_install(driver: FakeDriver, target: CudaTarget, monkeypatch: pytest.MonkeyPatch) -> None:
    class Other(FakeArray):
        pass

    Other.__module__ = "numba"
    kernel = tileworkbench.compile(scale_add_program(), target="cuda", out_idx=2)
    monkeypatch.setitem(sys.modules, "cupy", None)
    a, b = (Other(np.zeros(64, np.float32)) for _ in range(2))
    with pytest.raises(UnsupportedError, match="needs CuPy, which is not installed") as caught:
        kernel(a, b, 1.0)
    assert "pip install cupy-cuda13x" in caught.value.hint


def test_a_launch_costs_little(driver: FakeDriver, target: CudaTarget) -> None:
    """Three arrays and a scalar, without the driver's own time: a third of the 6 us that a call may cost. The best of many, on a busy machine too."""
    kernel = tileworkbench.compile(scale_add_program(), target="cuda")
    a, b, c = arrays(1000)
    for _ in range(3):
        kernel(a, b, c, 1.5)
    best = float("inf")
    for _ in range(20):
        begin = time.perf_counter()
        for _ in range(100):
            kernel(a, b, c, 1.5)
        best = min(best, (time.perf_counter() - begin) / 100)
    assert best < 12e-6, f"{best * 1e6:.1f} us"


def test_a_report_fetches_only_what_it_reads(driver: FakeDriver, target: CudaTarget, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = tileworkbench.compile(scale_add_program(), target="cuda")
    fetched: list[Any] = []
    monkeypatch.setattr(cuda_arrays, "fetch", lambda value: fetched.append(value) or value.get())
    call = kernel.bind(*arrays(64), 1.0)
    seen = call.readable()
    assert list(seen) == ["a", "b", "c"] and len(seen) == 3 and not fetched
    assert seen["a"] is seen["a"] and len(fetched) == 1
    kernel.report(args=(*arrays(64), 1.0))
    assert len(fetched) == 1, "its bounds are not read from data"
