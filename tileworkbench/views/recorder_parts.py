"""The parts of the flight recorder's picture, each a function from values to marks."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from ..model.recording import AFTER, BEFORE, OnChip, Recording, Tile
from ..model.roles import Role
from ..model.values import show
from .scene import AnyMark, Cells, Dot, Path, Rect, Text
from .theme import HEATS

Marks = tuple[AnyMark, ...]
WIDTH, BOTTOM = 940.0, 548.0
SIDE = 668.0  # left edge of the right column
SIDE_WIDTH = 260.0
CURVES = (12.0, 440.0, 630.0, 92.0)  # x, y, width of all, height
PALETTE = (*(f"heat{i}" for i in range(HEATS)), "unused", "warning")
NOTHING, BAD = HEATS, HEATS + 1  # palette places of -infinity (a masked score, a maximum of nothing), and of NaN and +infinity
PAIR_LIMIT = 16  # more blocks or steps than this: the map is one image
SHAPES = ("circle", "square", "triangle", "diamond")


def caption(block: str, step: str, operation: str) -> tuple[Marks, Marks]:
    """Where the recording stands, in words: the pair, and the operation."""
    pair = Text(12, 18, block, 13, is_bold=True), Text(12 + 7.6 * len(block) + 20, 18, step, 13)
    return pair, (Text(12, 38, operation if len(operation) < 118 else f"{operation[:115]}...", 11.5, colour="faint", is_mono=True),)


# ---------------------------------------------------------------------------------------------- tiles
def heat_range(tiles: Sequence[Tile]) -> tuple[float, float]:
    """The least and the largest finite value of some tiles; (0, 1) of none."""
    low, high = min((t.low for t in tiles), default=0.0), max((t.high for t in tiles), default=1.0)
    return (low, high) if high > low else (low, low + 1)


def tile_grid(
    role: Role, tile: Tile | None, span: tuple[float, float], box: tuple[float, float, float, float], words: str, *, is_written: bool
) -> Marks:
    """A tile as a heat grid with its name and extremes; numbers in the cells where there is room. `words` say when, if not now."""
    x, y, width, height = box
    name = f"{role.name} {words}".strip()
    if tile is None:
        frame = Rect(x, y, width, height, stroke="grid", hatch="grid", tip=f"{name}: not written yet")
        return Text(x, y - 6, name, 12, colour="faint", is_bold=True), frame
    rows, columns = tile.values.shape
    size = " x ".join(map(str, tile.shape))
    places = bytes(_place(v, span) for v in tile.values.flat)
    digits = tuple(_tiny(v) for v in tile.values.flat) if columns <= 8 and rows <= 8 else ()
    tip = f"{role.name} is {tile}" + (f"\n{words}" if words else "\nwritten by this operation" if is_written else "")
    note = f"every {_stride(tile.rows)}. row, {_stride(tile.columns)}. column" if tile.is_sampled and not words else size
    colour, wide = ("accent", 2.4) if is_written else ("faint", 1.0)
    key = "" if words else f"tile:{role.name}"
    edge = Rect(x - 1.5, y - 1.5, width + 3, height + 3, stroke=colour if is_written else "grid", stroke_width=wide, key=key, tip=tip)
    return (
        Text(x, y - 6, name, 12, colour="accent" if is_written else "text", is_bold=True),
        *((Text(x + width, y - 6, "written now" if is_written else note, 10, colour=colour, anchor="end"),) if not words else ()),
        edge,
        Cells(x, y, width, height, rows, columns, PALETTE, places, digits, tip=tip),
        Text(x, y + height + 14, f"{short(tile.low)} to {short(tile.high)}, mean {short(tile.mean)}", 10, colour="faint"),
        *((Text(x + width, y + height + 14, f"{tile.bad} not finite", 10, colour="warning", anchor="end", is_bold=True),) if tile.bad else ()),
    )


def _place(value: float, span: tuple[float, float]) -> int:
    """The colour of a value: a heat, or one of the two that stand for no finite number."""
    if value == -math.inf:
        return NOTHING
    if not math.isfinite(value):
        return BAD
    low, high = span
    return min(HEATS - 1, max(0, int((value - low) / (high - low) * HEATS)))


def short(value: float) -> str:
    """A number in at most five characters, as far as it can be.

    >>> [short(v) for v in (0.0, -0.534, 12.34, -123.4, 0.004, float("-inf"), 1234567.0)]
    ['0', '-.53', '12', '-123', '4e-3', '-∞', '1e6']
    """
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "∞" if value > 0 else "-∞"
    size = abs(value)
    if size == 0:
        return "0"
    if size < 0.0095 or size >= 9999.5:
        mantissa, _, power = f"{value:.0e}".partition("e")
        return f"{mantissa}e{int(power)}"
    text = f"{value:.{2 if size < 0.995 else 1 if size < 9.95 else 0}f}"
    return text.replace("0.", ".", 1) if size < 0.995 else text


def _tiny(value: float) -> str:
    """A number in four characters, for a cell."""
    return "0" if abs(value) < 0.005 else short(value)


def _stride(kept: tuple[int, ...]) -> int:
    return kept[1] - kept[0] if len(kept) > 1 else 1


# ---------------------------------------------------------------------------------------------- running rows
def _curve_box(place: int, count: int) -> tuple[float, float, float, float]:
    x, y, width, height = CURVES
    each = (width - 24 * (count - 1)) / max(count, 1)
    return x + place * (each + 24), y, each, height


def row_strip(role: Role, now: Tile | None, place: int, count: int) -> Marks:
    """Every row of a running vector as it is now."""
    x, y, width, _ = _curve_box(place, count)
    if now is None:
        return ()
    strip = bytes(_place(v, heat_range([now])) for v in now.values.flat)
    return (Cells(x + width - 120, y - 18, 120, 12, 1, now.values.size, PALETTE, strip, tip=f"{role.name} is {now}"),)


def curves(role: Role, history: tuple[tuple[int, Tile], ...], place: int, count: int) -> Marks:
    """A running row over the steps of a walk: one curve for each of three rows."""
    x, y, width, height = _curve_box(place, count)
    name = {"m": "m, the running maximum", "l": "l, the running sum"}.get(role.name, role.name)
    marks: list[AnyMark] = [Text(x, y - 8, name, 12, is_bold=True)]
    low, high = heat_range([tile for _, tile in history])
    marks.append(Rect(x, y, width, height, stroke="grid"))
    marks += [Text(x + 3, y + 11, short(high), 9.5, colour="faint"), Text(x + 3, y + height - 4, short(low), 9.5, colour="faint")]
    if not history:
        return tuple(marks)
    rows = history[0][1].values.size
    for k, row in enumerate(dict.fromkeys((0, rows // 2, rows - 1))):
        points = [(_step_x(i, len(history), x, width), _y(tile.values.flat[row], low, high, y, height)) for i, (_, tile) in enumerate(history)]
        drawn = tuple((a, b) for a, b in points if math.isfinite(b))
        values = ", ".join(f"{step}: {tile.values.flat[row]:.4g}" for step, tile in history)
        marks.append(Path(drawn, stroke=f"s{k}", width=1.6))
        number = history[0][1].columns[row]
        marks += [Dot(a, b, 3.2, SHAPES[k], f"s{k}", tip=f"{role.name}[{number}] after each step\n{values}") for a, b in drawn]
        marks.append(Text(x + width - 4, y + height - 5 - 12 * k, f"row {number}", 9.5, colour=f"s{k}", anchor="end"))
    return tuple(marks)


def curve_cursor(steps: Sequence[int], step: int, place: int, count: int) -> Marks:
    """A line at the current step."""
    if step not in steps:
        return ()
    x, y, width, height = _curve_box(place, count)
    at = _step_x(list(steps).index(step), len(steps), x, width)
    return (Path(((at, y), (at, y + height)), stroke="selected", width=1.4, dash=(3, 3)),)


def _step_x(i: int, count: int, x: float, width: float) -> float:
    return x + 34 + (width - 90) * (i / (count - 1) if count > 1 else 0.5)


def _y(value: float, low: float, high: float, y: float, height: float) -> float:
    return y + height - 10 - (height - 20) * (float(value) - low) / (high - low)


# ---------------------------------------------------------------------------------------------- pairs
def map_of_pairs(walks: Sequence[Sequence[int]], loop: str) -> Marks:
    """Which (block, step) pairs run: a causal kernel leaves some out."""
    rows, columns = len(walks), max((0, *(s for walk in walks for s in walk))) + 1
    wide, high = _pair_size(rows, columns)
    marks: list[AnyMark] = [Text(SIDE, 60, f"block (down) x {loop or 'step'} (across)", 12, is_bold=True)]
    if max(rows, columns) > PAIR_LIMIT:
        index = bytes(1 if s in walk else 0 for walk in walks for s in range(columns))
        tip = f"{sum(index)} of {rows * columns} pairs run"
        return (*marks, Cells(SIDE, 70, wide * columns, high * rows, rows, columns, ("surface", "heat3"), index, tip=tip))
    for row, walk in enumerate(walks):
        for column in range(columns):
            box = SIDE + column * wide, 70 + row * high, wide - 2, high - 2
            runs = column in walk
            tip = f"block {row}, {loop or 'step'} {column}: {'runs' if runs else 'skipped'}"
            marks.append(
                Rect(*box, fill="heat3" if runs else "surface", stroke="none" if runs else "grid", radius=2, key=f"pair:{row}:{column}", tip=tip)
            )
    return tuple(marks)


def pair_cursor(walks: Sequence[Sequence[int]], block: int, step: int) -> Marks:
    """A frame around the pair that is shown; around the whole block before and behind its loop."""
    rows, columns = len(walks), max((0, *(s for walk in walks for s in walk))) + 1
    wide, high = _pair_size(rows, columns)
    x, width = (SIDE, wide * columns) if step in (BEFORE, AFTER) else (SIDE + step * wide, wide)
    return (Rect(x - 2, 68 + block * high, width + 2, high + 2, stroke="selected", stroke_width=2.4, radius=3),)


def _pair_size(rows: int, columns: int) -> tuple[float, float]:
    return min(34.0, SIDE_WIDTH / columns), min(24.0, 128 / rows)


# ---------------------------------------------------------------------------------------------- bytes and capacity
def meter_frame(recording: Recording) -> Marks:
    """What of the meters stays the same in every frame: names, totals, capacities."""
    name = recording.report.machine.name.partition("(")[0].strip()
    marks: list[AnyMark] = [Text(SIDE, 228, f"bytes so far, {name}", 12, is_bold=True)]
    for i, level in enumerate(recording.report.levels):
        y, kind = 238 + 36 * i, "counted" if level.is_counted else "predicted: first touches as they came, the rest spread evenly"
        tip = f"{level.name}: {show(level.bytes, 'B')} in the whole launch, {kind}"
        marks += [
            Text(SIDE, y + 11, level.name, 11, is_bold=True),
            Text(SIDE + SIDE_WIDTH, y + 11, f"of {'' if level.is_counted else '~'}{show(level.bytes, 'B')}", 11, anchor="end"),
            Rect(SIDE, y + 16, SIDE_WIDTH, 9, fill="surface", stroke="grid", radius=2, key=f"level:{level.name}", tip=tip),
        ]
    marks.append(Text(SIDE, 416, "on chip, one block", 12, is_bold=True))
    for i, store in enumerate(recording.stores):
        y, end = 424 + 56 * i, _end(store)
        limit = SIDE + SIDE_WIDTH * store.capacity_bytes / end
        tip = f"{store.name}: a block takes {kib(store.need_bytes)} of {kib(store.capacity_bytes)}, {store.capacity}"
        need = SIDE_WIDTH * store.need_bytes / end
        words = f"needs {kib(store.need_bytes)} of {kib(store.capacity_bytes)}: {'fits' if store.fits else 'does not fit'}"
        marks += [
            Text(SIDE, y + 11, store.name, 11, is_bold=True),
            Rect(SIDE, y + 16, SIDE_WIDTH, 12, fill="surface", stroke="grid", radius=2, key=f"store:{store.name}", tip=tip),
            Rect(SIDE, y + 16, need, 12, stroke="faint" if store.fits else "warning", hatch="faint" if store.fits else "warning"),
            Path(((limit, y + 13), (limit, y + 31)), stroke="text" if store.fits else "warning", width=2),
            Text(SIDE, y + 42, words, 10, colour="faint" if store.fits else "warning"),
        ]  # fmt: skip
    return tuple(marks)


def level_bar(recording: Recording, place: int, done: float) -> Marks:
    """Bytes so far at one level."""
    level, y = recording.report.levels[place], 238 + 36 * place
    colour = level.name if level.name in ("shared", "L1", "L2", "L3", "DRAM") else "s7"
    width = SIDE_WIDTH * (done / level.bytes if level.bytes else 0)
    return Text(SIDE + 128, y + 11, f"{'' if level.is_counted else '~'}{show(done, 'B')}", 11, anchor="end"), Rect(
        SIDE, y + 16, width, 9, fill=colour
    )


def store_bar(store: OnChip, place: int, live: Mapping[str, int]) -> Marks:
    """On-chip bytes of a block that are in use now."""
    y, used = 424 + 56 * place, sum(live.get(scope, 0) for scope in store.scopes)
    width = SIDE_WIDTH * used / _end(store)
    fill = "registers" if store.name == "registers" else "shared"
    return Text(SIDE + SIDE_WIDTH, y + 11, f"{kib(used)} in use", 11, anchor="end"), Rect(SIDE, y + 16, width, 12, fill=fill)


def _end(store: OnChip) -> int:
    return max(store.need_bytes, store.capacity_bytes) or 1


def kib(size: float) -> str:
    """A capacity in binary units.

    >>> kib(512), kib(232448), kib(2097152)
    ('512 B', '227 KiB', '2 MiB')
    """
    if size < 1024:
        return f"{size:.0f} B"
    return f"{size / 1024:.3g} KiB" if size < 1000 * 1024 else f"{size / 1024**2:.3g} MiB"
