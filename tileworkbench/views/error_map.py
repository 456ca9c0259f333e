"""Where a result is wrong, tile by tile: the largest error of each tile against a reference, for one result or several beside each other.

>>> import numpy as np
>>> want = np.zeros((4, 4)); got = want.copy(); got[0, 3] = 0.5
>>> m = error_map(got, want, tile=(2, 2), allowed=1e-6)
>>> m.variants[0].wrong_tiles, m.variants[0].worst
(1, 0.5)
>>> print(m)
result: 1 of 4 tiles wrong, largest error 0.5 (allowed 1e-06)
tile of 2 x 2: rows down, columns across; `.` is within tolerance
  .  .50
  .    .
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from .recorder_parts import short
from .scene import AnyMark, Cells, Rect, Scene, Text
from .view import View

Array = np.ndarray[Any, Any]
PALETTE = ("surface", *(f"heat{i}" for i in range(3, 10)), "warning")
FINE, BAD = 0, len(PALETTE) - 1
PER_ROW = 4
MOST = 64  # tiles along one side that are drawn; more are joined


@dataclass(frozen=True, slots=True, eq=False)
class Variant:
    """One result. `errors` and `relative` hold the largest absolute and relative error of each tile, infinity for one with NaN."""

    name: str
    errors: Array
    relative: Array
    allowed: float

    @property
    def wrong_tiles(self) -> int:
        """Tiles with an error above what rounding explains."""
        return int(np.count_nonzero(self.errors > self.allowed))

    @property
    def worst(self) -> float:
        return float(self.errors.max(initial=0.0))

    @property
    def sentence(self) -> str:
        tiles = self.errors.size
        size = "NaN or infinity" if math.isinf(self.worst) else f"largest error {self.worst:.3g}"
        return f"{self.wrong_tiles} of {tiles} tiles wrong, {size} (allowed {self.allowed:.3g})"


@dataclass(frozen=True, slots=True, eq=False)
class ErrorMap(View):
    """The maps of one or several results. `tile` is the (rows, columns) that one cell stands for."""

    variants: tuple[Variant, ...]
    tile: tuple[int, int]
    title: str = "error by tile"

    @property
    def data(self) -> list[dict[str, Any]]:
        """One dict for each result: errors by tile, how many are wrong, the worst."""
        out = []
        for v in self.variants:
            tiles = {"errors": v.errors.tolist(), "relative": v.relative.tolist()}
            out.append({"name": v.name, **tiles, "wrong": v.wrong_tiles, "worst": v.worst, "allowed": v.allowed})
        return out

    def __str__(self) -> str:
        out = []
        for v in self.variants:
            cells = [["." if e <= v.allowed else short(e) for e in row] for row in v.errors]
            wide = max(len(c) for row in cells for c in row)
            lines = ["  ".join(c.rjust(wide) for c in row) for row in cells]
            out += [f"{v.name}: {v.sentence}", f"tile of {self.tile[0]} x {self.tile[1]}: rows down, columns across; `.` is within tolerance", *lines]
        return "\n".join(out)

    def scene(self) -> Scene:
        """The maps side by side."""
        marks: list[AnyMark] = []
        for i, v in enumerate(self.variants):
            marks += _map(v, self.tile, 12 + 232 * (i % PER_ROW), 30 + self._height * (i // PER_ROW))
        columns = min(len(self.variants), PER_ROW)
        return Scene(24 + 232 * columns, 8 + self._height * -(-len(self.variants) // PER_ROW), tuple(marks), title=self.title, text=str(self))

    def live(self) -> dict[str, Any]:
        """The switches: all results beside each other, then each alone."""
        alone = [(v.name, ErrorMap((v,), self.tile, f"{self.title}: {v.name}")) for v in self.variants] if len(self.variants) > 1 else []
        frames = [{"label": name, "scene": view.scene().to_json(), "text": str(view)} for name, view in (("all", self), *alone)]
        return {**View.live(self), "frames": frames if alone else [], "frames_name": "show"}

    @property
    def _height(self) -> float:
        rows, columns = self.variants[0].errors.shape
        return 84 + _size(rows, columns)[1]


def error_map(
    result: Array | Mapping[str, Array], reference: Array, tile: tuple[int, int], *, allowed: float | None = None, length: int = 0
) -> ErrorMap:
    """Compare a result, or several by name, with a reference, tile by tile of the last two dims; leading dims are stacked in rows.

    Args:
        tile: rows and columns of a tile, as the kernel's blocks write them.
        allowed: the absolute error that counts as none; None: the rounding of the result's dtype over sums of `length` terms (the longest dim).
    Raises: ValueError if a result has another shape than the reference.
    """
    results = result if isinstance(result, Mapping) else {"result": result}
    want = np.asarray(reference, dtype=np.float64)
    variants = []
    for name, got in results.items():
        if np.shape(got) != want.shape:
            raise ValueError(f"{name} has shape {np.shape(got)}, the reference {want.shape}")
        limit = rounding(np.asarray(got), want, length) if allowed is None else allowed
        variants.append(_variant(name, np.asarray(got, dtype=np.float64), want, tile, limit))
    return ErrorMap(tuple(variants), tile)


def rounding(got: Array, want: Array, length: int = 0) -> float:
    """The absolute error that rounding explains: sums of `length` terms in the result's dtype, at the size of the largest element."""
    epsilon = float(np.finfo(got.dtype).eps) if got.dtype.kind == "f" else float(np.finfo(np.float32).eps)
    finite = np.abs(want[np.isfinite(want)])
    return epsilon * (2 + math.sqrt(max(length, *want.shape, 1))) * float(finite.max(initial=0.0))


def _variant(name: str, got: Array, want: Array, tile: tuple[int, int], allowed: float) -> Variant:
    flat = want.reshape(-1, want.shape[-1])
    with np.errstate(invalid="ignore", over="ignore"):
        error = np.abs(got.reshape(flat.shape) - flat)
    error[~np.isfinite(error)] = np.inf
    relative = error / np.maximum(np.abs(flat), np.finfo(np.float64).tiny)
    return Variant(name, _largest(error, tile), _largest(relative, tile), allowed)


def _largest(values: Array, tile: tuple[int, int]) -> Array:
    """The largest value of each tile; the last tiles may be smaller."""
    rows, columns = (np.arange(0, n, t) for n, t in zip(values.shape, tile, strict=True))
    return np.asarray(np.maximum.reduceat(np.maximum.reduceat(values, rows, axis=0), columns, axis=1))


def _size(rows: int, columns: int) -> tuple[float, float]:
    return 208.0, min(208.0, max(22.0 * min(rows, MOST), 14.0))


def _map(v: Variant, tile: tuple[int, int], x: float, y: float) -> list[AnyMark]:
    rows, columns = v.errors.shape
    width, height = _size(rows, columns)
    joined = v.errors
    if max(rows, columns) > MOST:
        joined = _largest(v.errors, (-(-rows // MOST), -(-columns // MOST)))
    rows, columns = joined.shape
    index = bytes(_colour(e, v.allowed) for e in joined.flat)
    words = tuple("ok" if e <= v.allowed else short(e) for e in joined.flat) if columns <= 8 else ()
    state = "warning" if v.wrong_tiles else "good"
    worst = "NaN or ∞" if math.isinf(v.worst) else f"largest error {v.worst:.2g}"
    note = f"cells are joined: {v.errors.size} tiles" if joined is not v.errors else f"a cell: {tile[0]} x {tile[1]} elements"
    return [
        Text(x, y - 8, v.name, 12, is_bold=True),
        Rect(x - 1, y - 1, width + 2, height + 2, stroke="grid"),
        Cells(x, y, width, height, rows, columns, PALETTE, index, words, key=f"variant:{v.name}", tip=f"{v.name}: {v.sentence}"),
        Text(x, y + height + 15, f"{v.wrong_tiles} of {v.errors.size} tiles wrong", 11, colour=state, is_bold=True),
        Text(x, y + height + 30, f"{worst}, allowed {v.allowed:.1g}", 10, colour="faint"),
        Text(x, y + height + 44, note, 10, colour="faint"),
    ]


def _colour(error: float, allowed: float) -> int:
    """None within tolerance, then one colour for each decade above it."""
    if not math.isfinite(error):
        return BAD
    if error <= allowed:
        return FINE
    return min(BAD - 1, 1 + int(math.log10(error / allowed)) if allowed > 0 else BAD - 1)
