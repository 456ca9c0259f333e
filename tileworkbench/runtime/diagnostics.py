"""What a compiler said, as values, and whose line it is about.

gcc 9 to 14 can write its messages as JSON; clang, zig and newer gcc write `file:line:column: error: text`, NVRTC `file(line): error: text`, and its
assembler names no line of the text. All become `Diagnostic`s, and `blame` finds the author's source line through the emitter's map of lines.

>>> parse("k.c:7:3: error: use of undeclared identifier 'x'")[0]
Diagnostic(severity='error', line=7, column=3, message="use of undeclared identifier 'x'")
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass

from ..base.errors import CompilerError
from ..base.span import Span

_TEXT = re.compile(r"^[^\n]*?:(\d+):(?:(\d+):)? (fatal error|error|warning|note): (.*)$", re.MULTILINE)
_NVRTC = re.compile(r"^[^\n(]*\((\d+)\): ((?:catastrophic )?error|warning)(?: #[\w-]+)?: (.*)$", re.MULTILINE)
_PTXAS = re.compile(r"^ptxas [^\n]*?(error|fatal|warning) *: (.*)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One message about the C text; line and column count from 1, 0 when the compiler gave none."""

    severity: str
    line: int
    column: int
    message: str


def parse(output: str) -> list[Diagnostic]:
    """Every message in a compiler's output, JSON or text."""
    start = output.find("[")
    if output.lstrip().startswith("[{"):
        try:
            items, _ = json.JSONDecoder().raw_decode(output[start:])
        except ValueError:
            return _parse_text(output)
        return [_from_json(item) for item in items]
    return _parse_text(output)


def _from_json(item: Mapping[str, object]) -> Diagnostic:
    places = item.get("locations") or [{}]
    caret = places[0].get("caret", {}) if isinstance(places, list) else {}
    return Diagnostic(str(item.get("kind", "error")), int(caret.get("line", 0)), int(caret.get("column", 0)), str(item.get("message", "")))


def _parse_text(output: str) -> list[Diagnostic]:
    found = [Diagnostic(kind, int(line), int(column or 0), text.strip()) for line, column, kind, text in _TEXT.findall(output)]
    found += [Diagnostic(kind, int(line), 0, text.strip()) for line, kind, text in _NVRTC.findall(output)]
    return found + [Diagnostic(kind.replace("fatal", "fatal error"), 0, 0, text.strip()) for kind, text in _PTXAS.findall(output)]


def blame(output: str, text: str, lines: Mapping[int, Span], compiler: str, language: str = "C") -> CompilerError:
    """The error to raise for a failed build of `text`: the first error, at the author's line where the map knows it.

    The line of the text stands in the message, and the compiler's whole output in a note.
    """
    found = [d for d in parse(output) if "error" in d.severity]
    if not found:
        first = next((line for line in output.splitlines() if line.strip()), "no message")
        error = CompilerError(f"{compiler} failed: {first.strip()[:300]}")
    else:
        error = CompilerError(f"{compiler}: {found[0].message}", span=author_span(found[0].line, lines))
        source = text.splitlines()
        if 0 < found[0].line <= len(source):
            error.hint = f"in the generated {language}, line {found[0].line}: {source[found[0].line - 1].strip()[:200]}"
    said = "\n".join(f"  {f'{language} line {d.line}: ' if d.line else ''}{d.severity}: {d.message}" for d in parse(output)) or output.strip()
    error.add_note(f"output of {compiler}:\n{said[:4000]}")
    return error


def author_span(line: int, lines: Mapping[int, Span]) -> Span | None:
    """The source of C line `line`: its own, or that of the nearest line above that has one."""
    above = [known for known in lines if known <= line]
    return lines[max(above)] if above else None
