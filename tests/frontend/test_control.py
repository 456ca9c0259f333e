"""Control flow: what belongs to the kernel is traced, everything else simply runs. Results come from the interpreter."""

from __future__ import annotations

from frontend.cells import cell, refusal, result, shown


def test_python_is_the_macro_language():
    out = result("""
        bufs = {"a": A, "b": B}
        for i, (name, scale) in enumerate(zip(["a", "a"], [2, 3])):
            bufs["b"][i] = bufs[name][5] * scale
        picks = [A[i] + 1 for i in (7, 8) if i != 8]
        B[2] = picks[0]
        B[3] = sum(A[i] for i in [1, 2, 3])
    """)
    assert out[:4] == [10, 15, 8, 6]


def test_recursion_over_build_time_values():
    out = result(
        """
        def tree(lo, hi):
            if hi - lo == 1:
                return A[lo]
            mid = (lo + hi) // 2
            return tree(lo, mid) + tree(mid, hi)
        B[0] = tree(0, 8)
    """
    )
    assert out[0] == sum(range(8))


def test_closures_and_globals_are_live():
    scope = cell("""
        def factory(k):
            def twice(x):
                return x * k
            @T.prim_func
            def main(A: T.Tensor((4,), "float32"), B: T.Tensor((4,), "float32")):
                with T.Kernel(1) as bx:
                    B[0] = twice(A[3]) + later()
            return main
        def later():
            return 100
        main = factory(7)
    """)
    import numpy as np

    from tileworkbench.interpret import run

    a, b = np.arange(4, dtype=np.float32), np.zeros(4, np.float32)
    run(scope["main"].kernel, [a, b], {}, {})
    assert b[0] == 121


def test_if_traces_both_sides_of_a_kernel_condition():
    body = """
        if n > 5:
            B[0] = 1
        elif n > 2:
            B[0] = 2
        else:
            B[0] = 3
    """
    assert [result(body, n)[0] for n in (6, 3, 0)] == [1, 2, 3]


def test_if_over_python_values_traces_one_side():
    assert (
        shown("""
        flag = False
        if flag:
            B[0] = 1
        else:
            B[1] = 2
    """)
        == "B[1] = 2.0f32"
    )


def test_range_is_a_serial_loop_with_bounds_and_step():
    assert shown("for i in range(2, 10, 3):\n    B[i] = 1") == "for i in serial(2, 10, step=3):\n  B[i] = 1.0f32"
    assert result("for i in range(6, 0, -2):\n    B[i] = i")[:8] == [-1, -1, 2, -1, 4, -1, 6, -1]
    assert result("for i in range(n, n + 2):\n    B[i] = i", 5)[4:8] == [-1, 5, 6, -1]


def test_break_and_continue():
    out = result("""
        for i in T.serial(10):
            if i == n:
                continue
            if i > 5:
                break
            B[i] = i
    """)
    assert out[:8] == [0, 1, 2, -1, 4, 5, -1, -1]


def test_break_of_a_python_loop_over_python_values():
    assert result("""
        for i in [0, 1, 2, 3]:
            if i == 2:
                break
            B[i] = i
        else:
            B[9] = 9
        for i in [0]:
            pass
        else:
            B[8] = 8
    """)[:10] == [0, 1, -1, -1, -1, -1, -1, -1, 8, -1]


def test_while_with_a_variable():
    out = result("""
        x = T.alloc_var("int32", 0)
        while x < n:
            B[x] = x * 10
            x += 1
    """)
    assert out[:4] == [0, 10, 20, -1]


def test_while_true_with_break():
    out = result("""
        x = T.alloc_var("int32")
        while True:
            x += 1
            if x > n:
                break
            if x == 2:
                continue
            B[x] = 1
    """)
    assert out[:5] == [-1, 1, -1, 1, -1]


def test_while_whose_condition_has_effects_runs_them_each_time():
    out = result("""
        count = T.alloc_local((1,), "int32")
        count[0] = 0
        @T.macro
        def more():
            count[0] += 1
            return count[0]
        while more() < n:
            B[count[0]] = 7
    """)
    assert out[:4] == [-1, 7, 7, -1]


def test_while_over_python_values_unrolls():
    assert (
        shown("""
        step = 4
        while step > 0:
            B[step] = step
            step //= 2
    """)
        == "B[4] = 4.0f32\nB[2] = 2.0f32\nB[1] = 1.0f32"
    )


def test_conditional_expressions_and_logic_are_lazy_and_mix_with_python():
    body = """
        B[0] = A[n] if n < 64 else 5
        ok = n > 0 and n < 10 or not n != 20
        B[1] = 1 if ok else 0
        B[2] = 1 if 0 < n <= 3 else 0
        py = None
        B[3] = 4 if py is None and True else A[0]
        B[4] = 1 if False or n == 3 else 0
    """
    assert result(body, 3)[:5] == [3, 1, 1, 4, 1]
    assert result(body, 70)[:5] == [5, 0, 0, 4, 0]
    assert result(body, 20)[:3] == [20, 1, 0]


def test_python_short_circuit_keeps_its_meaning():
    assert (
        shown("""
        names = {}
        value = names.get("x") or 3
        B[0] = value and 4
        B[1] = (names and names["missing"]) == {}
    """)
        == "B[0] = 4.0f32\nB[1] = 1.0f32"
    )


def test_a_false_python_operand_decides():
    assert shown("if n > 3 and False:\n    B[0] = 1\nif n > 3 or True:\n    B[1] = 1") == "B[1] = 1.0f32"


def test_builtins_over_kernel_values():
    body = """
        B[0] = max(A[1], A[2], 1.5)
        B[1] = min([A[4], A[3]])
        B[2] = abs(A[1] - A[3])
        B[3] = int(A[2] + 0.75)
        B[4] = float(n) / 2
        B[5] = 1 if any([n == 1, n == 3]) else 0
        B[6] = 1 if all(n > i for i in [0, 1, 5]) else 0
        B[7] = max(2, 3)
        B[8] = 1 if bool(n) else 0
        B[9] = len([1, 2])
    """
    assert result(body)[:10] == [2, 3, 2, 2, 1.5, 1, 0, 3, 1, 2]


def test_statements_inside_loops_nest():
    assert shown("""
        for i in T.serial(4):
            for j in T.unroll(2):
                if i > j:
                    B[i] = A[j]
    """) == ("for i in serial(0, 4):\n  for j in unroll(0, 2):\n    if i > j:\n      B[i] = A[j]")


def test_assert_on_python_values_runs_while_building():
    assert "no good" in refusal("assert 1 > 2, 'no good'", AssertionError)
    assert shown("assert n > 2, 'small'") == "assert n > 2i32, 'small'"


def test_helpers_without_decorator_may_branch_on_kernel_values():
    scope = """
        def clip(x, low):
            y = T.alloc_var("float32", 0)
            y = x
            if x < low:
                y = low
            for i in range(2):
                y = y + table[i]
            return y
        table = [10, 20]
    """
    helpers = cell(scope)
    assert result("B[0] = clip(A[1], 4)\nB[1] = clip(A[9], 4)", clip=helpers["clip"])[:2] == [34, 39]


def test_helpers_over_python_values_run_as_they_are():
    helpers = cell("""
        def table(n):
            try:
                return [i * i for i in range(n)]
            finally:
                pass
    """)
    assert shown("B[0] = table(4)[3]", table=helpers["table"]) == "B[0] = 9.0f32"


def test_a_helper_that_cannot_be_rewritten_runs_in_python():
    helpers = cell("""
        def add(x, y):
            try:
                return x + y
            except ValueError:
                return None
    """)
    assert shown("B[0] = add(A[0], 1)", add=helpers["add"]) == "B[0] = A[0] + 1.0f32"
