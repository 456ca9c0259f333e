"""Lines for `Print`: the message and the values, or a line for every element of a buffer."""

from __future__ import annotations

from ..analysis.access import flat_offset
from ..ir.build import ZERO
from ..ir.expr import Expr, Var
from ..ir.lowered import Element, Loop, PrintLine, Text
from ..ir.stmt import Body, Print
from .names import Names


def print_lines(stmt: Print, names: Names) -> Body:
    """Statements that print what `stmt` says: `message value value`, or `message [i, j] = value` per element."""
    start: list[Text | Expr] = [Text(stmt.message)] if stmt.message else []
    for value in stmt.values:
        start += [Text(" "), value] if start else [value]
    if stmt.buffer is None:
        return (PrintLine((*start, Text("\n"))),)
    buffer = stmt.buffer
    variables = [names.var("ijklmn"[min(d, 5)]) for d in range(buffer.rank)]
    element = Element(buffer, flat_offset(buffer, variables))
    body: Body = (PrintLine((*start, Text(" [" if start else "["), *_listed(variables), Text("] = "), element, Text("\n"))),)
    for var, extent in reversed(list(zip(variables, buffer.shape, strict=True))):
        body = (Loop(var, ZERO, extent, body),)
    return body


def _listed(variables: list[Var]) -> list[Text | Expr]:
    out: list[Text | Expr] = []
    for var in variables:
        out += [Text(", "), var] if out else [var]
    return out
