"""The source of a kernel is found wherever it was written, and is never a stale one."""

from __future__ import annotations

import importlib.util
import linecache
import os
import sys
import textwrap
import time
from pathlib import Path

import pytest
from frontend.cells import cell, failure

import tileworkbench.language as T
from tileworkbench.base.errors import TileSyntaxError
from tileworkbench.frontend.source import source_of
from tileworkbench.ir.node import walk
from tileworkbench.ir.stmt import Let, Store

TEXT = """
    @T.prim_func
    def main(A: T.Tensor((4,), "float32")):
        with T.Kernel(1) as bx:
            A[0] = {}
"""


def stored(made):
    """The constants that a kernel stores, in order."""
    return [n.value.value for n in walk(made.kernel) if isinstance(n, Store)]


def test_a_cell_that_is_run_again_uses_its_new_text():
    assert stored(cell(TEXT.format(1), "<one>")["main"]) == [1]
    assert stored(cell(TEXT.format(2), "<one>")["main"]) == [2]
    assert stored(cell("\n\nx = 3\n" + textwrap.dedent(TEXT.format(3)), "<one>")["main"]) == [3]


def test_two_definitions_of_one_name_in_one_cell():
    first = cell(textwrap.dedent(TEXT.format(1)) + "keep = main\n" + textwrap.dedent(TEXT.format(2)))
    assert stored(first["keep"]) == [1]
    assert stored(first["main"]) == [2]


def test_the_body_annotation_of_a_rerun_cell_counts():
    text = """
        @T.macro
        def m(A):
            x: T.{} = A[0]
            A[1] = x
        @T.prim_func
        def main(A: T.Tensor((4,), "float32")):
            with T.Kernel(1) as bx:
                m(A)
    """
    for kind in ("float16", "int32"):
        kernel = cell(text.format(kind), "<two>")["main"].kernel
        assert [n.value.dtype for n in walk(kernel) if isinstance(n, Let)] == [kind]


def _load(path: Path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


FILE = """
import tileworkbench.language as T

def make(value):
    @T.prim_func
    def main(A: T.Tensor((4,), "float32")):
        with T.Kernel(1) as bx:
            A[0] = value
            A[1] = 10
    return main
"""


def test_a_file_that_is_edited_and_loaded_again(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    path = tmp_path / "kernel_file.py"
    path.write_text(FILE)
    assert stored(_load(path).make(1)) == [1, 10]
    path.write_text(FILE.replace("10", "11"))
    os.utime(path, (time.time() + 5, time.time() + 5))
    assert stored(_load(path).make(1)) == [1, 11]


def test_a_file_that_was_edited_after_it_was_loaded_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    path = tmp_path / "kernel_stale.py"
    path.write_text(FILE)
    module = _load(path)
    path.write_text(FILE.replace("10", "11"))
    os.utime(path, (time.time() + 5, time.time() + 5))
    with pytest.raises(TileSyntaxError) as caught:
        module.make(1)
    assert str(caught.value) == (
        f"{path}:6:5: syntax error: the source of `main` has changed since it was run\n"
        '      def main(A: T.Tensor((4,), "float32")):\n'
        "      ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^\n"
        "  hint: import the file again, or re-run the cell"
    )
    path.write_text("\n\n" + FILE)
    os.utime(path, (time.time() + 9, time.time() + 9))
    with pytest.raises(TileSyntaxError, match="has changed since it was run"):
        module.make(1)


def test_no_source_at_all():
    text = textwrap.dedent(TEXT.format(1)).lstrip()
    with pytest.raises(TileSyntaxError) as caught:
        exec(compile(text, "<nowhere>", "exec"), {"T": T})
    assert str(caught.value) == (
        "syntax error: the source of `main` cannot be read (<nowhere>)\n"
        "  hint: Python keeps no source for exec, `python -c` and standard input: write the kernel in a file or a notebook cell, "
        "or register its text in linecache.cache first"
    )


def test_a_lambda_is_no_kernel():
    assert failure("T.prim_func(lambda: None)").splitlines()[0] == "cell:1:1: syntax error: a lambda cannot be a kernel"


def test_awkward_layouts_of_a_definition():
    made = cell('''
        def factory():
            if True:
                @T.prim_func
                def main(
                    A: T.Tensor((4,), "float32"),
                ):
                    """A string
        that reaches to the margin
                    """
                    with T.Kernel(
                        1
                    ) as bx:
                        # a comment at the margin
        # another
                        A[0] = (
            5
        )
                return main
        main = factory()
        after = 1
    ''')
    assert stored(made["main"]) == [5]


def test_decorators_of_several_lines_and_stacked():
    made = cell("""
        def plain(f):
            return f
        @T.prim_func(
            note="x",
        )
        @plain
        def main(A: T.Tensor((4,), "float32")):
            with T.Kernel(1) as bx:
                A[0] = 6
    """)["main"]
    assert stored(made) == [6]
    assert made.attrs == {"note": "x"}


def test_columns_count_characters_not_bytes():
    text = failure("""
        @T.prim_func
        def main(A: T.Tensor((4,), "float32")):
            with T.Kernel(1) as bx:
                A[0] = "größe" and T.cpoy(A)
    """)
    assert text == (
        "cell:4:28: name error: `T.cpoy` is not a word of the language\n"
        '      A[0] = "größe" and T.cpoy(A)\n'
        "                         ^^^^^^\n"
        "  hint: did you mean T.copy?"
    )


def test_annotations_that_are_strings_see_the_factory():
    made = cell("""
        from __future__ import annotations
        def factory(M, dtype):
            @T.prim_func
            def main(A: T.Tensor((M,), dtype)):
                with T.Kernel(1) as bx:
                    A[0] = 1
            return main
        main = factory(8, T.float16)
    """)["main"]
    buffer = made.params[0].buffer
    assert (buffer.static_shape(), buffer.type) == ((8,), "float16")


def test_one_text_is_read_once():
    scope = cell("""
        def factory():
            @T.macro
            def m(): pass
            return m
    """)
    assert source_of(scope["factory"]().function) is source_of(scope["factory"]().function)


def test_pytest_rewritten_asserts_are_accepted():
    @T.prim_func
    def main(A: T.Tensor((4,), "float32")):
        with T.Kernel(1):
            assert A.shape == (4,)
            A[0] = 1

    assert stored(main) == [1]
    assert linecache.getline(__file__, 1)
