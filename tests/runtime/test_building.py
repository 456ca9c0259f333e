"""Functions that are compiled apart: kept for the next kernel, rebuilt when damaged, built once, and the same as in the whole text."""

from __future__ import annotations

import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import tileworkbench
import tileworkbench.language as T
from tileworkbench.base.errors import CompilerError
from tileworkbench.kernels import attention
from tileworkbench.runtime import building, cache, toolchain
from tileworkbench.runtime.kernel import JITKernel


def product(m: int, n: int, k: int, block: int = 32) -> JITKernel:
    @T.prim_func
    def gemm(A: T.Tensor((m, k), "float32"), B: T.Tensor((n, k), "float32"), C: T.Tensor((m, n), "float32")):  # type: ignore[valid-type]
        with T.Kernel(T.ceildiv(n, block), T.ceildiv(m, block), threads=128) as (bx, by):
            A_s = T.alloc_shared((block, block), "float32")
            B_s = T.alloc_shared((block, block), "float32")
            C_l = T.alloc_fragment((block, block), "float32")
            T.clear(C_l)
            for ko in T.Pipelined(T.ceildiv(k, block), num_stages=2):
                T.copy(A[by * block, ko * block], A_s)
                T.copy(B[bx * block, ko * block], B_s)
                T.gemm(A_s, B_s, C_l, transpose_B=True)
            T.copy(C_l, C[by * block, bx * block])

    return tileworkbench.compile(gemm, target="c")


def check(kernel: JITKernel, m: int, n: int, k: int) -> None:
    rng = np.random.default_rng(0)
    a, b, c = rng.standard_normal((m, k), np.float32), rng.standard_normal((n, k), np.float32), np.zeros((m, n), np.float32)
    kernel(a, b, c)
    np.testing.assert_allclose(c, a.astype(np.float64) @ b.T, atol=1e-5 * k, rtol=0)


@pytest.fixture
def needs_apart() -> toolchain.Compiler:
    compiler = toolchain.default_compiler()
    if compiler is None or compiler.kind == "zig":
        pytest.skip("no C compiler here that compiles parts")
    return compiler


def parts(folder: Path) -> dict[str, str]:
    """The functions that are kept: name -> text."""
    found = {}
    for path in folder.glob("parts/*/part.c"):
        text = path.read_text()
        found |= dict.fromkeys(re.findall(r'^__attribute__\(\(visibility\("hidden"\)\)\) (?:TWB_PLAIN )?void (\w+)\(', text, re.M), text)
    return found


def test_the_next_kernel_finds_the_parts(fresh_cache: Path, needs_apart: toolchain.Compiler) -> None:
    check(product(128, 64, 96), 128, 64, 96)
    first = {path: path.stat().st_mtime_ns for path in fresh_cache.glob("parts/*/part.o")}
    assert len(first) == len(parts(fresh_cache)) >= 1
    check(product(128, 64, 32), 128, 64, 32)
    again = {path: path.stat().st_mtime_ns for path in fresh_cache.glob("parts/*/part.o")}
    assert again == first
    assert len(list(fresh_cache.glob("kernels/*/kernel.so"))) == 2
    assert not list(fresh_cache.glob("kernels/*/kernel.o"))


def test_the_source_is_whole(fresh_cache: Path, needs_apart: toolchain.Compiler, tmp_path: Path) -> None:
    kernel = product(64, 64, 96)
    text = kernel.get_kernel_source()
    for name in parts(fresh_cache):
        assert re.search(rf"static __attribute__\(\(noinline, unused\)\) (TWB_PLAIN )?void {name}\(", text)
    source, library = tmp_path / "k.c", tmp_path / "k.so"
    source.write_text(text)
    code, said = toolchain.run(needs_apart.arguments(str(source), str(library), ("-march=native",)), 60)
    assert code == 0, said
    assert toolchain.why_not_loadable(str(library)) == ""


def test_a_damaged_part_is_built_again(fresh_cache: Path, needs_apart: toolchain.Compiler) -> None:
    product(64, 64, 96)
    for path in fresh_cache.glob("parts/*/part.o"):
        path.write_bytes(b"not an object file")
    check(product(128, 64, 32), 128, 64, 32)
    assert all(path.read_bytes()[:4] == b"\x7fELF" for path in fresh_cache.glob("parts/*/part.o"))


def test_no_parts_are_kept_without_a_cache(fresh_cache: Path, needs_apart: toolchain.Compiler) -> None:
    cache.disable_cache()
    try:
        check(product(64, 64, 96), 64, 64, 96)
    finally:
        cache.enable_cache()
    assert not list(fresh_cache.glob("parts/*"))


def test_other_flags_make_another_part(fresh_cache: Path, needs_apart: toolchain.Compiler, tmp_path: Path) -> None:
    files = ['__attribute__((visibility("hidden"))) int twb_level(void) { return LEVEL; }\n']
    text = 'extern __attribute__((visibility("hidden"))) int twb_level(void);\nint level(void) { return twb_level(); }\n'
    for level in (1, 2):
        folder = tmp_path / str(level)
        folder.mkdir()
        building.build_library(needs_apart, text, folder, (f"-DLEVEL={level}",), {}, parts=files)
        assert toolchain.open_library(str(folder / "kernel.so")).level() == level
    assert len(list(fresh_cache.glob("parts/*/part.o"))) == 2


def test_a_part_that_does_not_compile(fresh_cache: Path, needs_apart: toolchain.Compiler, tmp_path: Path) -> None:
    with pytest.raises(CompilerError, match="unknown_thing"):
        building.build_library(needs_apart, "int f(void) { return 1; }\n", tmp_path, (), {}, parts=["int g(void) { return unknown_thing; }\n"])
    assert not list(fresh_cache.glob("parts/*/entry.json"))


def test_many_threads_build_a_part_once(fresh_cache: Path, needs_apart: toolchain.Compiler, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[str] = []
    run = building.run

    def counted(command: Sequence[str], timeout_s: float) -> tuple[int, str]:
        compiled.extend(word for word in command if word.endswith("part.c"))
        return run(command, timeout_s)

    monkeypatch.setattr(building, "run", counted)
    file = '__attribute__((visibility("hidden"))) int twb_one(void) { return 1; }\n'
    text = 'extern __attribute__((visibility("hidden"))) int twb_one(void);\nint one(void) { return twb_one(); }\n'
    folders = [tmp_path / str(n) for n in range(4)]
    for folder in folders:
        folder.mkdir()
    with ThreadPoolExecutor(4) as workers:
        libraries = list(workers.map(lambda f: building.build_library(needs_apart, text, f, (), {}, parts=[file]), folders))
    assert [toolchain.open_library(str(library)).one() for library in libraries] == [1] * 4
    assert len(compiled) == 1


def test_housekeeping_knows_the_parts(fresh_cache: Path, needs_apart: toolchain.Compiler) -> None:
    product(64, 64, 96)
    assert cache.info().entries == 1
    objects = sum(path.stat().st_size for path in fresh_cache.glob("parts/*/*"))
    assert cache.info().size_bytes > objects > 0
    assert cache.clear() == 1
    assert not list(fresh_cache.glob("parts/*/*"))


def test_functions_of_the_library_that_do_much_are_parts(fresh_cache: Path, needs_apart: toolchain.Compiler) -> None:
    kernel = tileworkbench.compile(attention.program(1, 1, 128, 64, False, 64, 64, "float32"), target="c", out_idx=-1)
    found = parts(fresh_cache)
    assert {"twb_rows_max_f32", "twb_rows_sum_f32"} <= set(found)
    together = [name for name in found if name.startswith(("twb_rows", "twb_turn"))]
    assert len(together) >= 3 and len({found[name] for name in together}) == 1  # one run of the compiler
    assert all("twb_rows" not in text for name, text in found.items() if name not in together)
    source = kernel.get_kernel_source()
    assert all(re.search(rf"static __attribute__\(\(noinline, unused\)\) (TWB_PLAIN )?void {name}\(", source) for name in found)
    q, k, v = (np.random.default_rng(s).standard_normal((1, 1, 128, 64), np.float32) for s in range(3))
    weights = np.exp(q[0, 0].astype(np.float64) @ k[0, 0].T / 8)
    np.testing.assert_allclose(kernel(q, k, v)[0, 0], weights / weights.sum(1, keepdims=True) @ v[0, 0], atol=2e-5)
