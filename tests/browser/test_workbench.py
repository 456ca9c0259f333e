"""The workbench in a real JupyterLab: drag a slider, see the ghost move at once and the measured marker follow."""

from __future__ import annotations

from typing import Any

SETUP = """\
%load_ext tileworkbench
import numpy as np, tileworkbench, tileworkbench.language as T
A, B = np.random.rand(256, 256).astype("f4"), np.random.rand(256, 256).astype("f4")
"""
KERNEL = """\
@tileworkbench.jit
def matmul(A, B, block_M=64, block_N=64):
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), "float32")
    B: T.Tensor((K, N), "float32")
    C = T.empty((M, N), "float32")
    assert block_M != 48, "48 rows do not divide the matrix"
    with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M)) as (bx, by):
        a = T.alloc_shared((block_M, 64), "float32")
        b = T.alloc_shared((64, block_N), "float32")
        acc = T.alloc_fragment((block_M, block_N), "float32")
        T.clear(acc)
        for ko in T.Pipelined(T.ceildiv(K, 64), num_stages=2):
            T.copy(A[by * block_M, ko * 64], a)
            T.copy(B[ko * 64, bx * block_N], b)
            T.gemm(a, b, acc)
        T.copy(acc, C[by * block_M, bx * block_N])
    return C
C = matmul(A, B)
"""
TUNE = '%%tile --tune "block_M=32,48,64,128; block_N=32,64,128" --check "A @ B"\n'


def test_a_slider_moves_the_ghost_and_then_the_measured_marker(lab: Any, watched: Any, serious: Any):
    page = watched.page
    lab.open(page, "bench.ipynb", (SETUP, TUNE + KERNEL))
    lab.run_all(page)
    bench = page.locator(".jp-OutputArea-output .twb").last
    rows = bench.get_by_role("slider", name="block_M")
    rows.wait_for(timeout=30_000)
    bench.get_by_text("run 1").first.wait_for(timeout=30_000)
    rows.focus()
    page.keyboard.press("End")
    assert rows.get_attribute("aria-valuetext") == "128"
    bench.locator("svg [data-group=ghost]").first.wait_for(state="attached")
    bench.locator(".twb-status", has_text="run 2").wait_for(timeout=30_000)
    bench.locator("svg [data-group=truth]").first.wait_for(state="attached")
    assert bench.get_by_role("button", name="go to run 2", exact=True).count() == 1
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    assert rows.get_attribute("aria-valuetext") == "32"
    assert "48 rows do not divide" in bench.locator(".twb-why-not").first.inner_text()
    assert serious(page, ".twb") == []
    bench.get_by_role("button", name="put this schedule into the cell").click()
    bench.get_by_text("run it again (undo works there)").wait_for(timeout=10_000)
    assert "def matmul(A, B, block_M=32, block_N=64)" in page.locator(".jp-Cell").nth(1).locator(".cm-content").inner_text()
    assert watched.errors == []
    assert watched.asked == []
