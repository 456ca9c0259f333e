"""What the addresses of global arrays have to be multiples of, because of the accesses of a lowered launch."""

from __future__ import annotations

from ..ir.device import DeviceCall
from ..ir.expr import Buffer
from ..ir.lowered import Address, Grid, LoadVector, StoreVector
from ..ir.node import walk


def alignments(grid: Grid) -> dict[Buffer, int]:
    """Bytes for each array of which more than one element is read or written at a time; offsets are multiples of the access already."""
    found: dict[Buffer, int] = {}
    for node in walk(grid):
        match node:
            case LoadVector(_, _, buffer, _, count) | StoreVector(buffer, _, _, _, count) if not buffer.is_on_chip:
                size = count * buffer.type.bits // 8
            case DeviceCall("twb_cp_async", (_, Address(buffer), *_), (size, *_)):
                pass
            case _:
                continue
        found[buffer.root] = max(found.get(buffer.root, 1), size)
    return found
