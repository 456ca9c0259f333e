"""What Python and IPython print: the author's frames and the text, none of ours; and a fault of ours keeps its frames."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
import traceback
from pathlib import Path

import numpy as np
import pytest
from errors.programs import assert_short, run

import tileworkbench as tilelang
from tileworkbench.base.entry import entry, shorten
from tileworkbench.base.errors import CompilerError, InternalError, TileError
from tileworkbench.runtime import toolchain

SCRIPT = """\
import numpy as np
import tileworkbench as tilelang
import tileworkbench.language as T

@tilelang.jit
def add(A):
    n = T.const("n")
    A: T.Tensor((n,), "float32")
    B = T.empty((n,), "float32")
    with T.Kernel(1, threads=32):
        for i in T.Parallel(n):
            B[i] = A[i, 0] + 1
    return B

print(add(np.ones(3, np.float32)))
"""


def python(*arguments: str, text: str | None = None, **environment: str) -> str:
    """What the Python of this process prints on its standard error."""
    package = str(Path(tilelang.__file__).parent.parent)
    environment = {**os.environ, "PYTHONPATH": package, **environment}
    return subprocess.run([sys.executable, *arguments], input=text, text=True, capture_output=True, env=environment, timeout=120).stderr


def test_a_script(tmp_path):
    script = tmp_path / "add.py"
    script.write_text(SCRIPT)
    assert python(str(script)).replace(f"{tmp_path}/", "").splitlines() == [
        "Traceback (most recent call last):",
        '  File "add.py", line 15, in <module>',
        "    print(add(np.ones(3, np.float32)))",
        "          ^^^^^^^^^^^^^^^^^^^^^^^^^^^",
        '  File "add.py", line 12, in add',
        "    B[i] = A[i, 0] + 1",
        "           ~^^^^^^",
        "tileworkbench.base.errors.TileValueError: add.py:12:20: value error: A has 1 dim (3,), got 2 indices",
        "      B[i] = A[i, 0] + 1",
        "             ^^^^^^^",
        "  hint: give one index or slice per dim",
    ]


@pytest.mark.parametrize("arguments", [("-c", SCRIPT), ("-",)])
def test_a_program_without_source(arguments):
    name = "<string>" if arguments[0] == "-c" else "<stdin>"
    assert python(*arguments, text=SCRIPT).splitlines() == [
        "Traceback (most recent call last):",
        f'  File "{name}", line 15, in <module>',
        f"tileworkbench.base.errors.TileSyntaxError: syntax error: the source of `add` cannot be read ({name})",
        "  hint: Python keeps no source for exec, `python -c` and standard input: write the kernel in a file or a notebook cell, "
        "or register its text in linecache.cache first",
    ]


def test_every_way_in():
    text = SCRIPT.replace("print(add", "ones = (").replace("def add(A)", "def add(A, wrong=True)")
    names = run(text.replace("A[i, 0]", "A[i, 0] if wrong else A[i]"))
    add, ones = names["add"], np.ones(3, np.float32)
    kernel = add.compile(ones, False)
    ways = [
        lambda: add(ones),
        lambda: add.compile(ones),
        lambda: add.get_tir(ones),
        lambda: add.get_kernel_source(ones),
        lambda: kernel(),
        lambda: kernel.bind(ones, ones),
        lambda: kernel.profile(),
        lambda: tilelang.compile(3),
        lambda: tilelang.jit(3),
        lambda: names["T"].copy(1, 2),
        lambda: names["T"].exp("x"),
        lambda: names["T"].prim_func(3),
        lambda: run("@T.prim_func\ndef main(A): pass\n"),
    ]
    for way in ways:
        with pytest.raises(TileError) as caught:
            way()
        assert_short(caught.value)
    assert add(ones, False).tolist() == [2, 2, 2]


def test_the_authors_own_exceptions():
    with pytest.raises(KeyError) as caught:
        run("""
            def lookup(A):
                raise KeyError("gone")
            @T.prim_func
            def main(A: T.Tensor((3,))):
                with T.Kernel(1):
                    lookup(A)
        """)
    assert_short(caught.value)
    assert [f.name for f in traceback.extract_tb(caught.value.__traceback__)][-3:] == ["<module>", "main", "lookup"]


def test_a_fault_of_ours_keeps_its_frames():
    here = test_a_fault_of_ours_keeps_its_frames.__name__

    def frames(error):
        try:
            entry(failing)(error)
        except Exception as caught:
            return [f.name for f in traceback.extract_tb(caught.__traceback__)]

    def failing(error):
        raise error

    assert frames(InternalError("a bug")) == ["frames", "call", "failing"]
    assert frames(TileError("a fault")) == ["frames", "failing"]
    assert here
    error = ValueError("from a test")
    shorten(error)
    assert error.__traceback__ is None


def test_an_interrupt_while_compiling(tmp_path, monkeypatch):
    """Ctrl-C ends the wait and the compiler, and the next call works."""
    text = SCRIPT.replace("print(add", "ones = (").replace("A[i, 0]", "A[i]").replace("@tilelang.jit", '@tilelang.jit(target="c")')
    add = run(text)["add"]
    compiler = toolchain.require_compiler()
    started, told = threading.Event(), threading.Event()
    real, sleeper = subprocess.Popen, []

    def slow(command, **options):
        process = real([sys.executable, "-c", "import time; time.sleep(60)"], **options)
        sleeper.append(process)
        started.set()
        return process

    def interrupt():
        started.wait(20)
        time.sleep(0.3)  # so that the main thread waits for the compiler, as it does when an author loses patience
        for _ in range(3):  # Python drops an interrupt that comes while it frees an object; an author presses again, too
            signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
            if told.wait(10):
                break

    monkeypatch.setenv("TILEWORKBENCH_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(toolchain, "default_compiler", lambda: compiler)
    monkeypatch.setattr(toolchain.subprocess, "Popen", slow)
    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt) as caught:
        add.compile(np.ones(37, np.float32))
    told.set()
    thread.join()
    assert_short(caught.value)
    assert all(process.returncode is not None for process in sleeper)
    monkeypatch.setattr(toolchain.subprocess, "Popen", real)
    assert add(np.ones(37, np.float32)).tolist() == [2] * 37


def test_an_unknown_c_function_and_faulty_c():
    unknown = run("""
        @T.prim_func
        def main(A: T.Tensor((3,))):
            with T.Kernel(1):
                A[0] = T.call_extern("float32", "no_such_function", A[0])
    """)["main"]
    with pytest.raises(CompilerError) as caught:
        tilelang.compile(unknown, target="c")
    assert str(caught.value) == (
        "compiler error: the kernel calls the C function `no_such_function`, which is not defined\n"
        "  hint: give its text with T.import_source, or check its name"
    )
    assert_short(caught.value)
    faulty = run("""
        @T.prim_func
        def main(A: T.Tensor((3,))):
            with T.Kernel(1):
                T.import_source("int x = ;")
                A[0] = 1.0
    """)["main"]
    with pytest.raises(CompilerError) as caught:
        tilelang.compile(faulty, target="c")
    assert "int x = ;" in str(caught.value)
    assert all("{" not in line for note in caught.value.__notes__ for line in note.splitlines())  # text, not the compiler's JSON
