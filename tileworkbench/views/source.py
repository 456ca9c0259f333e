"""Generated text beside the author's lines that it came from.

Every generated line carries the number of the author's line in its margin; lines of one origin share a mark, so that both directions can be read
without a script. Hovering shows the author's line in full.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..base.span import Span
from .view import MONO, RULE, View, escape

# margin tints of author's lines, in turn; strong enough to tell apart on white and on black
_TINTS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#b8860b", "#56b4e9")
# token kinds of pygments -> a colour that reads on white and on black (contrast of 3.5 or more with both)
_COLORS = {
    "Comment": "#7a828e", "Keyword": "#b5529c", "Literal.String": "#3f8f4f", "Literal.Number": "#b06a1e", "Name.Function": "#3b7dd8",
    "Name.Builtin": "#3b7dd8",
}  # fmt: skip
MAX_LINES = 320


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
        rows = self._coloured()
        tint = {line: _TINTS[i % len(_TINTS)] for i, line in enumerate(dict.fromkeys(s.line for _, s in sorted(self.lines.items())))}
        own = max((len(str(line)) for line in tint), default=1)
        width = len(str(len(rows)))
        out = []
        for number, code in enumerate(rows[:MAX_LINES], 1):
            span = self.lines.get(number)
            mark = f'<span style="border-left: 3px solid transparent">{" " * (own + 1)}</span>'
            if span is not None:
                tip = escape(f"{span.where}: {span.source_line().strip()}")
                mark = f'<span title="{tip}" style="border-left: 3px solid {tint[span.line]}">{span.line:>{own + 1}}</span>'
            out.append(f'{mark} <span style="opacity: 0.5">{number:>{width}}</span>  {code}')
        more = f"\n… {len(rows) - MAX_LINES} more lines: print the kernel's source" if len(rows) > MAX_LINES else ""
        plain = "margin: 0; padding: 6px; white-space: pre; background: transparent; color: inherit"
        pre = f"font-family: {MONO}; font-size: 12px; line-height: 1.45; {plain}"
        legend = f'<div style="font-size: 12px; padding: 3px 8px; opacity: 0.72; border-bottom: {RULE}">your line, then the generated line</div>'
        box = f"overflow: auto; max-height: 480px; border: {RULE}; border-radius: 6px"
        return f'<div style="{box}">{legend}<pre style="{pre}">{chr(10).join(out)}{more}</pre></div>'

    def _coloured(self) -> list[str]:
        """The lines as HTML, coloured by pygments where it is installed."""
        try:
            from pygments import lex  # type: ignore[import-untyped]  # ships no types
            from pygments.lexers import get_lexer_by_name  # type: ignore[import-untyped]  # ships no types
        except ImportError:
            return [escape(line) for line in self.text.splitlines()]
        out = [""]
        for kind, text in lex("\n".join(self.text.splitlines()[: MAX_LINES + 1]), get_lexer_by_name(self.language, stripnl=False)):
            color = next((c for name, c in _COLORS.items() if str(kind).removeprefix("Token.").startswith(name)), "")
            for part in text.splitlines(keepends=True):
                body = escape(part.rstrip("\n"))
                out[-1] += f'<span style="color: {color}">{body}</span>' if color and body.strip() else body
                if part.endswith("\n"):
                    out.append("")
        shown = out[: len(self.text.splitlines())]
        return shown + [""] * (len(self.text.splitlines()) - len(shown))
