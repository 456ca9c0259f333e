"""Accesses: how threads share work, and what a layout makes of it."""

from __future__ import annotations

import numpy as np
import pytest

from tileworkbench.layout import Access, TornError, Wavefronts, Xor, elementwise, lane_reads, ldmatrix, linear, padded, shared_copy, swizzled, xored

LANES = np.arange(32)


def covered(access: Access) -> list[tuple[int, int]]:
    """Every cell that is touched, sorted, as often as it is."""
    rows, columns = access.rows.array(), access.columns.array()
    active = rows >= 0
    return sorted((int(r), int(c) + i) for r, c in zip(rows[active], columns[active], strict=True) for i in range(access.cells))


@pytest.mark.parametrize(
    ("rows", "columns", "bits", "threads"), [(64, 64, 16, 128), (8, 12, 32, 128), (5, 7, 32, 96), (128, 32, 8, 256), (3, 64, 16, 32)]
)
def test_a_copy_touches_every_cell_once(rows: int, columns: int, bits: int, threads: int) -> None:
    found = covered(shared_copy("copy", rows, columns, bits=bits, threads=threads))
    assert found == [(r, c) for r in range(rows) for c in range(columns)]


@pytest.mark.parametrize("bits", [8, 16])
@pytest.mark.parametrize("transposed", [False, True])
def test_ldmatrix_reads_every_cell_once(bits: int, transposed: bool) -> None:
    assert covered(ldmatrix("A", 32, 64, bits=bits, transposed=transposed)) == [(r, c) for r in range(32) for c in range(64)]


@pytest.mark.parametrize(("along_rows", "cells"), [(True, 1), (False, 1), (True, 4), (False, 4)])
def test_lane_reads_touch_every_cell_once(along_rows: bool, cells: int) -> None:
    assert covered(lane_reads("B", 32, 32, along_rows=along_rows, cells=cells)) == [(r, c) for r in range(32) for c in range(32)]


def test_wavefronts_counted_by_hand() -> None:
    """64 x 64 of 2 bytes: ldmatrix meets 8 rows 128 bytes apart (8 instead of 1); the copy meets none."""
    read, copy = ldmatrix("A", 64, 64, bits=16), shared_copy("copy", 64, 64, bits=16)
    assert read.wavefronts(linear(64, 64, bits=16)) == Wavefronts(16 * 4 * 8, 16 * 4)
    assert read.wavefronts(swizzled(64, 64, bits=16)) == read.wavefronts(padded(64, 64, bits=16, pad=8)) == Wavefronts(64, 64)
    assert copy.wavefronts(linear(64, 64, bits=16)) == copy.wavefronts(swizzled(64, 64, bits=16)) == Wavefronts(64, 64)


@pytest.mark.parametrize(("pad", "width"), [(0, 16), (1, 4), (2, 8), (3, 4), (4, 16)])
def test_a_padding_that_unaligns_makes_accesses_narrower(pad: int, width: int) -> None:
    copy = shared_copy("copy", 16, 16, bits=32, threads=64)
    starts, found = copy.addresses(padded(16, 16, bits=32, pad=pad))
    assert found == width and len(starts) == copy.requests * 16 // width


def test_a_swizzle_that_tears_makes_accesses_narrower() -> None:
    copy = shared_copy("copy", 32, 32, bits=32)
    assert copy.addresses(xored(32, 32, Xor(3, 4, 3), bits=32))[1] == 16
    assert copy.addresses(xored(32, 32, Xor(3, 3, 4), bits=32))[1] == 8
    assert copy.addresses(xored(32, 32, Xor(3, 2, 5), bits=32))[1] == 4


def test_ldmatrix_cannot_be_narrower() -> None:
    read = ldmatrix("A", 32, 64, bits=16)
    for layout in (padded(32, 64, bits=16, pad=4), xored(32, 64, Xor(2, 3, 4), bits=16)):
        with pytest.raises(TornError, match="16-byte pieces"):
            read.addresses(layout)


def test_iterations_are_dealt_in_order() -> None:
    access = elementwise("loop", np.arange(40) // 8, np.arange(40) % 8, threads=32)
    assert access.requests == 2
    assert access.rows.array()[1].tolist() == [4] * 8 + [-1] * 24


def test_one_request_can_be_looked_at_alone() -> None:
    read = ldmatrix("A", 64, 64, bits=16).at(None, 7)
    assert read.times == 7 and read.first(3).times == 1 and read.first(3).requests == 1
    assert read.first(3).columns.array()[0].tolist() == [48] * 16 + [56] * 16


def test_faulty_accesses_are_refused() -> None:
    with pytest.raises(ValueError, match="outside the 8 x 8 cells"):
        shared_copy("copy", 16, 8, bits=32).addresses(linear(8, 8, bits=32))
    with pytest.raises(ValueError, match="at most 32 threads"):
        Access.of("wide", np.zeros((1, 64)), np.zeros((1, 64)))
    with pytest.raises(ValueError, match="not whole bytes"):
        Access.of("half", LANES, LANES * 0).addresses(linear(32, 8, bits=4))
    with pytest.raises(ValueError, match="not whole boxes"):
        ldmatrix("A", 24, 64, bits=16)
    with pytest.raises(ValueError, match="not whole boxes"):
        lane_reads("A", 7, 4, along_rows=True)
