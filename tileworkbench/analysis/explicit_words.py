"""Which words of a kernel only a GPU of sm_90 has, and what to write instead elsewhere."""

from __future__ import annotations

from ..base.errors import UnsupportedError
from ..ir.explicit import Asked, InGroups, Push, StartBarriers, TensorMove, WaitStarted, is_explicit
from ..ir.node import Node, walk
from ..ir.stmt import Gemm, Kernel

_COPY = "use T.copy, which waits for itself and needs no barrier"
_ALONE = "let each block work for itself: blocks pass data on through global memory, from one launch to the next"
_INSTEAD = {
    "ws": "write the body without roles: T.Pipelined overlaps copies and products",
    "wgmma_gemm": "use T.gemm, which is complete when it returns", "wait_wgmma": "leave it out: T.gemm is complete when it returns",
    "named_barrier_arrive": "use T.sync_threads()", "named_barrier_sync": "use T.sync_threads()", "sync_threads": "use T.sync_threads()",
    **dict.fromkeys(("cluster_sync", "cluster_arrive", "cluster_arrive_relaxed", "cluster_wait", "alloc_cluster_barrier", "copy_cluster"), _ALONE),
    "fence_proxy_async": "leave it out: what T.copy, T.gemm and T.sync_threads need is placed by the compiler",
}  # fmt: skip


def require_words(kernel: Kernel, arch: int, target: str) -> None:
    """Raise UnsupportedError at the first word of `kernel` that `target`, of compute capability `arch` (0: no GPU), has not."""
    for launch in kernel.launches:
        if not is_explicit(launch):
            continue
        for node in (n for s in launch.body for n in walk(s)):
            word, needs = _word(node)
            if word and needs != arch and not needs == 80 <= arch:
                raise UnsupportedError(
                    f"T.{word} needs a GPU of generation sm_{needs}, and {target} has nothing of the kind", span=node.span,
                    hint=f'{_INSTEAD.get(word, _COPY)}; or compile for target="sm_90"',
                )  # fmt: skip


def needs_sm_90(node: Node) -> bool:
    """Whether a node is a word that only sm_90 has."""
    return _word(node)[1] == 90


def is_of_threads(node: Node) -> bool:
    """Whether a word of sm_90 has a meaning where threads are visible: each one does it."""
    return isinstance(node, Asked) and node.name in ("twb_cluster_sync", "twb_cluster_arrive", "twb_cluster_arrive_relaxed", "twb_cluster_wait")


def _word(node: Node) -> tuple[str, int]:
    match node:
        case InGroups():
            return "ws", 90
        case Asked(word=word, arch=arch):
            return word, arch
        case StartBarriers(of_cluster=of_cluster):
            return "alloc_cluster_barrier" if of_cluster else "alloc_barrier", 90
        case Push():
            return "copy_cluster", 90
        case TensorMove():
            return "tma_copy", 90
        case WaitStarted():
            return "wait_wgmma", 90
        case Gemm(unit="wgmma"):
            return "wgmma_gemm", 90
        case _:
            return "", 0
