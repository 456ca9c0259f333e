"""What passes that place barriers ask about statements."""

from __future__ import annotations

from ..ir.bodies import statements
from ..ir.device import DeviceCall
from ..ir.expr import Buffer, Const
from ..ir.stmt import Body, Break, Continue, For, PipelinedFor, Sync, While
from ..ir.tile_place import TilePlace


def runs(loop: For | PipelinedFor | While) -> bool:
    """Whether the body certainly runs at least once."""
    if isinstance(loop, While) or not (isinstance(loop.start, Const) and isinstance(loop.stop, Const)):
        return False
    count = int(loop.stop.value) - int(loop.start.value)
    return count < 0 if isinstance(loop, For) and loop.step < 0 else count > 0


def leaves(body: Body) -> bool:
    """Whether an iteration may end before the end of `body`, and so before barriers in it."""
    return any(isinstance(n, (Break, Continue)) for s in body for n in statements(s))


def meets_first(body: Body) -> bool:
    """Whether all threads meet before they touch memory in `body`."""
    return isinstance(next((s for s in body if not isinstance(s, DeviceCall)), None), Sync)


def sharing(places: tuple[TilePlace, ...]) -> dict[Buffer, set[Buffer]]:
    """For each tile the others that share bytes with it."""
    return {p.buffer: {q.buffer for q in places if q is not p and p.offset < q.end and q.offset < p.end} for p in places}
