"""Spans: the exact characters, through macros and helpers, in files and in notebook cells."""

from __future__ import annotations

import sys
import threading
import types

from frontend.cells import cell, refusal

from tileworkbench.frontend import positions
from tileworkbench.ir.node import walk
from tileworkbench.ir.stmt import Store


def test_chain_of_calls_in_spans():
    main = cell(
        """
        @T.macro
        def put(X, i):
            X[i] = 1
        @T.prim_func
        def main(A: T.Tensor((4,), "float32")):
            with T.Kernel(1) as bx:
                put(A, 1)
                put(A, 2)
        """,
        "<chain>",
    )["main"]
    spans = [n.span for n in walk(main.kernel) if isinstance(n, Store)]
    assert [(s.where, s.function, s.call_site.where, s.call_site.function) for s in spans] == [
        ("<chain>:3:5", "put", "<chain>:7:9", "main"),
        ("<chain>:3:5", "put", "<chain>:8:9", "main"),
    ]


def test_lambdas_and_comprehensions_count_as_their_function():
    text = refusal("x = [T.cpoy for i in (1, 2)]")
    assert text.count("called from") == 0
    assert text.splitlines()[2] == "           ^^^^^^"
    assert refusal("x = A[0] if n > 3 else T.cpoy").count("called from") == 0


def test_a_plain_helper_is_shown_with_its_caller():
    helpers = cell("def helper(x):\n    return T.max(x)\n", "<helper>")
    assert refusal("B[0] = helper(A[0])", helper=helpers["helper"]).splitlines()[:6] == [
        "<helper>:2:12: type error: T.max: missing a required argument: 'b'",
        "      return T.max(x)",
        "             ^^^^^^^^",
        "  called from cell:4:16 in main",
        "      B[0] = helper(A[0])",
        "             ^^^^^^^^^^^^",
    ]


def test_cell_labels_from_ipython(monkeypatch):
    compiler = types.SimpleNamespace(format_code_name=lambda name: ("Cell", "In[7]") if name == "/tmp/ipykernel_1/2.py" else None)
    shell = types.SimpleNamespace(compile=compiler)
    monkeypatch.setitem(sys.modules, "IPython", types.SimpleNamespace(get_ipython=lambda: shell))
    assert positions.label_of("/tmp/ipykernel_1/2.py") == "Cell In[7]"
    assert positions.label_of("other.py") == ""


def test_labels_that_a_notebook_adds(monkeypatch):
    monkeypatch.setitem(positions.LABELS, "<labelled>", "%%tile cell")
    cell("def f():\n    pass\n", "<labelled>")
    main = cell("@T.prim_func\ndef main(A: T.Tensor((4,), 'float32')):\n    with T.Kernel(1):\n        A[0] = 1\n", "<labelled>")["main"]
    assert main.kernel.launches[0].body[0].span.where == "%%tile cell:4:9"


def test_outside_a_kernel_there_is_no_position():
    assert positions.here() is None


def test_two_threads_build_at_once():
    made = {}

    def build(i):
        body = f"    with T.Kernel(1):\n        for i in T.serial(4):\n            A[i] = {i}\n"
        made[i] = cell("@T.prim_func\ndef main(A: T.Tensor((4,), 'float32')):\n" + body)["main"]

    threads = [threading.Thread(target=build, args=(i,)) for i in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert [[n.value.value for n in walk(made[i].kernel) if isinstance(n, Store)] for i in range(8)] == [[i] for i in range(8)]
