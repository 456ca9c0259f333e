"""Who a thread is, and barriers of a block."""

from __future__ import annotations

from .function import DeviceFunction, pair, same

_FULL = "uint32_t mask = 0xffffffffu"


def thread_functions() -> tuple[DeviceFunction, ...]:
    """Positions and extents of threads and blocks; barriers."""
    places = []
    for axis in "xyz":
        places += [
            pair(
                f"uint32_t twb_thread_{axis}()",
                f"return threadIdx.{axis};",
                f"return twb_me->{axis};",
                f"The thread's place in its block along {axis}.",
            ),
            pair(
                f"uint32_t twb_block_{axis}()",
                f"return blockIdx.{axis};",
                f"return twb_me->block->{axis};",
                f"The block's place in the grid along {axis}.",
            ),
            pair(
                f"uint32_t twb_threads_{axis}()",
                f"return blockDim.{axis};",
                f"return twb_me->block->threads_{axis};",
                f"Threads of a block along {axis}.",
            ),
            pair(
                f"uint32_t twb_blocks_{axis}()",
                f"return gridDim.{axis};",
                f"return twb_me->block->blocks_{axis};",
                f"Blocks of the grid along {axis}.",
            ),
        ]
    return (
        *places,
        pair(
            "uint32_t twb_thread()",
            "return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);",
            "return twb_me->flat;",
            "The thread's number in its block.",
        ),
        same("uint32_t twb_lane()", "return twb_thread() & 31u;", "The thread's place in its warp.", "twb_thread"),
        pair(
            "uint32_t twb_warp()",
            "return __shfl_sync(0xffffffffu, twb_thread() >> 5, 0);",
            "return twb_me->warp;",
            "The warp's number in its block, the same register in all lanes.",
            "twb_thread",
        ),
        pair("void twb_sync()", "__syncthreads();", "twbe_sync();", "Wait for all threads of the block."),
        pair(f"void twb_sync_warp({_FULL})", "__syncwarp(mask);", "twbe_sync_warp(mask);", "Wait for the lanes of the mask."),
        pair(
            "void twb_bar_sync(uint32_t id, uint32_t threads)",
            'asm volatile("bar.sync %0, %1;" :: "r"(id), "r"(threads) : "memory");',
            "twbe_bar(id, threads, 1);",
            "Come to named barrier `id` and wait until `threads` have come.",
        ),
        pair(
            "void twb_bar_arrive(uint32_t id, uint32_t threads)",
            'asm volatile("bar.arrive %0, %1;" :: "r"(id), "r"(threads) : "memory");',
            "twbe_bar(id, threads, 0);",
            "Come to named barrier `id` and go on.",
        ),
        same(
            "void twb_turn_begin(uint32_t first)",
            "if (twb_thread_x() < 128) twb_bar_arrive(first, 256u);",
            "The first group of 128 threads has the first turn. Groups wait at named barriers from `first` on.",
            "twb_thread_x",
            "twb_bar_arrive",
            least_arch=90,
        ),
        same(
            "void twb_turn_wait(uint32_t first)",
            "twb_bar_sync(first + twb_thread_x() / 128u, 256u);",
            "Wait for the group's turn.",
            "twb_thread_x",
            "twb_bar_sync",
            least_arch=90,
        ),
        same(
            "void twb_turn_pass(uint32_t first, uint32_t groups)",
            "uint32_t next = twb_thread_x() / 128u + 1u;\ntwb_bar_arrive(first + (next == groups ? 0u : next), 256u);",
            "It is the next group's turn, and after the last one the first one's.",
            "twb_thread_x",
            "twb_bar_arrive",
            least_arch=90,
        ),
    )
