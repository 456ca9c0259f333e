"""The stages of results in the occupancy of a block: as the passes make them, and as a compiler counts them."""

from __future__ import annotations

import pytest

from tileworkbench.base.machine import find_machine
from tileworkbench.frontend.prim_func import PrimFunc
from tileworkbench.kernels import attention, gemm
from tileworkbench.model.occupancy import Compiled, occupancy
from tileworkbench.model.report import report
from tileworkbench.runtime.jit import compile
from tileworkbench.runtime.nvrtc import find_nvrtc

H200, A100 = find_machine("h200"), find_machine("a100")
SLACK = 2048  # barriers, and where tiles begin


def product(*sizes: int, threads: int = 256, dtype: str = "float16", split_k: int = 1) -> PrimFunc:
    return gemm.scheduled(1024, 1024, 4096, gemm.Schedule(*sizes, threads, 8, split_k=split_k), dtype)


PROGRAMS = {
    "wide": product(128, 256, 64, 4),
    "square": product(128, 128, 64, 3),
    "small": product(64, 64, 64, 2, threads=128),
    "in parts": product(128, 128, 64, 3, split_k=2),
    "without matrix units": product(64, 64, 16, 3, threads=128, dtype="float32"),
    "attention": attention.program(1, 2, 1024, 64, True, 128, 128, "float16", stages=2),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_model_counts_the_stages_that_passes_make(name: str) -> None:
    """The text for sm_90a has them; what it has beyond them are barriers and alignment."""
    program = PROGRAMS[name]
    made = max(k.shared_bytes for k in compile(program, target="emulate:sm_90a").executable.made.kernels)
    said = occupancy(program.kernel, H200)
    assert said.shared_bytes <= made <= said.shared_bytes + SLACK
    assert any(n.buffer.endswith("_stage") for n in said.needs) == (name != "without matrix units")


def test_only_a_tensor_copy_engine_needs_them() -> None:
    assert occupancy(PROGRAMS["square"].kernel, A100).shared_bytes == 3 * (128 + 128) * 64 * 2
    o = occupancy(PROGRAMS["square"].kernel, H200)
    assert str(next(n for n in o.needs if n.buffer == "C_stage")) == "C_stage (2x2x64x64 f16 = 32 KiB)"


def test_what_a_compiler_says_stands_instead_of_an_estimate() -> None:
    program = PROGRAMS["small"].kernel
    found = report(program, H200, {}, compiled=(Compiled(256, 58, 41984, "NVRTC 13.0 for sm_90a"),))
    o = found.occupancy
    assert o is not None
    assert (o.threads, o.warps, o.registers, o.shared_bytes, o.blocks) == (128, 32, 58, 41984, 4) and not o.is_estimated
    assert "fit, as NVRTC 13.0 for sm_90a compiled it: 4 blocks on an SM" in str(found)
    assert "58 registers a thread, by NVRTC 13.0 for sm_90a" in str(o) and "added by the compiler (9216 uint8 = 9 KiB)" in str(o)
    guessed = report(program, H200, {})
    assert "fit, estimated from the tiles: 3 blocks on an SM" in str(guessed) and guessed.occupancy.by == ""  # type: ignore[union-attr]


def test_tiles_that_share_bytes_are_one_sum() -> None:
    o = occupancy(PROGRAMS["small"].kernel, H200, compiled=(Compiled(256, 58, 20000, "nvcc"),))
    assert o.shared_bytes == 20000 and [n.buffer for n in o.needs if n.scope == "shared"] == ["shared memory"]


@pytest.mark.skipif(find_nvrtc() is None, reason="NVRTC is not installed")
def test_a_compiled_kernel_s_report_has_the_compiler_s_numbers() -> None:
    kernel = compile(PROGRAMS["small"], target="emulate:sm_90a")
    (made,) = kernel.resources.kernels
    o = kernel.report().occupancy
    assert o is not None and o.by.startswith("NVRTC") and o.by.endswith("sm_90a")
    assert (o.blocks, o.warps, o.shared_bytes, o.registers) == (made.occupancy.blocks, made.occupancy.warps, made.shared_bytes, made.registers)
    other = kernel.report(A100).occupancy
    assert other is not None and other.by == "" and other.is_estimated, "nobody compiled it for such a GPU"
