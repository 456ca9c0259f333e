"""What a statement of a tile program does to one buffer: whether it reads it, writes it, or names it at all."""

from __future__ import annotations

from collections.abc import Iterable

from ..ir.expr import AddressOf, Buffer, CallExtern, Load, is_const
from ..ir.node import Node, walk
from ..ir.stmt import Atomic, Copy, Fill, Gemm, Print, Reduce, Region, Scan, Store, Sync

Pair = tuple[tuple[Buffer, ...], tuple[Buffer, ...]]


def accessed(node: Node) -> Pair:
    """The buffers that `node` itself reads and writes, without what lies below it."""
    match node:
        case Load(buffer) | Print(buffer=Buffer() as buffer):
            return (buffer,), ()
        case AddressOf(buffer):
            return (buffer,), (buffer,)
        case Store(buffer):
            return (), (buffer,)
        case Copy(src, dst) | Scan(_, src, dst):
            return (src.buffer,), (dst.buffer,)
        case Fill(dst):
            return (), (dst.buffer,)
        case Gemm(a, b, c, clear=clear):
            return (a.buffer, b.buffer, *(() if is_const(clear, True) else (c.buffer,))), (c.buffer,)
        case Reduce(_, src, dst, clear=clear):
            return (src.buffer, *(() if clear else (dst.buffer,))), (dst.buffer,)
        case Atomic(_, dst, value):
            return (dst.buffer, *((value.buffer,) if isinstance(value, Region) else ())), (dst.buffer,)
        case _:
            return (), ()


def reads(node: Node, buffer: Buffer) -> bool:
    """Whether something in `node` may read `buffer`."""
    return any(buffer in accessed(n)[0] for n in walk(node))


def writes(node: Node, buffer: Buffer) -> bool:
    """Whether something in `node` may write `buffer`."""
    return any(buffer in accessed(n)[1] for n in walk(node))


def mentions(node: Node, buffer: Buffer) -> bool:
    """Whether something in `node` reads or writes `buffer`."""
    return any(buffer in pair[0] or buffer in pair[1] for pair in map(accessed, walk(node)))


def is_opaque(node: Node) -> bool:
    """Whether other memory may change there: a call of foreign C, or a meeting with other blocks."""
    match node:
        case CallExtern() | Sync(scope="grid"):
            return True
        case Atomic(dst=dst):
            return not dst.buffer.root.is_on_chip
        case _:
            return False


def count_accesses(nodes: Iterable[Node]) -> dict[Buffer, int]:
    """How often each buffer is read or written below `nodes`."""
    out: dict[Buffer, int] = {}
    for top in nodes:
        for n in walk(top):
            for b in (*accessed(n)[0], *accessed(n)[1]):
                out[b] = out.get(b, 0) + 1
    return out
