"""The machine code of a GPU kernel without a GPU: every instruction at its author's line, what it is, and what it takes."""

# mypy: disable-error-code="no-untyped-def, valid-type, untyped-decorator"
from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

import tileworkbench
import tileworkbench.language as T
from tileworkbench.base.span import Span
from tileworkbench.runtime import nvrtc, sass, target_cuda
from tileworkbench.runtime.cubin import code_of
from tileworkbench.runtime.kernel import JITKernel
from tileworkbench.runtime.sass_kinds import KINDS, kind_of, kinds_by_line, kinds_of, name_of
from tileworkbench.runtime.stages import Stage, key_of, stages_of

needs_tools = pytest.mark.skipif(nvrtc.find_nvrtc() is None or sass.find_nvdisasm() is None, reason="needs NVRTC and nvdisasm")

TWICE = """\
__device__ __forceinline__ void put(float *p, float x) { asm volatile("st.global.f32 [%0], %1;" :: "l"(p), "f"(x) : "memory"); }
__device__ __forceinline__ void both(float *p, float x) { put(p, x); put(p + 1, x); }
extern "C" __global__ void k(float *p) {
  put(p, 1.0f);
  put(p + 8, 2.0f);
  both(p + 16, 3.0f);
}
"""


@needs_tools
def test_each_call_of_an_inlined_function_has_its_own_line() -> None:
    """The table of lines that a cubin has gives all four stores to the first call."""
    made = nvrtc.compile_text(TWICE, "sm_90a", [nvrtc.LINE_INFO])
    spans = {n: Span("k.py", n, 0, n, 1) for n in (4, 5, 6)}
    stage = sass.sass_stage(made.cubin, TWICE, spans, ptx=made.lines)
    stores = [stage.twins[i][0].line for i, row in enumerate(stage.lines, 1) if name_of(row) == "STG"]
    assert stores == [4, 5, 6, 6]
    assert kinds_by_line(stage)["k.py:6"]["global"] == 2


@T.prim_func
def product(A: T.Tensor((128, 128), "float16"), B: T.Tensor((128, 128), "float16"), C: T.Tensor((128, 128), "float32")):
    with T.Kernel(1, threads=128):
        a, b = T.alloc_shared((128, 64), "float16"), T.alloc_shared((64, 128), "float16")
        c = T.alloc_fragment((128, 128), "float32")
        T.clear(c)
        for k in T.Pipelined(2, num_stages=2):
            T.copy(A[0, k * 64], a)
            T.copy(B[k * 64, 0], b)
            T.gemm(a, b, c)
        T.copy(c, C)


def line_of(text: str) -> str:
    """The author's line of `product` that holds `text`."""
    rows = Path(__file__).read_text().splitlines()
    start = rows.index("@T.prim_func")
    return f"test_machine_code.py:{next(i for i, row in enumerate(rows[start:], start + 1) if text in row)}"


@pytest.fixture(scope="module")
def kernel() -> JITKernel:
    return tileworkbench.compile(product, target="sm_90a")


@needs_tools
def test_loads_and_products_stand_at_their_lines(kernel: JITKernel) -> None:
    stage = kernel.assembly()
    at: dict[str, set[str]] = {}
    for i, row in enumerate(stage.lines, 1):
        at.setdefault(name_of(row), set()).update(key_of(s) for s in stage.twins.get(i, ()))
    assert at["HGMMA"] == {line_of("T.gemm(")}
    assert at["UTMALDG"] == {line_of("T.copy(A["), line_of("T.copy(B[")}
    assert at["UTMASTG"] == {line_of("T.copy(c, C")}
    found = kinds_by_line(stage)
    assert found[line_of("T.gemm(")]["tensor"] == 16 and "tensor" not in found[line_of("T.copy(c, C")]
    total = sum(n for own in found.values() for n in own.values())
    assert total == sum(1 for row in stage.lines if kind_of(row)) == sum(kinds_of(stage.lines).values()) > 100
    names = [s.name for s in stages_of(kernel)]
    assert names == ["tile program", "tile IR", "lowered IR", "CUDA", "SASS"]


@needs_tools
def test_the_code_that_is_shown_is_the_code_that_runs(kernel: JITKernel, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines come from a run of the compiler of their own; should it ever make other code, the code is shown without them."""
    executable: Any = kernel.executable
    shown = executable._with_lines
    assert code_of(shown.cubin) == code_of(executable.cubin) and len(shown.cubin) > len(executable.cubin) and shown.lines
    other = nvrtc.compile_text(TWICE, "sm_90a", [nvrtc.LINE_INFO])
    monkeypatch.setattr(target_cuda, "compile_text", lambda *_: other)
    monkeypatch.delitem(executable.__dict__, "_with_lines")
    stage = kernel.assembly()
    assert stage.text == sass.sass_stage(executable.cubin, executable.source, {}).text and not stage.twins
    del executable.__dict__["_with_lines"]


@needs_tools
def test_the_stage_says_what_the_code_takes(kernel: JITKernel, monkeypatch: pytest.MonkeyPatch) -> None:
    (one,) = kernel.resources.kernels
    words = f"product: {one.registers} registers a thread, nothing spilt, "
    assert kernel.assembly().about[0].startswith(words) and "blocks on an SM" in kernel.assembly().about[0].replace("block on", "blocks on")
    monkeypatch.setattr(sass, "wheel_folders", list)
    monkeypatch.setattr(shutil, "which", lambda *_args, **_more: None)
    bare = kernel.assembly()
    assert bare.text == "" and bare.why == "nvdisasm is not installed: pip install nvidia-cuda-nvdisasm" and bare.about[0].startswith(words)


@needs_tools
def test_an_emulated_kernel_shows_what_a_gpu_would_run(kernel: JITKernel) -> None:
    emulated = tileworkbench.compile(product, target="emulate:sm_90a")
    assert emulated.assembly().text == kernel.assembly().text
    assert str(emulated.resources) == str(kernel.resources) and emulated.n_regs is None


@needs_tools
def test_a_resource_table_names_what_limits(kernel: JITKernel) -> None:
    (row,) = kernel.resources.rows
    assert row[0] == "product" and row[1] == "256" and row[6] == str(kernel.resources.kernels[0].occupancy.blocks)
    assert row[8] in ("shared memory", "registers", "threads", "blocks")


def test_kinds_of_instructions() -> None:
    rows = ["k:", "    @!P0 LDS.U.128 R4, [R2]", "    HMMA.16816.F32 R0, R4, R8, R0", "    STL [R1], R3", "    @P1 R2UR UR4, R2", ".L_x_1:"]
    assert [kind_of(row) for row in rows] == ["", "shared", "tensor", "local", "other", ""]
    assert list(kinds_of(rows)) == [k for k in KINDS if k in ("tensor", "shared", "local", "other")]
    span: Any = Span("k.py", 3, 0, 3, 1)
    stage = Stage("SASS", "sass", "\n".join(rows), {2: (span,), 3: (span,)})
    assert kinds_by_line(stage) == {"": {"local": 1, "other": 1}, "k.py:3": {"tensor": 1, "shared": 1}}
