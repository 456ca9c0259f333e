"""A whole page: a table of results and a panel for each, in one file that opens without a network.

The page may use a style sheet, which fragments in notebooks may not; it holds every picture twice and shows the one that fits the reader's light or
dark setting. There is no script.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from .panel import Panel
from .view import View, escape, table

_STYLE = """
:root { color-scheme: light dark; --jp-ui-font-color1: inherit; --bg: #ffffff; --fg: #1f2328; --soft: #59636e; --line: #d1d9e0; --card: #f6f8fa; }
@media (prefers-color-scheme: dark) { :root { --bg: #0d1117; --fg: #e6edf3; --soft: #9198a1; --line: #3d444d; --card: #151b23; } }
body { margin: 0 auto; max-width: 1160px; padding: 28px 20px 60px; background: var(--bg); color: var(--fg); font: 14px/1.5 system-ui, sans-serif; }
h1 { font-size: 24px; margin: 0 0 4px; } h2 { font-size: 17px; margin: 36px 0 4px; }
.soft { color: var(--soft); } .scroll { overflow-x: auto; }
.card { border: 1px solid var(--line); border-radius: 8px; padding: 14px 16px; margin: 10px 0; background: var(--bg); }
a { color: inherit; } img { display: block; }
"""


@dataclass(frozen=True, slots=True)
class Result:
    """One kernel of the page: a heading, a line below it, and its panel (None where there is only the table's row)."""

    name: str
    line: str
    panel: Panel | None = None


@dataclass(frozen=True, slots=True)
class ReportPage(View):
    """`head` and `rows` make the table (cells are plain text, the first `left` columns are words); `intro` and `notes` are lines of text."""

    heading: str
    intro: Sequence[str]
    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    results: Sequence[Result]
    notes: Sequence[str] = ()
    left: int = 3

    @property
    def title(self) -> str:  # type: ignore[override]  # a constant in the base
        return self.heading

    @property
    def data(self) -> list[dict[str, str]]:
        """The table's rows by column name."""
        return [dict(zip(self.head, row, strict=True)) for row in self.rows]

    def __str__(self) -> str:
        return "\n".join([self.heading, *self.intro, *(" | ".join(row) for row in self.rows), *self.notes])

    def html(self) -> str:
        """The page as one file."""
        rows = [[escape(c) for c in row] for row in self.rows]
        for row, result in zip(rows, self.results, strict=False):
            if result.panel is not None:
                row[0] = f'<a href="#{_anchor(result.name)}">{row[0]}</a>'
        body = [f"<h1>{escape(self.heading)}</h1>", *(f'<div class="soft">{escape(line)}</div>' for line in self.intro)]
        body.append(f'<div class="scroll">{table([escape(h) for h in self.head], rows, left=self.left)}</div>')
        body += [f'<div class="soft">{escape(note)}</div>' for note in self.notes]
        body += [self._section(r) for r in self.results if r.panel is not None]
        meta = '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
        head = f"{meta}<title>{escape(self.heading)}</title><style>{_STYLE}</style>"
        return f'<!doctype html><html lang="en"><head>{head}</head><body>{"".join(body)}</body></html>'

    def save(self, path: str | Path, theme: str = "light") -> Path:
        """Write the page to an .html file as it is, or the text twin and its picture to others."""
        place = Path(path)
        if place.suffix != ".html":
            return super(ReportPage, self).save(path, theme)
        place.write_text(self.html(), encoding="utf-8")
        return place

    def _section(self, result: Result) -> str:
        assert result.panel is not None
        heading = f'<h2 id="{_anchor(result.name)}">{escape(result.name)}</h2>'
        return f'{heading}<div class="soft">{escape(result.line)}</div><div class="card">{result.panel.html()}</div>'


def _anchor(name: str) -> str:
    return "".join(c if c.isalnum() else "-" for c in name.lower()).strip("-")
