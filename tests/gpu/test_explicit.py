"""The author's own roles, barriers, copies and products of sm_90: numbers, the sanitizer, and the text for a GPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tileworkbench as twb
from tests.gpu import explicit_programs as programs
from tileworkbench.frontend.prim_func import PrimFunc
from tileworkbench.runtime import nvrtc
from tileworkbench.runtime.cubin import read_cubin
from tileworkbench.runtime.target_cuda import translate_gpu


def random(seed: int, *shape: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float16)


def run(program: PrimFunc, *arrays: np.ndarray[Any, Any]) -> None:
    """Change `arrays` in place; the sanitizer finds nothing."""
    kernel = twb.compile(program, target="emulate:sm_90a")
    found = kernel.sanitize(*arrays)
    assert not found.findings, found.findings[0]
    kernel(*arrays)


PRODUCTS = {
    "barrier pipe": (programs.barrier_pipe, (128, 128, 320), {}),
    "barrier pipe of three": (programs.barrier_pipe, (64, 64, 256), {"stages": 3}),
    "barrier pipe, ragged": (programs.barrier_pipe, (96, 72, 136), {}),
    "copy 0 gemm 1": (programs.one_version, (128, 64, 256), {"num_stages": 0, "copier": 0}),
    "copy 1 gemm 0": (programs.one_version, (64, 128, 192), {"num_stages": 0, "copier": 1}),
    "soft pipe": (programs.one_version, (64, 64, 256), {"num_stages": 2, "copier": 1}),
    "two halves": (programs.two_halves, (64, 128, 192), {}),
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_products_in_roles(name: str) -> None:
    make, (m, n, k), more = PRODUCTS[name]
    a, b, c = random(0, m, k), random(1, k, n), np.zeros((m, n), np.float16)
    run(make(m, n, k, **more), a, b, c)
    np.testing.assert_allclose(c.astype(np.float64), a.astype(np.float64) @ b.astype(np.float64), atol=0.05, rtol=2e-3)


def test_products_that_run_into_the_next_turn() -> None:
    a, b, c = random(2, 128, 448), random(3, 128, 448), np.zeros((128, 128), np.float16)
    run(programs.started_products(448), a, b, c)
    np.testing.assert_allclose(c.astype(np.float64), a.astype(np.float64) @ b.astype(np.float64).T, atol=0.05, rtol=2e-3)


def test_a_factor_that_another_role_writes() -> None:
    a, b, c = random(4, 3, 64, 64), random(5, 64, 64), np.zeros((64, 64), np.float32)
    run(programs.handed_over(3), a, b, c)
    np.testing.assert_allclose(c, (2 * a.astype(np.float64)).sum(0) @ b.astype(np.float64), atol=1e-3, rtol=1e-4)


def test_attention_of_two_consumers() -> None:
    q, k, v, o = random(6, 128, 64), random(7, 320, 64), random(8, 320, 64), np.zeros((128, 64), np.float16)
    run(programs.attention(128, 320), q, k, v, o)
    scores = q.astype(np.float64) @ k.astype(np.float64).T / 8
    weights = np.exp(scores - scores.max(1, keepdims=True))
    np.testing.assert_allclose(o, weights / weights.sum(1, keepdims=True) @ v.astype(np.float64), atol=4e-3)


@pytest.mark.parametrize("parts", [1, 2])
def test_groups_of_stores_that_the_author_closes(parts: int) -> None:
    a, c = random(14, 4 * parts, 32, 64).astype(np.float32), np.zeros((4 * parts, 32, 64), np.float32)
    run(programs.stored_in_groups(parts), a, c)
    np.testing.assert_array_equal(c, 2 * a)
    source = translate_gpu(programs.stored_in_groups(parts).kernel, "sm_90a")[0].text.partition('extern "C"')[2]
    before_wait = source.partition("tma_store_arrive")[0]
    assert source.count("twb_tma_store_3d") == parts and "twb_bulk_commit" not in before_wait and before_wait.count("twb_sync") == 1


@pytest.mark.parametrize(("width", "squares", "waits"), [(64, False, False), (72, True, True), (67, False, True)])
def test_a_barrier_is_told_when_copies_have_come(width: int, squares: bool, waits: bool) -> None:
    """The threads wait themselves for rows of odd bytes, and for what warp groups read."""
    a, c = random(15, 5, 64, width), np.zeros((64, 64), np.float32)
    program = programs.told_when_copied(5, width, squares)
    run(program, a, c)
    tiles = a[:, :, :64].astype(np.float64)
    np.testing.assert_allclose(c, sum(t @ t for t in tiles) if squares else tiles.sum(0), atol=2e-3, rtol=1e-4)
    source = translate_gpu(program.kernel, "sm_90a")[0].text.partition('extern "C"')[2]
    assert ("twb_cp_async_arrive(" in source) != waits and ("twb_cp_async<16>" in source) == (width != 67)


def test_roles_by_thread_index() -> None:
    a, c = random(11, 3, 64, 64), np.zeros((64, 64), np.float32)
    run(programs.by_thread_index(3), a, c)
    np.testing.assert_allclose(c, a.astype(np.float64).sum(0), atol=1e-5)


@pytest.mark.parametrize("by_block", [False, True])
def test_tiles_of_products_that_run_on(by_block: bool) -> None:
    a, b, c = random(12, 64, 320), random(13, 320, 64), np.zeros((64, 64), np.float32)
    run(programs.running_on(320, by_block), a, b, c)
    np.testing.assert_allclose(c, a.astype(np.float64) @ b.astype(np.float64), atol=1e-3, rtol=1e-4)


def test_parts_of_a_tile_in_unrolled_loops() -> None:
    a, b, c = random(14, 64, 256), random(15, 64, 256), np.zeros((64, 64), np.float32)
    run(programs.unrolled(), a, b, c)
    np.testing.assert_allclose(c, a.astype(np.float64) @ b.astype(np.float64).T, atol=1e-3, rtol=1e-4)


def test_a_block_without_roles() -> None:
    a, b, c = random(9, 128, 256), random(10, 256, 64), np.zeros((128, 64), np.float32)
    run(programs.without_roles(128, 256), a, b, c)
    np.testing.assert_allclose(c, a.astype(np.float64) @ b.astype(np.float64), atol=1e-3, rtol=1e-4)


def test_an_arrival_that_is_missing_is_a_deadlock() -> None:
    program = programs.one_version(64, 64, 192, 0, 0, missing="arrival")
    found = twb.compile(program, target="emulate:sm_90a").sanitize(random(0, 64, 192), random(1, 192, 64), np.zeros((64, 64), np.float16)).findings
    assert found and found[0].kind == "deadlock" and "for parity 0 (phase 0 has parity 0, 128 of 128 arrivals missing" in found[0].text
    assert "barrier_wait(done" in found[0].line.text


def test_a_wait_that_is_missing_is_a_race() -> None:
    program = programs.one_version(64, 64, 192, 0, 0, missing="wait")
    found = twb.compile(program, target="emulate:sm_90a").sanitize(random(0, 64, 192), random(1, 192, 64), np.zeros((64, 64), np.float16)).findings
    assert found and "deadlock" not in {f.kind for f in found}


EVERY: dict[str, PrimFunc] = {
    **{name: make(m, n, k, **more) for name, (make, (m, n, k), more) in PRODUCTS.items()}, "started products": programs.started_products(512),
    "handed over": programs.handed_over(4), "attention": programs.attention(256, 512), "without roles": programs.without_roles(128, 256),
    "by thread index": programs.by_thread_index(3), "running on": programs.running_on(512, by_block=False),
    "running on, by block": programs.running_on(512, by_block=True),
 "unrolled": programs.unrolled(),
}  # fmt: skip


def text(program: PrimFunc) -> str:
    """The kernel's own text."""
    return translate_gpu(program.kernel, "sm_90a")[0].text.split("__global__")[-1]


def test_roles_share_no_loop_and_meet_only_where_the_author_says() -> None:
    made = text(programs.barrier_pipe(128, 128, 256))
    assert made.count("for (int32_t ko") == 2 and made.count("twb_sync()") == 1 and "twb_bar_sync" not in made
    assert made.count("if (group == 1)") == 1 and made.count("twb_wgmma_wait<0>") == 1


def test_a_role_meets_itself_and_shows_what_it_wrote() -> None:
    made = text(programs.two_halves(64, 128, 192))
    assert "twb_bar_sync(15, 128)" in made and "twb_bar_sync(14, 128)" in made
    made = text(programs.handed_over(3)).split("twb_mbarrier_arrive(")[0]
    assert made.count("twb_fence_proxy_async()") >= 2  # the author's, and the one before an arrival


@pytest.mark.skipif(nvrtc.find_nvrtc() is None, reason="NVRTC is not installed")
@pytest.mark.parametrize("name", EVERY)
def test_nothing_is_spilt_or_serialised(name: str) -> None:
    source, _ = translate_gpu(EVERY[name].kernel, "sm_90a")
    made = nvrtc.compile_text(source.text, "sm_90a", source.flags, source.lines)
    kernels = read_cubin(made.cubin, made.log)
    assert kernels and not made.warnings, made.warnings
    assert not any(k.spills or k.local_bytes for k in kernels), "\n".join(map(str, kernels))
