"""Fragments against the hardware's tables, against counting by hand, and against themselves."""

from __future__ import annotations

import numpy as np
import pytest

from tileworkbench.layout import atom
from tileworkbench.layout.fragments import Fragment, flat, mma_a, mma_c, own_registers, wgmma_a, wgmma_c


@pytest.mark.parametrize(
    ("shape", "threads", "vector"),
    [((64,), 128, 1), ((100,), 128, 1), ((1000,), 128, 4), ((16, 100), 128, 4),
     ((3, 5, 7), 32, 1), ((128, 64), 128, 8), ((1, 1), 32, 1), ((7, 33), 96, 2)],
)  # fmt: skip
def test_flat_holds_every_cell_once(shape: tuple[int, ...], threads: int, vector: int) -> None:
    fragment = flat(shape, threads, vector)
    assert fragment.is_whole
    cells = fragment.cells()
    assert int((cells[0] >= 0).sum()) == int(np.prod(shape)) * fragment.copies
    owners = fragment.owners()
    assert {len(v) for v in owners.values()} == {fragment.copies}
    register = fragment.register_of()
    for at, held in owners.items():
        assert all(tuple(cells[:, t, register[at]]) == at for t in held)


def test_flat_vectors_are_neighbours() -> None:
    cells = flat((16, 96), 128, 4).cells()
    for first in range(0, cells.shape[2], 4):
        run = cells[:, :, first : first + 4]
        live = run[0, :, 0] >= 0
        assert np.all(run[1, live, 1:] - run[1, live, :1] == np.arange(1, 4))


@pytest.mark.parametrize(
    ("made", "name", "operand"),
    [
        (mma_c(1, 1, 16, 8), "SM80_16x8x16_F32F16F16F32_TN", "C"),
        (mma_a(1, 1, 16, 16), "SM80_16x8x16_F32F16F16F32_TN", "A"),
        (mma_a(1, 1, 16, 8, bits=32), "SM80_16x8x8_F32TF32TF32F32_TN", "A"),
        (mma_a(1, 1, 16, 32, bits=8), "SM80_16x8x32_S32S8S8S32_TN", "A"),
        (wgmma_c(1, 64, 96), "SM90_64x96x16_F32BF16BF16_SS", "C"),
        (wgmma_c(1, 64, 256), "SM90_64x256x16_F32BF16BF16_SS", "C"),
    ],
)
def test_hardware_agrees(made: Fragment, name: str, operand: str) -> None:
    table = atom(name)[operand]
    owners, slots = table.owners(), table.slots()
    register = made.register_of()
    for at, held in made.owners().items():
        assert held.tolist() == [int(owners[at])]
        assert int(register[at]) == int(slots[at])


def test_warps_share_a_tile() -> None:
    fragment = mma_c(2, 2, 64, 48)
    assert (fragment.threads, fragment.registers) == (128, 64 * 48 // 128)
    assert fragment.is_whole
    assert {len(v) for v in fragment.owners().values()} == {1}
    assert fragment.owners()[40, 30].tolist()[0] // 32 == 3  # the second warp in both directions
    copies = mma_a(2, 2, 64, 32)
    assert copies.copies == 2
    assert [t // 32 for t in copies.owners()[40, 30].tolist()] == [1, 3]


def test_share_that_is_no_multiple_is_refused() -> None:
    with pytest.raises(ValueError, match="share of 12 is not a multiple of 8"):
        mma_c(1, 2, 16, 24)


@pytest.mark.parametrize("tile", [mma_c(2, 2, 64, 64), wgmma_c(2, 128, 64), flat((16, 100), 128, 4), flat((5, 9), 32)])
def test_rows_of_a_tile(tile: Fragment) -> None:
    rows = tile.drop(1)
    assert rows.is_whole
    for row, held in rows.owners().items():
        expected = {t for (i, _), ts in tile.owners().items() if (i,) == row for t in ts.tolist()}
        assert set(held.tolist()) == expected
    rows.register_of()


@pytest.mark.parametrize(("groups", "m"), [(1, 64), (1, 128), (2, 128), (2, 256)])
def test_the_accumulator_of_groups_is_their_next_left_operand(groups: int, m: int) -> None:
    scores, operand = wgmma_c(groups, m, 64), wgmma_a(groups, m, 64)
    assert operand.is_whole
    registers = own_registers(operand, scores, operand.cells())
    assert registers is not None
    assert sorted(registers.tolist()) == list(range(scores.registers))


def test_what_a_thread_may_read_of_its_own() -> None:
    scores, rows = mma_c(4, 1, 64, 32), mma_c(4, 1, 64, 32).drop(1)
    cells = scores.cells()
    registers = own_registers(scores, rows, cells[:1])
    assert registers is not None
    assert sorted(set(registers.tolist())) == [0, 1]  # two rows a thread
    assert own_registers(scores, rows, (cells[:1] + 1) % 64) is None  # the next row belongs to another thread
    operand = mma_a(4, 1, 64, 32)
    narrowed = own_registers(operand, scores, operand.cells())
    assert narrowed is not None  # an accumulator becomes the left operand of the next product in the registers where it is
    assert sorted(narrowed.tolist()) == list(range(scores.registers))
