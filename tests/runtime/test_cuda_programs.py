"""Tile programs through the target's own emitter, on a fake driver: hosts' loops and branches, assertions, memory, prints."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from runtime.cuda_fakes import FakeArray, FakeDriver, arrays, scale_add_program

import tileworkbench
import tileworkbench.demo as demo
import tileworkbench.language as T
from tileworkbench.base.dtypes import DType
from tileworkbench.base.errors import ArgumentError, DeviceAssertError
from tileworkbench.codegen.cuda_source import Pointer, RunKernel
from tileworkbench.ir.expr import Binary, Buffer, Var, const
from tileworkbench.ir.stmt import Let
from tileworkbench.runtime import cuda_arrays, targets
from tileworkbench.runtime.nvrtc import find_nvrtc
from tileworkbench.runtime.target_cuda import CudaTarget
from tileworkbench.runtime.translate_cuda import translate_gpu


@pytest.fixture
def emitted(driver: FakeDriver, monkeypatch: pytest.MonkeyPatch, fresh_cache: Path) -> None:
    """Target "cuda" with its own emitter."""
    if find_nvrtc() is None:
        pytest.skip("NVRTC is not installed")
    monkeypatch.delitem(targets._added, "cuda", raising=False)


def test_a_host_program_launches_what_it_reaches(driver: FakeDriver, emitted: None) -> None:
    """Each turn of a loop, one branch of two; on the long way and on the short one, from the compiler and from the cache."""
    n = T.dynamic("n")

    @T.prim_func
    def branches(X: T.Tensor((n,), "float32"), turns: T.int32, s: T.float32):  # type: ignore[valid-type]
        for j in T.serial(turns):
            if s > 0.5:
                with T.Kernel(T.ceildiv(n, 32), threads=32) as b:
                    X[b] = X[b] + j
            else:
                with T.Kernel(1, threads=64):
                    X[0] = s
                with T.Kernel(2, threads=96):
                    X[1] = s

    for again in range(2):
        kernel = tileworkbench.compile(branches, target="cuda")
        assert kernel.facts.was_cached == bool(again)
        (x,) = (FakeArray(np.zeros(70, np.float32)),)
        for _ in range(4):
            driver.set("launches", 0)
            driver.expect(8, 8, 8)
            kernel(x, 3, 0.75)
            assert (driver.get("launches"), driver.shape()) == (3, (3, 1, 1, 32, 1, 1))
            assert driver.arguments("Qqq")[:1] == (x.data.ptr,) and sorted(driver.arguments("Qqq")[1:]) == [2, 70]
            driver.set("launches", 0)
            driver.expect(8, 4)
            kernel(x, 2, 0.5)
            assert (driver.get("launches"), driver.shape()) == (4, (2, 1, 1, 96, 1, 1))
            driver.set("launches", 0)
            kernel(x, 0, 0.5)
            assert driver.get("launches") == 0


def test_assertions_of_the_host_and_of_the_device(driver: FakeDriver, emitted: None) -> None:
    n = T.dynamic("n")

    @T.prim_func
    def checks(X: T.Tensor((n,), "float32")):  # type: ignore[valid-type]
        T.device_assert(n > 2, "n is more than two")
        with T.Kernel(1, threads=32):
            T.device_assert(X[0] > 0, "X is positive")
            X[0] = 1

    kernel = tileworkbench.compile(checks, target="cuda")
    x = FakeArray(np.ones(3, np.float32))
    for _ in range(4):
        kernel(x)
        with pytest.raises(DeviceAssertError, match="n is more than two"):
            kernel(FakeArray(np.ones(2, np.float32)))
        driver.set("status", 2)
        with pytest.raises(DeviceAssertError, match="X is positive"):
            kernel(x)
        assert driver.get("launches"), "the context is usable"


def test_numpy_arrays_are_sent_back_to_where_they_belong(driver: FakeDriver, emitted: None) -> None:
    kernel = tileworkbench.compile(scale_add_program(), target="cuda")
    with pytest.raises(ArgumentError, match="a numpy array in the host's memory") as caught:
        kernel(np.zeros(64, np.float32), *arrays(64)[:2], 1.0)
    assert "cupy.asarray" in str(caught.value)


def fills_with_memory(monkeypatch: pytest.MonkeyPatch, n: Any) -> Any:
    """A kernel whose text has a workspace of 3 n float16, which the program does not know."""

    @T.prim_func
    def fills(X: T.Tensor((n,), "float32")):  # type: ignore[valid-type]
        with T.Kernel(1, threads=32):
            X[0] = 1

    count = Binary("mul", fills.kernel.dims[0], const(3)) if fills.kernel.dims else const(3 * n)
    work = Buffer("work", (count,), DType("float16"))

    def translate(kernel: Any, arch: str) -> Any:
        made, records = translate_gpu(kernel, arch)
        (launch,) = made.kernels
        text = made.text.replace("(twb_global<float> X", "(twb_global<uint8_t> work, twb_global<float> X")
        changed = replace(launch, params=(Pointer("work"), *launch.params))
        return replace(made, text=text, kernels=(changed,), host=(Let(Var("y"), const(1)), RunKernel(0)), workspaces=(work,)), records

    monkeypatch.setitem(targets._added, "cuda", CudaTarget(translate))
    return tileworkbench.compile(fills, target="cuda")


def test_memory_that_only_the_text_knows(driver: FakeDriver, emitted: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """A workspace of the lowered program: its bytes follow the dims, and it lives until the launches are in the stream."""
    kernel = fills_with_memory(monkeypatch, T.dynamic("n"))
    made: list[Any] = []
    real = cuda_arrays.allocate
    monkeypatch.setattr(cuda_arrays, "allocate", lambda *a: made.append((a[0], real(*a))) or made[-1][1])
    x = FakeArray(np.zeros(5, np.float32))
    for _ in range(4):
        driver.expect(8)
        kernel(x)
        shape, (view, _) = made.pop()
        assert shape == (30,) and driver.arguments("Q") == (view.__array_interface__["data"][0],)


def test_memory_of_known_size_is_no_long_way(driver: FakeDriver, emitted: None, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = fills_with_memory(monkeypatch, 5)
    driver.expect(8)
    x, made = FakeArray(np.zeros(5, np.float32)), []
    real = sys.modules["cupy"].empty
    monkeypatch.setattr(sys.modules["cupy"], "empty", lambda *a: made.append((a[0], real(*a))) or made[-1][1])
    for _ in range(4):
        kernel(x)
    assert kernel._fast.__name__ == "call"
    shape, memory = made[-1]
    assert shape == (30,) and driver.arguments("Q") == (memory.data.ptr,)


def test_the_demo_goes_to_the_gpu(
    driver: FakeDriver, emitted: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The driver here runs nothing, so results are wrong: what counts is that arrays, clocks and tables are the GPU's."""
    case = demo.gpu_cases(quick=True, target="cuda")[2]
    small = demo._softmax_case(8, 64, target="cuda")
    assert "4096 x 4096" in case.shape
    monkeypatch.setattr(demo, "gpu_cases", lambda **_: [small])
    assert demo.run_demo(tmp_path / "r.html", target="cuda") == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "NVIDIA H200, 132 SMs, compute capability 9.0" and lines[1].startswith("NVIDIA H200: 989 TFLOP/s float16")
    row = next(line for line in lines if line.startswith("softmax"))
    assert row.endswith("WRONG") and "  0.25  " in row, "the device's clock"


def test_a_kernel_that_prints_is_waited_for(driver: FakeDriver, emitted: None) -> None:
    @T.prim_func
    def shows(X: T.Tensor((4,), "float32")):  # type: ignore[valid-type]
        with T.Kernel(1, threads=32):
            T.print(X[0], msg="first")
            X[0] = 1

    kernel = tileworkbench.compile(shows, target="cuda")
    assert kernel.executable.plan.prints and not kernel.executable.plan.status
    x = FakeArray(np.zeros(4, np.float32))
    for turn in range(1, 5):
        kernel(x)
        assert driver.get("synced") == turn
    driver.set("capturing", 1)
    kernel(x)
    assert driver.get("synced") == 4
