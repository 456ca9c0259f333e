"""Calls that do not fit the kernel, on both targets and on the short way of repeated calls: golden/faulty_calls/*.txt."""

from __future__ import annotations

import numpy as np
import pytest
from errors.programs import TARGETS, call_fault, run

import tileworkbench as tilelang

LAZY = """
    def make(n):
        @T.prim_func
        def scale(A: T.Tensor((n, 4), "float32"), s: T.int32, B: T.Tensor((n, 4), "float32")):
            with T.Kernel(1, threads=32):
                for i, j in T.Parallel(n, 4):
                    B[i, j] = A[i, j] * s
        return scale
"""
EAGER = """
    @tilelang.jit(target=target)
    def add(A, B, s=2):
        n = T.const("n")
        A: T.Tensor((n,), "float32")
        B: T.Tensor((n,), "float32")
        C = T.empty((n,), "float32")
        with T.Kernel(1, threads=32):
            for i in T.Parallel(n):
                C[i] = A[i] + B[i] * s
        return C
"""
a, b = np.ones((32, 4), np.float32), np.zeros((32, 4), np.float32)
frozen = b.copy()
frozen.flags.writeable = False
crooked = np.zeros(32 * 16 + 1, np.uint8)[1:].view(np.float32).reshape(32, 4)
block = np.zeros(32 * 4 + 8, np.float32)

LAZY_CALLS = {
    "k(a)": lambda k: k(a),
    "k(a, 2, b, b)": lambda k: k(a, 2, b, b),
    "k(a, 2, C=b)": lambda k: k(a, 2, C=b),
    "k(a, 2, b, A=a)": lambda k: k(a, 2, b, A=a),
    "k(None, 2, b)": lambda k: k(None, 2, b),
    "k([1, 2], 2, b)": lambda k: k([1, 2], 2, b),
    "k(3, 2, b)": lambda k: k(3, 2, b),
    "k('x', 2, b)": lambda k: k("x", 2, b),
    "k(2, a, b)": lambda k: k(2, a, b),
    "k(a[0], 2, b)": lambda k: k(a[0], 2, b),
    "k(a[:3], 2, b)": lambda k: k(a[:3], 2, b),
    "k(a.T, 2, b)": lambda k: k(a.T, 2, b),
    "k(np.asfortranarray(a), 2, b)": lambda k: k(np.asfortranarray(a), 2, b),
    "k(np.repeat(a, 2, 0)[::2], 2, b)": lambda k: k(np.repeat(a, 2, 0)[::2], 2, b),
    "k(a.astype(np.float64), 2, b)": lambda k: k(a.astype(np.float64), 2, b),
    "k(a.astype(np.int32), 2, b)": lambda k: k(a.astype(np.int32), 2, b),
    "k(a.astype('>f4'), 2, b)": lambda k: k(a.astype(">f4"), 2, b),
    "k(a.astype(object), 2, b)": lambda k: k(a.astype(object), 2, b),
    "k(np.ma.masked_array(a), 2, b)": lambda k: k(np.ma.masked_array(a), 2, b),
    "k(a, 2, frozen)": lambda k: k(a, 2, frozen),
    "k(a, 2, crooked)": lambda k: k(a, 2, crooked),
    "k(a, 2.5, b)": lambda k: k(a, 2.5, b),
    "k(a, 'two', b)": lambda k: k(a, "two", b),
    "k(a, None, b)": lambda k: k(a, None, b),
    "k(a, 2**40, b)": lambda k: k(a, 2**40, b),
    "k(block[:128], 2, block[8:])": lambda k: k(block[:128].reshape(32, 4), 2, block[8:].reshape(32, 4)),
}
v = np.ones(8, np.float32)
EAGER_CALLS = {
    "add(v)": lambda f: f(v),
    "add(v, v, 2, 3)": lambda f: f(v, v, 2, 3),
    "add(v, v, q=2)": lambda f: f(v, v, q=2),
    "add(v, None)": lambda f: f(v, None),
    "add([1.0], v)": lambda f: f([1.0], v),
    "add(v, v[:4])": lambda f: f(v, v[:4]),
    "add(v.reshape(2, 4), v)": lambda f: f(v.reshape(2, 4), v),
    "add(v, v.astype(np.float64))": lambda f: f(v, v.astype(np.float64)),
    "add(v, v, n=9)": lambda f: f(v, v, n=9),
    "add(v, v, s='x')": lambda f: f(v, v, s="x"),
    "add.compile()": lambda f: f.compile(),
    "add.compile(n=2.5)": lambda f: f.compile(n=2.5),
    "add.compile(n=-1)": lambda f: f.compile(n=-1),
    "add.compile(m=3)": lambda f: f.compile(m=3),
}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("calls_before", [0, 4])
def test_calls_of_a_kernel(target, calls_before, golden):
    kernel = tilelang.compile(run(LAZY)["make"](32), target=target)
    told = []
    for text, call in LAZY_CALLS.items():
        for _ in range(calls_before):
            kernel(a, 2, b)
        told.append(f"{text}\n----\n{call_fault(call, kernel)}")
    golden("\n\n".join(told) + "\n", "kernel.txt")
    kernel(a, 3, b)
    np.testing.assert_array_equal(b, 3 * a)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("calls_before", [0, 4])
def test_calls_of_an_eager_function(target, calls_before, golden):
    add = run(EAGER, target=target)["add"]
    told = []
    for text, call in EAGER_CALLS.items():
        for _ in range(calls_before):
            add(v, v)
        told.append(f"{text}\n----\n{call_fault(call, add)}")
    golden("\n\n".join(told) + "\n", "eager.txt")
    np.testing.assert_array_equal(add(v, v), 3 * v)
    np.testing.assert_array_equal(add(v, v, s=np.float32(3)), 4 * v)


def test_a_factory_called_wrongly():
    make = run("""
        @tilelang.jit(out_idx=-1)
        def make(n, block=4):
            @T.prim_func
            def main(A: T.Tensor((n,)), B: T.Tensor((n,))):
                with T.Kernel(1): T.copy(A, B)
            return main
    """)["make"]
    assert call_fault(make) == "argument error: make: missing a required argument: 'n'\n  hint: it takes (n, block=4)"
    assert call_fault(make, 1, 2, 3) == "argument error: make: too many positional arguments\n  hint: it takes (n, block=4)"
    make(4)
    assert call_fault(make, m=4) == "argument error: make: missing a required argument: 'n'\n  hint: it takes (n, block=4)"
    assert call_fault(tilelang.jit, out_idx="B").startswith("type error: out_idx must be a number or a list of numbers, got 'B'")
    assert call_fault(tilelang.jit, pass_configs=3) == "type error: pass_configs must be a dict, got 3"
    assert call_fault(tilelang.jit, compile_flags=3) == "type error: compile_flags must be a string or a list of strings, got 3"
    assert call_fault(tilelang.jit, 3) == "type error: jit takes a function, got int"


@pytest.mark.parametrize("target", TARGETS)
def test_in_place_and_empty_arrays_are_no_faults(target):
    kernel = tilelang.compile(run(LAZY)["make"](32), target=target)
    same = a.copy()
    kernel(same, 2, same)
    np.testing.assert_array_equal(same, 2 * a)
    none = np.zeros((0, 4), np.float32)
    assert tilelang.compile(run(LAZY)["make"](0), target=target)(none, 2, none) is None
    halves = np.ones((64, 4), np.float32)
    kernel(halves[:32], 2, halves[32:])
    np.testing.assert_array_equal(halves[32:], 2 * a)


@pytest.mark.parametrize("target", TARGETS)
def test_too_many_bytes_on_chip(target):
    main = run("""
        @T.prim_func
        def main(A: T.Tensor((3,))):
            with T.Kernel(1):
                S = T.alloc_shared((64, 64), "float32")
                F = T.alloc_fragment((100000, 10000), "float32")
                T.clear(F)
                T.clear(S)
                A[0] = F[0, 0] + S[0, 0]
    """)["main"]
    assert call_fault(tilelang.compile, main, target=target) == (
        "kernel.py:5:13: out of capacity: the tiles of one block take 3814 MiB, more than the 1024 MiB of a core\n"
        '      F = T.alloc_fragment((100000, 10000), "float32")\n'
        "          ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^\n"
        "  hint: use smaller tiles; the largest is F (100000, 10000) float32 with 3814 MiB"
    )
