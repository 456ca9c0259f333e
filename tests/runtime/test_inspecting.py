"""`kernel.sanitize` and `kernel.count`: planted faults are found at the author's lines, clean twins are not blamed, counters follow closed forms."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import tileworkbench
import tileworkbench.language as T
from tileworkbench.base.errors import ArgumentError, DeviceAssertError, TileValueError
from tileworkbench.emulator import COUNTERS, Counters, Finding, LineCounters, RunResult
from tileworkbench.emulator.text import Line
from tileworkbench.frontend.prim_func import PrimFunc
from tileworkbench.kernels import gemm
from tileworkbench.runtime import inspecting, nvrtc, target_emulate
from tileworkbench.runtime.inspecting import counted, sanitized
from tileworkbench.runtime.kernel import JITKernel

SOURCE = inspect.getsource(inspect.getmodule(lambda: None)).splitlines()  # type: ignore[arg-type]


def line_of(mark: str) -> int:
    """The line of this file that ends in `# mark`."""
    (found,) = (i for i, text in enumerate(SOURCE, 1) if text.endswith(f"# {mark}"))
    return found


def kernel_of(program: PrimFunc, target: str = "interpret") -> JITKernel:
    return tileworkbench.compile(program, target=target)


def arrays(size: int = 64) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    return np.arange(size, dtype=np.float32), np.zeros(size, np.float32)


# ------------------------------------------------------------------------------------------- faults that an author can plant
def reversing(written: int) -> PrimFunc:
    """Y = X backwards; of the 64 elements of its tile `written` are written."""

    @T.prim_func
    def reverses(X: T.Tensor((64,), "float32"), Y: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=64):
            s = T.alloc_shared((64,), "float32")
            for i in T.Parallel(written):
                s[i] = X[i]  # write
            for i in T.Parallel(64):
                Y[i] = s[63 - i]  # read

    return reverses


def meeting() -> PrimFunc:
    @T.prim_func
    def meets(X: T.Tensor((64,), "float32"), Y: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=64):
            tx = T.get_thread_binding()
            s = T.alloc_shared((64,), "float32")
            s[tx] = X[tx]
            T.sync_threads()  # barrier
            Y[tx] = s[63 - tx]

    return meets


@pytest.mark.parametrize("target", ["interpret", "emulate:sm_80"])
def test_what_was_never_written(target: str) -> None:
    x, y = arrays()
    assert kernel_of(reversing(64), target).sanitize(x, y, arch="sm_80").is_clean
    found = kernel_of(reversing(48), target).sanitize(x, y, arch="sm_80")
    (fault,) = found.of("uninitialised")
    assert fault.line is not None and fault.line.line == line_of("read") and fault.times == 16
    assert found.findings == (fault,)


# ------------------------------------------------------------------------------------------- faults that only we could make
def planted(monkeypatch: pytest.MonkeyPatch, change: Callable[[str], str]) -> None:
    """From now on emitted text is changed."""
    real = target_emulate.translate_cuda

    def translate(*args: Any) -> Any:
        source, records = real(*args)
        text = change(source.text)
        assert text != source.text
        return replace(source, text=text), records

    monkeypatch.setattr(target_emulate, "translate_cuda", translate)


def test_a_missing_barrier_is_a_race_of_two_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = arrays()
    assert kernel_of(reversing(64)).sanitize(x, y, arch="sm_80").is_clean
    planted(monkeypatch, lambda text: text.replace("twb_sync();", "", 1))
    found = kernel_of(reversing(64)).sanitize(x, y, arch="sm_80").of("race")
    assert {(f.line.line, f.other.line) for f in found if f.line and f.other} <= {
        (line_of("read"), line_of("write")), (line_of("write"), line_of("read"))
    } and found  # fmt: skip


def test_a_barrier_that_some_do_not_come_to(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = arrays()
    assert kernel_of(meeting()).sanitize(x, y, arch="sm_80").is_clean
    planted(monkeypatch, lambda text: text.replace("twb_sync();", "if (tx < 32) twb_sync();", 1))
    found = kernel_of(meeting()).sanitize(x, y, arch="sm_80").of("divergent")
    assert line_of("barrier") in {f.line.line for f in found if f.line}
    assert any("32 of 64 threads came" in f.text for f in found)


def test_accesses_outside_and_across(monkeypatch: pytest.MonkeyPatch) -> None:
    @T.prim_func
    def copies(X: T.Tensor((128,), "float32"), Y: T.Tensor((128,), "float32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(128):
                Y[i] = X[i] + 1  # store

    x, y = arrays(128)
    assert kernel_of(copies).sanitize(x, y, arch="sm_80").is_clean
    for shift, kind in ((64, "out of bounds"), (1, "misaligned")):
        with monkeypatch.context() as patch:
            planted(patch, lambda text, shift=shift: text.replace("(Y + ", f"(Y + {shift} + "))  # type: ignore[misc]
            found = kernel_of(copies).sanitize(x, y, arch="sm_80").of(kind)
        assert {f.line.line for f in found if f.line} == {line_of("store")}, kind


# ------------------------------------------------------------------------------------------- arrays, targets, architectures
def test_no_array_is_changed_and_one_that_comes_twice_is_one() -> None:
    @T.prim_func
    def shifts(X: T.Tensor((64,), "float32"), Y: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=64):
            for i in T.Parallel(64):
                Y[i] = X[i] + 1

    kernel = kernel_of(shifts)
    x, y = arrays()
    kernel.sanitize(x, y)
    kernel.count(x, x)
    assert x.tolist() == list(range(64)) and not y.any()


def test_copies_lie_as_their_arrays_do() -> None:
    base = np.arange(60, dtype=np.int16).reshape(6, 10)
    for array in (base, base[::2, 1:7], base[::-1], base.T, base[2, 3:3], np.broadcast_to(base[0], (3, 10))):
        twin = inspecting._twin(array)
        assert twin.strides == array.strides or not array.size
        np.testing.assert_array_equal(twin, array)
        assert not np.shares_memory(twin, base)
        if array.size:
            assert (twin.ctypes.data - array.ctypes.data) % 128 == 0


def test_the_architecture_is_the_kernels_own() -> None:
    x, y = arrays()
    assert kernel_of(reversing(64), "emulate:sm_80").sanitize(x, y).arch == "sm_80"
    assert kernel_of(reversing(64)).sanitize(x, y).arch == "sm_90a"
    if nvrtc.find_nvrtc() is not None:
        assert kernel_of(reversing(64), "cuda:sm_89").sanitize(x, y).arch == "sm_89"
    with pytest.raises(TileValueError, match="there is no GPU architecture 'sm_12'"):
        kernel_of(reversing(64)).count(x, y, arch="sm_12")
    with pytest.raises(ArgumentError, match="argument X"):
        kernel_of(reversing(64)).sanitize(x[:5], y)


def test_a_call_that_goes_wrong_goes_wrong_here_too() -> None:
    @T.prim_func
    def checks(X: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=64):
            for i in T.Parallel(64):
                T.device_assert(X[i] < 60, "X is small")
                X[i] = 0

    with pytest.raises(DeviceAssertError, match="X is small"):
        kernel_of(checks).sanitize(arrays()[0])


# ------------------------------------------------------------------------------------------- counters
def transposing(pitch: int) -> PrimFunc:
    @T.prim_func
    def transposes(X: T.Tensor((32, 32), "float32"), Y: T.Tensor((32, 32), "float32")):
        with T.Kernel(1, threads=(32, 8)):
            tx, ty = T.get_thread_binding(0), T.get_thread_binding(1)
            s = T.alloc_shared((32, pitch), "float32")
            for r in T.serial(4):
                s[ty + r * 8, tx] = X[ty + r * 8, tx]  # rows
            T.sync_threads()  # all
            for r in T.serial(4):
                Y[ty + r * 8, tx] = s[tx, ty + r * 8]  # columns

    return transposes


@pytest.mark.parametrize(("pitch", "fronts"), [(32, 32), (33, 1)])
def test_a_column_of_a_tile_hits_one_bank(pitch: int, fronts: int) -> None:
    """8 warps take 4 turns; each reads a column of 32 words: in one bank, unless a row of the tile has 33."""
    a = np.zeros((32, 32), np.float32)
    found = kernel_of(transposing(pitch)).count(a, a.copy(), arch="sm_80")
    rows, columns = found.at(line_of("rows")), found.at(line_of("columns"))
    assert (rows.global_loads, rows.global_load_sectors, rows.global_load_bytes) == (32, 32 * 4, 4096)
    assert (rows.shared_stores, rows.shared_store_wavefronts, rows.shared_store_ideal) == (32, 32, 32)
    assert (columns.shared_loads, columns.shared_load_wavefronts, columns.shared_load_ideal) == (32, 32 * fronts, 32)
    assert (columns.global_stores, columns.global_store_sectors) == (32, 32 * 4)
    assert found.total.dram_bytes == 2 * 4096 and found.at(line_of("all")).barriers == 8


@pytest.mark.parametrize("stride", [2, 8])
def test_a_strided_read_touches_its_sectors(stride: int) -> None:
    @T.prim_func
    def strides(X: T.Tensor((32 * 8,), "float32"), Y: T.Tensor((32,), "float32")):
        with T.Kernel(1, threads=32):
            tx = T.get_thread_binding()
            Y[tx] = X[tx * stride]

    found = kernel_of(strides).count(np.zeros(256, np.float32), np.zeros(32, np.float32), arch="sm_80")
    assert found.total.global_load_sectors == 4 * stride and found.total.global_load_bytes == 128


def test_products_are_counted_at_their_line() -> None:
    a = np.ones((64, 64), np.float16)
    kernel = tileworkbench.compile(gemm.program(64, 64, 64, 64, 64, 32, 1, "float16", "float16", False), out_idx=-1, target="interpret")
    found = kernel.count(a, a, arch="sm_80").total
    assert found.mma_flops + found.wgmma_flops in (0, 2 * 64**3)  # 0 where products are multiplied and added


def test_launches_are_told_apart_and_summed() -> None:
    @T.prim_func
    def twice(X: T.Tensor((64,), "float32"), turns: T.int32):
        for _ in T.serial(turns):
            with T.Kernel(1, threads=32):
                for i in T.Parallel(64):
                    X[i] = X[i] + 1  # both
        with T.Kernel(1, threads=32):
            X[0] = 0

    found = kernel_of(twice).count(arrays()[0], 3, arch="sm_80")
    assert [name for name, _ in found.launches] == ["twice_0"] * 3 + ["twice_1"]
    assert found.at(line_of("both")).global_load_bytes == 3 * 256
    assert found.total.global_store_bytes == 3 * 256 + 4 == sum(c.total.global_store_bytes for _, c in found.launches)


# ------------------------------------------------------------------------------------------- tables
def counters(**values: int) -> LineCounters:
    return LineCounters(tuple(values.get(name, 0) for name in COUNTERS))


def test_tables() -> None:
    one, other = Line("f.py", 3, "a[i] = s[i]"), Line("f.py", 12, "s[i] = 1")
    race = Finding("race", "two threads", one, other)
    result = RunResult((race,), Counters(counters(shared_loads=1200), {other: counters(shared_loads=1000), one: counters(shared_loads=200)}), "")
    assert str(sanitized("k", "sm_80", [])) == "k on sm_80: nothing found"
    found = sanitized("k", "sm_80", [("k", result), ("k", result)])
    assert repr(found).splitlines() == [
        "k on sm_80: 1 fault",
        "  f.py:3: race: two threads (the other one: f.py:12) [2 times]",
        "    f.py:3: a[i] = s[i]",
        "    f.py:12: s[i] = 1",
        "    hint: put a barrier between the two accesses",
    ]
    assert repr(counted("k", "sm_80", [("k", result)])).splitlines() == [
        "k on sm_80",
        "line     shared requests",
        "f.py:3               200  a[i] = s[i]",
        "f.py:12            1 000  s[i] = 1",
        "total              1 200",
    ]
    assert str(counted("k", "sm_80", [])).splitlines()[0] == "k on sm_80"
