"""Layouts of kernels compiled for a GPU, against the formulas that the text is made of and against published fragments; no GPU is needed."""

from __future__ import annotations

import numpy as np
import pytest

import tileworkbench as tw
import tileworkbench.language as T
from tileworkbench.analysis.tile_forms import form_offset
from tileworkbench.base.machine import find_machine
from tileworkbench.ir.build import index
from tileworkbench.ir.expr import Const
from tileworkbench.kernels import attention
from tileworkbench.kernels.gemm import program
from tileworkbench.layout.atoms import atom
from tileworkbench.layout.fragments import flat, mma_a, wgmma_c
from tileworkbench.model.placement import BufferLayout, LayoutProvider, layout_of, layouts_of
from tileworkbench.model.placement_cuda import fragment_layout
from tileworkbench.runtime.kernel import JITKernel
from tileworkbench.runtime.nvrtc import find_nvrtc
from tileworkbench.runtime.options import Options
from tileworkbench.runtime.target_cuda import TARGET as CUDA


def gemm(arch: str) -> JITKernel:
    return tw.compile(program(256, 256, 256, 128, 128, 64, 3, "float16", "float16", False), target=f"emulate:{arch}")


def on_chip(kernel: JITKernel) -> dict[str, BufferLayout]:
    return {b.buffer: b for b in layouts_of(kernel) if b.role != "argument"}


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_shared_tiles_lie_as_the_text_counts(arch: str) -> None:
    """Every cell of both operands, stage by stage, where `form_offset` (the text's own formula) puts it, at the offset of the text."""
    kernel = gemm(arch)
    found = on_chip(kernel)
    launch = next(r for r in kernel.passes if r.name == "place_threads").before.launches[0]
    for name in ("A_tile", "B_tile"):
        b, form = found[name], next(f for f in launch.forms if f.buffer.name.startswith(name))
        assert (b.role, b.source, b.stages, b.stage_bytes) == ("shared", "exact", 3, 16384)
        for stage in range(3):
            for row, column in ((0, 0), (1, 8), (7, 63), (9, 40), (b.layout.rows - 1, b.layout.columns - 1)):
                offset = form_offset(form, (index(stage), index(row), index(column)))
                assert isinstance(offset, Const)
                assert b.layout.at(row, column)["address"] + stage * b.stage_bytes == b.layout.base + 2 * int(offset.value)
    assert (found["A_tile"].layout.base, found["B_tile"].layout.base) == (0, 49152)
    assert found["A_tile"].units == (("tensor map", "wgmma") if arch == "sm_90a" else ("cp.async", "ldmatrix"))
    assert ("C_stage" in found) == (arch == "sm_90a"), "what the compiler made is named, too"
    ends = [b.layout.base + (b.stage_bytes * b.stages or b.layout.bytes) for b in found.values() if b.layout.place is not None]
    assert max(ends) <= kernel.executable.made.kernels[0].shared_bytes


@pytest.mark.parametrize(("arch", "name"), [("sm_80", "SM80_16x8x16_F32F16F16F32_TN"), ("sm_90a", "SM90_64x128x16_F32F16F16_SS")])
def test_accumulators_lie_as_the_instruction_says(arch: str, name: str) -> None:
    """The first instruction's cells: threads of its warp or group, registers in its order, against the atoms of `tensor_layouts`."""
    acc, published = on_chip(gemm(arch))["acc"], atom(name)["C"]
    rows, columns = np.arange(published.rows)[:, None], np.arange(published.columns)[None, :]
    assert np.array_equal(acc.layout.owners(rows, columns), published.owners())
    assert np.array_equal(acc.layout.slots(rows, columns), published.slots())
    assert acc.layout.holders == 128 and acc.layout.is_one_to_one()
    assert ("wgmma m64n128k16" if arch == "sm_90a" else "mma.sync m16n8k16: 2 x 2 warps") in acc.why


def test_all_fragments_of_attention() -> None:
    kernel = tw.compile(attention.program(1, 1, 128, 64, True, 64, 64, "float16", stages=2), target="emulate:sm_90a")
    found = on_chip(kernel)
    authors = [b.name for b in kernel.ir.launches[0].allocs]
    assert list(found)[: len(authors)] == authors, "every tile of the author's, in the order of allocation"
    assert found["p"].why == "left operand of wgmma m64n64k16: 1 warp group, from registers"
    top = found["top"].layout
    assert top.owners().tolist()[0][:20] == [*range(0, 32, 4), *range(0, 32, 4), *range(32, 48, 4)], "each row's first lane of four"
    assert top.slots().tolist()[0][:16] == [0] * 8 + [1] * 8
    assert "4 threads hold each cell" in found["top"].why
    assert found["k_full"].role == "barriers" and found["O_stage"].role == "scratch" and found["k"].stages == 2


def test_what_registers_cannot_hold_says_why() -> None:
    @T.prim_func
    def across(A: T.Tensor((64, 64), "float32"), B: T.Tensor((64, 64), "float32")):
        with T.Kernel(1, threads=64):
            x = T.alloc_fragment((64, 64), "float32")
            y = T.alloc_fragment((64, 64), "float32")
            T.copy(A, x)
            for i, j in T.Parallel(64, 64):
                y[i, j] = x[j, i]
            T.copy(y, B)

    found = on_chip(tw.compile(across, target="emulate:sm_80"))
    assert found["x"].role == "fragment" and found["x"].layout.place is not None
    assert "in shared memory, since a thread would need another thread's cell" in found["x"].why
    assert found["y"].layout.place is None and "dealt to the threads row by row, 4 neighbours at a time" in found["y"].why


def test_roles_have_threads_of_their_own() -> None:
    fragment = wgmma_c(1, 64, 16)
    shifted = fragment_layout(fragment, 32, first_thread=128)
    assert np.array_equal(shifted.owners(), fragment_layout(fragment, 32).owners() + 128)
    partly = fragment_layout(flat((3,), threads=8), 32)
    assert partly.owners().tolist() == [[0, 1, 2]] and fragment_layout(mma_a(2, 2, 32, 16), 16).holders == 64


def test_the_model_stays_where_nothing_was_compiled() -> None:
    """Exact for the architecture that it was compiled for, modelled for another, the C target's for a CPU."""
    kernel = gemm("sm_90a")
    assert isinstance(kernel.executable, LayoutProvider) and not isinstance(kernel, LayoutProvider)
    assert {b.source for b in layouts_of(kernel, find_machine("h200"))} == {"exact"}
    assert {b.source for b in layouts_of(kernel, find_machine("a100"))} == {"modelled"}
    assert {b.source for b in layouts_of(kernel.ir, find_machine("h200"))} == {"modelled"}
    assert layout_of(kernel, "acc", find_machine("reference")).role == "tile"


@pytest.mark.skipif(find_nvrtc() is None, reason="NVRTC is not installed")
def test_machine_code_has_the_same_layouts() -> None:
    """What NVRTC compiled, with no GPU there, and what runs in the emulator are one text."""
    kernel = gemm("sm_90a")
    assert CUDA.compile(kernel.ir, Options(arch="sm_90a")).layouts() == kernel.executable.layouts()
