"""Words that only mean something on a particular generation of GPU.

They are known, so that a program that uses them is told what to write instead; calling one raises UnsupportedError.
"""

from __future__ import annotations

from typing import Any

from ._dispatch import word

INSTEAD = {
    "sm_90": {
        "use T.copy, which waits for itself and needs no barrier": (
            "tma_load", "create_tma_descriptor", "ptx_arrive_barrier",
            "ptx_init_barrier_thread_count", "ptx_fence_barrier_init",
        ),
        "use T.gemm, which is complete when it returns": (
            "wgmma_gemm_sp", "warpgroup_arrive", "warpgroup_commit_batch", "warpgroup_wait", "warpgroup_fence_operand",
            "initialize_wgmma_descriptor", "alloc_wgmma_desc", "ptx_wgmma_ss",
        ),
        "write roles with T.ws, or leave them out: T.Pipelined overlaps copies and products": (
            "annotate_ws_schedule", "ws_op", "WSSchedule", "WSRole", "WSPipeline", "WSInstr", "WSOpRef", "WSSync", "WSSyncKind", "WSScope",
            "WSID",
        ),
        "use one block per tile: T.Kernel over all tiles, or T.Persistent": (
            "PersistentTileScheduler", "BaseTileScheduler",
        ),
    },
    "sm_100": {
        "use T.gemm with an accumulator from T.alloc_fragment": (
            "tcgen05_gemm", "tcgen05_gemm_blockscaled", "tcgen05_gemm_sp", "tcgen05_mma_arrive", "tcgen05_cp_warpx4", "tcgen05_sf_warp_transpose",
            "tcgen05_before_thread_sync", "tcgen05_after_thread_sync", "alloc_tcgen05_smem_desc", "mma_gemm_blockscaled",
        ),
        "use T.alloc_fragment": ("alloc_tmem", "deallocate_tmem"),
        "use one block per tile: T.Kernel over all tiles, or T.Persistent": (
            "clc_try_cancel", "clc_try_cancel_multicast", "clc_is_canceled", "clc_get_first_ctaid_x", "clc_get_first_ctaid_y",
            "clc_get_first_ctaid_z",
        ),
        "load the rows one by one with T.copy": ("tma_gather4", "tma_scatter4", "tma_gather4_bytes"),
        "write the two lanes out": ("add2", "sub2", "mul2", "fma2", "max2", "min2", "abs2"),
    },
    "sm_80": {
        "use T.copy": (
            "ptx_cp_async", "ldg32", "ldg64", "ldg128", "ldg256", "stg32", "stg64", "stg128", "stg256", "lds32", "lds64", "lds128", "sts32", "sts64",
            "sts128",
        ),
        "use T.gemm on the dense tiles": ("gemm_sp",),
        "pass random numbers in as a tensor": ("rng_init", "rng_rand", "rng_rand_float"),
        "use T.Kernel": ("CUDASourceCodeKernel",),
    },
}  # fmt: skip
"""GPU generation -> what to write instead -> the words."""


def _stub(name: str, generation: str, instead: str) -> Any:
    def stub(*args: Any, **kwargs: Any) -> Any: ...

    stub.__name__, stub.__doc__ = name, f"Needs a GPU of generation {generation}; elsewhere {instead}."
    return word(stub)


STUBS = {name: _stub(name, generation, instead) for generation, group in INSTEAD.items() for instead, names in group.items() for name in names}
