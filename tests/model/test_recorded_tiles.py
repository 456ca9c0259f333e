"""Recorded accesses against the emulator's own counters, line by line, and what the finder makes of them; no GPU is needed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tileworkbench as tw
import tileworkbench.language as T
from tileworkbench.kernels.gemm import program
from tileworkbench.layout.tile_layout import linear
from tileworkbench.model.placement import accesses_of
from tileworkbench.model.tile_accesses import AccessedTile
from tileworkbench.runtime.inspecting import Counted
from tileworkbench.views.wavefronts import wavefront_view


def transpose(pitch: int, dtype: str = "float32", size: int = 32) -> Any:
    @T.prim_func
    def transposed(A: T.Tensor((64, 64), dtype), B: T.Tensor((64, 64), dtype)):  # type: ignore[valid-type]
        with T.Kernel(64 // size, 64 // size, threads=128) as (bx, by):
            t = T.alloc_shared((size, pitch), dtype)
            T.copy(A[by * size, bx * size], t[:, 0:size])
            for i, j in T.Parallel(size, size):
                B[bx * size + i, by * size + j] = t[j, i]

    return transposed


def agree(tiles: tuple[AccessedTile, ...], counted: Counted) -> dict[int, tuple[int, int]]:
    """Line -> (wavefronts, ideal) of the recorded accesses, which must be the emulator's for that line and in sum."""
    found: dict[int, tuple[int, int]] = {}
    for tile in tiles:
        for a in tile.accesses:
            cost = a.wavefronts(tile.layout or tile.plain).times(a.times)
            assert a.span is not None
            total, ideal = found.get(a.span.line, (0, 0))
            found[a.span.line] = (total + cost.total, ideal + cost.ideal)
    for line, sums in found.items():
        c = counted.at(line)
        assert sums == (c.shared_load_wavefronts + c.shared_store_wavefronts, c.shared_load_ideal + c.shared_store_ideal)
    t = counted.total
    assert sum(x for x, _ in found.values()) == t.shared_load_wavefronts + t.shared_store_wavefronts
    return found


@pytest.mark.parametrize(("pitch", "excess"), [(32, 7), (33, 0)], ids=["naive", "padded"])
def test_wavefronts_of_a_transpose(pitch: int, excess: int) -> None:
    """The view's wavefronts are the emulator's: 32 lanes that read a column 4 times 4 words of it collide, a padded tile's do not."""
    kernel = tw.compile(transpose(pitch), target="emulate:sm_90a")
    a = np.arange(64 * 64, dtype=np.float32).reshape(64, 64)
    args = a, np.zeros_like(a)
    made, counted = kernel.accesses(*args), kernel.count(*args)
    agree(made.tiles, counted)
    tile = made.tile("t")
    reads = next(x for x in tile.accesses if not x.is_write)
    views = [wavefront_view(reads, tile.layout, request=i) for i in range(reads.requests)]
    assert {view.data["excess"] for view in views} == {excess}
    line = counted.at(reads.span.line)  # type: ignore[union-attr]
    assert sum(view.data["wavefronts"] for view in views) * reads.times == line.shared_load_wavefronts
    assert reads.requests * reads.times == line.shared_loads
    assert accesses_of(kernel, "t", args=args) == tile.accesses
    assert not args[1].any(), "a question changes no array"


def test_matrix_loads_and_stages() -> None:
    """ldmatrix and cp.async into swizzled stages: recorded as cells of one stage, counted as the emulator counts."""
    kernel = tw.compile(program(64, 64, 128, 64, 64, 32, 2, "float16", "float16", False), out_idx=-1, target="emulate:sm_80")
    x, y = (np.ones(shape, np.float16) for shape in ((64, 128), (128, 64)))
    made = kernel.accesses(x, y)
    agree(made.tiles, kernel.count(x, y))
    tile = made.tile("A_tile")
    assert {(a.name.split(" at ")[0], a.cells, a.is_rigid) for a in tile.accesses} == {("cp.async writes", 8, False), ("ldmatrix reads", 8, True)}
    assert tile.rows == 64, "the cells of one stage"
    found = tile.find()
    assert {c.kind for c in found.candidates} == {"none", "TMA swizzle"} and "what touches the tile takes no other" in found.searched
    assert found.best.layout.name == "64-byte swizzle" and found.best.excess == 0 < found.plain.excess


def test_what_is_not_counted_says_so() -> None:
    kernel = tw.compile(program(64, 64, 64, 64, 64, 32, 2, "float16", "float16", False), out_idx=-1, target="emulate:sm_90a")
    x = np.ones((64, 64), np.float16)
    made = kernel.accesses(x, x)
    agree(made.tiles, kernel.count(x, x))
    tile = made.tile("A_tile")
    assert tile.accesses == () and [note.split(" past")[0] for note in tile.notes] == ["the tensor copy engine moves it", "wgmma reads it"]
    assert [a.name.split(" at ")[0] for a in made.tile("C_stage").accesses] == ["stmatrix writes"]
    with pytest.raises(ValueError, match="nobody accesses A_tile"):
        tile.find()
    with pytest.raises(KeyError, match="no shared tile is called 'acc'; there are A_tile, B_tile, C_stage"):
        made.tile("acc")


def test_the_finder_judges_what_was_recorded() -> None:
    """Half precision: the recorded accesses on any other layout cost what the rule says there."""
    kernel = tw.compile(transpose(64, "float16", 64), target="emulate:sm_80")
    a = np.arange(64 * 64).astype(np.float16).reshape(64, 64)
    tile = kernel.accesses(a, np.zeros_like(a)).tile("t")
    found = tile.find()
    assert found.plain.total == sum(x.wavefronts(linear(64, 64, bits=16)).total * x.times for x in tile.accesses)
    assert found.best.excess < found.plain.excess


def test_each_kernel_has_shared_memory_of_its_own() -> None:
    """Two launches with a tile at the same bytes, one of them run three times: each tile has its own accesses."""

    @T.prim_func
    def twice(A: T.Tensor((32, 32), "float32"), B: T.Tensor((32, 32), "float32")):
        with T.Kernel(1, threads=128):
            first = T.alloc_shared((32, 32), "float32")
            T.copy(A, first)
            for i, j in T.Parallel(32, 32):
                B[i, j] = first[j, i]
        for _ in T.serial(3):
            with T.Kernel(1, threads=128):
                second = T.alloc_shared((32, 32), "float32")
                T.copy(B, second)
                T.copy(second, B)

    kernel = tw.compile(twice, target="emulate:sm_80")
    a = np.ones((32, 32), np.float32)
    made = kernel.accesses(a, a.copy())
    agree(made.tiles, kernel.count(a, a.copy()))
    assert [(t.buffer, {x.times for x in t.accesses}) for t in made.tiles] == [("first", {1}), ("second", {3})]
