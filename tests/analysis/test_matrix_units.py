"""The instruction that a product gets, and how warps share it."""

from __future__ import annotations

import pytest

from tileworkbench.analysis.matrix_units import Problem, matrix_unit
from tileworkbench.base.dtypes import DType

F16, BF16, F32, TF32, I8, I32, E4M3 = (DType(x) for x in ("float16", "bfloat16", "float32", "tfloat32", "int8", "int32", "float8_e4m3fn"))


@pytest.mark.parametrize(
    ("problem", "arch", "kind", "warps", "step"),
    [
        (Problem(128, 128, 32, F16, F16, F32, 128), 80, "mma", (2, 2), 16),
        (Problem(64, 64, 64, BF16, BF16, F32, 128, policy="full_row"), 80, "mma", (4, 1), 16),
        (Problem(64, 64, 64, BF16, BF16, F32, 128, policy="full_col"), 80, "mma", (1, 4), 16),
        (Problem(128, 256, 64, F16, F16, F32, 256), 90, "wgmma", (2, 1), 16),
        (Problem(32, 64, 64, F16, F16, F32, 128), 90, "mma", (1, 4), 16),  # too few rows for a warp group
        (Problem(128, 128, 64, I8, I8, I32, 128, trans_b=True), 90, "wgmma", (1, 1), 32),
        (Problem(128, 128, 64, I8, I8, I32, 128), 90, "mma", (2, 2), 32),  # 8-bit operands lie along k
        (Problem(64, 64, 64, E4M3, E4M3, F32, 128), 80, "fma", (1, 1), 1),
        (Problem(64, 64, 64, E4M3, E4M3, F32, 128), 89, "mma", (2, 2), 32),
        (Problem(64, 64, 32, F32, F32, F32, 128), 80, "fma", (1, 1), 1),
        (Problem(64, 64, 32, F32, F32, F32, 128, tf32=True), 80, "mma", (2, 2), 8),
        (Problem(64, 64, 32, TF32, TF32, F32, 128), 80, "mma", (2, 2), 8),  # asked for by the type
        (Problem(64, 64, 32, TF32, TF32, F32, 128, trans_b=True), 90, "wgmma", (1, 1), 8),
        (Problem(64, 64, 32, TF32, TF32, F32, 128), 90, "mma", (2, 2), 8),  # operands lie along k
        (Problem(64, 64, 32, TF32, TF32, F32, 128, trans_b=True, a_in_registers=True), 90, "mma", (2, 2), 8),  # which rounds what threads have made
        (Problem(64, 64, 24, F16, F16, F32, 128), 80, "mma", (2, 2), 8),
        (Problem(64, 64, 32, F16, F16, F32, 128), 75, "mma", (2, 2), 8),
        (Problem(64, 64, 32, BF16, BF16, F32, 128), 75, "fma", (1, 1), 1),
        (Problem(64, 64, 8, F16, F16, F32, 128), 90, "mma", (2, 2), 8),  # half of a warp group's step
        (Problem(48, 80, 24, F16, F16, F32, 128), 80, "mma", (3, 1), 8),
        (Problem(16, 16, 16, F16, F16, F32, 128), 80, "mma", (1, 2), 16),  # two of four warps have work
        (Problem(20, 24, 16, F16, F16, F32, 128), 80, "fma", (1, 1), 1),  # no multiple of the instruction
        (Problem(64, 64, 20, F16, F16, F32, 128), 80, "fma", (1, 1), 1),
    ],
)
def test_choice(problem: Problem, arch: int, kind: str, warps: tuple[int, int], step: int) -> None:
    unit = matrix_unit(problem, arch)
    assert (unit.kind, unit.warps, unit.step) == (kind, warps, step)
    assert unit.c.shape == (problem.m, problem.n)
    assert unit.a.shape == (problem.m, problem.k)
    assert unit.c.threads == problem.threads
    assert unit.c.is_whole
