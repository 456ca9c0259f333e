"""Layouts that the author asks for: in the program, in what the emulator counts, and in the results; what cannot be followed says why."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tileworkbench as tw
import tileworkbench.language as T
from tileworkbench.ir.stmt import Kernel, Launch
from tileworkbench.layout import make_full_bank_swizzled_layout, make_linear_layout
from tileworkbench.layout.annotated import Asked, recognised
from tileworkbench.model.placement import layout_of
from tileworkbench.transform.lay_tiles import lay_tiles


def transpose(ask: Callable[[Any], Any], dtype: str = "float32", n: int = 32, then: Callable[[Any], Any] = lambda t: None) -> Any:
    @T.prim_func
    def transposed(A: T.Tensor((2 * n, 2 * n), dtype), B: T.Tensor((2 * n, 2 * n), dtype)):  # type: ignore[valid-type]
        with T.Kernel(2, 2, threads=128) as (bx, by):
            t = T.alloc_shared((n, n), dtype)
            T.annotate_layout({t: ask(t)})
            T.copy(A[by * n, bx * n], t)
            then(t)
            for i, j in T.Parallel(n, n):
                B[bx * n + i, by * n + j] = t[j, i]

    return transposed


def laid(made: Any) -> Launch:
    kernel: Kernel = made.kernel
    return lay_tiles(kernel).launches[0]


ASKED: dict[str, tuple[Callable[[Any], Any], str, int]] = {
    "padding": (lambda t: T.Layout((32, 32), lambda i, j: i * 33 + j), "float32", 32),
    "xor": (lambda t: T.Layout((32, 32), lambda i, j: (i * 32 + j) ^ (((i * 32 + j) >> 5) & 28)), "float32", 32),
    "xor of halves": (lambda t: T.Layout((64, 64), lambda i, j: (i * 64 + j) ^ (((i * 64 + j) >> 6) & 56)), "float16", 64),
    "xor of a wide tile": (lambda t: lambda i, j: (i * 64 + j) ^ ((i // 2 % 8) * 8), "float16", 64),
    "turned": (lambda t: T.Layout((32, 32), lambda i, j: (j, i)), "float32", 32),
    "permuted rows": (lambda t: make_full_bank_swizzled_layout(t), "float32", 32),
}


@pytest.mark.parametrize("name", ASKED)
def test_tiles_lie_as_asked(name: str) -> None:
    """The layout that is reported is the one that was asked for, and costs what the rule says of it: the emulator counts the accesses themselves."""
    ask, dtype, n = ASKED[name]
    kernel = tw.compile(transpose(ask, dtype, n), target="emulate:sm_90a")
    a = (np.arange(4 * n * n) % 2000).reshape(2 * n, 2 * n).astype(dtype)
    b = np.zeros_like(a)
    kernel(a, b)
    assert np.array_equal(b, a.T)
    found = layout_of(kernel, "t").layout
    asked = ask(None)
    place = getattr(asked, "forward_fn", asked)
    if callable(place):
        offsets = np.array([[place(i, j) for j in range(n)] for i in range(n)])
        offsets = offsets[..., 0] * n + offsets[..., 1] if offsets.ndim == 3 else offsets
        assert np.array_equal((found.addresses() - found.base) * 8 // found.bits, offsets)
    counted = kernel.count(a, b).total
    tile = kernel.accesses(a, b).tile("t")
    costs = [x.wavefronts(found).times(x.times) for x in tile.accesses]
    assert sum(c.total for c in costs) == counted.shared_load_wavefronts + counted.shared_store_wavefronts
    excess = sum(c.excess for c in costs)
    assert (excess == 0) == (name in ("padding", "xor", "xor of halves")), excess
    if name in ("xor", "xor of halves"):
        assert any(x.cells * found.bits == 128 for x in tile.accesses), "neighbours in a piece still go together"
    assert kernel.sanitize(a, b).is_clean


def test_what_is_asked_for_is_understood() -> None:
    assert recognised((4, 8, 16), lambda i, j, k: i * 200 + j * 20 + k) == Asked((200, 20, 1))
    assert recognised((4, 8, 16), lambda i, j, k: ((i * 8 + j) * 16 + k) ^ ((j % 4) * 4)) == Asked((128, 16, 1), (2, 2, 2))
    assert recognised((8, 8), lambda i, j: (i, j ^ i)) == Asked((8, 1), (3, 0, 3))
    assert recognised((8, 8), lambda i, j: i * 8 + j if i < 8 else 0) == Asked((8, 1)), "a function of numbers, not of arrays"
    assert recognised((8, 8), lambda i, j: i * 8 + (j + i) % 8) == "it is neither strides nor an XOR of offsets"
    assert recognised((8, 8), lambda i, j: i - j) == "it puts elements before the tile"
    assert recognised((8, 8), lambda i, j: i * 0.5) == "its function is not one of integers"


def test_plain_rows_change_nothing() -> None:
    for ask in (make_linear_layout, lambda t: T.Layout((32, 32), lambda i, j: i * 32 + j)):
        made = transpose(ask)
        assert lay_tiles(made.kernel) is made.kernel


def test_what_cannot_be_followed_says_why() -> None:
    def remarks(made: Any) -> list[str]:
        launch = laid(made)
        assert not launch.orders and all(b.strides is None for b in launch.allocs)
        return [r.text for r in launch.remarks]

    twice = transpose(lambda t: T.Layout((32, 32), lambda i, j: i + j))
    assert remarks(twice) == ["the layout that is asked for t is not used: it puts two elements in one place"]
    printed = transpose(ASKED["xor"][0], then=lambda t: T.print(t))
    assert remarks(printed) == ["the layout that is asked for t is not used: it is printed whole"]


def product(ask_a: Callable[..., int], ask_b: Callable[..., int]) -> Any:
    @T.prim_func
    def mm(A: T.Tensor((64, 32), "float16"), B: T.Tensor((32, 64), "float16"), C: T.Tensor((64, 64), "float32")):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((64, 32), "float16")
            b = T.alloc_shared((32, 64), "float16")
            acc = T.alloc_fragment((64, 64), "float32")
            T.annotate_layout({a: T.Layout((64, 32), ask_a)})
            T.annotate_layout({b: T.Layout((32, 64), ask_b)})
            T.clear(acc)
            for ko in T.Pipelined(2, num_stages=2):
                T.copy(A[0, 0], a)
                T.copy(B[0, 0], b)
                T.gemm(a, b, acc)
            T.copy(acc, C)

    return mm


PRODUCTS: dict[str, tuple[Callable[..., int], Callable[..., int], tuple[str, ...], bool]] = {
    # what each operand asks for, the units that read them on sm_80, whether nothing collides there
    "whole pieces": (lambda i, j: i * 40 + j, lambda i, j: (i * 64 + j) ^ ((i // 2 % 8) * 8), ("ldmatrix",), False),
    "pieces torn apart": (lambda i, j: i * 33 + j, lambda i, j: (i * 64 + j) ^ (i % 8), (), False),
    "rows that units know": (
        lambda i, j: (i * 32 + j) ^ ((i // 2 % 4) * 8), lambda i, j: (i * 64 + j) ^ ((i % 8) * 8), ("cp.async", "ldmatrix"), True,
    ),
}  # fmt: skip


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("name", PRODUCTS)
def test_products_read_what_was_asked_for(name: str, arch: str) -> None:
    """By ldmatrix where 16 bytes lie together, else element by element; permuted rows that the author wrote out are those that the units know."""
    ask_a, ask_b, units, is_free = PRODUCTS[name]
    x = (np.arange(64 * 32) % 7).reshape(64, 32).astype(np.float16)
    y = (np.arange(32 * 64) % 5).reshape(32, 64).astype(np.float16)
    kernel = tw.compile(product(ask_a, ask_b), target=f"emulate:{arch}")
    c = np.zeros((64, 64), np.float32)
    kernel(x, y, c)
    assert np.array_equal(c, 2 * (x.astype(np.float32) @ y.astype(np.float32)))
    a, b = layout_of(kernel, "a"), layout_of(kernel, "b")
    for found, ask in ((a, ask_a), (b, ask_b)):
        rows, columns = found.shape
        assert np.array_equal((found.layout.addresses() - found.layout.base) // 2, [[ask(i, j) for j in range(columns)] for i in range(rows)])
    known = ("tensor map", "wgmma") if arch == "sm_90a" and is_free else units
    assert (a.units, b.units) == (known, known)
    if arch == "sm_80":
        counted = kernel.count(x, y, c).total
        assert (counted.shared_load_wavefronts == counted.shared_load_ideal) == is_free
