"""A repeatable sample of granules: all accesses of a granule are in it, or none.

Source: Waldspurger et al., "Efficient MRC construction with SHARDS", FAST 2015.

>>> import numpy as np
>>> granules = np.repeat(np.arange(1000), 3)
>>> at = hashed(granules, 0.25)
>>> 600 < len(at) < 900, len(at) % 3
(True, 0)
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


def hashed(granules: Array, share: float) -> Array:
    """Positions of the accesses whose granule falls into a hashed `share` of all granules."""
    found: Array = np.flatnonzero(_hash(granules) < share * 2**32)
    return found


def _hash(number: Array) -> Array:
    """32 well mixed bits of each number (the finaliser of MurmurHash3, public domain)."""
    h = number.astype(np.uint64) & np.uint64(0xFFFFFFFF)
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        h = ((h ^ (h >> np.uint64(shift))) * np.uint64(factor)) & np.uint64(0xFFFFFFFF)
    return h ^ (h >> np.uint64(16))
