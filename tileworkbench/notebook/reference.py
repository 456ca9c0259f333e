"""Compare what a kernel wrote with a reference: `%%tile --check "A.astype('f8') @ B"`.

The tolerance is derived, not typed in: rounding of the coarsest float type that the kernel holds, at the output's own size, plus the rounding
that a sum of `length` terms gathers at the size of the largest output.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.generic]


@dataclass(frozen=True, slots=True)
class Comparison:
    """How far `got` is from `want`. Errors are absolute; `where` is the worst element; `wrong` counts elements outside the tolerance."""

    name: str
    shape: tuple[int, ...]
    wrong: int
    worst: float
    allowed: float
    where: tuple[int, ...]
    got: float
    want: float
    box: tuple[tuple[int, int], ...]  # the smallest box of indices that holds every wrong element

    @property
    def holds(self) -> bool:
        return self.wrong == 0

    def __str__(self) -> str:
        size = int(np.prod(self.shape))
        if self.holds:
            return f"{self.name}: {size} elements agree with the reference, largest error {self.worst:.3g} (allowed {self.allowed:.3g})"
        place = ", ".join(map(str, self.where))
        box = ", ".join(f"{a}:{b}" for a, b in self.box)
        return (
            f"{self.name}[{place}] is {self.got:.6g}, the reference says {self.want:.6g} (error {self.worst:.3g}, allowed {self.allowed:.3g}); "
            f"{self.wrong} of {size} elements are wrong, all within {self.name}[{box}]"
        )


def compare(name: str, got: Array, want: Array, *, epsilon: float, length: int, tolerance: float | None = None) -> Comparison:
    """Compare element by element in float64.

    Args:
        got, want: arrays of one shape.
        epsilon: relative rounding of one operation, of the coarsest float type of the kernel; 0 for integers.
        length: terms of the longest sum.
        tolerance: use this relative tolerance instead.
    Raises: ValueError if the shapes differ.
    """
    if got.shape != want.shape:
        raise ValueError(f"{name} has shape {got.shape}, the reference {want.shape}")
    a, b = got.astype(np.float64), want.astype(np.float64)
    finite = np.abs(b[np.isfinite(b)])
    size = float(finite.max()) if finite.size else 0.0
    if tolerance is None:
        allowed = 2 * epsilon * np.abs(b) + epsilon * float(np.sqrt(max(length, 1))) * size
    else:
        allowed = tolerance * np.maximum(np.abs(b), size)
    with np.errstate(invalid="ignore"):
        error = np.where((a == b) | (np.isnan(a) & np.isnan(b)), 0.0, np.abs(a - b))
    error = np.where(np.isnan(error), np.inf, error)
    bad = error > np.where(np.isfinite(allowed), allowed, 0.0)
    if a.size == 0:
        return Comparison(name, a.shape, 0, 0.0, 0.0, (), 0.0, 0.0, ())
    worst = np.unravel_index(int(np.argmax(np.where(bad, error, -1.0) if bad.any() else error)), a.shape)
    box = tuple((int(i.min()), int(i.max()) + 1) for i in np.nonzero(bad)) if bad.any() else ()
    return Comparison(
        name, a.shape, int(bad.sum()), float(error[worst]), float(allowed[worst]), tuple(int(i) for i in worst), float(a[worst]), float(b[worst]), box
    )
