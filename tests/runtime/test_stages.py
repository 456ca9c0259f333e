"""The stages of a kernel: every line knows the author's lines behind it."""

from __future__ import annotations

import linecache
from pathlib import Path

import pytest

import tileworkbench
from tileworkbench.base.span import Span
from tileworkbench.ir.printer import print_kernel
from tileworkbench.kernels.gemm import Schedule, gemm
from tileworkbench.runtime.kernel import JITKernel
from tileworkbench.runtime.stages import Stage, author_stage, inherited, ir_stage, key_of, stages_of

CELL = """
import tileworkbench
import tileworkbench.language as T

@T.prim_func
def double(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32")):
    with T.Kernel(1) as bx:
        a = T.alloc_shared((64,), "float32")
        T.copy(A, a)
        for i in T.Parallel(64):
            a[i] = a[i] + a[i]
        T.copy(a, B)

kernel = tileworkbench.compile(double, out_idx=-1)
"""


@pytest.fixture(scope="module")
def kernel(session_cache: object) -> JITKernel:
    return gemm(64, 64, 64, relu=True, schedule=Schedule(32, 32, 32))


def lines_of(stage: Stage, line: int) -> list[str]:
    """The stage's lines whose twin is that author's line."""
    return [stage.lines[i - 1].strip() for i, spans in stage.twins.items() if any(s.line == line for s in spans)]


def line_of(stages: tuple[Stage, ...], text: str) -> int:
    program = stages[0]
    return next(program.number(i) for i, row in enumerate(program.lines, 1) if text in row)


def test_all_stages_are_there(kernel: JITKernel) -> None:
    stages = stages_of(kernel)
    assert [s.name for s in stages] == ["tile program", "tile IR", "lowered IR", "C", "assembly"]
    assert stages[1].text == print_kernel(kernel.ir) and stages[2].text == print_kernel(kernel.passes[-1].after)
    assert stages[3].text == kernel.source
    assert not any(s.why for s in stages)


def test_the_program_is_its_functions_in_their_files(kernel: JITKernel) -> None:
    program = stages_of(kernel, machine_code=False)[0]
    assert program.lines[0].strip() == "@T.prim_func" and program.lines[-1].strip().startswith("T.gemm(")
    known = [(line, spans[0].file) for line, spans in program.twins.items()]
    own, macros = dict.fromkeys(file for _, file in known)
    assert Path(own).name == "gemm.py" and Path(macros).name == "tile_product.py", "what a macro wrote stands below, in the macro's file"
    behind = program.lines.index("@T.macro")
    assert program.lines[behind - 1].strip().startswith("T.copy(acc, C[")
    for file, lines in ((own, range(behind)), (macros, range(behind, len(program.lines)))):
        assert [linecache.getline(file, program.number(i + 1)).rstrip("\n") for i in lines] == [program.lines[i] for i in lines]


def test_one_line_has_twins_in_every_stage(kernel: JITKernel) -> None:
    stages = stages_of(kernel)
    copy, product = line_of(stages, "T.copy(A["), line_of(stages, "T.gemm(")
    assert lines_of(stages[1], copy) == ["copy A_tile <- A[by * 32 :+ 32, ko * 32 :+ 32]"]
    assert lines_of(stages[1], product)[0].startswith("gemm acc += A_tile @ B_tile")
    assert lines_of(stages[2], copy) == [], "the product reads A where it lies"
    assert any("@ &B@[" in row for row in lines_of(stages[2], product))
    assert len(lines_of(stages[3], product)) > 20, "the micro-kernel belongs to the product that calls it"
    assert lines_of(stages[4], product)


def test_every_twin_points_at_a_line_that_exists(kernel: JITKernel) -> None:
    for stage in stages_of(kernel):
        assert set(stage.twins) <= set(range(1, len(stage.lines) + 1)), stage.name
        assert len(stage.twins) > 0.3 * len(stage.lines), stage.name


def test_a_cell_is_named_by_its_label(session_cache: object) -> None:
    linecache.cache["<cell 7>"] = (len(CELL), None, CELL.splitlines(keepends=True), "<cell 7>")
    space: dict[str, object] = {}
    exec(compile(CELL, "<cell 7>", "exec"), space)  # what a notebook does
    made = space["kernel"]
    assert isinstance(made, JITKernel)
    program = stages_of(made, machine_code=False)[0]
    assert program.lines[1].startswith("def double") and key_of(program.twins[4][0]) == "<cell 7>:8"
    assert key_of(Span("/tmp/x.py", 3, 0, 3, 1, label="Cell In[7]")) == "Cell In[7]:3"


def test_unspanned_lines_belong_to_the_statement_around() -> None:
    s, t = Span("k.py", 1, 0, 1, 1), Span("k.py", 2, 0, 2, 1)
    stage = ir_stage("IR", (("kernel 'k':", None), ("  for i in x:", s), ("    a = 1", None), ("    b = 2", t), ("  c = 3", None)))
    assert {line: spans[0].line for line, spans in stage.twins.items()} == {2: 1, 3: 1, 4: 2}


def test_helpers_inherit_through_helpers() -> None:
    low, high = "static int low(int a) {\n  return a;\n}", "static __attribute__((noinline)) int high(int a) {\n  return low(a);\n}"
    text = f"{low}\n{high}\nvoid f(void) {{\n  high(1);\n  high(2);\n}}"
    one, two = Span("k.py", 1, 0, 1, 1), Span("k.py", 2, 0, 2, 1)
    found = inherited(text, {8: one, 9: two})
    assert found[2] == found[5] == (one, two) and 7 not in found


def test_a_kernel_without_source_says_so() -> None:
    stage = author_stage([])
    assert not stage.text and "no source" in stage.why


def test_a_target_without_machine_code() -> None:
    program = gemm(32, 32, 32).ir
    made = tileworkbench.compile(program, target="interpret")
    assert made.machine_code() == () and "no machine code" in made.assembly().why
