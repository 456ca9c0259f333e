"""`tileworkbench.engine`: hooks that TileLang offers between its compiler's stages."""

from __future__ import annotations

from . import callback

__all__ = ["callback"]
