"""Index arithmetic in 32 bits: the same numbers, no value on the way that does not fit, and what must stay in 64 bits."""

from __future__ import annotations

import random
from collections.abc import Mapping

import numpy as np
import pytest
from codegen.ir_kit import BOOL, Var, add, ix, kernel, lt, mul, op, tensor

import tileworkbench as twb
import tileworkbench.language as T
from tileworkbench.base.dtypes import INDEX, INT32, DType
from tileworkbench.ir.build import cast
from tileworkbench.ir.expr import Binary, Buffer, Cast, Const, Expr, Select, Unary
from tileworkbench.ir.lowered import Element, Grid, LibraryCall, Loop, SetElement
from tileworkbench.ir.node import walk
from tileworkbench.ir.stmt import If, Let, Stmt
from tileworkbench.runtime.translate_cuda import translate_cuda
from tileworkbench.transform.narrow_indices import narrow_indices

BX, BY, TX, R, N = Var("bx"), Var("by"), Var("tx"), Var("r"), Var("n")
OUT = tensor("out", (1 << 40,), "int64")


def narrowed(value: Expr, blocks: int = 1000, threads: int = 256, turns: int = 64, start: int = 0) -> tuple[Expr, Loop]:
    """`value`, an index over bx, by, tx, r and n, after the pass; and its loop over r."""
    loop = Loop(R, ix(start), ix(turns), (SetElement(OUT, value, value),), unroll=True)
    head = Let(TX, cast(LibraryCall("twb_thread_x", (), INT32), INDEX))
    grid = Grid("k", (BX, BY), (ix(blocks), Var("rows")), (), (head, loop), threads=(threads,))
    made = narrow_indices(kernel("k", (OUT,), [grid], (N, Var("rows"))))
    (after,) = [n for n in walk(made) if isinstance(n, Loop)]
    (store,) = [n for n in walk(made) if isinstance(n, SetElement)]
    assert store.value.dtype == INDEX, "what is stored keeps its type"
    return store.offset, after


def number(e: Expr, env: Mapping[str, int]) -> int:
    """The value of an integer expression; every int32 on the way has to fit."""
    out = _number(e, env)
    if e.dtype == INT32:
        assert -(1 << 31) <= out < 1 << 31, f"{out} is no int32"
    return out


def _number(e: Expr, env: Mapping[str, int]) -> int:
    match e:
        case Const(value):
            return int(value)
        case Var(name):
            return env[name]
        case Cast(x, _):
            return number(x, env)
        case Unary("neg", x):
            return -number(x, env)
        case Select(cond, a, b):
            return number(a if number(cond, env) else b, env)
        case Binary(op, x, y):
            assert x.dtype == y.dtype
            a, b = number(x, env), number(y, env)
            match op:
                case "truncdiv":
                    return abs(a) // b * (-1 if a < 0 else 1)
                case "truncmod":
                    return abs(a) % b * (-1 if a < 0 else 1)
            return {
                "add": lambda: a + b, "sub": lambda: a - b, "mul": lambda: a * b, "floordiv": lambda: a // b, "floormod": lambda: a % b,
                "min": lambda: min(a, b), "max": lambda: max(a, b), "shl": lambda: a << b, "shr": lambda: a >> b,
                "bitand": lambda: a & b, "bitor": lambda: a | b, "bitxor": lambda: a ^ b, "lt": lambda: int(a < b),
            }[op]()  # fmt: skip
    raise AssertionError(e)


def is_small(e: Expr) -> bool:
    return all(n.dtype != INDEX for n in walk(e) if isinstance(n, Expr))


def made_up(rng: random.Random, depth: int) -> Expr:
    """An expression like those that indices are made of, and worse."""
    if depth == 0:
        return rng.choice([BX, BY, TX, R, TX, R, N, ix(rng.choice([0, 1, 3, 8, 127, 4096, -5, 1 << 20, 1 << 33]))])
    a, b, small = made_up(rng, depth - 1), made_up(rng, depth - 1), ix(rng.choice([1, 2, 3, 7, 8, 32, 64, 1000]))
    match rng.randrange(12):
        case 0 | 1 | 2:
            return op("add", a, b)
        case 3:
            return op("sub", a, b)
        case 4 | 5:
            return op("mul", a, small)
        case 6:
            return op("mul", a, b)
        case 7 | 8:
            return op(rng.choice(["floordiv", "floormod", "truncdiv", "truncmod"]), a, small)
        case 9:
            return op(rng.choice(["min", "max", "bitand", "bitor", "bitxor"]), a, b)
        case 10:
            return Select(lt(a, b), a, b)
        case _:
            return rng.choice([Unary("neg", a), op("shr", a, ix(3)), op("shl", a, ix(4))])


@pytest.mark.parametrize("seed", range(60))
def test_the_same_numbers(seed: int) -> None:
    rng = random.Random(seed)
    value = made_up(rng, rng.randrange(1, 6))
    new, loop = narrowed(value)
    assert loop.var.type == INT32
    ends = {"bx": (0, 999), "by": (0, 65534), "tx": (0, 255), "r": (0, 63), "n": (0, 1 << 40)}
    for _ in range(60):
        env = {name: rng.choice([low, high, rng.randint(low, high)]) for name, (low, high) in ends.items()}
        assert number(new, env) == number(value, env)


def test_everything_small() -> None:
    new, loop = narrowed(add(add(mul(BX, 4096), mul(op("truncdiv", TX, 4), 64)), add(R, op("truncmod", TX, 4))))
    assert is_small(new) and loop.var.type == INT32 and is_small(loop.stop)
    assert {n.op for n in walk(new) if isinstance(n, Binary)} == {"add", "mul", "shr", "bitand"}


def test_what_is_too_large_stays_wide() -> None:
    new, _ = narrowed(add(mul(BX, 1 << 22), add(mul(TX, 8), R)), blocks=1000)
    assert new.dtype == INDEX
    assert isinstance(new, Binary) and isinstance(new.b, Cast) and is_small(new.b.x), "the small terms are added in 32 bits"
    assert is_small(narrowed(add(mul(BX, 1 << 21), R), blocks=1000)[0])


def test_dims_stay_wide() -> None:
    new, _ = narrowed(add(mul(add(mul(BX, 64), R), N), TX))
    assert new.dtype == INDEX and any(n == N for n in walk(new))


def test_negative_numbers() -> None:
    """Floor division by a power of two is a shift whatever the sign; C's division is one only for what is not negative."""
    below = op("sub", R, 5)
    assert isinstance(narrowed(op("floordiv", below, 4))[0], Binary)
    assert narrowed(op("floordiv", below, 4))[0].op == "shr"  # type: ignore[attr-defined]
    assert narrowed(op("floormod", below, 4))[0].op == "bitand"  # type: ignore[attr-defined]
    assert narrowed(op("truncdiv", below, 4))[0].op == "truncdiv"  # type: ignore[attr-defined]
    assert narrowed(op("floordiv", R, 7))[0].op == "truncdiv"  # type: ignore[attr-defined]


@pytest.mark.parametrize(("stop", "is_narrow"), [((1 << 31) - 2, True), ((1 << 31) - 1, False), (1 << 31, False)])
def test_a_counter_that_passes_its_end(stop: int, is_narrow: bool) -> None:
    assert (narrowed(R, turns=stop)[1].var.type == INT32) == is_narrow


def test_a_name_that_is_bound_again_with_a_larger_value() -> None:
    j = Var("j")
    sets = [If(Const(True, BOOL), (Let(j, mul(BX, by)), SetElement(OUT, j, add(j, 1)))) for by in (8, 1 << 40, 8)]
    made = narrow_indices(kernel("k", (OUT,), [Grid("k", (BX,), (ix(1000),), (), tuple(sets), threads=(32,))]))
    assert [n.var.type for n in walk(made) if isinstance(n, Let)] == [INT32, INDEX, INT32]
    assert [n.offset.dtype for n in walk(made) if isinstance(n, SetElement)] == [INT32, INDEX, INT32]


def test_a_comparison_of_two_widths() -> None:
    new, _ = narrowed(Select(lt(add(mul(BX, 64), R), N), TX, ix(0)))
    assert number(new, {"bx": 3, "r": 5, "n": 1 << 35, "tx": 7}) == 7


def test_values_from_memory_are_not_narrowed() -> None:
    table = tensor("table", (1000,), "int64")
    new, _ = narrowed(add(Element(table, TX), R))
    assert new.dtype == INDEX
    (read,) = [n for n in walk(new) if isinstance(n, Element)]
    assert read.offset.dtype == INT32
    byte = Buffer("byte", (ix(10),), DType("uint8"))
    assert narrowed(add(cast(Element(byte, TX), INDEX), R))[0].dtype == INT32


def test_host_statements_keep_their_types() -> None:
    stmt: Stmt = Let(Var("half"), op("floordiv", N, 2))
    made = kernel("k", (), [stmt], (N,))
    assert narrow_indices(made) is made


# ---------------------------------------------------------------------------------------------- whole kernels
def test_a_large_array() -> None:
    """Offsets above 2^31: the text keeps 64 bits where it has to."""

    @T.prim_func
    def ends(A: T.Tensor((1 << 17, 1 << 16), "int8"), B: T.Tensor((4, 128), "int8")) -> None:
        with T.Kernel(4, threads=128) as bx:
            for j in T.Parallel(128):
                B[bx, j] = A[bx * 43690, j * 512]

    text = translate_cuda(ends.kernel, "sm_80")[0].text
    assert "(int64_t)bx * 2863267840" in text or "bx * 2863267840" in text


def test_dynamic_shapes() -> None:
    m, n = T.dynamic("m"), T.dynamic("n")

    @T.prim_func
    def turned(A: T.Tensor((m, n), "float32"), B: T.Tensor((n, m), "float32")) -> None:
        with T.Kernel(T.ceildiv(n, 32), T.ceildiv(m, 16), threads=64) as (bx, by):
            s = T.alloc_shared((16, 32), "float32")
            T.copy(A[by * 16, bx * 32], s)
            for i, j in T.Parallel(32, 16):
                B[bx * 32 + i, by * 16 + j] = s[j, i]

    compiled = twb.compile(turned, target="emulate:sm_80")
    assert "int32_t bx" in compiled.source and "int64_t m" in compiled.source
    for shape in ((16, 32), (37, 41), (1, 100), (33, 1)):
        a = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
        b = np.zeros(shape[::-1], np.float32)
        compiled(a, b)
        assert np.array_equal(b, a.T)
