"""The way from tile IR to lowered IR, pass by pass: what each one is for, why it stands there, what it changed, and how long it took.

view = pass_diff(kernel)
print(view)                      # every pass that changed something, as a unified diff
view.data[4]["because"]
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..ir.printer import print_kernel
from ..runtime.executable import PassRecord
from ..runtime.kernel import JITKernel
from .marks import AnyMark, Rect, Text
from .scene import Scene
from .source import BOX, LEGEND, PRE
from .view import View, escape
from .widths import MONO_WIDTH

CONTEXT = 2  # unchanged lines shown around a change
FONT = 10.5
COLUMNS = 110
ADDED, REMOVED = "rgba(46, 160, 67, 0.22)", "rgba(248, 81, 73, 0.2)"


@dataclass(frozen=True, slots=True)
class Change:
    """One pass. `lines` is the diff: each line begins with "+", "-", " ", or "…" for a stretch that is left out; empty when nothing changed."""

    name: str
    about: str
    because: str
    ms: float
    lines: tuple[str, ...]

    @property
    def added(self) -> int:
        return sum(line.startswith("+") for line in self.lines)

    @property
    def removed(self) -> int:
        return sum(line.startswith("-") for line in self.lines)

    @property
    def summary(self) -> str:
        """What it did, in a word: "+12 -3", or "unchanged"."""
        return f"+{self.added} -{self.removed}" if self.lines else "unchanged"


@dataclass(frozen=True, slots=True)
class PassDiff(View):
    """Every pass of one compilation, in order."""

    kernel: str
    changes: tuple[Change, ...]

    @property
    def title(self) -> str:  # type: ignore[override]  # a constant in the base
        return f"{self.kernel}: {len(self.changes)} passes, {sum(bool(c.lines) for c in self.changes)} of them changed it"

    @property
    def data(self) -> list[dict[str, Any]]:
        """One record for each pass."""
        return [
            {"pass": c.name, "about": c.about, "because": c.because, "ms": c.ms, "added": c.added, "removed": c.removed, "diff": list(c.lines)}
            for c in self.changes
        ]

    def __str__(self) -> str:
        out = [self.title]
        for number, c in enumerate(self.changes, 1):
            out.append(f"\n{number}. {c.name}: {c.summary}, {c.ms:.2f} ms. {c.about}")
            if c.because:
                out.append(f"   here because: {c.because}")
            out += [f"   {line}" for line in c.lines]
        return "\n".join(out)

    def html(self) -> str:
        parts = [f'<div style="font-weight: 600; margin: 2px 0">{escape(self.title)}</div>']
        for i, c in enumerate(self.changes, 1):
            why = f'<div style="{LEGEND}">{escape(_reason(c))}</div>'
            head = f"{i}. {escape(c.name)}: {c.summary}, {c.ms:.2f} ms"
            if not c.lines:
                parts.append(f'<div style="opacity: 0.72; font-size: 12.5px; padding: 2px 0">{head} · {escape(c.about)}</div>')
                continue
            rows = "\n".join(_row(line) for line in c.lines)
            parts.append(
                f'<details><summary style="cursor: pointer">{head}</summary><div style="{BOX}">{why}<pre style="{PRE}">{rows}</pre></div></details>'
            )
        return "".join(parts)

    def scene(self) -> Scene:
        """The last pass that changed something; the live view walks through all."""
        changed = [i for i, c in enumerate(self.changes) if c.lines]
        return (
            self._scene(changed[-1]) if changed else Scene(360, 40, (Text(12, 24, "no pass changed the kernel"),), title=self.title, text=str(self))
        )

    def live(self) -> dict[str, Any]:
        """For passes.js: the passes as text, so that a reader can search and copy them."""
        records = [{**record, "reason": _reason(c), "summary": c.summary} for record, c in zip(self.data, self.changes, strict=True)]
        return {"module": "passes", "title": self.title, "text": str(self), "passes": records}

    def _scene(self, number: int) -> Scene:
        change = self.changes[number]
        marks: list[AnyMark] = [
            Text(12, 22, f"{number + 1}. {change.name}: {change.summary}, {change.ms:.2f} ms", 12, is_bold=True),
            Text(12, 40, _reason(change), 11, "faint"),
        ]
        wide = max((len(line[:COLUMNS]) for line in change.lines), default=20) * FONT * MONO_WIDTH + 24
        for i, line in enumerate(change.lines):
            y = 62 + 15 * i
            colour = {"+": "good", "-": "warning"}.get(line[0], "")
            if colour:
                marks.append(Rect(8, y - 11, wide - 8, 15, fill=colour, opacity=0.16))
            marks.append(Text(12, y, line[:COLUMNS], FONT, "text" if colour else "faint", is_mono=True))
        return Scene(max(wide + 8, 620), 72 + 15 * len(change.lines), tuple(marks), title=self.title, text=str(self))


def pass_diff(kernel: JITKernel) -> PassDiff:
    """The passes of a compiled kernel."""
    return PassDiff(kernel.name, tuple(change_of(record) for record in kernel.passes))


def change_of(record: PassRecord) -> Change:
    """One pass as a diff of the texts before and after it."""
    lines: tuple[str, ...] = ()
    if record.changed:
        lines = folded(print_kernel(record.before).splitlines(), print_kernel(record.after).splitlines())
    return Change(record.name, record.about, record.because, record.time_ms, lines)


def folded(before: Sequence[str], after: Sequence[str], context: int = CONTEXT) -> tuple[str, ...]:
    """A unified diff without its headings, each stretch of unchanged lines that is left out as one line.

    >>> folded(["a", "b", "c", "d", "e"], ["a", "b", "c", "d", "x"], context=1)
    ('… 3 lines', ' d', '-e', '+x')
    """
    out: list[str] = []
    shown = 0
    groups = list(difflib.SequenceMatcher(None, before, after, autojunk=False).get_grouped_opcodes(context))
    for group in groups:
        if skipped := group[0][1] - shown:
            out.append(f"… {skipped} line{'s' if skipped != 1 else ''}")
        for kind, a, b, c, d in group:
            if kind == "equal":
                out += [f" {line}" for line in before[a:b]]
            else:
                out += [f"-{line}" for line in before[a:b]] + [f"+{line}" for line in after[c:d]]
        shown = group[-1][2]
    if groups and (rest := len(before) - shown):
        out.append(f"… {rest} line{'s' if rest != 1 else ''}")
    return tuple(out)


def _reason(change: Change) -> str:
    return f"{change.about} Here because: {change.because}." if change.because else change.about


def _row(line: str) -> str:
    tint = {"+": ADDED, "-": REMOVED}.get(line[0])
    return f'<span style="background: {tint}">{escape(line)}</span>' if tint else f'<span style="opacity: 0.72">{escape(line)}</span>'
