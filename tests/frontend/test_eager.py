"""Eager kernels: which parameters are what, where sizes are read, and the specialised kernel."""

from __future__ import annotations

import numpy as np
import pytest
from frontend.cells import cell

from tileworkbench.base.errors import TileError
from tileworkbench.frontend.eager import ConstSource, lazy_result, require_sources, signature_of, template
from tileworkbench.ir.printer import print_kernel
from tileworkbench.ir.stmt import TensorParam

GEMM = """
    def gemm(A, B, block: int = 32, dtype="float16"):
        M, N, K = T.const("M, N, K")
        A: T.Tensor((M, K), dtype)
        B: T.Tensor[[K, N], dtype]
        assert K % block == 0, "K must be a multiple of the block"
        C = T.empty((M, N), dtype)
        with T.Kernel(T.ceildiv(N, block), T.ceildiv(M, block)) as (bx, by):
            S = T.alloc_shared((block, K // block), dtype)
        return C
"""


def made(text):
    scope = cell(text)
    return next(v for v in scope.values() if callable(v) and getattr(v, "__module__", "") == "cell")


def test_signature():
    signature = signature_of(made(GEMM))
    assert (signature.names, signature.runtime, signature.constants) == (("A", "B", "block", "dtype"), ("A", "B"), ("block", "dtype"))
    assert signature.defaults == {"block": 32, "dtype": "float16"}


def test_template_and_specialisation():
    t = template(made(GEMM), {"block": 16})
    assert t.sources == {"M": (ConstSource("A", 0),), "N": (ConstSource("B", 1),), "K": (ConstSource("A", 1), ConstSource("B", 0))}
    traced = t.specialise({"M": 64, "N": 48, "K": 32})
    assert (
        print_kernel(traced.kernel)
        == """kernel 'gemm':
  tensor A: global float16[64, 32], const_dims=('M', 'K')
  tensor B: global float16[32, 48], const_dims=('K', 'N')
  output C: global float16[64, 48]
  launch blocks (bx, by) in (3, 4), threads (tx) in (128,):
    alloc S: shared float16[16, 2]
    pass"""
    )
    assert (traced.outputs, traced.returns_tuple) == ((2,), False)
    assert t.specialise({"M": 8, "N": 8, "K": 16}).kernel.params[2].buffer.static_shape() == (8, 8)


def test_annotations_in_the_signature_scalars_and_strides():
    t = template(
        made("""
        def f(n: T.int32, X: T.Tensor((4,), "float32"), Y, k, eps: T.float32 = 1e-5):
            s = T.const("s")
            N, m = T.const("N"), T.dynamic("m")
            Y: T.StridedTensor((N, m), (s, 1), "int8")
            Z = T.empty(N * 2, "int32")
            W = T.empty((N,), "int32")
            with T.Kernel(n) as b: pass
            return W, Z
    """),
        {"k": 3},
    )
    assert (t.signature.runtime, t.signature.constants) == (("n", "X", "Y", "eps"), ("k",))
    assert t.sources == {"s": (ConstSource("Y", 0, "stride"),), "N": (ConstSource("Y", 0),)}
    traced = t.specialise({"s": 100, "N": 5})
    assert [p.buffer.name if isinstance(p, TensorParam) else p.var.name for p in traced.kernel.params] == ["n", "X", "Y", "eps", "Z", "W"]
    assert (traced.outputs, traced.returns_tuple) == ((5, 4), True)
    assert traced.kernel.params[3].default == 1e-5
    assert [d.name for d in traced.kernel.dims] == ["m"]


def test_dims_computed_from_constants():
    t = template(
        made("""
        def f(A, block):
            N = T.const("N")
            rows = T.ceildiv(N, block)
            A: T.Tensor((N,), "float32")
            C = T.empty((rows,), "float32")
            with T.Kernel(rows) as b: pass
            return C
    """),
        {"block": 16},
    )
    assert t.specialise({"N": 33}).kernel.params[1].buffer.static_shape() == (3,)


def test_python_decides_by_the_constants():
    t = template(
        made("""
        def f(A):
            N = T.const("N")
            A: T.Tensor((N,), "float32")
            with T.Kernel(1) as b:
                if N > 10:
                    for i in T.serial(N):
                        A[i] = 1
                else:
                    A[0] = 2
    """),
        {},
    )
    assert "A[0] = 2.0f32" in print_kernel(t.specialise({"N": 4}).kernel)
    assert "for i in serial(0, 40)" in print_kernel(t.specialise({"N": 40}).kernel)


def test_macros_with_annotations_inside_an_eager_kernel():
    t = template(
        cell("""
        @T.macro
        def half(x, out: T.SharedBuffer((4,), "float32")):
            y: T.float32
            out[0] = x / 2
        def f(A):
            A: T.Tensor((4,), "float32")
            with T.Kernel(1) as b:
                half(A[1], A)
    """)["f"],
        {},
    )
    assert "A[0] = x / 2.0f32" in print_kernel(t.specialise({}).kernel)


def test_lazy_or_eager():
    scope = cell("""
        def lazy(n):
            @T.prim_func
            def main(A: T.Tensor((n,), "float32")):
                with T.Kernel(1) as b: pass
            return main
        def eager(A):
            N = T.const("N")
        def neither(): return 3
    """)
    assert lazy_result(scope["lazy"], 4).name == "main"
    assert lazy_result(scope["eager"], np.zeros(3)) is None
    with pytest.raises(TileError) as caught:
        lazy_result(scope["neither"])
    assert str(caught.value).partition(": ")[2] == (
        "type error: `neither` returned int 3, which is no kernel\n"
        "      def neither(): return 3\n"
        "                     ^^^^^^^^\n"
        "  hint: end with `return` and the name of the @T.prim_func, or open T.Kernel in the function itself"
    )


# ---------------------------------------------------------------------------------------------- errors
def fault(text, constants=None, values=None):
    def build():
        t = template(cell(text, "<eager>")["f"], constants or {})
        require_sources(t, values or {})
        t.specialise(values or {})

    with pytest.raises(TileError) as caught:
        build()
    return str(caught.value)


def test_a_tensor_without_annotation():
    text = fault("def f(A, n):\n    with T.Kernel(1): pass\n", {"A": np.zeros(3), "n": 1})
    assert text == (
        "<eager>:1:7: type error: the tensor parameter `A` of `f` is not annotated\n"
        "      def f(A, n):\n"
        "            ^\n"
        "  hint: add `A: T.Tensor((M, N), T.float16)` to the body, or annotate it in the signature"
    )


def test_a_const_that_no_tensor_shows():
    text = fault("def f(A):\n    N = T.const('N')\n    A: T.Tensor((N * 2,), 'float32')\n    with T.Kernel(1): pass\n")
    assert text == (
        "<eager>:2:9: value error: T.const 'N' of `f` is not directly a dim or stride of a tensor argument\n"
        "      N = T.const('N')\n"
        "          ^^^^^^^^^^^^\n"
        "  hint: use it alone as a dim of some annotation, or pass N=... when compiling"
    )


def test_a_tensor_used_before_its_annotation():
    text = fault("def f(A):\n    N = A.shape[0]\n    A: T.Tensor((N,), 'float32')\n    with T.Kernel(1): pass\n")
    assert text == (
        "<eager>:2:9: type error: `A` is used before it is annotated\n"
        "      N = A.shape[0]\n"
        "          ^^^^^^^\n"
        "  hint: write `A: T.Tensor(shape, dtype)` first"
    )


def test_a_tensor_annotated_on_another_path():
    text = fault("def f(A, n):\n    if n:\n        A: T.Tensor((4,), 'float32')\n    with T.Kernel(1): pass\n", {"n": 0})
    assert text == (
        "<eager>:1:7: type error: the parameter `A` is not annotated on this path\n"
        "      def f(A, n):\n"
        "            ^\n"
        "  hint: write `A: T.Tensor(shape, dtype)` before T.Kernel"
    )


def test_an_output_that_is_not_returned():
    text = fault("def f(A):\n    A: T.Tensor((4,), 'float32')\n    C = T.empty((4,))\n    with T.Kernel(1): pass\n")
    assert text.splitlines()[0] == "<eager>:3:9: value error: not all tensors allocated with T.empty are returned: C"


def test_empty_inside_the_launch():
    text = fault("def f(A):\n    A: T.Tensor((4,), 'float32')\n    with T.Kernel(1):\n        C = T.empty((4,))\n")
    assert text == (
        "<eager>:4:13: language error: T.empty inside T.Kernel\n"
        "      C = T.empty((4,))\n"
        "          ^^^^^^^^^^^^^\n"
        "  hint: declare outputs before the launch; inside, use T.alloc_shared or T.alloc_fragment"
    )


def test_names_that_const_cannot_take():
    text = fault("def f(A):\n    N = T.const('N*2')\n    A: T.Tensor((N,), 'float32')\n")
    assert text.splitlines()[0] == "<eager>:2:9: syntax error: T.const: 'N*2' is not a name"


def test_a_value_that_is_missing():
    t = template(cell("def f(A):\n    N = T.const('N')\n    A: T.Tensor((N,), 'float32')\n    with T.Kernel(1): pass\n", "<eager>")["f"], {})
    with pytest.raises(TileError) as caught:
        t.specialise({})
    assert str(caught.value).splitlines()[0] == "<eager>:2:9: language error: no value for T.const 'N'"
