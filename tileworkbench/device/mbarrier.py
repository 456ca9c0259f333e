"""mbarriers: counters in shared memory that arrivals and bytes of asynchronous copies bring to the next phase (sm_90).

A wait for parity P is over once the phase of parity P has completed; on a fresh barrier parity 1 is over at once.
"""

from __future__ import annotations

from .function import DeviceFunction, pair, same

_BAR = "twb_shared<uint64_t> bar"
_AT = '"r"((uint32_t)__cvta_generic_to_shared(bar))'


def mbarrier_functions() -> tuple[DeviceFunction, ...]:
    """Set up, arrive here and in other blocks of the cluster, expect bytes, wait; fences between threads and asynchronous copies."""

    def one(head: str, op: str, rest: str, host: str, says: str) -> DeviceFunction:
        return pair(head, f'asm volatile("{op}" :: {_AT}{rest} : "memory");', host, says, least_arch=90)

    def remote(op: str, more: str = "") -> str:
        return (
            f'asm volatile("{{\\n.reg .b32 ra;\\nmapa.shared::cluster.u32 ra, %0, %1;\\nmbarrier.{op};\\n}}" :: {_AT}, "r"(rank){more} : "memory");'
        )

    attempt = (
        'uint32_t ok;\nasm volatile("{\\n.reg .pred p;\\nmbarrier.%s.parity.shared::cta.b64 p, [%%1], %%2;\\nselp.u32 %%0, 1, 0, p;\\n}" : "=r"(ok) : '
        + _AT
        + ', "r"(parity) : "memory");\nreturn ok != 0;'
    )
    return (
        one(
            f"void twb_mbarrier_init({_BAR}, uint32_t count)",
            "mbarrier.init.shared::cta.b64 [%0], %1;",
            ', "r"(count)',
            "twbe_mbarrier_init(bar.at, count);",
            "Make 8 bytes of shared memory a barrier whose phase needs `count` arrivals.",
        ),
        one(
            f"void twb_mbarrier_invalidate({_BAR})",
            "mbarrier.inval.shared::cta.b64 [%0];",
            "",
            "twbe_mbarrier_invalidate(bar.at);",
            "Make a barrier plain memory again.",
        ),
        pair(
            "void twb_fence_mbarrier_init()",
            'asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");',
            "",
            "Make initialised barriers known to the cluster and to copies.",
            least_arch=90,
        ),
        one(
            f"void twb_mbarrier_arrive({_BAR})",
            "mbarrier.arrive.shared::cta.b64 _, [%0];",
            "",
            "twbe_mbarrier_arrive(bar.at, TWBE_OWN, 1);",
            "Arrive once.",
        ),
        pair(
            f"void twb_mbarrier_arrive_at({_BAR}, uint32_t rank)",
            remote("arrive.shared::cluster.b64 _, [ra]"),
            "twbe_mbarrier_arrive(bar.at, rank, 1);",
            "Arrive once at the same barrier of block `rank` of the cluster, done with what was read before.",  # .release.cluster costs a MEMBAR.GPU
            least_arch=90,
        ),
        pair(
            f"void twb_mbarrier_release_at({_BAR}, uint32_t rank)",
            remote("arrive.release.cluster.shared::cluster.b64 _, [ra]"),
            "twbe_mbarrier_arrive(bar.at, rank, 1);",
            "Arrive once at the same barrier of block `rank` of the cluster, and show it what was written there before.",
            least_arch=90,
        ),
        pair(
            f"void twb_mbarrier_arrive_expect_at({_BAR}, uint32_t rank, uint32_t bytes)",
            remote("arrive.expect_tx.shared::cluster.b64 _, [ra], %2", ', "r"(bytes)'),
            "twbe_mbarrier_expect(bar.at, rank, bytes); twbe_mbarrier_arrive(bar.at, rank, 1);",
            "Announce `bytes` of copies to the same barrier of block `rank` of the cluster, and arrive there once.",
            least_arch=90,
        ),
        same(
            f"void twb_mbarrier_arrive_cluster({_BAR}, uint32_t ranks)",
            "twb_sync_warp(); if (twb_lane() < ranks) twb_mbarrier_arrive_at(bar, twb_lane());",
            "Arrive once for the whole warp at the barrier of each of the cluster's `ranks` blocks, after all lanes have come here: a lane for each.",
            "twb_sync_warp",
            "twb_lane",
            "twb_mbarrier_arrive_at",
            least_arch=90,
        ),
        pair(
            f"void twb_mbarrier_arrive_cluster_if({_BAR}, uint32_t ranks, bool really)",
            "uint32_t go = really && twb_lane() < ranks;\n"
            'asm volatile("{\\n.reg .pred p;\\n.reg .b32 ra;\\nsetp.ne.b32 p, %1, 0;\\n'
            '@p mapa.shared::cluster.u32 ra, %0, %2;\\n@p mbarrier.arrive.shared::cluster.b64 _, [ra];\\n}" :: '
            + _AT
            + ', "r"(go), "r"(twb_lane()) : "memory");',
            "if (really && twb_lane() < ranks) twb_mbarrier_arrive_at(bar, twb_lane());",
            "Arrive once for the whole warp, if `really`, in each of the cluster's `ranks` blocks, after its products have ended: no branch, no barrier.",
            "twb_lane",
            "twb_mbarrier_arrive_at",
            least_arch=90,
        ),
        same(
            f"void twb_mbarrier_arrive_warp({_BAR})",
            "twb_sync_warp(); if (twb_lane() == 0) twb_mbarrier_arrive(bar);",
            "Arrive once for the whole warp, after all of its lanes have come here.",
            "twb_sync_warp",
            "twb_lane",
            "twb_mbarrier_arrive",
            least_arch=90,
        ),
        pair(
            f"void twb_mbarrier_arrive_warp_if({_BAR}, bool really)",
            "uint32_t go = really && twb_lane() == 0;\n"
            'asm volatile("{\\n.reg .pred p;\\nsetp.ne.b32 p, %1, 0;\\n@p mbarrier.arrive.shared::cta.b64 _, [%0];\\n}" :: '
            + _AT
            + ', "r"(go) : "memory");',
            "if (really && twb_lane() == 0) twb_mbarrier_arrive(bar);",
            "Arrive once for the whole warp, if `really`, after its products have ended: no branch and no barrier stand among products that run on.",
            "twb_lane",
            "twb_mbarrier_arrive",
            least_arch=90,
        ),
        one(
            f"void twb_mbarrier_arrive_expect({_BAR}, uint32_t bytes)",
            "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;",
            ', "r"(bytes)',
            "twbe_mbarrier_expect(bar.at, TWBE_OWN, bytes); twbe_mbarrier_arrive(bar.at, TWBE_OWN, 1);",
            "Announce `bytes` of copies to come, and arrive once.",
        ),
        one(
            f"void twb_mbarrier_expect({_BAR}, uint32_t bytes)",
            "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], %1;",
            ', "r"(bytes)',
            "twbe_mbarrier_expect(bar.at, TWBE_OWN, bytes);",
            "Announce `bytes` of copies to come.",
        ),
        pair(
            f"bool twb_mbarrier_try_wait({_BAR}, uint32_t parity)",
            attempt % "try_wait",
            "return twbe_mbarrier_try(bar.at, parity, 1) != 0;",
            "Wait a while for the phase of this parity; whether it has completed.",
            least_arch=90,
        ),
        pair(
            f"bool twb_mbarrier_test_wait({_BAR}, uint32_t parity)",
            attempt % "test_wait",
            "return twbe_mbarrier_try(bar.at, parity, 0) != 0;",
            "Whether the phase of this parity has completed.",
            least_arch=90,
        ),
        pair(
            f"void twb_mbarrier_wait({_BAR}, uint32_t parity)",
            "while (!twb_mbarrier_try_wait(bar, parity)) {}",
            "twbe_mbarrier_try(bar.at, parity, 2);",
            "Wait until the phase of this parity has completed.",
            "twb_mbarrier_try_wait",
            least_arch=90,
        ),
        pair(
            f"void twb_mbarrier_wait_cluster({_BAR}, uint32_t parity)",
            "uint32_t ok;\n"
            'do asm volatile("{\\n.reg .pred p;\\nmbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], %2;\\nselp.u32 %0, 1, 0, p;\\n}" : "=r"(ok) : '
            + _AT
            + ', "r"(parity) : "memory");\nwhile (!ok);',
            "twbe_mbarrier_try(bar.at, parity, 2);",
            "The same, and see what other blocks of the cluster have written here.",
            least_arch=90,
        ),
        pair(
            f"void twb_cp_async_arrive({_BAR})",
            f'asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" :: {_AT} : "memory");',
            "twbe_cp_async_arrive(bar.at);",
            "Arrive once when this thread's cp.async copies are done (the barrier's count must include it).",
            least_arch=90,
        ),
        pair(
            "void twb_fence_proxy_async()",
            'asm volatile("fence.proxy.async.shared::cta;" ::: "memory");',
            "twbe_proxy_fence();",
            "Make this thread's writes of shared memory known to wgmma and bulk copies.",
            least_arch=90,
        ),
        pair(
            "void twb_fence_proxy_async_all()",
            'asm volatile("fence.proxy.async;" ::: "memory");',
            "twbe_proxy_fence();",
            "The same for shared and global memory.",
            least_arch=90,
        ),
        pair(
            "void twb_grid_wait()",
            'asm volatile("griddepcontrol.wait;" ::: "memory");',
            "",
            "Wait for the kernels that this launch depends on (programmatic launch).",
            least_arch=90,
        ),
        pair(
            "void twb_grid_launch()",
            'asm volatile("griddepcontrol.launch_dependents;" ::: "memory");',
            "",
            "Let dependent kernels start (programmatic launch).",
            least_arch=90,
        ),
        pair(
            "template <int N> void twb_set_max_registers_inc()",
            'asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" :: "n"(N));',
            'static_assert(N >= 24 && N <= 256 && N % 8 == 0, "24 to 256, by 8"); twbe_registers(N);',
            "Raise the registers of this warp group's threads to N.",
            least_arch=90,
        ),
        pair(
            "template <int N> void twb_set_max_registers_dec()",
            'asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" :: "n"(N));',
            'static_assert(N >= 24 && N <= 256 && N % 8 == 0, "24 to 256, by 8"); twbe_registers(N);',
            "Lower the registers of this warp group's threads to N.",
            least_arch=90,
        ),
        same("uint64_t twb_evict_normal()", "return 0x1000000000000000ull;", "Cache hint: keep as usual."),
        same("uint64_t twb_evict_first()", "return 0x12F0000000000000ull;", "Cache hint: will not be read again."),
        same("uint64_t twb_evict_last()", "return 0x14F0000000000000ull;", "Cache hint: will be read again soon."),
    )
