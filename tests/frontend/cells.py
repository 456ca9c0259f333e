"""Kernels written as text: run like a notebook cell, so that a test can show the whole error that its author would see."""

from __future__ import annotations

import itertools
import linecache
import textwrap
from typing import Any

import numpy as np
import pytest

import tileworkbench  # noqa: F401  # binds the words
import tileworkbench.language as T
from tileworkbench.base.errors import TileError
from tileworkbench.frontend.prim_func import PrimFunc
from tileworkbench.interpret import run
from tileworkbench.ir.printer import print_kernel
from tileworkbench.ir.stmt import Kernel

_numbers = itertools.count(1)


def cell(text: str, name: str = "", **names: Any) -> dict[str, Any]:
    """Run `text` with `T` and `names` in scope, as a cell whose source linecache knows; returns its namespace."""
    text = textwrap.dedent(text).lstrip("\n")
    file = name or f"<cell {next(_numbers)}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    scope: dict[str, Any] = {"T": T, "np": np, "__name__": "cell", **names}
    exec(compile(text, file, "exec"), scope)
    return scope


def kernel(body: str, head: str = "A: T.Tensor((64,), 'float32'), B: T.Tensor((64,), 'float32'), n: T.int32", **names: Any) -> Kernel:
    """One launch of one block around `body`."""
    text = f"@T.prim_func\ndef main({head}):\n    with T.Kernel(1, threads=32) as bx:\n" + textwrap.indent(textwrap.dedent(body).strip("\n"), " " * 8)
    made: PrimFunc = cell(text, **names)["main"]
    return made.kernel


def shown(body: str, **names: Any) -> str:
    """The printed statements of a launch around `body`, without its allocations."""
    lines = print_kernel(kernel(body, **names)).splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("  launch"))
    return textwrap.dedent("\n".join(line for line in lines[start + 1 :] if not line.startswith("    alloc")))


def result(body: str, n: int = 3, **names: Any) -> list[float]:
    """Element values of B after running `body` with A = 0, 1, 2, ... and B = -1."""
    made = kernel(body, **names)
    a, b = np.arange(64, dtype=np.float32), np.full(64, -1, np.float32)
    run(made, [a, b], {"n": n}, {})
    return [float(x) for x in b]


def failure(text: str, kind: type[Exception] = TileError, **names: Any) -> str:
    """The whole text of the error that the cell `text` raises; the file is called `cell`."""
    with pytest.raises(kind) as caught:
        cell(text, **names)
    return _named(caught.value)


def refusal(body: str, kind: type[Exception] = TileError, **names: Any) -> str:
    """The whole text of the error that `body` gives in a launch; the body starts at line 4, column 9 of `cell`."""
    with pytest.raises(kind) as caught:
        kernel(body, **names)
    return _named(caught.value)


def _named(error: Exception) -> str:
    text = str(error)
    for i in range(1, next(_numbers)):
        text = text.replace(f"<cell {i}>", "cell")
    return text
