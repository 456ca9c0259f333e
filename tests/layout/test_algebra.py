"""Whole tiles at once give what tensor-layouts gives cell by cell."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from tensor_layouts import size

from tileworkbench.layout.algebra import ComposedLayout, Layout, Table, Xor, evaluate, largest, xor
from tileworkbench.layout.atoms import _table

LAYOUTS = [
    Layout(32, 3),
    Layout((4, 8), (8, 1)),
    Layout(((2, 4), 8), ((1, 2), 8)),
    Layout(((4, 8), (2, 2, 2)), ((32, 1), (16, 8, 128))),
    Layout((3, (5, 7)), (35, (7, 1))),
    ComposedLayout(Xor(3, 3, 3), Layout((16, 64), (64, 1))),
    ComposedLayout(Xor(2, 1, 3), Layout((8, (4, 4)), (4, (1, 32))), offset=5),
    ComposedLayout(Layout((4, 8), (8, 1)), Layout((4, 8), (1, 4))),
]


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_flat_indices_agree_with_the_library(layout: object) -> None:
    count = size(layout)
    assert evaluate(layout, np.arange(count)).tolist() == [layout(i) for i in range(count)]  # type: ignore[operator]


@pytest.mark.parametrize("layout", [x for x in LAYOUTS if isinstance(getattr(x, "shape", None), tuple)], ids=str)
def test_modes_agree_with_the_library(layout: object) -> None:
    rows, columns = (size(mode) for mode in layout.shape)  # type: ignore[attr-defined]
    found = evaluate(layout, np.arange(rows)[:, None], np.arange(columns)[None, :])
    assert found.tolist() == [[layout(r, c) for c in range(columns)] for r in range(rows)]  # type: ignore[operator]


def test_every_atom_of_the_library_evaluates_alike() -> None:
    """All operand layouts of all instructions, against the library's own call."""
    seen: set[object] = set()
    for found in _table().values():
        for name in ("a_layout", "b_layout", "c_layout"):
            layout = getattr(found, name, None)
            if layout is None or layout in seen or size(layout) > 8192:
                continue
            seen.add(layout)
            assert evaluate(layout, np.arange(size(layout))).tolist() == [layout(i) for i in range(size(layout))], found
    assert len(seen) > 30


@pytest.mark.parametrize(("bits", "base", "shift"), list(itertools.product((1, 2, 3), (0, 1, 4), (-3, 3, 4))))
def test_xor_is_the_library_s_swizzle_and_its_own_inverse(bits: int, base: int, shift: int) -> None:
    swizzle, numbers = Xor(bits, base, shift), np.arange(2048)
    found = xor(swizzle, numbers)
    assert found.tolist() == [swizzle(i) for i in range(2048)]
    assert xor(swizzle, found).tolist() == numbers.tolist()


def test_a_table_is_looked_up() -> None:
    table = Table.of(np.arange(12).reshape(3, 4) * 7)
    assert evaluate(table, np.array([[2], [0]]), np.array([[1, 3]])).tolist() == [[63, 77], [7, 21]]
    assert table == Table.of(np.arange(12).reshape(3, 4) * 7) and repr(table) == "Table(3 x 4)"
    with pytest.raises(ValueError, match="rows and columns"):
        Table.of([1, 2, 3])


def test_the_largest_number_needs_no_evaluation() -> None:
    for layout in LAYOUTS:
        if isinstance(layout, Layout):
            assert largest(layout) == evaluate(layout, np.arange(size(layout))).max()
