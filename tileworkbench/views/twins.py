"""Every stage of a kernel side by side: one line lights its twins in all of them.

    view = twins(kernel, kernel.report())
    print(view)                      # each line of yours: what it costs, and which lines of each stage it became
    view.save("gemm.html")

The gutter of the tile program shows each line's FLOP and bytes, as `report.by_line()` gives them, and how many instructions of a GPU it became.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from textwrap import dedent
from typing import Any

from ..base.span import Span
from ..model.report import LineUse, Report
from ..model.values import show
from ..runtime.assembly import vector_bytes
from ..runtime.kernel import JITKernel
from ..runtime.sass import LANGUAGE, STAGE
from ..runtime.sass_kinds import KINDS, OTHER, SYNC, kind_of, kinds_by_line, told
from ..runtime.stages import Stage, key_of, stages_of
from .marks import AnyMark, Rect, Text
from .scene import Scene
from .source import BOX, LEGEND, PRE, listing_html, tints_of
from .view import View, escape, table, text_table
from .widths import MONO_WIDTH

STATIC_LINES = 60  # of a generated stage in the static picture; the live view and `print` hold all
SCENE_LINES, SCENE_COLUMNS, FONT = 44, 66, 10.0


@dataclass(frozen=True, slots=True)
class Twins(View):
    """The stages of a kernel. `uses` are the costs of the author's lines; `levels` those whose bytes are predicted, fastest first."""

    kernel: str
    stages: tuple[Stage, ...]
    uses: tuple[LineUse, ...] = ()
    levels: tuple[str, ...] = ()
    _became: dict[str, dict[str, list[int]]] = field(init=False, repr=False, compare=False)  # author's line -> stage -> its lines there
    _kinds: dict[str, dict[str, int]] = field(init=False, repr=False, compare=False)  # author's line -> kind of instruction -> how many

    def __post_init__(self) -> None:
        found: dict[str, dict[str, list[int]]] = {}
        for stage in self.stages:
            for line, spans in sorted(stage.twins.items()):
                for key in _keys(spans):
                    found.setdefault(key, {}).setdefault(stage.name, []).append(stage.number(line))
        object.__setattr__(self, "_became", found)
        object.__setattr__(self, "_kinds", next((kinds_by_line(s) for s in self.stages if s.language == LANGUAGE and s.text), {}))

    @property
    def vectors(self) -> dict[str, int]:
        """The widest vector instruction of each author's line, in bytes; lines without one are absent, and so are targets without assembly."""
        out: dict[str, int] = {}
        for stage in (s for s in self.stages if s.language == "gas"):
            for line, spans in stage.twins.items():
                if size := vector_bytes(stage.lines[line - 1]):
                    out.update({key: max(size, out.get(key, 0)) for key in _keys(spans)})
        return out

    @property
    def instructions(self) -> dict[str, dict[str, int]]:
        """The instructions of a GPU's machine code by author's line and kind, as they stand in the text; "" has those of no line. Else empty."""
        return self._kinds

    @property
    def title(self) -> str:  # type: ignore[override]  # a constant in the base
        return f"{self.kernel}: source in {len([s for s in self.stages if s.text])} stages"

    @property
    def data(self) -> dict[str, Any]:
        """`stages`, each with its lines and the author's lines behind them; `costs`, `vectors` and `instructions` by author's line."""
        return {
            "stages": [
                {
                    "name": s.name,
                    "language": s.language,
                    "why": s.why,
                    "about": list(s.about),
                    "lines": [{"line": s.number(i), "text": text, "twins": _keys(s.twins.get(i, ()))} for i, text in enumerate(s.lines, 1)],
                }
                for s in self.stages
            ],
            "costs": {key: {"flops": u.flops, "asked_bytes": u.asked_bytes, "bytes": dict(u.bytes)} for key, u in self._costs.items()},
            "vectors": self.vectors,
            "instructions": self.instructions,
        }

    def of_line(self, key: str) -> dict[str, list[int]]:
        """The lines of each stage that come from the author's line `key` ("gemm.py:54")."""
        return self._became.get(key, {})

    def __str__(self) -> str:
        program, *others = self.stages
        names = [s.name for s in others if s.text]
        rows = []
        for i, text in enumerate(program.lines, 1):
            key = next(iter(_keys(program.twins.get(i, ()))), "")
            found = self.of_line(key) if key else {}
            rows.append([str(program.number(i)), _cut(text, 60), *self._gutter(key), *(_ranges(found.get(name, [])) for name in names)])
        out = [f"{self.title}: your line, its FLOP and bytes, and the lines that it became"]
        out.append(text_table(["line", "tile program", *self._heads, *names], rows, left=2))
        out += [f"{s.name} of {line}" for s in self.stages for line in s.about]
        if made := self._instruction_table:
            out += ["", "instructions of each line, as they stand in the text", text_table(*made)]
        return "\n".join([*out, *(f"no {s.name}: {s.why}" for s in self.stages if s.why)])

    @property
    def _instruction_table(self) -> tuple[list[str], list[list[str]]] | None:
        """A row for each author's line that became machine code, then the others, then all; a column for each kind that there is."""
        found = self.instructions
        if not found:
            return None
        kinds = [k for k in KINDS if any(k in own for own in found.values())]
        lines = [*(key for key in dict.fromkeys(_keys(self._spans)) if key in found), *([""] if "" in found else [])]
        rows = [[key or "of no line", *(str(found[key].get(k, "-")) for k in kinds), str(sum(found[key].values()))] for key in lines]
        sums = [sum(own.get(k, 0) for own in found.values()) for k in kinds]
        return ["line", *kinds, "all"], [*rows, ["all", *map(str, sums), str(sum(sums))]]

    def html(self) -> str:
        tints = tints_of(self._spans)
        wide = ["flex: 1 1 560px; min-width: 0"] + ["flex: 1 1 340px; min-width: 0"] * len(self.stages)
        columns = [f'<div style="{wide[i]}">{self._column(s, tints, i == 0)}</div>' for i, s in enumerate(self.stages)]
        head = f'<div style="font-weight: 600; margin: 2px 0">{escape(self.title)}</div>'
        made, below = self._instruction_table, ""
        if made is not None:
            rows = [[escape(cell) for cell in row] for row in made[1]]
            below = f'<div style="overflow-x: auto">{table(made[0], rows, caption="instructions of each line, as they stand in the text")}</div>'
        return f'{head}<div style="display: flex; flex-wrap: wrap; gap: 8px; align-items: flex-start">{"".join(columns)}</div>{below}'

    def _column(self, stage: Stage, tints: dict[tuple[str, int], str], is_program: bool) -> str:
        head = f"{escape(stage.name)}, {len(stage.lines)} lines" if stage.text else f"{escape(stage.name)}: {escape(stage.why)}"
        if is_program:
            head += "".join(f", {h}" for h in self._heads)
        about = "".join(f"<div>{escape(line)}</div>" for line in stage.about)
        legend = f'<div style="{LEGEND}">{head}{about}</div>'
        if not stage.text:
            return f'<div style="{BOX}">{legend}</div>'
        first = _window(stage, STATIC_LINES)
        rows = dedent("\n".join(stage.lines)).split("\n")[first - 1 : first - 1 + STATIC_LINES]

        def gutter(line: int) -> str:
            words = self._gutter(next(iter(_keys(stage.twins.get(line, ()))), ""))
            return f' <span style="opacity: 0.72">{"".join(f"{w:>9}" for w in words)}</span>'

        listing = listing_html(
            rows, stage.twins, tints, stage.language, first=first, number=stage.number, show_own=not is_program,
            gutter=gutter if is_program and self._heads else lambda line: "",
        )  # fmt: skip
        cut = len(stage.lines) - len(rows)
        return f'<div style="{BOX}">{legend}<pre style="{PRE}">{listing}</pre></div>' + (
            f"<small>{cut} lines are not shown here</small>" if cut else ""
        )

    def live(self) -> dict[str, Any]:
        """For source.js: `keys` are the author's lines; a stage's `twins` are positions in `keys` (a number, a list, or -1)."""
        keys, vectors = list(dict.fromkeys(_keys(self._spans))), self.vectors
        place = {key: i for i, key in enumerate(keys)}

        def twins_of(spans: tuple[Span, ...]) -> int | list[int]:
            found = [place[k] for k in _keys(spans)]
            return found[0] if len(found) == 1 else found or -1

        return {
            "module": "source",
            "title": self.title,
            "text": str(self),
            "keys": keys,
            "heads": self._heads,
            "kinds": list(KINDS),
            "costs": [
                {"gutter": self._gutter(key), "words": self._words(key) + (f"; vectors of {vectors[key]} bytes" if key in vectors else "")}
                for key in keys
            ],
            "stages": [
                {
                    "name": s.name,
                    "language": s.language,
                    "text": s.text,
                    "why": s.why,
                    "about": list(s.about),
                    "kinds": [KINDS.index(kind) if (kind := kind_of(line)) else -1 for line in s.lines] if s.language == LANGUAGE else [],
                    "start": s.start,
                    "numbers": list(s.numbers),
                    "twins": [twins_of(s.twins.get(i, ())) for i in range(1, len(s.lines) + 1)],
                }
                for s in self.stages
            ],
        }

    def scene(self) -> Scene:
        """The tile program, the lowered IR and the first lines of the emitted text that come from it; a bar of one colour for one author's line."""
        shown = [s for s in self.stages if s.text and s.name in ("tile program", "lowered IR")] or [s for s in self.stages if s.text][:2]
        shown += [s for s in self.stages if s.text and s not in shown and s.name not in ("tile IR",)][:1]
        colour = {key: f"s{i % 6}" for i, key in enumerate(dict.fromkeys(_keys(self._spans)))}
        marks: list[AnyMark] = []
        left, deepest = 12.0, 0
        for stage in shown:
            is_program = stage is self.stages[0]
            first = _window(stage, SCENE_LINES)
            rows = stage.lines[first - 1 : first - 1 + SCENE_LINES]
            indent = min((len(r) - len(r.lstrip()) for r in rows if r.strip()), default=0)
            marks.append(Text(left, 15, stage.name + (f", from line {first} of {len(stage.lines)}" if first > 1 else ""), 11, is_bold=True))
            if is_program:
                marks.append(Text(left + 40, 28, "".join(f"{w:>9}" for w in self._heads), FONT, "accent", is_mono=True))
            for i, row in enumerate(rows):
                keys = _keys(stage.twins.get(first + i, ()))
                y = 40 + 14 * i
                if keys:
                    tip = f"{keys[0]}: {self._words(keys[0])}"
                    marks.append(Rect(left, y - 10, 4, 13, fill=colour[keys[0]], key=keys[0], tip=tip))
                marks.append(Text(left + 8, y, f"{stage.number(first + i):>4}", FONT, "faint", is_mono=True))
                if is_program and self._heads:
                    marks.append(Text(left + 40, y, "".join(f"{w:>9}" for w in self._gutter(keys[0] if keys else "")), FONT, "accent", is_mono=True))
                marks.append(Text(left + 40 + self._gutter_width(is_program), y, _cut(row[indent:], SCENE_COLUMNS), FONT, is_mono=True))
            deepest = max(deepest, len(rows))
            wide = max((min(len(r) - indent, SCENE_COLUMNS) for r in rows), default=10)
            left += 56 + self._gutter_width(is_program) + wide * FONT * MONO_WIDTH
        return Scene(left, 50 + 14 * deepest, tuple(marks), title=self.title, text=str(self))

    # ------------------------------------------------------------------------------------------ words
    @property
    def _spans(self) -> list[Span]:
        program = [s for _, spans in sorted(self.stages[0].twins.items()) for s in spans] if self.stages else []
        return [*program, *(s for stage in self.stages[1:] for _, spans in sorted(stage.twins.items()) for s in spans)]

    @property
    def _costs(self) -> dict[str, LineUse]:
        return {key_of(u.span): u for u in self.uses if u.span is not None}

    @property
    def _heads(self) -> list[str]:
        return ["FLOP", "asked", *(f"~{name}" for name in self.levels[-1:])] * bool(self.uses) + ["instr"] * bool(self._kinds)

    def _gutter_width(self, is_program: bool) -> float:
        return (9 * len(self._heads) + 2) * FONT * MONO_WIDTH if is_program and self._heads else 0.0

    def _gutter(self, key: str) -> list[str]:
        """FLOP, bytes asked, bytes predicted at the last level, and instructions of a GPU; empty for a line that does nothing."""
        use, count = self._costs.get(key), sum(self._kinds.get(key, {}).values() if key else ())
        own = [str(count or "")] * bool(self._kinds)
        if use is None:
            return [""] * (len(self._heads) - len(own)) + own
        amounts = [use.asked_bytes, *(use.bytes.get(name, 0.0) for name in self.levels[-1:])]
        return [show(use.flops, "").strip() if use.flops else "-", *(show(n, "B") if n else "-" for n in amounts), *own]

    def _words(self, key: str) -> str:
        """One line about an author's line: its cost, and what it became."""
        use = self._costs.get(key)
        parts = []
        if use is not None:
            parts = [show(use.flops, "FLOP")] if use.flops else []
            parts.append(f"{show(use.asked_bytes, 'B')} asked by its tile operations")
            parts += [f"~{show(use.bytes[name], 'B')} at {name}" for name in self.levels if use.bytes.get(name)]
        if kinds := self.instructions.get(key):
            parts.append(f"{STAGE}: {told(kinds)}")
        became = [f"{len(lines)} of {name}" for name, lines in self.of_line(key).items() if name != self.stages[0].name]
        return ", ".join(parts) + ("; " if parts and became else "") + (f"lines: {', '.join(became)}" if became else "")


def twins(kernel: JITKernel, report: Report | None = None, *, machine_code: bool = True) -> Twins:
    """The stages of `kernel`, with the costs of `report` in the gutter. Without `machine_code` no compiler runs."""
    stages = stages_of(kernel, machine_code=machine_code)
    if report is None:
        return Twins(kernel.name, stages)
    uses = report.by_line()
    return Twins(kernel.name, stages, uses, tuple(uses[0].bytes) if uses else ())


def _keys(spans: Iterable[Span]) -> list[str]:
    return list(dict.fromkeys(key_of(s) for s in spans))


def _window(stage: Stage, size: int) -> int:
    """The line from which `size` lines show the most of the author's lines: behind a long prelude of helpers, and where instructions do the work."""
    rows = stage.lines
    if len(rows) <= size:
        return 1
    shown = {i: _keys(spans) for i, spans in stage.twins.items() if i >= stage.start}
    if stage.language == LANGUAGE:
        shown = {i: keys for i, keys in shown.items() if kind_of(rows[i - 1]) not in (SYNC, OTHER)} or shown
    starts = [1, *(max(1, i - 1) for i in shown if i + size - 2 <= len(rows)), len(rows) - size + 1]
    return max(sorted(set(starts)), key=lambda first: len({k for i in range(first, first + size) for k in shown.get(i, ())}))


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"


def _ranges(lines: list[int]) -> str:
    """Line numbers as ranges: 3-5,9."""
    out: list[list[int]] = []
    for line in lines:
        if out and line == out[-1][1] + 1:
            out[-1][1] = line
        else:
            out.append([line, line])
    words = [str(a) if a == b else f"{a}-{b}" for a, b in out]
    return ",".join(words[:3]) + (f",… ({len(lines)})" if len(words) > 3 else "")
