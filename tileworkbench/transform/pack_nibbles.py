"""4-bit elements become halves of bytes, and it is said how a half is written.

Before:  s: shared int4[8, 16];  x = s[i * 16 + j];  s[i * 16 + j] = y
After:   s: shared uint8[64];    x = nibble(s[(i * 16 + j) / 2], i * 16 + j);  set nibble(s, i * 16 + j, y)

A byte may belong to two threads. A half in memory of the block or of all is therefore written in one step that leaves the other half as it is
(`twb_set_nibble`), never by reading, changing and writing a byte. A thread's own array has a byte for each element, unless it is a view or
viewed: then its bytes are packed as elsewhere.

Requires: flat accesses.  Preserves: everything else.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ..base.dtypes import INT32, DType
from ..ir.build import add, index, product
from ..ir.device import DeviceCall, DeviceValue
from ..ir.expr import Binary, Buffer, Cast, Const, Expr
from ..ir.lowered import Address, Element, SetElement
from ..ir.node import Node, replace, rewrite, walk
from ..ir.stmt import Kernel

BYTE = DType("uint8")


def pack_nibbles(kernel: Kernel) -> Kernel:
    """Return `kernel` with uint8 buffers for those with 4-bit elements."""
    buffers = {n for n in walk(kernel) if isinstance(n, Buffer)}
    if not any(b.type.bits < 8 for b in buffers):
        return kernel
    return rewrite(kernel, _Packing(frozenset(b.root for b in buffers if b.view_of is not None)).change)


@dataclass(slots=True)
class _Packing:
    viewed: frozenset[Buffer]
    made: dict[Buffer, Buffer] = field(default_factory=dict)
    old: dict[Buffer, Buffer] = field(default_factory=dict)  # buffer of bytes -> that of 4-bit elements

    def is_packed(self, buffer: Buffer) -> bool:
        return buffer.type.bits < 8 and buffer.scope != "var" and (buffer.scope != "local" or buffer.root in self.viewed)

    def bytes_of(self, buffer: Buffer) -> Buffer:
        """The buffer of bytes instead of `buffer`; the same but for its owner if it is a view of one."""
        if buffer not in self.made:
            owner = None if buffer.view_of is None else self.bytes_of(buffer.view_of)
            if self.is_packed(buffer):
                size: Expr = index(buffer.static_bytes()) if buffer.is_on_chip else _half(add(product(buffer.shape), index(1)))
                offset = None if buffer.offset is None else _half(buffer.offset)
                new = replace(buffer, shape=(size,), type=BYTE, strides=None, view_of=owner, offset=offset, safe_value=None)
                self.old[new] = buffer
            else:
                new = buffer if owner is buffer.view_of else replace(buffer, view_of=owner)
            self.made[buffer] = new
        return self.made[buffer]

    def change(self, node: Node) -> Node:
        match node:
            case Buffer():
                return self.bytes_of(node)
            case Element(buffer, offset) if buffer in self.old:
                kind = self.old[buffer].type
                byte = replace(node, offset=_half(offset))
                return DeviceValue(f"twb_nibble_{kind.kind}4", (byte, offset), kind, span=node.span)
            case SetElement(buffer, offset, value) if buffer in self.old:
                number = Cast(value, INT32)
                if buffer.scope == "local":
                    byte = Element(buffer, _half(offset))
                    return SetElement(buffer, _half(offset), DeviceValue("twb_with_nibble", (byte, offset, number), BYTE), span=node.span)
                return DeviceCall("twb_set_nibble", (Address(buffer, index(0)), offset, number), span=node.span)
            case Address(buffer, offset) if buffer in self.old:
                return replace(node, offset=_half(offset))
            case _:
                return node


def _half(offset: Expr) -> Expr:
    """The byte of an element; an offset is not negative."""
    return index(int(offset.value) // 2) if isinstance(offset, Const) else Binary("truncdiv", offset, index(2))
