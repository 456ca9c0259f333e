"""Instructions against the fragment tables of the PTX manual, written out as formulas."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from tileworkbench.layout import atom, atom_names

LANES = range(32)


def held(tile: object) -> dict[tuple[int, int], tuple[int, int]]:
    """(thread, register) -> (row, column)."""
    owners, slots = tile.owners(), tile.slots()  # type: ignore[attr-defined]
    return {(int(owners[r, c]), int(slots[r, c])): (r, c) for r, c in itertools.product(*map(range, owners.shape))}


def test_m16n8k16_as_in_the_manual() -> None:
    mma = atom("SM80_16x8x16_F32F16F16F32_TN")
    a, b, c = held(mma.a), held(mma.b), held(mma.c)
    for lane in LANES:
        g, t = lane // 4, lane % 4
        for i in range(8):
            assert a[lane, i] == (g + (8 if i // 2 % 2 else 0), 2 * t + i % 2 + (8 if i >= 4 else 0))
        for i in range(4):
            assert b[lane, i] == (2 * t + i % 2 + (8 if i >= 2 else 0), g)
            assert c[lane, i] == (g + (8 if i >= 2 else 0), 2 * t + i % 2)


def test_tf32_m16n8k8_as_in_the_manual() -> None:
    mma = atom("SM80_16x8x8_F32TF32TF32F32_TN")
    a, b = held(mma.a), held(mma.b)
    for lane in LANES:
        g, t = lane // 4, lane % 4
        assert [a[lane, i] for i in range(4)] == [(g, t), (g + 8, t), (g, t + 4), (g + 8, t + 4)]
        assert [b[lane, i] for i in range(2)] == [(t, g), (t + 4, g)]


@pytest.mark.parametrize("n", [8, 64, 96, 256])
def test_wgmma_accumulators_as_in_the_manual(n: int) -> None:
    """d[4j + 2h + e] of warp w, lane 4g + t: row 16w + 8h + g, column 8j + 2t + e."""
    c = held(atom(f"SM90_64x{n}x16_F32BF16BF16_SS").c)
    assert len(c) == 64 * n
    for thread, j, h, e in itertools.product(range(128), range(n // 8), (0, 1), (0, 1)):
        w, g, t = thread // 32, thread % 32 // 4, thread % 4
        assert c[thread, 4 * j + 2 * h + e] == (16 * w + 8 * h + g, 8 * j + 2 * t + e)


def test_ldmatrix_hands_row_pieces_to_lanes() -> None:
    copy = atom("SM75_U32x4_LDSM_N")
    assert copy["src"].owners()[:, 0].tolist() == list(LANES), "lane i names row i"
    for (lane, register), (row, column) in held_pairs(copy["dst"]):
        assert (row, column // 2) == (8 * register + lane // 4, lane % 4)


def held_pairs(tile: object) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    owners, slots = tile.owners(), tile.slots()  # type: ignore[attr-defined]
    return [((int(owners[r, c]), int(slots[r, c])), (r, c)) for r, c in itertools.product(*map(range, owners.shape))]


def test_amx_keeps_four_bytes_of_k_together() -> None:
    mma = atom("AMX_16x16x64_S32S8S8S32")
    for k, n in itertools.product(range(64), range(16)):
        assert mma.b.at(k, n)["address"] == k // 4 * 64 + 4 * n + k % 4
    assert mma.a.bytes == mma.b.bytes == mma.c.bytes == 1024
    assert mma.b.at(5, 3) == {"address": 77, "lane": 3, "tile row": 1}


def test_every_instruction_fills_its_accumulator_once() -> None:
    names = atom_names()
    assert len(names) > 190
    for name in names:
        found = atom(name)
        for label, tile in found.operands:
            assert tile.rows * tile.columns > 0
            if tile.owner is not None and label == "C":
                assert (tile.owners() >= 0).all() and tile.is_one_to_one(), name
        assert str(found).startswith(name)


def test_shared_operands_lie_in_memory() -> None:
    mma = atom("SM90_64x64x16_F32F16F16_SS")
    assert mma.a.owner is None and mma.b.owner is None
    assert mma.b.addresses()[:, 3].tolist() == (np.arange(16) * 2 + 3 * 32).tolist(), "k runs along the rows in memory"


def test_types_in_the_name_give_the_bits() -> None:
    bits = {name: [t.bits for _, t in atom(name).operands] for name in ("SM80_16x8x8_F32TF32TF32F32_TN", "SM89_16x8x32_F32E4M3E5M2F32_TN")}
    assert list(bits.values()) == [[32, 32, 32], [8, 8, 32]]
    assert [t.bits for _, t in atom("SM90_16x8x4_C64C64C64C64_TN").operands] == [128, 128, 128]


@pytest.mark.parametrize("name", ["sm80_16x8x16_f32f16f16f32_tn", "SM80_16x8x16_F32F16F16_TN"])
def test_a_wrong_name_gets_the_nearest_ones(name: str) -> None:
    with pytest.raises(KeyError, match="did you mean SM80_16x8x16_F32F16F16F32_TN"):
        atom(name)


@pytest.mark.parametrize("name", ["SM90_64x7x16_F32F16F16_SS", "SM90_64x264x16_F32F16F16_SS", "SM90_64x64x8_F32F16F16_SS", "nothing"])
def test_a_shape_that_does_not_exist_is_refused(name: str) -> None:
    with pytest.raises(KeyError, match="no atom is called"):
        atom(name)


def test_an_operand_that_is_not_there_is_named() -> None:
    with pytest.raises(KeyError, match="has src, dst, not A"):
        _ = atom("SM75_U32x4_LDSM_N").a
