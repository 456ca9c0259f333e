"""Integer expressions as sums: 3*i + 2*j + 5.

A `Linear` maps atoms to whole coefficients. An atom is an expression that cannot be taken apart further: a variable, a load,
a division, a minimum. Sums make differences cancel, which is what proofs about indices live on.

>>> i, j = Var("i"), Var("j")
>>> linear(Binary("sub", Binary("mul", Binary("add", i, Const(1)), Const(4)), j))
4*i - j + 4
"""

from __future__ import annotations

from collections.abc import Iterator

from ..base.dtypes import INDEX
from ..ir.expr import Binary, Cast, Const, Expr, Load, Unary, Var
from ..ir.lowered import Element
from ..ir.node import Node, walk


class Linear:
    """`const + sum(coefficient * atom)`; coefficients are not zero. Values are never changed after they are made."""

    __slots__ = ("terms", "const")

    def __init__(self, terms: dict[Expr, int], const: int = 0) -> None:
        self.terms = terms
        self.const = const

    def __add__(self, other: Linear) -> Linear:
        return self.plus(other, 1)

    def __sub__(self, other: Linear) -> Linear:
        return self.plus(other, -1)

    def plus(self, other: Linear, times: int) -> Linear:
        """self + times * other."""
        if not other.terms:
            return Linear(self.terms, self.const + times * other.const)
        terms = dict(self.terms)
        for atom, c in other.terms.items():
            new = terms.get(atom, 0) + times * c
            if new:
                terms[atom] = new
            else:
                terms.pop(atom, None)
        return Linear(terms, self.const + times * other.const)

    def scale(self, factor: int) -> Linear:
        if factor == 1:
            return self
        if factor == 0:
            return Linear({}, 0)
        return Linear({a: c * factor for a, c in self.terms.items()}, self.const * factor)

    def shift(self, by: int) -> Linear:
        return Linear(self.terms, self.const + by)

    def without(self, atom: Expr) -> Linear:
        terms = dict(self.terms)
        terms.pop(atom, None)
        return Linear(terms, self.const)

    def coefficient(self, atom: Expr) -> int:
        return self.terms.get(atom, 0)

    def key(self) -> tuple[object, ...]:
        """Something hashable that is equal for equal sums."""
        return (frozenset(self.terms.items()), self.const)

    def __repr__(self) -> str:
        parts = [f"{'- ' if c < 0 else '+ '}{'' if abs(c) == 1 else f'{abs(c)}*'}{_name(a)}" for a, c in self.terms.items()]
        if self.const or not parts:
            parts.append(f"{'- ' if self.const < 0 else '+ '}{abs(self.const)}")
        text = " ".join(parts)
        return text.removeprefix("+ ") if text.startswith("+") else text


def _name(atom: Expr) -> str:
    return atom.name if isinstance(atom, Var) else f"<{type(atom).__name__}>"


def constant(value: int) -> Linear:
    return Linear({}, value)


def atom(expr: Expr) -> Linear:
    return Linear({expr: 1}, 0)


def linear(expr: Expr, definitions: dict[str, Linear] | None = None) -> Linear:
    """`expr`, an integer, as a sum; `definitions` gives the sums of some variables."""
    match expr:
        case Const(value):
            return Linear({}, int(value))
        case Var(name):
            found = definitions.get(name) if definitions else None
            return found if found is not None else Linear({expr: 1}, 0)
        case Binary("add", a, b):
            return linear(a, definitions).plus(linear(b, definitions), 1)
        case Binary("sub", a, b):
            return linear(a, definitions).plus(linear(b, definitions), -1)
        case Binary("mul", a, b):
            left, right = linear(a, definitions), linear(b, definitions)
            if not right.terms:
                return left.scale(right.const)
            if not left.terms:
                return right.scale(left.const)
            return Linear({expr: 1}, 0)
        case Binary("shl", a, Const(count)) if 0 <= int(count) < 32 and expr.dtype == INDEX:
            return linear(a, definitions).scale(1 << int(count))
        case Unary("neg", x):
            return linear(x, definitions).scale(-1)
        case Cast(x, to) if to == INDEX and x.dtype.is_int and x.dtype.bits < 64:
            return _widened(expr, x, definitions)
        case _:
            return Linear({expr: 1}, 0)


def _widened(expr: Expr, x: Expr, definitions: dict[str, Linear] | None) -> Linear:
    """int64 of a narrower value: only a variable, a literal or a load can be seen through, arithmetic below may have wrapped."""
    if isinstance(x, Const):
        return Linear({}, int(x.value))
    if isinstance(x, Var):
        found = definitions.get(x.name) if definitions else None
        return found if found is not None else Linear({x: 1}, 0)
    return Linear({expr: 1}, 0)


def to_expr(form: Linear) -> Expr:
    """The sum as an index expression, atoms in the order in which they came."""
    total: Expr | None = None
    for a, c in sorted(form.terms.items(), key=lambda term: term[1] < 0):  # positive terms first: no leading minus if it can be helped
        value: Expr = a if a.dtype == INDEX else Cast(a, INDEX)
        if abs(c) != 1:
            value = Binary("mul", value, Const(abs(c)))
        if total is None:
            total = value if c > 0 else Binary("sub", Const(form.const), value) if form.const else Unary("neg", value)
        else:
            total = Binary("add" if c > 0 else "sub", total, value)
    if total is None:
        return Const(form.const)
    if form.const and max(form.terms.values()) > 0:
        return Binary("add" if form.const > 0 else "sub", total, Const(abs(form.const)))
    return total


def variables(node: Node) -> Iterator[Var]:
    """Every use of a variable below `node`."""
    return (n for n in walk(node) if isinstance(n, Var))


def has_load(node: Node) -> bool:
    """True if the value depends on memory."""
    return any(isinstance(n, (Load, Element)) for n in walk(node))
