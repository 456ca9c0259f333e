"""One small program a pass, before and after, as text."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from codegen.ir_kit import F32, I32, Cast, Var, add, at, block, box, const, ix, kernel, lt, mul, op, put, tensor, tile, whole

from tileworkbench.base.dtypes import DType
from tileworkbench.base.errors import UnsupportedError
from tileworkbench.ir import lowered_text as _lowered_text  # noqa: F401  # teaches the printer the lowered nodes
from tileworkbench.ir.expr import Buffer
from tileworkbench.ir.printer import print_kernel
from tileworkbench.ir.stmt import (
    Assert,
    Atomic,
    Collective,
    Copy,
    Fill,
    For,
    Gemm,
    If,
    Kernel,
    Let,
    ParallelFor,
    Stmt,
    Sync,
)
from tileworkbench.transform.absorb_fills import absorb_fills
from tileworkbench.transform.convert_rows import convert_rows
from tileworkbench.transform.drop_unused import drop_unused
from tileworkbench.transform.expand_asserts import expand_asserts
from tileworkbench.transform.expand_atomics import expand_atomics
from tileworkbench.transform.expand_tiles import expand_tiles
from tileworkbench.transform.fission_threads import fission_threads
from tileworkbench.transform.flatten_accesses import flatten_accesses
from tileworkbench.transform.index_loops import index_loops
from tileworkbench.transform.insert_barriers import insert_barriers
from tileworkbench.transform.lower_parallel import lower_parallel
from tileworkbench.transform.names import Names
from tileworkbench.transform.place_tiles import place_tiles
from tileworkbench.transform.split_grid_syncs import split_grid_syncs
from tileworkbench.transform.split_parallel import split_parallel
from tileworkbench.transform.widen_floats import widen_floats

BX, TX, I, J, K, M = (Var(n) for n in ("bx", "tx", "i", "j", "k", "m"))
A, B = tensor("A", (100, 64)), tensor("B", (100, 64))


def after(passes: list[Callable[[Kernel], Kernel]], body: list[Stmt], allocs: tuple[Buffer, ...] = (), threads: int = 0, params=(A, B)) -> list[str]:
    """The lines of the launch's body after `passes`, without their common indentation."""
    launch = block((4,), (BX,), body, allocs, (threads or 128,), (TX,) if threads else (), bool(threads))
    k = kernel("k", params, [launch])
    for run in passes:
        k = run(k)
    lines = print_kernel(k).splitlines()
    start = next(n for n, line in enumerate(lines) if line.startswith(("  launch", "  grid")))
    return [line[4:] for line in lines[start + 1 :] if not line.startswith("    alloc")]


def test_index_loops() -> None:
    n = Var("n", DType("uint8"))
    got = after([index_loops], [For(n, ix(0), ix(4), (put(A, Cast(n, DType("int64")), 0, 1.0),))])
    assert got == ["for n_1 in serial(0, 4):", "  let n: uint8 = uint8(n_1)", "  A[int64(n), 0] = 1.0f32"]


def test_expand_asserts() -> None:
    got = after([expand_asserts], [Assert(lt(BX, 3), "first"), Assert(lt(BX, 2), "second")])
    assert got == ["if not bx < 3:", "  fail 0 'first'", "if not bx < 2:", "  fail 1 'second'"]


def test_expand_atomics() -> None:
    t = tile("t", (2, 8))
    got = after([expand_atomics], [Atomic("add", box(A, (BX, 3), (2, 8)), whole(t))], (t,))
    assert got == ["for i, j in parallel(2, 8):", "  atomic 'add' A[bx + i :+ 1, j + 3 :+ 1] <- t[i, j], 'relaxed'"]


def test_atomics_return_old_values_of_elements_only() -> None:
    with pytest.raises(UnsupportedError, match="old values"):
        after([expand_atomics], [Atomic("add", box(A, (0, 0), (2, 8)), const(1.0, F32), Var("old", F32))])


def test_insert_barriers() -> None:
    s = tile("s", (128,))
    other = op("sub", 127, TX)
    got = after([insert_barriers], [put(s, TX, 1.0), put(s, TX, add(at(s, TX), 1.0)), put(A, 0, TX, at(s, other))], (s,), 128)
    assert got == ["s[tx] = 1.0f32", "s[tx] = s[tx] + 1.0f32", "sync 'block'", "A[0, tx] = s[127 - tx]"]


def test_a_barrier_at_the_end_of_an_iteration() -> None:
    s = tile("s", (128,))
    body = (Let(Var("x", F32), at(s, op("sub", 127, TX))), Sync(), put(s, TX, 2.0))
    got = after([insert_barriers], [For(K, ix(0), ix(3), body)], (s,), 128)
    assert [line.strip() for line in got][1:] == ["let x: float32 = s[127 - tx]", "sync 'block'", "s[tx] = 2.0f32", "sync 'block'"]


def test_fission_keeps_what_one_segment_uses_in_its_iteration() -> None:
    """`row` is computed again, `x` is kept in an array, `v` is declared in the loop."""
    s, v = tile("s", (128,)), tile("v", (1,), "float32", "var")
    row, x = Var("row"), Var("x", F32)
    body = [Let(row, add(TX, 1)), Let(x, at(A, row, 0)), put(s, TX, x), Sync()]
    body += [put(v, 0, at(s, op("sub", 127, TX))), put(B, row, 0, op("add", x, at(v, 0)))]
    got = after([fission_threads], body, (s, v), 128)
    assert got == [
        "for tx in parallel(128):",
        "  let row = tx + 1",
        "  let x: float32 = A[row, 0]",
        "  x_1[tx] = x",
        "  s[tx] = x",
        "for tx in parallel(128):",
        "  own v: float32",
        "  let row = tx + 1",
        "  let x: float32 = x_1[tx]",
        "  v[0] = s[127 - tx]",
        "  B[row, 0] = x + v[0]",
    ]


def test_fission_of_uniform_control_flow() -> None:
    """A loop that all threads go round alike stays outside; its counter is one variable."""
    s, n = tile("s", (128,)), tile("n", (1,), "int32", "var")
    turn = (put(n, 0, add(at(n, 0), 1)), put(s, TX, 1.0), Sync(), put(A, K, TX, at(s, op("sub", 127, TX))), Sync())
    body = [put(n, 0, 0), For(K, ix(0), ix(3), turn)]
    got = [line.strip() for line in after([fission_threads], body, (s, n), 128)]
    assert got[:3] == ["n[0] = 0i32", "for k in serial(0, 3):", "n[0] = n[0] + 1i32"]
    assert got.count("for tx in parallel(128):") == 2


def test_fission_of_a_divergent_branch() -> None:
    s = tile("s", (128,))
    x = Var("x", F32)
    body = [If(lt(TX, 40), (Collective("warp_sum", x, (at(A, 0, TX),)), put(s, TX, x)))]
    text = "\n".join(after([fission_threads], body, (s,), 128))
    assert "taken[tx] = tx < 40" in text
    assert text.count("if taken[tx]:") == 2


def test_absorb_fills() -> None:
    a, b, c = tile("a", (16, 16)), tile("b", (16, 16)), tile("c", (16, 16), "float32", "fragment")
    start = [Fill(whole(c), const(0, F32)), Copy(box(A, (0, 0), (16, 16)), whole(a))]
    got = after([absorb_fills], [*start, Gemm(whole(a), whole(b), whole(c))], (a, b, c))
    assert got == ["copy a <- A[0 :+ 16, 0 :+ 16]", "gemm c += a @ b, clear=True, policy='square'"]
    for between in (put(c, 0, 0, 1.0), For(K, ix(0), ix(2), (put(a, 0, 0, 1.0),))):
        kept = after([absorb_fills], [*start, between, Gemm(whole(a), whole(b), whole(c))], (a, b, c))
        assert kept[0] == "fill c <- 0.0f32"


def test_split_grid_syncs() -> None:
    t, row = tile("t", (8,)), Var("row")
    turn = (Copy(whole(t), box(A, (row, 0), (1, 8))), Sync("grid"))
    body = [Let(row, mul(BX, 8)), Fill(whole(t), const(1.0, F32)), Sync("grid"), For(K, ix(0), ix(2), turn)]
    k = split_grid_syncs(kernel("k", [A], [block((4,), (BX,), body, (t,))]))
    text = print_kernel(k)
    assert text.count("launch blocks (bx) in (4)") == 2
    assert "allocate t_1: float32[4, 8]" in text
    assert text.index("for k in serial(0, 2):") < text.rindex("launch")
    assert "copy A[row :+ 1, 0 :+ 8] <- t_1[bx :+ 1, 0 :+ 8]" in text


def test_split_parallel() -> None:
    """A large divisor makes two loops, a small one copies of the body; one that does not divide the extent is left alone."""
    w, s = tensor("W", (64, 48)), tensor("S", (64, 3))
    value = op("mul", at(w, I, op("floordiv", J, 2)), at(s, I, op("floordiv", J, 32)))
    got = after([split_parallel, flatten_accesses], [ParallelFor((I, J), (ix(64), ix(96)), (put(A, I, J, value),))], params=(A, w, s))
    assert got[0] == "for i, j_32, j_2 in parallel(64, 3, 16):"
    assert "W@[i * 48 + (j_32 * 16 + j_2)] * S@[i * 3 + j_32]" in got[2]
    assert len([line for line in got if "S@[i * 3 + j_32]" in line]) == 2
    odd = after([split_parallel], [ParallelFor((I, J), (ix(64), ix(7)), (put(A, I, J, at(w, I, op("floordiv", J, 2))),))], params=(A, w))
    assert odd[0] == "for i, j in parallel(64, 7):"


def test_flatten_accesses() -> None:
    row = add(mul(BX, 32), I)
    got = after([flatten_accesses], [ParallelFor((I, J), (ix(32), ix(64)), (put(B, row, J, at(A, row, op("sub", J, 1))),))])
    assert got == [
        "for i, j in parallel(32, 64):",
        "  if bx * 32 + i < 100:",
        "    B@[(bx * 32 + i) * 64 + j] = A@[(bx * 32 + i) * 64 + (j - 1)]? if j - 1 >= 0 else 0.0f32",
    ]


def test_expand_tiles_clips_before_the_loop() -> None:
    t = tile("t", (32, 64))
    got = after([expand_tiles], [Copy(box(A, (mul(BX, 32), 0), (32, 64)), whole(t))], (t,))
    assert got == [
        "let end = max(min(100 - bx * 32, 32), 0)",
        "for i in serial(0, 32):",
        "  let valid = 64 if i < end else 0",
        "  copy valid elements t@[i * 64] <- A@[(bx * 32 + i) * 64]",
        "  for j: int32 in vector(int32(valid), 64i32):",
        "    t@[i * 64 + int64(j)] = 0.0f32",
    ]


def test_lower_parallel_turns_tests_into_loop_ends() -> None:
    row = add(mul(BX, 32), I)
    got = after([flatten_accesses, lower_parallel], [ParallelFor((I, J), (ix(32), ix(64)), (put(B, row, J, 1.0),))])
    assert got == [
        "let i_last = min(100 - bx * 32, 32)",
        "for i in serial(0, i_last):",
        "  for j: int32 in vector(0i32, 64i32):",
        "    B@[(bx * 32 + i) * 64 + int64(j)] = 1.0f32",
    ]


def test_lower_parallel_hoists_what_does_not_change() -> None:
    value = op("sub", at(A, 0, J), op("mul", at(A, 1, I), 2.0))
    got = after([flatten_accesses, lower_parallel], [ParallelFor((I, J), (ix(32), ix(64)), (put(B, I, J, value),))])
    assert got[1] == "  let A_0: float32 = A@[i + 64] * 2.0f32"
    assert got[3].strip() == "B@[i * 64 + int64(j)] = A@[int64(j)] - A_0"


def test_drop_unused() -> None:
    x, y = Var("x"), Var("y")
    got = after([drop_unused], [Let(x, add(BX, 1)), Let(y, add(x, 1)), put(A, 0, 0, 1.0)])
    assert got == ["A[0, 0] = 1.0f32"]


def test_widen_floats() -> None:
    h = tensor("H", (8,), "float16")
    v = Var("v", DType("float16"))
    body = [Let(v, op("mul", at(h, 0), at(h, 1))), put(h, 2, op("add", v, at(h, 3))), put(h, 4, at(h, 5))]
    body.append(put(h, 6, Cast(Cast(BX, I32), DType("float16"))))
    got = after([flatten_accesses, widen_floats], body, params=(h,))
    assert got == [
        "let v: float32 = float32(float16(float32(H@[0]) * float32(H@[1])))",
        "H@[2] = float16(v + float32(H@[3]))",
        "H@[4] = H@[5]",
        "H@[6] = float16(float64(int32(bx)))",
    ]


def test_convert_rows() -> None:
    """Only loops that convert unit-stride rows of two buffers, in a pair of types that the library has a row function for."""
    b16 = DType("bfloat16")
    p, h = tile("p", (100, 64), "bfloat16"), tile("h", (100, 64), "float16")
    passes = [flatten_accesses, expand_tiles, lower_parallel, widen_floats, convert_rows]
    row = ParallelFor((I, J), (ix(32), ix(64)), (put(p, I, J, Cast(at(A, add(I, 3), J), b16)),))
    assert after(passes, [row], (p,))[1:] == ["  evaluate twb_copy_f32_to_bf16(&A@[i * 64 + 192], &p@[i * 64], 64)"]
    back = ParallelFor((J,), (ix(64),), (put(A, 3, J, Cast(at(h, 5, J), F32)),))
    assert after(passes, [back], (h,)) == ["evaluate twb_copy_f16_to_f32(&h@[320], &A@[192], 64)"]
    kept = [
        ParallelFor((I, J), (ix(32), ix(64)), (put(p, I, J, Cast(at(A, I, mul(J, 1)), b16)), put(B, I, J, 0.0))),  # does something else too
        ParallelFor((I, J), (ix(32), ix(64)), (put(p, I, J, Cast(at(A, J, I), b16)),)),  # a column
        ParallelFor((I, J), (ix(32), ix(64)), (put(A, I, J, Cast(at(p, I, J), F32)),)),  # widening is a shift
        ParallelFor((J,), (ix(64),), (put(p, 0, J, Cast(op("mul", at(A, 0, J), 2.0), b16)),)),
    ]
    assert not any("twb_copy" in line for line in after(passes, kept, (p,)))


def test_convert_rows_is_the_identity_without_such_loops() -> None:
    k = widen_floats(lower_parallel(flatten_accesses(kernel("k", [A], [block((4,), (BX,), [put(A, BX, 0, 1.0)])]))))
    assert convert_rows(k) is k


def test_place_tiles() -> None:
    t, u, n = tile("t", (5,), "int8"), tile("u", (16,)), tile("n", (1,), "int32", "var")
    view = Buffer("flat", (ix(4), ix(4)), F32, "shared", view_of=u)
    body = [put(t, 0, 1), put(view, 0, 0, 1.0), put(n, 0, 3), put(A, 0, 0, at(u, 0))]
    k = place_tiles(flatten_accesses(kernel("k", [A], [block((4,), (BX,), body, (t, u, n, view))])))
    text = print_kernel(k)
    assert "grid 'k_block' (bx) in (4), 128 bytes a core: t at 0, u at 64:" in text
    assert "own n: int32" in text


def test_names_are_new_and_the_same_every_time() -> None:
    k = kernel("k", [A], [block((4,), (BX,), [put(A, 0, 0, 1.0)], (tile("i", (1,)),))])
    made = [[names.fresh(hint) for hint in ("i", "i", "A", "k", "new")] for names in (Names(k), Names(k))]
    assert made[0] == made[1] == ["i_1", "i_2", "A_1", "k_1", "new"]
