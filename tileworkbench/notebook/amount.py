"""Numbers with units, as far as a report needs them: bytes, seconds, floating-point operations, and what their products make.

>>> dram = Amount(3.0e6, BYTES)
>>> print(dram, "=", dram / UNITS["MiB"], "MiB;", dram / Amount(2.0e-3, SECONDS))
3 MB = 2.861 MiB; 1.5 GB/s
"""

from __future__ import annotations

from dataclasses import dataclass

Kind = tuple[int, int, int]  # exponents of byte, second, floating-point operation

NONE: Kind = (0, 0, 0)
BYTES: Kind = (1, 0, 0)
SECONDS: Kind = (0, 1, 0)
FLOP: Kind = (0, 0, 1)
BANDWIDTH: Kind = (1, -1, 0)
RATE: Kind = (0, -1, 1)
INTENSITY: Kind = (-1, 0, 1)

NAMES: dict[Kind, str] = {NONE: "", BYTES: "B", SECONDS: "s", FLOP: "FLOP", BANDWIDTH: "B/s", RATE: "FLOP/s", INTENSITY: "FLOP/B"}


class UnitError(ValueError):
    """Two quantities of different kinds were added or compared."""


@dataclass(frozen=True, slots=True)
class Amount:
    """`value` in base units (bytes, seconds, operations) of `kind`."""

    value: float
    kind: Kind = NONE

    def __add__(self, other: Amount) -> Amount:
        return Amount(self.value + other.value, self._same(other, "added to"))

    def __sub__(self, other: Amount) -> Amount:
        return Amount(self.value - other.value, self._same(other, "subtracted from"))

    def __mul__(self, other: Amount) -> Amount:
        return Amount(self.value * other.value, tuple(a + b for a, b in zip(self.kind, other.kind, strict=True)))  # type: ignore[arg-type]  # three exponents

    def __truediv__(self, other: Amount) -> Amount:
        return Amount(self.value / other.value, tuple(a - b for a, b in zip(self.kind, other.kind, strict=True)))  # type: ignore[arg-type]  # three exponents

    def __neg__(self) -> Amount:
        return Amount(-self.value, self.kind)

    def comparable(self, other: Amount) -> tuple[float, float]:
        """Both values, after checking that they are of one kind. Counts (bytes, operations) may be compared with plain numbers."""
        counts = (BYTES, FLOP)
        if self.kind != other.kind and not (NONE in (self.kind, other.kind) and (self.kind in counts or other.kind in counts)):
            self._same(other, "compared with")
        return self.value, other.value

    def _same(self, other: Amount, verb: str) -> Kind:
        if self.kind != other.kind:
            raise UnitError(f"{describe(self.kind)} cannot be {verb} {describe(other.kind)}")
        return self.kind

    def __str__(self) -> str:
        if self.kind == NONE:
            return f"{self.value:.4g}"
        name = NAMES.get(self.kind) or " ".join(f"{n}^{e}" for n, e in zip(("B", "s", "FLOP"), self.kind, strict=True) if e)
        value, prefix = scaled(self.value, small=self.kind == SECONDS)
        return f"{value:.4g} {prefix}{name}"


def scaled(value: float, *, small: bool = False) -> tuple[float, str]:
    """`value` with a decimal prefix so that one to three digits stand before the point; prefixes below one only if `small`."""
    steps = [(1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, "")]
    if small:
        steps = [(1.0, ""), (1e-3, "m"), (1e-6, "u"), (1e-9, "n")]
    for factor, prefix in steps:
        if abs(value) >= factor:
            return value / factor, prefix
    return (value, "") if not small or not value else (value / 1e-9, "n")


def describe(kind: Kind) -> str:
    """The kind in words, for messages: `a number without a unit`, `a value in B/s`."""
    return f"a value in {NAMES.get(kind, 'mixed units')}" if kind != NONE else "a number without a unit"


def _units() -> dict[str, Amount]:
    units = {"B": Amount(1, BYTES), "s": Amount(1, SECONDS), "ms": Amount(1e-3, SECONDS), "us": Amount(1e-6, SECONDS), "ns": Amount(1e-9, SECONDS)}
    for power, prefix in enumerate(("k", "M", "G", "T"), start=1):
        factor = 1000.0**power
        units[f"{prefix}B"] = Amount(factor, BYTES)
        units[f"{prefix}FLOP"] = Amount(factor, FLOP)
        units[f"{prefix.upper()}iB"] = Amount(1024.0**power, BYTES)
    units |= {"FLOP": Amount(1, FLOP), "KB": units["kB"], "KFLOP": units["kFLOP"]}
    return units


UNITS = _units()
