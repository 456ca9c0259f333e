"""Parallel loops: guards, loop ends, masks, private variables, order; and that they vectorise."""

from __future__ import annotations

import re
import subprocess

import numpy as np
import pytest
from codegen.c_runner import source_of
from codegen.differ import agree, random_array
from codegen.ir_kit import F32, I32, Cast, Select, Unary, Var, add, at, block, const, ix, kernel, lt, mul, op, put, tensor, tile

from tileworkbench.base.cpu import host_isa
from tileworkbench.ir.build import negate
from tileworkbench.ir.expr import Binary
from tileworkbench.ir.stmt import For, If, Kernel, Let, ParallelFor, Store

BX, BY, I, J, K = (Var(n) for n in ("bx", "by", "i", "j", "k"))


def loop(extents, body, variables=(I, J)) -> ParallelFor:
    return ParallelFor(tuple(variables[: len(extents)]), tuple(ix(e) for e in extents), tuple(body))


def block_text(k: Kernel) -> str:
    text = source_of(k).text
    return text[text.index(f"static void {k.name}_block") :]


def vectorised(k: Kernel) -> tuple[int, int]:
    """(vector loops asked for, vector loops that gcc made of them)."""
    source = source_of(k)
    command = ["gcc", "-O2", "-fopenmp", "-fopt-info-vec-optimized", *host_isa().march, *source.flags, "-S", "-o", "/dev/null", "-xc", "-"]
    done = subprocess.run(command, input=source.text, capture_output=True, text=True, check=True)
    made = {m[1] for m in re.finditer(r"<stdin>:(\d+):\d+: optimized: loop vectorized", done.stderr)}
    return source.text.count("#pragma omp simd"), len(made)


def test_ragged_loops_end_early() -> None:
    """A store that needs a test in every iteration turns it into the end of the loop."""
    a, b = tensor("A", (100, 70)), tensor("B", (100, 70))
    row, column = add(mul(BY, 32), I), add(mul(BX, 16), J)
    k = kernel("ragged", [a, b], [block((5, 4), (BX, BY), [loop((32, 16), [put(b, row, column, op("max", at(a, row, column), 0.0))])])])
    agree(k, [random_array((100, 70), "float32"), np.zeros((100, 70), np.float32)])
    assert "?" not in block_text(k)
    assert "if (" not in block_text(k).partition("int32_t run_")[0]


def test_dynamic_dims() -> None:
    m, n = Var("m"), Var("n")
    a, b = tensor("A", (m, n), safe_value=7), tensor("B", (n, m))
    row, column = add(mul(BY, 8), I), add(mul(BX, 8), J)
    body = [loop((8, 8), [put(b, column, row, op("add", at(a, row, column), at(a, op("sub", row, 1), add(column, 1))))])]
    grid = (op("floordiv", add(n, 7), 8), op("floordiv", add(m, 7), 8))
    k = kernel("turned", [a, b], [block(grid, (BX, BY), body)], dims=(m, n))
    for rows, columns in ((8, 8), (5, 13), (17, 3), (0, 4), (3, 0)):
        agree(k, [random_array((rows, columns), "float32"), np.zeros((columns, rows), np.float32)], dims={"m": rows, "n": columns}, threads=2)


def test_causal_mask_compares_once_per_vector() -> None:
    """i >= j with block offsets becomes a comparison of the loop variable with a number computed before the loop."""
    s, m = tensor("S", (4, 4, 64, 128)), tensor("M", (4, 64))
    seen = op("ge", add(mul(BY, 64), I), add(mul(BX, 128), J))
    value = Select(seen, op("sub", at(s, BY, BX, I, J), at(m, BY, I)), const(float("-inf"), F32))
    k = kernel("mask", [s, m], [block((4, 4), (BX, BY), [loop((64, 128), [put(s, BY, BX, I, J, value)])])])
    agree(k, [random_array((4, 4, 64, 128), "float32"), random_array((4, 64), "float32")])
    assert re.search(r"j < j_end \? S_j - M_0 : -__builtin_inff\(\)", block_text(k))
    assert vectorised(k) == (1, 1)


CONDITIONS = {
    "lt": lambda: lt(add(mul(J, 3), I), 40),
    "le_negative": lambda: op("le", op("sub", I, mul(J, 2)), -9),
    "window": lambda: Binary("and", op("ge", J, op("sub", I, 3)), op("le", J, add(I, 2))),
    "either": lambda: Binary("or", lt(J, 5), op("gt", J, add(I, 20))),
    "row": lambda: lt(I, 7),
    "row_and_column": lambda: Binary("and", lt(I, 7), lt(J, 19)),
    "row_or_column": lambda: Binary("or", lt(I, 7), op("ge", J, 19)),
    "not": lambda: negate(Binary("and", lt(I, 7), lt(J, 19))),
    "equal": lambda: op("eq", J, add(I, 3)),
    "modulo": lambda: op("eq", op("floormod", add(J, I), 3), 1),
    "never": lambda: lt(J, 0),
    "always": lambda: op("ge", J, 0),
    "loaded": lambda: op("gt", at(tensor("A", (16, 32)), I, J), 0.0),
}


@pytest.mark.parametrize("name", CONDITIONS)
def test_conditions_in_vector_loops(name: str) -> None:
    a, b, c = tensor("A", (16, 32)), tensor("B", (16, 32)), tensor("C", (16, 32))
    cond = CONDITIONS[name]()
    body = [put(b, I, J, Select(cond, mul(at(a, I, J), 2.0), at(c, I, 0))), If(cond, (put(c, I, J, op("add", at(a, I, J), 1.0)),))]
    k = kernel("choose", [a, b, c], [block((1,), (BX,), [loop((16, 32), body[:1]), loop((16, 32), body[1:])])])
    agree(k, [random_array((16, 32), "float32", n) for n in range(3)])


def test_if_else_stores_become_one() -> None:
    a, b = tensor("A", (16, 32)), tensor("B", (16, 32))
    inside = Binary("and", op("ge", op("sub", J, 2), 0), lt(add(I, 3), 16))
    body = [If(inside, (put(b, I, J, at(a, add(I, 3), op("sub", J, 2))),), (put(b, I, J, -1.0),))]
    k = kernel("pad", [a, b], [block((1,), (BX,), [loop((16, 32), body)])])
    agree(k, [random_array((16, 32), "float32"), np.zeros((16, 32), np.float32)])
    assert "if (" not in block_text(k).partition("int32_t run_")[0]


def test_a_serial_loop_inside_goes_outside_the_vector() -> None:
    a, b, c = tensor("A", (16, 8)), tensor("B", (8, 32)), tensor("C", (16, 32))
    step = put(c, I, J, op("add", at(c, I, J), mul(at(a, I, K), at(b, K, J))))
    k = kernel("product", [a, b, c], [block((1,), (BX,), [loop((16, 32), [For(K, ix(0), ix(8), (step,))])])])
    agree(k, [random_array(s, "float32") for s in ((16, 8), (8, 32), (16, 32))])
    assert vectorised(k) == (1, 1)


def test_the_contiguous_dim_goes_innermost() -> None:
    a, b = tensor("A", (32, 16)), tensor("B", (32, 16))
    k = kernel("order", [a, b], [block((1,), (BX,), [loop((16, 32), [put(b, J, I, at(a, J, I))])])])
    agree(k, [random_array((32, 16), "float32"), np.zeros((32, 16), np.float32)])
    assert "i < 16" in block_text(k).partition("#pragma omp simd")[2].split("\n")[1]


def test_private_scalars_and_arrays() -> None:
    """A variable that an iteration writes is its own; it starts with the outer value."""
    a, b = tensor("A", (40,), "int32"), tensor("B", (40,), "int32")
    v, w = tile("v", (1,), "int32", "var"), tile("w", (3,), "int32", "local")
    body = [
        put(v, 0, 7), put(w, 1, 5),
        loop((40,), [
            put(v, 0, op("add", at(v, 0), at(a, I))),
            If(op("gt", at(a, I), 0), (put(v, 0, mul(at(v, 0), 2)),)),
            put(b, I, at(v, 0)),
        ]),
        loop((40,), [put(w, 0, at(a, J)), put(w, 2, op("add", at(w, 0), at(w, 1))), put(b, J, op("add", at(b, J), at(w, 2)))], (J,)),
    ]  # fmt: skip
    k = kernel("private", [a, b], [block((1,), (BX,), body, [v, w])])
    x = random_array((40,), "int32")
    out = agree(k, [x, np.zeros(40, np.int32)])
    np.testing.assert_array_equal(out[1], np.where(x > 0, 2 * (7 + x), 7 + x) + x + 5)
    assert "simd" in block_text(k)


def test_values_of_loop_variables() -> None:
    """Indices as data wrap and convert as the language says, also where they are int32 in C."""
    b, c, d = tensor("B", (8, 40), "int32"), tensor("C", (8, 40)), tensor("D", (8, 40), "uint8")
    big = add(mul(add(mul(BX, 8), I), 1 << 33), mul(J, 123456789))
    body = [put(b, I, J, Cast(big, I32)), put(c, I, J, Cast(add(mul(J, J), I), F32)), put(d, I, J, Cast(add(J, mul(I, 100)), d.type))]
    k = kernel("indices", [b, c, d], [block((1,), (BX,), [loop((8, 40), body)])])
    agree(k, [np.zeros((8, 40), t) for t in (np.int32, np.float32, np.uint8)])


def test_division_of_indices() -> None:
    a, b = tensor("A", (6, 4)), tensor("B", (4, 24))
    flat = add(mul(I, 24), J)
    rest = op("floormod", flat, 24)
    body = [Let(K, flat), put(b, op("floordiv", K, 24), op("floormod", K, 24), at(a, op("floordiv", rest, 4), op("floormod", rest, 4)))]
    k = kernel("divided", [a, b], [block((1,), (BX,), [loop((4, 24), body)])])
    agree(k, [random_array((6, 4), "float32"), np.zeros((4, 24), np.float32)])
    assert "floor" not in source_of(k).text
    assert "B[i * 24 + j]" in block_text(k)


def test_unpacking_of_nibbles_vectorises() -> None:
    """Two values to a byte, a scale for 32 of them: no gather and no division is left."""
    w, s, y = tensor("W", (16, 48), "uint8"), tensor("S", (16, 3)), tensor("Y", (16, 96))
    shift = Cast(mul(op("floormod", J, 2), 4), w.type)
    nibble = Cast(op("bitand", op("shr", at(w, I, op("floordiv", J, 2)), shift), 15), I32)
    value = op("mul", Cast(op("sub", op("bitxor", nibble, 8), 8), F32), at(s, I, op("floordiv", J, 32)))
    k = kernel("unpack", [w, s, y], [block((1,), (BX,), [loop((16, 96), [put(y, I, J, value)])])])
    packed = np.random.default_rng(0).integers(0, 256, (16, 48)).astype(np.uint8)
    agree(k, [packed, random_array((16, 3), "float32"), np.zeros((16, 96), np.float32)])
    assert vectorised(k) == (1, 1)


def test_gather_and_scatter() -> None:
    a, ids, b = tensor("A", (10, 8), safe_value=-1), tensor("ids", (32,), "int64"), tensor("B", (32, 8))
    body = [loop((32, 8), [put(b, I, J, at(a, at(ids, I), J))]), loop((32,), [put(b, at(ids, K), 0, 99.0)], (K,))]
    k = kernel("gather", [a, ids, b], [block((1,), (BX,), body)])
    where = np.random.default_rng(0).integers(-5, 15, 32)
    agree(k, [random_array((10, 8), "float32"), where, np.zeros((32, 8), np.float32)])


def test_symbolic_extents() -> None:
    n = Var("n")
    a = tensor("A", (n,), "int32")
    k = kernel("count", [a], [block((1,), (BX,), [loop((n,), [put(a, I, Cast(I, I32))])])], dims=(n,))
    for size in (0, 1, 100):
        agree(k, [np.zeros(size, np.int32)], dims={"n": size})


ELEMENTWISE = {
    "relu": lambda x, y: op("max", x, 0.0),
    "scale": lambda x, y: op("add", mul(x, 2.0), y),
    "exp": lambda x, y: Unary("exp", op("sub", x, y)),
    "exp2": lambda x, y: Unary("exp2", mul(x, y)),  # of a row alone it is a call
    "sigmoid": lambda x, y: Unary("sigmoid", x),
    "tanh": lambda x, y: Unary("tanh", x),
    "rsqrt": lambda x, y: Unary("rsqrt", add(mul(x, x), 1.0)),
    "divide": lambda x, y: op("div", x, y),
    "select": lambda x, y: Select(op("gt", x, y), x, mul(y, 0.5)),
}


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_elementwise_loops_vectorise(dtype: str) -> None:
    """Every loop that is marked is really made of vector instructions."""
    if host_isa().name not in ("avx512", "avx2"):
        pytest.skip("gcc's report is read on x86")
    a, b = tensor("A", (64, 128), dtype), tensor("B", (64, 128), dtype)
    outs = [tensor(f"C_{n}", (64, 128), dtype) for n in ELEMENTWISE]
    body = []
    for n, (make, out) in enumerate(zip(ELEMENTWISE.values(), outs, strict=True)):
        i, j = Var(f"i{n}"), Var(f"j{n}")
        body.append(ParallelFor((i, j), (ix(64), ix(128)), (Store(out, (i, j), make(at(a, i, j), at(b, i, j))),)))
    asked, made = vectorised(kernel("elementwise", [a, b, *outs], [block((1,), (BX,), body)]))
    assert (asked, made) == (len(outs), len(outs))


def test_serial_loops_among_other_statements_vectorise() -> None:
    """An accumulator of the iteration becomes an array; index arithmetic is repeated, what was read is kept."""
    a, b, c = tensor("A", (16, 8)), tensor("B", (8, 40)), tensor("C", (16, 40))
    acc, start, row = tile("acc", (1,), "float32", "var"), Var("start", F32), Var("row")
    update = put(acc, 0, op("add", at(acc, 0), op("mul", at(a, row, K), at(b, K, J))))
    body = [
        Let(row, op("sub", 15, I)),
        Let(start, at(c, row, J)),
        put(acc, 0, 0.5),
        For(K, ix(0), ix(8), (update,)),
        put(c, row, J, op("add", at(acc, 0), start)),
    ]
    k = kernel("products", [a, b, c], [block((1,), (BX,), [loop((16, 40), body)], [acc])])
    agree(k, [random_array(s, "float32") for s in ((16, 8), (8, 40), (16, 40))])
    assert vectorised(k) == (3, 3)
