"""`tileworkbench.carver.roller.rasterization`: how a GPU orders its blocks; on a CPU it changes nothing."""

from __future__ import annotations


class NoRasterization:
    """Blocks in their own order."""


__all__ = ["NoRasterization"]
