"""`%%tile` for GPUs on a machine without one: compiled and not run, refused with what to do, emulated; and what is left without NVRTC."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tileworkbench.base.errors import TileValueError, UnsupportedError
from tileworkbench.model.placement import layouts_of
from tileworkbench.notebook.applying import layout_applied
from tileworkbench.runtime import toolchain
from tileworkbench.runtime.nvrtc import find_nvrtc
from tileworkbench.runtime.target_emulate import Emulated
from tileworkbench.views.layout_finder import finder_view

needs_nvrtc = pytest.mark.skipif(find_nvrtc() is None, reason="NVRTC is not installed")
needs_compiler = pytest.mark.skipif(toolchain.default_compiler() is None, reason="needs a host C++ compiler")

SETUP = """\
import numpy as np
import tileworkbench as tilelang
import tileworkbench.language as T
A = np.arange(64 * 64, dtype="float32").reshape(64, 64)
"""

TURN = """\
@tilelang.jit
def turn(A, tile=32):
    M, N = T.const("M, N")
    A: T.Tensor((M, N), "float32")
    B = T.empty((N, M), "float32")
    with T.Kernel(M // tile, N // tile, threads=128) as (bx, by):
        t = T.alloc_shared((tile, tile), "float32")
        T.copy(A[bx * tile, by * tile], t)
        for i, j in T.Parallel(tile, tile):
            B[by * tile + i, bx * tile + j] = t[j, i]
    return B

B = turn(A)
"""


@pytest.fixture
def laptop(notebook: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A notebook with the extension loaded, on a machine without a driver."""
    monkeypatch.setenv("TILEWORKBENCH_LIBCUDA", "/nowhere/libcuda.so.1")
    monkeypatch.delenv("TILEWORKBENCH_CUDA_ARCH", raising=False)
    assert notebook.run("%load_ext tileworkbench").success
    assert notebook.run(SETUP).success
    return notebook


GPUS = [("sm_90a", "NVIDIA H200", 16), ("cuda:sm_80", "NVIDIA A100 80GB SXM", 16), ("sm_86", "NVIDIA GeForce RTX 3090", 12)]


@needs_nvrtc
@pytest.mark.parametrize(("target", "machine", "blocks"), GPUS)
def test_compiled_and_not_run(laptop: Any, target: str, machine: str, blocks: int) -> None:
    ran = laptop.run(f"%%tile --target {target} --compile-only --show summary -o\n{TURN}")
    assert ran.success, ran.text
    (kernel,) = ran.value.kernels
    assert kernel.target == "cuda" and kernel.executable.arch == (target.partition(":")[2] or target)
    assert ran.value.report.machine.name.startswith(machine) and ran.value.report.measured is None
    (one,) = kernel.resources.kernels
    assert one.registers == kernel.n_regs == ran.value.report.occupancy.registers
    assert (one.threads, one.shared_bytes, one.spill_bytes, one.occupancy.blocks) == (128, 32 * 32 * 4, 0, blocks)
    text = ran.displays[0]["text/plain"]
    assert "[compiled, not run]" in text.splitlines()[0] and "nothing ran (--compile-only)" in text
    assert f"each launch, by {kernel.resources.by}" in text and kernel.resources.by.startswith("NVRTC ")
    assert "registers" in ran.displays[0]["text/html"] and "compiled, not run" in ran.displays[0]["text/html"]
    assert "was made for target" not in text
    assert isinstance(laptop["B"], np.ndarray) and np.isnan(laptop["B"]).all()  # arrays of the host are good enough to look


def test_refused_with_what_to_do(laptop: Any) -> None:
    ran = laptop.run(f"%%tile --target sm_80\n{TURN}")
    assert isinstance(ran.error, UnsupportedError) and "B" not in laptop
    assert ran.text.strip() == (
        "Cell In[3]:1:17: not supported: nothing can run for target 'sm_80' here: there is no CUDA driver (/nowhere/libcuda.so.1 is not found)\n"
        "      %%tile --target sm_80\n"
        "                      ^^^^^\n"
        "  hint: add --compile-only to compile, see the text and a prediction; or run it on this machine, thread by thread: --target emulate:sm_80"
    )
    assert laptop.run(f"%%tile --target interpret --machine laptop --show none\n{TURN}").success


@pytest.mark.parametrize("target", ["sm_42", "cuda:hopper", "emulate:sm_42"])
def test_an_architecture_that_is_none(laptop: Any, target: str) -> None:
    ran = laptop.run(f"%%tile --target {target} --compile-only\n{TURN}")
    assert isinstance(ran.error, TileValueError) and "there is no GPU architecture" in ran.text
    assert "^" * len(target) in ran.text and "B" not in laptop


def test_without_nvrtc_the_text_is_shown(laptop: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWORKBENCH_NVRTC", "none")
    ran = laptop.run(f"%%tile --target sm_90a --compile-only --show summary,source -o\n{TURN}")
    assert ran.success, ran.text
    (kernel,) = ran.value.kernels
    assert "__global__ void __launch_bounds__(128) turn(" in kernel.source
    assert kernel.resources.kernels == () and "pip install nvidia-cuda-nvrtc" in kernel.resources.why
    panel, source = (shown["text/plain"] for shown in ran.displays)
    assert "NVIDIA H200" in panel and "the CUDA text for sm_90a was not compiled: NVRTC, which compiles for GPUs, is not installed" in panel
    assert "each launch, by" not in panel and "no registers" not in panel  # it is said once
    assert "no SASS: NVRTC, which compiles for GPUs, is not installed" in source
    with pytest.raises(UnsupportedError, match=r"kernel turn was not compiled: NVRTC"):
        kernel.executable.launch(None)


@needs_compiler
def test_emulated(laptop: Any) -> None:
    ran = laptop.run(f"%%tile --target emulate:sm_90a --show summary --check A.T -o\n{TURN}")
    assert ran.success, ran.text
    np.testing.assert_array_equal(laptop["B"], laptop["A"].T)
    assert ran.value.report.machine.name == "NVIDIA H200" and ran.value.report.measured is None
    assert len(ran.value.last.seconds) == 1  # an emulator's time says nothing: it is not run again for it
    text = ran.displays[0]["text/plain"]
    assert "[emulated]" in text.splitlines()[0] and "~" in text and ", measured" not in text
    found = ran.value.kernels[0].resources
    assert str(ran.value.kernels[0].report(args=(laptop["A"],))) == str(ran.value.report)  # the same value without a cell
    assert "each launch, by NVRTC" in text if found.kernels else "no registers, spills and occupancy" in text


@needs_compiler
def test_layouts_and_banks_of_a_cell(laptop: Any) -> None:
    """`--show layout,banks` on an emulated cell: where the tile lies, its accesses as the run made them, and a layout that goes into the cell."""
    ran = laptop.run(f"%%tile --target emulate:sm_90a --show layout,banks -o\n{TURN}")
    assert ran.success, ran.text
    layouts, banks = (shown for shown in ran.displays[-2:])
    assert "shared, float32[32, 32]; exact: row after row; at byte 0" in layouts["text/plain"]
    text = banks["text/plain"]
    assert "8 wavefronts, ideal 1, 7 in excess" in text and "row-major         none" in text
    live = banks["application/vnd.tileworkbench.view+json"]
    assert live["title"] == "turn: banks of its shared tiles, as an emulated run asked of them"
    assert [view["tab"] for view in live["views"]] == ["t: 896 in excess", "t: layouts"]
    assert len(live["views"][1]["buttons"]) == 1
    typed = f"%%tile --target emulate:sm_90a --show layout,banks -o\n{TURN}"
    view = finder_view(ran.value.kernels[0].accesses(laptop["A"]).tile("t").find())
    applied = layout_applied(view, "padded by 1", laptop.shell)
    assert applied["before"].strip() == typed.strip() and not applied["say"]
    again = applied["text"]
    shown = laptop.run(again).displays[-1]["text/plain"]
    assert "on as compiled: 1 wavefront, ideal 1, 0 in excess" in shown


def test_layouts_without_nvrtc_or_a_run(laptop: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A text that nothing compiled still says where its tiles lie; another machine's layouts are the model's, and say so."""
    monkeypatch.setenv("TILEWORKBENCH_NVRTC", "none")
    ran = laptop.run(f"%%tile --target sm_90a --compile-only --show layout,banks -o\n{TURN}")
    assert ran.success, ran.text
    assert {b.source for b in layouts_of(ran.value.kernels[0])} == {"exact"}
    assert "as the model expects" in ran.displays[-1]["application/vnd.tileworkbench.view+json"]["title"]
    ran = laptop.run(f"%%tile --target sm_90a --compile-only --machine a100 --show layout\n{TURN}")
    assert ran.displays[-1]["application/vnd.tileworkbench.view+json"]["views"][0]["tab"] == "t (shared, modelled)"


@needs_compiler
def test_a_waterfall_of_an_emulated_run_knows_its_conflicts(laptop: Any) -> None:
    """Where nobody looks at the waterfall the call is not counted."""
    ran = laptop.run(f"%%tile --target emulate:sm_90a --show waterfall -o\n{TURN}")
    report, counted = ran.value.report, ran.value.last.kernel.count(*ran.value.last.call.inputs())
    excess = counted.total.shared_load_wavefronts - counted.total.shared_load_ideal
    assert excess > 0 and report.excess.wavefronts == excess
    plain = laptop.run(f"%%tile --target emulate:sm_90a --show summary -o\n{TURN}")
    assert plain.value.report.excess is None


@needs_compiler
def test_one_more_run_of_an_emulated_cell_serves_all_its_views(laptop: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """And each shows what it would have shown alone: a run that is written down counts as others do."""
    runs: list[dict[str, Any]] = []
    plain = Emulated.run

    def told(self: Emulated, call: Any, **how: Any) -> Any:
        runs.append(how)
        return plain(self, call, **how)

    monkeypatch.setattr(Emulated, "run", told)
    ran = laptop.run(f"%%tile --target emulate:sm_90a --show waterfall,pipeline,banks -o\n{TURN}")
    assert ran.success, ran.text
    assert [(how.get("count"), how.get("requests"), how.get("record")) for how in runs] == [(None, None, None), (True, True, 0)]
    seen, kernel = ran.value.emulation, ran.value.last.kernel
    assert seen.counts.by_line == kernel.count(laptop["A"]).by_line and seen.accesses == kernel.accesses(laptop["A"])
    assert seen.timeline.events == kernel.timeline(laptop["A"]).events and ran.value.report.excess.wavefronts == 896
