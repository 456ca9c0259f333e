"""False sharing: cache lines that two blocks of a kernel write. Blocks run on different cores, so such a line travels between them.

>>> from tileworkbench.kernels.gemm import program
>>> shared_lines(program(64, 60, 64, 32, 20, 64, 1, "float32", "float32", False))     # rows of 240 bytes, cut into pieces of 80
(SharedLines(buffer='C', blocks=6, lines=144),)
>>> shared_lines(program(64, 64, 64, 32, 32, 64, 1, "float32", "float32", False))     # pieces of 128 bytes: whole lines
()
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..base.span import Span
from ..layout.algebra import Array, Layout, Table
from ..layout.banks import false_sharing
from ..layout.tile_layout import TileLayout
from .accesses import Boxes, trace_accesses
from .tile_accesses import fold, program_of

_BLOCKS = 64
_ROWS = 1 << 16
_CELLS = 1 << 24


@dataclass(frozen=True, slots=True)
class SharedLines:
    """`lines` cache lines of `buffer` that more than one of the first `blocks` blocks of a launch writes, in the statement at `span`."""

    buffer: str
    blocks: int
    lines: int
    span: Span | None = field(default=None, compare=False, repr=False)


def shared_lines(kernel: Any, dims: Mapping[str, int] | None = None, *, line_bytes: int = 64, blocks: int = _BLOCKS) -> tuple[SharedLines, ...]:
    """The lines that neighbouring blocks share, by buffer and statement; nothing where every line has one writer.

    The first `blocks` blocks in launch order are looked at. Arrays are taken to start at a line; writes at indices that depend on data are left out.
    """
    written: dict[tuple[str, Span | None], tuple[list[Array], list[Array]]] = {}
    for number, boxes in _writes(kernel, dims, blocks):
        lines, owners = written.setdefault((boxes.buffer.name, boxes.span), ([], []))
        ends = _ends(boxes, line_bytes)
        lines.append(ends)
        owners.append(np.full(len(ends), number))
    out = []
    for (name, span), (lines, owners) in written.items():
        found = false_sharing(np.concatenate(lines) * line_bytes, np.concatenate(owners), line_bytes)
        if found:
            out.append(SharedLines(name, int(np.concatenate(owners).max()) + 1, len(found), span))
    return tuple(out)


def writers(kernel: Any, buffer: str, dims: Mapping[str, int] | None = None, *, blocks: int = _BLOCKS) -> TileLayout:
    """The rows and columns of a tensor argument, owned by the block (of the first `blocks`) that writes each cell last; -1: none of them.

    Raises: KeyError for a buffer that no block writes, ValueError for one of more than 16 million cells.
    """
    owner: Array | None = None
    names, found = set(), None
    for number, boxes in _writes(kernel, dims, blocks):
        names.add(boxes.buffer.name)
        if boxes.buffer.name != buffer:
            continue
        if owner is None:
            if np.prod(boxes.shape) > _CELLS:
                raise ValueError(f"{buffer} has {np.prod(boxes.shape)} cells; at most {_CELLS} can be shown by block")
            owner, found = np.full(boxes.shape, -1, dtype=np.int64), boxes
        for start, stop in zip(boxes.starts.tolist(), boxes.stops.tolist(), strict=True):
            owner[tuple(slice(a, b) for a, b in zip(start, stop, strict=True))] = number
    if owner is None or found is None:
        raise KeyError(f"no block writes {buffer!r}; written are {', '.join(sorted(names)) or 'none'}")
    rows, columns = fold(found.shape)
    place = Layout((rows, columns), (columns, 1))
    return TileLayout(buffer, rows, columns, found.buffer.dtype.bits, place, owner=Table.of(owner.reshape(rows, columns)), owner_name="block")


def _writes(kernel: Any, dims: Mapping[str, int] | None, blocks: int) -> Iterator[tuple[int, Boxes]]:
    """(number, boxes) of what each of the first blocks writes to tensor arguments."""
    program, known = program_of(kernel), dict(dims or {})
    for number in range(blocks):
        trace = trace_accesses(program, known, blocks=lambda count, n=number: np.arange(n, min(n + 1, count)), on_chip=False)  # type: ignore[misc]
        if not len(trace):
            return
        yield from ((number, boxes) for boxes in trace.boxes if boxes.is_write and boxes.buffer.dtype.bits >= 8)


def _ends(boxes: Boxes, line_bytes: int) -> Array:
    """The first and last line of every row that the boxes cover: a line with two writers is the end of one and the start of the other."""
    out = []
    steps = np.cumprod((1, *reversed(boxes.shape[1:])))[::-1]
    size = boxes.buffer.dtype.bits // 8
    for start, stop in zip(boxes.starts.tolist(), boxes.stops.tolist(), strict=True):
        ranges = [np.arange(a, b) * int(step) for a, b, step in zip(start[:-1], stop[:-1], steps[:-1], strict=True)]
        rows = np.zeros(1, dtype=np.int64)
        for steps_of_dim in ranges:
            rows = (rows[:, None] + steps_of_dim).ravel()
        rows = rows[:_ROWS]
        out += [(rows + start[-1]) * size // line_bytes, ((rows + stop[-1]) * size - 1) // line_bytes]
    return np.unique(np.concatenate(out)) if out else np.zeros(0, dtype=np.int64)
