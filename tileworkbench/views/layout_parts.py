"""What a layout view is made of: panels of cells, and the ways of colouring them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..layout.algebra import Array
from ..layout.banks import BANK_BYTES, BANKS, SECTOR_BYTES, CacheShape
from ..layout.tile_layout import TileLayout

MAX_SIDE = 256  # rows or columns that are drawn; a larger tile is sampled
COLOURS = 32


@dataclass(frozen=True, slots=True)
class Mode:
    """A way of colouring: the cell's `of` ("address", "owner" or "slot") divided by `div`, modulo `mod` unless that is 0."""

    name: str
    of: str
    div: int = 1
    mod: int = 0
    meaning: str = ""

    def numbers(self, values: Array) -> Array:
        """The number of each cell; -1 stays, it says that there is none."""
        found = values // self.div
        found = found % self.mod if self.mod else found
        return np.where(values < 0, -1, found)


@dataclass(frozen=True, slots=True)
class Panel:
    """One tile of a view. `spot` is its (row, column) among the panels; `lit` are cells that an outline marks; `caption` stands below."""

    title: str
    layout: TileLayout
    spot: tuple[int, int] = (0, 0)
    lit: tuple[tuple[int, int], ...] = ()
    caption: str = ""

    @property
    def steps(self) -> tuple[int, int]:
        """Every how many rows and columns one is shown: (1, 1) unless the tile is enormous."""
        return -(-self.layout.rows // MAX_SIDE), -(-self.layout.columns // MAX_SIDE)

    @property
    def is_sampled(self) -> bool:
        return self.steps != (1, 1)

    @property
    def shown(self) -> tuple[Array, Array]:
        """The rows and columns that are shown."""
        down, across = self.steps
        return np.arange(0, self.layout.rows, down), np.arange(0, self.layout.columns, across)

    @property
    def sampling(self) -> str:
        """What the reader must know of a sampled tile; empty for a whole one."""
        if not self.is_sampled:
            return ""
        down, across = (f"every {_nth(n)}" if n > 1 else "every" for n in self.steps)
        return f"sampled: {down} row and {across} column of {self.layout.rows} x {self.layout.columns}"

    def values(self, of: str) -> Array:
        """The addresses, owners or slots of the shown cells."""
        rows, columns = self.shown
        r, c = rows[:, None], columns[None, :]
        match of:
            case "address":
                return self.layout.addresses(r, c)
            case "owner":
                return self.layout.owners(r, c)
            case _:
                return self.layout.slots(r, c)

    def has(self, of: str) -> bool:
        """Whether the layout says anything of "address", "owner" or "slot"."""
        return {"address": self.layout.place, "owner": self.layout.owner, "slot": self.layout.slot}[of] is not None


def modes_of(layout: TileLayout, cache: CacheShape | None) -> tuple[Mode, ...]:
    """The ways in which a layout can be coloured. `cache` adds its lines and sets, and takes the place of a GPU's banks and sectors."""
    out: list[Mode] = []
    if layout.owner is not None:
        out.append(Mode(layout.owner_name, "owner", meaning=f"which {layout.owner_name} holds the cell"))
        if layout.owner_name == "thread" and int(layout.owners().max()) >= 32:
            out.append(Mode("warp", "owner", 32, meaning="32 threads that run together"))
    if layout.slot is not None:
        out.append(Mode(layout.slot_name, "slot", meaning=f"in which {layout.slot_name}"))
    if layout.place is not None and cache is not None:
        out.append(Mode("line", "address", cache.line_bytes, meaning=f"{cache.line_bytes} bytes that caches move as one"))
        out.append(Mode("set", "address", cache.line_bytes, cache.sets, f"{cache.name}: {cache.sets} sets of {cache.ways} lines"))
    elif layout.place is not None:
        out.append(Mode("bank", "address", BANK_BYTES, BANKS, f"{BANKS} banks of {BANK_BYTES} bytes"))
        out.append(Mode("sector", "address", SECTOR_BYTES, meaning=f"{SECTOR_BYTES} bytes that memory moves as one"))
    return tuple(out)


def colours_of(numbers: Array) -> bytes:
    """Palette positions of cells: 0 for none, then 1 + number modulo the colours there are."""
    return np.where(numbers < 0, 0, 1 + numbers % COLOURS).astype(np.uint8).tobytes()


PALETTE = ("unused", *(f"cell{i}" for i in range(COLOURS)))


def panel_data(panel: Panel, modes: tuple[Mode, ...]) -> dict[str, Any]:
    """The numbers of a panel: one table for each mode, the addresses, and what was left out."""
    out: dict[str, Any] = {
        "title": panel.title,
        "rows": panel.layout.rows,
        "columns": panel.layout.columns,
        "bits": panel.layout.bits,
        "sampled": panel.sampling,
        "caption": panel.caption,
    }
    if panel.has("address"):
        out["bytes"] = panel.layout.bytes
        out["address"] = panel.values("address").tolist()
    for mode in modes:
        if panel.has(mode.of):
            out[mode.name] = mode.numbers(panel.values(mode.of)).tolist()
    return out


def _nth(n: int) -> str:
    return f"{n}{'th' if 10 < n % 100 < 14 else {1: 'st', 2: 'nd', 3: 'rd'}.get(n % 10, 'th')}"
