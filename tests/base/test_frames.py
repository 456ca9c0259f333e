"""Whose frames a traceback shows, and the exact expression in each."""

from __future__ import annotations

import linecache
import sys

from tileworkbench.base.errors import TileValueError
from tileworkbench.base.frames import OURS, render, user_spans
from tileworkbench.base.span import Span

AUTHOR = """\
def inner(f):
    return [0, f(  1  )]

é = 'é'; result = inner(fail) + [2]
"""


def raised(source: str, name: str, **names: object) -> BaseException:
    """The error that running `source` as the file `name` raises."""
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    try:
        exec(compile(source, name, "exec"), {"__name__": "author", **names})
    except Exception as error:
        error.__traceback__ = error.__traceback__.tb_next  # without this function's own frame
        return error
    raise AssertionError("nothing was raised")


def fail_in_ours(span: Span | None = None):
    space: dict = {"error": TileValueError("bad", span=span, hint="good"), "__name__": "tileworkbench.fake"}
    exec(compile("def fail(x):\n    raise error\n", f"{OURS}/fake.py", "exec"), space)
    return space["fail"]


def test_only_the_authors_frames_are_shown():
    error = raised(AUTHOR, "author.py", fail=fail_in_ours())
    assert "\n".join(render(error)) == "\n".join(
        [
            "author.py:4:19: in <module>",
            "      é = 'é'; result = inner(fail) + [2]",
            "                        ^^^^^^^^^^^",
            "author.py:2:16: in inner",
            "      return [0, f(  1  )]",
            "                 ^^^^^^^^",
            "value error: bad",
            "  hint: good",
        ]
    )


def test_a_line_that_the_error_shows_itself_is_not_shown_twice():
    span = Span("author.py", 2, 15, 2, 23)
    error = raised(AUTHOR, "author.py", fail=fail_in_ours(span))
    text = "\n".join(render(error))
    assert text.count("return [0, f(  1  )]") == 1
    assert text.index("in <module>") < text.index("author.py:2:16: value error: bad")


def test_an_expression_over_several_lines_is_marked_on_its_first():
    error = raised("x = (\n    fail(1,\n         2)\n)\n", "lines.py", fail=lambda *a: 1 / 0)
    first = user_spans(error.__traceback__)[0]
    assert (first.line, first.col) == (2, 4)
    assert first.snippet() == ["      fail(1,", "      ^^^^^^^"]


def test_machinery_is_left_out():
    error = raised("import contextlib\nwith contextlib.ExitStack() as s:\n    s.callback(lambda: 1 / 0)\n", "stack.py")
    assert {span.file for span in user_spans(error.__traceback__)} == {"stack.py"}
    assert sys.modules["contextlib"].__file__
