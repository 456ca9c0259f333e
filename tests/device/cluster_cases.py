"""Clusters: blocks that read, write, fill and wake one another."""

from __future__ import annotations

from typing import Any

import numpy as np
from device.suite import Case

from tileworkbench.emulator import TensorMap

K = 'extern "C" __global__ void __launch_bounds__(128) k'


def _cluster() -> Case:
    """Each block reads its neighbour's tile, and tells it by its mbarrier that it has read."""
    text = (
        K
        + """(twb_global<int32_t> out, const __grid_constant__ twb_tensor_map map) {
        TWB_SHARED_MEMORY(memory);
        twb_shared<int32_t> s = twb_tile<int32_t>(memory, 0, 128), t = twb_tile<int32_t>(memory, 512, 64);
        twb_shared<uint64_t> bar = twb_tile<uint64_t>(memory, 1024, 1), load = twb_tile<uint64_t>(memory, 1032, 1);
        int i = twb_thread_x(), rank = twb_cluster_rank();
        s[i] = 1000 * twb_block_x() + i;
        if (i == 0) { twb_mbarrier_init(bar, 4); twb_mbarrier_init(load, 1); twb_fence_mbarrier_init(); twb_mbarrier_arrive_expect(load, 256); }
        twb_cluster_sync();
        if (i == 0) twb_tma_load_multicast_2d(t + 32 * rank, &map, load, (uint16_t)3, 0, 2 * rank);
        out[twb_block_x() * 256 + i] = twb_map_shared(s, rank ^ 1)[127 - i];
        twb_mbarrier_wait(load, 0);
        out[twb_block_x() * 256 + 128 + i] = i < 64 ? t[i] : twb_cluster_size();
        twb_sync_warp();
        if (twb_lane() == 0) twb_mbarrier_arrive_at(bar, rank ^ 1);
        twb_mbarrier_wait(bar, 0);
        s[i] = 0;
        twb_cluster_arrive(); twb_cluster_wait();
    }"""
    )
    source = np.arange(64, dtype=np.int32).reshape(4, 16)
    out = np.zeros((4, 256), np.int32)

    def expected(args: list[Any]) -> dict[int, np.ndarray]:
        return {0: np.array([[*(1000 * (b ^ 1) + np.arange(127, -1, -1)), *range(64), *[2] * 64] for b in range(4)])}

    return Case("cluster", text, lambda: [out.copy(), TensorMap(source, (16, 2))], expected, arch="sm_90a", grid=4, block=128, shared=1040, cluster=2)


def _pushed() -> Case:
    """Each block sends its tile to its neighbour, writes what came and one more there, and is told by each warp of both that it is seen."""
    text = (
        K
        + """(twb_global<int32_t> out) {
        TWB_SHARED_MEMORY(memory);
        twb_shared<int32_t> s = twb_tile<int32_t>(memory, 0, 128), t = twb_tile<int32_t>(memory, 512, 128), u = twb_tile<int32_t>(memory, 1024, 128);
        twb_shared<uint64_t> came = twb_tile<uint64_t>(memory, 1536, 1), written = twb_tile<uint64_t>(memory, 1544, 1), seen = twb_tile<uint64_t>(memory, 1552, 1);
        int i = twb_thread_x(), other = twb_cluster_rank() ^ 1, at = twb_block_x() * 384 + i;
        s[i] = 1000 * twb_block_x() + i;
        if (i == 0) { twb_mbarrier_init(came, 1); twb_mbarrier_init(written, 1); twb_mbarrier_init(seen, 8); twb_fence_mbarrier_init(); }
        twb_fence_proxy_async(); twb_cluster_sync();
        if (i == 0) {
            twb_mbarrier_arrive_expect_at(came, other, 512);
            twb_cluster_push(t, s, 256, came, other); twb_cluster_push(t + 64, s + 64, 256, came, other);
        }
        twb_mbarrier_wait(came, 0);
        out[at] = t[i];
        twb_cluster_write(u + i, other, t[127 - i] + 1);
        twb_sync();
        if (i == 0) twb_mbarrier_release_at(written, other);
        twb_mbarrier_wait_cluster(written, 0);
        out[at + 128] = u[i];
        twb_mbarrier_arrive_cluster(seen, 2);
        twb_mbarrier_wait(seen, 0);
        for (int turn = 0; turn < 2; ++turn) twb_mbarrier_arrive_cluster_if(seen, 2, turn == 1);
        twb_mbarrier_wait(seen, 1);
        out[at + 256] = other;
        twb_cluster_arrive_relaxed(); twb_cluster_wait();
    }"""
    )
    i = np.arange(128)

    def expected(_args: list[Any]) -> dict[int, np.ndarray]:
        rows = [np.concatenate([1000 * (b ^ 1) + i, 1000 * b + 127 - i + 1, np.full(128, b % 2 ^ 1)]) for b in range(4)]
        return {0: np.array(rows, np.int32)}

    return Case("pushed", text, lambda: [np.zeros((4, 384), np.int32)], expected, arch="sm_90a", grid=4, block=128, shared=1560, cluster=2)


CASES = (_cluster(), _pushed())
