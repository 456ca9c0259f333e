"""Random expressions whose value is exact: a bound on the magnitude travels with each, and what grows too large is clamped."""

from __future__ import annotations

from collections.abc import Callable

from differential.cases import Maker

from tileworkbench.base.dtypes import BOOL, INDEX, DType
from tileworkbench.ir.expr import Binary, Cast, Const, Expr, Select, Unary, Var, const

Sized = tuple[Expr, float]  # an expression and a bound on its magnitude
# integers up to here are exact
EXACT = {"float64": 2.0**50, "float32": 2.0**23, "float16": 2.0**11, "bfloat16": 2.0**8, "float8_e4m3fn": 2.0**4, "float8_e5m2": 2.0**3}
INT_OPS = (
    "add", "sub", "mul", "min", "max", "bitand", "bitor", "bitxor", "floordiv", "floormod", "truncdiv", "truncmod", "shl", "shr",
)  # fmt: skip
FLOAT_OPS = ("add", "sub", "mul", "min", "max", "add", "mul")
COMPARES = ("lt", "le", "gt", "ge", "eq", "ne")


def clamp(x: Expr, high: int = 3) -> Expr:
    """A number of any arithmetic type within [-high, high]."""
    low = 0 if x.dtype.kind == "u" else -high
    return Binary("min", Binary("max", x, const(low, x.dtype)), const(high, x.dtype))


class Exprs:
    """Draws expressions; `leaf(dtype)` gives a load or another value of that dtype, or None if there is none."""

    def __init__(self, maker: Maker, leaf: Callable[[DType], Sized | None], indices: list[Var]) -> None:
        self.maker, self.leaf, self.indices = maker, leaf, indices

    def value(self, dtype: DType, depth: int) -> Sized:
        """Any expression of `dtype`."""
        m = self.maker
        if dtype.is_bool:
            return self.test(depth), 1
        if depth <= 0 or m.chance(0.15):
            return self.simple(dtype)
        if m.chance(0.15):
            test = self.test(depth - 1)
            a, b = self.value(dtype, depth - 1), self.value(dtype, depth - 1)
            return Select(test, a[0], b[0]), max(a[1], b[1])
        if m.chance(0.12):
            return self.converted(dtype, depth)
        return self.float_value(dtype, depth) if dtype.is_float else self.int_value(dtype, depth)

    def converted(self, dtype: DType, depth: int) -> Sized:
        """A cast from another type."""
        m = self.maker
        other = DType(m.pick(("float32", "float64", "float16", "bfloat16", "int32", "int64", "int8", "uint8", "int16", "uint32", "bool")))
        if other == dtype:
            return self.simple(dtype)
        x, size = self.value(other, depth - 1)
        if dtype.is_float and size > EXACT[dtype]:
            x, size = clamp(x), 3
        if not dtype.is_float:
            size = float("inf")
        return Cast(x, dtype), size

    def float_value(self, dtype: DType, depth: int) -> Sized:
        m = self.maker
        if m.chance(0.15):
            x, size = self.value(dtype, depth - 1)
            return Unary(m.pick(("neg", "abs", "floor", "ceil", "trunc", "round")), x), size
        op = m.pick(FLOAT_OPS)
        (a, x), (b, y) = self.value(dtype, depth - 1), self.value(dtype, depth - 1)
        size = {"mul": x * y, "min": max(x, y), "max": max(x, y)}.get(op, x + y)
        if size > EXACT[dtype]:
            a, b = clamp(a, 2), clamp(b, 2)
            size = 4
        return Binary(op, a, b), size

    def int_value(self, dtype: DType, depth: int) -> Sized:
        m = self.maker
        if m.chance(0.12):
            x, _ = self.value(dtype, depth - 1)
            return Unary(m.pick(("neg", "abs", "bitnot")), x), float("inf")
        op = m.pick(INT_OPS)
        a, _ = self.value(dtype, depth - 1)
        b, _ = self.value(dtype, depth - 1) if m.chance(0.6) else self.constant(dtype)
        return Binary(op, a, b), float("inf")

    def constant(self, dtype: DType) -> Sized:
        low = 0 if dtype.kind == "u" else -3
        return const(self.maker.between(low, 4), dtype), 4

    def simple(self, dtype: DType) -> Sized:
        m = self.maker
        if dtype.is_bool and m.chance(0.3):
            return const(m.chance(0.5), BOOL), 1
        if m.chance(0.7):
            found = self.leaf(dtype)
            if found is not None:
                return found
        if self.indices and m.chance(0.5) and not dtype.is_bool:
            var = m.pick(self.indices)
            if dtype == INDEX:
                return var, float("inf")
            if dtype.is_float:
                return Cast(clamp(var), dtype), 3
            return Cast(var, dtype), float("inf")
        return self.constant(dtype) if not dtype.is_bool else (const(True, BOOL), 1)

    def test(self, depth: int) -> Expr:
        """A condition."""
        m = self.maker
        if depth > 0 and m.chance(0.3):
            op = m.pick(("and", "or", "not"))
            return Unary("not", self.test(depth - 1)) if op == "not" else Binary(op, self.test(depth - 1), self.test(depth - 1))
        if self.indices and m.chance(0.4):
            a = self.index(m.pick(self.indices))
            b = Const(m.between(-2, 12)) if m.chance(0.6) else self.index(m.pick(self.indices))
            return Binary(m.pick(COMPARES), a, b)
        if m.chance(0.15):
            found = self.leaf(BOOL)
            if found is not None:
                return found[0]
        dtype = DType(m.pick(("float32", "int32", "float16", "int64", "uint8", "float64", "uint32")))
        (a, _), (b, _) = self.value(dtype, depth - 1), self.value(dtype, depth - 1)
        return Binary(m.pick(COMPARES), a, b)

    def index(self, var: Expr) -> Expr:
        """A number that goes with an index."""
        m = self.maker
        match m.between(0, 5):
            case 0:
                return Binary("add", var, Const(m.between(-3, 5)))
            case 1:
                return Binary("mul", var, Const(m.pick((2, 3, -1, -2))))
            case 2:
                return Binary(m.pick(("floordiv", "floormod", "truncdiv", "truncmod")), var, Const(m.pick((2, 3, 4, 7))))
            case 3:
                return Binary("sub", Const(m.between(0, 9)), var)
            case _:
                return var
