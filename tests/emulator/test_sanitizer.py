"""Every kind of fault, planted: it is found at its line, and its clean twin is not blamed.

In the programs, text between `<<` and `>>` stands in the clean twin only, text between `[[` and `]]` in the faulty one only.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
import pytest

from tileworkbench.emulator import Program, RunResult, TensorMap
from tileworkbench.emulator.findings import HINTS
from tileworkbench.runtime import emulating

K = 'extern "C" __global__ void __launch_bounds__(256) k'


@dataclass(frozen=True)
class Plant:
    kind: str
    text: str
    line: int
    says: str
    other: int | None = None
    block: int = 128
    args: Any = field(default=lambda: [np.zeros(128, np.float32)])
    shared: int = 4096
    fresh: tuple[int, ...] = ()
    cluster: int = 1
    name: str = ""

    def __str__(self) -> str:
        return self.name or self.kind


MEMORY = "TWB_SHARED_MEMORY(memory); int i = twb_thread_x(); twb_shared<float> s = twb_tile<float>(memory, 0, 128);\n"
BAR = "twb_shared<uint64_t> bar = twb_tile<uint64_t>(memory, 2048, 1);\n"
SOURCE = np.arange(64 * 16, dtype=np.float32).reshape(64, 16)


def a_map(**how: Any) -> TensorMap:
    return TensorMap(SOURCE, (16, 8), **how)


def broken_map() -> TensorMap:
    return TensorMap(SOURCE, (16, 8), dims=(16, 65), strides=(64,))


WG = """twb_shared<uint8_t> t = twb_tile<uint8_t>(memory, 0, 3072);
    for (int j = i; j < 768; j += 128) twb_cast<uint32_t>(t)[j] = 0;
    twb_fence_proxy_async(); twb_sync();
    float d[4] = {0, 0, 0, 0};
"""
PRODUCT = "twb_wgmma_m64n8k16_f32_bf16_bf16<0, 0>(d, twb_descriptor(twb_shared_address(t), 16, 256, 32), twb_descriptor(twb_shared_address(t), 16, 256, 32), 0);"

PLANTS = (
    Plant("out of bounds", K + "(twb_global<float> a) { int i = twb_thread_x(); /* f.py:7: a[i] = 1 */ a[i [[+ 1]]] = 1; }", 7, "writes 4 bytes at byte 512 of an array of 512 bytes", name="global write"),
    Plant("out of bounds", K + "(twb_global<float> a) { int i = twb_thread_x(); /* f.py:7 */ a[i] = a[i [[- 1]]]; }", 7, "reads 4 bytes at byte -4", name="global read"),
    Plant("out of bounds", K + "(twb_global<float> a) {" + MEMORY + "/* f.py:9 */ s[i [[+ 1]]] = 0; }", 9, "byte 512 of a shared tile of 512 bytes", name="shared tile"),
    Plant("out of bounds", K + "(twb_global<float> a) {" + MEMORY + "uint32_t r[4]; for (int j = 0; j < 4; ++j) s[i + 32 * j] = 0; twb_sync_warp(); /* f.py:9 */ twb_ldmatrix_x4(r, twb_cast<uint16_t>(s + <<4 * twb_lane()>>[[8 * twb_lane()]])); }", 9, "matrix row at byte 512", block=32, shared=512,
          name="matrix rows", args=lambda: [np.zeros(128, np.float32)]),
    Plant("uninitialised", K + "(twb_global<float> a) {" + MEMORY + "<<s[i] = 1;>> [[if (i) s[i] = 1;]] /* f.py:9 */ a[i] = s[i]; }", 9, "byte 0 of shared memory where nothing was written", name="shared, never written"),
    Plant("uninitialised", K + "(twb_global<float> a) { int i = twb_thread_x(); <<a[i] = 0;>> /* f.py:9 */ a[i] += 1; }", 9, "of an array where nothing was written", fresh=(0,), name="global, never written"),
    Plant("uninitialised", K + "(twb_global<float> a) {" + MEMORY + "twb_cp_async<4>(s + i, a + i); twb_cp_async_commit(); <<twb_cp_async_wait<0>();>> /* f.py:9 */ a[i] = s[i]; }", 9, "where nothing was written", name="cp.async without a wait"),
    Plant("uninitialised", K + "(twb_global<float> a) {" + MEMORY + BAR + "if (i == 0) twb_mbarrier_init(bar, 128); twb_sync(); twb_cp_async<4>(s + i, a + i); twb_cp_async_arrive(bar); <<twb_mbarrier_wait(bar, 0);>> [[twb_sync();]] /* f.py:9 */ a[i] = s[127 - i]; [[twb_mbarrier_wait(bar, 0);]] }", 9,
          "where nothing was written", name="cp.async that arrives"),
    Plant("race", K + "(twb_global<float> a) {" + MEMORY + BAR + "if (i == 0) twb_mbarrier_init(bar, 128); s[i] = 0; twb_sync(); /* f.py:4 */ twb_cp_async<4>(s + i, a + i); twb_cp_async_arrive(bar); <<twb_mbarrier_wait(bar, 0);>> [[twb_sync();]] /* f.py:9 */ a[i] = s[127 - i]; [[twb_mbarrier_wait(bar, 0);]] }", 4,
          "that thread", other=9, name="cp.async over what is read"),
    Plant("misaligned", K + "(twb_global<float> a) { int i = twb_thread_x(); if (i < 8) { /* f.py:7 */ twb_store<4>(a + 4 * i [[+ 2]], twb_vec<float, 4>{}); } }", 7, "16 bytes at address 8, which is not a multiple of 16", name="global vector"),
    Plant("misaligned", K + "(twb_global<float> a) {" + MEMORY + "if (i < 8) { /* f.py:7 */ twb_store<2>(s + 2 * i [[+ 1]], twb_vec<float, 2>{}); } }", 7, "8 bytes at shared address 4", name="shared vector"),
    Plant("race", K + "(twb_global<float> a) {" + MEMORY + "/* f.py:5 */ s[i] = i; <<twb_sync();>> /* f.py:6 */ a[i] = s[127 - i]; }", 5, "that thread", other=6, name="no barrier"),
    Plant("race", K + "(twb_global<float> a) {" + MEMORY + "s[i] = i; twb_sync(); /* f.py:6 */ a[i] = s[127 - i]; <<twb_sync();>> /* f.py:8 */ s[i] = 1; }", 8, "writes shared memory", other=6, name="overwritten too early"),
    Plant("race", K + "(twb_global<float> a) {" + MEMORY + "/* f.py:5 */ s[i] = i; <<twb_sync_warp();>> /* f.py:6 */ a[i] = s[i ^ 1]; }", 5, "that thread", other=6, name="inside a warp"),
    Plant("race", K + "(twb_global<float> a) {" + MEMORY + "if (twb_warp() == 0) { /* f.py:5 */ s[i] = i; <<twb_bar_arrive(2, 64);>> twb_sync_warp(); } else if (twb_warp() == 1) { <<twb_bar_sync(2, 64);>> twb_sync_warp(); /* f.py:6 */ a[i] = s[i - 32]; } }", 6, "that thread", other=5,
          name="named barrier"),
    Plant("divergent", K + "(twb_global<float> a) { int i = twb_thread_x(); [[if (i < 100)]] { /* f.py:5 */ twb_sync(); } }", 5, "lanes 4-31 ended", name="barrier in a branch"),
    Plant("divergent", K + "(twb_global<float> a) { int i = twb_thread_x(); if (i % 2) { /* f.py:5 */ twb_sync_warp(<<0xaaaaaaaau>>); } else { /* f.py:6 */ a[i] = twb_shfl_xor(1.0f, 2, 32, <<0x55555555u>>[[0xffffffffu]]); } }", 6, "lanes of mask 55555555 wait at shuffle at f.py:6", name="two collectives"),
    Plant("divergent", K + "(twb_global<float> a) { int i = twb_thread_x(); if (i < [[16]]<<128>>) { /* f.py:5 */ a[i] = twb_shfl_xor(1.0f, 1); } }", 5, "lanes 16-31 ended", name="half a warp"),
    Plant("divergent", K + "(twb_global<float> a) { int i = twb_thread_x(); /* f.py:5 */ if (i < 64) { /* f.py:6 */ <<twb_bar_sync(1, 64);>> [[twb_sync();]] } else { /* f.py:7 */ <<twb_bar_sync(2, 64);>>[[twb_sync();]] } }", 7, "another one", other=6, name="two barriers"),
    Plant("divergent", K + "(twb_global<float> a) {" + MEMORY + WG + "if (<<true>>[[twb_warp() < 3]]) { twb_wgmma_fence(); " + PRODUCT + "twb_wgmma_commit(); /* f.py:5 */ twb_wgmma_wait<0>(); } }", 5, "of its warp group", name="three warps of wgmma"),
    Plant("divergent", K + "(twb_global<float> a) { int i = twb_thread_x(); /* f.py:5 */ if (i < 16) a[i] = twb_shfl(1.0f, 0, 32, <<0xffffu>>[[0xffff0000u]]); }", 5, "leaves it out", name="not in its own mask"),
    Plant("deadlock", K + "(twb_global<float> a) {" + MEMORY + BAR + "if (i == 0) twb_mbarrier_init(bar, <<1>>[[2]]); twb_sync(); if (i == 0) twb_mbarrier_arrive(bar); /* f.py:5 */ twb_mbarrier_wait(bar, 0); }", 5, "for parity 0 (phase 0 has parity 0, 1 of 2 arrivals missing, 0 bytes missing)",
          name="arrivals"),
    Plant("deadlock", K + "(twb_global<float> a) {" + MEMORY + BAR + "if (i == 0) twb_mbarrier_init(bar, 1); twb_sync(); if (i == 0) twb_mbarrier_arrive(bar); twb_mbarrier_wait(bar, 0); /* f.py:5 */ twb_mbarrier_wait(bar, <<0>>[[1]]); }", 5, "for parity 1 (phase 1 has parity 1", name="parity"),
    Plant("deadlock", K + "(twb_global<float> a) {" + MEMORY + BAR + "if (i == 0) { twb_mbarrier_init(bar, 1); twb_mbarrier_arrive_expect(bar, <<512>>[[528]]); twb_bulk_load(s, a, 512, bar); } twb_sync(); /* f.py:5 */ while (!twb_mbarrier_try_wait(bar, 0)) {} }", 5, "16 bytes missing", name="bytes"),
    Plant("deadlock", K + "(twb_global<float> a) { if (twb_warp() < 2) { /* f.py:5 */ twb_bar_sync(3, <<64>>[[96]]); } }", 5, "all lanes wait at barrier 3 (64 of 96 threads came) at f.py:5", name="barrier count"),
    Plant("descriptor", K + "(twb_global<float> a) {" + MEMORY + WG + "twb_wgmma_fence(); /* f.py:5 */ " + PRODUCT.replace("address(t)", "address(t [[+ 32]])") + "twb_wgmma_commit(); twb_wgmma_wait<0>(); }", 5, "must start at a multiple of 256", name="matrix not aligned"),
    Plant("descriptor", K + "(twb_global<float> a) {" + MEMORY + WG + "twb_wgmma_fence(); /* f.py:5 */ " + PRODUCT.replace("256, 32), twb", "<<256>>[[2048]], 32), twb") + "twb_wgmma_commit(); twb_wgmma_wait<0>(); }", 5, "of 4096 bytes of shared memory", name="matrix too large"),
    Plant("descriptor", K + "(const __grid_constant__ twb_tensor_map m) {" + MEMORY + BAR + "if (i == 0) { twb_mbarrier_init(bar, 1); twb_mbarrier_arrive_expect(bar, 512); /* f.py:4 */ twb_tma_load_2d(s, &m, bar, 0, 0); } twb_sync(); twb_mbarrier_wait(bar, 0); float d[4]; twb_shared<float> t = s;"
          "twb_wgmma_fence(); /* f.py:5 */ twb_wgmma_m64n8k8_f32_tf32_tf32(d, twb_descriptor(twb_shared_address(s), 16, 0, <<64>>[[32]]), twb_descriptor(twb_shared_address(s), 16, 0, <<64>>[[32]]), 0); twb_wgmma_commit(); twb_wgmma_wait<0>(); }", 5, "swizzle 1 that a tensor map wrote with swizzle 2",
          other=4, args=lambda: [a_map(swizzle=64)], name="two swizzles"),
    Plant("tensor map", K + "(const __grid_constant__ twb_tensor_map good, const __grid_constant__ twb_tensor_map bad) {" + MEMORY + BAR + "if (i == 0) { twb_mbarrier_init(bar, 1); twb_mbarrier_arrive_expect(bar, 512); /* f.py:4 */ twb_tma_load_2d(s, &<<good>>[[bad]], bar, 0, 0); twb_mbarrier_wait(bar, 0); } }", 4,
          "describes more than its array", args=lambda: [a_map(), broken_map()], name="map larger than its array"),
    Plant("tensor map", K + "(const __grid_constant__ twb_tensor_map m) {" + MEMORY + BAR + "if (i == 0) { twb_mbarrier_init(bar, 1); twb_mbarrier_arrive_expect(bar, 512); /* f.py:4 */ twb_tma_load_2d(s [[+ 4]], &m, bar, 0, 0); twb_mbarrier_wait(bar, 0); } }", 4, "not a multiple of 128", args=lambda: [a_map()],
          name="shared address of a box"),
    Plant("tensor map", K + "(const __grid_constant__ twb_tensor_map m) {" + MEMORY + BAR + "if (i == 0) { twb_mbarrier_init(bar, 1); twb_mbarrier_arrive_expect(bar, 512); /* f.py:4 */ <<twb_tma_load_2d(s, &m, bar, 0, 0);>> [[twb_tma_load_3d(s, &m, bar, 0, 0, 0);]] twb_mbarrier_wait(bar, 0); } }", 4, "3 dimensions",
          args=lambda: [a_map()], name="dimensions"),
    Plant("tensor map", K + "(const __grid_constant__ twb_tensor_map m) {" + MEMORY + "s[i] = 1; twb_fence_proxy_async(); twb_sync(); if (i == 0) { /* f.py:4 */ twb_tma_store_2d(&m, s, 0, <<1>>[[-1]]); twb_bulk_commit(); twb_bulk_wait<0>(); } }", 4,
          "begins at -1 of dimension 1", args=lambda: [a_map()], name="a store before the tensor"),
    Plant("out of bounds", K + "(const __grid_constant__ twb_tensor_map m) {" + MEMORY + BAR + "twb_shared<float> u = twb_tile<float>(memory, 1024, <<128>>[[64]]); if (i == 0) { twb_mbarrier_init(bar, 1); twb_mbarrier_arrive_expect(bar, 512); /* f.py:4 */ twb_tma_load_2d(u, &m, bar, 0, 0); twb_mbarrier_wait(bar, 0); } }", 4,
          "a shared tile that ends at 1280", args=lambda: [a_map()], name="box larger than its tile"),
    Plant("proxy fence", K + "(twb_global<float> a) {" + MEMORY + "/* f.py:5 */ s[i] = i; <<twb_fence_proxy_async();>> twb_sync(); if (i == 0) { /* f.py:6 */ twb_bulk_store(a, s, 512); twb_bulk_commit(); twb_bulk_wait<0>(); } }", 6, "made no proxy fence since", other=5, name="proxy fence"),
    Plant("race", K + "(twb_global<float> a) {" + MEMORY + "s[i] = i; twb_fence_proxy_async(); twb_sync(); if (i == 0) { /* f.py:6 */ twb_bulk_store(a, s, 512); twb_bulk_commit(); <<twb_bulk_wait_read<0>();>> /* f.py:7 */ s[0] = 5; twb_bulk_wait<0>(); } }", 6, "thread 0", other=7, name="overwritten under a bulk store"),
    Plant("never waited", K + "(twb_global<float> a) {" + MEMORY + "s[i] = i; twb_fence_proxy_async(); twb_sync(); if (i == 0) { /* f.py:6 */ twb_bulk_store(a, s, 512); twb_bulk_commit(); <<twb_bulk_wait<0>();>> } }", 6, "may still read shared memory", name="bulk store"),
    Plant("never waited", K + "(twb_global<float> a) {" + MEMORY + BAR + "if (i == 0) { twb_mbarrier_init(bar, 1); twb_mbarrier_arrive_expect(bar, 512); /* f.py:6 */ twb_bulk_load(s, a, 512, bar); <<twb_mbarrier_wait(bar, 0);>> } }", 6, "nobody waited", name="bulk load"),
    Plant("read only", K + "(twb_global<const float> a) { /* f.py:6 */ [[twb_cast<float>(a)[0] = 1;]] }", 6, "may not be written", name="read only"),
    Plant("barrier", K + "(twb_global<float> a) { /* f.py:6 */ twb_bar_sync(<<1>>[[16]], 128); }", 6, "a block has 16", name="barrier number"),
    Plant("barrier", K + "(twb_global<float> a) { if (twb_warp() == 0) { /* f.py:6 */ twb_bar_sync(1, 64); } if (twb_warp() == 1) { /* f.py:7 */ twb_bar_sync(1, <<64>>[[32]]); } }", 7, "with 64 and with 32 threads", other=6, name="two counts"),
    Plant("mbarrier", K + "(twb_global<float> a) {" + MEMORY + BAR + "if (i == 0) { <<twb_mbarrier_init(bar, 1);>> /* f.py:6 */ twb_mbarrier_arrive(bar); } }", 6, "no mbarrier was initialised", name="mbarrier"),
    Plant("mbarrier", K + "(twb_global<float> a) {" + MEMORY + BAR + "if (i == 0) { twb_mbarrier_init(bar, 2); twb_mbarrier_arrive_expect(bar, 512); twb_mbarrier_arrive(bar); /* f.py:6 */ [[twb_mbarrier_arrive(bar);]] twb_bulk_load(s, a, 512, bar); twb_mbarrier_wait(bar, 0); } }", 6, "needs no arrival", name="arrivals too many"),
    Plant("cluster", K + "(twb_global<float> a) {" + MEMORY + "s[i] = i; twb_cluster_sync(); if (twb_cluster_rank() == 1) { /* f.py:6 */ a[i] = twb_map_shared(s, 0)[i]; } <<twb_cluster_sync();>> }", 6, "of block 0 of its cluster, which has ended", cluster=2, name="a block that left"),
    Plant("cluster", K + "(twb_global<float> a) {" + MEMORY + BAR + "if (i == 0) twb_mbarrier_init(bar, 128); twb_cluster_sync(); if (twb_cluster_rank() == 1) { /* f.py:6 */ twb_mbarrier_arrive_at(bar, 0); } <<twb_cluster_sync();>> }", 6, "arrives in block 0", cluster=2, name="an arrival that is late"),
    Plant("cluster", K + "(const __grid_constant__ twb_tensor_map m) {" + MEMORY + BAR + "if (i == 0) { twb_mbarrier_init(bar, 1); twb_mbarrier_arrive_expect(bar, 512); } twb_cluster_sync(); if (twb_cluster_rank() == 1) { if (i == 0) { /* f.py:6 */ twb_tma_load_multicast_2d(s, &m, bar, 3, 0, 0); } } <<twb_mbarrier_wait(bar, 0);>> [[if (twb_cluster_rank() == 1) twb_mbarrier_wait(bar, 0);]] <<twb_cluster_sync();>> }", 6, "copies into block 0 of its cluster, which has ended", cluster=2, args=lambda: [a_map()], name="a load into a block that left"),
    Plant("cluster", K + "(twb_global<float> a) {" + MEMORY + BAR + "s[i] = i; if (i == 0) twb_mbarrier_init(bar, 1); twb_fence_proxy_async(); twb_cluster_sync(); if (twb_cluster_rank() == 0) { if (i == 0) { twb_mbarrier_arrive_expect_at(bar, 1, 256); /* f.py:6 */ twb_cluster_push(s, s, 256, bar, 1); } } else twb_mbarrier_wait(bar, 0); <<twb_cluster_sync();>> }", 6, "copies out of its block, which has ended", cluster=2, name="a block that left its tile"),
    Plant("cluster", K + "(twb_global<float> a) {" + MEMORY + BAR + "/* f.py:5 */ if (i == 0) { twb_mbarrier_init(bar, 128); } <<twb_cluster_sync();>> [[twb_sync();]] /* f.py:6 */ twb_mbarrier_arrive_at(bar, twb_cluster_rank() ^ 1); twb_mbarrier_wait(bar, 0); twb_cluster_sync(); }", 6, "may not be initialised yet", other=5, cluster=2, name="an arrival before the start"),
    Plant("cluster", K + "(twb_global<float> a) { twb_cluster_arrive(); <<twb_cluster_wait();>> /* f.py:6 */ twb_cluster_arrive(); twb_cluster_wait(); [[twb_cluster_wait();]] }", 6, "comes to the barrier of its cluster twice", cluster=2, name="two arrivals"),
    Plant("race", K + "(twb_global<float> a) {" + MEMORY + "/* f.py:5 */ s[i] = i; <<twb_cluster_arrive();>> [[twb_cluster_arrive_relaxed();]] twb_cluster_wait(); /* f.py:6 */ a[i] = twb_map_shared(s, twb_cluster_rank() ^ 1)[i]; twb_cluster_sync(); }", 6, "with nothing between that orders the two", other=5, cluster=2, name="a relaxed arrival"),
    Plant("deadlock", K + "(twb_global<float> a) {" + MEMORY + BAR + "if (i == 0) twb_mbarrier_init(bar, 1); twb_cluster_sync(); if (twb_cluster_rank() == 0) { <<if (i == 0) twb_mbarrier_arrive_at(bar, 1);>> } else { /* f.py:6 */ twb_mbarrier_wait(bar, 0); } /* f.py:7 */ twb_cluster_sync(); }", 7, "rank 1 of its cluster, warp 0: all lanes wait at mbarrier at byte 2048 for parity 0", other=6, cluster=2, name="a peer that does not arrive"),
    Plant("registers", K.replace("256", "384") + "(twb_global<float> a) { if (twb_warp() < 8) { /* f.py:6 */ twb_set_max_registers_inc<240>(); } else { twb_set_max_registers_dec<<<24>>>[[<40>]](); } }".replace("<<<24>>>", "<<<24> >>"), 6, "ask for 66560 registers in all; they are launched with 64512", block=384, name="registers"),
    Plant("wgmma", K + "(twb_global<float> a) {" + MEMORY + WG + "<<twb_wgmma_fence();>> /* f.py:5 */ " + PRODUCT + "twb_wgmma_commit(); twb_wgmma_wait<0>(); }", 5, "no wgmma fence", name="wgmma fence"),
)  # fmt: skip


def variant(plant: Plant, faulty: bool) -> str:
    """The text of one of the twins."""
    keep, drop = (r"\[\[(.*?)\]\]", r"<<(.*?)>>") if faulty else (r"<<(.*?)>>", r"\[\[(.*?)\]\]")
    return re.sub(keep, r"\1", re.sub(drop, "", plant.text, flags=re.DOTALL), flags=re.DOTALL)


@cache
def program() -> Program:
    """All twins as one text, since a compiler takes longer to start than to translate one: kernels `clean_0`, `faulty_0` ..."""
    texts = [re.sub(r"\bk\(", f"{name}_{i}(", variant(p, name == "faulty"), count=1) for i, p in enumerate(PLANTS) for name in ("clean", "faulty")]
    return emulating.load("\n".join(texts), "sm_90a")


def run(plant: Plant, faulty: bool) -> RunResult:
    kernel = program()[f"{'faulty' if faulty else 'clean'}_{PLANTS.index(plant)}"]
    return kernel.run(plant.cluster, plant.block, plant.args(), shared_bytes=plant.shared, sanitize=True, fresh=plant.fresh, cluster=plant.cluster)


@pytest.mark.parametrize("plant", PLANTS, ids=str)
def test_a_planted_fault_is_found_and_its_twin_is_clean(plant: Plant) -> None:
    assert [str(f) for f in run(plant, faulty=False).findings] == []
    found = [f for f in run(plant, faulty=True).findings if f.kind == plant.kind]
    assert found, f"{plant} was not found"
    lines = {(f.line.line if f.line else None, f.other.line if f.other else None) for f in found}
    assert (plant.line, plant.other) in lines or (plant.other is None and plant.line in {a for a, _ in lines}), lines
    assert any(plant.says in f.text for f in found), [f.text for f in found]


def test_every_kind_is_planted() -> None:
    assert {p.kind for p in PLANTS} == set(HINTS)


def test_a_late_product_reads_what_is_there_then() -> None:
    """Overwriting an operand before the wait changes the result: the missing wait shows in the numbers and as a race."""
    text = (
        K
        + "(twb_global<float> a) {"
        + MEMORY
        + WG
        + "twb_wgmma_fence(); "
        + PRODUCT
        + " twb_wgmma_commit(); [[]] /* f.py:8 */ twb_cast<uint32_t>(t)[i] = 0x3f803f80u; twb_fence_proxy_async(); /* f.py:9 */ twb_wgmma_wait<0>(); a[i] = d[0]; }"
    )
    a = np.zeros(128, np.float32)
    program = emulating.load(text.replace("[[]]", ""), "sm_90a")
    result = program["k"].run(1, 128, [a], shared_bytes=4096, sanitize=True)
    assert a.any()
    assert "race" in {f.kind for f in result.findings}


def test_without_the_sanitizer_only_what_stops_a_program_is_found() -> None:
    program = emulating.load(
        K + "(twb_global<float> a) {" + MEMORY + "/* f.py:5 */ s[i] = i; /* f.py:6 */ a[i] = s[127 - i]; a[i + 1] = 0; }", "sm_80"
    )
    kinds = {f.kind for f in program["k"].run(1, 128, [np.zeros(128, np.float32)], shared_bytes=512).findings}
    assert kinds == {"out of bounds"}
