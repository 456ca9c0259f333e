"""The finder: exhaustive in its range, ranked by a cost that can be counted again, with a line that means what it found."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import tileworkbench.language as T
from tileworkbench.layout import (
    Access,
    Found,
    Layout,
    Xor,
    find_layouts,
    lane_reads,
    ldmatrix,
    linear,
    make_full_bank_swizzled_layout,
    make_half_bank_swizzled_layout,
    make_linear_layout,
    padded,
    shared_copy,
    swizzled,
    wavefronts,
    xored,
)  # fmt: skip

ACROSS = np.arange(32)
COLUMNS = Access.of("columns", np.tile(ACROSS, (32, 1)), np.tile(ACROSS[:, None], (1, 32)))
ROWS = shared_copy("rows", 32, 32, bits=32)


def transposed() -> Found:
    return find_layouts(32, 32, bits=32, accesses=(ROWS, COLUMNS), buffer="t")


def test_the_count_is_the_whole_range() -> None:
    """1 plain, 32 paddings, TMA's 128, 64 and 32 bytes, and every (bits, base, shift) that stays in bank and address bits."""
    swizzles = [
        (bits, base, shift)
        for base, bits, shift in itertools.product(range(2, 7), range(1, 6), range(1, 12))
        if base + bits <= 7 and bits <= shift and base + shift < 12
    ]
    found = transposed()
    assert found.tried == 1 + 32 + 3 + len(swizzles) == len(found.candidates) + found.rejected
    names = {c.layout.name for c in found.candidates}
    assert {f"Swizzle({b}, {m}, {s})" for b, m, s in swizzles} <= names and len(names) == found.tried


def test_the_best_is_the_least_of_all_counted_anew() -> None:
    found = transposed()
    layouts = [linear(32, 32, bits=32), *(padded(32, 32, bits=32, pad=p) for p in range(1, 33))]
    layouts += [xored(32, 32, Xor(b, m, s), bits=32) for m in range(2, 7) for b in range(1, 8 - m) for s in range(b, 12 - m)]
    layouts += [swizzled(32, 32, bits=32, span=s) for s in (128, 64, 32)]
    excess = []
    for layout in layouts:
        total = 0
        for access in (ROWS, COLUMNS):
            starts, width = access.addresses(layout)
            total += sum(wavefronts(row, width).excess for row in starts)
        excess.append(total)
    assert found.best.excess == min(excess) == 0
    assert sorted(c.excess for c in found.candidates) == sorted(excess)
    assert found.conflict_free == excess.count(0)
    ranked = [(c.excess, c.instructions, c.bytes) for c in found.candidates]
    assert ranked == sorted(ranked)


def test_times_weigh_accesses() -> None:
    once, often = transposed(), find_layouts(32, 32, bits=32, accesses=(ROWS, COLUMNS.at(None, 10)))
    assert often.plain.excess == 10 * once.plain.excess == 9920


def test_classical_answers() -> None:
    read = ldmatrix("A", 128, 64, bits=16)
    found = find_layouts(128, 64, bits=16, accesses=(shared_copy("copy", 128, 64, bits=16), read), buffer="A_s")
    assert found.best.layout.name == "128-byte swizzle" and found.best.excess == 0
    assert found.of_kind("XOR swizzle").layout.name == "Swizzle(3, 4, 3)"
    assert found.of_kind("padding").layout.name == "padded by 8", "16 bytes: ldmatrix keeps its aligned rows"
    assert found.plain.excess == 7 * 128 and found.rejected > 0
    narrow = find_layouts(64, 32, bits=16, accesses=(ldmatrix("A", 64, 32, bits=16),), buffer="A_s")
    assert narrow.best.layout.name == "64-byte swizzle" and narrow.best.excess == 0
    floats = find_layouts(64, 64, bits=32, accesses=(lane_reads("B", 64, 64, along_rows=False),), buffer="B_s")
    assert floats.best.excess == 0 < floats.plain.excess


def test_what_cannot_be_searched_is_refused() -> None:
    with pytest.raises(ValueError, match="nobody accesses t"):
        find_layouts(8, 8, bits=32, accesses=(), buffer="t")
    with pytest.raises(ValueError, match="4 bits"):
        find_layouts(32, 32, bits=4, accesses=(COLUMNS,))
    with pytest.raises(KeyError, match="no 'TMA swizzle' was possible"):
        find_layouts(32, 33, bits=32, accesses=(COLUMNS,)).of_kind("TMA swizzle")


def places(annotation: str, rows: int, columns: int) -> list[list[int]] | object:
    """What an annotation says: element offsets of a T.Layout, or the request."""

    class Words:
        Layout = T.Layout

        @staticmethod
        def annotate_layout(layout_map: dict[str, object]) -> object:
            return layout_map["t"]

    makers = {f.__name__: f for f in (make_full_bank_swizzled_layout, make_half_bank_swizzled_layout, make_linear_layout)}
    found = eval(annotation, {"T": Words, "t": "t", **makers})
    if not isinstance(found, T.Layout):
        return found
    assert tuple(found.shape) == (rows, columns) and found.forward_fn is not None
    return [[found.forward_fn(i, j) for j in range(columns)] for i in range(rows)]


def test_every_annotation_means_its_layout() -> None:
    found = transposed()
    requests = 0
    for candidate in found.candidates:
        said = places(candidate.annotation("t"), 32, 32) if "quarter" not in candidate.annotation("t") else None
        if isinstance(said, list):
            assert said == (candidate.layout.addresses() // 4).tolist(), candidate.layout.name
        elif said is not None:
            assert getattr(said, "span_bytes") == (0 if candidate.kind == "none" else int(candidate.layout.name.partition("-")[0]))
            requests += 1
    assert requests == 3 and found.annotation.startswith("T.annotate_layout({t: T.Layout((32, 32)")


def test_text_and_data_agree() -> None:
    found = transposed()
    assert str(found).splitlines()[0] == f"t: {found.tried} layouts tried, 0 cannot be, {found.conflict_free} without conflicts (" + (
        "rule-based: counted by the phase rule, not measured)"
    )
    assert [row["excess"] for row in found.data] == [c.excess for c in found.candidates]
    assert found.data[0]["by_access"] == {"rows": 0, "columns": 0}
    assert isinstance(found.plain.layout.place, Layout)
