"""Small wrong programs: run as an author would run them, and what they are told."""

from __future__ import annotations

import itertools
import linecache
import textwrap
import traceback
from typing import Any

import numpy as np

import tileworkbench as tilelang
import tileworkbench.language as T
from tileworkbench.base.errors import TileError
from tileworkbench.base.frames import OURS

TARGETS = ("c", "interpret")
HEAD = """\
@T.prim_func
def main(A: T.Tensor((64, 32), "float32"), B: T.Tensor((64, 32), "float32")):
    with T.Kernel(2, threads=32) as bx:
"""
_numbers = itertools.count()


def run(text: str, **scope: Any) -> dict[str, Any]:
    """Run `text` as a file of its own; its names afterwards. Messages call the file "kernel.py"."""
    text = textwrap.dedent(text).lstrip("\n")
    file = f"kernel.py<{next(_numbers)}>"
    linecache.cache[file] = (len(text), None, text.splitlines(True), file)
    names: dict[str, Any] = {"T": T, "np": np, "tilelang": tilelang, "__name__": "author", **scope}
    exec(compile(text, file, "exec"), names)
    return names


def told(error: BaseException) -> str:
    """The text of `error`, with the notes that Python prints below it."""
    text = "\n".join([str(error), *getattr(error, "__notes__", ())])
    for number in range(next(_numbers)):
        text = text.replace(f"kernel.py<{number}>", "kernel.py")
    return text


def fault(text: str, **scope: Any) -> str:
    """What the error of a program says; it must be one of ours, with no frame of ours in its traceback."""
    try:
        run(text, **scope)
    except TileError as error:
        assert_short(error)
        return told(error)
    raise AssertionError("the program ran without an error")


def body_fault(body: str, **scope: Any) -> str:
    """What the error of a kernel with this body says; the body begins at line 4, column 9."""
    return fault(HEAD + textwrap.indent(textwrap.dedent(body).strip(), "        ") + "\n", **scope)


def result(body: str, target: str, **scope: Any) -> np.ndarray:
    """B after a kernel with this body ran on an A of ones and a B of zeros."""
    names = run(HEAD + textwrap.indent(textwrap.dedent(body).strip(), "        ") + "\n", **scope)
    a, b = np.ones((64, 32), np.float32), np.zeros((64, 32), np.float32)
    tilelang.compile(names["main"], target=target)(a, b)
    return b


def call_fault(function: Any, *args: Any, **kwargs: Any) -> str:
    """What a call says that must be refused."""
    try:
        function(*args, **kwargs)
    except TileError as error:
        assert_short(error)
        return told(error)
    raise AssertionError("the call was accepted")


def assert_short(error: BaseException) -> None:
    """No frame of the package in the traceback of `error`."""
    ours = [f"{frame.filename}:{frame.lineno}" for frame in traceback.extract_tb(error.__traceback__) if frame.filename.startswith(OURS)]
    assert not ours, ours
