"""The body of a cell: line numbers, the namespace after a failure, and tracebacks that show the author's frames only."""

from __future__ import annotations

import textwrap

import pytest

from tileworkbench.base.errors import TileSyntaxError, TileTypeError
from tileworkbench.base.frames import OURS
from tileworkbench.notebook.cell import Cell, bound_names, execute, prepare


@pytest.fixture
def body(notebook):
    """Registers `%%body`, which runs its cell as `%%tile` does, and returns a function that runs a cell of it."""

    # What a magic of the package would be: its frame is one of ours.
    space = {"__name__": "tileworkbench.notebook.body", "prepare": prepare, "execute": execute, "shell": notebook.shell}
    exec(compile("magic = lambda line, cell: execute(shell, *prepare(shell, line, cell))", f"{OURS}/notebook/body.py", "exec"), space)
    magic = space["magic"]

    notebook.shell.register_magic_function(magic, "cell", "body")
    return lambda text: notebook.run("%%body\n" + text)


def test_a_body_binds_names_and_gives_its_last_value(body, notebook):
    ran = body("a = 2\ndef f(x):\n    return x + a\nf(40)\n")
    assert ran.success
    assert ran.value == 42
    assert notebook["f"](1) == 3


def test_a_function_of_a_cell_can_read_its_own_source(body, notebook):
    import inspect

    body("\n\ndef f():\n    return 1\n")
    assert inspect.getsource(notebook["f"]) == "def f():\n    return 1\n"
    assert notebook["f"].__code__.co_firstlineno == 4  # the magic is line 1, two empty lines follow


def test_the_namespace_is_as_it_was_when_the_body_fails(body, notebook):
    notebook.run("kept = 1\nchanged = [1]\ngone = 3")
    old = notebook["changed"]
    ran = body("changed = 5\nnew = 6\ndel gone\nraise ValueError('no')\n")
    assert not ran.success
    assert isinstance(ran.error, ValueError)
    assert notebook["kept"] == 1
    assert notebook["changed"] is old
    assert notebook["gone"] == 3
    assert "new" not in notebook


def test_an_ordinary_error_shows_the_cell_and_no_frame_of_ours(body):
    ran = body("def f(x):\n    return 1 / x\n\nf(0)\n")
    assert isinstance(ran.error, ZeroDivisionError)
    assert "ZeroDivisionError" in ran.text
    assert "f(0)" in ran.text and "return 1 / x" in ran.text
    assert "tileworkbench" not in ran.text
    assert "run_cell_magic" not in ran.text


def test_an_error_of_ours_shows_its_own_text(body):
    ran = body("from tileworkbench.base.errors import TileTypeError\n\ndef f():\n    raise TileTypeError('bad', hint='good')\n\nf()\n")
    assert isinstance(ran.error, TileTypeError)
    expected = """\
        Cell In[1]:7:1: in <module>
              f()
              ^^^
        Cell In[1]:5:5: in f
              raise TileTypeError('bad', hint='good')
              ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
        type error: bad
          hint: good
        """
    assert ran.text.strip() == textwrap.dedent(expected).strip()


def test_a_syntax_error_has_the_line_of_the_cell(body):
    ran = body("x = 1\nif x\n    y = 2\n")
    assert isinstance(ran.error, TileSyntaxError)
    assert str(ran.error) == "Cell In[1]:3:5: syntax error: expected ':'\n      if x\n          ^"


def test_a_statement_that_does_not_compile_is_a_syntax_error(body):
    ran = body("x = 1\nreturn x\n")
    assert isinstance(ran.error, TileSyntaxError)
    assert str(ran.error).startswith("Cell In[1]:3:1: syntax error: 'return' outside function")


def test_ipython_syntax_works_in_the_body(body, notebook):
    assert body("answer = !echo 42\nanswer[0]\n").value == "42"


def test_the_span_of_an_option():
    cell = Cell("file", "Cell In[3]", "%%tile --expect 'time < 1 us'")
    assert cell.span_of_option("time < 1 us").render("no").splitlines()[1:] == [
        "      %%tile --expect 'time < 1 us'",
        "                       ^^^^^^^^^^^",
    ]


def test_bound_names():
    import ast

    tree = ast.parse("def f(): pass\na, (b, c) = 1, (2, 3)\na = 4\nd: int = 5\nx.y = 6\nf()\n")
    assert bound_names(tree) == ["f", "a", "b", "c", "d", "x"]
