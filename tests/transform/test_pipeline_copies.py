"""Pipelined loops whose copies run ahead: the same numbers for every trip count, no race and nothing read before it came, in the emulator."""

# (annotations of a kernel are values of the kernel language, not types)
from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from conftest import Golden

import tileworkbench.language as T
from tileworkbench.codegen.cuda_source import Number, Pointer
from tileworkbench.frontend.prim_func import PrimFunc
from tileworkbench.runtime import emulating
from tileworkbench.runtime.options import Options
from tileworkbench.runtime.target_emulate import Emulated, EmulateTarget, translate_cuda
from tileworkbench.transform.cuda_lowering import cuda_steps


def compiled(program: PrimFunc, arch: str = "sm_80") -> Emulated:
    return EmulateTarget().compile(program.kernel, Options(arch=arch))


def run(made: Emulated, grid: int, **values: Any) -> list[str]:
    """Change the arrays among `values` in place; the faults that the sanitizer finds."""
    found: list[str] = []
    for kernel in made.made.kernels:
        names = [str(getattr(p.value, "name", "")) if isinstance(p, Number) else p.name for p in kernel.params if isinstance(p, (Number, Pointer))]
        result = made.program[kernel.name].run(grid, kernel.block, [values[n] for n in names], shared_bytes=kernel.shared_bytes, sanitize=True)
        found += [str(f) for f in result.findings]
    return found


def remarks(made: Emulated) -> list[str]:
    return [r.text for record in made.passes if record.name == "pipeline_copies" for r in record.remarks]


def random(seed: int, *shape: int, dtype: str = "float16") -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def product(stages: int, m: int = 32, depth: int = 16) -> PrimFunc:
    @T.prim_func
    def steps(A: T.Tensor((m, 128), "float16"), B: T.Tensor((128, 32), "float16"), C: T.Tensor((m, 32), "float32"), n: T.int32):  # type: ignore[valid-type]
        with T.Kernel(1, threads=64):
            a, b = T.alloc_shared((32, depth), "float16"), T.alloc_shared((depth, 32), "float16")
            acc = T.alloc_fragment((32, 32), "float32")
            T.clear(acc)
            for k in T.Pipelined(n, num_stages=stages):
                T.copy(A[0, k * depth], a)
                T.copy(B[k * depth, 0], b)
                T.gemm(a, b, acc)
            T.copy(acc, C[0, 0])

    return steps


def check(made: Emulated, trips: int, m: int = 32, depth: int = 16) -> None:
    a, b, c = random(0, m, 128), random(1, 128, 32), np.full((m, 32), np.nan, np.float32)
    assert run(made, 1, A=a, B=b, C=c, n=trips) == []
    want = a[:, : trips * depth].astype(np.float64) @ b[: trips * depth].astype(np.float64)
    np.testing.assert_allclose(c, want, atol=1e-3)


@pytest.mark.parametrize("stages", [1, 2, 3, 4])
def test_every_trip_count(stages: int) -> None:
    made = compiled(product(stages))
    assert remarks(made) == [] and "twb_cp_async<16>" in made.source
    for trips in range(stages + 3):
        check(made, trips)


def test_ragged_edges_are_filled_with_zeros() -> None:
    made = compiled(product(3, m=27, depth=48))  # 128 is not a multiple of 48
    for trips in (2, 3):
        check(made, trips, m=27, depth=48)


def test_without_the_wait_the_check_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    made = compiled(product(3))
    faulty = re.sub(r"twb_cp_async_wait<\d>\(\);", "", made.source)
    assert faulty != made.source
    monkeypatch.setattr(Emulated, "program", emulating.load(faulty, "sm_80"))
    with pytest.raises(AssertionError):
        check(made, 4)


def test_without_the_barrier_the_check_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    made = compiled(product(3))
    faulty = made.source.replace("twb_sync();", "", 1)
    assert faulty != made.source
    monkeypatch.setattr(Emulated, "program", emulating.load(faulty, "sm_80"))
    with pytest.raises(AssertionError):
        check(made, 4)


# ---------------------------------------------------------------------------------------------- more than one loop
def test_two_loops_with_the_same_tile_one_after_the_other() -> None:
    @T.prim_func
    def twice(A: T.Tensor((32, 64), "float16"), B: T.Tensor((32, 64), "float16"), C: T.Tensor((32, 16), "float32"), n: T.int32):  # type: ignore[valid-type]
        with T.Kernel(1, threads=64):
            a, total = T.alloc_shared((32, 16), "float16"), T.alloc_fragment((32, 16), "float32")
            T.clear(total)
            for k in T.Pipelined(n, num_stages=3):
                T.copy(A[0, k * 16], a)
                for i, j in T.Parallel(32, 16):
                    total[i, j] += a[i, j]
            for k in T.Pipelined(4, num_stages=2):
                T.copy(B[0, k * 16], a)
                for i, j in T.Parallel(32, 16):
                    total[i, j] += 2 * a[i, j]
            T.copy(total, C)

    made = compiled(twice)
    assert remarks(made) == [] and made.source.count("twb_cp_async_wait<") == 2
    for trips in (0, 1, 4):
        a, b, c = random(0, 32, 64), random(1, 32, 64), np.zeros((32, 16), np.float32)
        assert run(made, 1, A=a, B=b, C=c, n=trips) == []
        want = a.astype(np.float64).reshape(32, 4, 16)[:, :trips].sum(1) + 2 * b.astype(np.float64).reshape(32, 4, 16).sum(1)
        np.testing.assert_allclose(c, want, atol=2e-2)


def test_a_loop_in_the_loop_of_a_persistent_kernel() -> None:
    @T.prim_func
    def walks(A: T.Tensor((96, 64), "float16"), B: T.Tensor((64, 32), "float16"), C: T.Tensor((96, 32), "float32"), n: T.int32):  # type: ignore[valid-type]
        with T.Kernel(2, threads=64) as block:
            a, b = T.alloc_shared((16, 16), "float16"), T.alloc_shared((16, 32), "float16")
            acc = T.alloc_fragment((16, 32), "float32")
            for t in T.serial(3):
                T.clear(acc)
                for k in T.Pipelined(n, num_stages=3):
                    T.copy(A[(t * 2 + block) * 16, k * 16], a)
                    T.copy(B[k * 16, 0], b)
                    T.gemm(a, b, acc)
                T.copy(acc, C[(t * 2 + block) * 16, 0])

    made = compiled(walks)
    assert remarks(made) == []
    for trips in (0, 1, 2, 4):
        a, b, c = random(0, 96, 64), random(1, 64, 32), np.full((96, 32), np.nan, np.float32)
        assert run(made, 2, A=a, B=b, C=c, n=trips) == []
        np.testing.assert_allclose(c, a[:, : trips * 16].astype(np.float64) @ b[: trips * 16].astype(np.float64), atol=1e-3)


# ---------------------------------------------------------------------------------------------- what a place may depend on
def test_conditions_and_bindings_are_evaluated_for_the_iteration_that_is_copied() -> None:
    @T.prim_func
    def picks(A: T.Tensor((8, 16, 32), "float16"), Where: T.Tensor((6,), "int32"), C: T.Tensor((16, 32), "float32"), n: T.int32):  # type: ignore[valid-type]
        with T.Kernel(1, threads=64):
            a, total = T.alloc_shared((16, 32), "float16"), T.alloc_fragment((16, 32), "float32")
            T.clear(total)
            for k in T.Pipelined(n, num_stages=3):
                page = Where[k]
                if page >= 0:
                    T.copy(A[page, 0, 0], a)
                    for i, j in T.Parallel(16, 32):
                        total[i, j] += a[i, j]
                if k == 3:
                    T.copy(total, C)
            T.copy(total, C)

    made = compiled(picks)
    assert remarks(made) == [] and "twb_cp_async<16>" in made.source
    pages = np.array([3, -1, 7, 7, -1, 0], np.int32)
    for trips in (0, 1, 2, 6):
        a, c = random(0, 8, 16, 32), np.full((16, 32), np.nan, np.float32)
        assert run(made, 1, A=a, Where=pages, C=c, n=trips) == []
        np.testing.assert_allclose(c, sum((a[p].astype(np.float64) for p in pages[:trips] if p >= 0), np.zeros((16, 32))), atol=2e-2)


def test_a_tile_that_comes_from_one_of_two_places() -> None:
    @T.prim_func
    def either(A: T.Tensor((128, 32), "float16"), B: T.Tensor((128, 32), "float16"), C: T.Tensor((16, 32), "float32"), n: T.int32):  # type: ignore[valid-type]
        with T.Kernel(1, threads=64):
            a, total = T.alloc_shared((16, 32), "float16"), T.alloc_fragment((16, 32), "float32")
            T.clear(total)
            for k in T.Pipelined(n, num_stages=3):
                if k % 3 == 1:
                    T.copy(A[k * 16, 0], a)
                else:
                    T.copy(B[k * 16, 0], a)
                for i, j in T.Parallel(16, 32):
                    total[i, j] += a[i, j]
            T.copy(total, C)

    made = compiled(either)
    assert remarks(made) == [] and "twb_cp_async<16>" in made.source
    for trips in (0, 1, 2, 6):
        a, b, c = random(0, 128, 32), random(1, 128, 32), np.full((16, 32), np.nan, np.float32)
        assert run(made, 1, A=a, B=b, C=c, n=trips) == []
        pieces = [(a if k % 3 == 1 else b)[k * 16 : k * 16 + 16].astype(np.float64) for k in range(trips)]
        np.testing.assert_allclose(c, sum(pieces, np.zeros((16, 32))), atol=2e-2)


def left_synchronous(kind: str) -> PrimFunc:
    """A sum over pieces of A in which something keeps the copy from running ahead."""

    @T.prim_func
    def sums(A: T.Tensor((16, 128), "float16"), B: T.Tensor((16, 128), "float16"), C: T.Tensor((16, 16), "float16"), n: T.int32):  # type: ignore[valid-type]
        with T.Kernel(1, threads=64):
            a, wide = T.alloc_shared((16, 16), "float16"), T.alloc_shared((16, 16), "float32")
            total = T.alloc_fragment((16, 16), "float16")
            at = T.alloc_var("int32")
            at = 0
            if kind == "filled":  # whoever reads the tile first finds this, and then what the iteration before left
                T.clear(a)
            T.clear(total)
            for k in T.Pipelined(n, num_stages=2):
                if kind == "break":
                    if k == 3:
                        T.loop_break()
                if kind == "filled":
                    for i, j in T.Parallel(16, 16):
                        total[i, j] += a[i, j]
                if kind == "var":
                    T.copy(A[0, at * 16], a)
                    at = at + 1
                elif kind == "twice":  # two copies of one iteration into one tile have no order
                    T.copy(A[0, k * 16], a)
                    if k >= 0:
                        T.copy(A[0, k * 16], a)
                elif kind == "unaligned":
                    T.copy(A[0, k * 15], a)
                elif kind == "converts":
                    T.copy(A[0, k * 16], wide)
                else:
                    T.copy(A[0, k * 16], a)
                for i, j in T.Parallel(16, 16):
                    total[i, j] += wide[i, j] if kind == "converts" else a[i, j]
                if kind == "writes":
                    T.copy(total, B[0, k * 16])
            if kind == "later":
                T.copy(a, C)
            else:
                T.copy(total, C)

    return sums


WHY = {
    "break": "a break may end the loop early",
    "var": "where it reads depends on at, which the loop changes",
    "unaligned": "rows of A do not certainly begin at multiples of 4 bytes",
    "converts": "it converts float16 to float32",
    "writes": "the loop writes B, which may be A itself",
    "later": "what an iteration leaves in it is used later",
    "twice": "the loop writes it elsewhere too",
    "filled": "what an iteration leaves in it is used later",
}


@pytest.mark.parametrize("kind", WHY)
def test_what_cannot_be_proved_stays_synchronous_and_says_why(kind: str) -> None:
    made = compiled(left_synchronous(kind))
    (why,) = set(remarks(made))
    assert WHY[kind] in why and "cp_async" not in made.source
    assert any(note.startswith("test_pipeline_copies.py:") and note.endswith(why) for note in made.facts().notes)
    for trips in (1, 4):
        a, b, c = random(0, 16, 128), np.zeros((16, 128), np.float16), np.zeros((16, 16), np.float16)
        b = a if kind == "writes" else b
        pieces, turns = [], min(trips, 3) if kind == "break" else trips
        total = np.zeros((16, 16), np.float16)
        expected = a.copy()
        for k in range(turns):
            step = 15 if kind == "unaligned" else 16
            pieces.append(expected[:, k * step : k * step + 16].copy())
            before = pieces[-2] if kind == "filled" and k else 0
            total = (total + before + pieces[-1]).astype(np.float16)
        assert run(made, 1, A=a, B=b, C=c, n=trips) == []
        np.testing.assert_allclose(c, pieces[-1] if kind == "later" else total, atol=4e-2)


def test_elements_outside_that_are_not_zero_stay_synchronous() -> None:
    @T.prim_func
    def padded(A: T.Tensor((40,), "float32"), C: T.Tensor((64,), "float32")):  # type: ignore[valid-type]
        with T.Kernel(1, threads=32):
            T.annotate_safe_value({A: 7.0})
            a = T.alloc_shared((16,), "float32")
            for k in T.Pipelined(4, num_stages=2):
                T.copy(A[k * 16], a)
                for i in T.Parallel(16):
                    C[k * 16 + i] = a[i] + 1

    made = compiled(padded)
    assert "elements outside A become 7.0, not 0" in remarks(made)[0]
    a, c = random(0, 40, dtype="float32"), np.zeros(64, np.float32)
    assert run(made, 1, A=a, C=c) == []
    np.testing.assert_array_equal(c, np.concatenate([a, np.full(24, 7.0, np.float32)]) + 1)


def test_an_older_architecture_says_so_once() -> None:
    _, records = translate_cuda(product(2).kernel, "sm_75")
    assert [r.text for record in records for r in record.remarks] == ["no copy runs ahead: sm_75 has no asynchronous copies"]


def test_visible_threads_copy_in_turn() -> None:
    @T.prim_func
    def visible(A: T.Tensor((64, 32), "float32"), C: T.Tensor((64, 32), "float32")):  # type: ignore[valid-type]
        with T.Kernel(1, threads=32):
            tx = T.get_thread_binding()
            a = T.alloc_shared((16, 32), "float32")
            for k in T.Pipelined(4, num_stages=2):
                T.copy(A[k * 16, 0], a)
                T.sync_threads()
                for i in T.serial(16):
                    C[k * 16 + i, tx] = a[i, tx] + 1
                T.sync_threads()

    made = compiled(visible)
    assert remarks(made) == ["no copy runs ahead: the launch's threads are visible"]
    a, c = random(0, 64, 32, dtype="float32"), np.zeros((64, 32), np.float32)
    assert run(made, 1, A=a, C=c) == []
    np.testing.assert_array_equal(c, a + 1)


def test_a_manual_schedule_gives_the_same_numbers() -> None:
    @T.prim_func
    def planned(A: T.Tensor((32, 128), "float16"), B: T.Tensor((128, 32), "float16"), C: T.Tensor((32, 32), "float32"), n: T.int32):  # type: ignore[valid-type]
        with T.Kernel(1, threads=64):
            a, b = T.alloc_shared((32, 16), "float16"), T.alloc_shared((16, 32), "float16")
            acc = T.alloc_fragment((32, 32), "float32")
            T.clear(acc)
            for k in T.Pipelined(n, order=[0, 1, 2], stage=[0, 0, 1]):
                T.copy(A[0, k * 16], a)
                T.copy(B[k * 16, 0], b)
                T.gemm(a, b, acc)
            T.copy(acc, C[0, 0])

    made = compiled(planned)
    assert remarks(made) == ["of the order and stage of the loop's statements only the number of stages is used"]
    for trips in (0, 1, 5):
        check(made, trips)


def test_threads_without_work_meet_the_others_at_the_barrier_of_the_loop() -> None:
    @T.prim_func
    def few(A: T.Tensor((64, 24), "float32"), C: T.Tensor((64, 24), "float32")):  # type: ignore[valid-type]
        with T.Kernel(1, threads=64):
            a = T.alloc_shared((16, 24), "float32")
            for k in T.Pipelined(4, num_stages=2):
                T.copy(A[k * 16, 0], a)
                for i, j in T.Parallel(16, 24):  # 60 threads
                    C[k * 16 + i, j] = a[i, j] + 1

    a, c = random(0, 64, 24, dtype="float32"), np.zeros((64, 24), np.float32)
    assert run(compiled(few), 1, A=a, C=c) == []
    np.testing.assert_array_equal(c, a + 1)


# ---------------------------------------------------------------------------------------------- text
def test_text_of_a_product(golden: Golden) -> None:
    source, _ = translate_cuda(product(3, m=27).kernel, "sm_80")
    golden(source.text, "gemm.cu")


def test_what_is_pipelined_already_stays() -> None:
    kernel = product(3).kernel
    for step in cuda_steps(80):
        kernel = step.run(kernel)
        if step.name == "pipeline_copies":
            assert step.run(kernel) is kernel
            break
