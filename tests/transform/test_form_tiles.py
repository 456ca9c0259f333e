"""Which tiles get a form."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tileworkbench.language as T
from tileworkbench.ir.stmt import Kernel
from tileworkbench.layout import make_half_bank_swizzled_layout, make_linear_layout, make_swizzled_layout
from tileworkbench.transform.form_tiles import form_tiles


def kernel(k: int = 64, rows: int = 64, dtype: str = "float16", extra: Callable[[Any, Any], None] = lambda a, b: None) -> Kernel:
    """A product of a `rows` x `k` tile, after `extra` was traced with the two tiles."""
    sums = "int32" if dtype == "int8" else "float32"

    @T.prim_func
    def mm(A: T.Tensor((rows, k), dtype), B: T.Tensor((k, 64), dtype), C: T.Tensor((rows, 64), sums)):  # type: ignore[valid-type]
        with T.Kernel(1, threads=128):
            A_s = T.alloc_shared((rows, k), dtype)
            B_s = T.alloc_shared((k, 64), dtype)
            acc = T.alloc_fragment((rows, 64), sums)
            extra(A_s, B_s)
            T.copy(A, A_s)
            T.copy(B, B_s)
            T.gemm(A_s, B_s, acc, clear_accum=True)
            T.copy(acc, C)

    found: Kernel = mm.kernel
    return found


def forms(made: Kernel, arch: int = 80) -> dict[str, int]:
    return {f.buffer.name: f.row_bytes for f in form_tiles(made, arch).launches[0].forms}


def test_rows_are_as_wide_as_they_can_be() -> None:
    assert forms(kernel(64)) == {"A_s": 128, "B_s": 128}
    assert forms(kernel(32)) == {"A_s": 64, "B_s": 128}
    assert forms(kernel(48)) == {"A_s": 32, "B_s": 128}
    assert forms(kernel(32, dtype="int8")) == {"A_s": 32, "B_s": 64}
    assert forms(kernel(8), 75) == {"B_s": 128}, "rows of 16 bytes have no pieces to permute"


def test_tiles_that_no_matrix_unit_reads_keep_their_rows() -> None:
    plain = kernel(64, dtype="float32")
    assert form_tiles(plain, 80) is plain
    odd = kernel(64, rows=20)
    assert form_tiles(odd, 80) is odd


def test_the_author_has_the_last_word() -> None:
    assert forms(kernel(extra=lambda a, b: T.annotate_layout({a: make_linear_layout(a)}))) == {"B_s": 128}
    assert forms(kernel(extra=lambda a, b: T.annotate_layout({a: make_half_bank_swizzled_layout(a), b: make_swizzled_layout(b)}))) == {
        "A_s": 64,
        "B_s": 128,
    }
    assert forms(kernel(extra=lambda a, b: T.annotate_layout({b: T.Layout((64, 64), lambda i, j: (j, i))}))) == {"A_s": 128}


def test_views_and_addresses_show_rows() -> None:
    assert forms(kernel(extra=lambda a, b: T.print(b))) == {"A_s": 128}


def test_once_is_enough() -> None:
    once = form_tiles(kernel(), 80)
    assert form_tiles(once, 80) is once
