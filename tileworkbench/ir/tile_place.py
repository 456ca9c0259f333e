"""Where tiles that share bytes lie: a fact that a launch carries."""

from __future__ import annotations

from dataclasses import dataclass

from .expr import Buffer
from .node import Node


@dataclass(frozen=True, slots=True)
class TilePlace(Node):
    """`buffer` begins at byte `offset` of the block's shared memory. Tiles whose bytes overlap are never needed at one time."""

    buffer: Buffer
    offset: int

    @property
    def end(self) -> int:
        return self.offset + self.buffer.static_bytes()
