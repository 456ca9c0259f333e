"""What a kernel does at one level, on one line, with one buffer: the records that a report is made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..base.quantity import Quantity
from ..base.span import Span
from .values import Number


@dataclass(frozen=True, slots=True)
class LevelUse:
    """What a kernel does at one level. `bytes` are read plus written; `cold_bytes` those of a first launch, where that differs.

    `compulsory_bytes` is each byte of the arguments once, `worst_bytes` what would move if the caches in front kept nothing. `seconds` is the least
    time that the level's bandwidth (`roof`, for the threads used) needs for `bytes`.
    """

    name: str
    bytes: float
    cold_bytes: float
    allocate_bytes: float
    roof: Quantity
    is_counted: bool
    flops: int
    compulsory_bytes: float = 0.0
    worst_bytes: float = 0.0

    @property
    def seconds(self) -> float:
        return self.bytes / (self.roof.value * 1e9)

    @property
    def intensity(self) -> float | None:
        """FLOP per byte; None where no bytes move."""
        return self.flops / self.bytes if self.bytes else None

    @property
    def times(self) -> float | None:
        """How often each byte that is needed moves here in a first launch; None where none is needed."""
        return self.cold_bytes / self.compulsory_bytes if self.compulsory_bytes else None


@dataclass(frozen=True, slots=True)
class Point:
    """One dot of the roofline: FLOP/byte at a level, and FLOP/s (predicted or measured; the same for all levels)."""

    level: str
    intensity: float
    rate: Number


@dataclass(frozen=True, slots=True)
class LineUse:
    """What one source line does: FLOP, bytes asked, and predicted bytes by level."""

    span: Span | None
    buffers: tuple[str, ...]
    flops: int
    asked_bytes: int
    bytes: Mapping[str, float]

    @property
    def text(self) -> str:
        return self.span.source_line().strip() if self.span is not None else "(no source)"


@dataclass(frozen=True, slots=True)
class BufferUse:
    """What one buffer moves: bytes asked by tile operations, predicted bytes by level, and the bytes needed once (global buffers)."""

    buffer: str
    scope: str
    asked_bytes: int
    bytes: Mapping[str, float]
    compulsory_bytes: int
