"""Performance assertions: `%%tile --expect "dram.bytes <= 1.05*compulsory; roof >= 60%; time < 2 ms"`.

A condition is a comparison over the names of a report, with numbers, units and arithmetic. It is parsed as a Python expression and walked
here; nothing of it is ever given to `eval`.

>>> from tileworkbench.notebook.amount import BYTES, Amount
>>> facts = {"dram.bytes": Amount(3.2e6, BYTES), "compulsory": Amount(3.0e6, BYTES), "roof": Amount(0.71)}
>>> [str(o) for o in check("roof >= 60%; dram.bytes <= 1.05*compulsory", facts)]
['roof >= 60% holds: 0.71 >= 0.6', 'dram.bytes <= 1.05*compulsory does not hold: 3.2 MB > 3.15 MB']
"""

from __future__ import annotations

import ast
import difflib
import io
import re
import tokenize
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ..base.errors import TileError, TileSyntaxError
from .amount import NONE, UNITS, Amount, UnitError

NEGATED = {ast.Lt: ">=", ast.LtE: ">", ast.Gt: "<=", ast.GtE: "<", ast.Eq: "!=", ast.NotEq: "=="}
SIGNS = {ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!="}


@dataclass(frozen=True, slots=True)
class Outcome:
    """One condition, where it stands in the whole text (characters), whether it held, and both sides as numbers."""

    text: str
    start: int
    holds: bool
    numbers: str

    def __str__(self) -> str:
        return f"{self.text} {'holds' if self.holds else 'does not hold'}: {self.numbers}"


class ExpectSyntaxError(TileSyntaxError):
    """A condition that cannot be read; `start` and `stop` are its characters in the whole text."""

    def __init__(self, message: str, start: int, stop: int, *, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.start, self.stop = start, stop


def check(text: str, facts: Mapping[str, Amount]) -> list[Outcome]:
    """Evaluate every condition of `text` (separated by `;`) over `facts`. Raises ExpectSyntaxError for one that cannot be read."""
    return [_outcome(clause, start, facts) for clause, start in _clauses(text)]


def _clauses(text: str) -> Iterator[tuple[str, int]]:
    start = 0
    for part in text.split(";"):
        if part.strip():
            yield part.strip(), start + len(part) - len(part.lstrip())
        start += len(part) + 1


def _outcome(text: str, start: int, facts: Mapping[str, Amount]) -> Outcome:
    def fault(message: str, hint: str = "") -> ExpectSyntaxError:
        return ExpectSyntaxError(message, start, start + len(text), hint=hint)

    try:
        tree = ast.parse(_with_units(text), mode="eval").body
    except (SyntaxError, tokenize.TokenError, ValueError):
        raise fault(f"cannot read {text!r}", "a condition is a comparison, such as `dram.bytes <= 1.05*compulsory` or `time < 2 ms`") from None
    if not isinstance(tree, ast.Compare):
        raise fault(f"{text!r} compares nothing", "write a comparison with <, <=, >, >=, == or !=")
    try:
        values = [_value(side, facts) for side in (tree.left, *tree.comparators)]
        return _compare(text, start, tree.ops, values)
    except ZeroDivisionError:
        raise fault(f"{text!r} divides by zero") from None
    except UnitError as error:
        raise fault(f"{text!r}: {error}", "give the number a unit: B, KiB, MB, us, ms, s, GFLOP; a rate is written `1.2 GB/s`") from None
    except TileError as error:
        raise fault(error.message, error.hint) from None


def _compare(text: str, start: int, ops: list[ast.cmpop], values: list[Amount]) -> Outcome:
    signs: list[str] = []
    holds = True
    for op, left, right in zip(ops, values, values[1:], strict=False):
        a, b = left.comparable(right)
        truth = {ast.Lt: a < b, ast.LtE: a <= b, ast.Gt: a > b, ast.GtE: a >= b, ast.Eq: a == b, ast.NotEq: a != b}.get(type(op))
        if truth is None:
            raise TileSyntaxError(f"{text!r} uses a comparison that means nothing for numbers", hint="use <, <=, >, >=, == or !=")
        signs.append(SIGNS[type(op)] if truth else NEGATED[type(op)])
        holds = holds and truth
    kind = next((v.kind for v in values if v.kind != NONE), NONE)
    shown = [str(Amount(v.value, kind)) for v in values]
    return Outcome(text, start, holds, " ".join([shown[0], *(f"{s} {v}" for s, v in zip(signs, shown[1:], strict=True))]))


def _with_units(text: str) -> str:
    """`60%` and `1.2 GB/s` as Python: a number followed by a percent sign or a unit becomes a product in parentheses.

    >>> _with_units("roof >= 60% + 5 %")
    'roof >= ( 60 * percent ) + ( 5 * percent )'
    >>> _with_units("l2.bandwidth > 1.5 GB/s")
    'l2 . bandwidth > ( 1.5 * unit_GB / unit_s )'
    """
    if glued := re.search(r"(\d)([A-Za-z]\w*)", text):
        if glued[2] in UNITS:  # "2ms" is one odd token to Python's tokenizer
            return _with_units(text[: glued.start(2)] + " " + text[glued.start(2) :])
    tokens = [t for t in tokenize.generate_tokens(io.StringIO(text).readline) if t.type in (tokenize.NUMBER, tokenize.NAME, tokenize.OP)]
    out: list[str] = []
    i = 0
    while i < len(tokens):
        token, later = tokens[i], [t.string for t in tokens[i + 1 : i + 4]]
        i += 1
        if token.type != tokenize.NUMBER or not later:
            # `global` is a name of the report, and a word of Python's.
            out.append(f"{token.string}_" if token.string == "global" else token.string)
        elif later[0] == "%" and (len(tokens) == i + 1 or tokens[i + 1].type == tokenize.OP and tokens[i + 1].string != "("):
            out += ["(", token.string, "*", "percent", ")"]
            i += 1
        elif later[0] in UNITS:
            rate = len(later) == 3 and later[1] == "/" and later[2] in UNITS
            out += ["(", token.string, "*", f"unit_{later[0]}", *(["/", f"unit_{later[2]}"] if rate else []), ")"]
            i += 3 if rate else 1
        else:
            out.append(token.string)
    return " ".join(out)


def _value(node: ast.expr, facts: Mapping[str, Amount]) -> Amount:
    match node:
        case ast.Constant(value=bool() | str() | bytes() | complex() | None):
            raise TileSyntaxError(f"{ast.unparse(node)} is not a number")
        case ast.Constant(value=int() | float() as number):
            return Amount(float(number))
        case ast.Name() | ast.Attribute():
            return _lookup(node, facts)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_value(operand, facts)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return _value(left, facts) + _value(right, facts)
        case ast.BinOp(left=left, op=ast.Sub(), right=right):
            return _value(left, facts) - _value(right, facts)
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            return _value(left, facts) * _value(right, facts)
        case ast.BinOp(left=left, op=ast.Div(), right=right):
            return _value(left, facts) / _value(right, facts)
        case ast.Call(func=ast.Name(id="min" | "max" as name), args=args, keywords=[]) if args:
            values = [_value(arg, facts) for arg in args]
            pick = min if name == "min" else max
            return pick(values, key=lambda v: v.comparable(values[0])[0])
        case _:
            raise TileSyntaxError(f"{ast.unparse(node)} has no meaning in a condition", hint="use names, numbers with units, + - * /, min and max")


def _lookup(node: ast.expr, facts: Mapping[str, Amount]) -> Amount:
    name = ast.unparse(node).replace("_.", ".")
    if name == "percent":
        return Amount(0.01)
    if name.startswith("unit_") and name[5:] in UNITS:
        return UNITS[name[5:]]
    if name in facts:
        return facts[name]
    near = difflib.get_close_matches(name, facts, n=1, cutoff=0.6)
    known = ", ".join(sorted(facts))
    raise TileSyntaxError(f"the report has no value {name!r}", hint=(f"did you mean {near[0]!r}? " if near else "") + f"it has: {known}")
