"""Element types: names, sizes, limits and the promotion rule.

A `DType` is its TileLang name (it *is* a `str`), so `dtype == "float16"`, `getattr(torch, dtype)` and f-strings work.
Aliases ("float", "half", "int", ...) resolve to the same object.

>>> DType("half")
float16
>>> DType("bfloat16").bits, DType("int4").bits, promote(DType("int8"), DType("float16"))
(16, 4, float16)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

# name: (kind, bits); kind is i signed, u unsigned, f float, b bool
_TABLE = {
    "bool": ("b", 8),
    **{f"int{b}": ("i", b) for b in (4, 8, 16, 32, 64)},
    **{f"uint{b}": ("u", b) for b in (4, 8, 16, 32, 64)},
    "float64": ("f", 64),
    "float32": ("f", 32),
    "tfloat32": ("f", 32),
    "float16": ("f", 16),
    "bfloat16": ("f", 16),
    "float8_e4m3fn": ("f", 8),
    "float8_e5m2": ("f", 8),
}
_ALIASES = {
    "float": "float32", "double": "float64", "half": "float16", "int": "int32", "uint": "uint32", "short": "int16",
    "long": "int64", "char": "int8", "float8_e4m3": "float8_e4m3fn", "e4m3": "float8_e4m3fn", "e5m2": "float8_e5m2",
    "bool_": "bool", "boolean": "bool",
}  # fmt: skip
# largest finite value and smallest positive normal of the floats NumPy does not know; IEEE 754-2019, OCP 8-bit FP v1.0
_FLOAT_MAX = {"bfloat16": 3.3895313892515355e38, "float8_e4m3fn": 448.0, "float8_e5m2": 57344.0, "tfloat32": 3.4028234663852886e38}
_MANTISSA = {"float64": 53, "float32": 24, "tfloat32": 11, "float16": 11, "bfloat16": 8, "float8_e4m3fn": 4, "float8_e5m2": 3}
_KNOWN: dict[str, DType] = {}


class DType(str):
    """An element type. `DType(x)` accepts a name, an alias, a NumPy, ml_dtypes or PyTorch dtype, or a Python type."""

    __slots__ = ("kind", "bits")
    kind: str
    bits: int
    caster: ClassVar[Callable[[DType, Any], Any] | None] = None  # set by `language`: what `T.float32(x)` does in a kernel

    def __new__(cls, value: Any) -> DType:
        name = _name_of(value)
        found = _KNOWN.get(name)
        if found is not None:
            return found
        if name not in _TABLE:
            raise ValueError(f"unknown dtype {value!r}")
        self = str.__new__(cls, name)
        self.kind, self.bits = _TABLE[name]
        _KNOWN[name] = self
        return self

    def __repr__(self) -> str:
        return str.__str__(self)

    def __call__(self, value: Any) -> Any:
        """`T.float32(x)`: convert a kernel value; outside the language, convert a NumPy value."""
        if DType.caster is not None:
            return DType.caster(self, value)
        return self.to_numpy().type(value)

    @property
    def is_float(self) -> bool:
        return self.kind == "f"

    @property
    def is_int(self) -> bool:
        """Signed or unsigned integer; bool is neither."""
        return self.kind in "iu"

    @property
    def is_bool(self) -> bool:
        return self.kind == "b"

    @property
    def nbytes(self) -> float:
        """Bytes of one element in a packed buffer: 0.5 for the 4-bit types."""
        return self.bits / 8

    @property
    def min(self) -> float | int:
        """Lowest finite value."""
        if self.is_float:
            return -self.max
        return 0 if self.kind in "ub" else -(1 << (self.bits - 1))

    @property
    def max(self) -> float | int:
        """Highest finite value."""
        if self.is_bool:
            return 1
        if self.is_float:
            return _FLOAT_MAX[self] if self in _FLOAT_MAX else float(np.finfo(str(self)).max)
        return (1 << (self.bits - (self.kind == "i"))) - 1

    @property
    def has_infinity(self) -> bool:
        return self.is_float and self != "float8_e4m3fn"

    @property
    def unit_roundoff(self) -> float:
        """Half a unit in the last place, relative: 2**-p for p bits of precision; 0 for integers."""
        return 2.0 ** -_MANTISSA[self] if self.is_float else 0.0

    def as_torch(self) -> Any:
        """The PyTorch dtype of the same name. Raises: ImportError without PyTorch, AttributeError for a dtype that it does not have."""
        import torch

        return getattr(torch, "float32" if self == "tfloat32" else str(self))

    def to_numpy(self) -> np.dtype[Any]:
        """The NumPy dtype of host arrays; bfloat16, float8 and 4-bit integers come from ml_dtypes."""
        name = "float32" if self == "tfloat32" else str(self)
        if name in ("bfloat16", "float8_e4m3fn", "float8_e5m2", "int4", "uint4"):
            import ml_dtypes  # costs 10 ms; only kernels that use these types pay

            found: np.dtype[Any] = np.dtype(getattr(ml_dtypes, name))
            return found
        return np.dtype(name)


def _name_of(value: Any) -> str:
    if isinstance(value, str):
        text = str.__str__(value)
    elif value in (float, int, bool):
        text = {float: "float32", int: "int32", bool: "bool"}[value]
    elif isinstance(value, type) and issubclass(value, np.generic):
        text = np.dtype(value).name
    else:
        text = getattr(value, "name", None) or str(value)
    text = text.removeprefix("torch.")
    return _ALIASES.get(text, text)


def promote(a: DType, b: DType) -> DType:
    """The dtype in which `a op b` is computed: floats beat integers, wider beats narrower; mixed signs become signed.

    Two floats of one width but different formats (float16 with bfloat16) give float32.
    """
    if a == b:
        return a
    if a.is_float or b.is_float:
        if not (a.is_float and b.is_float):
            return a if a.is_float else b
        if a.bits != b.bits:
            return a if a.bits > b.bits else b
        return FLOAT32
    if a.is_bool or b.is_bool:
        return b if a.is_bool else a
    if a.bits != b.bits:
        wide, narrow = (a, b) if a.bits > b.bits else (b, a)
        return wide if wide.kind == "i" or narrow.kind == "u" else DType(f"int{wide.bits}")
    return a if a.kind == "i" else b


NAMES = tuple(_TABLE)  # of the element types
ALIASES = tuple(_ALIASES)  # further names for them

BOOL = DType("bool")
INT32 = DType("int32")
UINT32 = DType("uint32")
INT64 = DType("int64")
INDEX = INT64  # loop variables, block and thread indices, symbolic dims: index arithmetic does not wrap
FLOAT16 = DType("float16")
FLOAT32 = DType("float32")
FLOAT64 = DType("float64")
UINT64 = DType("uint64")
