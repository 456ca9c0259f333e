"""Where a piece of a kernel came from, and how to show it.

A `Span` points at characters of the author's source. When a helper function was inlined, `call_site`
holds the span of the call, so that an error can be shown through the whole chain.

>>> s = Span("gemm.py", 3, 4, 3, 9, text="    T.copy(A, B)")
>>> print(s.render("shapes differ"))
gemm.py:3:5: shapes differ
      T.copy(A, B)
      ^^^^^
"""

from __future__ import annotations

import linecache
import unicodedata
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Span:
    """Characters `[col, end_col)` of `line`..`end_line` in `file`; lines from 1, columns from 0 (characters)."""

    file: str
    line: int
    col: int
    end_line: int
    end_col: int
    function: str = ""
    label: str = ""  # what to call the file, e.g. "Cell In[7]"; empty: the file name
    text: str | None = None  # the source line when it cannot be read back through linecache
    call_site: Span | None = None

    @property
    def where(self) -> str:
        """`file:line:column` with a column that counts from 1, as editors do."""
        return f"{self.label or self.file}:{self.line}:{self.col + 1}"

    def source_line(self) -> str:
        """The first source line of the span, without its newline; empty if the source is gone."""
        if self.text is not None:
            return self.text
        return linecache.getline(self.file, self.line).rstrip("\n")

    def snippet(self) -> list[str]:
        """The source line and a line of carets under the span; wide characters count as two columns."""
        source = self.source_line()
        if not source.strip():
            return []
        end = self.end_col if self.end_line == self.line else len(source)
        stop = max(min(end, len(source)), self.col + 1)
        shown = source.lstrip()
        cut = len(source) - len(shown)
        pad = _width(source[cut : max(self.col, cut)])
        carets = max(1, _width(source[max(self.col, cut) : stop]))
        return [f"      {shown.expandtabs(1).rstrip()}", "      " + " " * pad + "^" * carets]

    def render(self, message: str) -> str:
        """`where: message`, the line with carets, then one `in` line for every call that led here."""
        lines = [f"{self.where}: {message}", *self.snippet()]
        site = self.call_site
        while site is not None:
            lines.append(f"  called from {site.where}" + (f" in {site.function}" if site.function else ""))
            lines += site.snippet()
            site = site.call_site
        return "\n".join(lines)


def _width(text: str) -> int:
    """Terminal columns of `text`: East Asian wide characters take two, combining marks none."""
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)
