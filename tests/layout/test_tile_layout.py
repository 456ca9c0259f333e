"""Tiles in memory and in registers, against formulas written out here."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from tileworkbench.layout import Layout, Xor, fragment, linear, padded, spread, swizzled, xored
from tileworkbench.layout.tile_layout import SPANS, vector_of


def test_linear_and_padded_count_bytes() -> None:
    assert linear(3, 5, bits=32, base=64).addresses().tolist() == [[64 + 4 * (r * 5 + c) for c in range(5)] for r in range(3)]
    tile = padded(3, 5, bits=16, pad=3)
    assert tile.addresses()[2, 1] == 2 * (2 * 8 + 1)
    assert linear(3, 5, bits=32).bytes == 60 and tile.bytes == 2 * (2 * 8 + 5)
    assert linear(4, 8, bits=4).addresses()[0].tolist() == [0, 0, 1, 1, 2, 2, 3, 3]


@pytest.mark.parametrize(("span", "mask"), [(128, 0x70), (64, 0x30), (32, 0x10)])
@pytest.mark.parametrize("bits", [8, 16, 32])
def test_swizzles_are_the_ones_of_tma(span: int, mask: int, bits: int) -> None:
    """Chunks one span wide, one after the other, and address bits 7-9 XORed into bits 4-6: the rule of the PTX manual."""
    rows, size = 24, bits // 8
    columns = 3 * span // size
    found = swizzled(rows, columns, bits=bits, span=span).addresses()
    for r, c in itertools.product(range(rows), range(columns)):
        chunk, inside = divmod(c * size, span)
        plain = chunk * rows * span + r * span + inside
        assert found[r, c] == plain ^ ((plain >> 3) & mask)


def test_the_widest_span_that_fits_is_taken() -> None:
    names = [swizzled(8, columns, bits=16).name for columns in (64, 32, 16, 192)]
    assert names == ["128-byte swizzle", "64-byte swizzle", "32-byte swizzle", "128-byte swizzle"]
    with pytest.raises(ValueError, match="rows of whole spans"):
        swizzled(8, 12, bits=16)
    with pytest.raises(ValueError, match="whole spans"):
        swizzled(8, 32, bits=16, span=128)


def test_no_swizzle_loses_a_cell() -> None:
    """Every XOR on every small power-of-two tile is one to one and needs no more than the next multiple of its block."""
    for rows, columns, bits in itertools.product((4, 8, 16), (8, 16, 32), (16, 32)):
        for count, base, shift in itertools.product((1, 2, 3), (2, 3, 4), (3, 4)):
            tile = xored(rows, columns, Xor(count, base, shift), bits=bits)
            assert tile.is_one_to_one(), tile
    for span in SPANS:
        assert swizzled(16, 128, bits=16, span=span).is_one_to_one()
    assert not fragment(2, 2, Layout((2, 2), (1, 0)), bits=32).is_one_to_one()


def test_an_xor_must_not_tear_an_element() -> None:
    with pytest.raises(ValueError, match="tears elements of 32 bits apart"):
        xored(8, 8, Xor(2, 1, 3), bits=32)


def test_a_fragment_names_its_first_holder() -> None:
    """Thread 0 and thread 1 hold the same two cells."""
    tile = fragment(2, 1, Layout((2, 2), (0, 1)), bits=32)
    assert tile.owners().tolist() == [[0], [0]] and tile.slots().tolist() == [[0], [1]] and tile.holders == 1
    rows_first = fragment(2, 3, Layout((6, 1), (1, 0)), bits=32, by_rows=True)
    assert rows_first.owners().tolist() == [[0, 1, 2], [3, 4, 5]]
    assert fragment(2, 3, Layout((6, 1), (1, 0)), bits=32).owners().tolist() == [[0, 2, 4], [1, 3, 5]]
    with pytest.raises(ValueError, match="index 6 is outside a tile of 2 x 3"):
        fragment(2, 3, Layout((7, 1), (1, 0)), bits=32)


def test_cells_nobody_holds_are_minus_one() -> None:
    tile = fragment(2, 2, Layout((3, 1), (1, 0)), bits=32)
    assert tile.owners().tolist() == [[0, 2], [1, -1]]


def test_threads_take_turns_with_vectors() -> None:
    tile = spread(4, 16, bits=16, threads=4)
    assert tile.owners()[:, ::8].tolist() == [[0, 1], [2, 3], [0, 1], [2, 3]]
    assert tile.slots()[0].tolist() == [0, 1, 2, 3, 4, 5, 6, 7] * 2 and tile.slots()[2, 0] == 8
    assert tile.in_registers().place is None
    assert [vector_of(c, 16) for c in (64, 12, 7)] == [8, 4, 1]


def test_what_a_tile_does_not_have_is_said() -> None:
    with pytest.raises(ValueError, match="has no threads"):
        linear(2, 2, bits=32).owners()
    with pytest.raises(ValueError, match="lies in registers"):
        spread(2, 4, bits=32, threads=2).in_registers().addresses()
    with pytest.raises(IndexError, match="there is no \\(2, 0\\)"):
        linear(2, 2, bits=32).at(2, 0)
    with pytest.raises(ValueError, match="at least one row"):
        linear(0, 2, bits=32)


def test_cells_can_be_picked() -> None:
    tile = linear(1 << 20, 1 << 12, bits=16)
    assert tile.addresses(np.array([3, 1 << 19]), np.array([5, 0])).tolist() == [2 * (3 * 4096 + 5), 2 * 4096 << 19]
    assert tile.bytes == 2 << 32
