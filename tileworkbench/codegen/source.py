"""What a compiled target's emitter hands to the runtime."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ..base.span import Span


@dataclass(frozen=True, slots=True)
class CSource:
    """A kernel as C text.

    Entry: `int32_t ENTRY(const int64_t *args, int32_t threads)`. `args` holds, in order, a data pointer per tensor parameter, a pointer per
    workspace, one int64 per symbolic dim, and one per scalar parameter (an integer's value, a float's bits as float64). It returns 0, or
    1 + the index into `asserts` of an assertion that failed, or -1 if memory for the tiles could not be had.

    flags: compiler flags that the text needs, without those of the instruction set. link_flags: libraries. scratch_bytes: tile memory per core.
    lines: line of `text` (from 1) -> where it comes from. parts: C files of the functions that `text` only declares where TWB_APART is defined
    (`codegen.parts`).
    """

    text: str
    entry: str
    flags: tuple[str, ...] = ()
    link_flags: tuple[str, ...] = ()
    scratch_bytes: int = 0
    asserts: tuple[tuple[str, Span | None], ...] = ()
    lines: Mapping[int, Span] = field(default_factory=dict, compare=False, repr=False)
    parts: tuple[str, ...] = field(default=(), compare=False, repr=False)
