"""Names of dtypes that no buffer here can have: packs of lanes (`T.float16x2`) and formats that only some GPUs know.

The names exist, so that a program may mention them (compare a dtype, choose one); using one where an element type is needed is an error.

>>> LANE_PACKS["float16x2"].lanes, LANE_PACKS["float16x2"].element
(2, float16)
"""

from __future__ import annotations

from typing import Any

from ..base.dtypes import DType
from ..base.errors import UnsupportedError

_PACKED = (
    "bool", "int4", "int8", "int16", "int32", "int64", "uint4", "uint8", "uint16", "uint32", "uint64", "float64", "float32", "float16", "bfloat16",
    "float8_e4m3fn", "float8_e5m2",
)  # fmt: skip
FOREIGN = ("float4_e2m1fn", "float4_e2m1_unpacked", "float4_e2m1fnx2", "float8_e8m0fnu", "float8_e4m3fnuz", "float8_e5m2fnuz")


class LanePack(str):
    """Several elements in one register: `lanes` of `element`."""

    __slots__ = ("lanes", "element")
    lanes: int
    element: DType

    def __new__(cls, element: str, lanes: int) -> LanePack:
        self = str.__new__(cls, f"{element}x{lanes}")
        self.element, self.lanes = DType(element), lanes
        return self

    @property
    def bits(self) -> int:
        return self.element.bits * self.lanes

    def __call__(self, value: Any) -> Any:
        raise UnsupportedError(
            f"T.{self} makes a pack of {self.lanes} lanes, which kernels here do not have", hint=f"write the lanes out as T.{self.element}(x)"
        )


LANE_PACKS = {pack: pack for name in _PACKED for lanes in (2, 4, 8, 16, 32, 64) for pack in (LanePack(name, lanes),)}
