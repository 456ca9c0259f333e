"""Where buffers lie: the C target's answers against the text that it emits, the GPU's against fragment tables."""

from __future__ import annotations

import itertools
import re

import numpy as np
import pytest

from tileworkbench.base.cpu import AVX2, AVX512
from tileworkbench.base.machine import find_machine
from tileworkbench.codegen.gemm_plan import plan_gemm
from tileworkbench.codegen.openmp import emit
from tileworkbench.ir.lowered import GemmCall
from tileworkbench.ir.node import walk
from tileworkbench.kernels import attention, gemm
from tileworkbench.layout import TileLayout, linear
from tileworkbench.model.placement import BufferLayout, LayoutProvider, accesses_of, isa_of, l1_of, layout_of, layouts_of, scratch_map
from tileworkbench.transform.lowering import lower


def product(dtype: str = "float32", m: int = 64, n: int = 96, k: int = 64) -> object:
    return gemm.program(256, 384, 256, m, n, k, 1, dtype, "float32", False)


def attend() -> object:
    return attention.program(1, 2, 256, 64, True, 64, 64, "float16")


@pytest.mark.parametrize("program", [product(), product("float16"), attend()], ids=["gemm", "gemm16", "attention"])
def test_tiles_lie_where_the_text_puts_them(program: object) -> None:
    text = emit(lower(program.kernel)).text  # type: ignore[attr-defined]
    said = {name: int(offset) for name, offset in re.findall(r"(\w+) = \([^)]*\)\(scratch \+ (\d+)\); /\*", text)}
    found = {b.buffer: b for b in layouts_of(program, isa=AVX512) if b.role == "tile"}
    assert {name: b.layout.base for name, b in found.items()} == said and "acc" in said or len(said) >= 3
    for b in found.values():
        assert b.source == "exact" and b.layout.is_one_to_one()
        assert b.layout.addresses()[0, 0] == b.layout.base
        assert b.span is not None


def test_no_two_tiles_share_a_byte() -> None:
    tiles = sorted((b.layout for b in layouts_of(attend(), isa=AVX512) if b.role == "tile"), key=lambda t: t.base)
    assert all(a.base + a.bytes <= b.base for a, b in itertools.pairwise(tiles))


def test_packed_operands_lie_behind_the_tiles_as_the_text_says() -> None:
    """attention's first product converts q and turns k: pa and pb of its scratch."""
    program = attend()
    source = emit(lower(program.kernel))  # type: ignore[attr-defined]
    area = int(re.search(r"^ *twb_gemm_\w+\(.*scratch \+ (\d+)\);$", source.text, re.MULTILINE)[1])  # type: ignore[index]
    inside = {name: int(at) for name, at in re.findall(r"(pa|pb) = \(float \*\)\(scratch \+ (\d+)\);", source.text)}
    host = {b.buffer: b.layout for b in layouts_of(program)}
    assert host["q packed"].base == area + inside["pa"]
    assert host["K packed"].base == area + inside["pb"]


@pytest.mark.parametrize("isa", [AVX512, AVX2], ids=lambda i: i.name)
@pytest.mark.parametrize(("m", "n", "k"), [(64, 96, 64), (32, 80, 768), (48, 64, 128)])
def test_packed_strips_follow_the_plan(isa: object, m: int, n: int, k: int) -> None:
    """b as [k][columns of the strip]: neighbours in a row are neighbours in memory, strips follow one another or reuse the same bytes."""
    program = product("float16", m, n, k)
    found = {b.buffer: b for b in layouts_of(program, isa=isa)}["B packed"]  # type: ignore[arg-type]
    plan = plan_gemm(_spec(program, isa))
    place, strip = found.layout.addresses() - found.layout.base, found.layout.slots()
    first = 0
    for number, size in enumerate(r.size for r in plan.strips for _ in range(r.count)):
        width = size * plan.lanes
        columns = range(first, min(first + width, n))
        assert (strip[:, columns] == number).all()
        start = first * plan.k_block if plan.whole_b else 0
        assert place[0, columns].tolist() == [4 * (start + i) for i in range(len(columns))]
        for row in range(min(k, 2 * plan.k_block)):
            assert place[row, first] == 4 * (start + width * (row % plan.k_block))
        first += width
    assert found.layout.owners()[0].tolist() == [c % plan.lanes for c in range(n)]


def _spec(program: object, isa: object) -> object:
    from tileworkbench.codegen.gemm_plan import GemmSpec

    call = next(c for c in walk(lower(program.kernel)) if isinstance(c, GemmCall))  # type: ignore[attr-defined]
    kinds = (call.a.buffer.dtype, call.b.buffer.dtype, call.c.buffer.dtype)
    return GemmSpec(call.m, call.n, call.k, *kinds, call.lda, call.ldb, call.ldc, call.trans_a, call.trans_b, isa, True, True)  # type: ignore[arg-type]


@pytest.mark.parametrize("isa", [AVX512, AVX2], ids=lambda i: i.name)
def test_accumulators_fit_the_registers(isa: object) -> None:
    found = {b.buffer: b.layout for b in layouts_of(product(), isa=isa)}["acc in vectors"]  # type: ignore[arg-type]
    lanes = isa.vector_bytes // 4  # type: ignore[attr-defined]
    assert found.holders == lanes and int(found.slots().max()) < isa.registers  # type: ignore[attr-defined]
    plan = plan_gemm(_spec(product(), isa))
    panel, strip = plan.panels[0].size, plan.strips[0].size
    assert len(np.unique(found.slots()[:panel, : strip * lanes])) == panel * strip
    corner = np.stack([found.slots()[:panel, : strip * lanes], found.owners()[:panel, : strip * lanes]], axis=2).reshape(-1, 2)
    assert len(np.unique(corner, axis=0)) == panel * strip * lanes, "within a panel and strip no two cells share a lane of a register"


def test_lanes_are_those_of_the_machine() -> None:
    for isa, lanes in ((AVX512, 16), (AVX2, 8)):
        tile = layout_of(product(), "acc", isa=isa).layout
        assert tile.holders == lanes and tile.owners()[3].tolist() == [c % lanes for c in range(96)]
    assert isa_of(find_machine("reference")) == AVX512
    assert layout_of(product(), "acc", find_machine("reference")).layout.holders == 16


def test_the_map_of_scratch_holds_every_tile() -> None:
    found = scratch_map(attend(), isa=AVX512)
    names = [part.split(" ", 1)[1] for part in found.why.split(", ")]
    owners = found.layout.owners().ravel()
    for b in layouts_of(attend(), isa=AVX512):
        if b.role == "tile":
            lines = range(b.layout.base // 64, (b.layout.base + b.layout.bytes) // 64)
            assert {names[owners[i]] for i in lines} == {b.buffer}
    assert found.layout.columns == 64 and found.layout.at(1, 3)["address"] == 4096 + 192


def test_sets_of_the_reference_machine() -> None:
    l1 = l1_of(find_machine("reference"))
    assert (l1.sets, l1.ways, l1.line_bytes) == (64, 12, 64)
    tile = layout_of(product(), "acc", find_machine("reference")).layout
    assert l1.set_of(tile.addresses())[1, 0] == (tile.base + 384) // 64 % 64


def test_symbolic_arguments_need_their_dims() -> None:
    import tileworkbench.language as T

    n = T.dynamic("n")

    @T.prim_func
    def copy(A: T.Tensor((n, 64), "float32"), B: T.Tensor((n, 64), "float32")):
        with T.Kernel(T.ceildiv(n, 32)) as bx:
            t = T.alloc_shared((32, 64), "float32")
            T.copy(A[bx * 32, 0], t)
            T.copy(t, B[bx * 32, 0])

    assert [b.buffer for b in layouts_of(copy)] == ["t"]
    assert [(b.buffer, b.layout.rows) for b in layouts_of(copy, dims={"n": 96})] == [("A", 96), ("B", 96), ("t", 32)]


# ---------------------------------------------------------------------------------------------- GPUs
def test_operands_are_swizzled_on_a_gpu() -> None:
    found = {b.buffer: b for b in layouts_of(product("float16", 128, 128, 64), find_machine("h200"))}
    assert [found[n].layout.at(1, 0)["address"] - found[n].layout.base for n in ("A_tile", "B_tile")] == [128 + 16, 128 + 16]
    assert found["A_tile"].source == "modelled" and "128-byte swizzle" in found["A_tile"].why
    assert found["A_tile"].layout.base % 1024 == found["B_tile"].layout.base % 1024 == 0


@pytest.mark.parametrize("machine", ["h200", "a100"])
def test_accumulators_follow_the_instruction(machine: str) -> None:
    """Row 16w + 8h + g, column 8j + 2t + e: warp w, lane 4g + t, register 4j + 2h + e, for both kinds of instruction."""
    acc = layout_of(product("float16", 64, 96, 64), "acc", find_machine(machine)).layout
    assert acc.rows == 64 and acc.holders == 128 and acc.is_one_to_one()
    for w, g, t, j, h, e in itertools.product(range(4), range(8), range(4), range(12), (0, 1), (0, 1)):
        assert acc.at(16 * w + 8 * h + g, 8 * j + 2 * t + e) == {"thread": 32 * w + 4 * g + t, "register": 4 * j + 2 * h + e}
    assert ("wgmma" if machine == "h200" else "mma.sync") in layout_of(product("float16", 64, 96, 64), "acc", find_machine(machine)).why


def test_a_fragment_without_a_product_is_dealt_out() -> None:
    found = {b.buffer: b for b in layouts_of(attend(), find_machine("h200"))}
    assert found["p"].layout.holders == 128 and "row by row" in found["p"].why and found["p"].layout.place is None
    assert found["p"].layout.is_one_to_one() and found["top"].layout.holders == 16


class Target:
    """A compiled kernel that knows its own layouts."""

    def layouts(self) -> tuple[BufferLayout, ...]:
        return (BufferLayout("x", "shared", "float32", (4, 4), TileLayout("x", 4, 4, 32, linear(4, 4, bits=32).place), "measured", "by hand"),)


def test_a_target_is_asked_before_the_model() -> None:
    assert isinstance(Target(), LayoutProvider)
    assert [b.source for b in layouts_of(Target(), find_machine("h200"))] == ["measured"]
    assert [a.name for a in accesses_of(product("float16"), "A_tile")] == ["T.copy writes", "T.gemm reads a"]
    with pytest.raises(KeyError, match="no buffer is called 'y'; there are x"):
        layout_of(Target(), "y")
