"""Words that need sm_90 end here on other targets, with what to write instead.

Before:  any kernel
After:   the same kernel; UnsupportedError if a launch holds nodes of `ir/explicit.py` that the target has not

Requires: nothing.  Preserves: everything.
"""

from __future__ import annotations

from ..base.errors import UnsupportedError
from ..ir.explicit import Asked, InGroups, StartBarriers, TensorMove, WaitStarted, is_explicit
from ..ir.node import Node, walk
from ..ir.stmt import Gemm, Kernel

_COPY = "use T.copy, which waits for itself and needs no barrier"
_INSTEAD = {
    "ws": "write the body without roles: T.Pipelined overlaps copies and products",
    "tma_copy": _COPY, "alloc_barrier": _COPY, "wgmma_gemm": "use T.gemm, which is complete when it returns",
    "wait_wgmma": "use T.gemm, which is complete when it returns, and leave the wait out",
    "named_barrier_arrive": "use T.sync_threads()", "named_barrier_sync": "use T.sync_threads()", "sync_threads": "use T.sync_threads()",
    "fence_proxy_async": "leave it out: what T.copy, T.gemm and T.sync_threads need is placed by the compiler",
}  # fmt: skip


def refuse_explicit(kernel: Kernel, arch: int = 0) -> Kernel:
    """Return `kernel`, if compute capability `arch` has all of its words (0: no GPU). Raises: UnsupportedError."""
    for launch in kernel.launches:
        if not is_explicit(launch):
            continue
        for node in (n for s in launch.body for n in walk(s)):
            word, needs = _word(node)
            if word and needs != arch and not (needs == 80 <= arch):
                where = f"a GPU of compute capability {arch / 10}" if arch else "this target"
                raise UnsupportedError(
                    f"T.{word} needs a GPU of generation sm_{needs}; {where} has nothing of the kind", span=node.span,
                    hint=f'{_INSTEAD.get(word, _COPY)}; or compile for target="sm_90"',
                )  # fmt: skip
    return kernel


def _word(node: Node) -> tuple[str, int]:
    match node:
        case InGroups():
            return "ws", 90
        case Asked(word=word, arch=arch):
            return word, arch
        case StartBarriers():
            return "alloc_barrier", 90
        case TensorMove():
            return "tma_copy", 90
        case WaitStarted():
            return "wait_wgmma", 90
        case Gemm(unit="wgmma"):
            return "wgmma_gemm", 90
        case _:
            return "", 0
