"""The target "cuda" on a machine without a GPU: tile programs to machine code, what the compiler says of it, and what bad input gets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tileworkbench
import tileworkbench.language as T
from tileworkbench.base.errors import ArgumentError, CapacityError, CompilerError, DeviceAssertError, TileValueError, UnsupportedError
from tileworkbench.base.machine import find_machine
from tileworkbench.frontend.prim_func import PrimFunc
from tileworkbench.kernels import attention, gemm, softmax
from tileworkbench.runtime import libcuda, nvrtc, targets

needs_nvrtc = pytest.mark.skipif(nvrtc.find_nvrtc() is None, reason="NVRTC is not installed")


@pytest.fixture
def no_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWORKBENCH_LIBCUDA", "libno_such_driver.so")


def checked_exp(second: str = "is positive") -> PrimFunc:
    """Y = exp(X) for positive X; its first assertion always holds."""

    @T.prim_func
    def checked(X: T.Tensor((64,), "float32"), Y: T.Tensor((64,), "float32")):
        with T.Kernel(2, threads=32) as b:
            for i in T.Parallel(32):
                T.device_assert(64 > 3, "never")
                T.device_assert(X[b * 32 + i] > 0, second)
                Y[b * 32 + i] = T.exp(X[b * 32 + i])

    return checked


def copied(rows: int, cols: int, threads: int = 128) -> PrimFunc:
    @T.prim_func
    def copies(X: T.Tensor((rows, cols), "float32"), Y: T.Tensor((rows, cols), "float32")):
        with T.Kernel(1, threads=threads):
            s = T.alloc_shared((rows, cols), "float32")
            T.copy(X, s)
            T.copy(s, Y)

    return copies


# ------------------------------------------------------------------------------------------- compiling
PROGRAMS = {
    "gemm": gemm.program(256, 256, 256, 64, 64, 32, 2, "float16", "float16", True),
    "attention": attention.program(1, 1, 128, 64, True, 64, 32, "float32"),
    "softmax": softmax.program(64, 128, 4, "float32"),
}


@needs_nvrtc
@pytest.mark.parametrize(
    ("name", "arch"),
    [("gemm", "sm_80"), ("gemm", "sm_90a"), ("attention", "sm_90a"), *(("softmax", a) for a in ("sm_75", "sm_80", "sm_89", "sm_90a", "sm_100"))],
)
def test_library_kernels_compile(name: str, arch: str, no_driver: None, fresh_cache: Path) -> None:
    kernel = tileworkbench.compile(PROGRAMS[name], target=f"cuda:{arch}")
    assert kernel.target == "cuda" and kernel.executable.arch == arch
    assert kernel.source.count("#define TWB_ARCH") == 1 and "#include" not in kernel.source
    (one,) = kernel.resources.kernels
    assert one.registers == kernel.n_regs and 16 <= one.registers <= 255
    assert one.threads >= 128 and (one.spill_bytes, one.static_shared_bytes) == (0, 0)
    assert one.dynamic_shared_bytes == kernel.executable.plan.kernels[0].shared_bytes
    assert one.occupancy.blocks >= 1 and not one.occupancy.is_estimated
    assert f"{one.registers:>9}" in str(kernel.resources) and one.occupancy.sentence in repr(kernel.resources)


@needs_nvrtc
def test_lines_of_the_text_are_the_authors(no_driver: None) -> None:
    kernel = tileworkbench.compile(checked_exp(), target="cuda:sm_80")
    lines = kernel.source.splitlines()
    at = next(i for i, line in enumerate(lines, 1) if "= twb_exp_f32(" in line)
    assert "T.exp(" in kernel.lines[at].source_line(), "behind the device library, whose lines come from nowhere"
    assert min(kernel.lines) > next(i for i, line in enumerate(lines, 1) if "__global__" in line)


@needs_nvrtc
def test_values_without_an_end(no_driver: None) -> None:
    @T.prim_func
    def endless(X: T.Tensor((4,), "float32"), Y: T.Tensor((4,), "float64")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(4):
                X[i] = T.if_then_else(X[i] > 0, T.infinity("float32"), float("nan"))
                Y[i] = T.if_then_else(X[i] > 0, -T.infinity("float64"), float("nan"))

    assert tileworkbench.compile(endless, target="cuda:sm_80").n_regs


@needs_nvrtc
def test_a_report_takes_the_compilers_registers(no_driver: None) -> None:
    kernel = tileworkbench.compile(softmax.program(64, 128, 4, "float32"), target="cuda:sm_80")
    made = kernel.report()
    assert made.machine.name == find_machine("a100").name, "a GPU on paper that runs this code"
    assert made.occupancy is not None and made.occupancy.registers == kernel.n_regs and not made.occupancy.is_estimated
    on_cpu = kernel.report(find_machine("reference"))
    assert on_cpu.machine.name == find_machine("reference").name


def test_a_cpus_kernel_has_no_resources() -> None:
    kernel = tileworkbench.compile(checked_exp(), target="interpret")
    assert kernel.resources.kernels == () and "nothing runs on a GPU" in repr(kernel.resources)


def test_an_emulated_run_is_not_measured() -> None:
    kernel = tileworkbench.compile(softmax.program(4, 32, 4, "float32"), target="emulate:sm_80", out_idx=-1)
    made = kernel.report(args=(np.ones((4, 32), np.float32),))
    assert made.measured is None and made.machine.name == find_machine("a100").name


# ------------------------------------------------------------------------------------------- assertions
@needs_nvrtc
def test_a_failed_assertion_leaves_its_number(no_driver: None) -> None:
    kernel = tileworkbench.compile(checked_exp(), target="cuda:sm_80")
    assert kernel.executable.plan.status == "twb_status" and "__trap" not in kernel.source
    with pytest.raises(DeviceAssertError, match="is positive"):
        kernel.executable.fail(2)
    assert not tileworkbench.compile(softmax.program(64, 128, 4, "float32"), target="cuda:sm_80").executable.plan.status


def test_the_emulator_raises_it_with_its_message() -> None:
    kernel = tileworkbench.compile(checked_exp("x is positive"), target="emulate:sm_80", out_idx=-1)
    x = np.ones(64, np.float32)
    np.testing.assert_allclose(kernel(x), np.exp(x), rtol=1e-6)
    x[40] = -1
    with pytest.raises(DeviceAssertError, match="x is positive") as caught:
        kernel(x)
    assert caught.value.span is not None and "T.device_assert(X[b * 32 + i] > 0" in caught.value.span.source_line()


# ------------------------------------------------------------------------------------------- bad input
@pytest.mark.parametrize("target", ["cuda:sm_80", "emulate:sm_80"])
def test_more_than_a_block_can_have(target: str, no_driver: None) -> None:
    if target.startswith("cuda") and nvrtc.find_nvrtc() is None:
        pytest.skip("NVRTC is not installed")
    with pytest.raises(CapacityError) as caught:
        tileworkbench.compile(copied(256, 256), target=target)
    assert "needs 262144 bytes of shared memory a block, sm_80 has 166912 (262144 dynamic, 0 static)" in caught.value.message
    assert "tiles of 128 instead of 256 fit" in caught.value.hint
    with pytest.raises(CapacityError, match="2048 threads a block, sm_80 has at most 1024"):
        tileworkbench.compile(copied(16, 16, threads=2048), target=target)


def test_the_hint_names_the_tunable(no_driver: None) -> None:
    @tileworkbench.jit(target="emulate:sm_80")
    def factory(rows: int, block: int = 64) -> Any:
        return copied(rows, block)

    with pytest.raises(CapacityError) as caught:
        factory(1024, block=128)
    assert "rows=256 fits" in caught.value.hint


@needs_nvrtc
@pytest.mark.parametrize("name", ["sm_42", "hopper", "sm_90b"])
def test_a_wrong_architecture(name: str, no_driver: None) -> None:
    for target in ("cuda", "emulate"):
        with pytest.raises(TileValueError, match=f"there is no GPU architecture '{name}'") as caught:
            tileworkbench.compile(checked_exp(), target=f"{target}:{name}")
        assert "sm_90" in caught.value.hint


def test_without_nvrtc_the_target_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWORKBENCH_NVRTC", "none")
    assert "NVRTC" in targets.get_target("cuda").usable()
    with pytest.raises(UnsupportedError, match="NVRTC, which compiles for GPUs, is not installed") as caught:
        tileworkbench.compile(checked_exp(), target="cuda:sm_80")
    assert "pip install tileworkbench[cuda]" in caught.value.hint


@needs_nvrtc
def test_without_a_driver_a_call_says_so(no_driver: None) -> None:
    kernel = tileworkbench.compile(checked_exp(), target="cuda:sm_80", out_idx=-1)
    with pytest.raises(ArgumentError) as caught:
        kernel(np.ones(64, np.float32))
    assert "there is no CUDA driver" in str(caught.value) and "install NVIDIA's driver" in str(caught.value)
    assert libcuda.why_no_driver()


@needs_nvrtc
def test_flags_go_to_the_compiler(no_driver: None) -> None:
    exact = tileworkbench.compile(checked_exp(), target="cuda:sm_80")
    fast = tileworkbench.compile(checked_exp(), target="cuda:sm_80", compile_flags="--use_fast_math")
    assert fast.executable.kernels[0].code_bytes < exact.executable.kernels[0].code_bytes
    with pytest.raises(CompilerError, match="does not know an option") as caught:
        tileworkbench.compile(checked_exp(), target="cuda:sm_80", compile_flags=["--no-such-option"])
    assert "--no-such-option" in str(caught.value)


def test_an_array_that_begins_anywhere() -> None:
    """Accesses of 16 bytes need addresses that are multiples of 16; a slice, which begins elsewhere, gets narrower ones."""
    kernel = tileworkbench.compile(copied(16, 64), target="emulate:sm_80", out_idx=-1)
    assert "twb_write<4>" in kernel.source
    room = np.arange(8 + 16 * 64, dtype=np.float32)
    start = -room.ctypes.data // 4 % 4 + 1
    shifted = room[start : start + 16 * 64].reshape(16, 64)
    np.testing.assert_array_equal(kernel(shifted), shifted)
    np.testing.assert_array_equal(kernel(shifted.copy()), shifted)
