"""What kind of kernel this is, from what it does: kernels of one kind are predicted about equally well.

"attention": a product of a product, with exponentials between them. "chain": one without. "gemm": products. "row": reductions or scans, no product.
"elementwise": arithmetic on elements. "copy": nothing but movement.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..ir.expr import Binary, Buffer, Load, Unary
from ..ir.node import Node, walk
from ..ir.stmt import Atomic, Collective, Copy, Gemm, Kernel, Reduce, Scan, Stmt, Store
from .counts import SPECIAL

KINDS = ("attention", "chain", "gemm", "row", "elementwise", "copy")


def kernel_kind(kernel: Kernel) -> str:
    """One of KINDS."""
    nodes = list(walk(kernel))
    products = [n for n in nodes if isinstance(n, Gemm)]
    if products and _is_chained(nodes, products):
        return "attention" if any(isinstance(n, Unary) and SPECIAL.get(n.op) == "exp" for n in nodes) else "chain"
    if products:
        return "gemm"
    if any(isinstance(n, Reduce | Scan | Collective) for n in nodes):
        return "row"
    return "elementwise" if any(isinstance(n, Atomic | Binary | Unary) and _is_arithmetic(n) for n in nodes) else "copy"


def _is_arithmetic(node: Atomic | Binary | Unary) -> bool:
    return isinstance(node, Atomic) or (node.dtype.is_float and node.op not in ("lt", "le", "gt", "ge", "eq", "ne"))


def _is_chained(nodes: Sequence[Node], products: list[Gemm]) -> bool:
    """Whether one product reads what another has made, as it is or after copies and element-wise statements."""
    results = {p.c.buffer.root for p in products}
    grows = True
    while grows:
        reached = {target for node in nodes if isinstance(node, Stmt) for target in _targets(node, results)}
        grows = not reached <= results
        results |= reached
    return any(r.buffer.root in results for p in products for r in (p.a, p.b))


def _targets(stmt: Stmt, sources: set[Buffer]) -> list[Buffer]:
    """On-chip buffers that a statement fills from one of `sources`."""
    match stmt:
        case Copy(src, dst) if src.buffer.root in sources and dst.buffer.is_on_chip:
            return [dst.buffer.root]
        case Store(buffer, _, value) if buffer.is_on_chip and any(isinstance(n, Load) and n.buffer.root in sources for n in walk(value)):
            return [buffer.root]
        case _:
            return []
