"""Emitted files, whole: read in review like code; each is compiled without warnings."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from codegen.c_runner import build
from codegen.programs import PROGRAMS, gemm_relu
from conftest import Golden

from tileworkbench.base.cpu import AVX2, AVX512
from tileworkbench.codegen.openmp import emit
from tileworkbench.ir.stmt import Kernel
from tileworkbench.transform.lowering import lower


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_whole_files(program: Callable[[], Kernel], golden: Golden) -> None:
    source = emit(lower(program()), AVX512)
    golden(source.text, f"{program.__name__}.c")
    build(source.text, source.entry, source.flags)


def test_lines_lead_back_to_the_author() -> None:
    """Every statement line of a block knows the source line that it came from."""
    source = emit(lower(gemm_relu()), AVX512)
    lines = source.text.split("\n")
    place = next(n for n, line in enumerate(lines, 1) if "twb_max_f32(C_local" in line)
    assert "T.max(C_local[i, j], 0.0)" in source.lines[place].source_line()
    call = max(n for n, line in enumerate(lines, 1) if line.strip().startswith("twb_gemm_64x64x32"))
    assert "T.gemm(A_shared, B_shared, C_local)" in source.lines[call].source_line()
    assert max(source.lines) <= len(lines)


def test_the_instruction_set_shapes_only_the_micro_kernels() -> None:
    kernel = lower(gemm_relu())
    wide, narrow = emit(kernel, AVX512).text, emit(kernel, AVX2).text
    assert wide != narrow
    wide, narrow = (re.sub(r"twb_scratch\(\d+\)", "", text[text.index("static void gemm_relu_block") :]) for text in (wide, narrow))
    assert wide == narrow


def test_what_the_runtime_needs_to_know() -> None:
    source = emit(lower(gemm_relu()), AVX512)
    assert source.entry == "run_gemm_relu"
    assert source.scratch_bytes >= 64 * 32 * 2 + 32 * 64 * 2 + 64 * 64 * 4
    assert "-fwrapv" in source.flags
    assert source.text.startswith("/* gemm_relu(A: float16[256, 128], B: float16[128, 256], C: float16[256, 256]) */\n")
    assert "#include" not in source.text
