"""Every operation on every dtype: the C target against the interpreter, in a vector loop and one element at a time."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from codegen.c_runner import Compiled
from codegen.ir_kit import Cast, Reinterpret, Select, Unary, Var, at, block, ix, kernel, op, put, tensor

from tileworkbench.base.dtypes import BOOL, DType
from tileworkbench.interpret import run as interpret
from tileworkbench.ir.expr import COMPARE, UNARY, Binary, Expr
from tileworkbench.ir.stmt import For, Kernel, ParallelFor

INTS = [DType(n) for n in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")]
FLOATS = [DType(n) for n in ("float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2")]
N = 96
Make = Callable[..., Expr]


def values(dtype: DType, seed: int, small: bool = False) -> np.ndarray:
    rng = np.random.default_rng(seed)
    if dtype.is_bool:
        return rng.integers(0, 2, N).astype(np.bool_)
    if dtype.is_int:
        low, high = (max(int(dtype.min), -9), 9) if small else (int(dtype.min), int(dtype.max))
        x = rng.integers(low, high, N, endpoint=True, dtype=dtype.to_numpy())
        x[:4] = [0, 1, dtype.max if not small else 7, dtype.min if not small else 3]
        return x
    x = rng.standard_normal(N) * np.exp2(rng.integers(-3, 4, N))
    x[:8] = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 0.5]
    return x.astype(dtype.to_numpy())


def elementwise(makes: dict[str, Make], inputs: list[DType], outs: list[DType], vector: bool) -> Kernel:
    """C_name[i] = make(A0[i], A1[i] ...) for every make."""
    tensors = [tensor(f"A{n}", (N,), d) for n, d in enumerate(inputs)]
    results = [tensor(f"C_{name}", (N,), d) for name, d in zip(makes, outs, strict=True)]
    body = []
    for (name, make), result in zip(makes.items(), results, strict=True):
        i = Var(f"i_{name}")
        store = put(result, i, make(*(at(t, i) for t in tensors)))
        body.append(ParallelFor((i,), (ix(N),), (store,)) if vector else For(i, ix(0), ix(N), (store,)))
    return kernel("elementwise", [*tensors, *results], [block((1,), (Var("bx"),), body)])


def agree(makes: dict[str, Make], arrays: list[np.ndarray], outs: DType | list[DType], ulps: float = 0, vector: bool = True) -> None:
    """C and interpreter give the same, float results to `ulps` units in the last place of their dtype."""
    outs = outs if isinstance(outs, list) else [outs] * len(makes)
    k = elementwise(makes, [DType(a.dtype.name) for a in arrays], outs, vector)
    mine, theirs = ([np.zeros(N, d.to_numpy()) for d in outs] for _ in range(2))
    assert Compiled(k)(*arrays, *mine) == 0
    interpret(k, [*arrays, *theirs])
    for name, out, a, b in zip(makes, outs, mine, theirs, strict=True):
        if not out.is_float:
            np.testing.assert_array_equal(a, b, err_msg=name)
            continue
        with np.errstate(all="ignore"):
            x, y = a.astype(np.float64), b.astype(np.float64)
            close = (x == y) | np.isnan(x) & np.isnan(y) | (np.abs(x - y) <= ulps * 2 * out.unit_roundoff * np.maximum(np.abs(y), 1e-38))
        assert close.all(), (name, [v[~close] for v in arrays], x[~close], y[~close])


@pytest.mark.parametrize("vector", [True, False], ids=["vector", "serial"])
@pytest.mark.parametrize("dtype", INTS, ids=str)
def test_integer_arithmetic(dtype: DType, vector: bool) -> None:
    names = ["add", "sub", "mul", "floordiv", "floormod", "truncdiv", "truncmod", "min", "max", "bitand", "bitor", "bitxor"]
    makes: dict[str, Make] = {n: lambda a, b, n=n: op(n, a, b) for n in names}
    # nothing is computed wider or narrower than its dtype
    makes["mixed"] = lambda a, b: op("sub", op("floormod", op("floordiv", op("add", op("mul", a, 3), b), 5), 7), op("shl", a, 2))
    agree(makes, [values(dtype, 1), values(dtype, 2, small=True)], dtype, vector=vector)


@pytest.mark.parametrize("dtype", INTS, ids=str)
def test_shifts_and_constant_divisors(dtype: DType) -> None:
    counts = np.resize(np.arange(-3 if dtype.kind == "i" else 0, dtype.bits + 4), N).astype(dtype.to_numpy())
    makes: dict[str, Make] = {n: lambda a, b, n=n: op(n, a, b) for n in ("shl", "shr")}
    makes |= {f"{n}_3": lambda a, b, n=n: op(n, a, 3) for n in ("shl", "shr")}
    for n in ("floordiv", "floormod", "truncdiv", "truncmod"):
        for d in (1, 7, 0, *((-1, -7) if dtype.kind == "i" else ())):
            makes[f"{n}_{d}".replace("-", "m")] = lambda a, b, n=n, d=d: op(n, a, d)
    agree(makes, [values(dtype, 1), counts], dtype)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_float_arithmetic(dtype: DType) -> None:
    arrays = [values(dtype, 1), values(dtype, 2)[::-1].copy()]
    agree({n: lambda a, b, n=n: op(n, a, b) for n in ("add", "sub", "mul", "div", "min", "max")}, arrays, dtype)


@pytest.mark.parametrize("dtype", [DType("float64"), DType("float32"), DType("float16")], ids=str)
def test_float_functions_of_two(dtype: DType) -> None:
    names = ["pow", "atan2", "fmod", "copysign", "hypot", "floordiv", "floormod", "truncdiv", "truncmod"]
    arrays = [values(dtype, 1), values(dtype, 2)[::-1].copy()]
    agree({n: lambda a, b, n=n: op(n, a, b) for n in names}, arrays, dtype, ulps=4)


@pytest.mark.parametrize("dtype", [*INTS, *FLOATS, BOOL], ids=str)
def test_comparisons_and_select(dtype: DType) -> None:
    arrays = [values(dtype, 1), values(dtype, 1).copy()]
    arrays[1][::3] = values(dtype, 2)[::3]
    makes: dict[str, Make] = {n: lambda a, b, n=n: Binary(n, a, b) for n in COMPARE}
    chosen: dict[str, Make] = {f"pick_{n}": lambda a, b, n=n: Select(Binary(n, a, b), a, b) for n in COMPARE}
    agree({**makes, **chosen}, arrays, [BOOL] * len(makes) + [dtype] * len(chosen))


@pytest.mark.parametrize("dtype", [*INTS, *FLOATS, BOOL], ids=str)
def test_unary(dtype: DType) -> None:
    integer = ("bitnot", "popcount", "clz", "neg", "abs")
    names = ["not"] if dtype.is_bool else integer if dtype.is_int else [n for n in UNARY if n not in ("not", "bitnot", "popcount", "clz")]
    outs = [BOOL if n in ("not", "isnan", "isinf", "isfinite") else dtype for n in names]
    agree({n: lambda a, n=n: Unary(n, a) for n in names}, [values(dtype, 3)], outs, ulps=8)


@pytest.mark.parametrize("source", [*INTS, *FLOATS, BOOL], ids=str)
def test_casts(source: DType) -> None:
    targets = [*INTS, *FLOATS, BOOL]
    agree({f"to_{t}": lambda a, t=t: Cast(a, t) for t in targets}, [values(source, 4)], targets)


@pytest.mark.parametrize("pair", ["float32 uint32", "float64 int64", "float16 uint16", "bfloat16 int16", "int8 uint8", "float8_e4m3fn uint8"])
def test_reinterpret(pair: str) -> None:
    a, b = pair.split()
    for source, target in ((DType(a), DType(b)), (DType(b), DType(a))):
        k = elementwise({"bits": lambda x, t=target: Reinterpret(x, t)}, [source], [target], True)
        array, out = values(source, 5), np.zeros(N, target.to_numpy())
        Compiled(k)(array, out)
        same = out.view(np.uint8) == array.view(np.uint8)
        if target.is_float:  # a signalling NaN may become quiet on its way through float32
            with np.errstate(invalid="ignore"):
                same |= np.repeat(np.isnan(out.astype(np.float64)), out.itemsize)
        assert same.all()


def test_and_or_guard_a_read() -> None:
    """The right side is not evaluated when the left decides; a read outside gives the safe value."""
    table = tensor("T", (8,), "int32", safe_value=5)
    index, out = tensor("I", (N,), "int32"), tensor("C", (N,), "int32")
    bx, i = Var("bx"), Var("i")
    where = Cast(at(index, i), DType("int64"))
    value = Select(Binary("and", Binary("ge", where, ix(0)), Binary("lt", where, ix(6))), at(table, where), at(table, op("add", where, 100)))
    k = kernel("guard", [table, index, out], [block((1,), (bx,), (ParallelFor((i,), (ix(N),), (put(out, i, value),)),))])
    t, ids, got = np.arange(8, dtype=np.int32) + 10, np.resize(np.arange(-4, 12), N).astype(np.int32), np.zeros(N, np.int32)
    Compiled(k)(t, ids, got)
    np.testing.assert_array_equal(got, np.where((ids >= 0) & (ids < 6), t[np.clip(ids, 0, 7)], 5))
