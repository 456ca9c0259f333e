"""One kernel around a few statements, so that a test shows only what it is about.

`emitted("T.clear(F)")` is the IR of the statements as text; `refusal("T.copy(A[0, 0], F[0, 0:0])")` the whole text of the error.
The statements start at column 13 of line 18 of `kernel.py` and see the names of HEAD.
"""

from __future__ import annotations

import itertools
import linecache
import textwrap

import pytest

import tileworkbench  # noqa: F401  # binds the words
import tileworkbench.language as T
from tileworkbench.base.errors import TileError
from tileworkbench.frontend.prim_func import PrimFunc
from tileworkbench.ir.printer import print_kernel

HEAD = """n = T.dynamic("n")

@T.prim_func
def kernel(
    A: T.Tensor((256, 128), "float16"), C: T.Tensor((256, 256), "float32"), I: T.Tensor((64,), "int32"), X: T.Tensor((n,), "float32"),
    P: T.Tensor((2, 256, 3, 64), "float32"),
):
    with T.Kernel(4, 4, threads=(64, 2)) as (bx, by):
        S = T.alloc_shared((64, 32), "float16")
        R = T.alloc_shared((32, 64), "float16")
        F = T.alloc_fragment((64, 64), "float32")
        V = T.alloc_fragment((64,), "float32")
        W = T.alloc_fragment((64,), "int32")
        L = T.alloc_local((8,), "float32")
        x = T.alloc_var("float32")
        u = T.alloc_var("uint8")
        for k in T.serial(4):
"""
_numbers = itertools.count()


def build(statements: str) -> PrimFunc:
    """The kernel with `statements` in its loop."""
    text = HEAD + textwrap.indent(textwrap.dedent(statements).strip("\n"), " " * 12) + "\n"
    name = f"kernel{next(_numbers)}.py"
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    scope: dict[str, object] = {"T": T}
    exec(compile(text, name, "exec"), scope)
    return scope["kernel"]  # type: ignore[return-value]


def emitted(statements: str) -> str:
    """The IR of `statements` as text."""
    lines = print_kernel(build(statements).kernel).splitlines()
    start = next(i for i, line in enumerate(lines) if line.lstrip().startswith("for k in serial"))
    return textwrap.dedent("\n".join(lines[start + 1 :]))


def refusal(statements: str) -> str:
    """The text of the error that `statements` give, with the file called `kernel.py`."""
    with pytest.raises(TileError) as caught:
        build(statements)
    text = str(caught.value)
    for i in range(next(_numbers), -1, -1):
        text = text.replace(f"kernel{i}.py", "kernel.py")
    return text
