"""What a kernel author gets wrong in the first week, and the whole text of what he is told: golden/faulty_kernels/*.txt, one file a subject."""

from __future__ import annotations

import numpy as np
import pytest
from errors.programs import TARGETS, body_fault, fault, result, run

TILE = 'S = T.alloc_shared((16, 32), "float32")\n'

BODIES = {
    "indices": [
        "B[0, 0] = A[0, 0, 0]",
        "B[0, 0] = A[0]",
        "B[0.5, 0] = 1.0",
        "B[bx / 2, 0] = 1.0",
        "B['a', 0] = 1.0",
        "B[None, 0] = 1.0",
        "B[[0, 1], 0] = 1.0",
        "B[A, 0] = 1.0",
        "T.copy(A[0:32:2, :], B[0:16, :])",
        "T.copy(A[::-1, :], B)",
        "T.copy(A[10:5, :], B[10:5, :])",
        "T.copy(A[0:16.0, :], B)",
        TILE + "S[16, 0] = 1.0",
        TILE + "S[-17, 0] += 1.0",
        TILE + "T.copy(S[8:24, :], B[0:16, :])",
        TILE + "T.copy(S[0:bx, :], B[0:16, :])",
    ],
    "values": [
        "B[0, 0] = A",
        "B[0, 0] = A[0:4, 0]",
        "B[0, 0] = None",
        "B[0, 0] = 'x'",
        "B[0, 0] = [1, 2]",
        "B[0, 0] = 1j",
        "B[0, 0] = np.ones((64, 32))",
        "B[0, 0] = 10**400",
        "B[0, 0] = A[0, 0] + 10**400",
        "x = T.alloc_var('int8', 300)",
        "x = T.alloc_var('int64', 10**30)",
        "B[0, 0] = A[0, 0] + 'x'",
        "B[0, 0] = A[0, 0] * [1, 2]",
        "B[0, 0] = A[0, 0] * np.ones(3)",
        "B[0, 0] = np.ones(3) * A[0, 0]",
        "B[0, 0] = np.exp(A[0, 0])",
        "B[0, 0] = float(A[0, 0]).hex()",
        "B[0, 0] = A[0, 0] @ A[0, 0]",
        "B[0, 0] = A @ B",
        "B[0, 0] = A + 3",
        "B[0, 0] = A(0, 0)",
        "B[0, 0] = len(A)",
        "B[0, 0] = sum(A)",
        "B[0, 0] = A.size",
        "B[0, 0] = A[0, 0].sqrt",
        "B[0, 0] = A[0, 0] << 2",
        "B[0, 0] = bx // 0",
        "B[0, 0] = T.floormod(bx, 0)",
        "B[0, 0] = T.ceildiv(bx, 0)",
        "B[0, 0] = T.exp('a')",
        "B[0, 0] = T.max(A, B)",
        "B[0, 0] = T.infinity('int32')",
        "B[0, 0] = T.cast(A[0, 0], 'flot32')",
        "T.print(A[0, 0], msg=3)",
    ],
    "conditions": [
        "if A: pass",
        "if A[0]: pass",
        "while A: pass",
        "B[0, 0] = 1.0 if A else 2.0",
        "B[0, 0] = not A",
        "assert A",
        "B[0, 0] = A[0, 0] if A[0, 0] in (1, 2) else 0.0",
    ],
    "loops": [
        "while True: B[0, 0] = 1.0",
        "while bx >= 0: B[0, 0] = 1.0",
        "x = T.alloc_var('int32', 0)\nwhile x < 4: B[x, 0] = 5.0",
        "for i in T.serial(2.5): B[i, 0] = 1.0",
        "for i in range(A[0, 0]): B[i, 0] = 1.0",
        "for i in T.serial(0, 4, 0): B[i, 0] = 1.0",
        "for i in T.serial(0, 4, bx): B[i, 0] = 1.0",
        "for i in T.Parallel(32 / 2): B[i, 0] = 1.0",
        "for i in T.Parallel(): pass",
        "for i, j in T.Parallel(4): B[i, j] = 1.0",
        "for i in T.Parallel(4, 4): B[i, 0] = 1.0",
        "for i, j, k in T.grid(4, 4): B[i, j] = 1.0",
        "for k in T.Pipelined(4, num_stages=-1): B[k, 0] = 1.0",
        "for k in T.Pipelined(4, num_stages=2.5): B[k, 0] = 1.0",
        "for a in A: pass",
        "for i in T.serial(4): return",
        "for i in T.Parallel(4):\n    if A[i, 0] > 0: break",
        "for i in T.Parallel(4): T.copy(A, B)",
        "for i in T.Parallel(4):\n    for k in T.Pipelined(4): B[i, k] = 1.0",
        "for i in T.Parallel(4):\n    B[i, 0] = 1.0\n    for j in T.Parallel(4): B[i, j] = 1.0",
    ],
    "names": [
        "x = 0\nif bx == 0: x = 2\nB[0, 0] = x",
        "x = bx + 1\nfor i in T.serial(4): x = x + i\nB[0, 0] = x",
        "if bx == 0: x = bx + 2\nB[0, 0] = x",
        "for i in T.serial(4): y = i * 2\nB[0, 0] = y",
        "for i in T.serial(4): pass\nB[0, 0] = i",
        "if bx == 0: S = T.alloc_shared((4, 4))\nT.clear(S)",
        TILE + "for k in T.serial(2): S = T.alloc_shared((16, 32))\nT.clear(S)",
        "T.alloc_frgment((3, 3), 'float32')",
        "T.reduce_mean(A, B)",
        "T.float31",
        "A += 1",
    ],
    "statements": [
        "try: pass\nexcept ValueError: pass",
        "global q",
        "class Q: pass",
        "x = yield",
        "match bx:\n    case 0: pass",
        "if (y := bx + 1) > 0: pass",
        "del A",
        "A.shape = 3",
        "with T.Kernel(3): pass",
        "a, b = A",
    ],
    "tiles": [
        TILE + "T.copy(A, S)",
        TILE + "T.copy(A[0:16, 0:8], S)",
        "S = T.alloc_shared((3, 16, 16))\nT.copy(A[0, 0], S)",
        "T.copy(A)",
        "T.copy(A, B, foo=3)",
        "T.copy(A, 3)",
        "T.copy(A[0, 0] + 1, B)",
        "T.copy(np.ones((64, 32)), B)",
        "T.fill(B, 'x')",
        "a = T.alloc_shared((16, 8))\nc = T.alloc_fragment((16, 16))\nT.gemm(a, a, c)",
        "a = T.alloc_shared((16, 8))\nc = T.alloc_fragment((8, 8))\nT.gemm(a, a, c, transpose_B=True)",
        "a = T.alloc_shared((16, 16))\nc = T.alloc_fragment((16, 16), 'int32')\nT.gemm(a, a, c)",
        "c = T.alloc_fragment((64, 32))\nT.gemm(A, B, c)",
        "f = T.alloc_fragment((16, 32))\no = T.alloc_fragment((32,))\nT.reduce_sum(f, o, dim=1)",
        "f = T.alloc_fragment((16, 32))\no = T.alloc_fragment((16,))\nT.reduce_max(f, o, dim=2)",
        "f = T.alloc_fragment((16, 32))\no = T.alloc_fragment((16,))\nT.reduce_max(f, o, dim=1.0)",
        "f = T.alloc_fragment((16, 32))\no = T.alloc_fragment((16,))\nT.reduce_max(f, o, clear='no')",
        "f = T.alloc_fragment((16, 32))\nx = T.reduce_sum(f, dim=1)",
        "T.reduce_sum(A, B)",
        "T.atomic_add(B, 3)",
    ],
    "buffers": [
        "S = T.alloc_shared((bx, 3))",
        "S = T.alloc_shared((-1, 3))",
        "S = T.alloc_shared((0, 3))",
        "S = T.alloc_shared((2.5, 3))",
        "S = T.alloc_shared((2**63, 3))",
        "S = T.alloc_shared(4, 'floot32')",
        "S = T.alloc_shared((4, 4), scope='foo')",
        "S = T.empty((3,))",
    ],
}

LAUNCHES = [
    "T.Kernel()", "T.Kernel(-1)", "T.Kernel(64 / 32)", "T.Kernel('a')", "T.Kernel(1, 1, 1, 1)", "T.Kernel(2**31, 2**31)", "T.Kernel(2**63)",
    "T.Kernel(1, threads=0)", "T.Kernel(1, threads=-1)", "T.Kernel(1, threads='x')", "T.Kernel(1, thread=32)", "T.Kernel(2) as (bx, by)",
    "T.Kernel(A)",
]  # fmt: skip

PARAMETERS = [
    "A", "A: T.Tensor", "A: str", "*A: T.Tensor((3,))", 'A: T.Tensor((3,), "floot32")', "A: T.Tensor((2.5,))", "A: T.Tensor((-1,))",
    "A: T.Tensor((2**63,))", "A: T.Tensor((2**40, 2**30))", "A: T.StridedTensor((3,))", "A: T.StridedTensor((3, 3), (1,))", "A: T.Tensr((3,))",
]  # fmt: skip


@pytest.mark.parametrize("subject", BODIES)
def test_bodies(subject, golden):
    golden("\n\n".join(f"{body}\n----\n{body_fault(body)}" for body in BODIES[subject]) + "\n", f"{subject}.txt")


def test_launches(golden):
    heads = [f'@T.prim_func\ndef main(A: T.Tensor((64, 32), "float32")):\n    with {launch}:\n        A[0, 0] = 1.0\n' for launch in LAUNCHES]
    golden("\n\n".join(f"{launch}\n----\n{fault(head)}" for launch, head in zip(LAUNCHES, heads, strict=True)) + "\n", "launches.txt")


def test_parameters(golden):
    heads = [f"@T.prim_func\ndef main({p}):\n    with T.Kernel(1): pass\n" for p in PARAMETERS]
    golden("\n\n".join(f"{p}\n----\n{fault(head)}" for p, head in zip(PARAMETERS, heads, strict=True)) + "\n", "parameters.txt")


FUNCTIONS = {
    "no launch": "@T.prim_func\ndef main(A: T.Tensor((3,))):\n    pass\n",
    "an output that is never written": """
        @tilelang.jit
        def f(A):
            A: T.Tensor((4,), "float32")
            C = T.empty((4,), "float32")
            with T.Kernel(1):
                T.copy(A, A)
            return C
        f(np.ones(4, np.float32))
    """,
    "an output that is not returned": """
        @tilelang.jit
        def f(A):
            A: T.Tensor((4,), "float32")
            C = T.empty((4,), "float32")
            with T.Kernel(1):
                T.copy(A, C)
        f(np.ones(4, np.float32))
    """,
    "a number returned": """
        @tilelang.jit
        def f(A):
            A: T.Tensor((4,), "float32")
            with T.Kernel(1):
                A[0] = 1.0
            return 5
        f(np.ones(4, np.float32))
    """,
    "a factory without return": """
        @tilelang.jit
        def f(n):
            @T.prim_func
            def main(A: T.Tensor((n,))):
                with T.Kernel(1): A[0] = 1.0
        f(3)
    """,
    "a size that no tensor shows": """
        @tilelang.jit
        def f(A):
            n, m = T.const("n, m")
            A: T.Tensor((n * 2,), "float32")
            with T.Kernel(1): A[0] = 1.0
        f(np.ones(4, np.float32))
    """,
    "a tensor without annotation": """
        @tilelang.jit
        def f(A, B):
            A: T.Tensor((4,), "float32")
            with T.Kernel(1): T.copy(A, B)
        f(np.ones(4, np.float32), np.ones(4, np.float32))
    """,
    "a decorator in between": """
        import functools
        def timed(f):
            @functools.wraps(f)
            def call(*a): return f(*a)
            return call
        @tilelang.jit
        @timed
        def f(A):
            A: T.Tensor((4,), "float32")
            with T.Kernel(1): A[0] = 1.0
        f(np.ones(4, np.float32))
    """,
    "an endless macro": """
        @T.macro
        def again(n, A):
            A[0] = n
            again(n + 1, A)
        @T.prim_func
        def main(A: T.Tensor((3,))):
            with T.Kernel(1):
                again(0, A)
    """,
    "a fault in a macro": """
        @T.macro
        def move(a, b):
            T.copy(a, b[0:3])
        @T.prim_func
        def main(A: T.Tensor((4,))):
            with T.Kernel(1):
                move(A, A)
    """,
    "a lambda": "tilelang.jit(lambda A: T.copy(A, A))(np.ones(3))",
    "an async kernel": "@T.prim_func\nasync def main(A: T.Tensor((3,))):\n    pass\n",
    "a word outside": "T.copy(1, 2)",
    "dims of floats": 'T.dynamic("m", "float32")',
    "out_idx and T.Kernel": """
        @tilelang.jit(out_idx=-1)
        def f(A):
            A: T.Tensor((4,), "float32")
            with T.Kernel(1): A[0] = 1.0
        f(np.ones(4, np.float32))
    """,
}


def test_functions(golden):
    golden("\n\n".join(f"{name}\n----\n{fault(text)}" for name, text in FUNCTIONS.items()) + "\n", "functions.txt")


# ---------------------------------------------------------------------------------------------- what is no fault
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("for i, j in T.Parallel(100, 32): B[i, j] = A[i + 30, j]", {"A": slice(0, 34)}),
        ("for i in T.Parallel(10): B[i - 5, 0] = A[i - 7, 0]", None),
        ("T.copy(A[60:70, :], B[60:70, :])", {"A": slice(60, 64)}),
    ],
)
def test_global_accesses_are_guarded_at_both_ends(target, body, expected):
    b = result(body, target)
    wanted = np.zeros((64, 32), np.float32)
    if expected:
        wanted[expected["A"]] = 1
    else:  # rows 0 to 4 are written, from rows -2 to 2: what lies before the array reads as 0
        wanted[2:5, 0] = 1
    np.testing.assert_array_equal(b, wanted)


@pytest.mark.parametrize("target", TARGETS)
def test_accesses_outside_a_tile_touch_nothing(target):
    body = """
        S = T.alloc_shared((16, 32), "float32")
        R = T.alloc_shared((16, 32), "float32")
        T.clear(S); T.clear(R)
        for i in T.serial(40):
            S[i - 12, 0] = 1.0
        T.copy(S, B[0:16, :])
        T.copy(R, B[16:32, :])
    """
    wanted = np.zeros((64, 32), np.float32)
    wanted[:16, 0] = 1
    np.testing.assert_array_equal(result(body, target), wanted)


@pytest.mark.parametrize("target", TARGETS)
def test_an_integer_division_by_zero_at_run_time_gives_zero(target):
    b = result("B[0, 0] = 7 + T.cast(A[0, 0], 'int32') // T.cast(A[0, 0] - 1, 'int32')", target)
    assert b[0, 0] == 7


def test_a_fault_leaves_everything_usable():
    names = run("""
        @tilelang.jit
        def f(A, wrong=False):
            A: T.Tensor((4,), "float32")
            C = T.empty((4,), "float32")
            with T.Kernel(1):
                if wrong: T.copy(A, 3)
                for i in T.Parallel(4): C[i] = A[i] + 1
            return C
    """)
    a = np.ones(4, np.float32)
    for _ in range(2):
        with pytest.raises(TypeError):
            names["f"](a, True)
        assert names["f"](a).tolist() == [2] * 4
    assert body_fault("T.copy(A, 3)").startswith("kernel.py:4:9: type error: T.copy needs a buffer")
