"""What is known about integers at one place of a kernel: ranges of variables, facts from conditions; and proofs from them.

A `Bounds` is a stack that a pass pushes while it walks down and pops while it walks up. `at_least_zero` proves that a sum is not negative by
replacing atoms, innermost first, by bounds that are sums themselves (`by <= (M - 1) // 64`, `64 * (K // 64) <= K`), until only a number is left.

>>> b = Bounds()
>>> i = Var("i")
>>> b.bind(i, Const(0), Const(8))
>>> b.interval(Binary("mul", i, Const(4)))
(0, 28)
>>> b.truth(Binary("lt", i, Const(8))), b.truth(Binary("lt", i, Const(7)))
(True, None)
"""

from __future__ import annotations

from ..base.dtypes import INDEX, DType
from ..ir.build import cast
from ..ir.expr import Binary, Cast, Const, Expr, Load, Select, Unary, Var
from ..ir.lowered import Apart, Element
from ..ir.stmt import Region
from .int_ranges import bit_ceiling, divide_within, least, mod_within, most
from .linear import Linear, atom, constant, has_load, linear

Interval = tuple[int | None, int | None]
_DEPTH = 12  # replacements in one proof; the longest chain in practice is grid -> block -> loop -> division -> dim
_FLIP = {"lt": "ge", "ge": "lt", "le": "gt", "gt": "le", "eq": "ne", "ne": "eq"}


class Bounds:
    """Ranges and facts that hold where the pass stands now."""

    def __init__(self) -> None:
        self.low: dict[Expr, Linear] = {}
        self.high: dict[Expr, Linear] = {}
        self.definitions: dict[str, Linear] = {}
        self.facts: list[Linear] = []  # each is >= 0
        self.order: dict[Expr, int] = {}  # how deep a variable was bound: proofs replace the deepest first
        self.apart: list[Apart] = []
        self._undo: list[tuple[int, int]] = []
        self._divided: dict[Binary, Linear | None] = {}  # what was found out about atoms, under the facts of now
        self._ranged: dict[Expr, Interval] = {}

    # ------------------------------------------------------------------------------------------ what is known
    def bind(self, var: Var, start: Expr, stop: Expr, step: int = 1) -> None:
        """`var` runs over range(start, stop, step); names are unique, so a binding never has to be taken back."""
        low, high = (start, stop) if step > 0 else (stop, start)
        self.low[var] = self.sum(low).shift(0 if step > 0 else 1)
        self.high[var] = self.sum(high).shift(-1 if step > 0 else 0)
        self.order[var] = len(self.order)

    def bind_dim(self, var: Var) -> None:
        """A symbolic dim: not negative."""
        self.low[var] = constant(0)
        self.order[var] = len(self.order)

    def define(self, var: Var, value: Expr) -> None:
        """`var` is `value`: a sum of other variables is seen through, anything else gives a range."""
        self.order[var] = len(self.order)
        if not value.dtype.is_int:
            return
        if var.type == INDEX and not has_load(value):
            self.definitions[var.name] = self.sum(value)
            return
        low, high = self.interval(value)
        if low is not None:
            self.low[var] = constant(low)
        if high is not None:
            self.high[var] = constant(high)

    def push(self) -> None:
        self._undo.append((len(self.facts), len(self.apart)))

    def pop(self) -> None:
        count, apart = self._undo.pop()
        if count < len(self.facts):
            self._forget()
        del self.facts[count:], self.apart[apart:]

    def _forget(self) -> None:
        self._divided.clear()
        self._ranged.clear()

    def assume(self, cond: Expr, holds: bool = True) -> None:
        """Take `cond` (or its opposite) as a fact until the next `pop`."""
        match cond:
            case Binary("and", a, b) if holds:
                self.assume(a)
                self.assume(b)
            case Binary("or", a, b) if not holds:
                self.assume(a, False)
                self.assume(b, False)
            case Unary("not", x):
                self.assume(x, not holds)
            case Apart() if holds:
                self.apart.append(cond)
            case Binary(op, a, b) if op in _FLIP and _is_index(a):
                self._assume_order(op if holds else _FLIP[op], self.sum(a) - self.sum(b))
            case _:
                pass

    def _assume_order(self, op: str, difference: Linear) -> None:
        self._forget()
        match op:
            case "lt":
                self.facts.append(difference.scale(-1).shift(-1))
            case "le":
                self.facts.append(difference.scale(-1))
            case "gt":
                self.facts.append(difference.shift(-1))
            case "ge":
                self.facts.append(difference)
            case "eq":
                self.facts += [difference, difference.scale(-1)]

    # ------------------------------------------------------------------------------------------ questions
    def sum(self, expr: Expr) -> Linear:
        """`expr` (an index, or a narrower integer taken as it is) as a sum."""
        if expr.dtype != INDEX and not isinstance(expr, (Const, Var)):
            return atom(expr)
        return self.normal(linear(expr, self.definitions))

    def normal(self, form: Linear) -> Linear:
        """Divisions whose result is known become what they are: (64*i + j) // 64 is i for j in [0, 64)."""
        for a, c in form.terms.items():
            if isinstance(a, Binary) and a.op in ("floordiv", "floormod", "truncdiv", "truncmod"):
                value = self._division(a)
                if value is not None:
                    return self.normal(form.without(a).plus(value, c))
        return form

    def at_least_zero(self, form: Linear) -> bool:
        """True if `form` >= 0 is certain."""
        if (low := self.lowest(form)) is not None and low >= 0:
            return True
        return any(self._with_fact(form, fact) for fact in reversed(self.facts)) or self._without_division(form)

    def _without_division(self, form: Linear) -> bool:
        """q + rest >= 0 for q = x // d is x + d*rest >= 0; rest - q >= 0 is d*rest + d - 1 - x >= 0."""
        for a, c in form.terms.items():
            match a:
                case Binary("floordiv" | "truncdiv" as op, x, Const(d)) if int(d) > 0 and abs(c) == 1 and (op == "floordiv" or self._is_natural(x)):
                    rest = form.without(a).scale(int(d))
                    return self.at_least_zero(rest.plus(self.sum(x), c).shift(0 if c > 0 else int(d) - 1))
        return False

    def _with_fact(self, form: Linear, fact: Linear, depth: int = 2) -> bool:
        """form - c*fact >= 0 for the c that cancels a shared atom; then form >= 0, since fact is."""
        for a, c in fact.terms.items():
            mine = form.terms.get(a, 0)
            if mine and (mine > 0) == (c > 0) and mine % c == 0:
                rest = form.plus(fact, -(mine // c))
                if (low := self.lowest(rest)) is not None and low >= 0:
                    return True
                if depth > 1 and len(self.facts) <= 8:
                    if any(other is not fact and self._with_fact(rest, other, depth - 1) for other in self.facts):
                        return True
        return False

    def is_inside(self, index: Expr, size: Expr) -> tuple[bool, bool]:
        """Whether 0 <= index, and whether index < size, are certain."""
        form = self.sum(index)
        return self.at_least_zero(form), self.at_least_zero((self.sum(size) - form).shift(-1))

    def holds(self, region: Region) -> bool:
        """Whether a region of constant extents is certainly inside its buffer."""
        for start, extent, dim in zip(region.starts, region.extents, region.buffer.shape, strict=True):
            form = self.sum(cast(start, INDEX))
            if not isinstance(extent, Const) or not self.at_least_zero(form) or not self.at_least_zero(self.sum(dim) - form - self.sum(extent)):
                return False
        return True

    def interval(self, expr: Expr) -> Interval:
        """The range of an integer expression, ends included; None where unbounded."""
        return self.span(self.sum(expr))

    def span(self, form: Linear) -> Interval:
        """The range of a sum, ends included; None where unbounded."""
        low, high = self.lowest(form), self.lowest(form.scale(-1))
        return low, None if high is None else -high

    def truth(self, cond: Expr) -> bool | None:
        """Whether a condition is certainly true or false."""
        match cond:
            case Const(value):
                return bool(value)
            case Unary("not", x):
                inner = self.truth(x)
                return None if inner is None else not inner
            case Binary("and" | "or" as op, a, b):
                sides = (self.truth(a), self.truth(b))
                decisive = op == "or"
                if decisive in sides:
                    return decisive
                return None if None in sides else not decisive
            case Binary(op, a, b) if op in _FLIP and _is_index(a):
                return self._compare(op, self.sum(a) - self.sum(b))
            case _:
                return None

    def _compare(self, op: str, difference: Linear) -> bool | None:
        match op:
            case "lt" | "ge":
                if self.at_least_zero(difference):
                    return op == "ge"
                return (op == "lt") if self.at_least_zero(difference.scale(-1).shift(-1)) else None
            case "le" | "gt":
                if self.at_least_zero(difference.scale(-1)):
                    return op == "le"
                return (op == "gt") if self.at_least_zero(difference.shift(-1)) else None
            case _:
                if not difference.terms:
                    return (difference.const == 0) == (op == "eq")
                apart = self.at_least_zero(difference.shift(-1)) or self.at_least_zero(difference.scale(-1).shift(-1))
                return (op == "ne") if apart else None

    # ------------------------------------------------------------------------------------------ the proof
    def lowest(self, form: Linear, depth: int = _DEPTH) -> int | None:
        """A number that `form` is never below; None if there is none to be found."""
        if not form.terms:
            return form.const
        if depth == 0:
            return None
        first = max(form.terms, key=self._rank)
        c = form.terms[first]
        rest = form.without(first)
        best: int | None = None
        for bound in self._bounds_of(first, c):
            low = self.lowest(rest.plus(bound, 1), depth - 1)
            if low is not None and (best is None or low > best):
                best = low
        return best

    def _rank(self, a: Expr) -> int:
        if isinstance(a, Var):
            return self.order.get(a, 0)
        return max((self.order.get(v, 0) for v in _vars(a)), default=0) + 1_000_000  # compound atoms first: their bounds name variables

    def _bounds_of(self, a: Expr, c: int) -> list[Linear]:
        """Sums that c*a is never below."""
        table = self.low if c > 0 else self.high
        found = table.get(a)
        if found is not None:
            return [found.scale(c)]
        out: list[Linear] = []
        if isinstance(a, Binary):
            out = self._bounds_of_binary(a, c)
        low, high = self._range(a)
        end = low if c > 0 else high
        if end is not None:
            out.append(constant(c * end))
        return out

    def _bounds_of_binary(self, a: Binary, c: int) -> list[Linear]:
        match a:
            case Binary("min", x, y) if c < 0:
                return [self.sum(x).scale(c), self.sum(y).scale(c)]
            case Binary("max", x, y) if c > 0:
                return [self.sum(x).scale(c), self.sum(y).scale(c)]
            case Binary("floordiv" | "truncdiv" as op, x, Const(d)) if int(d) > 0 and c % int(d) == 0 and (op == "floordiv" or self._is_natural(x)):
                times = c // int(d)  # d*q is in [x - d + 1, x]
                return [self.sum(x).shift(1 - int(d) if c > 0 else 0).scale(times)]
            case Binary("floormod" | "truncmod", x, Const(d)) if int(d) > 0 and c < 0 and self._is_natural(x):
                return [self.sum(x).scale(c)]
            case _:
                return []

    def _is_natural(self, x: Expr) -> bool:
        return self.at_least_zero(self.sum(x))

    def _range(self, a: Expr) -> Interval:
        """Constant bounds of an atom."""
        found = self._ranged.get(a)
        if found is None:
            found = self._ranged[a] = self._find_range(a)
        return found

    def _find_range(self, a: Expr) -> Interval:
        match a:
            case Binary("floordiv", x, Const(d)) if int(d) > 0:
                low, high = self.interval(x)
                return (None if low is None else low // int(d)), (None if high is None else high // int(d))
            case Binary("truncdiv", x, Const(d)) if int(d) > 0:
                low, high = self.interval(x)
                return (None if low is None else -(-low // int(d)) if low < 0 else low // int(d)), (None if high is None else max(0, high) // int(d))
            case Binary("floormod", _, Const(d)) if int(d) > 0:
                return 0, int(d) - 1
            case Binary("floordiv" | "floormod" as op, x, y) if not isinstance(y, Const):
                return self._quotient(op, x, y)
            case Binary("truncmod", x, Const(d)) if int(d) > 0:
                return (0 if self._is_natural(x) else 1 - int(d)), int(d) - 1
            case Binary("floordiv" | "floormod" | "truncdiv" | "truncmod" as op, x, y):
                above, by = self.interval(x), self.interval(y)
                if above[0] is None or above[0] < 0 or by[0] is None or by[0] < 1:
                    return _of_type(a.dtype)
                return mod_within(above, by) if op.endswith("mod") else divide_within(above, by)
            case Binary("min", x, y):
                (a0, a1), (b0, b1) = self.interval(x), self.interval(y)
                return (None if a0 is None or b0 is None else min(a0, b0)), least(a1, b1)
            case Binary("max", x, y):
                (a0, a1), (b0, b1) = self.interval(x), self.interval(y)
                return most(a0, b0), (None if a1 is None or b1 is None else max(a1, b1))
            case Binary("bitand", x, y):
                ends = [e[1] for e in (self.interval(x), self.interval(y)) if e[0] is not None and e[0] >= 0 and e[1] is not None]
                return (0, min(ends)) if ends else _of_type(a.dtype)
            case Binary("bitor" | "bitxor" as op, x, y) if (found := bit_ceiling(op, self.interval(x), self.interval(y)))[0] == 0:
                return found
            case Binary("shr", x, Const(count)) if 0 <= int(count) < 63:
                low, high = self.interval(x)
                return (None if low is None else low >> int(count)), (None if high is None else high >> int(count))
            case Binary("mul", x, y):
                return self._product(x, y)
            case Select(_, x, y):
                (a0, a1), (b0, b1) = self.interval(x), self.interval(y)
                return (None if a0 is None or b0 is None else min(a0, b0)), (None if a1 is None or b1 is None else max(a1, b1))
            case Cast(x, to) if to.is_int and x.dtype.is_int:
                low, high = self.interval(x)
                fits = low is not None and high is not None and low >= int(to.min) and high <= int(to.max)
                return (low, high) if fits else _of_type(to)
            case Cast(x, _) if x.dtype.is_bool:
                return 0, 1
            case Binary("add" | "sub", x, y) if a.dtype != INDEX:
                return self._narrow_sum(a, x, y)
            case Load() | Element() | Var():
                return _of_type(a.dtype)
            case _:
                return _of_type(a.dtype)

    def _quotient(self, op: str, x: Expr, y: Expr) -> Interval:
        """Of a division by what is not known but above 0."""
        (low, high), (few, many) = self.interval(x), self.interval(y)
        if few is None or few <= 0:
            return None, None
        if op == "floormod":
            return 0, None if many is None else many - 1
        return (0, None if high is None else high // few) if low is not None and low >= 0 else (None, None)

    def _narrow_sum(self, a: Binary, x: Expr, y: Expr) -> Interval:
        """Narrow integers wrap, so the sum of ranges counts only if it fits."""
        (a0, a1), (b0, b1) = self.interval(x), self.interval(y)
        if a.op == "sub":
            b0, b1 = (None if b1 is None else -b1), (None if b0 is None else -b0)
        if a0 is None or b0 is None or a1 is None or b1 is None or a0 + b0 < int(a.dtype.min) or a1 + b1 > int(a.dtype.max):
            return _of_type(a.dtype)
        return a0 + b0, a1 + b1

    def _product(self, x: Expr, y: Expr) -> Interval:
        (a0, a1), (b0, b1) = self.interval(x), self.interval(y)
        if a0 is not None and b0 is not None and a0 >= 0 and b0 >= 0:
            return a0 * b0, (None if a1 is None or b1 is None else a1 * b1)
        if a0 is None or a1 is None or b0 is None or b1 is None:
            return None, None
        ends = (a0 * b0, a0 * b1, a1 * b0, a1 * b1)
        return min(ends), max(ends)

    def _division(self, a: Binary) -> Linear | None:
        """The exact value of a division by a constant as a sum, if the numerator splits into multiples and a small rest."""
        if not isinstance(a.b, Const) or int(a.b.value) <= 0 or a.dtype != INDEX:
            return None
        if a not in self._divided:
            self._divided[a] = self._divide(a, int(a.b.value))
        return self._divided[a]

    def _divide(self, a: Binary, d: int) -> Linear | None:
        form = self.sum(a.a)
        rest = Linear({t: c for t, c in form.terms.items() if c % d}, form.const % d)
        low, high = self.lowest(rest), self.lowest(rest.scale(-1))
        if low is None or high is None or low < 0 or -high >= d:
            return None
        if a.op.startswith("trunc") and not self.at_least_zero(form):
            return None
        if a.op.endswith("mod"):
            return rest
        return Linear({t: c // d for t, c in form.terms.items() if c % d == 0}, form.const // d)


def _is_index(expr: Expr) -> bool:
    return expr.dtype == INDEX or (isinstance(expr, (Const, Var)) and expr.dtype.is_int)


def _of_type(dtype: DType) -> Interval:
    if dtype.is_bool:
        return 0, 1
    if not dtype.is_int or dtype.bits == 64:
        return (0, None) if dtype.kind == "u" else (None, None)
    return int(dtype.min), int(dtype.max)


def _vars(a: Expr) -> list[Var]:
    match a:
        case Var():
            return [a]
        case Binary(_, x, y):
            return [*_vars(x), *_vars(y)]
        case Unary(_, x) | Cast(x, _):
            return _vars(x)
        case _:
            return []
