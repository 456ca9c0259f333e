"""The flight recorder's picture: tiles of a recorded run at one operation, the running rows, bytes so far by level, and how full on-chip memory is.

`Recorder(recording)` is a view: its text twin has a line for each (query block, key block); live, three sliders scrub the block, the step of the tile
loop and the operation inside it. All frames are made of a pool of parts, so that a run of hundreds of operations stays small.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ..model.recording import AFTER, BEFORE, OnChip, Op, Recording, Tile
from ..model.roles import INPUT, RESULT, ROW, WORK, Role
from ..model.values import show
from .recorder_film import Reel, film_of
from .recorder_parts import (
    BOTTOM,
    WIDTH,
    caption,
    curve_cursor,
    curves,
    heat_range,
    kib,
    level_bar,
    map_of_pairs,
    meter_frame,
    pair_cursor,
    row_strip,
    store_bar,
    tile_grid,
)
from .scene import AnyMark, Scene
from .view import View, picture, text_table

Slots = tuple[tuple[AnyMark, ...], ...]
GRID = ((12.0, 66.0), (226.0, 66.0), (440.0, 66.0), (12.0, 246.0), (226.0, 246.0), (440.0, 246.0))  # places of tiles, row by row
TILE = (202.0, 138.0)


@dataclass(frozen=True, eq=False)
class Recorder(View):
    """A recording, shown at one operation: `block` counts recorded blocks, `step` is the tile loop's value, `op` counts the step's operations.

    A negative `block` or `op` counts from the end; a step that the block does not run becomes its last one.
    """

    recording: Recording
    block: int = -1
    step: int | None = None
    op: int | None = None
    title: str = "flight recorder"

    # ------------------------------------------------------------------------------------------ where it stands
    @property
    def place(self) -> tuple[int, int, int]:
        """(block, step, operation) that the static picture shows: by default the second step of the longest walk, where its result is rescaled."""
        r = self.recording
        walks = [[s for s in r.steps(b) if s >= 0] for b in range(len(r.blocks))]
        block = max(range(len(walks)), key=lambda b: len(walks[b])) if self.block == -1 and self.step is None else self.block % len(walks)
        steps = walks[block] or list(r.steps(block))
        step = self.step if self.step in r.steps(block) else steps[-1] if self.step is not None else steps[:2][-1]
        ops = r.at(block, step)
        if self.op is not None:
            return block, step, self.op % len(ops)
        result = next((role.name for role in r.roles if role.kind == RESULT), "")
        return block, step, next((i for i, o in enumerate(ops) if result in o.writes), len(ops) - 1)

    # ------------------------------------------------------------------------------------------ numbers
    @property
    def data(self) -> list[dict[str, Any]]:
        """One dict for each step of each block: what its last operation left, and the bytes by then."""
        out = []
        for block, step, ops in self._steps():
            last = ops[-1]
            tiles = {name: {"low": t.low, "high": t.high, "mean": t.mean, "first": float(t.values.flat[0])} for name, t in last.tiles.items()}
            place = {"block": self.recording.blocks[block], "step": {BEFORE: "before", AFTER: "after"}.get(step, step)}
            out.append({**place, "operations": len(ops), "tiles": tiles, "bytes": dict(last.bytes), "live_bytes": self._most_live(ops)})
        return out

    def __str__(self) -> str:
        """A table with a line for each step: the first row's m and l, the range of each other computed tile, bytes so far by level."""
        r = self.recording
        shown = [role for role in r.roles if role.kind != INPUT]
        levels = list(r.totals)
        rows = []
        for block, step, ops in self._steps():
            tiles = [_summary(role, ops[-1].tiles.get(role.name)) for role in shown]
            rows.append(
                [
                    r.label(block).partition(":")[0].removeprefix("block "),
                    r.step_label(block, step),
                    *tiles,
                    *(show(ops[-1].bytes[level], "B") for level in levels),
                ]
            )
        heads = [f"{role.name}[0]" if role.kind == ROW else role.name for role in shown]
        lines = [f"{r.kernel}: {len(r.blocks)} of {r.blocks_run} recorded blocks, {len(r.ops)} tile operations, bytes by {r.report.machine.name}"]
        lines.append(text_table(["block", "step", *heads, *levels], rows, left=2))
        lines.append("bytes are so far, of the whole launch; those of caches are predicted: first touches as they came, the rest spread evenly")
        lines += [_store_line(s) for s in r.stores]
        if any(t.is_sampled for t in r.ops[-1].tiles.values()):
            lines.append("tiles are large: pictures show every n-th row and column; extremes and means are of all elements")
        return "\n".join(lines)

    def _steps(self) -> Iterator[tuple[int, int, tuple[Op, ...]]]:
        for block, table in enumerate(self._table):
            for step, ops in table.items():
                yield block, step, ops

    @staticmethod
    def _most_live(ops: tuple[Op, ...]) -> int:
        return max(sum(op.live_bytes.values()) for op in ops)

    # ------------------------------------------------------------------------------------------ picture
    def scene(self) -> Scene:
        """The picture at `place`."""
        marks = tuple(mark for slot in self.slots(*self.place) for mark in slot)
        return Scene(WIDTH, BOTTOM, marks, title=self._sentence(*self.place), text=str(self))

    def slots(self, block: int, step: int, number: int) -> Slots:
        """The marks of one frame, slot by slot. A slot that an earlier frame had already is the same tuple."""
        r, keep = self.recording, self._kept
        ops = self._table[block][step]
        op = ops[number]
        rows = [role for role in r.roles if role.kind == ROW]
        return (
            *caption(r.label(block), r.step_label(block, step), f"operation {number + 1} of {len(ops)}, {op.kind}: {op.line}"),
            *(self._tile(place, *shown, op) for place, shown in enumerate(self._shown(op, self._state_before(block, step)))),
            *(self._curves(block, role, i, len(rows)) for i, role in enumerate(rows)),
            *(row_strip(role, op.tiles.get(role.name), i, len(rows)) for i, role in enumerate(rows)),
            keep(("cursors", block, step), lambda: self._curve_cursors(block, step, len(rows))),
            keep(("map",), lambda: map_of_pairs(self._walks, r.loop)),
            keep(("pair", block, step), lambda: pair_cursor(self._walks, block, step)),
            keep(("meters",), lambda: meter_frame(r)),
            *(level_bar(r, i, op.bytes[level.name]) for i, level in enumerate(r.report.levels)),
            *(store_bar(store, i, op.live_bytes) for i, store in enumerate(r.stores)),
        )

    def _tile(self, place: int, role: Role, tile: Tile | None, words: str, op: Op) -> tuple[AnyMark, ...]:
        is_written = role.name in op.writes and not words
        # scores become probabilities in place, so a tile at work has a scale of its own each time
        span = heat_range([tile]) if role.kind == WORK and tile is not None else self._range[role.name]
        make = lambda: tile_grid(role, tile, span, (*GRID[place], *TILE), words, is_written=is_written)  # needs its arguments bound here
        return self._kept(("tile", place, role.name, id(tile), is_written), make)

    def _curves(self, block: int, role: Role, place: int, count: int) -> tuple[AnyMark, ...]:
        return self._kept(("curves", block, place), lambda: curves(role, self._history(block, role.name), place, count))

    def _kept(self, key: tuple[object, ...], make: Callable[[], tuple[AnyMark, ...]]) -> tuple[AnyMark, ...]:
        """The marks made for this key, made once. Tiles live as long as the recording, so their identities can be part of a key."""
        if key not in self._cache:
            self._cache[key] = make()
        return self._cache[key]

    @cached_property
    def _cache(self) -> dict[tuple[object, ...], tuple[AnyMark, ...]]:
        return {}

    @cached_property
    def _walks(self) -> tuple[tuple[int, ...], ...]:
        return tuple(tuple(table) for table in self._table)

    def _shown(self, op: Op, before: Mapping[str, Tile]) -> Iterator[tuple[Role, Tile | None, str]]:
        """The six places: inputs first, then tiles at work, then the result at the start of the step and now."""
        roles = self.recording.roles
        picked = [role for role in roles if role.kind in (INPUT, WORK)]
        results = [role for role in roles if role.kind == RESULT]
        room = len(GRID) - 2 * len(results[:1])
        if len(picked) > room:
            picked = [r for r in picked if r.name != "P"]
        for role in picked[:room]:
            yield role, op.tiles.get(role.name), ""
        for role in results[:1]:
            yield role, before.get(role.name), "when the step began"
            yield role, op.tiles.get(role.name), ""

    def _state_before(self, block: int, step: int) -> Mapping[str, Tile]:
        """The tiles as the step found them."""
        steps = [*self._table[block]]
        place = steps.index(step)
        return self._table[block][steps[place - 1]][-1].tiles if place else {}

    def _history(self, block: int, role: str) -> tuple[tuple[int, Tile], ...]:
        """What a row tile held at the end of each step of the walk."""
        ends = [(s, self._table[block][s][-1].tiles.get(role)) for s in self._table[block] if s >= 0]
        return tuple((s, tile) for s, tile in ends if tile is not None)

    def _curve_cursors(self, block: int, step: int, rows: int) -> tuple[AnyMark, ...]:
        from_loop = [s for s in self._table[block] if s >= 0]
        return tuple(m for i in range(rows) for m in curve_cursor(from_loop, step, i, rows))

    @cached_property
    def _table(self) -> tuple[dict[int, tuple[Op, ...]], ...]:
        """Of each block the operations of each step, in order."""
        tables: tuple[dict[int, list[Op]], ...] = tuple({} for _ in self.recording.blocks)
        for op in self.recording.ops:
            tables[op.block].setdefault(op.step, []).append(op)
        return tuple({step: tuple(ops) for step, ops in table.items()} for table in tables)

    @cached_property
    def _range(self) -> dict[str, tuple[float, float]]:
        """The colour scale of each role, the same in every frame."""
        return {role.name: heat_range([op.tiles[role.name] for op in self.recording.ops if role.name in op.tiles]) for role in self.recording.roles}

    def _sentence(self, block: int, step: int, number: int) -> str:
        op = self.recording.at(block, step)[number]
        return f"{self.recording.kernel}, {self.recording.label(block)}, {self.recording.step_label(block, step)}, {op.kind}: {op.line}"

    def png(self, theme: str = "light", scale: float = 1.0) -> bytes:
        """The picture as PNG bytes; `scale` 2 for print."""
        return self.scene().png(theme, scale)

    def html(self) -> str:
        """The picture, in pixels of the screen: it has many words, and an output should stay small."""
        return f'<div style="max-width: 100%">{picture(self.scene(), alt=self._sentence(*self.place), scale=1.0)}</div>'

    # ------------------------------------------------------------------------------------------ live
    def live(self) -> dict[str, Any]:
        """The scene of every operation, packed; see `recorder_film`."""
        r = self.recording
        reel = Reel(
            self._walks,
            r.label,
            r.step_label,
            lambda block, step: [f"{n + 1}. {op.kind}: {op.line}" for n, op in enumerate(self._table[block][step])],
            self.slots,
        )
        film = film_of(reel, self.place)
        is_attention = r.roles[0].name == "Q"
        return {
            "module": "recorder", "title": f"{self.title}: {r.kernel}", "text": str(self), "details": {}, "note": film.note,
            "scene": {"width": WIDTH, "height": BOTTOM, "title": self.title, "marks": []}, "film": film.packed, "at": list(film.at),
            "names": ["query block", "key block", "operation"] if is_attention else ["block", "step", "operation"],
        }  # fmt: skip


def _summary(role: Role, tile: Tile | None) -> str:
    if tile is None:
        return "-"
    if role.kind == ROW:
        return f"{tile.values.flat[0]:.4g}"
    return f"{tile.low:.3g} to {tile.high:.3g}" + (f", {tile.bad} bad" if tile.bad else "")


def _store_line(store: OnChip) -> str:
    verdict = "fits" if store.fits else "does not fit"
    return f"{store.name}: a block takes {kib(store.need_bytes)} of {kib(store.capacity_bytes)} {store.capacity}: {verdict}"
