"""Random expressions, over lanes and over single values, against the one-element-at-a-time evaluator of `scalar_reference`."""

from __future__ import annotations

from typing import Any

import numpy as np
import scalar_reference as reference
from handmade import I, J, at, buf, one_block, outputs, par, put
from hypothesis import given, settings
from hypothesis import strategies as st

from tileworkbench.base.dtypes import BOOL, INDEX, DType
from tileworkbench.ir.expr import Binary, Buffer, Cast, Const, Expr, Reinterpret, Select, Unary, const
from tileworkbench.ir.printer import print_expr
from tileworkbench.ir.stmt import Let, Store

DTYPES = [DType(n) for n in ("int64", "int32", "uint8", "int4", "float32", "float16", "bfloat16", "float64", "bool")]
ROWS, COLS = 3, 4
INPUTS: dict[DType, Buffer] = {d: buf(f"in_{d}", ROWS, COLS, dtype=d) for d in DTYPES}
INT_OPS = ("add", "sub", "mul", "floordiv", "floormod", "truncdiv", "truncmod", "min", "max", "bitand", "bitor", "bitxor", "shl", "shr")


@st.composite
def expressions(draw: Any, dtype: DType, depth: int) -> Expr:
    """An expression of `dtype` over i, j and one input tile per dtype; loads may lie outside."""
    leaf = depth == 0 or draw(st.integers(0, 4)) == 0
    if leaf:
        if dtype == INDEX and draw(st.booleans()):
            return draw(st.sampled_from([I, J]))
        if draw(st.booleans()):
            shift = draw(st.integers(-1, 1))
            return at(INPUTS[dtype], I, Binary("add", J, Const(shift)))
        if dtype.is_float:
            return const(draw(st.sampled_from([0.0, 1.0, -2.5, 0.1, 100.0])), dtype)
        return const(draw(st.integers(-9, 9)), dtype)
    below = lambda d: draw(expressions(d, depth - 1))
    kind = draw(st.integers(0, 4))
    if kind == 0:
        return Select(below(BOOL), below(dtype), below(dtype))
    if kind == 1:
        return Cast(below(draw(st.sampled_from(DTYPES))), dtype)
    if dtype.is_bool:
        if kind == 2:
            return Binary(draw(st.sampled_from(("and", "or", "bitand", "bitxor"))), below(BOOL), below(BOOL))
        if kind == 3:
            return Unary("not", below(BOOL))
        other = draw(st.sampled_from(DTYPES[:-1]))
        return Binary(draw(st.sampled_from(("lt", "le", "gt", "ge", "eq", "ne"))), below(other), below(other))
    if dtype.is_float:
        if kind == 2:
            return Unary(draw(st.sampled_from(("neg", "abs", "floor", "trunc"))), below(dtype))
        if kind == 3 and dtype == "float32":
            return Reinterpret(below(DType("int32")), dtype)
        return Binary(draw(st.sampled_from(("add", "sub", "mul", "div"))), below(dtype), below(dtype))
    if kind == 2:
        return Unary(draw(st.sampled_from(("neg", "abs", "bitnot", "popcount", "clz"))), below(dtype))
    return Binary(draw(st.sampled_from(INT_OPS)), below(dtype), below(dtype))


def arrays(seed: int) -> dict[str, np.ndarray]:
    r = np.random.default_rng(seed)
    made = {}
    for dtype, buffer in INPUTS.items():
        if dtype.is_float:
            values = r.choice([0.0, -0.0, 1.0, -1.5, 3.25, 1e4, -1e-3, np.inf, np.nan], (ROWS, COLS))
        elif dtype.is_bool:
            values = r.integers(0, 2, (ROWS, COLS))
        else:
            values = r.choice([dtype.min, dtype.max, 0, 1, 2, 3, 5, 7], (ROWS, COLS)).astype(np.int64)
        made[buffer.name] = values.astype(np.int8 if dtype == "int4" else dtype.to_numpy()).astype(dtype.to_numpy())
    return made


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(DTYPES).flatmap(lambda d: expressions(d, 3)), st.integers(0, 5))
def test_random_expressions(e, seed):
    out = buf("out", ROWS, COLS, dtype=e.dtype)
    inputs = arrays(seed)
    memory = {name: a.tolist() for name, a in inputs.items()}
    zeros = np.zeros((ROWS, COLS), e.dtype.to_numpy())
    lanes = outputs(one_block([*INPUTS.values(), out], par((I, J), (ROWS, COLS), Store(out, (I, J), e))), *inputs.values(), zeros.copy())
    for i in range(ROWS):
        for j in range(COLS):
            want = reference.value(e, {"i": i, "j": j}, memory)
            assert reference.same(lanes[i, j].item() if e.dtype.kind != "f" else float(lanes[i, j]), want), (
                f"[{i}, {j}] of {print_expr(e)}: {lanes[i, j]} != {want}"
            )


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(DTYPES).flatmap(lambda d: expressions(d, 3)), st.integers(0, ROWS - 1), st.integers(0, COLS - 1))
def test_random_expressions_of_single_values(e, i, j):
    out = buf("out", 1, dtype=e.dtype)
    inputs = arrays(1)
    k = one_block([*INPUTS.values(), out], Let(I, Const(i)), Let(J, Const(j)), put(out, 0, e))
    got = outputs(k, *inputs.values(), np.zeros(1, e.dtype.to_numpy()))
    want = reference.value(e, {"i": i, "j": j}, {name: a.tolist() for name, a in inputs.items()})
    assert reference.same(got[0].item() if e.dtype.kind != "f" else float(got[0]), want), f"{print_expr(e)}: {got[0]} != {want}"
