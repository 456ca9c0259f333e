"""Which accesses of an unrolled loop become wide ones, which must not, and what the kernels compute and ask of memory then."""

from __future__ import annotations

import re
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from codegen.ir_kit import BOOL, F32, Var, add, block, ix, kernel, lt, mul, op, tensor, tile

import tileworkbench as twb
import tileworkbench.language as T
from tileworkbench.frontend.prim_func import PrimFunc
from tileworkbench.ir.expr import Buffer, Const, Expr, Select
from tileworkbench.ir.lowered import Element, SetElement
from tileworkbench.ir.printer import print_kernel
from tileworkbench.ir.stmt import For, If, Kernel, Let, Stmt
from tileworkbench.kernels import gemm
from tileworkbench.runtime import emulating
from tileworkbench.runtime.translate_cuda import translate_cuda
from tileworkbench.transform.drop_unused import drop_unused
from tileworkbench.transform.widen_accesses import widen_accesses

TX, X, J, N = Var("tx"), Var("x"), Var("j"), Var("n")
A, B, H = tensor("A", (4096,)), tensor("B", (4096,)), tensor("H", (4096,), "float16")
S = tile("s", (4096,))


def loop(*body: Stmt, turns: int = 4) -> For:
    return For(X, ix(0), ix(turns), body, kind="unroll")


def after(*body: Stmt, allocs: tuple[Buffer, ...] = (S,), **how: bool) -> list[str]:
    """The lines of the launch's body after the pass."""
    made = kernel("k", (A, B, H), [block((4,), (Var("bx"),), body, allocs, (128,), (TX,), True)])
    lines = print_kernel(drop_unused(widen_accesses(made, **how))).splitlines()
    start = next(n for n, line in enumerate(lines) if line.startswith("  launch"))
    return [line[4:] for line in lines[start + 1 :] if not line.startswith("    alloc")]


def at(buffer: Buffer, offset: Expr) -> Element:
    return Element(buffer, offset, True)


def copy(src: Buffer, dst: Buffer, base: Expr, there: Expr | None = None) -> SetElement:
    return SetElement(dst, add(base if there is None else there, X), at(src, add(base, X)))


OWN = mul(TX, 4)


def test_a_copy() -> None:
    assert after(loop(copy(A, S, OWN))) == [
        "own A_v: float32",
        "A_v@[0 :+ 4] = A@[tx * 4 :+ 4]",
        "s@[tx * 4 :+ 4] = A_v@[0 :+ 4]",
    ]


def test_arithmetic_in_between_stays_element_by_element() -> None:
    offset = add(OWN, X)
    got = after(loop(Let(J, offset), SetElement(B, J, op("mul", at(A, J), at(S, J)))))
    assert got == [
        "own A_v: float32",
        "A_v@[0 :+ 4] = A@[tx * 4 :+ 4]",
        "own s_v: float32",
        "s_v@[0 :+ 4] = s@[tx * 4 :+ 4]",
        "own B_v: float32",
        "for x in unroll(0, 4):",
        "  B_v@[x] = A_v@[x] * s_v@[x]",
        "B@[tx * 4 :+ 4] = B_v@[0 :+ 4]",
    ]


def test_more_than_16_bytes_are_several_accesses() -> None:
    got = after(loop(copy(A, S, mul(TX, 8)), turns=8))
    assert [line for line in got if "A@" in line] == ["A_v@[0 :+ 4] = A@[tx * 8 :+ 4]", "A_v@[4 :+ 4] = A@[tx * 8 + 4 :+ 4]"]
    got = after(loop(copy(H, H, mul(TX, 8)), turns=8))
    assert "H_v@[0 :+ 8] = H@[tx * 8 :+ 8]" in got


@pytest.mark.parametrize(("base", "width"), [(mul(TX, 6), 2), (add(OWN, 2), 2), (add(OWN, 1), 0), (mul(TX, 3), 0), (op("mul", TX, N), 0)], ids=str)
def test_the_width_follows_the_alignment(base: Expr, width: int) -> None:
    got = after(loop(copy(A, S, base, OWN)))
    assert [line for line in got if "= A@" in line and f":+ {width}]" in line] if width else not any(":+" in line and "A@" in line for line in got)


def test_steps_of_loops_count() -> None:
    def around(step: int) -> list[str]:
        return after(For(J, ix(0), ix(64), (loop(copy(A, S, J)),), step=step))

    assert any("A_v@[0 :+ 4] = A@[j :+ 4]" in line for line in around(4))
    assert not any(":+" in line for line in around(3))


def test_guards() -> None:
    """One test for all elements where the end is a multiple of the width, and narrower accesses where it is one of less."""

    def guarded(end: int) -> list[str]:
        where = add(OWN, X)
        value = Select(lt(where, end), Element(A, where), Const(0.0, F32))
        return after(loop(SetElement(S, where, value)))

    assert guarded(100) == [
        "own A_v: float32",
        "if tx * 4 < 100:",
        "  A_v@[0 :+ 4] = A@[tx * 4 :+ 4]",
        "else:",
        "  for y in unroll(0, 4):",
        "    A_v@[y] = 0.0f32",
        "s@[tx * 4 :+ 4] = A_v@[0 :+ 4]",
    ]
    assert sum(":+ 2] = A@" in line for line in guarded(102)) == 2
    assert not any("A_v@" in line and ":+" in line for line in guarded(101))


def test_guarded_stores() -> None:
    where = add(OWN, X)
    got = after(loop(If(lt(where, 100), (SetElement(B, where, at(S, where)),))))
    assert got[-2] == "if tx * 4 < 100:" and got[-1] == "  B@[tx * 4 :+ 4] = s_v@[0 :+ 4]"


def test_a_condition_is_asked_once() -> None:
    """What is computed where the condition does not hold is not stored; an access that stays keeps its condition."""
    where, value = add(OWN, X), Const(2.0, F32)
    got = after(loop(If(lt(where, 100), (SetElement(B, where, op("mul", at(S, where), value)),))))
    assert got[-4:] == ["for x in unroll(0, 4):", "  B_v@[x] = s_v@[x] * 2.0f32", "if tx * 4 < 100:", "  B@[tx * 4 :+ 4] = B_v@[0 :+ 4]"]
    got = after(loop(If(lt(where, 100), (SetElement(B, where, op("mul", at(S, mul(X, 3)), value)),))))
    assert any("if tx * 4 + x < 100:" in line for line in got)


def test_a_condition_from_memory_stays() -> None:
    where = add(OWN, X)
    got = after(loop(If(lt(at(B, where), Const(0.0, F32)), (SetElement(S, where, at(A, where)),))))
    assert not any(":+" in line and ("A@" in line or " s@" in line) for line in got)
    assert any("B_v@[0 :+ 4] = B@" in line for line in got)


def test_a_name_that_is_bound_twice() -> None:
    """Copies of a body that are written out one after the other bind the same names."""
    parts = [If(Const(True, BOOL), (Let(J, add(mul(TX, 8), add(X, 4 * n))), SetElement(S, J, Const(float(n), F32)))) for n in (0, 1)]
    assert after(loop(*parts))[0] == "for x in unroll(0, 4):"


def test_what_another_turn_writes_is_not_read_before() -> None:
    """s[x + 1] = s[x] carries a value along; s[x + 8] = s[x] and s[x] = s[x] + 1 do not."""

    def shifted(by: int) -> bool:
        where = add(OWN, X)
        got = after(loop(SetElement(S, add(add(OWN, by), X), op("add", at(S, where), Const(1.0, F32)))))
        return any(":+" in line for line in got)

    assert [shifted(by) for by in (0, 1, 2, 4, 8)] == [True, False, False, True, True]


def test_a_read_behind_a_store_stays() -> None:
    where = add(OWN, X)
    got = after(loop(SetElement(S, where, Const(1.0, F32)), SetElement(B, where, at(S, where))))
    assert not any(" s@" in line and ":+" in line for line in got)


def test_arrays_that_may_be_one() -> None:
    """The caller may give an array twice: A and B at one offset are read before they are written, at different ones not."""
    assert any("A_v@[0 :+ 4]" in line for line in after(loop(copy(A, B, OWN))))
    assert not any(":+" in line for line in after(loop(copy(A, B, OWN, mul(TX, 8)))))


def test_two_stores_to_arrays_that_may_be_one_keep_their_order() -> None:
    where, value = add(OWN, X), Const(1.0, F32)
    both = after(loop(SetElement(A, where, value), SetElement(B, where, value)))
    assert [line.split("@")[0] for line in both if ":+" in line] == ["A", "B"]
    odd = after(loop(SetElement(A, where, value), If(lt(at(S, where), value), (SetElement(B, where, value),))))
    assert not any(line.startswith(("A@", "B@")) and ":+" in line for line in odd)


def test_tiles_only() -> None:
    got = after(loop(copy(A, S, OWN)), aligned=False)
    assert any("s@[tx * 4 :+ 4]" in line for line in got)
    assert not any("A@" in line and ":+" in line for line in got)


def test_nothing_to_do_is_the_same_kernel() -> None:
    made: Kernel = kernel("k", (A,), [block((4,), (Var("bx"),), [loop(SetElement(A, add(mul(TX, 5), X), Const(0.0, F32)))], (), (128,), (TX,), True)])
    assert widen_accesses(made) is made


# ---------------------------------------------------------------------------------------------- whole kernels
def scaled(rows: int, cols: int, dtype: str, out: str, tile_rows: int = 16, tile_cols: int = 64, threads: int = 64) -> PrimFunc:
    @T.prim_func
    def scale(X: T.Tensor((rows, cols), dtype), Y: T.Tensor((rows, cols), out)) -> None:
        with T.Kernel(T.ceildiv(cols, tile_cols), T.ceildiv(rows, tile_rows), threads=threads) as (bx, by):
            s = T.alloc_shared((tile_rows, tile_cols), dtype)
            f = T.alloc_fragment((tile_rows, tile_cols), "float32")
            T.copy(X[by * tile_rows, bx * tile_cols], s)
            for i, j in T.Parallel(tile_rows, tile_cols):
                f[i, j] = s[i, j] * T.float32(3)
            T.copy(f, Y[by * tile_rows, bx * tile_cols])

    return scale


def numpy_type(name: str) -> Any:
    return getattr(ml_dtypes, name, None) or np.dtype(name)


@pytest.mark.parametrize(("dtype", "out"), [("float16", "float16"), ("float32", "bfloat16"), ("bfloat16", "float32"), ("float32", "float32")])
@pytest.mark.parametrize("shape", [(16, 64), (37, 100), (5, 102), (33, 77)], ids=str)
def test_numbers(shape: tuple[int, int], dtype: str, out: str) -> None:
    x = np.random.default_rng(1).integers(-8, 8, shape).astype(numpy_type(dtype))
    y = np.zeros(shape, numpy_type(out))
    twb.compile(scaled(*shape, dtype, out), target="emulate:sm_80")(x, y)
    assert np.array_equal(y.astype(np.float64), 3 * x.astype(np.float64))


@pytest.mark.parametrize("skip", [0, 1, 2, 4, 8])
def test_arrays_that_begin_anywhere(skip: int) -> None:
    """A view that does not begin at a multiple of 16 bytes has right numbers too."""
    rows, cols = 16, 64
    x = np.arange(rows * cols + 8, dtype=np.float16)[skip:][: rows * cols].reshape(rows, cols)
    y = np.zeros(rows * cols + 8, np.float16)[skip:][: rows * cols].reshape(rows, cols)
    twb.compile(scaled(rows, cols, "float16", "float16"), target="emulate:sm_80")(x, y)
    assert np.array_equal(y.astype(np.float64), (3 * x.astype(np.float32)).astype(np.float16).astype(np.float64))


def test_requests_of_a_copy() -> None:
    """A warp moves 512 bytes at a time: one request for 16 bytes a thread, 16 sectors, and the fewest wavefronts in shared memory."""
    rows, cols = 32, 128

    @T.prim_func
    def there_and_back(X: T.Tensor((rows, cols), "float16"), Y: T.Tensor((rows, cols), "float16")) -> None:
        with T.Kernel(1, threads=128) as _:
            s = T.alloc_shared((rows, cols), "float16")
            T.copy(X, s)
            T.copy(s, Y)

    source, _ = translate_cuda(there_and_back.kernel, "sm_80")
    x, y = np.arange(rows * cols).astype(np.float16).reshape(rows, cols), np.zeros((rows, cols), np.float16)
    made = source.kernels[0]
    result = emulating.load(source.text, "sm_80")[made.name].run((1,), made.block, [x, y], shared_bytes=made.shared_bytes, sanitize=True, count=True)
    assert not result.findings and np.array_equal(x, y)
    lines = result.counters.by_line.values()
    requests = x.nbytes // 512
    assert sum(c.global_loads for c in lines) == sum(c.global_stores for c in lines) == requests
    assert sum(c.global_load_sectors for c in lines) == sum(c.global_store_sectors for c in lines) == 16 * requests
    assert sum(c.shared_store_wavefronts for c in lines) == sum(c.shared_store_ideal for c in lines) == 4 * requests
    assert [p.alignment for p in made.params] == [16, 16]  # type: ignore[union-attr]


def test_text_names_the_widths() -> None:
    text = translate_cuda(scaled(37, 100, "float16", "float32").kernel, "sm_80")[0].text
    assert re.findall(r"twb_read<(\d)>\(X", text) == ["4", "4"]  # rows of 200 bytes
    assert re.findall(r"twb_write<(\d)>\(Y", text) == ["4"]
    odd = translate_cuda(scaled(33, 77, "float16", "float32").kernel, "sm_80")[0].text
    assert not re.search(r"twb_(read|write)<\d>\([XY]", odd) and "twb_read<" in odd  # the tile is another matter


def test_sizes_that_the_call_says() -> None:
    """Both ways are there; the wide one runs where rows begin at multiples of 16 bytes."""
    m, n = T.dynamic("m"), T.dynamic("n")

    @T.prim_func
    def doubled(X: T.Tensor((m, n), "float16"), Y: T.Tensor((m, n), "float32")) -> None:
        with T.Kernel(T.ceildiv(n, 64), T.ceildiv(m, 16), threads=64) as (bx, by):
            s = T.alloc_shared((16, 64), "float16")
            T.copy(X[by * 16, bx * 64], s)
            for i, j in T.Parallel(16, 64):
                Y[by * 16 + i, bx * 64 + j] = T.cast(s[i, j], "float32") * T.float32(2)

    compiled = twb.compile(doubled, target="emulate:sm_80")
    text = compiled.source
    assert text.count("if ((int32_t)(n & 7) == 0)") == 1 and text.count("if ((int32_t)(n & 3) == 0)") == 1 and "m & " not in text
    assert "twb_read<8>(X" in text and "twb_write<4>(Y" in text
    for shape in ((16, 64), (20, 72), (3, 68), (17, 65), (1, 1), (16, 128)):
        x = np.random.default_rng(0).integers(-9, 9, shape).astype(np.float16)
        y = np.zeros(shape, np.float32)
        compiled(x, y)
        assert np.array_equal(y, 2 * x.astype(np.float32))
    (kernel,) = compiled.executable.made.kernels
    names = [p.alignment for p in kernel.params[:2]]
    assert names == [16, 16]


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_a_product_of_arrays_that_begin_anywhere(arch: str) -> None:
    """Neither asynchronous copies nor tensor maps can read such arrays."""
    m, n, k = 64, 64, 64
    rng = np.random.default_rng(3)
    a, b, c = (np.zeros(64 * 64 + 8, np.float16)[1:][: 64 * 64].reshape(64, 64) for _ in range(3))
    a[...], b[...] = rng.integers(-4, 5, (m, k)), rng.integers(-4, 5, (k, n))
    compiled = twb.compile(gemm.program(m, n, k, 64, 64, 32, 2, "float16", "float16", False), target=f"emulate:{arch}")
    assert re.search("twb_cp_async<16>|twb_tma_load", compiled.source)
    compiled(a, b, c)
    assert np.array_equal(c, (a.astype(np.float32) @ b.astype(np.float32)).astype(np.float16))
