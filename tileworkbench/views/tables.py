"""Which buffer and which source line moves the bytes: two tables of one report.

Bytes at L1 are counted; those at the levels below are predicted and carry a tilde. "once" is what a cache without limit would move: "moved" says
how many times that the last level moves.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from ..model.report import BufferUse, LineUse, Report
from ..model.values import show
from .view import MONO, View, escape, table, text_table

CODE_WIDTH = 64


@dataclass(frozen=True, slots=True)
class BufferTable(View):
    """Bytes by buffer and level."""

    report: Report

    @property
    def title(self) -> str:  # type: ignore[override]  # a constant in the base
        return f"{self.report.kernel}: bytes by buffer"

    @property
    def data(self) -> list[dict[str, Any]]:
        """One record for each buffer."""
        return [asdict(u) for u in self.report.by_buffer()]

    def __str__(self) -> str:
        return f"{self.title}\n{text_table(self._head, self._rows(), left=2)}"

    def html(self) -> str:
        rows = [[_code(r[0]), *map(escape, r[1:])] for r in self._rows()]
        return table(self._head, rows, left=2, caption="bytes by buffer")

    @property
    def _head(self) -> list[str]:
        return ["buffer", "where", "L1 (asked)", *_below(self.report), "once", "moved"]

    def _rows(self) -> list[list[str]]:
        names = _below(self.report)
        return [
            [u.buffer, u.scope, show(u.asked_bytes, "B"), *(_predicted(u.bytes[n]) for n in names), _once(u), _times(u, names[-1:])]
            for u in self.report.by_buffer()
        ]


@dataclass(frozen=True, slots=True)
class LineTable(View):
    """FLOP and bytes by source line."""

    report: Report

    @property
    def title(self) -> str:  # type: ignore[override]  # a constant in the base
        return f"{self.report.kernel}: bytes by line"

    @property
    def data(self) -> list[dict[str, Any]]:
        """One record for each source line."""
        return [
            {"where": _where(u), "text": u.text, "buffers": list(u.buffers), "flops": u.flops, "asked_bytes": u.asked_bytes, "bytes": dict(u.bytes)}
            for u in self.report.by_line()
        ]

    def __str__(self) -> str:
        rows = [[_where(u), _cut(u.text), *self._numbers(u)] for u in self.report.by_line()]
        return f"{self.title}\n{text_table(self._head, rows, left=2)}"

    def html(self) -> str:
        rows = []
        for u in self.report.by_line():
            code = f'<span title="{escape(", ".join(u.buffers))}">{_code(_cut(u.text))}</span>'
            rows.append([escape(str(u.span.line) if u.span else ""), code, *map(escape, self._numbers(u))])
        return table(["line", *self._head[1:]], rows, left=2, caption="work and bytes by source line")

    @property
    def _head(self) -> list[str]:
        return ["where", "source", "FLOP", "L1 (asked)", *_below(self.report)]

    def _numbers(self, u: LineUse) -> list[str]:
        flops = show(u.flops, "FLOP").removesuffix("FLOP").strip() if u.flops else "-"
        return [flops, show(u.asked_bytes, "B"), *(_predicted(u.bytes[n]) for n in _below(self.report))]


def _below(r: Report) -> list[str]:
    return [level.name for level in r.levels if level.name != "L1"]


def _predicted(value: float) -> str:
    return f"~{show(value, 'B')}" if value else "-"


def _once(u: BufferUse) -> str:
    return show(u.compulsory_bytes, "B") if u.compulsory_bytes else "-"


def _times(u: BufferUse, last: list[str]) -> str:
    """How often the last level moves each byte that is needed once."""
    if not last or not u.compulsory_bytes:
        return "-"
    return f"{u.bytes[last[0]] / u.compulsory_bytes:.3g}x"


def _where(u: LineUse) -> str:
    if u.span is None:
        return "-"
    return f"{u.span.label or u.span.file.rpartition('/')[2]}:{u.span.line}"


def _cut(text: str) -> str:
    return text if len(text) <= CODE_WIDTH else text[: CODE_WIDTH - 1] + "…"


def _code(text: str) -> str:
    return f'<code style="font-family: {MONO}; background: transparent; color: inherit; white-space: pre">{escape(text)}</code>'
