"""A number of a machine: its value, its unit, where it comes from, and whether it was timed."""

from __future__ import annotations

from dataclasses import dataclass

CAPACITIES = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
RATES = ("FLOP/s", "B/s", "op/s")  # shown with the prefix that fits; stated with G


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number of a machine, with where it comes from.

    `unit` is "GFLOP/s", "Gop/s" (results a second, for integers and exponentials), "GB/s" (decimal), "KiB", "MiB", "GiB", "MHz", "us", "ns", a count
    ("SMs", "registers", "threads", "warps", "blocks", "B") or "FLOP/clk". `measured` says that it was timed, not stated or computed.

    >>> str(Quantity(989_400, "GFLOP/s")), str(Quantity(227, "KiB")), str(Quantity(65536, "registers"))
    ('989 TFLOP/s', '227 KiB', '65536 registers')
    """

    value: float
    unit: str
    source: str = ""
    measured: bool = False

    def __str__(self) -> str:
        if self.unit[1:] in RATES and abs(self.value) >= 999.5:
            factor, prefix = (1e6, "P") if abs(self.value) >= 999_500 else (1e3, "T")
            return f"{_digits(self.value / factor)} {prefix}{self.unit[1:]}"
        return f"{_digits(self.value)} {self.unit}"

    @property
    def bytes(self) -> int:
        """A capacity in bytes; raises ValueError for a rate."""
        scale = CAPACITIES.get(self.unit)
        if scale is None:
            raise ValueError(f"{self} is not a capacity")
        return int(self.value * scale)

    @property
    def count(self) -> int:
        """The value of a count, as an int."""
        return round(self.value)


def _digits(value: float) -> str:
    """Three digits, more only where the number's integer part has more."""
    return f"{value:.{max(3, len(str(int(abs(value)))))}g}"
