"""Spans render the author's source with carets, wide characters and call chains included."""

import linecache

from tileworkbench.base.span import Span


def cached(name: str, text: str) -> str:
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    return name


def test_where_counts_columns_from_one() -> None:
    assert Span("k.py", 7, 4, 7, 9, text="    x = y").where == "k.py:7:5"


def test_label_replaces_the_file_name() -> None:
    assert Span("/tmp/ipykernel/1.py", 2, 0, 2, 1, label="Cell In[3]", text="x").where == "Cell In[3]:2:1"


def test_carets_stand_under_the_span() -> None:
    span = Span(cached("<k1>", "def f():\n    T.copy(A, Bs)\n"), 2, 14, 2, 16)
    assert span.render("oops").splitlines() == ["<k1>:2:15: oops", "      T.copy(A, Bs)", "                ^^"]


def test_wide_characters_take_two_columns() -> None:
    span = Span("k.py", 1, 7, 1, 8, text='p("数据", x)')
    line, carets = span.snippet()
    assert carets.index("^") == 6 + 2 + 1 + 4 + 1 + 1
    assert line == '      p("数据", x)'


def test_span_over_several_lines_marks_the_first_to_its_end() -> None:
    span = Span("k.py", 1, 0, 3, 1, text="f(a,")
    assert span.snippet()[1] == "      ^^^^"


def test_missing_source_still_says_where() -> None:
    assert Span("gone.py", 3, 0, 3, 1).render("oops") == "gone.py:3:1: oops"


def test_call_chain_is_shown_from_the_inside_out() -> None:
    outer = Span("k.py", 10, 4, 10, 8, function="kern", text="    load(A)")
    inner = Span("k.py", 2, 2, 2, 3, text="  x", call_site=outer)
    assert inner.render("oops").splitlines() == [
        "k.py:2:3: oops",
        "      x",
        "      ^",
        "  called from k.py:10:5 in kern",
        "      load(A)",
        "      ^^^^",
    ]
