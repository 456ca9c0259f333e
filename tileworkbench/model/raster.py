"""The order in which a GPU starts the blocks of a grid: x fastest, or in panels where the author asked for them with `T.use_swizzle`.

>>> columns, rows = coordinates(np.arange(6), (4, 2), "2")     # panels of two rows, walked column by column
>>> columns.tolist(), rows.tolist()
([0, 0, 1, 1, 2, 2], [0, 1, 0, 1, 0, 1])
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..ir.stmt import Launch
from .space import Array


def panels_of(launch: Launch) -> str:
    """The author's hint: the blocks of a panel's height, and the order; "" for none."""
    return dict(launch.hints).get("use_swizzle", "")


def coordinates(numbers: Array, shape: Sequence[int], panels: str = "") -> list[Array]:
    """For each dim of a grid of `shape` blocks, where the blocks with these `numbers` in the order of their start stand in it.

    `panels` is the hint of `T.use_swizzle`: "8", or "8 column". It says the same as `transform.raster_blocks`; grids of one dim have no panels.
    """
    height, _, order = panels.partition(" ")
    if not panels or len(shape) < 2:
        out, rest = [], numbers
        for extent in shape:
            out.append(rest % extent)
            rest = rest // extent
        return out
    along, across = (1, 0) if order.startswith("col") else (0, 1)
    plane = shape[0] * shape[1]
    rest, beyond = numbers % plane, numbers // plane
    whole = max(1, int(height))
    panel, inside = rest // (whole * shape[along]), rest % (whole * shape[along])
    rows = np.minimum(whole, shape[across] - panel * whole)
    place = {across: panel * whole + inside % rows, along: inside // rows}
    return [place[0], place[1], *coordinates(beyond, shape[2:])]
