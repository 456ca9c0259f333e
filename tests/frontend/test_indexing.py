"""Elements, slices and variables of buffers."""

from __future__ import annotations

import pytest
from frontend.snippets import build, emitted, refusal

from tileworkbench.base.dtypes import DType
from tileworkbench.frontend.builder import Builder, building
from tileworkbench.frontend.values import BufferValue, Value
from tileworkbench.ir.expr import Buffer, Const, Var


@pytest.mark.parametrize(
    ("statement", "ir"),
    [
        ("V[k] = A[k, 3]", "V[k] = float32(A[k, 3])"),
        ("V[0] = F[-1, -64]", "V[0] = F[63, 0]"),
        ("V[0] = X[-1]", "V[0] = X[n - 1]"),
        ("V[0] = A[I[k], 0]", "V[0] = float32(A[int64(I[k]), 0])"),
        ("V[0] = X[k - 1]", "V[0] = X[k - 1]"),
        ("V[k] += 1", "V[k] = V[k] + 1.0f32"),
        ("V[0] = C[k, ...][2]", "V[0] = C[k, 2]"),
        ("V[0] = P[1, 2:4, 0][1, 5]", "V[0] = P[1, 3, 0, 5]"),
        ("W[0] = 2.9", "W[0] = 2i32"),
        ("x = x + V[0]", "x[0] = x[0] + V[0]"),
        ("x = 1", "x[0] = 1.0f32"),
        ("V[:] = 0", "fill V <- 0.0f32"),
        ("F[2, :] = V", "copy F[2 :+ 1, 0 :+ 64] <- V"),
        ("F[0:2] = F[2:4]", "copy F[0 :+ 2, 0 :+ 64] <- F[2 :+ 2, 0 :+ 64]"),
        ("V[0:-4] = 1", "fill V[0 :+ 60] <- 1.0f32"),
    ],
)
def test_element_and_slice(statement, ir):
    assert emitted(statement) == ir


def test_attributes_of_a_buffer():
    buffer = BufferValue(Buffer("A", (Const(4), Var("n"), Const(8)), DType("float16")))
    four, n, eight = buffer.shape
    assert (four, eight, buffer.ndim, buffer.dtype, buffer.scope(), buffer.name) == (4, 8, 3, "float16", "global", "A")
    assert isinstance(n, Value)
    assert repr(buffer.strides[0]) == "<Value int64 8 * n>" and buffer.strides[1:] == (8, 1)
    assert repr(buffer) == "<buffer A(4, n, 8) float16 global>"


def test_slices_have_a_shape():
    buffer = BufferValue(Buffer("A", (Const(64), Const(32)), DType("float16"), "shared"))
    with building(Builder("k")):
        part = buffer[3, 8:24]
        assert (part.shape, part.ndim, part.dtype, part.scope()) == ((16,), 1, "float16", "shared")
        assert repr(part) == "<a slice (1, 16) of A float16>"


def test_loads_carry_the_position_of_the_author():
    launch = build("V[0] = A[k, 3]").kernel.launches[0]
    span = launch.body[-1].body[0].value.x.span
    assert (span.line, span.col, span.end_col) == (18, 19, 26)


ERRORS = {
    "S[0, 32] = 0": """\
kernel.py:18:13: out of bounds: index 32 is outside dim 1 of S(64, 32)
      S[0, 32] = 0
      ^^^^^^^^
  hint: it holds the indices 0 to 31""",
    "V[0] = S[-65, 0]": """\
kernel.py:18:20: out of bounds: index -65 is outside dim 0 of S(64, 32)
      V[0] = S[-65, 0]
             ^^^^^^^^^
  hint: it holds the indices 0 to 63""",
    "V[0] = A[0, 0, 0]": """\
kernel.py:18:20: value error: A has 2 dims (256, 128), got 3 indices
      V[0] = A[0, 0, 0]
             ^^^^^^^^^^
  hint: give one index or slice per dim""",
    "V[0] = A[0]": """\
kernel.py:18:13: type error: a slice (1, 128) of A is a tile, not a number
      V[0] = A[0]
      ^^^^^^^^^^^
  hint: work on its elements inside `for i, j in T.Parallel(...)`, or use a tile operation""",
    "V[x] = 0": """\
kernel.py:18:13: type error: an index must be an integer, got float32
      V[x] = 0
      ^^^^
  hint: convert it with T.cast(x, "int32")""",
    "V[W] = 0": """\
kernel.py:18:13: type error: W(64,) cannot be an index
      V[W] = 0
      ^^^^
  hint: index with one of its elements, inside T.Parallel or T.serial""",
    "T.clear(V[0:64:2])": """\
kernel.py:18:21: value error: a slice of V has the step 2
      T.clear(V[0:64:2])
              ^^^^^^^^^
  hint: slices are dense; for a stride, loop over the elements""",
    "T.clear(V[8:8])": """\
kernel.py:18:21: value error: the slice [8:8] of V is empty
      T.clear(V[8:8])
              ^^^^^^
  hint: the stop must lie behind the start""",
    "T.clear(V[8:100])": """\
kernel.py:18:21: out of bounds: the slice [8:100] leaves dim 0 of V(64,)
      T.clear(V[8:100])
              ^^^^^^^^
  hint: the dim has 64 elements""",
    "T.clear(V[0:k])": """\
kernel.py:18:21: value error: the slice [0:k] of V has no constant length
      T.clear(V[0:k])
              ^^^^^^
  hint: on-chip slices have a constant length: write [start : start + 64]""",
    "V[0] = V + 1": """\
kernel.py:18:20: type error: V(64,) is a tile, not a number
      V[0] = V + 1
             ^^^^^
  hint: work on its elements inside `for i, j in T.Parallel(...)`, or use a tile operation""",
    "V[0] = 'one'": """\
kernel.py:18:13: type error: expected a number or a kernel value, got str 'one'
      V[0] = 'one'
      ^^^^^^^^^^^^
  hint: a kernel computes with scalars; index a buffer to get one""",
    "V[0] = T.exp(None)": """\
kernel.py:18:20: type error: expected a number or a kernel value, got None
      V[0] = T.exp(None)
             ^^^^^^^^^^^
  hint: a kernel computes with scalars; index a buffer to get one""",
    "if V:\n    V[0] = 1": """\
kernel.py:18:16: type error: V(64,) is a tile and cannot be a condition
      if V:
         ^
  hint: test one element, such as `if buf[0] > 0`, or use T.any_of(buf) or T.all_of(buf)""",
    "V[0] = [1, 2, 3][k]": """\
kernel.py:18:20: type error: k (int64) is known only when the kernel runs and cannot be used as a Python int
      V[0] = [1, 2, 3][k]
             ^^^^^^^^^^^^
  hint: shapes and list indices must be known when the kernel is built""",
    "V[0] = V[0] & 1": """\
kernel.py:18:20: type error: & needs integers, got float32 & float32
      V[0] = V[0] & 1
             ^^^^^^^^
  hint: to work on the bits of a float, use T.reinterpret(x, dtype) first""",
}


@pytest.mark.parametrize("statement", ERRORS)
def test_errors(statement):
    assert refusal(statement) == ERRORS[statement]
