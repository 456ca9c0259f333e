"""What the compiler makes of every problem's kernel, with no GPU at hand: registers, spills, shared memory, and the time that it took."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ...base.errors import TileError
from .ours import ours
from .problems import PROBLEMS, chosen


@dataclass(frozen=True, slots=True)
class Row:
    """One kernel; `why` says why there is none."""

    name: str
    schedule: str = ""
    registers: int | None = None
    spilt_bytes: int | None = None
    shared_bytes: int | None = None
    compile_ms: float | None = None
    notes: tuple[str, ...] = ()
    why: str = ""

    @property
    def is_good(self) -> bool:
        """Whether it compiles, spills nothing and is warned of nothing."""
        return not self.why and not self.spilt_bytes and not self.notes

    def __str__(self) -> str:
        if self.why:
            return f"{self.name:<42} {self.why}"
        facts = f"{self.registers or 0:>9} {self.spilt_bytes or 0:>5} {self.shared_bytes or 0:>9} {self.compile_ms or 0:>7.0f}"
        return f"{self.name:<42} {self.schedule:<22} {facts}  {'; '.join(self.notes)}".rstrip()


@dataclass(frozen=True, slots=True)
class Compiled:
    """All rows for one architecture."""

    arch: str
    rows: tuple[Row, ...]

    @property
    def is_within(self) -> bool:
        """Whether every kernel compiles, spills nothing and is warned of nothing."""
        return all(r.is_good for r in self.rows)

    def as_json(self) -> dict[str, Any]:
        """Every row."""
        return {"arch": self.arch, "kernels": [asdict(r) for r in self.rows]}

    def table(self) -> str:
        """One line a kernel, what is wrong last."""
        head = f"{f'kernel for {self.arch}':<42} {'schedule':<22} {'registers':>9} {'spilt':>5} {'shared':>9} {'ms':>7}"
        rows = sorted(self.rows, key=lambda r: not r.is_good)
        good = sum(r.is_good for r in rows)
        return "\n".join([head, "-" * len(head), *map(str, rows), f"{good} of {len(rows)} without spills and warnings"])


def run(only: Sequence[str], arch: str) -> Compiled:
    """Compile the kernels of the groups `only` (default: all) for `arch`; the disk cache serves what was compiled before, with the time it took then.

    Raises: ValueError for an unknown group; what the target raises for an unknown architecture or without NVRTC becomes each row's reason.
    """
    rows: list[Row] = []
    for number in chosen(list(only)):
        p = PROBLEMS[number]
        try:
            k = ours(p, f"cuda:{arch}")
            rows.append(Row(p.name, k.schedule, k.registers, k.spilt_bytes, k.shared_bytes, k.compile_ms, k.notes))
        except TileError as error:
            rows.append(Row(p.name, why=f"{type(error).__name__}: {str(error).splitlines()[0]}"))
        print(rows[-1], file=sys.stderr, flush=True)
    return Compiled(arch, tuple(rows))
