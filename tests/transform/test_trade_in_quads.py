"""Rows that quads of threads hold are stored in pieces of 16 bytes: the same numbers, a quarter of the stores."""

# mypy: disable-error-code="no-untyped-def, valid-type, untyped-decorator"
from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import tileworkbench
import tileworkbench.language as T
from tileworkbench.frontend.prim_func import PrimFunc
from tileworkbench.runtime import toolchain
from tileworkbench.transform import cuda_lowering

pytestmark = pytest.mark.skipif(toolchain.default_compiler() is None, reason="needs a host C++ compiler")


def product(rows: int, columns: int, out: str = "float16", branch: bool = False, threads: int = 128) -> PrimFunc:
    """C = A B in blocks of 64 x 64; in a `branch` that only some blocks take, and only some threads if it asks for them."""

    @T.prim_func
    def multiply(A: T.Tensor((rows, 64), "float16"), B: T.Tensor((64, columns), "float16"), C: T.Tensor((rows, columns), out)):
        with T.Kernel(T.ceildiv(columns, 64), T.ceildiv(rows, 64), threads=threads) as (bx, by):
            a = T.alloc_shared((64, 64), "float16")
            b = T.alloc_shared((64, 64), "float16")
            c = T.alloc_fragment((64, 64), "float32")
            T.copy(A[by * 64, 0], a)
            T.copy(B[0, bx * 64], b)
            T.clear(c)
            T.gemm(a, b, c)
            if branch:
                if bx > 0:
                    T.copy(c, C[by * 64, bx * 64])
            else:
                T.copy(c, C[by * 64, bx * 64])

    result: PrimFunc = multiply
    return result


@pytest.fixture
def no_room(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """As where shared memory has no room for a result on its way."""
    monkeypatch.setattr(cuda_lowering, "send_tiles", lambda kernel, arch: kernel)
    cuda_lowering.cuda_steps.cache_clear()
    yield
    cuda_lowering.cuda_steps.cache_clear()


CASES = [
    ("sm_80", 128, 128, False, True), ("sm_80", 128, 128, True, True), ("sm_80", 128, 100, False, False), ("sm_80", 64, 132, False, False),
    ("sm_90a", 128, 128, False, True), ("sm_90a", 100, 128, False, True),
]  # fmt: skip


@pytest.mark.usefixtures("no_room")
@pytest.mark.parametrize(("arch", "rows", "columns", "branch", "is_traded"), CASES)
def test_stores_of_products(arch: str, rows: int, columns: int, branch: bool, is_traded: bool) -> None:
    """Also where rows end within a block, and in a branch of whole blocks; rows that begin anywhere, or end within a piece, stay as they are."""
    kernel = tileworkbench.compile(product(rows, columns, branch=branch), target=f"emulate:{arch}")
    assert ("twb_quad_turn" in kernel.source) == is_traded
    assert ("twb_write<8>(C" in kernel.source) == is_traded
    rng = np.random.default_rng(1)
    a, b = rng.standard_normal((rows, 64)).astype(np.float16), rng.standard_normal((64, columns)).astype(np.float16)
    c = np.full((rows, columns), -7, np.float16)
    kernel(a, b, c)
    right = a.astype(np.float64) @ b.astype(np.float64)
    right[:, : 64 * branch] = -7
    np.testing.assert_allclose(c, right, rtol=1e-3, atol=2e-2)


def test_a_quarter_of_the_stores() -> None:
    """16 stores of each of four warps write 64 x 64 numbers by pairs, 4 by pieces; numbers of 32 bits are not traded."""
    kernel = tileworkbench.compile(product(64, 64), target="emulate:sm_80")
    counted = kernel.count(np.ones((64, 64), np.float16), np.ones((64, 64), np.float16), np.zeros((64, 64), np.float16), arch="sm_80")
    assert [row.split()[1:3] for row in str(counted).splitlines() if "T.copy(c" in row] == [["16", "256"]]
    assert "twb_quad_turn" not in tileworkbench.compile(product(64, 64, out="float32"), target="emulate:sm_80").source
