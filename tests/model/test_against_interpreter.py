"""Counts from IR against a traced run of the interpreter: the same bytes by buffer, by line and direction, and the same compulsory bytes."""

from __future__ import annotations

import numpy as np
import pytest

from tileworkbench.interpret import run
from tileworkbench.interpret.trace import Trace
from tileworkbench.ir.stmt import Kernel, TensorParam
from tileworkbench.kernels import attention, gemm, softmax
from tileworkbench.model.counts import Counts, count

F32 = "float32"
PROGRAMS = {
    "gemm": lambda: gemm.program(64, 96, 64, 32, 32, 16, 2, F32, F32, True),
    "gemm, ragged": lambda: gemm.program(50, 70, 37, 32, 32, 16, 2, F32, F32, True),
    "gemm, float16": lambda: gemm.program(40, 33, 64, 16, 32, 32, 2, "float16", "float16", False),
    "softmax": lambda: softmax.program(12, 40, 4, F32),
    "softmax, ragged": lambda: softmax.program(13, 40, 4, F32),
    "attention": lambda: attention.program(1, 2, 64, 16, False, 16, 32, F32),
    "attention, causal": lambda: attention.program(1, 2, 64, 16, True, 16, 32, F32),
    "attention, causal, ragged": lambda: attention.program(1, 1, 50, 16, True, 16, 32, F32),
}


def traced(kernel: Kernel) -> Trace:
    arrays = [np.ones(p.buffer.static_shape(), p.buffer.dtype.to_numpy()) for p in kernel.params if isinstance(p, TensorParam)]
    trace = run(kernel, arrays, trace=True)
    assert trace is not None
    return trace


def by_buffer(counts: Counts) -> dict[tuple[str, str], int]:
    out = {(m.buffer, "read"): m.read_bytes for m in counts.by_buffer()} | {(m.buffer, "write"): m.write_bytes for m in counts.by_buffer()}
    return {key: n for key, n in out.items() if n}


@pytest.mark.parametrize("name", PROGRAMS)
def test_counts_are_those_of_a_traced_run(name: str) -> None:
    kernel = PROGRAMS[name]().kernel
    got, trace = count(kernel, {}), traced(kernel)
    assert got.assumptions == ()
    want = {(t.buffer, t.direction): trace.bytes(buffer=t.buffer, direction=t.direction) for t in trace.traffic}
    assert by_buffer(got) == want
    lines: dict[tuple[str, int], int] = {}
    for level in ("chip", "global"):
        for line, n in trace.by_line(level).items():
            lines[line] = lines.get(line, 0) + n
    mine: dict[tuple[str, int], int] = {}
    for m in got.asked:
        at = (m.span.file, m.span.line) if m.span else ("", 0)
        mine[at] = mine.get(at, 0) + m.bytes
    assert mine == lines
    assert {m.buffer: (m.read_bytes, m.write_bytes) for m in got.compulsory} == {
        c.buffer: (c.read_bytes, c.written_bytes) for c in trace.compulsory if c.read_bytes + c.written_bytes
    }
