"""An atomic with a memory order keeps other accesses of global memory on its side: fences for each thread, and the block comes together.

Before:  copy W[0 :+ 64] <- acc;  atomic add flag[0] += 1  (release)
After:   copy W[0 :+ 64] <- acc;  fence;  sync block;  atomic add flag[0] += 1

"release" orders what comes before, "acquire" (and "consume") what comes after, "acq_rel" and "seq_cst" both. Where threads are visible they are
ordered each for itself, as the author wrote it; iterations of a parallel loop too.

Requires: single atomics.  Preserves: relaxed atomics, and those of a block's own memory.
"""

from __future__ import annotations

from ..ir.device import DeviceCall
from ..ir.launches import rewrite_launches
from ..ir.node import Node, replace, rewrite
from ..ir.stmt import Atomic, Body, Kernel, Launch, ParallelFor, Stmt, Sync

_BEFORE, _AFTER = ("release", "acq_rel", "seq_cst"), ("acquire", "consume", "acq_rel", "seq_cst")


def order_atomics(kernel: Kernel) -> Kernel:
    """Return `kernel` with fences around ordered atomics."""

    def launch(node: Launch) -> Launch:
        return rewrite(node, _Ordering(node).change)

    return rewrite_launches(kernel, launch)


class _Ordering:
    def __init__(self, launch: Launch) -> None:
        self.meets = not launch.threads_used

    def change(self, node: Node) -> Node | tuple[Node, ...]:
        match node:
            case Atomic(dst=dst, memory_order=order) if order in (*_BEFORE, *_AFTER) and dst.buffer.root.scope == "global":
                return self.ordered(node)
            case ParallelFor(body=body):
                alone = tuple(s for s in body if not isinstance(s, Sync)) if self.meets else body  # iterations do not meet
                return node if len(alone) == len(body) else replace(node, body=alone)
            case _:
                return node

    def ordered(self, atomic: Atomic) -> Body:
        fence, meet = DeviceCall("twb_fence_gpu", span=atomic.span), Sync(span=atomic.span)
        out: list[Stmt] = []
        if atomic.memory_order in _BEFORE:
            out += [fence, meet] if self.meets else [fence]
        out.append(replace(atomic, memory_order="relaxed"))
        if atomic.memory_order in _AFTER:
            out += [meet, fence] if self.meets else [fence]
        return tuple(out)
