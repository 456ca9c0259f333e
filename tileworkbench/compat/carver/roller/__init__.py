"""`tileworkbench.carver.roller`: names that host code imports beside the carver."""

from __future__ import annotations

from . import rasterization

__all__ = ["rasterization"]
