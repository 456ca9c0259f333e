"""Launches, loops and allocations: the statements they become, and what is refused."""

from __future__ import annotations

import pytest
from frontend.cells import cell, failure, kernel, refusal, result, shown

import tileworkbench.language as T
from tileworkbench.base.errors import JITNoBuilderError
from tileworkbench.ir.stmt import For, ParallelFor, PipelinedFor


def only(body):
    return kernel(body).launches[0].body[-1]


# ---------------------------------------------------------------------------------------------- loops
def test_loop_kinds():
    assert [only(f"for i in T.{w}(4):\n    B[i] = 0").kind for w in ("serial", "Serial", "unroll", "Unroll", "vectorized", "Vectorized")] == [
        "serial", "serial", "unroll", "unroll", "vectorized", "vectorized",
    ]  # fmt: skip
    loop = only("for i in T.unroll(1, 9, 2, explicit=True, unroll_factor=4, annotations={}):\n    B[i] = 0")
    assert isinstance(loop, For)
    assert (loop.start.value, loop.stop.value, loop.step) == (1, 9, 2)
    assert result("for i in T.serial(5, 2, -1):\n    B[i] = i")[2:7] == [-1, 3, 4, 5, -1]


def test_pipelined():
    loop = only("for k in T.Pipelined(1, n, num_stages=3, order=[0, 1], stage=(0, 1)):\n    B[k] = 0")
    assert isinstance(loop, PipelinedFor)
    assert (loop.start.value, loop.num_stages, loop.order, loop.stage, loop.var.name) == (1, 3, (0, 1), (0, 1), "k")
    assert only("for k in T.Pipelined(4):\n    B[k] = 0").num_stages == 0


def test_parallel_of_several_extents_and_directly_nested():
    flat = only("for i, j in T.Parallel(4, 8):\n    B[i * 8 + j] = 0")
    nested = only("for i in T.Parallel(4):\n    for j in T.parallel(8):\n        B[i * 8 + j] = 0")
    assert isinstance(flat, ParallelFor)
    assert flat == nested


def test_parallel_indices_as_one_tuple():
    assert result("for ij in T.Parallel(2, 3):\n    B[ij[0] * 3 + ij[1]] = 5")[:7] == [5] * 6 + [-1]


def test_grid():
    assert shown("for i, j in T.grid(2, n):\n    B[i * 8 + j] = 0") == (
        "for i in serial(0, 2):\n  for j in serial(0, int64(n)):\n    B[i * 8 + j] = 0.0f32"
    )


@pytest.mark.parametrize("domain", [(3, 5), (9, 2), (7,), (2, 3, 4), (1, 1)])
@pytest.mark.parametrize("wave", [1, 4, 100])
def test_persistent_visits_each_tile_once(domain, wave):
    total = 1
    for d in domain:
        total *= d
    index = "i" if len(domain) == 1 else "(i * {1} + j)".format(*domain) if len(domain) == 2 else "((i * {1} + j) * {2} + k)".format(*domain)
    names = ", ".join("ijk"[: len(domain)])
    out = result(f"""
        for i in T.serial(64):
            B[i] = 0
        for block in T.serial({wave}):
            for {names} in T.Persistent({domain}, {wave}, block, group_size=2):
                B[{index}] += 1
    """)
    assert out == [1.0] * total + [0.0] * (64 - total)


def test_thread_binding_is_the_thread_index():
    launch = kernel("for t in T.thread_binding(32, thread='threadIdx.x'):\n    B[t] = t").launches[0]
    assert launch.threads_used
    assert result("for t in T.thread_binding(32):\n    B[t] = t")[:33] == [float(i) for i in range(32)] + [-1]


def test_loops_in_a_function_that_was_not_rewritten():
    helpers = cell("""
        def zero(names):
            try:
                for i in T.serial(4):
                    names["B"][i] = 0
            finally:
                pass
    """)
    assert shown("zero({'B': B})", zero=helpers["zero"]) == "for i in serial(0, 4):\n  B[i] = 0.0f32"


# ---------------------------------------------------------------------------------------------- allocations
def test_allocations():
    allocs = (
        kernel("""
        S = T.alloc_shared((4, 8), "float16")
        F = T.alloc_fragment([4], T.float32)
        L = T.alloc_local(3, "int8")
        x = T.alloc_var("int32")
        y = T.alloc_var("float32", 2)
        z = T.alloc_var(T.float16, init=1.5)
        w = T.alloc_var("int32", "local.var")
        G = T.alloc_buffer((2,), "float32", scope="local.fragment")
        many = [T.alloc_shared((i + 1,)) for i in range(2)]
    """)
        .launches[0]
        .allocs
    )
    assert [(b.name, b.static_shape(), str(b.type), b.scope) for b in allocs] == [
        ("S", (4, 8), "float16", "shared"), ("F", (4,), "float32", "fragment"), ("L", (3,), "int8", "local"), ("x", (1,), "int32", "var"),
        ("y", (1,), "float32", "var"), ("z", (1,), "float16", "var"), ("w", (1,), "int32", "var"), ("G", (2,), "float32", "fragment"),
        ("many", (1,), "float32", "shared"), ("many_1", (2,), "float32", "shared"),
    ]  # fmt: skip


# ---------------------------------------------------------------------------------------------- errors
def test_threads_must_be_positive():
    assert failure("@T.prim_func\ndef main():\n    with T.Kernel(4, threads=0) as bx: pass\n") == (
        "cell:3:10: value error: threads must be positive, got 0\n"
        "      with T.Kernel(4, threads=0) as bx: pass\n"
        "           ^^^^^^^^^^^^^^^^^^^^^^\n"
        "  hint: 128 is a good start"
    )
    assert "threads must be positive, got [8, -1]" in failure("@T.prim_func\ndef main():\n    with T.Kernel(4, threads=[8, -1]): pass\n")
    assert "threads has 4 dims" in failure("@T.prim_func\ndef main():\n    with T.Kernel(4, threads=(1, 2, 3, 4)): pass\n")
    assert "threads must be ints" in failure("@T.prim_func\ndef main():\n    with T.Kernel(4, threads=1.5): pass\n")


def test_launch_extents():
    assert failure("@T.prim_func\ndef main():\n    with T.Kernel(): pass\n").splitlines()[0] == (
        "cell:3:10: value error: T.Kernel takes 1 to 3 grid extents, got 0"
    )
    assert "takes 1 to 3 grid extents, got 4" in failure("@T.prim_func\ndef main():\n    with T.Kernel(1, 2, 3, 4): pass\n")
    assert "a grid extent cannot be negative: -1" in failure("@T.prim_func\ndef main():\n    with T.Kernel(-1): pass\n")
    assert failure("@T.prim_func\ndef main():\n    with T.Kernel(1, 2) as (a, b, c): pass\n") == (
        "cell:3:10: value error: T.Kernel has 2 grid extents, but 3 names after `as`\n"
        "      with T.Kernel(1, 2) as (a, b, c): pass\n"
        "           ^^^^^^^^^^^^^^\n"
        "  hint: give one name per extent"
    )


def test_a_launch_in_a_launch():
    assert refusal("with T.Kernel(2):\n    pass") == (
        "cell:4:14: language error: T.Kernel inside T.Kernel\n"
        "      with T.Kernel(2):\n"
        "           ^^^^^^^^^^^\n"
        "  hint: end the first launch before the second; launches of one kernel run in order"
    )


def test_words_outside_a_kernel():
    for word, call in {
        "T.Kernel": lambda: T.Kernel(1), "T.const": lambda: T.const("M"), "T.empty": lambda: T.empty((4,)), "T.serial": lambda: T.serial(4),
        "T.alloc_shared": lambda: T.alloc_shared((4,)), "T.Parallel": lambda: T.Parallel(4), "T.Pipelined": lambda: T.Pipelined(4),
    }.items():  # fmt: skip
        with pytest.raises(JITNoBuilderError) as caught:
            call()
        assert str(caught.value) == f"no kernel: {word} is used outside a kernel\n  hint: call it inside a @T.prim_func, or in a @jit function"


def test_allocation_outside_a_launch():
    assert failure("@T.prim_func\ndef main():\n    S = T.alloc_shared((4,))\n") == (
        "cell:3:9: language error: on-chip buffers live in a block\n"
        "      S = T.alloc_shared((4,))\n"
        "          ^^^^^^^^^^^^^^^^^^^^\n"
        "  hint: allocate inside `with T.Kernel(...)`"
    )


def test_allocation_shapes():
    assert refusal("S = T.alloc_shared((n,), 'float32')") == (
        "cell:4:13: value error: the shape of an on-chip buffer must be constant\n"
        "      S = T.alloc_shared((n,), 'float32')\n"
        "          ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^\n"
        "  hint: a run-time size cannot be allocated; allocate a tile of constant size and loop over it"
    )
    assert "a dim of an on-chip buffer must be at least 1, not 0" in refusal("S = T.alloc_shared((0,), 'float32')")
    assert "2.5 cannot be a dim" in refusal("S = T.alloc_shared((2.5,), 'float32')")
    assert "T.alloc_shared knows no scope 'disk'" in refusal("S = T.alloc_shared((2,), 'float32', 'disk')")


def test_loop_bounds():
    assert refusal("for i in T.serial(0, 4, 0):\n    B[i] = 0") == (
        "cell:4:18: value error: the step of T.serial must be a constant other than 0\n"
        "      for i in T.serial(0, 4, 0):\n"
        "               ^^^^^^^^^^^^^^^^^\n"
        "  hint: multiply the loop variable instead"
    )
    assert "num_stages of T.Pipelined must be a constant of 0 or more" in refusal("for i in T.Pipelined(4, num_stages=-1):\n    B[i] = 0")
    assert "T.Parallel needs at least one extent" in refusal("for i in T.Parallel():\n    pass")


def test_nested_parallel_with_statements_between():
    assert refusal("for i in T.Parallel(4):\n    B[i] = 0\n    for j in T.Parallel(4):\n        B[j] = 1") == (
        "cell:6:22: value error: nested T.Parallel loops with statements between them\n"
        "      for j in T.Parallel(4):\n"
        "               ^^^^^^^^^^^^^\n"
        "  hint: write one loop, `for i, j in T.Parallel(M, N)`, or make the inner one T.serial"
    )
    dependent = refusal("for i in T.Parallel(4):\n    for j in T.Parallel(i):\n        B[j] = 1")
    assert "an inner T.Parallel extent depends on the outer variable" in dependent


def test_pipelined_in_parallel():
    assert refusal("for i in T.Parallel(4):\n    for j in T.Pipelined(4):\n        B[j] = 1") == (
        "cell:5:22: value error: T.Pipelined cannot stand inside T.Parallel\n"
        "      for j in T.Pipelined(4):\n"
        "               ^^^^^^^^^^^^^^\n"
        "  hint: put the T.Parallel loop inside the T.Pipelined one"
    )


def test_tile_operations_in_parallel():
    assert refusal("for i in T.Parallel(4):\n    T.copy(A, B)").splitlines()[0] == (
        "cell:5:13: value error: T.copy works on whole tiles and cannot stand inside T.Parallel"
    )


def test_break_in_parallel_and_grid():
    assert refusal("for i in T.Parallel(4):\n    break") == (
        "cell:5:13: syntax error: `break` in T.Parallel, whose iterations are independent\n"
        "      break\n"
        "      ^^^^^\n"
        "  hint: guard the statements with `if`"
    )
    assert "`break` would leave only the innermost loop of T.grid" in refusal("for i, j in T.grid(4, 4):\n    break")


def test_break_of_a_python_loop_under_a_kernel_condition():
    assert refusal("for i in [0, 1]:\n    if n > i:\n        break") == (
        "cell:6:17: syntax error: `break` depends on a kernel value, but its loop runs while the kernel is built\n"
        "      break\n"
        "      ^^^^^\n"
        "  hint: loop with T.serial(n), so that the loop belongs to the kernel"
    )


def test_leaving_a_kernel_loop_early_in_plain_python():
    helpers = cell("""
        def first(names):
            try:
                for i in T.serial(4):
                    return i
            finally:
                pass
    """)
    assert refusal("first({})", first=helpers["first"]).splitlines()[0].endswith("syntax error: the T.serial loop was left early by Python")


def test_else_of_a_kernel_loop():
    assert refusal("for i in T.serial(4):\n    B[i] = 0\nelse:\n    B[0] = 1") == (
        "cell:7:13: syntax error: `else` of a loop of the kernel\n"
        "      B[0] = 1\n"
        "      ^^^^^^^^\n"
        "  hint: record the `break` in a T.alloc_var and test it after the loop"
    )


def test_endless_loops():
    assert refusal("while True:\n    B[0] = 1") == (
        "cell:4:15: language error: Infinite while loop detected: its condition is always true\n"
        "      while True:\n"
        "            ^^^^\n"
        "  hint: test a T.alloc_var or a buffer element that the body changes, or leave with `break`"
    )
    assert "Infinite while loop detected" in refusal("while 1 < 2:\n    x = 1")


def test_a_buffer_as_a_condition():
    assert refusal("if A:\n    pass") == (
        "cell:4:12: type error: A(64,) is a tile and cannot be a condition\n"
        "      if A:\n"
        "         ^\n"
        "  hint: test one element, such as `if buf[0] > 0`, or use T.any_of(buf) or T.all_of(buf)"
    )


def test_a_local_array_indexed_by_a_parallel_variable():
    assert refusal("L = T.alloc_local((4,), 'float32')\nfor i in T.Parallel(4):\n    B[i] = L[i]") == (
        "cell:6:20: value error: the local array L is indexed by a T.Parallel variable, but belongs to one thread\n"
        "      B[i] = L[i]\n"
        "             ^^^^\n"
        "  hint: allocate it with T.alloc_fragment or T.alloc_shared, or loop with T.serial"
    )


def test_a_fragment_in_a_loop_of_run_time_extent():
    assert refusal("F = T.alloc_fragment((4,), 'float32')\nfor i in T.Parallel(n):\n    F[i] = 0") == (
        "cell:6:13: value error: a T.Parallel loop of run-time extent indexes the fragment F\n"
        "      F[i] = 0\n"
        "      ^^^^^^^^\n"
        "  hint: loop over the whole tile and guard with `if`"
    )
