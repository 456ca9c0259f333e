"""Every kernel of the library through NVIDIA's compiler, with the schedules and sizes that they run with: nothing is spilt, nothing is serialised."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tileworkbench.bench.gpu.ours import choose
from tileworkbench.bench.gpu.problems import Problem
from tileworkbench.frontend.prim_func import PrimFunc
from tileworkbench.kernels import gemm, linear
from tileworkbench.runtime import nvrtc, sass
from tileworkbench.runtime.cubin import read_cubin
from tileworkbench.runtime.gpu_arch import capability
from tileworkbench.runtime.translate_cuda import translate_gpu

ARCHS = ("sm_80", "sm_89", "sm_90a")
CUBE = (4096, 4096, 4096)
Make = Callable[[str], PrimFunc]


def problem(kind: str, shape: tuple[int, ...], dtype: str, **more: Any) -> Make:
    return lambda arch: choose(Problem("", kind, shape, dtype, 1.0, **more), f"cuda:{arch}")[0]


def with_relu(arch: str) -> PrimFunc:
    s = gemm.default_schedule(*CUBE, "float16", target=f"cuda:{arch}")
    return gemm.program(*CUBE, s.block_m, s.block_n, s.block_k, s.stages, "float16", "float32", True, "float32", s.threads, s.panel)


LIBRARY: dict[str, Make] = {
    "gemm f16 nn": problem("gemm", CUBE, "float16"),
    "gemm bf16 nt": problem("gemm", CUBE, "bfloat16", is_nt=True),
    "gemm f16, 1024": problem("gemm", (1024, 1024, 1024), "float16"),
    "gemm f16, relu into f32": with_relu,
    "gemm f16, ragged": problem("gemm", (4097, 4097, 4097), "float16"),
    "gemm int8": problem("gemm", CUBE, "int8", is_nt=True),
    "gemm tf32": problem("gemm", CUBE, "tfloat32", is_nt=True),
    "gemm f32": problem("gemm", CUBE, "float32"),
    "gemm fp8, scaled": problem("scaled", CUBE, "float8_e4m3fn"),
    "gemm, 16 rows": problem("gemm", (16, 8192, 8192), "bfloat16", is_nt=True),
    "gemm, 64 rows": problem("gemm", (64, 8192, 8192), "bfloat16", is_nt=True),
    "gemm, 128 rows": problem("gemm", (128, 8192, 8192), "bfloat16", is_nt=True),
    "gemm, few tiles": problem("gemm", (256, 256, 16384), "float16"),
    "gemv": problem("gemv", (8192, 8192), "bfloat16"),
    "four-bit weights": lambda arch: linear.default_w4_program(16, 4096, 4096, 128, "float16", threads=linear.GPU_THREADS),
    "attention, 64": problem("attention", (4, 32, 4096, 64), "float16", is_causal=True),
    "attention, 128": problem("attention", (4, 16, 4096, 128), "bfloat16"),
    "attention, 128, causal, shared keys": problem("attention", (4, 16, 4096, 128), "bfloat16", is_causal=True, kv_heads=4),
    "attention, 256": problem("attention", (4, 8, 4096, 256), "bfloat16"),
    "softmax": problem("softmax", (16384, 4096), "float32"),
    "softmax, long rows": problem("softmax", (4096, 16384), "bfloat16"),
    "layernorm": problem("layernorm", (16384, 4096), "bfloat16"),
    "rmsnorm": problem("rmsnorm", (16384, 4096), "float32"),
    "add": problem("add", (1 << 26,), "float32"),
    "gelu": problem("gelu", (1 << 26,), "bfloat16"),
    "transpose": problem("transpose", (8192, 8192), "float32"),
}  # fmt: skip
SINCE = {"gemm fp8, scaled": (8, 9)}
CASES = [pytest.param(name, arch, id=f"{name}, {arch}") for name in LIBRARY for arch in ARCHS if capability(arch) >= SINCE.get(name, (0, 0))]


@pytest.mark.skipif(nvrtc.find_nvrtc() is None, reason="NVRTC is not installed")
@pytest.mark.parametrize(("name", "arch"), CASES)
def test_nothing_is_spilt_or_serialised(name: str, arch: str) -> None:
    source, _ = translate_gpu(LIBRARY[name](arch).kernel, arch)
    made = nvrtc.compile_text(source.text, arch, source.flags, source.lines)
    kernels = read_cubin(made.cubin, made.log)
    assert kernels
    assert not made.warnings, made.warnings
    assert not any(k.spills or k.local_bytes for k in kernels), "\n".join(map(str, kernels))
    assert all(k.registers * k.max_threads <= 65536 for k in kernels), "more registers than a multiprocessor has"


@pytest.mark.skipif(nvrtc.find_nvrtc() is None or sass.find_nvdisasm() is None, reason="needs NVRTC and nvdisasm")
@pytest.mark.parametrize("dim", [64, 256])
@pytest.mark.parametrize("seq", [4096, 16384])
def test_warps_stay_together(dim: int, seq: int) -> None:
    """Where ptxas believes that threads of a warp may part, every product waits for addresses from vector registers: a tenth of the time."""
    made_for = problem("attention", (1, 8, seq, dim), "bfloat16", is_causal=True)("sm_90a")
    source, _ = translate_gpu(made_for.kernel, "sm_90a")
    made = nvrtc.compile_text(source.text, "sm_90a", source.flags, source.lines)
    text = sass.sass_stage(made.cubin, source.text, {}).text
    assert "HGMMA" in text and "BRA.DIV" not in text


def test_a_serialised_product_would_be_seen() -> None:
    """The words of the compiler that the test above lives on; a fence that it put in is no harm."""
    log = """ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized due to insufficient register resources
ptxas info    : (C7512) Potential Performance Loss: wgmma.mma_async instructions are serialized
ptxas info    : (C7519) warpgroup.arrive is injected in around line 12 by compiler to allow use of registers
kernel.cu(3): warning #177-D: variable "x" was declared but never referenced
ptxas info    : Used 168 registers"""
    found = nvrtc.Made("sm_90a", b"", log, "NVRTC").warnings
    assert [line[16:23] for line in found] == ["(C7510)", "(C7512)"]
