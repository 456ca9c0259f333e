"""Lines of C: the only place that knows indentation, and which line came from which line of the author's source.

>>> out = Writer()
>>> with out.block("for (int i = 0; i < 4; ++i)"):
...     out.line("x[i] = 0;")
>>> print(out.text(), end="")
for (int i = 0; i < 4; ++i) {
  x[i] = 0;
}
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import PurePath

from ..base.span import Span

_COMMENT_WIDTH = 100


class Writer:
    """Collects lines. `at(span)` says where the following lines come from; the first one from a new source line gets a comment with it."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.spans: dict[int, Span] = {}
        self.depth = 0
        self._span: Span | None = None
        self._shown: tuple[str, int] | None = None
        self._shown_at = 0

    def at(self, span: Span | None) -> None:
        """The lines that follow come from `span`; None leaves it as it was."""
        if span is None:
            return
        self._span = span
        place = (span.file, span.line)
        if place != self._shown:
            self._shown, self._shown_at = place, len(self.lines)
            source = span.source_line().strip().replace("*/", "* /")
            name = span.label or PurePath(span.file).name
            text = f"{name}:{span.line}: {source}" if source else f"{name}:{span.line}"
            self.line(f"/* {text if len(text) <= _COMMENT_WIDTH else text[: _COMMENT_WIDTH - 3] + '...'} */")

    def again(self) -> None:
        """Show the source line once more, if the program may come here without passing its comment."""
        if self._shown is not None and any(line.endswith("{") or line.lstrip().startswith("}") for line in self.lines[self._shown_at :]):
            self._shown = None
            self.at(self._span)

    def line(self, text: str = "") -> None:
        """One line at the current depth."""
        self.lines.append("  " * self.depth + text if text else "")
        if self._span is not None:
            self.spans[len(self.lines)] = self._span

    def raw(self, text: str) -> None:
        """Finished lines that come from no source line."""
        self.lines += text.rstrip("\n").split("\n")

    @contextmanager
    def block(self, head: str, tail: str = "}") -> Iterator[None]:
        """`head {`, the lines written meanwhile, and `tail`."""
        self.line(f"{head} {{" if head else "{")
        self.depth += 1
        yield
        self.depth -= 1
        self.line(tail)

    def end_source(self) -> None:
        """The following lines come from no source line."""
        self._span = self._shown = None

    def text(self) -> str:
        """Everything, with a newline at the end."""
        return "\n".join(self.lines) + "\n"
