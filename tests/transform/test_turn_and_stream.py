"""Loops that transpose become calls; large outputs that are written once go past the caches."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from codegen.c_harness import MARCHES, build
from codegen.c_runner import Compiled, source_of
from codegen.differ import agree, random_array
from codegen.ir_kit import Unary, Var, add, at, block, box, ix, kernel, mul, put, tensor, tile, whole

from tileworkbench.base.cpu import Isa
from tileworkbench.base.dtypes import FLOAT32
from tileworkbench.codegen import clib
from tileworkbench.ir.lowered import Grid, LibraryCall
from tileworkbench.ir.node import walk
from tileworkbench.ir.printer import print_kernel
from tileworkbench.ir.stmt import Copy, Evaluate, Kernel, ParallelFor
from tileworkbench.transform import stream_stores
from tileworkbench.transform.lowering import lower

_P, _L = ctypes.c_void_p, ctypes.c_int64
BX, I, J = Var("bx"), Var("i"), Var("j")


def turned(rows: int, cols: int, dtype: str = "float32", shift: int = 0) -> Kernel:
    """B[j, i] = A[i, j] through tiles."""
    a, b = tensor("A", (rows, cols), dtype), tensor("B", (cols, rows + shift), dtype)
    t, u = tile("t", (rows, cols), dtype), tile("u", (cols, rows + shift), dtype)
    body = [Copy(whole(a), whole(t)), Copy(whole(b), whole(u)), ParallelFor((I, J), (ix(cols), ix(rows)), (put(u, I, add(J, shift), at(t, J, I)),))]
    return kernel("turned", (a, b), [block((1,), (BX,), [*body, Copy(whole(u), whole(b))], (t, u))])


@pytest.mark.parametrize("shape", [(16, 16), (32, 32), (4, 64), (64, 5), (33, 17), (20, 100)])
@pytest.mark.parametrize("shift", [0, 3])
@pytest.mark.parametrize("dtype", ["float32", "uint32", "int32"])
def test_a_transposing_loop_is_a_call(shape: tuple[int, int], shift: int, dtype: str) -> None:
    kern = turned(*shape, dtype, shift=shift)
    assert "twb_turn_32(" in source_of(kern).text
    agree(kern, [random_array(shape, dtype), random_array((shape[1], shape[0] + shift), dtype, 1)])


def test_other_loops_stay() -> None:
    """Another type, a few columns, and more than a move."""
    assert "twb_turn_32(" not in source_of(turned(16, 16, "float16")).text
    assert "twb_turn_32(" not in source_of(turned(16, 3)).text
    s, x = tile("s", (16, 16)), tensor("X", (16, 16))
    loop = ParallelFor((I, J), (ix(16), ix(16)), (put(s, I, J, mul(at(s, J, I), 2.0)),))
    kern = kernel("k", (x,), [block((1,), (BX,), [Copy(whole(x), whole(s)), loop, Copy(whole(s), whole(x))], (s,))])
    assert "twb_turn_32(" not in source_of(kern).text


@pytest.mark.parametrize("isa", MARCHES, ids=lambda i: i.name)
@pytest.mark.parametrize("size", [(16, 16), (4, 8), (7, 40), (37, 21), (1, 1)])
def test_turn_on_every_instruction_set(size: tuple[int, int], isa: Isa) -> None:
    rows, cols = size
    text = clib.library(["twb_turn_32"]) + "void go(float *d, const float *s, int64_t r, int64_t c) { twb_turn_32(d, c + 2, s, r + 3, r, c); }"
    source, out = random_array((cols, rows + 3), "float32"), np.full((rows, cols + 2), 7, np.float32)
    build(text, isa).go(out.ctypes.data_as(_P), source.ctypes.data_as(_P), _L(rows), _L(cols))
    np.testing.assert_array_equal(out[:, :cols], source[:, :rows].T)
    assert (out[:, cols:] == 7).all()


@pytest.mark.parametrize("isa", MARCHES, ids=lambda i: i.name)
@pytest.mark.parametrize("size", [(16, 16), (4, 8), (7, 40), (37, 21), (1, 1), (32, 128), (64, 3), (3, 64)])
def test_turn_past_the_caches(size: tuple[int, int], isa: Isa) -> None:
    """To every place in a line; nothing else is written."""
    rows, cols = size
    text = clib.library(["twb_turn_stream_f32", "twb_stream_end"]) + (
        "void go(float *d, int64_t ldd, const float *s, int64_t r, int64_t c) {\n"
        "twb_turn_stream_f32(d, ldd, s, r + 3, r, c, s, r); twb_stream_end(); }"
    )
    source, wide = random_array((cols, rows + 3), "float32"), (cols + 31) // 16 * 16
    for start in range(17):
        out = np.full((rows + 1) * wide + 17, 7, np.float32)
        build(text, isa).go(out[start:].ctypes.data_as(_P), _L(wide), source.ctypes.data_as(_P), _L(rows), _L(cols))
        made = out[start : start + rows * wide].reshape(rows, wide)
        np.testing.assert_array_equal(made[:, :cols], source[:, :rows].T)
        assert (made[:, cols:] == 7).all() and (out[:start] == 7).all() and (out[start + rows * wide :] == 7).all()


def moved(rows: int, cols: int, size: tuple[int, int], wide: int = 0, again: bool = False) -> Kernel:
    """Y[j, i] = X[i, j] in blocks of X; `wide`: columns of Y that nobody writes; `again`: a block reads of Y what another wrote."""
    x, y, r = tensor("X", (rows, cols)), tensor("Y", (cols, rows + wide)), tensor("R", (1,))
    t, u = tile("t", size), tile("u", size[::-1])
    by = Var("by")
    body = [
        Copy(box(x, (mul(by, size[0]), mul(BX, size[1])), size), whole(t)),
        ParallelFor((I, J), (ix(size[1]), ix(size[0])), (put(u, I, J, at(t, J, I)),)),
        Copy(whole(u), box(y, (mul(BX, size[1]), mul(by, size[0])), size[::-1])),
        *([put(r, 0, at(y, 0, rows + wide - 1))] if again else []),
    ]
    return kernel("moved", (x, y, r), [block((cols // size[1], rows // size[0]), (BX, by), body, (t, u))])


def test_a_large_transpose_goes_past_the_caches(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "twb_turn_stream_f32" not in source_of(moved(64, 32, (32, 16))).text
    monkeypatch.setattr(stream_stores, "_LARGE", 1 << 10)
    for kern, past in (
        (moved(64, 32, (32, 16)), True),
        (moved(64, 32, (32, 16), wide=16), True),
        (moved(64, 32, (32, 16), wide=8), False),  # rows of Y begin in two ways
        (moved(64, 32, (32, 16), wide=16, again=True), False),
        (moved(32, 16, (32, 16)), False),  # the tile is one row of memory
    ):
        assert ("twb_turn_stream_f32(" in source_of(kern).text, "twb_stream_end();" in source_of(kern).text) == (past, past)
        agree(kern, [random_array([int(d.value) for d in p.buffer.shape], "float32", n) for n, p in enumerate(kern.params)], threads=2)


def test_a_core_waits_for_its_streams_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Behind its blocks, one or many; no block waits."""

    def added(blocks: int) -> Kernel:
        x, y, at_row = tensor("X", (4096,)), tensor("Y", (4096,)), add(mul(BX, 4096 // blocks), I)
        loop = ParallelFor((I,), (ix(4096 // blocks),), (put(y, at_row, add(at(x, at_row), 1.0)),))
        return kernel("moved", (x, y), [block((blocks,), (BX,), [loop], ())])

    monkeypatch.setattr(stream_stores, "_LARGE", 1 << 10)
    for kern in (moved(64, 32, (32, 16)), added(1), added(4)):
        lowered = lower(kern)
        grid = next(n for n in walk(lowered) if isinstance(n, Grid))
        end = LibraryCall("twb_stream_end", (), FLOAT32)
        assert [s.value for s in grid.after if isinstance(s, Evaluate)] == [end] and end not in [n for s in grid.body for n in walk(s)]
        text = source_of(kern).text
        entry = text[text.index("int32_t run_") :]
        assert text.count("twb_stream_end();") == 1 and entry.index("moved_block(") < entry.index("twb_stream_end();") < entry.index("(void)args")
        assert "then twb_stream_end()" in print_kernel(lowered)


@pytest.mark.parametrize("isa", MARCHES, ids=lambda i: i.name)
@pytest.mark.parametrize("bits", [16, 32])
def test_streams_write_what_they_should_and_nothing_else(bits: int, isa: Isa) -> None:
    """From and to every place in a line, and fewer elements than a line has."""
    text = clib.library([f"twb_stream_{bits}"]) + f"void go(void *d, void *s, int64_t n) {{ twb_stream_{bits}(d, s, n, 0, 0); }}"
    function, kind = build(text, isa).go, np.dtype(f"uint{bits}")
    source = np.arange(400, dtype=kind)
    for start in (0, 1, 5, 31):
        for count in (0, 1, 3, 32, 33, 300):
            out = np.zeros(400, kind)
            function(out[start:].ctypes.data_as(_P), source[7:].ctypes.data_as(_P), _L(count * bits // 8))
            np.testing.assert_array_equal(out[start : start + count], source[7 : 7 + count])
            assert not out[:start].any() and not out[start + count :].any()


@pytest.mark.parametrize("isa", MARCHES, ids=lambda i: i.name)
@pytest.mark.parametrize("bits", [16, 32])
def test_pieces_share_the_lines_between_them(bits: int, isa: Isa) -> None:
    """From every place in a line on; what stands before and behind the row stays."""
    text = clib.library([f"twb_stream_{bits}", "twb_stream_end"]) + (
        f"void go(char *d, char *s, int64_t n, char *room) {{ for (int64_t p = 0; p < n; p += 128) {{ __builtin_memcpy(room + 64, s + p, 128);\n"
        f"twb_stream_{bits}(d + p, room + 64, 128, p > 0, p < n - 128); }} twb_stream_end(); }}"
    )
    kind = np.dtype(f"uint{bits}")
    each, source, room = 128 // kind.itemsize, np.arange(1, 401, dtype=kind), np.zeros(192, np.uint8)
    for start in range(64 // kind.itemsize + 1):
        for count in (each, 2 * each, 5 * each):
            out = np.zeros(600, kind)
            arrays = (out[start:], source, room)
            build(text, isa).go(*(a.ctypes.data_as(_P) for a in arrays[:2]), _L(count * kind.itemsize), room.ctypes.data_as(_P))
            np.testing.assert_array_equal(out[start : start + count], source[:count])
            assert not out[:start].any() and not out[start + count :].any()


def added(count: int = 4096, blocks: int = 2, in_place: bool = False, slow: bool = False) -> Kernel:
    x, z = tensor("X", (blocks * count,)), tensor("Z", (blocks * count,))
    where = add(mul(BX, count), I)
    value = mul(at(x, where), 2.0)
    value = Unary("exp2", Unary("exp2", value)) if slow else add(value, at(z, where)) if in_place else value
    return kernel("added", (x, z), [block((blocks,), (BX,), [ParallelFor((I,), (ix(count),), (put(z, where, value),))])])


def test_a_large_output_goes_past_the_caches(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "twb_stream" not in source_of(added()).text
    monkeypatch.setattr(stream_stores, "_LARGE", 1 << 10)
    assert "twb_stream_32(" in source_of(added()).text
    out = agree(added(), [random_array((8192,), "float32"), np.zeros(8192, np.float32)])
    assert out[1].any()
    mine = random_array((8192,), "float32")
    theirs = mine * 2
    assert Compiled(added())(mine, mine) == 0
    np.testing.assert_array_equal(mine, theirs)


def test_what_is_read_again_ragged_or_computes_much_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream_stores, "_LARGE", 1 << 10)
    for kern in (added(in_place=True), added(count=1000), added(slow=True)):
        assert "twb_stream" not in source_of(kern).text
