"""Macros, references and build-time classes."""

from __future__ import annotations

import pytest
from frontend.cells import cell, failure, refusal, result, shown

import tileworkbench.language as T
from tileworkbench.base.errors import JITNoBuilderError

MACROS = cell("""
    @T.macro
    def axpy(a, x, out, scale=2):
        for i in T.Parallel(4):
            out[i] = a * x[i] * scale

    @T.macro
    def bump(v: T.Ref, by=1):
        v = v + by
        v += by

    @T.macro
    def both(x):
        y = x + 1
        return y, y * 2

    @T.macro
    def power(x, n):
        if n == 0:
            return 1
        return power(x, n - 1) * x

    @T.macro
    def apply(f, x):
        return f(x)

    @T.macro
    def loops(out):
        for i in range(3):
            out[i] = i

    @T.meta_class
    class Counter:
        def __init__(self, start):
            self.value = T.alloc_var("int32", start)

        def step(self, by):
            self.value = self.value + by
            if self.value > 6:
                self.value = 0

        @property
        def twice(self):
            return self.value * 2
""")


def test_a_macro_is_inlined_with_positional_and_keyword_arguments():
    assert result("axpy(3, A, B, scale=1)", **MACROS)[:5] == [0, 3, 6, 9, -1]


def test_references_store_to_the_callers_element_and_variable():
    out = result(
        """
        v = T.alloc_var("int32", 5)
        bump(v)
        bump(B[2], by=10)
        bump(v=B[n])
        B[0] = v
    """,
        **MACROS,
    )
    assert out[:4] == [7, -1, 19, 1]


def test_scalars_arrive_by_value():
    out = result("""
        v = T.alloc_var("float32", 5)
        @T.macro
        def change(x, y):
            x = x + 1
            A[1] = 100
            B[0] = x
            B[1] = y
        change(v, A[1])
        B[2] = v
    """)
    assert out[:3] == [6, 1, 5]


def test_macros_return_values_and_tuples():
    assert result("p, q = both(A[3])\nB[0] = p\nB[1] = q + both(A[1])[1]", **MACROS)[:2] == [4, 12]


def test_macros_recurse_over_build_time_values_and_are_arguments():
    assert result("B[0] = power(A[3], 4)\nB[1] = apply(both, A[1])[0]\nB[2] = apply(lambda x: x * 5, A[2])", **MACROS)[:3] == [81, 2, 10]


def test_range_in_a_macro_is_a_kernel_loop():
    assert shown("loops(B)", **MACROS) == "for i in serial(0, 3):\n  B[i] = float32(i)"


def test_a_returned_value_is_computed_before_later_effects():
    out = result("""
        @T.macro
        def read():
            return A[2]
        @T.macro
        def write():
            A[2] = 50
            return A[2]
        B[0] = read() * 1000 + write()
    """)
    assert out[0] == 2050


def test_meta_class_objects_hold_variables():
    out = result(
        """
        c = Counter(2)
        for i in T.serial(n):
            c.step(2)
        B[0] = c.value
        B[1] = c.twice
    """,
        2,
        **MACROS,
    )
    assert out[:2] == [6, 12]


def test_a_macro_may_open_the_launch():
    scope = cell("""
        @T.macro
        def launch(X, value):
            with T.Kernel(4, threads=32) as b:
                X[b] = value
        @T.prim_func
        def main(A: T.Tensor((4,), "float32")):
            launch(A, 1)
            launch(A, 2)
    """)
    assert len(scope["main"].kernel.launches) == 2


def test_inline_is_a_macro():
    assert T.inline is T.macro


# ---------------------------------------------------------------------------------------------- errors
def test_errors_show_the_chain_of_calls():
    assert refusal("""
        @T.macro
        def inner(x):
            T.copy(x, B[0:3])
        @T.macro
        def outer(x):
            inner(x)
        outer(A[0:2])
    """) == (
        "cell:6:13: value error: T.copy: the shapes do not fit: A (2,) to B (3,)\n"
        "      T.copy(x, B[0:3])\n"
        "      ^^^^^^^^^^^^^^^^^\n"
        "  called from cell:9:13 in outer\n"
        "      inner(x)\n"
        "      ^^^^^^^^\n"
        "  called from cell:10:9 in main\n"
        "      outer(A[0:2])\n"
        "      ^^^^^^^^^^^^^\n"
        "  hint: the dims other than 1 must be equal, in order; slice the larger side, such as tile[0:48, :]"
    )


def test_a_macro_outside_a_kernel():
    with pytest.raises(JITNoBuilderError, match="the macro `axpy` is used outside a kernel"):
        MACROS["axpy"](1, 2, 3)


def test_a_reference_needs_a_place():
    assert refusal("bump(3)", **MACROS) == (
        "cell:4:9: value error: the argument for `v: T.Ref` must be an element, a T.alloc_var or a slice\n"
        "      bump(3)\n"
        "      ^^^^^^^\n"
        "  hint: pass buf[i], or a variable from T.alloc_var"
    )


def test_return_in_a_kernel_branch():
    assert refusal("""
        @T.macro
        def early(x):
            if x > 2:
                return 1
            return 2
        B[0] = early(n)
    """) == (
        "cell:7:17: not supported: `return` inside a loop or branch of the kernel\n"
        "      return 1\n"
        "      ^^^^^^^^\n"
        "  called from cell:9:16 in main\n"
        "      B[0] = early(n)\n"
        "             ^^^^^^^^\n"
        "  hint: return once at the end, through a T.alloc_var; T.thread_return() ends the block early"
    )


def test_a_macro_with_effects_in_an_expression_that_may_not_run():
    assert refusal("""
        @T.macro
        def store():
            B[0] = 1
            return 1
        B[1] = store() if n > 2 else 0
    """) == (
        "cell:8:16: syntax error: a call inside a conditional expression emits statements, which would run in any case\n"
        "      B[1] = store() if n > 2 else 0\n"
        "             ^^^^^^^^^^^^^^^^^^^^^^^\n"
        "  hint: write an if statement"
    )


def test_macros_decorate_functions_only():
    assert failure("T.macro(3)") == "type error: T.macro decorates functions, not int"
    assert failure("T.meta_class(3)") == "type error: T.meta_class decorates classes, not int"
