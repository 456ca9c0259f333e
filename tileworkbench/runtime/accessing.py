"""What the warps of a call ask of shared memory: recorded by the emulator, tile by tile, as accesses that any layout can serve.

>>> import numpy as np, tileworkbench
>>> from tileworkbench.kernels import softmax
>>> kernel = tileworkbench.compile(softmax.program(4, 512, 4, "float32"), out_idx=-1, target="emulate:sm_80")
>>> print(kernel.accesses(np.ones((4, 512), np.float32)).tile("top_part_all").layout.formula())
(4, 128):(128, 1)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath

from ..base.span import Span
from ..emulator import RunResult
from ..emulator.requests import SharedRequest, SharedRequests
from ..model.placement import BufferLayout
from ..model.recorded_tiles import recorded_tiles
from ..model.tile_accesses import AccessedTile


@dataclass(frozen=True, slots=True, repr=False)
class Accessed:
    """The shared tiles of a kernel with what a run asked of them (`model.recorded_tiles` says what is counted). Prints the wavefronts of each access.

    `tile(name)` has `accesses`, the `layout` that the text has, and `find()`: the layout that these very accesses like best.
    """

    kernel: str
    arch: str
    tiles: tuple[AccessedTile, ...] = ()

    def tile(self, buffer: str) -> AccessedTile:
        """The tile called `buffer`. Raises: KeyError with the names there are."""
        found = {tile.buffer: tile for tile in self.tiles}
        if buffer not in found:
            raise KeyError(f"no shared tile is called {buffer!r}; there are {', '.join(found) or 'none'}")
        return found[buffer]

    def __str__(self) -> str:
        head = f"{self.kernel} on {self.arch}, as the emulator ran it"
        return "\n".join([head, *(str(tile) for tile in self.tiles)]) if self.tiles else f"{head}: no shared memory"

    __repr__ = __str__


def accessed(
    kernel: str, arch: str, layouts: Sequence[BufferLayout], lines: Mapping[int, Span], results: Sequence[tuple[str, RunResult]]
) -> Accessed:
    """The recorded requests of all launches, on the tiles that they are of."""
    spans: dict[tuple[str, int], Span] = {}
    for span in lines.values():
        spans.setdefault((span.label or PurePath(span.file).name, span.line), span)
    tiles: list[AccessedTile] = []
    for launch in dict.fromkeys(b.launch for b in layouts):
        runs = [result.requests for name, result in results if name == launch]  # each kernel has shared memory of its own
        tiles += recorded_tiles([b for b in layouts if b.launch == launch], _together(runs), spans)
    return Accessed(kernel, arch, tuple(tiles))


def _together(runs: Sequence[SharedRequests]) -> SharedRequests:
    """The requests of several runs of a kernel."""
    made: dict[SharedRequest, SharedRequest] = {}
    for r in (r for run in runs for r in run.made):
        key = replace(r, times=0)
        known = made.get(key)
        made[key] = r if known is None else replace(r, times=r.times + known.times)
    return SharedRequests(tuple(made.values()), sum(run.left_out for run in runs))
