"""Accesses of a kernel's own tiles: from its copies, its products and its parallel loops."""

from __future__ import annotations

import numpy as np
import pytest

import tileworkbench as tw
import tileworkbench.language as T
from tileworkbench.kernels import attention, gemm
from tileworkbench.model.tile_accesses import global_tiles, program_of, shared_tile, shared_tiles


def product(dtype: str = "float16") -> object:
    return gemm.program(256, 384, 512, 128, 64, 32, 2, dtype, "float32", False)


def test_a_product_has_its_copies_and_reads() -> None:
    a, b = shared_tiles(product())
    assert (a.buffer, a.rows, a.columns, a.bits) == ("A_tile", 128, 32, 16)
    assert (b.buffer, b.rows, b.columns, b.bits) == ("B_tile", 32, 64, 16)
    for tile in (a, b):
        assert [(x.name[:6], x.times, x.is_write) for x in tile.accesses] == [("T.copy", 16, True), ("T.gemm", 16, False)]
        assert all(x.span is not None and "tile_product.py" in x.span.where for x in tile.accesses)
        assert tile.notes == ()
    # a row of A is 64 bytes: eight of them span 512 bytes and meet each bank twice as often as there are phases of four
    read = a.accesses[1].wavefronts(a.plain)
    assert (read.total, read.ideal) == (8 * 2 * 4 * 4, 8 * 2 * 4)
    assert a.find().best.layout.name == "64-byte swizzle" and b.find().best.excess == 0


def test_wide_operands_are_read_by_lanes() -> None:
    a, b = shared_tiles(product("float32"))
    assert "lane 4 g + t" in a.accesses[1].why and "lane 4 g + t" in b.accesses[1].why
    # k along the rows of A: lanes g of 8 rows 128 bytes apart, t neighbours: 8 words of each of 4 banks
    assert a.accesses[1].first().wavefronts(a.plain).total == 8


def test_loops_of_attention_are_counted_for_the_first_block() -> None:
    """The walk ends at the diagonal; the first block has the longest one, 4 key blocks."""
    tiles = {t.buffer: t for t in shared_tiles(attention.program(1, 2, 256, 64, True, 64, 64, "float16"))}
    assert [a.times for a in tiles["q"].accesses] == [1, 4] and [a.times for a in tiles["k"].accesses] == [4, 4]
    assert "trans" in tiles["v"].accesses[1].why and "trans" not in tiles["k"].accesses[1].why


@T.prim_func
def transpose(A: T.Tensor((256, 256), "float32"), B: T.Tensor((256, 256), "float32")):
    with T.Kernel(8, 8, threads=128) as (bx, by):
        t = T.alloc_shared((32, 32), "float32")
        T.copy(A[by * 32, bx * 32], t)
        for i, j in T.Parallel(32, 32):
            B[bx * 32 + i, by * 32 + j] = t[j, i]


def test_a_parallel_loop_across_the_grain() -> None:
    tile = shared_tile(transpose, "t")
    assert [a.name for a in tile.accesses] == ["T.copy writes", "parallel reads"]
    read = tile.accesses[1]
    assert read.requests == 32 and read.cells == 1
    assert read.wavefronts(tile.plain).excess == 32 * 31
    found = tile.find()
    assert found.best.excess == 0 and found.of_kind("padding").layout.name == "padded by 1"


@T.prim_func
def scale(A: T.Tensor((64, 128), "float32"), B: T.Tensor((64, 128), "float32"), at: T.Tensor((64,), "int32")):
    with T.Kernel(1, threads=64) as bx:
        t = T.alloc_shared((64, 128), "float32")
        row = T.alloc_shared((64,), "float32")
        T.copy(A, t)
        for i in T.serial(3):
            for r, c in T.Parallel(64, 128):
                t[r, c] = t[r, c] * 2.0 + row[r]
        for r in T.Parallel(64):
            row[r] = t[at[r], 0]
        T.copy(t, B)


def test_a_loop_along_the_grain_takes_vectors() -> None:
    tile = shared_tile(scale, "t")
    loops = [a for a in tile.accesses if a.name.startswith("parallel")]
    assert [(a.is_write, a.cells, a.times) for a in loops] == [(False, 4, 3), (True, 4, 3)]
    assert sum(a.wavefronts(tile.plain).excess for a in tile.accesses) == 0
    assert any("depends on data" in n for n in tile.notes), "t[at[r], 0] cannot be followed"
    row = shared_tile(scale, "row")
    assert (row.rows, row.columns) == (1, 64)
    assert [a.cells for a in row.accesses] == [1, 1]


def test_global_requests_are_counted_in_sectors() -> None:
    """`transpose` writes B in rows of one block: 32 lanes write 128 bytes in a row; reading at[] is left out."""
    found = {t.buffer: t for t in global_tiles(transpose)}
    a, b = found["A"], found["B"]
    (_, read), (_, write) = a.requests[0], b.requests[0]
    assert (read.touched, read.ideal, read.wasted) == (128, 128, 0)
    assert (write.touched, write.ideal, write.wasted) == (128, 128, 0)
    assert "sectors" in str(a)
    with pytest.raises(ValueError, match="has no banks"):
        a.find()


@T.prim_func
def by_columns(A: T.Tensor((256, 256), "float32"), B: T.Tensor((256, 256), "float32")):
    with T.Kernel(8, 8, threads=128) as (bx, by):
        for i, j in T.Parallel(32, 32):
            B[bx * 32 + j, by * 32 + i] = A[by * 32 + i, bx * 32 + j]


def test_uncoalesced_writes_waste_sectors() -> None:
    found = {t.buffer: t for t in global_tiles(by_columns)}
    write = found["B"].requests[0][1]
    assert (write.touched, write.ideal) == (1024, 128) and write.wasted == 1024 * 28
    assert found["A"].requests[0][1].wasted == 0


def test_compiled_kernels_and_programs_are_one() -> None:
    kernel = tw.compile(transpose)
    assert shared_tiles(kernel) == shared_tiles(transpose) == shared_tiles(program_of(kernel))
    with pytest.raises(TypeError, match="needs a kernel"):
        program_of(np.zeros(3))
    with pytest.raises(KeyError, match="no shared tile is called 'x'; there are t"):
        shared_tile(transpose, "x")


@T.prim_func
def annotated(A: T.Tensor((256, 256), "float32"), B: T.Tensor((256, 256), "float32")):
    with T.Kernel(8, 8, threads=128) as (bx, by):
        t = T.alloc_shared((32, 32), "float32")
        T.annotate_layout({t: T.Layout((32, 32), lambda i, j: (i * 32 + j) ^ (((i * 32 + j) >> 5) & 31))})
        T.copy(A[by * 32, bx * 32], t)
        for i, j in T.Parallel(32, 32):
            B[bx * 32 + i, by * 32 + j] = t[j, i]


def test_the_line_that_the_finder_writes_can_be_pasted() -> None:
    """The kernel above holds the finder's own line; it compiles and gives the same numbers."""
    assert (
        shared_tile(transpose, "t").find().annotation
        == "T.annotate_layout({t: T.Layout((32, 32), lambda i, j: (i * 32 + j) ^ (((i * 32 + j) >> 5) & 31))})"
    )
    a = np.random.default_rng(0).standard_normal((256, 256)).astype("float32")
    b = np.zeros_like(a)
    tw.compile(annotated)(a, b)
    assert np.array_equal(b, a.T)
