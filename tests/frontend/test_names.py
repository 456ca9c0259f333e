"""Assignment: values are computed where they are assigned, variables are stored to, everything else binds as in Python."""

from __future__ import annotations

from frontend.cells import cell, failure, refusal, result, shown


def test_a_name_keeps_the_value_of_its_assignment():
    out = result("""
        x = A[3]
        held = {"y": A[4]}
        pair = (A[5], A[6])
        kept = []
        kept.append(A[7])
        for i in T.Parallel(8):
            A[i] = 50
        B[0] = x
        B[1] = held["y"]
        B[2] = pair[1]
        B[3] = kept[0]
    """)
    assert out[:4] == [3, 4, 6, 7]


def test_a_variable_read_into_a_name_is_a_snapshot():
    out = result("""
        v = T.alloc_var("int32", 5)
        before = v
        v = v + 1
        v *= 2
        B[0] = before
        B[1] = v
    """)
    assert out[:2] == [5, 12]


def test_buffers_and_python_values_bind_as_they_are():
    assert (
        shown("""
        C = A
        k = 3
        k += 4
        names = ["a"]
        names += ["b"]
        B[k] = C[len(names)]
    """)
        == "B[7] = A[2]"
    )


def test_tuple_list_starred_and_chained_targets():
    out = result("""
        a, (b, *rest) = A[1], [A[2], A[3], A[4]]
        c = d = A[5]
        a, b = b, a
        B[0], B[1] = a, b
        B[2] = rest[1]
        B[3] = c + d
    """)
    assert out[:4] == [2, 1, 4, 10]


def test_names_are_readable_and_unique():
    assert shown("x = A[0]\nx = x + 1\nB[0] = x") == "let x: float32 = A[0]\nlet x_1: float32 = x + 1.0f32\nB[0] = x_1"


def test_an_alloc_var_takes_the_name_of_its_target():
    assert [b.name for b in _allocs("total = T.alloc_var('float32')\nS, R = T.alloc_shared((4,)), T.alloc_shared((4,))\nL = [T.alloc_local((2,))]")][
        0
    ] == "total"


def _allocs(body: str):
    from frontend.cells import kernel

    return kernel(body).launches[0].allocs


def test_redeclaring_a_variable_makes_a_new_one():
    assert [b.name for b in _allocs("x = T.alloc_var('int32', 1)\nx = T.alloc_var('float32', 2)\nB[0] = x")] == ["x", "x_1"]


def test_an_annotated_assignment_converts():
    assert shown("x: T.float16 = A[0]\nB[0] = x") == "let x: float16 = float16(A[0])\nB[0] = float32(x)"
    assert shown("x: int = 3\ny: float\nB[x] = 0") == "B[3] = 0.0f32"


def test_a_variable_in_a_branch_or_loop_is_stored_to():
    out = result("""
        x = T.alloc_var("float32", 1)
        if n > 2:
            x = 7
        for i in T.serial(3):
            x += A[i]
        B[0] = x
    """)
    assert out[0] == 10


def test_a_variable_stays_one_through_python_loops():
    out = result("""
        for start in [0, 10]:
            x = T.alloc_var("float32", start)
            for i in range(3):
                x = x + 1
            B[start] = x
    """)
    assert (out[0], out[10]) == (3, 13)


def test_a_temporary_may_have_the_same_name_in_each_loop():
    assert result("""
        for i in T.serial(2):
            x = A[i] + 1
            B[i] = x
        for i in T.serial(2):
            x = A[i] + 5
            B[i + 2] = x
        x = 9
        B[4] = x
    """)[:5] == [1, 2, 5, 6, 9]


def test_augmented_items_evaluate_target_and_index_once():
    out = result("""
        calls = []
        def at(i):
            calls.append(i)
            return i
        B[at(2)] += 5
        B[3] -= A[1]
        B[4] = len(calls)
        counts = {"x": 1}
        counts["x"] += 1
        B[5] = counts["x"]
    """)
    assert out[2:6] == [4, -2, 1, 2]


def test_attributes_hold_build_time_state():
    out = result(
        """
        box.x = A[3]
        box.v = T.alloc_var("int32", 1)
        for i in T.serial(4):
            box.v = box.v + 1
        box.v += 1
        B[0] = box.x
        B[1] = box.v
    """,
        box=type("Box", (), {})(),
    )
    assert out[:2] == [3, 6]


# ---------------------------------------------------------------------------------------------- errors
def test_rebinding_in_a_loop():
    assert refusal("x = A[0]\nfor i in T.serial(4):\n    x = x + A[i]\nB[0] = x") == (
        "cell:6:13: language error: `x` is rebound inside a loop of the kernel and read again in line 7\n"
        "      x = x + A[i]\n"
        "      ^\n"
        "  hint: declare it with `x = T.alloc_var(dtype, init=...)`; assigning to it then stores"
    )


def test_rebinding_a_python_number_in_a_loop():
    assert refusal("count = 0\nfor i in range(4):\n    count += 1\nB[0] = count").splitlines()[:3] == [
        "cell:6:13: language error: `count` is rebound inside a loop of the kernel and read again in line 7",
        "      count += 1",
        "      ^^^^^",
    ]


def test_rebinding_in_a_branch():
    assert refusal("x = A[0]\nif n > 2:\n    x = 1.0\nB[0] = x") == (
        "cell:6:13: language error: `x` is rebound inside a branch of the kernel and read again in line 7\n"
        "      x = 1.0\n"
        "      ^\n"
        "  hint: declare it with `x = T.alloc_var(dtype, init=...)`; assigning to it then stores"
    )


def test_use_outside_the_defining_branch():
    assert refusal("if n > 2:\n    y = A[0]\nelse:\n    y = 2.0\nB[0] = y") == (
        "cell:8:16: name error: `y` is used outside the branch that defines it\n"
        "      B[0] = y\n"
        "             ^\n"
        "  hint: declare `y = T.alloc_var(dtype)` before the branch; assigning to it then stores"
    )


def test_use_of_a_loop_variable_after_its_loop():
    assert refusal("for i in T.serial(4):\n    B[i] = 0\nB[0] = i") == (
        "cell:6:16: name error: `i` is used outside the loop that defines it\n"
        "      B[0] = i\n"
        "             ^\n"
        "  hint: keep what is needed of `i` in a T.alloc_var, assigned inside the loop"
    )


def test_a_loop_variable_with_the_name_of_a_variable():
    assert refusal("i = T.alloc_var('int32', 0)\nfor i in T.serial(4):\n    B[i] = 0\nB[0] = i").splitlines()[0] == (
        "cell:5:13: language error: `i` is rebound inside a loop of the kernel and read again in line 7"
    )


def test_a_value_that_leaves_its_block_through_a_list():
    assert refusal("kept = []\nfor i in T.serial(4):\n    kept.append(i * 2)\nB[0] = kept[0]") == (
        "cell:7:9: name error: `i` is used outside the block that defines it\n"
        "      B[0] = kept[0]\n"
        "      ^^^^^^^^^^^^^^\n"
        "  hint: it exists only inside that loop, branch or launch; keep it in a T.alloc_var or a buffer"
    )


def test_augmented_assignment_to_a_buffer():
    assert refusal("S = T.alloc_shared((4,), 'float32')\nS *= 2") == (
        "cell:5:9: language error: `*=` on the whole buffer S\n"
        "      S *= 2\n"
        "      ^^^^^^\n"
        "  hint: write S[i] *= ... for its elements, inside T.Parallel"
    )


def test_attribute_assigned_in_a_kernel_loop():
    assert refusal("for i in T.serial(4):\n    box.x = i", box=type("Box", (), {})()) == (
        "cell:5:13: language error: `.x` is assigned inside a loop or branch of the kernel\n"
        "      box.x = i\n"
        "      ^^^^^^^^^\n"
        "  hint: make it a variable first: `.x = T.alloc_var(dtype)`"
    )


def test_attribute_of_a_kernel_value():
    assert refusal("A.scale = 3").splitlines()[0] == "cell:4:9: syntax error: `.scale` of a kernel value cannot be assigned"


def test_a_name_that_is_bound_nowhere_keeps_pythons_error():
    text = failure("@T.prim_func\ndef main(A: T.Tensor((4,))):\n    with T.Kernel(1) as bx:\n        A[0] = nothing\n", NameError)
    assert text == "name 'nothing' is not defined"


def test_pythons_own_errors_say_where():
    import pytest

    with pytest.raises(ZeroDivisionError) as caught:
        cell("@T.prim_func\ndef main(A: T.Tensor((4,))):\n    with T.Kernel(1) as bx:\n        A[0] = 1 // 0\n", "divide")
    assert caught.value.__notes__ == ["divide:4:16: while building the kernel `main`\n      A[0] = 1 // 0\n             ^^^^^^"]
