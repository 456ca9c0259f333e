"""Least-recently-used caches, from reuse distances.

An access hits a cache of C bytes if the distinct bytes touched since the last access of the same granule, that granule included, fit in C. One
list of distances answers for every capacity (Mattson et al., "Evaluation techniques for storage hierarchies", IBM Systems Journal 9, 1970).
Granules are pieces of buffers of different sizes that are always accessed whole.

>>> d = reuse_distances(np.array([0, 1, 0, 2, 1]), np.array([10, 10, 10, 30, 10]))
>>> d.tolist()
[inf, inf, 20.0, inf, 50.0]
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


def reuse_distances(granules: Array, sizes: Array) -> Array:
    """Bytes of distinct granules touched from the last access of the same granule up to each access; infinite for a first access.

    Args:
        granules: the granule of each access, in order.
        sizes: bytes of that granule, the same at each of its accesses.
    """
    n = len(granules)
    before = _previous(granules)
    total = np.concatenate(([0.0], np.cumsum(sizes)))
    again = before >= 0
    distance = np.full(n, np.inf)
    distance[again] = (total[:-1] - total[np.maximum(before, 0)])[again]
    distance[again] -= _counted_twice(before, np.asarray(sizes, dtype=float))[again]
    return distance


def _previous(granules: Array) -> Array:
    """The position of the last access of the same granule before each access, -1 for a first one."""
    order = np.argsort(granules, kind="stable")
    ranked = granules[order]
    before = np.full(len(granules), -1, dtype=np.int64)
    same = np.flatnonzero(ranked[1:] == ranked[:-1])
    before[order[same + 1]] = order[same]
    return before


def _counted_twice(before: Array, sizes: Array) -> Array:
    """For each access i, the bytes of accesses k < i whose own last access lies after i's: a plain sum over the window holds them twice.

    Accesses stand sorted by the place of their last access, and are told apart by position, the coarsest half first: where k lies in the left half
    of a block and i in its right half, k counts for i if it stands behind it. Each pass sorts every block into its halves.
    """
    n = len(before)
    out = np.zeros(n)
    if not n:
        return out
    at = np.argsort(before, kind="stable")
    weights = np.where(before >= 0, sizes, 0.0)
    for bit in reversed(range((n - 1).bit_length())):
        start = (at >> (bit + 1)) << (bit + 1)
        is_right = (at >> bit) & 1
        left = np.concatenate(([0.0], np.cumsum(np.where(is_right, 0.0, weights[at]))))
        behind = left[np.minimum(start + (2 << bit), n)] - left[1:]
        right = np.flatnonzero(is_right)
        out[at[right]] += behind[right]
        rights = np.concatenate(([0], np.cumsum(is_right)))
        earlier_rights = rights[:-1] - rights[start]
        place = np.where(is_right, start + (1 << bit) + earlier_rights, np.arange(n) - earlier_rights)
        sorted_at = np.empty_like(at)
        sorted_at[place] = at
        at = sorted_at
    return out


@dataclass(frozen=True, slots=True)
class CacheRun:
    """Per access: whether it brought its granule in, and whether it is the last write of a stay that ends with the granule written back."""

    fetched: Array
    written_back: Array


def cache_run(granules: Array, sizes: Array, writes: Array, distances: Array, capacity: float, keeps: Array) -> CacheRun:
    """What a write-back, write-allocate cache of `capacity` bytes does on a list of accesses.

    `keeps` marks accesses to memory that outlives the list (scratch tiles): their first touch is no miss, and what is still in the cache at the
    end is not written back.
    """
    fetched = (distances > capacity) & ~(keeps & np.isinf(distances))
    written = np.zeros(len(granules), dtype=bool)
    if not len(granules):
        return CacheRun(fetched, written)
    order = np.argsort(granules, kind="stable")
    ranked, dirty = granules[order], np.flatnonzero(writes[order])
    first = np.concatenate(([True], ranked[1:] != ranked[:-1]))
    stay = np.cumsum(first | fetched[order]) - 1  # from one fetch of a granule to its next
    last_write = np.full(len(ranked), -1, dtype=np.int64)
    last_write[stay[dirty]] = dirty  # the last assignment wins: the last write of each stay
    last_access = np.concatenate((np.flatnonzero(first)[1:] - 1, [len(ranked) - 1]))
    remains = np.zeros(len(ranked), dtype=bool)
    remains[stay[last_access]] = keeps[order[last_access]] & _still_inside(order[last_access], sizes, capacity)
    found = last_write[last_write >= 0]
    written[order[found[~remains[stay[found]]]]] = True
    return CacheRun(fetched, written)


def _still_inside(last: Array, sizes: Array, capacity: float) -> Array:
    """Per granule, given the position of its last access: whether it and everything touched later fit in the cache."""
    recent = np.argsort(-last)
    inside = np.zeros(len(last), dtype=bool)
    inside[recent] = np.cumsum(sizes[last[recent]]) <= capacity
    return inside
