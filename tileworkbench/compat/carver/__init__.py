"""`tileworkbench.carver`: what host code asks TileLang's schedule generator. Only the facts about the machine are here, not its search."""

from __future__ import annotations

from . import arch, roller, template

__all__ = ["arch", "roller", "template"]
