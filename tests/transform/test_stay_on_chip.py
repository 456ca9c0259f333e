"""Blocks that stay though their work differs: two of them at a time, which together do the same as any other two (sm_90a)."""

# mypy: disable-error-code="no-untyped-def, valid-type, untyped-decorator"
from __future__ import annotations

import numpy as np
import pytest

import tileworkbench
import tileworkbench.language as T
from tileworkbench.frontend.prim_func import PrimFunc
from tileworkbench.ir.node import walk
from tileworkbench.ir.stmt import For
from tileworkbench.runtime import toolchain
from tileworkbench.transform import stay_on_chip
from tileworkbench.transform.cuda_lowering import cuda_steps

pytestmark = pytest.mark.skipif(toolchain.default_compiler() is None, reason="needs a host C++ compiler")
TILE, DEPTH = 64, 32


def triangle(rows: int, planes: int, known: bool = True, threads: int = 256, cluster: int = 1) -> PrimFunc:
    """C[p, i] = the first (i + 1) tiles along k of A[p, i] B; not `known`: as many as N says."""

    @T.prim_func
    def product(
        A: T.Tensor((planes, rows * 2 * TILE, rows * DEPTH), "float16"), B: T.Tensor((rows * DEPTH, TILE), "float16"), N: T.Tensor((rows,), "int32"),
        C: T.Tensor((planes, rows * 2 * TILE, TILE), "float32"),
    ):  # fmt: skip
        with T.Kernel(planes, rows, threads=threads, cluster_dims=(1, cluster, 1)) as (p, i):
            a = T.alloc_shared((2 * TILE, DEPTH), "float16")
            b = T.alloc_shared((DEPTH, TILE), "float16")
            acc = T.alloc_fragment((2 * TILE, TILE), "float32")
            T.clear(acc)
            for k in T.Pipelined(i + 1 if known else N[i], num_stages=2):
                T.copy(A[p, i * 2 * TILE, k * DEPTH], a)
                T.copy(B[k * DEPTH, 0], b)
                T.gemm(a, b, acc)
            T.copy(acc, C[p, i * 2 * TILE, 0])

    result: PrimFunc = product
    return result


def kinds(program: PrimFunc) -> list[str]:
    kernel = program.kernel
    for step in cuda_steps(90):
        kernel = step.run(kernel)
        if step.name == "specialise_warps":
            break
    return sorted({n.kind for n in walk(kernel) if isinstance(n, For) and n.kind in ("blocks", "pair")})


@pytest.mark.parametrize(("rows", "planes"), [(4, 3), (5, 2), (5, 1), (2, 5)])
def test_pairs_of_blocks_do_the_whole_grid(rows: int, planes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """An odd number of rows leaves one in the middle alone; four multiprocessors of the emulator do more pairs than that, or fewer."""
    monkeypatch.setattr(stay_on_chip, "FEWEST", 4)
    monkeypatch.setattr(stay_on_chip, "MULTIPROCESSORS", 1)
    program = triangle(rows, planes)
    assert kinds(program) == ["blocks", "pair"]
    rng = np.random.default_rng(rows)
    a, b = (
        rng.standard_normal((planes, rows * 2 * TILE, rows * DEPTH)).astype(np.float16),
        rng.standard_normal((rows * DEPTH, TILE)).astype(np.float16),
    )
    n, c = np.arange(1, rows + 1, dtype=np.int32), np.full((planes, rows * 2 * TILE, TILE), -7, np.float32)
    kernel = tileworkbench.compile(program, target="emulate:sm_90a")
    kernel(a, b, n, c)
    seen = a.astype(np.float64) * (np.arange(rows * DEPTH) // DEPTH <= np.arange(rows * 2 * TILE)[:, None] // (2 * TILE))
    np.testing.assert_allclose(c, seen @ b.astype(np.float64), atol=1e-3)
    found = kernel.sanitize(a, b, n, c, arch="sm_90a")
    assert found.is_clean, str(found)
    assert "twb_tma_store_3d" in kernel.source.partition("thread == 288")[2], "a thread of its own goes through the pairs and stores"


def test_which_blocks_make_pairs() -> None:
    """512 blocks and more that fill rounds of 132 multiprocessors, whose work no array decides, and not much of it."""
    assert kinds(triangle(32, 64)) == ["blocks", "pair"]
    assert kinds(triangle(32, 64, known=False)) == []
    assert kinds(triangle(32, 64, cluster=2)) == []
    assert kinds(triangle(32, 8)) == []  # 256 blocks
    assert kinds(triangle(32, 34)) == []  # 544 pairs: five rounds for little more than four
    assert kinds(triangle(128, 16)) == []  # 1024 pairs fill eight rounds but for 3 %, which is two of 64 turns of a block


@pytest.mark.parametrize(("multiprocessors", "is_shifted"), [(4, True), (3, False)])
def test_pairs_that_differ_are_counted_on_from_row_to_row(multiprocessors: int, is_shifted: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of four pairs, four multiprocessors would always do the same one; three come to another each time by themselves."""
    monkeypatch.setattr(stay_on_chip, "FEWEST", 4)
    monkeypatch.setattr(stay_on_chip, "MULTIPROCESSORS", multiprocessors)
    rows, planes, most = 8, 3, 13

    @T.prim_func
    def sums(
        A: T.Tensor((planes, rows * 128, most * DEPTH), "float16"), B: T.Tensor((most * DEPTH, TILE), "float16"),
        C: T.Tensor((planes, rows * 128, TILE), "float32"),
    ):  # fmt: skip
        with T.Kernel(planes, rows, threads=256) as (p, i):
            a = T.alloc_shared((128, DEPTH), "float16")
            b = T.alloc_shared((DEPTH, TILE), "float16")
            acc = T.alloc_fragment((128, TILE), "float32")
            T.clear(acc)
            for k in T.Pipelined(T.ceildiv(128 * (i + 1), 80), num_stages=2):
                T.copy(A[p, i * 128, k * DEPTH], a)
                T.copy(B[k * DEPTH, 0], b)
                T.gemm(a, b, acc)
            T.copy(acc, C[p, i * 128, 0])

    kernel = tileworkbench.compile(sums, target="emulate:sm_90a")
    assert ("pair = " in kernel.source) == is_shifted
    rng = np.random.default_rng(1)
    a, b = rng.standard_normal((planes, rows * 128, most * DEPTH)).astype(np.float16), rng.standard_normal((most * DEPTH, TILE)).astype(np.float16)
    c = np.full((planes, rows * 128, TILE), -7, np.float32)
    kernel(a, b, c)
    steps = -(-128 * (np.arange(rows * 128) // 128 + 1) // 80)
    seen = a.astype(np.float64) * (np.arange(most * DEPTH) // DEPTH < steps[:, None])
    np.testing.assert_allclose(c, seen @ b.astype(np.float64), atol=1e-3)
