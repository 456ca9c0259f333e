"""Python that cannot be part of a kernel: the statement, what is wrong and what to write instead."""

from __future__ import annotations

import pytest
from frontend.cells import failure, refusal

REFUSED = {
    "class X: pass": "a class cannot be defined in a kernel",
    "global x": "`global` cannot be used in a kernel",
    "del A": "`del` cannot be used in a kernel",
    "try:\n    pass\nfinally:\n    pass": "`try` cannot be used in a kernel",
    "match n:\n    case 1:\n        pass": "`match` cannot be used in a kernel",
    "yield 3": "`yield` cannot be used in a kernel",
    "yield from [1]": "`yield from` cannot be used in a kernel",
    "async def f(): pass": "async functions cannot be part of a kernel",
}


@pytest.mark.parametrize(("statement", "message"), REFUSED.items(), ids=[s.split()[0] for s in REFUSED])
def test_refused_statements(statement, message):
    lines = refusal(statement).splitlines()
    first = statement.splitlines()[0]
    assert lines[0] == f"cell:4:9: syntax error: {message}"
    assert lines[1:3] == [f"      {first}", "      " + "^" * len(first)]
    assert lines[3].startswith("  hint: ")


def test_the_walrus():
    assert refusal("if (x := 3) > n:\n    pass") == (
        "cell:4:13: syntax error: `:=` cannot be used in a kernel\n      if (x := 3) > n:\n          ^^^^^^\n  hint: assign on a line of its own"
    )


def test_an_async_kernel():
    assert failure("@T.prim_func\nasync def main(A: T.Tensor((4,))):\n    pass\n") == (
        "cell:2:1: syntax error: an async function cannot be a kernel\n"
        "      async def main(A: T.Tensor((4,))):\n"
        "      ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^\n"
        "  hint: use def"
    )


def test_nonlocal_in_a_nested_helper():
    assert refusal("x = 1\ndef f():\n    nonlocal x\n    x = 2").splitlines()[0] == "cell:6:13: syntax error: `nonlocal` cannot be used in a kernel"


def test_raise_under_a_kernel_condition():
    assert refusal("if n > 3:\n    raise ValueError('big')") == (
        "cell:5:13: syntax error: `raise` inside a loop or branch of the kernel would fail while it is built\n"
        "      raise ValueError('big')\n"
        "      ^^^^^^^^^^^^^^^^^^^^^^^\n"
        "  hint: use T.device_assert(cond, message)"
    )


def test_raise_under_a_python_condition_is_pythons():
    assert refusal("if len([1]) == 1:\n    raise KeyError('mine')", KeyError) == "'mine'"


def test_a_list_index_that_is_a_kernel_value():
    assert refusal("bufs = [A, B]\nfor i in range(2):\n    bufs[i][0] = 1") == (
        "cell:6:13: type error: i (int64) is known only when the kernel runs and cannot be used as a Python int\n"
        "      bufs[i][0] = 1\n"
        "      ^^^^^^^\n"
        "  hint: shapes and list indices must be known when the kernel is built"
    )
    assert refusal("bufs = [A, B]\nfor i in list(range(2)):\n    bufs[i][0] = n + T.cpoy").startswith("cell:6:")


def test_choosing_between_buffers():
    assert refusal("C = A if n > 3 else B") == (
        "cell:4:13: type error: a kernel value cannot choose between buffers\n"
        "      C = A if n > 3 else B\n"
        "          ^^^^^^^^^^^^^^^^^\n"
        "  hint: write an if statement with a copy in each branch"
    )


def test_an_unknown_word():
    assert refusal("T.aloc_shared((4,))") == (
        "cell:4:9: name error: `T.aloc_shared` is not a word of the language\n"
        "      T.aloc_shared((4,))\n"
        "      ^^^^^^^^^^^^^\n"
        "  hint: did you mean T.alloc_shared?"
    )
    assert "dir(T) lists the words" in refusal("T.qqqqqqqq()")
    assert "no target here can hold float4_e2m1fn" in refusal("T.alloc_shared((4,), T.float4_e2m1fn)")


def test_a_word_called_with_wrong_arguments():
    assert refusal("T.copy(A)") == (
        "cell:4:9: type error: T.copy: missing a required argument: 'dst'\n"
        "      T.copy(A)\n"
        "      ^^^^^^^^^\n"
        "  hint: the signature is T.copy(src, dst, *, coalesced_width=None, disable_tma=False, eviction_policy=None, "
        "prefer_instruction=None, annotations=None, loop_layout=None)"
    )


def test_errors_of_several_lines_show_the_first():
    assert refusal("T.copy(\n    A,\n)").splitlines()[:3] == [
        "cell:4:9: type error: T.copy: missing a required argument: 'dst'",
        "      T.copy(",
        "      ^^^^^^^",
    ]
