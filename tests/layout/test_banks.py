"""The phase rule against a second implementation that shares nothing with it, cases counted by hand, and small domains in full."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from tileworkbench.layout import false_sharing, l1_shape, pieces, serve, wavefronts
from tileworkbench.layout.banks import CacheShape, Wavefronts, phase_threads

LANES = np.arange(32)


def by_the_book(addresses: list[int], width: int) -> tuple[int, int]:
    """(wavefronts, ideal), slowly: phases of 32, 16 or 8 threads; a bank serves one of its words at a time."""
    group = {1: 32, 2: 32, 4: 32, 8: 16, 16: 8}[width]
    total = ideal = 0
    for start in range(0, 32, group):
        words: dict[int, set[int]] = {}
        for address in addresses[start : start + group]:
            if address >= 0:
                for byte in range(address, address + width):
                    words.setdefault(byte // 4 % 32, set()).add(byte // 4)
        total += max(map(len, words.values()), default=0)
        ideal += bool(words)
    return total, ideal


@pytest.mark.parametrize(
    ("what", "addresses", "width", "total", "ideal"),
    [
        ("16 bytes each in a row", LANES * 16, 16, 4, 4),
        ("8 bytes each in a row", LANES * 8, 8, 2, 2),
        ("4 bytes each in a row", LANES * 4, 4, 1, 1),
        ("2 bytes each in a row: two threads a word", LANES * 2, 2, 1, 1),
        ("a column of 128-byte rows", LANES * 128, 4, 32, 1),
        ("16 bytes each, 128-byte rows", LANES * 128, 16, 32, 4),
        ("16 bytes each, 144-byte rows", LANES * 144, 16, 4, 4),
        ("a column of 132-byte rows", LANES * 132, 4, 1, 1),
        ("every second word", LANES * 8, 4, 2, 1),
        ("all one word", LANES * 0, 4, 1, 1),
        ("all one 16-byte piece", LANES * 0, 16, 4, 4),
        ("two words of one bank", LANES % 2 * 128, 4, 2, 1),
        ("one thread", np.where(LANES == 7, 12, -1), 4, 1, 1),
        ("nobody", LANES * 0 - 1, 4, 0, 0),
        ("the first phase only", np.where(LANES < 8, LANES * 16, -1), 16, 1, 1),
    ],
)
def test_cases_counted_by_hand(what: str, addresses: np.ndarray, width: int, total: int, ideal: int) -> None:
    found = wavefronts(addresses, width)
    assert (found.total, found.ideal) == (total, ideal), what
    assert found.excess == total - ideal


@pytest.mark.parametrize("width", [1, 2, 4, 8, 16])
def test_every_stride_and_offset_of_a_small_domain(width: int) -> None:
    for stride, offset in itertools.product(range(80), (0, 1, 5)):
        addresses = (LANES * stride + offset) * width
        found = wavefronts(addresses, width)
        assert (found.total, found.ideal) == by_the_book(addresses.tolist(), width), (stride, offset)


@pytest.mark.parametrize("width", [2, 4, 8, 16])
def test_random_accesses_with_idle_threads(width: int) -> None:
    random = np.random.default_rng(width)
    for _ in range(200):
        addresses = random.integers(0, 96, 32) * width
        addresses[random.random(32) < 0.2] = -1
        found = wavefronts(addresses, width)
        assert (found.total, found.ideal) == by_the_book(addresses.tolist(), width)


@pytest.mark.parametrize("width", [2, 4, 8, 16])
def test_serving_takes_as_many_wavefronts_and_breaks_no_rule(width: int) -> None:
    random = np.random.default_rng(7)
    for _ in range(60):
        addresses = random.integers(0, 64, 32) * width
        addresses[random.random(32) < 0.1] = -1
        served, found = serve(addresses, width), wavefronts(addresses, width)
        assert {s.wavefront for s in served} == set(range(found.total))
        words: dict[tuple[int, int], set[int]] = {}
        for s in served:
            words.setdefault((s.wavefront, s.bank), set()).add(s.word)
            assert s.bank == s.word % 32
        assert all(len(w) == 1 for w in words.values()), "a bank gives one word in a wavefront"
        wanted = {(lane, a // 4 + i) for lane, a in enumerate(addresses.tolist()) if a >= 0 for i in range(max(width // 4, 1))}
        assert {(s.lane, s.word) for s in served} == wanted


def test_several_warps_add_up() -> None:
    both = np.stack([LANES * 4, LANES * 128])
    assert wavefronts(both, 4) == Wavefronts(33, 2) == wavefronts(both[0], 4) + wavefronts(both[1], 4)
    assert Wavefronts(33, 2).times(3) == Wavefronts(99, 6)


def test_what_hardware_cannot_do_is_refused() -> None:
    with pytest.raises(ValueError, match="address 8 is not a multiple of 16"):
        wavefronts(LANES * 8, 16)
    with pytest.raises(ValueError, match="not 3"):
        phase_threads(3)
    with pytest.raises(ValueError, match="a warp has 32 threads"):
        wavefronts(np.arange(33) * 4, 4)


def test_sectors_by_brute_force() -> None:
    for stride, width, start in itertools.product((1, 2, 4, 7, 16, 40), (1, 2, 4, 8, 16), (0, 16, 20)):
        addresses = start + LANES * stride * width
        found = pieces(addresses, width)
        asked = {int(a) + i for a in addresses for i in range(width)}
        assert found.touched == len({b // 32 for b in asked})
        assert found.wanted == len(asked) and found.ideal == -(-len(asked) // 32)
        assert found.moved == 32 * found.touched and found.wasted == found.moved - len(asked)
    assert pieces(np.stack([LANES * 4, LANES * 4]), 4).touched == 8, "requests do not share sectors"


@pytest.mark.parametrize(("capacity", "line", "page", "sets", "ways"), [(32, 64, 4096, 64, 8), (48, 64, 4096, 64, 12), (128, 128, 16384, 128, 8)])
def test_l1_of_known_cores(capacity: int, line: int, page: int, sets: int, ways: int) -> None:
    found = l1_shape(capacity * 1024, line, page)
    assert (found.sets, found.ways, found.bytes) == (sets, ways, capacity * 1024)


def test_crowded_sets_by_brute_force() -> None:
    cache = CacheShape("tiny", 64, 4, 2)
    for stride, count in itertools.product((16, 64, 128, 256, 320), (1, 3, 8, 20)):
        addresses = np.arange(count) * stride
        by_set: dict[int, set[int]] = {}
        for a in addresses.tolist():
            by_set.setdefault(a // 64 % 4, set()).add(a // 64)
        assert cache.crowded(addresses) == {s: len(x) for s, x in sorted(by_set.items()) if len(x) > 2}


def test_false_sharing_needs_two_threads_in_a_line() -> None:
    assert false_sharing(np.arange(16) * 4, np.zeros(16)) == ()
    assert false_sharing(np.arange(16) * 4, np.arange(16)) == (0,)
    assert false_sharing(np.arange(4) * 64, np.arange(4)) == ()
    assert false_sharing([60, 64, 68, 128], [0, 1, 1, 2], line_bytes=128) == (0,)
