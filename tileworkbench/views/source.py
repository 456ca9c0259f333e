"""Generated text beside the author's lines that it came from.

Every generated line carries the number of the author's line in its margin; lines of one origin share a mark, so that both directions can be read
without a script. Hovering shows the author's line in full. `twins.py` shows every stage of a kernel with the same margins.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..base.span import Span
from ..runtime.sass import LANGUAGE
from ..runtime.sass_kinds import kind_of, name_of
from .view import MONO, RULE, View, escape

# margin tints of author's lines, in turn; strong enough to tell apart on white and on black
_TINTS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#b8860b", "#56b4e9")
# token kinds of pygments -> a colour that reads on white and on black (contrast of 3.5 or more with both)
_COLORS = {
    "Comment": "#7a828e", "Keyword": "#b5529c", "Literal.String": "#3f8f4f", "Literal.Number": "#b06a1e", "Name.Function": "#3b7dd8",
    "Name.Builtin": "#3b7dd8",
}  # fmt: skip
_KINDS = {
    "tensor": "#d0611b", "shared": "#2f8f6b", "global": "#3b7dd8", "local": "#d4463c", "sync": "#a05fc0", "float": "#a87708", "other": "",
}  # fmt: skip
MAX_LINES = 320
BOX = f"overflow: auto; max-height: 480px; border: {RULE}; border-radius: 6px"
PRE = f"font-family: {MONO}; font-size: 12px; line-height: 1.45; margin: 0; padding: 6px; white-space: pre; background: transparent; color: inherit"
LEGEND = f"font-size: 12px; padding: 3px 8px; opacity: 0.72; border-bottom: {RULE}"


@dataclass(frozen=True, slots=True)
class SourceView(View):
    """`text` in `language` ("c", "python"); `lines` maps a line number of it (from 1) to the author's span. `name` is the heading."""

    text: str
    lines: Mapping[int, Span]
    language: str = "c"
    name: str = "generated source"

    @property
    def title(self) -> str:  # type: ignore[override]  # a constant in the base
        return self.name

    @property
    def data(self) -> list[dict[str, Any]]:
        """One record for each generated line: number, text, and where it came from."""
        out = []
        for number, text in enumerate(self.text.splitlines(), 1):
            span = self.lines.get(number)
            out.append({"line": number, "text": text, "from": span.where if span else "", "from_text": span.source_line().strip() if span else ""})
        return out

    def __str__(self) -> str:
        rows = self.text.splitlines()
        width = len(str(len(rows)))
        origin = max((len(str(s.line)) for s in self.lines.values()), default=1)
        out = []
        for number, text in enumerate(rows, 1):
            span = self.lines.get(number)
            out.append(f"{number:>{width}} {str(span.line) if span else '':>{origin}} | {text}".rstrip())
        return "\n".join([f"{self.title} (number, author's line)", *out])

    def html(self) -> str:
        rows = self.text.splitlines()
        twins = {number: (span,) for number, span in self.lines.items()}
        more = f"\n… {len(rows) - MAX_LINES} more lines: print the kernel's source" if len(rows) > MAX_LINES else ""
        listing = listing_html(rows[:MAX_LINES], twins, tints_of([s for _, s in sorted(self.lines.items())]), self.language)
        return f'<div style="{BOX}"><div style="{LEGEND}">your line, then the generated line</div><pre style="{PRE}">{listing}{more}</pre></div>'


def tints_of(spans: Sequence[Span]) -> dict[tuple[str, int], str]:
    """A margin colour for each author's line, in the order of `spans`."""
    places = dict.fromkeys((s.file, s.line) for s in spans)
    return {place: _TINTS[i % len(_TINTS)] for i, place in enumerate(places)}


def listing_html(
    rows: Sequence[str],
    twins: Mapping[int, tuple[Span, ...]],
    tints: Mapping[tuple[str, int], str],
    language: str,
    *,
    first: int = 1,
    number: Callable[[int], int] = lambda line: line,
    show_own: bool = True,
    gutter: Callable[[int], str] = lambda line: "",
) -> str:
    """Lines of text for a <pre>: the author's line (with `show_own`) on its tint, the line's number, `gutter(line)`, and the coloured text.

    `rows` start at line `first`; `twins` counts lines from 1; `number` gives the number to show.
    """
    own = max((len(str(s.line)) for spans in twins.values() for s in spans), default=1) if show_own else 0
    width = len(str(number(first + len(rows) - 1))) if rows else 1
    out = []
    for line, code in enumerate(coloured(rows, language), first):
        spans = twins.get(line, ())
        mark = f'<span style="border-left: 3px solid transparent">{" " * (own + 1)}</span>'
        if spans:
            tip = escape("\n".join(f"{s.where}: {s.source_line().strip()}" for s in spans))
            tint = tints[spans[0].file, spans[0].line]
            mark = f'<span title="{tip}" style="border-left: 3px solid {tint}">{str(spans[0].line) if show_own else "":>{own + 1}}</span>'
        out.append(f'{mark} <span style="opacity: 0.5">{number(line):>{width}}</span>{gutter(line)}  {code}')
    return "\n".join(out)


def coloured(rows: Sequence[str], language: str) -> list[str]:
    """The lines as HTML, coloured by pygments where it is installed and knows the language, and a GPU's instructions by their kind."""
    if language == LANGUAGE:
        return [_instruction(row) for row in rows]
    try:
        from pygments import lex  # type: ignore[import-untyped]  # ships no types
        from pygments.lexers import get_lexer_by_name  # type: ignore[import-untyped]  # ships no types
    except ImportError:
        return [escape(line) for line in rows]
    lexer = get_lexer_by_name({"tile": "python"}.get(language, language), stripnl=False)
    out = [""]
    for kind, text in lex("\n".join(rows), lexer):
        color = next((c for name, c in _COLORS.items() if str(kind).removeprefix("Token.").startswith(name)), "")
        for part in text.splitlines(keepends=True):
            body = escape(part.rstrip("\n"))
            out[-1] += f'<span style="color: {color}">{body}</span>' if color and body.strip() else body
            if part.endswith("\n"):
                out.append("")
    return (out + [""] * len(rows))[: len(rows)]


def _instruction(row: str) -> str:
    """A line of a GPU's machine code: the name of the instruction in the colour of its kind."""
    color, name = _KINDS.get(kind_of(row), ""), name_of(row)
    if not color:
        return f'<span style="opacity: 0.72">{escape(row)}</span>'
    before, _, after = row.partition(name)
    suffix = after.partition(" ")[0]
    return f'{escape(before)}<span style="color: {color}; font-weight: 600">{escape(name + suffix)}</span>{escape(after[len(suffix) :])}'
