"""Replace pieces of Python text that the parser found, and leave every other character as it is.

>>> import ast
>>> source = "x = f(1)  # one"
>>> edited(source, [(ast.parse(source).body[0].value.args[0], "2")])
'x = f(2)  # one'
"""

from __future__ import annotations

import ast
from collections.abc import Iterable


def edited(source: str, edits: Iterable[tuple[ast.expr | ast.stmt, str]]) -> str:
    """`source` with new text in place of nodes of its tree, which do not overlap. The parser counts bytes in a line."""
    starts = [0]
    for line in source.encode().splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    text = source.encode()
    for node, new in sorted(edits, key=lambda e: (e[0].lineno, e[0].col_offset), reverse=True):
        begin = starts[node.lineno - 1] + node.col_offset
        end = starts[(node.end_lineno or node.lineno) - 1] + (node.end_col_offset or node.col_offset)
        text = text[:begin] + new.encode() + text[end:]
    return text.decode()


def without_magic(source: str) -> tuple[str, str]:
    """The line of a cell magic with its newline, or "", and the rest: what Python can parse."""
    head = source[: source.find("\n") + 1] if source.startswith("%%") else ""
    return head, source[len(head) :]
