"""The part "banks" of a panel: what warps ask of each shared tile, wavefront by wavefront, and which layout would have served it best.

Of a kernel that ran in the emulator the accesses are those of the cell's own call, recorded in one more run. Of another kernel on a GPU they are what
the model expects of its tile program; the views say which.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..layout.access import Access
from ..layout.banks import Wavefronts
from ..model.report import Report
from ..model.tile_accesses import AccessedTile, shared_tiles
from ..runtime.kernel import JITKernel
from ..views.gallery import Gallery
from ..views.layout_finder import finder_view
from ..views.view import View
from ..views.wavefronts import wavefront_view, worst_request
from .run import CellRun

PART = "banks"
TILES = 6


def banks_of(run: CellRun, report: Report, kernel: JITKernel) -> View | None:
    """Tabs for each shared tile: its dearest access on the layout that it has, and on the best one where that is better; None if there is nothing."""
    if not report.machine.is_gpu:
        return None
    seen = run.emulation.accesses if run.emulation is not None else None
    tiles: Sequence[AccessedTile] = seen.tiles if seen is not None else shared_tiles(kernel, run.last.call.dims if run.last is not None else {})
    found = list(_views([t for t in tiles if t.accesses][:TILES]))
    how = "as an emulated run asked of them" if seen is not None else "as the model expects"
    return Gallery([v for _, v in found], [name for name, _ in found], f"{kernel.name}: banks of its shared tiles, {how}") if found else None


def _views(tiles: Sequence[AccessedTile]) -> Iterator[tuple[str, View]]:
    for tile in tiles:
        layout = tile.layout or tile.plain
        costs = [(a, a.wavefronts(layout).times(a.times)) for a in tile.accesses]
        access, _ = max(costs, key=_dear)
        excess = sum(cost.excess for _, cost in costs)
        request = min(worst_request(access, layout), access.requests - 1)
        if not excess:
            yield f"{tile.buffer}: no conflicts", wavefront_view(access, layout, request=request)
            continue
        best = tile.find()
        yield f"{tile.buffer}: {excess} in excess", wavefront_view(access, layout, best.best.layout, request=request)
        yield f"{tile.buffer}: layouts", finder_view(best)


def _dear(item: tuple[Access, Wavefronts]) -> tuple[int, int]:
    return item[1].excess, item[1].total
