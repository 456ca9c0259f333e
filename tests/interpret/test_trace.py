"""Traces: steps with their tiles, and counts that follow from the program by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from handmade import BX, TX, I, J, K, add, at, box, buf, copy, kernel, launch, mul, num, one_block, op, par, put, select, shared, un, whole, zeros

from tileworkbench.base.dtypes import FLOAT16, FLOAT32, DType
from tileworkbench.base.span import Span
from tileworkbench.interpret import Program, TraceOptions, run
from tileworkbench.ir import node
from tileworkbench.ir.expr import Buffer, Const, Var
from tileworkbench.ir.stmt import Atomic, Fill, For, Gemm, If, Kernel, Let, Reduce, Scan


def gemm(n: int, tile: int, dtype: str = "float16") -> Kernel:
    by = Var("by")
    a, b, c = buf("A", n, n, dtype=dtype), buf("B", n, n, dtype=dtype), buf("C", n, n)
    ta, tb, tc = shared("ta", tile, tile, dtype=dtype), shared("tb", tile, tile, dtype=dtype), buf("tc", tile, tile, scope="fragment")
    line = lambda number: Span("gemm.py", number, 0, number, 9)
    step = (
        node.replace(copy(box(a, (mul(by, tile), tile), (mul(K, tile), tile)), ta), span=line(4)),
        node.replace(copy(box(b, (mul(K, tile), tile), (mul(BX, tile), tile)), tb), span=line(5)),
        Gemm(whole(ta), whole(tb), whole(tc), span=line(6)),
    )
    blocks = -(-n // tile)
    body = (
        Fill(whole(tc), num(0), span=line(2)),
        For(Var("k", hint="ko"), Const(0), Const(blocks), step),
        copy(tc, box(c, (mul(by, tile), tile), (mul(BX, tile), tile))),
    )
    return kernel([a, b, c], launch((blocks, blocks), body, (ta, tb, tc)), name="gemm")


def test_bytes_and_operations_of_a_gemm():
    n, tile, blocks = 64, 16, 4
    trace = run(gemm(n, tile), [np.ones((n, n), np.float16), np.ones((n, n), np.float16), zeros(n, n)], trace=True)
    assert trace.operations == {FLOAT16: 2 * n**3}
    each = n * n * 2 * blocks  # every block row reads all of A
    assert trace.by_buffer("global") == {"A": each, "B": each, "C": n * n * 4}
    assert trace.bytes("global", direction="write") == n * n * 4
    trips = blocks**3
    tile_16, tile_32 = tile * tile * 2, tile * tile * 4
    assert trace.by_buffer("chip") == {"ta": 2 * trips * tile_16, "tb": 2 * trips * tile_16, "tc": 2 * trips * tile_32 + 2 * blocks**2 * tile_32}
    assert trace.by_line("global") == {("gemm.py", 4): each, ("gemm.py", 5): each, ("", 0): n * n * 4}
    assert trace.compulsory_bytes == 2 * n * n * 2 + n * n * 4
    assert [(c.buffer, c.read_bytes, c.written_bytes) for c in trace.compulsory] == [("A", n * n * 2, 0), ("B", n * n * 2, 0), ("C", 0, n * n * 4)]


def test_elements_outside_move_nothing():
    n, tile = 20, 16
    trace = run(gemm(n, tile), [np.ones((n, n), np.float16), np.ones((n, n), np.float16), zeros(n, n)], trace=True)
    assert trace.by_buffer("global") == {"A": 2 * n * n * 2, "B": 2 * n * n * 2, "C": n * n * 4}
    assert trace.compulsory_bytes == 2 * n * n * 2 + n * n * 4


def test_steps_show_operands_before_and_after():
    n = 8
    x, y = (np.random.default_rng(s).integers(-4, 4, (n, n)).astype(np.float16) for s in (1, 2))
    trace = run(gemm(n, 4), [x, y, zeros(n, n)], trace=TraceOptions(values=True, blocks={(1, 0)}))
    assert [s.kind for s in trace] == ["fill", "copy", "copy", "gemm", "copy", "copy", "gemm", "copy"]
    assert {s.block for s in trace} == {(1, 0)}
    gemms = [s for s in trace if s.kind == "gemm"]
    assert [s.loops for s in gemms] == [(("ko", 0),), (("ko", 1),)]
    assert gemms[0].span.line == 6
    a, b = gemms[1].reads
    assert (a.buffer.name, a.starts, a.extents) == ("ta", (0, 0), (4, 4))
    np.testing.assert_array_equal(a.before, x[:4, 4:])
    np.testing.assert_array_equal(b.before, y[4:, 4:])
    c = gemms[1].writes[0]
    np.testing.assert_array_equal(c.before, x[:4, :4].astype(float) @ y[:4, 4:])
    np.testing.assert_array_equal(c.after, x[:4].astype(float) @ y[:, 4:])
    last = trace.steps[-1].writes[0]
    assert (last.buffer.name, last.starts, last.extents) == ("C", (0, 4), (4, 4))
    assert not last.before.any()
    np.testing.assert_array_equal(last.after, c.after)


def test_tracing_changes_no_result_and_leaves_the_program_as_it_was():
    n = 8
    x, y = (np.random.default_rng(s).standard_normal((n, n)).astype(np.float16) for s in (1, 2))
    program, plain, traced, again = Program(gemm(n, 4)), zeros(n, n), zeros(n, n), zeros(n, n)
    assert program.run([x, y, plain]) is None
    assert len(program.run([x, y, traced], trace=True)) == 4 * 8
    assert len(program.run([x, y, traced], trace=TraceOptions(steps=False))) == 0
    program.run([x, y, again])
    np.testing.assert_array_equal(plain, traced)
    np.testing.assert_array_equal(plain, again)


def test_parallel_loops_count_per_active_iteration():
    a, out, t = buf("a", 4, 8), buf("out", 4, 8), shared("t", 8)
    value = add(mul(at(a, I, J), at(t, J)), un("exp", at(t, J)))
    trace = run(
        one_block([a, out], par((I, J), (4, 8), If(op("lt", J, 6), (put(out, (I, J), value),))), allocs=(t,)), [zeros(4, 8), zeros(4, 8)], trace=True
    )
    assert trace.by_buffer("global") == {"a": 24 * 4, "out": 24 * 4}
    assert trace.by_buffer("chip") == {"t": 2 * 24 * 4}
    assert trace.operations == {FLOAT32: 3 * 24}
    step = trace.steps[0]
    assert step.kind == "parallel"
    assert [o.buffer.name for o in step.reads] == ["a", "t"]
    assert (step.reads[0].extents, step.reads[1].extents) == ((), (8,))


def test_lazy_sides_and_guards_count_only_what_is_read():
    a, out = buf("a", 10), buf("out", 10)
    value = select(op("lt", I, 4), at(a, I), un("neg", at(a, add(I, 3))))
    trace = run(one_block([a, out], par(I, 10, put(out, I, value))), [zeros(10), zeros(10)], trace=True)
    # 4 on one side; of the other six, a[i + 3] is inside for i = 4, 5, 6
    assert trace.bytes("global", "a") == (4 + 3) * 4
    assert trace.operations == {FLOAT32: 6}
    assert trace.compulsory[0].read_bytes == 7 * 4


def test_data_that_the_kernel_wrote_itself_needs_no_compulsory_read():
    a, w, out = buf("a", 8), buf("w", 8), buf("out", 8)
    k = kernel([a, out], launch(1, (copy(a, w),)), launch(1, (copy(w, out), par(I, 4, put(out, I, at(out, add(I, 4)))))), workspaces=(w,))
    trace = run(k, [zeros(8), zeros(8)], trace=True)
    assert [(c.buffer, c.read_bytes, c.written_bytes) for c in trace.compulsory] == [("a", 32, 0), ("out", 0, 32), ("w", 0, 32)]
    assert trace.by_buffer("global") == {"a": 32, "w": 64, "out": 32 + 32}
    assert [s.launch for s in trace] == [0, 1, 1]


def test_views_count_under_the_buffer_that_owns_the_storage():
    a, out = buf("a", 8, dtype="uint8"), buf("out", 16, dtype="int8")
    nibbles = Buffer("nibbles", (Const(16),), DType("int4"), view_of=a)
    trace = run(one_block([a, out], copy(box(nibbles, (1, 5)), box(out, (0, 5)))), [zeros(8, dtype="uint8"), zeros(16, dtype="int8")], trace=True)
    assert trace.by_buffer("global") == {"a": 3, "out": 5}  # 5 elements of half a byte, rounded up
    assert trace.compulsory[0].read_bytes == 3


def test_threads_count_per_active_thread():
    a, out, v = buf("a", 64), buf("out", 64), buf("v", 1, scope="var")
    body = (put(v, 0, at(a, 0)), If(op("lt", TX, 48), (Let(Var("x"), add(TX, 20)), put(out, Var("x"), mul(at(v, 0), at(a, TX))))))
    trace = run(one_block([a, out], *body, allocs=(v,), threads=64, used=True), [zeros(64), zeros(64)], trace=True)
    assert trace.by_buffer("global") == {"a": (64 + 48) * 4, "out": 44 * 4}
    assert trace.by_buffer("chip") == {}
    assert trace.operations == {FLOAT32: 48}
    assert [(c.read_bytes, c.written_bytes) for c in trace.compulsory] == [(48 * 4, 0), (0, 44 * 4)]


def test_reductions_scans_and_atomics_are_steps():
    a, out, t, m = buf("a", 4, 4), buf("out", 4), shared("t", 4, 4), shared("m", 4)
    body = (copy(a, t), Scan("sum", whole(t), whole(t), 1), Reduce("max", whole(t), whole(m), 1), Atomic("add", whole(out), whole(m)))
    trace = run(one_block([a, out], *body, allocs=(t, m)), [np.ones((4, 4), np.float32), zeros(4)], trace=TraceOptions(values=True))
    assert [s.kind for s in trace] == ["copy", "scan", "reduce", "atomic"]
    np.testing.assert_array_equal(trace.steps[2].writes[0].after, 4)
    np.testing.assert_array_equal(trace.steps[3].writes[0].after, 4)
    assert trace.bytes("global", "out") == 2 * 16
    assert trace.bytes("chip", "t", "write") == 2 * 64


def test_strided_arguments_are_marked_where_they_were_touched():
    a, out = buf("a", 4, 4, strides=(Const(8), Const(2))), buf("out", 2, 2)
    trace = run(one_block([a, out], copy(box(a, (1, 2), (1, 2)), out)), [np.ones((4, 8), np.float32)[:, ::2], zeros(2, 2)], trace=True)
    assert trace.compulsory[0].read_bytes == 16


def test_an_attention_stepper_can_be_written_on_top():
    """Follow one block's score tile through an online softmax: the maximum never falls."""
    a, out = buf("a", 4, 16), buf("out", 4)
    s, m = shared("s", 4, 4), buf("m", 4, scope="fragment")
    step = (copy(box(a, (0, 4), (mul(K, 4), 4)), s), Reduce("max", whole(s), whole(m), 1, clear=False))
    k = one_block([a, out], Fill(whole(m), num(-np.inf)), For(K, Const(0), Const(4), step), copy(m, out), allocs=(s, m))
    x = np.random.default_rng(0).standard_normal((4, 16)).astype(np.float32)
    trace = run(k, [x, zeros(4)], trace=TraceOptions(values=True))
    seen = [(dict(t.loops)["k"], t.writes[0].after) for t in trace if t.kind == "reduce"]
    for trip, maximum in seen:
        np.testing.assert_array_equal(maximum, x[:, : 4 * (trip + 1)].max(1))


def test_rows_can_be_added_up_freely():
    trace = run(gemm(8, 4), [np.ones((8, 8), np.float16), np.ones((8, 8), np.float16), zeros(8, 8)], trace=True)
    assert trace.bytes() == sum(r.bytes for r in trace.traffic) == trace.bytes("chip") + trace.bytes("global")
    assert sum(trace.by_line("chip").values()) == trace.bytes("chip")
    assert replace(trace, traffic=()).bytes() == 0


def test_blocks_run_in_launch_order():
    t = shared("t", 1)
    trace = run(kernel([buf("out", 1)], launch((2, 3), (Fill(whole(t), num(0)),), (t,))), [zeros(1)], trace=True)
    assert [s.block for s in trace] == [(x, y) for y in range(3) for x in range(2)]


def test_an_observer_hears_each_step_and_the_trace_keeps_none():
    """Steps come in order with the bytes so far, which end at the trace's; bytes are marked as touched when they were."""
    n = 8
    x, y = np.ones((n, n), np.float16), np.ones((n, n), np.float16)
    heard = []

    def observe(step, recorder):
        touched = {c.buffer: (c.read_bytes, c.written_bytes) for c in recorder.touched()}
        heard.append((step.number, step.kind, sum(recorder.moved().values()), touched))

    trace = run(gemm(n, 4), [x, y, zeros(n, n)], trace=TraceOptions(blocks={(0, 0), (1, 1)}, observe=observe))
    assert len(trace) == 0
    assert [number for number, *_ in heard] == list(range(len(heard))) and heard
    moved = [bytes_so_far for _, _, bytes_so_far, _ in heard]
    assert moved == sorted(moved) and moved[-1] == trace.bytes()
    assert heard[-1][3] == {c.buffer: (c.read_bytes, c.written_bytes) for c in trace.compulsory}
