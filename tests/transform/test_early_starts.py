"""What a launch does before it waits for the kernel ahead of it in the stream: nothing that memory could tell apart."""

# mypy: disable-error-code="no-untyped-def, valid-type, untyped-decorator"
from __future__ import annotations

import re

import pytest

import tileworkbench.language as T
from tileworkbench.frontend.prim_func import PrimFunc
from tileworkbench.kernels import gemm
from tileworkbench.runtime.translate_cuda import translate_gpu


def twice(size: int = 4096) -> PrimFunc:
    @T.prim_func
    def doubled(A: T.Tensor((size,), "float32"), C: T.Tensor((size,), "float32")):
        middle = T.alloc_global((size,), "float32")
        with T.Kernel(T.ceildiv(size, 1024), threads=128) as bx:
            for i in T.Parallel(1024):
                middle[bx * 1024 + i] = A[bx * 1024 + i] + A[bx * 1024 + i]
        with T.Kernel(T.ceildiv(size, 1024), threads=128) as bx:
            for i in T.Parallel(1024):
                C[bx * 1024 + i] = middle[bx * 1024 + i]

    result: PrimFunc = doubled
    return result


def bodies(program: PrimFunc, arch: str = "sm_90a") -> list[str]:
    """The text of each kernel of a program."""
    return re.split(r'extern "C"', translate_gpu(program.kernel, arch)[0].text)[1:]


def product(schedule: gemm.Schedule, size: int = 4096) -> PrimFunc:
    return gemm.scheduled(size, size, size, schedule, "float16")


@pytest.mark.parametrize("program", [twice(), product(gemm.Schedule(128, 256, 64, 4, 256, 8))], ids=["plain", "roles"])
def test_every_launch_waits_once_before_it_touches_memory(program: PrimFunc) -> None:
    for text in bodies(program):
        assert text.count("twb_grid_launch();") == text.count("twb_grid_wait();") == 1
        before = text[: text.index("twb_grid_wait();")]
        assert not re.search(r"twb_(read|write|tma_load|tma_store)|\bA\[|\bC\[", before), before
    assert all(k.is_programmatic for k in translate_gpu(program.kernel, "sm_90a")[0].kernels)


def test_other_architectures_start_as_they_did() -> None:
    source, _ = translate_gpu(twice().kernel, "sm_80")
    assert "twb_grid" not in source.text and not any(k.is_programmatic for k in source.kernels)
