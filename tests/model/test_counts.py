"""Counts against a counter that visits every point of the iteration space."""

from __future__ import annotations

import numpy as np
import pytest
from model.hand import brute, buffer, c, causal, gemm, line, mul, region, rows

from tileworkbench.base.dtypes import FLOAT16, FLOAT32, INT32
from tileworkbench.ir.expr import Binary, Buffer, Load, Unary, Var, const
from tileworkbench.ir.stmt import Continue, Copy, For, Gemm, If, Kernel, Launch, ParallelFor, ScalarParam, Store, TensorParam, While, whole
from tileworkbench.model.counts import count

KERNELS = {
    "gemm": gemm(64, 64, 64, 32, 16, 16),
    "gemm, ragged": gemm(70, 45, 50, 32, 16, 16),
    "gemm, f16": gemm(33, 40, 20, 16, 16, 8, FLOAT16),
    "gemm, one tile larger than all": gemm(5, 7, 3, 32, 16, 16),
    "causal": causal(48, 8, 16),
    "causal, ragged": causal(41, 8, 16),
    "rows": rows(12, 10, 4),
    "rows, ragged": rows(13, 10, 4),
}


@pytest.mark.parametrize("name", KERNELS)
def test_counts_match_a_visit_of_every_point(name: str) -> None:
    kernel = KERNELS[name]
    want, got = brute(kernel), count(kernel, {})
    assert got.assumptions == ()
    assert dict(got.flops) == dict(want.flops)
    assert dict(got.special) == dict(want.special)
    assert {m.buffer: m.read_bytes for m in got.by_buffer() if m.read_bytes} == dict(want.read)
    assert {m.buffer: m.write_bytes for m in got.by_buffer() if m.write_bytes} == dict(want.write)
    assert {(m.span.line, m.buffer): m.bytes for m in got.by_line() if m.bytes} == dict(want.lines)
    sizes = {p.buffer.name: p.buffer.dtype.nbytes for p in kernel.params}
    assert {m.buffer: m.bytes for m in got.compulsory} == {name: len(seen) * sizes[name] for name, seen in want.touched.items()}


def test_a_large_grid_costs_one_lane() -> None:
    """A grid of a million blocks whose tiles all fit is one lane; the counts are the textbook's."""
    n = 1024 * 64
    got = count(gemm(n, n, n, 64, 64, 64), {})
    assert got.flops == {"float32": 2 * n**3}
    assert got.compulsory_bytes == 3 * n * n * 4
    assert got.global_bytes == 2 * n * n * 1024 * 4 + n * n * 4


def test_symbolic_dims_need_values() -> None:
    m = Var("m")
    a, s, bx = Buffer("A", (m,), FLOAT32), buffer("s", (64,), scope="shared"), Var("bx")
    copy = Copy(region(a, (mul(bx, 64),), (64,)), whole(s), span=line(1))
    blocks = Binary("floordiv", Binary("add", m, c(63)), c(64))
    kernel = Kernel("k", (TensorParam(a),), (m,), (), (Launch((blocks,), (bx,), (128,), (), (s,), (copy,)),))
    assert count(kernel, {"m": 1000}).compulsory_bytes == 4000
    assert count(kernel, {"m": 0}).asked_bytes == 0
    with pytest.raises(ValueError, match="symbolic dims without a value: m"):
        count(kernel, {})


def test_data_dependent_work_is_assumed_and_said() -> None:
    """A loop bound read from memory is one iteration, unless the array is at hand."""
    n, a, s = buffer("n", (4,), INT32), buffer("A", (4, 64)), buffer("s", (64,), scope="shared")
    bx, i = Var("bx"), Var("i")
    copy = Copy(region(a, (bx, c(0)), (1, 64)), region(s, (c(0),), (64,)), span=line(2))
    loop = For(i, c(0), Load(n, (bx,)), (copy,), span=line(1))
    kernel = Kernel("k", (TensorParam(n), TensorParam(a)), (), (), (Launch((c(4),), (bx,), (128,), (), (s,), (loop,)),))
    got = count(kernel, {})
    assert [str(x) for x in got.assumptions] == ["hand.py:1:5: the bounds of the loop over i depend on data: counted as one iteration"]
    assert got.by_buffer()[0].bytes == 4 * 64 * 4
    told = count(kernel, {}, arrays={"n": np.array([3, 0, 5, 1], np.int32)})
    assert told.assumptions == ()
    assert {m.buffer: m.bytes for m in told.by_buffer()} == {"A": 9 * 256, "s": 9 * 256}
    assert {m.buffer: m.bytes for m in told.compulsory} == {"A": 3 * 256}


def test_conditions_on_data_and_while_are_counted_as_taken() -> None:
    x, bx, i = buffer("x", (8,)), Var("bx"), Var("i")
    store = Store(x, (i,), Unary("exp", Load(x, (i,))), span=line(2))
    branch = If(Binary("gt", Load(x, (i,)), const(0.0, FLOAT32)), (store,), span=line(1))
    loop = While(Binary("lt", Load(x, (c(0),)), const(1.0, FLOAT32)), (ParallelFor((i,), (c(8),), (branch,)),), span=line(3))
    got = count(Kernel("k", (TensorParam(x),), (), (), (Launch((c(2),), (bx,), (1,), (), (), (loop,)),)), {})
    assert got.special == {"exp": 16}
    assert sorted(a.span.line for a in got.assumptions if a.span) == [1, 3]


def test_scalar_arguments_steer_loops_and_continue_skips() -> None:
    n, i, bx = Var("n", INT32), Var("i"), Var("bx")
    x = buffer("x", (100,))
    body = (If(Binary("lt", i, c(10)), (Continue(),)), Store(x, (i,), const(1.0, FLOAT32), span=line(1)))
    kernel = Kernel("k", (TensorParam(x), ScalarParam(n, 20)), (), (), (Launch((c(1),), (bx,), (1,), (), (), (For(i, c(0), n, body),)),))
    assert count(kernel, {}).by_buffer()[0].write_bytes == 40
    assert count(kernel, {}, {"n": 15}).by_buffer()[0].write_bytes == 20
    assert count(kernel, {}, {"n": 200}).by_buffer()[0].write_bytes == 360  # writes outside are skipped


def test_threads_run_scalars_but_not_tile_operations() -> None:
    """Each of 32 threads stores one element; the copy is the block's."""
    x, y, s, bx, tx = buffer("x", (64,)), buffer("y", (64,)), buffer("s", (32,), scope="shared"), Var("bx"), Var("tx")
    body = (
        Copy(region(x, (mul(bx, 32),), (32,)), whole(s), span=line(1)),
        If(Binary("lt", tx, c(8)), (Store(y, (Binary("add", mul(bx, 32), tx),), Load(s, (tx,)), span=line(2)),)),
    )
    got = count(Kernel("k", (TensorParam(x), TensorParam(y)), (), (), (Launch((c(2),), (bx,), (32,), (tx,), (s,), body, threads_used=True),)), {})
    assert {m.buffer: (m.read_bytes, m.write_bytes) for m in got.by_buffer()} == {"x": (256, 0), "s": (64, 256), "y": (0, 64)}


def test_strided_and_overlapping_accesses_have_an_exact_footprint() -> None:
    """Every third row, and windows that overlap by half: each byte once."""
    x, y, s, bx = buffer("x", (30, 8)), buffer("y", (40,)), buffer("s", (8,), scope="shared"), Var("bx")
    body = (
        Copy(region(x, (mul(bx, 3), c(0)), (1, 8)), region(s, (c(0),), (8,)), span=line(1)),
        Copy(region(y, (mul(bx, 4),), (8,)), whole(s), span=line(2)),
    )
    got = count(Kernel("k", (TensorParam(x), TensorParam(y)), (), (), (Launch((c(8),), (bx,), (1,), (), (s,), body),)), {})
    assert {m.buffer: m.bytes for m in got.compulsory} == {"x": 8 * 8 * 4, "y": 36 * 4}


def test_results_read_back_are_not_compulsory_reads() -> None:
    work, bx, i = buffer("w", (16,)), Var("bx"), Var("i")
    one = Launch((c(2),), (bx,), (1,), (), (), (ParallelFor((i,), (c(8),), (Store(work, (Binary("add", mul(bx, 8), i),), const(1.0, FLOAT32)),)),))
    two = Launch((c(2),), (bx,), (1,), (), (), (ParallelFor((i,), (c(8),), (Store(work, (i,), Load(work, (Binary("add", mul(bx, 8), i),))),)),))
    assert count(Kernel("k", (), (), (work,), (one, two)), {}).compulsory_bytes == 64
    assert count(Kernel("k", (), (), (work,), (two,)), {}).compulsory_bytes == 64 + 32


def test_a_clearing_gemm_does_not_read_its_result() -> None:
    a, b, acc = (buffer(n, (4, 4), scope="shared") for n in ("a", "b", "acc"))
    k, bx = Var("k"), Var("bx")
    loop = For(k, c(0), c(3), (Gemm(whole(a), whole(b), whole(acc), clear=Binary("eq", k, c(0)), span=line(1)),))
    got = count(Kernel("k", (), (), (), (Launch((c(1),), (bx,), (1,), (), (a, b, acc), (loop,)),)), {})
    assert {m.buffer: (m.read_bytes, m.write_bytes) for m in got.by_buffer()}["acc"] == (2 * 64, 3 * 64)


def test_too_many_lanes_are_sampled_and_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """A condition that differs from point to point, more points than may be told apart: the sample is within a few percent."""
    x, bx, i, j = buffer("x", (100, 300)), Var("bx"), Var("i"), Var("j")
    third = Binary("eq", Binary("floormod", Binary("add", mul(i, 7), j), c(3)), c(0))
    body = (ParallelFor((i, j), (c(100), c(300)), (If(third, (Store(x, (i, j), Unary("exp", const(1.0, FLOAT32))),)),)),)
    kernel = Kernel("k", (TensorParam(x),), (), (), (Launch((c(1),), (bx,), (1,), (), (), body),))
    assert count(kernel, {}).special == {"exp": 10_000}
    monkeypatch.setattr("tileworkbench.model.walk.LANE_CAP", 5000)
    got = count(kernel, {})
    assert any("was counted and scaled" in str(a) for a in got.assumptions)
    assert got.special["exp"] == pytest.approx(10_000, rel=0.05)
