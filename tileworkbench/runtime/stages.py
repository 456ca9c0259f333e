"""The texts that a kernel passes through, from the author's lines to the machine's, with the author's lines behind every line of each.

    for stage in stages_of(kernel):
        print(stage.name, len(stage.lines))
        stage.twins[12]          # the spans that line 12 comes from

Every target fills the same stages: what it emits is its `source`, and whatever follows that (assembly; PTX and SASS) its `machine_code()`.
"""

from __future__ import annotations

import ast
import linecache
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ..base.span import Span
from ..ir.printer import Line, print_lines

if TYPE_CHECKING:
    from .kernel import JITKernel

Twins = Mapping[int, tuple[Span, ...]]


@dataclass(frozen=True, slots=True)
class Stage:
    """One text of a kernel. `language` is a name that pygments knows, or "tile"; `twins` maps a line (from 1) to the author's spans behind it.

    `numbers` are the line numbers to show where they are not 1, 2, 3 (the author's file); `why` says why there is no text; `about` are lines on the
    whole of it (registers and occupancy of machine code). `start` is the line where the kernel itself begins, behind its helpers.
    """

    name: str
    language: str
    text: str
    twins: Twins = field(default_factory=dict)
    numbers: tuple[int, ...] = ()
    why: str = ""
    about: tuple[str, ...] = ()
    start: int = 1

    @property
    def lines(self) -> tuple[str, ...]:
        return tuple(self.text.splitlines())

    def number(self, line: int) -> int:
        """The number to show beside line `line` (from 1)."""
        return self.numbers[line - 1] if self.numbers else line


def stages_of(kernel: JITKernel, *, machine_code: bool = True) -> tuple[Stage, ...]:
    """Every stage of a compiled kernel. Without `machine_code` no compiler runs."""
    tile = print_lines(kernel.ir)
    lowered = print_lines(kernel.passes[-1].after) if kernel.passes else ()
    text = kernel.executable.source
    is_cuda = bool(getattr(kernel.executable, "arch", ""))
    emitted = Stage("CUDA" if is_cuda else "C", "c", text, inherited(text, kernel.lines), start=min(kernel.lines, default=1)) if text else None
    spans = [s for _, s in (*tile, *lowered) if s is not None] + list(kernel.lines.values())
    out = [author_stage(spans), ir_stage("tile IR", tile)]
    if lowered:
        out.append(ir_stage("lowered IR", lowered))
    if emitted is not None:
        out.append(emitted)
    return (*out, *(kernel.machine_code() if machine_code else ()))


def key_of(span: Span) -> str:
    """The author's line as views name it: `file:line`, with the cell's label for a notebook cell and the file's last part for a file."""
    return f"{span.label or span.file.rpartition('/')[2]}:{span.line}"


# ------------------------------------------------------------------------------------------- the author's lines
def author_stage(spans: Iterable[Span]) -> Stage:
    """The functions that `spans` point into, as they stand in their files; files in the order of their first span."""
    by_file: dict[str, list[Span]] = {}
    for span in spans:
        by_file.setdefault(span.file, []).append(span)
    text: list[str] = []
    numbers: list[int] = []
    twins: dict[int, tuple[Span, ...]] = {}
    for found in by_file.values():
        known = {s.line: s for s in reversed(found)}
        lines = _file_lines(found[0], known)
        for number in _shown(lines, sorted(known), found[0].file):
            text.append(lines.get(number, ""))
            numbers.append(number)
            if number in known:
                twins[len(text)] = (known[number],)
    return Stage("tile program", "python", "\n".join(text), twins, tuple(numbers), "" if text else "the kernel carries no source lines")


def _file_lines(span: Span, known: Mapping[int, Span]) -> dict[int, str]:
    lines = {i: line.rstrip("\n") for i, line in enumerate(linecache.getlines(span.file), 1)}
    for number, at in known.items():
        if number not in lines or at.text is not None:
            lines[number] = at.source_line()
    return lines


def _shown(lines: Mapping[int, str], known: Sequence[int], file: str) -> list[int]:
    """The lines of the smallest function around `known`, or those lines and what lies between them."""
    first, last = known[0], known[-1]
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except (SyntaxError, ValueError):
        tree = ast.Module([], [])
    around = [
        n
        for n in ast.walk(tree)
        if isinstance(n, ast.FunctionDef) and min([n.lineno, *(d.lineno for d in n.decorator_list)]) <= first <= last <= (n.end_lineno or 0)
    ]
    if around:
        node = min(around, key=lambda n: (n.end_lineno or 0) - n.lineno)
        first, last = min([node.lineno, *(d.lineno for d in node.decorator_list)]), node.end_lineno or last
    return [number for number in range(first, last + 1) if around or number in lines] if last - first < 400 else list(known)


# ------------------------------------------------------------------------------------------- IR and emitted text
def ir_stage(name: str, lines: Sequence[Line]) -> Stage:
    """Printed IR. A line that was written nowhere belongs to the statement around it."""
    twins: dict[int, tuple[Span, ...]] = {}
    open_: list[tuple[int, Span | None]] = []
    for number, (text, span) in enumerate(lines, 1):
        depth = len(text) - len(text.lstrip())
        while open_ and open_[-1][0] >= depth:
            open_.pop()
        at = span or (open_[-1][1] if open_ else None)
        open_.append((depth, at))
        if at is not None:
            twins[number] = (at,)
    return Stage(name, "tile", "\n".join(text for text, _ in lines), twins)


_ATTRIBUTE = re.compile(r"__attribute__\(\([^()]*(\([^()]*\))?[^()]*\)\)")
_DEFINITION = re.compile(r"^[A-Za-z_][^;={}]*?\b(\w+)\([^;]*\)\s*\{")


def inherited(text: str, lines: Mapping[int, Span]) -> dict[int, tuple[Span, ...]]:
    """`lines` of a C text, and for the lines of a helper function those of its callers: a micro-kernel belongs to the `T.gemm` that calls it.

    >>> s = Span("k.py", 7, 0, 7, 5)
    >>> found = inherited("static int f(int a) {\\n  return a;\\n}\\nint g(void) {\\n  return f(1);\\n}", {5: s})
    >>> sorted(found), found[2] == (s,)
    ([1, 2, 3, 5], True)
    """
    rows = text.splitlines()
    bodies: dict[str, tuple[int, int]] = {}
    for i, row in enumerate(rows):
        if match := _DEFINITION.match(_ATTRIBUTE.sub("", row)):
            end = i if row.rstrip().endswith("}") else next((j for j in range(i + 1, len(rows)) if rows[j].startswith("}")), i)
            bodies[match.group(1)] = (i + 1, end + 1)
    found: dict[int, tuple[Span, ...]] = {number: (span,) for number, span in lines.items()}
    for _ in bodies:  # helpers that call helpers: once round for each level
        before = len(found)
        for name, (first, last) in bodies.items():
            if any(number in found for number in range(first, last + 1)):
                continue
            call = re.compile(rf"\b{re.escape(name)}\(")
            spans = [s for number, at in found.items() if number <= len(rows) and call.search(rows[number - 1]) for s in at]
            if spans:
                unique = tuple({(s.file, s.line): s for s in spans}.values())
                found.update(dict.fromkeys(range(first, last + 1), unique))
        if len(found) == before:
            break
    return found
