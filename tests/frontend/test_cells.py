"""Kernels in real IPython cells: run again with other text, with the same name, and with errors that name the cell."""

from __future__ import annotations

import pytest

from tileworkbench.base.errors import TileError
from tileworkbench.ir.node import walk
from tileworkbench.ir.stmt import Store

pytest.importorskip("IPython")
CELL = """\
@T.prim_func
def main(A: T.Tensor((4,), "float32")):
    with T.Kernel(1):
        A[0] = {}
"""


@pytest.fixture
def shell(tmp_path, monkeypatch):
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    from IPython.core.interactiveshell import InteractiveShell
    from traitlets.config import Config

    config = Config()
    config.HistoryManager.enabled = False
    InteractiveShell.clear_instance()
    made = InteractiveShell.instance(config=config)
    made.run_cell("import tileworkbench.language as T").raise_error()
    yield made
    InteractiveShell.clear_instance()


def run(shell, text):
    result = shell.run_cell(text, store_history=True)
    result.raise_error()
    return shell.user_ns


def stored(kernel):
    return [n.value.value for n in walk(kernel) if isinstance(n, Store)]


def test_a_cell_run_again_with_other_text(shell):
    assert stored(run(shell, CELL.format(1))["main"].kernel) == [1]
    assert stored(run(shell, CELL.format(2))["main"].kernel) == [2]
    assert stored(run(shell, CELL.format(1))["main"].kernel) == [1]


def test_a_macro_redefined_in_another_cell(shell):
    run(shell, "@T.macro\ndef put(A):\n    A[0] = 1")
    text = "@T.prim_func\ndef main(A: T.Tensor((4,), 'float32')):\n    with T.Kernel(1):\n        put(A)"
    assert stored(run(shell, text)["main"].kernel) == [1]
    run(shell, "@T.macro\ndef put(A):\n    A[0] = 7")
    assert stored(run(shell, text)["main"].kernel) == [7]


def test_errors_name_the_cell(shell, capsys):
    number = shell.execution_count
    with pytest.raises(TileError) as caught:
        run(shell, CELL.format("T.cpoy"))
    capsys.readouterr()  # IPython prints the error as well
    assert str(caught.value) == (
        f"Cell In[{number}]:4:16: name error: `T.cpoy` is not a word of the language\n"
        "      A[0] = T.cpoy\n"
        "             ^^^^^^\n"
        "  hint: did you mean T.copy?"
    )
