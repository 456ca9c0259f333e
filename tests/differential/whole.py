"""Random arithmetic on every bit pattern, and kernels of several launches."""

from __future__ import annotations

from differential.cases import ALL, FLOATS, INTS, Maker
from differential.exprs import COMPARES, INT_OPS

from tileworkbench.base.dtypes import INDEX, DType
from tileworkbench.ir.expr import Binary, Buffer, Cast, Const, Load, Reinterpret, Select, Unary, Var
from tileworkbench.ir.stmt import Copy, For, If, Let, ParallelFor, Region, Store, whole

EXACT_FLOAT_OPS = ("add", "sub", "mul", "div", "min", "max", "copysign", "fmod")
TWINS = {16: ("int16", "uint16", "float16", "bfloat16"), 32: ("int32", "uint32", "float32"), 64: ("int64", "uint64", "float64")}
EXACT_UNARY = ("neg", "abs", "floor", "ceil", "trunc", "round", "nearbyint", "sqrt")
NEAR_UNARY = (
    "exp", "exp2", "exp10", "log", "log2", "log10", "log1p", "expm1", "rsqrt", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh",
    "asinh", "acosh", "atanh", "erf", "sigmoid",
)  # fmt: skip


def arithmetic(m: Maker):
    """One operation on any two numbers of one type, infinities and NaN among them, and a cast of the result."""
    n = m.pick((5, 16, 33, 100))
    body = []
    for _ in range(8):
        kind = DType(m.pick(ALL))
        a, b = (m.tensor([n], kind, None, m.any_data([n], kind)) for _ in range(2))
        i = m.var("i")
        x, y = Load(a, (i,)), Load(b, (i,))
        what = m.between(0, 5)
        if what == 0 and not kind.is_bool:
            value = Binary(m.pick(COMPARES), x, y)
        elif what == 1 and kind.is_float:
            value = Unary(m.pick((*EXACT_UNARY, "isnan", "isinf", "isfinite")), x)
        elif what == 1 and kind.is_int:
            value = Unary(m.pick(("neg", "abs", "bitnot", "popcount", "clz")), x)
        elif what == 2:
            value = x
        elif what == 3 and kind.bits in (16, 32, 64):
            value = Reinterpret(x, DType(m.pick(TWINS[kind.bits])))
        elif what == 4:
            value = Select(Binary("lt", x, y) if not kind.is_bool else x, y, x)
        elif kind.is_bool:
            value = Binary(m.pick(("and", "or", "bitand", "bitor", "bitxor")), x, y)
        else:
            value = Binary(m.pick(EXACT_FLOAT_OPS if kind.is_float else INT_OPS), x, y)
        to = value.dtype if m.chance(0.4) else DType(m.pick(ALL))
        out = m.tensor([n], to)
        var = m.var("v", value.dtype)
        converted = value if to == value.dtype else Cast(value, to)
        store = (Store(out, (i,), converted),)
        unrounded = value.dtype.is_float and value.dtype.bits < 32 and not isinstance(value, (Load, Reinterpret))  # in one expression; bound, it is
        if m.chance(0.3) or unrounded:
            store = (Let(var, value), Store(out, (i,), var if to == value.dtype else Cast(var, to)))
        body.append(ParallelFor((i,), (Const(n),), store) if m.chance(0.7) else For(i, Const(0), Const(n), store))
    m.launch(body)
    return m.case


def functions(m: Maker):
    """Functions that are rounded, on numbers where they are tame; equal within some units in the last place."""
    n = 40
    kind = DType(m.pick(("float32", "float64")))
    body = []
    for _ in range(6):
        name = m.pick(NEAR_UNARY)
        values = m.numbers.uniform(-2, 2, n)
        if name.startswith(("log", "rsqrt")):
            values = abs(values) + 0.1
        if name in ("asin", "acos", "atanh"):
            values = values * 0.45
        if name == "acosh":
            values = abs(values) + 1.5
        a, out = m.tensor([n], kind, None, values.astype(kind.to_numpy())), m.tensor([n], kind)
        i = m.var("i")
        body.append(ParallelFor((i,), (Const(n),), (Store(out, (i,), Unary(name, Load(a, (i,)))),)))
    m.launch(body)
    m.case.rtol, m.case.atol = 32 * 2 * kind.unit_roundoff, 8 * kind.unit_roundoff
    return m.case


def launches(m: Maker):
    """Data through workspaces, from launch to launch, with loops and branches of the host around them and grids that may be empty."""
    n = m.pick((0, 1, 7, 16, 33))
    rows = m.dim(n)
    cols = m.pick((1, 4, 9))
    kind = m.pick((*FLOATS[:4], *INTS))
    a, b = m.tensor([rows, cols], kind), m.tensor([rows, cols], kind)
    work = Buffer(m.fresh("w"), (rows, Const(cols)), DType(kind))
    m.case.workspaces.append(work)
    size = m.pick((1, 4, 8))
    blocks = Binary("floordiv", Binary("add", rows, Const(size - 1)), Const(size))

    def move(src: Buffer, dst: Buffer, how: int):
        bx = m.var("bx")
        tile = m.tile([size, cols], kind)
        box = (Binary("mul", bx, Const(size)), Const(0)), (Const(size), Const(cols))
        if how == 0:
            m.launch([Copy(Region(src, *box), whole(tile)), Copy(whole(tile), Region(dst, *box))], [tile], [(bx, blocks)])
            return
        i, j = m.var("i"), m.var("j")
        row = Binary("add", Binary("mul", bx, Const(size)), i)
        other = Binary("sub", Binary("sub", rows, Const(1)), row) if how == 2 else row
        value = Load(src, (other, j))
        value = Binary("max" if DType(kind).is_float else "add", value, Load(a, (row, Const(0)))) if dst is not a else value
        m.launch([ParallelFor((i, j), (Const(size), Const(cols)), (Store(dst, (row, j), value),))], [], [(bx, blocks)])

    move(a, work, m.between(0, 2))
    move(work, b, m.between(0, 2))
    if m.chance(0.6):  # both again, in a loop of the host or under a condition
        kept = m.case.body[:]
        move(b, work, m.between(0, 2))
        move(work, b, 0)
        inner = tuple(m.case.body[len(kept) :])
        step = Var(m.fresh("step"), INDEX)
        wrapped = For(step, Const(0), Const(m.between(0, 3)), inner) if m.chance(0.5) else If(Binary("gt", rows, Const(m.between(0, 20))), inner)
        m.case.body = [*kept, wrapped]
    return m.case
