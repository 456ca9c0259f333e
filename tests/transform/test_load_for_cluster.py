"""Ordinary products in clusters (sm_90a): tiles that blocks need alike are loaded once for all; the same numbers, nothing for the sanitizer."""

# mypy: disable-error-code="no-untyped-def, valid-type, untyped-decorator"
from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import tileworkbench
import tileworkbench.language as T
from tileworkbench.analysis.alike import Alike
from tileworkbench.base.errors import TileError
from tileworkbench.frontend.prim_func import PrimFunc
from tileworkbench.ir.build import floordiv, index
from tileworkbench.ir.node import walk
from tileworkbench.ir.stmt import Copy
from tileworkbench.runtime import nvrtc, toolchain
from tileworkbench.runtime.cubin import read_cubin
from tileworkbench.runtime.kernel import JITKernel
from tileworkbench.runtime.translate_cuda import translate_gpu

pytestmark = pytest.mark.skipif(toolchain.default_compiler() is None, reason="needs a host C++ compiler")


def product(
    m: int, n: int, k: int, cluster: Any, block: tuple[int, int, int] = (128, 64, 64), stages: int = 2, threads: int = 256, tb: bool = False,
    panel: int = 0, bias: bool = False, causal: bool = False,
) -> PrimFunc:  # fmt: skip
    """An ordinary product; with a bias that is loaded once, or with as many turns as the row of tiles says."""
    bm, bn, bk = block

    @T.prim_func
    def mm(
        A: T.Tensor((m, k), "float16"), B: T.Tensor((n, k) if tb else (k, n), "float16"), V: T.Tensor((n,), "float32"), C: T.Tensor((m, n), "float32")
    ):
        with T.Kernel(T.ceildiv(n, bn), T.ceildiv(m, bm), threads=threads, cluster_dims=cluster) as (bx, by):
            if panel:
                T.use_swizzle(panel)
            a, b = T.alloc_shared((bm, bk), "float16"), T.alloc_shared((bn, bk) if tb else (bk, bn), "float16")
            v, acc = T.alloc_shared((bn,), "float32"), T.alloc_fragment((bm, bn), "float32")
            T.clear(acc)
            if bias:
                T.copy(V[bx * bn], v)
            for step in T.Pipelined(by + 1 if causal else T.ceildiv(k, bk), num_stages=stages):
                T.copy(A[by * bm, step * bk], a)
                if tb:
                    T.copy(B[bx * bn, step * bk], b)
                else:
                    T.copy(B[step * bk, bx * bn], b)
                T.gemm(a, b, acc, transpose_B=tb)
            if bias:
                for i, j in T.Parallel(bm, bn):
                    acc[i, j] += v[j]
            T.copy(acc, C[by * bm, bx * bn])

    result: PrimFunc = mm
    return result


def arrays(m: int, n: int, k: int, tb: bool = False) -> list[np.ndarray[Any, Any]]:
    rng = np.random.default_rng(m + n + k)
    a, b = rng.standard_normal((m, k)).astype(np.float16), rng.standard_normal((n, k) if tb else (k, n)).astype(np.float16)
    return [a, b, rng.random(n, np.float32), np.full((m, n), -7, np.float32)]


def check(program: PrimFunc, m: int, n: int, k: int, tb: bool = False, bias: bool = False, sanitize: bool = True) -> JITKernel:
    kernel = tileworkbench.compile(program, target="emulate:sm_90a")
    given = arrays(m, n, k, tb)
    a, b, v, c = given
    if sanitize:
        found = kernel.sanitize(*given)
        assert found.is_clean, str(found)
    kernel(*given)
    wanted = a.astype(np.float64) @ (b.T if tb else b).astype(np.float64) + (v if bias else 0)
    np.testing.assert_allclose(c, wanted, atol=2e-3, rtol=1e-4)
    return kernel


def loads(kernel: JITKernel) -> list[tuple[str, str, str]]:
    """(array, mask or "", where in shared memory) of each load of a text."""
    found = re.findall(r"twb_tma_load_(multicast_)?\dd\((.*?), &(\w+)_map\d, \w+(?: \+ \w+)?, (\d+, )?", kernel.source)
    return [(array, mask.strip(", ") if many else "", to) for many, to, array, mask in found]


CASES = {
    "rows of A": ((128, 256, 192), 2, {}, {"A": "3"}), "columns of B": ((256, 64, 192), (1, 2), {}, {"B": "3"}),
    "ragged": ((328, 192, 200), (1, 3), {}, {"B": ""}), "ragged rows": ((200, 248, 136), 2, {}, {"A": "3"}),
    "B as it is": ((256, 128, 128), (1, 2), {"tb": True, "block": (128, 128, 64)}, {"B": "3"}),
    "two boxes of B": ((256, 128, 128), (1, 2), {"block": (128, 128, 64)}, {"B": "3"}),
    "panels": ((512, 256, 64), (1, 2), {"panel": 2}, {"B": "3"}), "panels of ragged": ((384, 384, 64), 2, {"panel": 4}, {"A": "3"}),
    "blocks of one group": ((128, 512, 128), 4, {"threads": 128, "block": (64, 64, 64)}, {"A": "15"}),
    "both axes": ((256, 128, 64), (2, 2), {}, {"A": "", "B": ""}), "a bias": ((256, 64, 128), (1, 2), {"bias": True}, {"B": "3"}),
    "turns of a row of tiles": ((256, 128, 128), (1, 2), {"causal": True}, {"A": "", "B": ""}),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_what_is_loaded_for_all_blocks(name: str) -> None:
    (m, n, k), cluster, more, shared = CASES[name]
    program = product(m, n, k, cluster, **more)
    if name == "turns of a row of tiles":
        kernel = tileworkbench.compile(program, target="emulate:sm_90a")
        given = arrays(m, n, k)
        assert kernel.sanitize(*given).is_clean
    else:
        kernel = check(program, m, n, k, more.get("tb", False), more.get("bias", False))
    found = {array: mask for array, mask, _ in loads(kernel)}
    assert {array: found[array] for array in shared} == shared
    others = {array for array, mask in found.items() if mask and not shared.get(array)}
    assert others == set(), "a tile that differs between blocks is each block's own"
    assert ("twb_mbarrier_arrive_cluster" in kernel.source) == any(shared.values())


def test_products_in_a_row() -> None:
    """Rows of Q are a block's own, and stay; K and V are the cluster's, in two slots of one loop, for one head after the other."""
    heads, rows, deep = 3, 256, 64

    @T.prim_func
    def chain(
        Q: T.Tensor((heads, rows, deep), "float16"), K: T.Tensor((heads, rows, deep), "float16"), V: T.Tensor((heads, rows, deep), "float16"),
        O: T.Tensor((heads, rows, deep), "float32"),
    ):  # fmt: skip
        with T.Kernel(rows // 128, heads, threads=256, cluster_dims=2) as (bx, head):
            q, k, v = T.alloc_shared((128, deep), "float16"), T.alloc_shared((64, deep), "float16"), T.alloc_shared((64, deep), "float16")
            s, p, o = T.alloc_fragment((128, 64), "float32"), T.alloc_fragment((128, 64), "float16"), T.alloc_fragment((128, deep), "float32")
            T.copy(Q[head, bx * 128, 0], q)
            T.clear(o)
            for step in T.Pipelined(rows // 64, num_stages=2):
                T.copy(K[head, step * 64, 0], k)
                T.gemm(q, k, s, transpose_B=True, clear_accum=True, policy=T.GemmWarpPolicy.FullRow)
                T.copy(V[head, step * 64, 0], v)
                T.copy(s, p)
                T.gemm(p, v, o, policy=T.GemmWarpPolicy.FullRow)
            T.copy(o, O[head, bx * 128, 0])

    kernel = tileworkbench.compile(chain, target="emulate:sm_90a")
    rng = np.random.default_rng(7)
    q, k, v = ((rng.random((heads, rows, deep)) / 8).astype(np.float16) for _ in range(3))
    o = np.zeros((heads, rows, deep), np.float32)
    assert kernel.sanitize(q, k, v, o).is_clean
    kernel(q, k, v, o)
    wide = [x.astype(np.float64) for x in (q, k, v)]
    np.testing.assert_allclose(o, wide[0] @ wide[1].transpose(0, 2, 1) @ wide[2], rtol=2e-3)
    assert {array: mask for array, mask, _ in loads(kernel)} == {"Q": "", "K": "3", "V": "3"}


def test_each_block_loads_another_part() -> None:
    kernel = check(product(512, 128, 128, (1, 2), block=(128, 128, 64)), 512, 128, 128, sanitize=False)
    (where,) = [to for array, mask, to in loads(kernel) if array == "B"]
    assert "(cta & 1) * 4096" in where, "one of the two boxes"
    made, _ = translate_gpu(product(256, 64, 128, (1, 2)).kernel, "sm_90a")
    (box,) = [p.box for p in made.kernels[0].params if getattr(p, "name", "") == "B" and hasattr(p, "box")]
    assert box == (64, 32), "half of the rows of the only one"
    assert made.kernels[0].cluster == (2, 1, 1)


def test_clusters_stay_whole() -> None:
    """The emulated device has four multiprocessors: two clusters, each with three of the grid's."""
    kernel = check(product(384, 128, 64, 2, block=(64, 64, 64), threads=256), 384, 128, 64, sanitize=False)
    assert "twb_blocks_x()" in kernel.source
    assert kernel.source.count("twb_cluster_sync();") == 2


FAULTS = {
    "few arrivals": (r"(empty(?: \+ 1)?), 16\)", r"\1, 8)", "race"),
    "a block that leaves": (r"(?s)twb_cluster_sync\(\);(?!.*twb_cluster_sync)", "", "cluster"),
    "a late start": (r"(?s)twb_cluster_sync\(\);(?=.*twb_cluster_sync)", "twb_sync();", "cluster"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_what_the_sanitizer_would_find(name: str) -> None:
    old, new, kind = FAULTS[name]
    kernel = tileworkbench.compile(product(256, 64, 192, (1, 2)), target="emulate:sm_90a")
    given = arrays(256, 64, 192)
    assert kernel.sanitize(*given).is_clean
    own = kernel.executable
    text, times = re.subn(old, new, own.made.text)
    assert times, "the text has changed: look at this test"
    own.made = replace(own.made, text=text)
    own.__dict__.pop("program", None)
    assert any(re.search(kind, f.kind) for f in kernel.sanitize(*given).findings)


def test_expressions_that_are_alike() -> None:
    launch = product(256, 64, 64, (1, 2)).kernel.launches[0]
    bx, by = launch.block_vars
    alike = Alike(launch)
    assert alike.is_alike(bx) and not alike.is_alike(by)
    assert alike.is_alike(floordiv(by, index(2))) and alike.is_alike(floordiv(by, index(4))) and not alike.is_alike(floordiv(by, index(3)))
    copies = [n for n in walk(launch) if isinstance(n, Copy) and n.src.buffer.name in "AB"]
    assert [all(alike.is_alike(s) for s in c.src.starts) for c in copies] == [False, True]


def test_a_grid_of_tiles_that_clusters_do_not_divide() -> None:
    with pytest.raises(TileError, match=r"its grid has 3 blocks in y, which clusters of \(1, 2, 1\) do not divide"):
        tileworkbench.compile(product(300, 64, 64, (1, 2)), target="emulate:sm_90a")


def test_a_grid_whose_size_is_not_known() -> None:
    """Its blocks stay in the author's order, so that the launch sees whether clusters divide it."""
    rows = T.dynamic("rows")

    @T.prim_func
    def mm(A: T.Tensor((rows, 128), "float16"), B: T.Tensor((128, 64), "float16"), C: T.Tensor((rows, 64), "float32")):
        with T.Kernel(T.ceildiv(rows, 128), threads=256, cluster_dims=2) as bx:
            a, b, acc = T.alloc_shared((128, 64), "float16"), T.alloc_shared((64, 64), "float16"), T.alloc_fragment((128, 64), "float32")
            T.clear(acc)
            for step in T.Pipelined(2, num_stages=2):
                T.copy(A[bx * 128, step * 64], a)
                T.copy(B[step * 64, 0], b)
                T.gemm(a, b, acc)
            T.copy(acc, C[bx * 128, 0])

    kernel = tileworkbench.compile(mm, target="emulate:sm_90a")
    a, b, _, _ = arrays(1500, 64, 128)
    c = np.zeros((1500, 64), np.float32)
    kernel(a, b, c)
    np.testing.assert_allclose(c, a.astype(np.float64) @ b.astype(np.float64), atol=2e-3)
    assert {array: mask for array, mask, _ in loads(kernel)} == {"A": "", "B": "3"} and "twb_blocks_x" not in kernel.source
    with pytest.raises(TileError, match=r"mm: a grid of \(11, 1, 1\) blocks cannot be cut into clusters of \(2, 1, 1\)"):
        kernel(a[:1400], b, c[:1400])


@pytest.mark.skipif(nvrtc.find_nvrtc() is None, reason="NVRTC is not installed")
@pytest.mark.parametrize("tb", [False, True])
def test_nothing_is_spilt_or_serialised(tb: bool) -> None:
    source, _ = translate_gpu(product(4096, 4096, 4096, (1, 2), block=(128, 256, 64), stages=4, tb=tb, panel=8).kernel, "sm_90a")
    made = nvrtc.compile_text(source.text, "sm_90a", source.flags, source.lines)
    (facts,) = read_cubin(made.cubin, made.log)
    assert not made.warnings and not facts.spills and facts.cluster == (2, 1, 1)


@pytest.mark.cuda
@pytest.mark.parametrize("cluster", [(1, 2), (2, 1), (4, 1)], ids=str)
def test_a_gpu_does_the_same(cluster: tuple[int, int]) -> None:
    cupy = pytest.importorskip("cupy")
    if int(cupy.cuda.Device().compute_capability) != 90:
        pytest.skip("needs sm_90")
    m, n, k = 8 * 128 - 24, 8 * 256 - 40, 1000
    kernel = tileworkbench.compile(product(m, n, k, cluster, block=(128, 256, 64), stages=3, panel=4, bias=True), target="cuda")
    given = arrays(m, n, k)
    a, b, v, c = (cupy.asarray(x) for x in given)
    for _ in range(3):
        c.fill(-7)
        kernel(a, b, v, c)
        wanted = given[0].astype(np.float64) @ given[1].astype(np.float64) + given[2]
        np.testing.assert_allclose(cupy.asnumpy(c), wanted, atol=5e-3, rtol=1e-4)
