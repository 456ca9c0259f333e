"""Assembly of the C target: instructions with their lines, from the cache, and a reason where there is none."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tileworkbench.kernels.gemm import Schedule, gemm
from tileworkbench.runtime import toolchain
from tileworkbench.runtime.assembly import assembly_stage, parse
from tileworkbench.runtime.target_c import Compiled

GCC = """\
	.file	"kernel.c"
	.file 1 "/tmp/kernel.c"
	.file 2 "/usr/lib/gcc/immintrin.h"
	.text
	.type	f, @function
f:
.LFB0:
	.cfi_startproc
	.loc 1 12 3 view .LVU1
	vmovups	(%rdi), %zmm0
.LVL1:
	.loc 2 99 1
	vaddps	%zmm0, %zmm0, %zmm0	# a remark
.L3:
	.loc 1 13 3
	jne	.L3
	ret
	.section	.rodata
.LC0:
	.long	7
	.section	.text.other,"ax"
g:
	nop
	.section	.debug_line
	.long	1
"""
CLANG = """\
	.text
	.file	0 "/tmp" "/tmp/kernel.c" md5 0x00
f:                                      # @f
.Lfunc_begin0:
	.loc	0 5 0                           # kernel.c:5:0
# %bb.0:
	movl	$1, %eax
	retq
.Lfunc_end0:
"""


def test_gcc() -> None:
    found = parse(GCC)
    assert found.text.splitlines() == [
        "f:", "    vmovups (%rdi), %zmm0", "    vaddps  %zmm0, %zmm0, %zmm0", ".L3:", "    jne     .L3", "    ret", "g:", "    nop",
    ]  # fmt: skip
    assert dict(found.c_lines) == {2: 12, 3: 12, 5: 13, 6: 13}, "a header's line stands for the line that uses it; a new function has none yet"


def test_clang() -> None:
    found = parse(CLANG)
    assert found.text.splitlines() == ["f:", "    movl    $1, %eax", "    retq"]
    assert dict(found.c_lines) == {2: 5, 3: 5}


def test_a_real_kernel() -> None:
    kernel = gemm(64, 64, 64, schedule=Schedule(32, 32, 32))
    stage = kernel.assembly()
    assert stage.name == "assembly" and not stage.why
    assert not [row for row in stage.lines if re.match(r"\s*\.(?!L)", row)], "directives are left out"
    product = next(i for i, spans in stage.twins.items() if "T.gemm(" in spans[0].source_line())
    assert stage.lines[product - 1].startswith("    ")


def test_the_second_time_no_compiler_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = gemm(64, 64, 96, schedule=Schedule(32, 32, 32))
    first = kernel.assembly()

    def never(*_: object) -> tuple[int, str]:
        raise AssertionError("a compiler ran")

    monkeypatch.setattr(toolchain, "run", never)
    assert kernel.assembly() == first


def test_a_compiler_that_fails_or_is_gone_gives_a_reason(fresh_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = gemm(64, 32, 64, schedule=Schedule(32, 32, 32))
    compiled = kernel.executable
    assert isinstance(compiled, Compiled)
    source = compiled._again[0]
    gone = toolchain.Compiler("gcc", ("/nowhere/gcc",), "1", "none")
    stage = assembly_stage(gone, source, ())
    assert not stage.text and stage.why.startswith("cannot start /nowhere/gcc") and "\n" not in stage.why
    monkeypatch.setattr(toolchain, "run", lambda *_: (1, "kernel.c:1: error: no\nmore"))
    assert assembly_stage(compiled.compiler, source, ()).why == f"{compiled.compiler.name} makes no assembly: kernel.c:1: error: no"
