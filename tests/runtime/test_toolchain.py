"""Compilers that are missing, fail, hang, cannot do OpenMP or speak another dialect; and whose line an error is put on."""

from __future__ import annotations

import json
import logging
import os
import stat
import time
from pathlib import Path

import numpy as np
import pytest
from runtime.programs import scale_program

import tileworkbench
from tileworkbench.base.errors import CompilerError, UnsupportedError
from tileworkbench.base.span import Span
from tileworkbench.runtime import building, diagnostics, notices, toolchain
from tileworkbench.runtime.toolchain import Compiler

SPAN = Span("gemm.py", 7, 4, 7, 10, text="    T.call_extern('int32', 'nope')")


def script(folder: Path, text: str) -> str:
    """A compiler that is a shell script."""
    path = folder / "fakecc"
    path.write_text("#!/bin/sh\n" + text)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def test_this_machine_has_one_that_works() -> None:
    compiler = toolchain.default_compiler()
    if compiler is None:
        pytest.skip("no C compiler on this machine")
    assert compiler.kind in ("gcc", "clang", "zig")
    assert compiler.version[0].isdigit()


def test_missing_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWORKBENCH_CC", "none")
    with pytest.raises(UnsupportedError) as caught:
        tileworkbench.compile(scale_program(32), target="c")
    assert str(caught.value) == (
        "not supported: target 'c' cannot be used here: no C compiler found\n  hint: target=\"interpret\" runs everywhere, slowly"
    )
    with pytest.raises(CompilerError, match="pip install tileworkbench"):
        toolchain.require_compiler()


def test_without_compiler_the_interpreter_runs_with_a_notice(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setenv("TILEWORKBENCH_CC", "none")
    monkeypatch.delenv("TILEWORKBENCH_TARGET", raising=False)
    monkeypatch.delenv("TILELANG_DEFAULT_TARGET", raising=False)
    monkeypatch.setattr(notices, "_said", set())
    with caplog.at_level(logging.WARNING, "tileworkbench"):
        kernel = tileworkbench.compile(scale_program(32))
        tileworkbench.compile(scale_program(32))
    assert kernel.target == "interpret"
    assert [r.getMessage() for r in caplog.records] == ["tileworkbench: no C compiler found; kernels run in the interpreter, which is slow"]
    y = np.zeros(32, np.float32)
    kernel(np.ones(32, np.float32), 2.0, y)
    assert (y == 2).all()


def test_compiler_that_does_nothing_is_not_used(tmp_path: Path, fresh_cache: Path) -> None:
    assert toolchain.probe((script(tmp_path, "exit 1"),)) is None
    assert toolchain.probe((str(tmp_path / "absent"),)) is None


def test_compiler_without_openmp(tmp_path: Path, fresh_cache: Path) -> None:
    real = toolchain.default_compiler()
    if real is None or real.kind != "gcc":
        pytest.skip("needs gcc")
    text = f'case "$*" in *-fopenmp*) echo "ld: cannot find -lgomp" >&2; exit 1;; esac\nexec {real.command[0]} "$@"\n'
    found = toolchain.probe((script(tmp_path, text),))
    assert found is not None
    assert not found.openmp
    assert found.why_serial == f"gcc {real.version} cannot build with OpenMP: ld: cannot find -lgomp"
    assert "-fopenmp" not in found.arguments("a.c", "a.so", ())


def test_probe_is_remembered(tmp_path: Path, fresh_cache: Path) -> None:
    real = toolchain.default_compiler()
    if real is None:
        pytest.skip("no C compiler on this machine")
    command = (script(tmp_path, f'echo x >> {tmp_path}/calls\nexec {real.command[0]} "$@"\n'),)
    first = toolchain.probe(command)
    calls = (tmp_path / "calls").read_text()
    assert toolchain.probe(command) == first
    assert (tmp_path / "calls").read_text() == calls
    assert len(json.loads((fresh_cache / "compilers.json").read_text())) == 1


def test_hanging_compiler_is_killed_with_its_children(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWORKBENCH_CC_TIMEOUT", "0.3")
    hanging = Compiler("gcc", (script(tmp_path, f"sleep 60 & echo $! > {tmp_path}/child\nwait\n"),), "12.0", "x")
    start = time.monotonic()
    with pytest.raises(CompilerError) as caught:
        building.build_library(hanging, "", tmp_path, (), {})
    assert time.monotonic() - start < 30
    assert str(caught.value).startswith("compiler error: fakecc did not end within 0.3 s\n  hint: a smaller tile")
    child = int((tmp_path / "child").read_text())
    for _ in range(100):
        if not _is_running(child):
            break
        time.sleep(0.05)
    assert not _is_running(child)


def _is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_failing_compiler_is_put_on_the_authors_line(tmp_path: Path) -> None:
    compiler = toolchain.default_compiler()
    if compiler is None:
        pytest.skip("no C compiler on this machine")
    text = "int f(int x) {\n  return nope(x) +\n    undeclared;\n}\n"
    with pytest.raises(CompilerError) as caught:
        building.build_library(compiler, text, tmp_path, ("-Werror=implicit-function-declaration",), {2: SPAN})
    shown = str(caught.value).splitlines()
    assert shown[0].startswith(f"gemm.py:7:5: compiler error: {compiler.name}: ")
    assert shown[1:3] == ["      T.call_extern('int32', 'nope')", "      ^^^^^^"]
    assert shown[3] == "  hint: in the generated C, line 2: return nope(x) +"
    assert "nope" in caught.value.__notes__[0]


def test_error_of_an_unknown_shape() -> None:
    error = diagnostics.blame("Segmentation fault\n", "int x;", {}, "gcc 12")
    assert str(error) == "compiler error: gcc 12 failed: Segmentation fault"
    assert error.span is None


def test_both_dialects() -> None:
    as_json = '[{"kind": "error", "message": "expected \';\'", "locations": [{"caret": {"line": 3, "column": 9}}], "children": []}]\n'
    assert diagnostics.parse(as_json) == [diagnostics.Diagnostic("error", 3, 9, "expected ';'")]
    as_text = "k.c:3:9: fatal error: expected ';'\nk.c:4: warning: odd\n1 error generated.\n"
    assert diagnostics.parse(as_text) == [
        diagnostics.Diagnostic("fatal error", 3, 9, "expected ';'"), diagnostics.Diagnostic("warning", 4, 0, "odd"),
    ]  # fmt: skip
    assert diagnostics.parse("[{broken") == []


def test_nearest_line_above() -> None:
    assert diagnostics.author_span(9, {2: SPAN, 20: Span("b.py", 1, 0, 1, 1)}) is SPAN
    assert diagnostics.author_span(1, {2: SPAN}) is None


@pytest.mark.parametrize("compiler", toolchain.all_compilers(), ids=lambda c: f"{c.name} {os.path.basename(c.command[0])}")
def test_every_compiler_builds_kernels(compiler: Compiler, monkeypatch: pytest.MonkeyPatch) -> None:
    """gcc, clang and zig alike; the ones without OpenMP run on one thread and say so."""
    monkeypatch.setenv("TILEWORKBENCH_CC", " ".join(compiler.command))
    kernel = tileworkbench.compile(scale_program(100), target="c")
    assert kernel.facts.compiler == compiler.name
    assert kernel.facts.notes == (() if compiler.openmp else (f"{compiler.why_serial}; kernels run on one thread",))
    y = np.zeros(100, np.float32)
    kernel(np.arange(100, dtype=np.float32), 2.0, y)
    assert (y == np.arange(100) * 2).all()
