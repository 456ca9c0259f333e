"""Which buffers and variables a piece of a kernel reads, writes and binds."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from ..ir.device import DeviceCall, Registers
from ..ir.explicit import Push, TensorMove
from ..ir.expr import AddressOf, Binary, Buffer, Cast, Const, Load, Select, Unary, Var
from ..ir.lowered import Address, Apart, AtomicOp, CopyElements, Declare, Element, GemmCall, Grid, LoadVector, Loop, SetElement, StoreVector
from ..ir.node import Node, walk
from ..ir.send import SendTile
from ..ir.stmt import Atomic, Collective, Copy, Fill, For, Gemm, Launch, Let, ParallelFor, PipelinedFor, Print, Reduce, Region, Scan, Store


@dataclass(slots=True)
class Uses:
    """Buffers read and written, variables used and bound. A buffer that is accumulated into is in both."""

    read: set[Buffer] = field(default_factory=set)
    written: set[Buffer] = field(default_factory=set)
    used: set[Var] = field(default_factory=set)
    bound: set[Var] = field(default_factory=set)

    @property
    def buffers(self) -> set[Buffer]:
        return self.read | self.written

    @property
    def free(self) -> set[Var]:
        return self.used - self.bound


_SILENT = frozenset((Binary, Buffer, Cast, Const, Select, Unary))
"""Most of what there is: says nothing itself."""


def uses(nodes: Node | Iterable[Node]) -> Uses:
    """What `nodes` and everything below them use."""
    out = Uses()
    for node in (nodes,) if isinstance(nodes, Node) else nodes:
        factors: set[int] = set()  # where products and copies only read
        for n in walk(node):
            kind = n.__class__
            if kind is Var:
                out.used.add(n)  # type: ignore[arg-type]  # `kind` says so
                continue
            if kind in _SILENT:
                continue
            if isinstance(n, GemmCall):
                factors |= {id(n.a), id(n.b)}
            elif isinstance(n, DeviceCall) and n.name == "twb_cp_async":
                factors.add(id(n.args[1]))
            if id(n) in factors and isinstance(n, (Address, AddressOf)):
                out.read.add(n.buffer)
            else:
                _add(n, out)
    return out


def _add(node: Node, out: Uses) -> None:
    match node:
        case Load(buffer) | Element(buffer) | Print(buffer=Buffer() as buffer):
            out.read.add(buffer)
        case AddressOf(buffer) | Address(buffer) | AtomicOp(_, buffer) | Registers(buffer):
            out.read.add(buffer)
            out.written.add(buffer)
        case Region(buffer):
            out.read.add(buffer)
        case Apart(a, b):
            out.read |= {a, b}
        case Store(buffer) | SetElement(buffer) | Declare(buffer):
            out.written.add(buffer)
        case (
            Copy(dst=dst) | TensorMove(dst=dst) | Push(dst=dst) | SendTile(dst=dst)
            | Fill(dst=dst) | Reduce(dst=dst) | Scan(dst=dst) | Atomic(dst=dst)
        ):  # fmt: skip
            out.written.add(dst.buffer)
            if isinstance(node, Atomic) and node.result is not None:
                out.bound.add(node.result)
        case Gemm(c=c):
            out.written.add(c.buffer)
        case CopyElements(dst, _, src) | LoadVector(dst, _, src) | StoreVector(dst, _, src):
            out.read.add(src)
            out.written.add(dst)
        case GemmCall(c=c):
            out.written.add(c.buffer)
        case Let(var) | For(var) | PipelinedFor(var) | Loop(var):
            out.bound.add(var)
        case Collective(result=var):
            out.bound.add(var)
        case ParallelFor(loop_vars) | Grid(vars=loop_vars):
            out.bound.update(loop_vars)
        case Launch(block_vars=block_vars, thread_vars=thread_vars):
            out.bound.update(block_vars)
            out.bound.update(thread_vars)
        case _:
            pass


def written_roots(nodes: Iterable[Node]) -> set[Buffer]:
    """The owners of the storage that `nodes` may write."""
    return {b.root for b in uses(nodes).written}


def views(buffers: Iterable[Buffer]) -> list[Buffer]:
    """The views among `buffers` and the views that they are views of, each after what it views."""
    out: dict[Buffer, None] = {}

    def add(buffer: Buffer) -> None:
        if buffer.view_of is not None and buffer not in out:
            add(buffer.view_of)
            out[buffer] = None

    for buffer in sorted(buffers, key=lambda b: b.name):
        add(buffer)
    return list(out)
