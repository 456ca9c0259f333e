"""Lazy kernels: parameters, dims, outputs, launches."""

from __future__ import annotations

import pytest
from frontend.cells import cell, failure

import tileworkbench.language as T
from tileworkbench.base.errors import TileTypeError
from tileworkbench.ir.expr import Const
from tileworkbench.ir.printer import print_kernel
from tileworkbench.ir.stmt import ScalarParam, TensorParam


def test_parameters_in_order_with_defaults_and_types():
    main = cell("""
        @T.prim_func
        def main(n: T.int32, A: T.Tensor((4, 8), T.float16), x: T.float32 = 2.5, k: int = 3, B: T.Tensor[[8], "int8"] = None):
            with T.Kernel(1): pass
    """)["main"]
    assert [type(p) for p in main.params] == [ScalarParam, TensorParam, ScalarParam, ScalarParam, TensorParam]
    assert [(p.var.type, p.default) for p in main.params if isinstance(p, ScalarParam)] == [("int32", None), ("float32", 2.5), ("int32", 3)]
    assert [(p.buffer.static_shape(), str(p.buffer.type)) for p in main.params if isinstance(p, TensorParam)] == [((4, 8), "float16"), ((8,), "int8")]
    assert repr(main) == "<T.prim_func main(n, A, x, k, B)>"


def test_dynamic_dims_in_order_of_appearance():
    main = cell("""
        m, n = T.dynamic("m, n")
        k = T.dynamic("k")
        @T.prim_func
        def main(A: T.Tensor((k, m + n), "float32"), B: T.StridedTensor((n, 4), (T.dynamic("s"), 1), "float32")):
            blocks = T.ceildiv(m, 64)
            with T.Kernel(blocks, T.ceildiv(n, 64)) as (bx, by):
                A[bx, by] = m
    """)["main"]
    assert [d.name for d in main.kernel.dims] == ["k", "m", "n", "s"]
    assert print_kernel(main.kernel).splitlines()[-2:] == [
        "  launch blocks (bx, by) in ((m + 63) // 64, (n + 63) // 64), threads (tx) in (128,):",
        "    A[bx, by] = float32(m)",
    ]


def test_outputs_from_empty():
    main = cell("""
        @T.prim_func
        def main(A: T.Tensor((4,), "float32")):
            C = T.empty((4,), "float16")
            D = T.empty(2, 3, dtype="int32")
            with T.Kernel(1): pass
            return D, C
    """)["main"]
    assert [p.is_output for p in main.params] == [False, True, True]
    assert main.outputs == (2, 1)
    assert main.returns_tuple


def test_several_launches_with_a_workspace_and_host_control_flow():
    main = cell("""
        @T.prim_func
        def main(A: T.Tensor((4,), "float32"), n: T.int32):
            W = T.alloc_global((n, 4), "float32")
            for i in range(2):
                with T.Kernel(4, threads=32) as bx:
                    W[i, bx] = A[bx]
            if n > 3:
                with T.Kernel(2, 2, 2, threads=[8, 4]) as (x, y, z):
                    A[x] = W[y, z]
            for i in T.serial(n):
                with T.Kernel(1):
                    A[i] = 1
    """)["main"]
    assert (
        print_kernel(main.kernel)
        == """kernel 'main':
  tensor A: global float32[4]
  scalar n: int32
  workspace W: global float32[int64(n), 4]
  launch blocks (bx) in (4), threads (tx) in (32,):
    W[0, bx] = A[bx]
  launch blocks (bx_1) in (4), threads (tx_1) in (32,):
    W[1, bx_1] = A[bx_1]
  if n > 3i32:
    launch blocks (x, y, z) in (2, 2, 2), threads (tx_2, ty) in (8, 4):
      A[x] = W[y, z]
  for i in serial(0, int64(n)):
    launch blocks (bx_2) in (1), threads (tx_3) in (128,):
      A[i] = 1.0f32"""
    )


def test_one_block_index_is_also_a_tuple():
    assert (
        cell("""
        @T.prim_func
        def main(A: T.Tensor((4,), "float32")):
            with T.Kernel(4) as (bx,):
                A[bx] = 1
    """)["main"]
        .kernel.launches[0]
        .block_vars[0]
        .name
        == "bx"
    )


def test_zero_sized_dims_are_allowed():
    main = cell("@T.prim_func\ndef main(A: T.Tensor((0, 4), 'float32')):\n    with T.Kernel(0) as bx:\n        A[bx, 0] = 1\n")["main"]
    assert main.kernel.launches[0].grid == (Const(0),)


def test_names_that_only_annotations_use_may_be_the_factorys():
    def factory(M, dtype):
        @T.prim_func
        def main(A: T.Tensor((M,), dtype)):
            with T.Kernel(1):
                A[0] = 1

        return main

    assert factory(3, "int8").params[0].buffer.type == "int8"


def test_spans_of_statements():
    text = "@T.prim_func\ndef main(A: T.Tensor((4,), 'float32')):\n    with T.Kernel(4) as bx:\n        A[bx] = A[0] + 1\n"
    kernel = cell(text, "<spans>")["main"].kernel
    (store,) = kernel.launches[0].body
    assert (store.span.where, store.span.text, store.span.end_col) == ("<spans>:4:9", "        A[bx] = A[0] + 1", 24)
    assert (kernel.launches[0].span.where, kernel.params[0].span.where) == ("<spans>:3:10", "<spans>:2:10")


# ---------------------------------------------------------------------------------------------- errors
def test_every_faulty_parameter_is_reported():
    assert failure("@T.prim_func\ndef main(A, B: T.Tensor((2,)), q: 3, C: T.Tensor):\n    pass\n") == (
        "cell:2:10: type error: the parameter `A` has no usable annotation: none\n"
        "      def main(A, B: T.Tensor((2,)), q: 3, C: T.Tensor):\n"
        "               ^\n"
        "  hint: write `A: T.Tensor((M, N), T.float16)` for a tensor, `A: T.int32` for a scalar\n"
        "cell:2:32: type error: the parameter `q` has no usable annotation: 3\n"
        "      def main(A, B: T.Tensor((2,)), q: 3, C: T.Tensor):\n"
        "                                     ^^^^\n"
        "  hint: write `q: T.Tensor((M, N), T.float16)` for a tensor, `q: T.int32` for a scalar\n"
        "cell:2:38: type error: the annotation of `C` has no shape\n"
        "      def main(A, B: T.Tensor((2,)), q: 3, C: T.Tensor):\n"
        "                                           ^^^^^^^^^^^\n"
        "  hint: write `C: T.Tensor((M, N), T.float16)`"
    )


def test_annotated_in_the_body_only():
    assert failure("@T.prim_func\ndef main(A):\n    A: T.Tensor((4,), 'float32')\n") == (
        "cell:2:10: type error: `A` is annotated in the body\n"
        "      def main(A):\n"
        "               ^\n"
        "  hint: in a T.prim_func, annotate it in the signature"
    )


def test_star_parameters():
    assert failure("@T.prim_func\ndef main(*args):\n    pass\n") == (
        "cell:2:1: syntax error: the kernel `main` has * parameters\n      def main(*args):\n      ^^^^^^^^^^^^^^^^\n  hint: name each parameter"
    )


def test_an_output_that_is_not_returned():
    assert failure("@T.prim_func\ndef main():\n    C = T.empty((4,), 'float32')\n    D = T.empty((4,), 'float32')\n    return D\n") == (
        "cell:3:9: value error: not all tensors allocated with T.empty are returned: C\n"
        "      C = T.empty((4,), 'float32')\n"
        "          ^^^^^^^^^^^^^^^^^^^^^^^^\n"
        "  hint: end with `return C, D`"
    )


def test_returning_something_else():
    assert failure("@T.prim_func\ndef main(A: T.Tensor((4,))):\n    return A\n").splitlines()[0] == (
        "cell:3:5: type error: a kernel returns tensors from T.empty, not <buffer A(4,) float32 global>"
    )


def test_const_belongs_to_eager_kernels():
    assert failure("@T.prim_func\ndef main():\n    M = T.const('M')\n") == (
        "cell:3:9: language error: T.const belongs to eager kernels\n"
        "      M = T.const('M')\n"
        "          ^^^^^^^^^^^^\n"
        '  hint: in a T.prim_func write M = T.dynamic("M"), outside it'
    )


def test_a_dim_of_no_tensor():
    assert failure("@T.prim_func\ndef main(A: T.Tensor((4,))):\n    m = T.dynamic('m')\n    with T.Kernel(m) as bx:\n        A[bx] = 1\n") == (
        "cell:4:10: name error: the dim `m` belongs to no tensor of this kernel\n"
        "      with T.Kernel(m) as bx:\n"
        "           ^^^^^^^^^^^\n"
        "  hint: a T.dynamic dim must appear in the shape of some tensor parameter"
    )


def test_a_dim_with_the_name_of_a_parameter():
    assert failure("n = T.dynamic('n')\n@T.prim_func\ndef main(n: T.int32, A: T.Tensor((n,))):\n    pass\n").splitlines()[0] == (
        "cell:3:22: value error: the dim `n` has the name of something else in the kernel"
    )


def test_host_code_neither_reads_nor_writes_tensors():
    assert failure("@T.prim_func\ndef main(A: T.Tensor((4,), 'int32')):\n    x = A[0]\n    with T.Kernel(A[1]): pass\n    A[2] = 1\n") == (
        "cell:3:9: language error: an element of A is read outside a launch\n"
        "      x = A[0]\n"
        "          ^^^^\n"
        "  hint: read it inside `with T.Kernel(...)`, or pass the number as a scalar parameter\n"
        "cell:4:19: language error: an element of A is read outside a launch\n"
        "      with T.Kernel(A[1]): pass\n"
        "                    ^^^^\n"
        "  hint: read it inside `with T.Kernel(...)`, or pass the number as a scalar parameter\n"
        "cell:5:5: language error: this statement works on a block and stands outside a launch\n"
        "      A[2] = 1\n"
        "      ^^^^^^^^\n"
        "  hint: put it in `with T.Kernel(...)`"
    )


def test_calling_an_uncompiled_kernel():
    main = cell("@T.prim_func\ndef main(A: T.Tensor((4,))):\n    with T.Kernel(1): pass\n")["main"]
    with pytest.raises(TileTypeError, match="`main` is a kernel that has not been compiled"):
        main(1)


def test_decorating_something_else():
    assert failure("T.prim_func(3)") == "type error: T.prim_func decorates functions, not int"


def test_annotations_that_are_wrong():
    assert failure("T.Tensor((4, 2.5), 'float32')") == "type error: 2.5 cannot be a dim\n  hint: dims are integers; use // rather than /"
    assert failure("T.Tensor((4, -1), 'float32')") == "value error: a dim cannot be negative: -1"
    assert failure("T.Tensor((4,), 'floatt')").splitlines()[0] == "type error: 'floatt' is not a dtype"
    assert failure("T.StridedTensor((4, 4), (4,), 'float32')") == "value error: T.StridedTensor has 2 dims and 1 strides"
