"""Arguments of a kernel as the runtime takes them: a pointer to each value; arrays with a description of their memory."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..base.errors import ArgumentError
from .tensor_map import PackedMap, TensorMap
from .text import Kernel, Parameter

_SCALARS: dict[str, Any] = {
    **{f"{u}int{bits}_t": getattr(ctypes, f"c_{u}int{bits}") for u in ("", "u") for bits in (8, 16, 32, 64)},
    "float": ctypes.c_float, "double": ctypes.c_double, "bool": ctypes.c_bool, "int": ctypes.c_int32, "unsigned": ctypes.c_uint32,
    "twb_f16": ctypes.c_uint16, "twb_bf16": ctypes.c_uint16, "twb_e4m3": ctypes.c_uint8, "twb_e5m2": ctypes.c_uint8,
}  # fmt: skip
_SIZES = {"twb_f16": 2, "twb_bf16": 2, "twb_e4m3": 1, "twb_e5m2": 1}


class Buffer(ctypes.Structure):
    """Memory of one array; `written` marks its bytes, or is 0 when all count as written."""

    _fields_ = (("base", ctypes.c_uint64), ("end", ctypes.c_uint64), ("written", ctypes.c_uint64), ("readonly", ctypes.c_uint8))


class Pointer(ctypes.Structure):
    """What `twb_global<T>` is."""

    _fields_ = (("at", ctypes.c_uint64), ("buffer", ctypes.c_uint64))


@dataclass(frozen=True, slots=True)
class Packed:
    """`pointers` to the values, and all that must live as long."""

    pointers: Any
    kept: tuple[Any, ...]


def pack(kernel: Kernel, args: Sequence[Any], fresh: frozenset[int]) -> Packed:
    """Pack `args` for `kernel`. Raises ArgumentError naming kernel and parameter."""
    if len(args) != len(kernel.parameters):
        raise ArgumentError(f"{kernel.name} takes {len(kernel.parameters)} arguments, not {len(args)}")
    kept: list[Any] = []
    values = [_value(kernel, p, a, i in fresh, kept) for i, (p, a) in enumerate(zip(kernel.parameters, args, strict=True))]
    pointers = (ctypes.c_void_p * max(len(values), 1))(*(_aligned(v, kept) for v in values))
    return Packed(pointers, (*kept, *values, *args))


def _aligned(value: Any, kept: list[Any]) -> int:
    """The address of a copy of `value` that is a multiple of 64, which tensor maps need."""
    room = ctypes.create_string_buffer(ctypes.sizeof(value) + 64)
    kept.append(room)
    at = (ctypes.addressof(room) + 63) & ~63
    ctypes.memmove(at, ctypes.addressof(value), ctypes.sizeof(value))
    return at


def _value(kernel: Kernel, parameter: Parameter, arg: Any, is_fresh: bool, kept: list[Any]) -> Any:
    where = f"{kernel.name}: {parameter.name}"
    if parameter.is_array:
        if arg is None:
            return Pointer(0, 0)
        if not isinstance(arg, np.ndarray):
            raise ArgumentError(f"{where} is an array, not {type(arg).__name__}")
        _check_element(where, parameter, arg)
        buffer = _buffer(arg, parameter.is_read_only, is_fresh, kept, where)
        return Pointer(arg.ctypes.data, ctypes.addressof(buffer))
    if parameter.type == "twb_tensor_map":
        if not isinstance(arg, TensorMap):
            raise ArgumentError(f"{where} is a tensor map, not {type(arg).__name__}")
        buffer = _buffer(arg.array, False, is_fresh, kept, where)
        return PackedMap.from_buffer_copy(arg.pack(ctypes.addressof(buffer)))
    if parameter.type not in _SCALARS:
        raise ArgumentError(f"{where} has type {parameter.type}, which no argument can be")
    if parameter.type in _SIZES:
        return _SCALARS[parameter.type](int(np.asarray(arg).view(f"u{_SIZES[parameter.type]}")))
    return _SCALARS[parameter.type](arg.item() if isinstance(arg, np.generic) else arg)


def _check_element(where: str, parameter: Parameter, arg: np.ndarray[Any, Any]) -> None:
    element = parameter.type.removeprefix("twb_global<").removesuffix(">").removeprefix("const ").strip()
    size = _SIZES.get(element) or (ctypes.sizeof(_SCALARS[element]) if element in _SCALARS else 0)
    if size and size != arg.dtype.itemsize:
        raise ArgumentError(f"{where} has elements of {size} bytes ({element}), the array those of {arg.dtype.itemsize} ({arg.dtype})")


def _buffer(arg: np.ndarray[Any, Any], readonly: bool, is_fresh: bool, kept: list[Any], where: str) -> Buffer:
    low = high = arg.ctypes.data
    if arg.size:
        for extent, stride in zip(arg.shape, arg.strides, strict=True):
            low, high = low + min(0, (extent - 1) * stride), high + max(0, (extent - 1) * stride)
        high += arg.dtype.itemsize
    if not readonly and not arg.flags.writeable:
        readonly = True
    written = 0
    if is_fresh:
        marks = np.zeros(max(high - low, 1), np.uint8)
        kept.append(marks)
        written = marks.ctypes.data
    buffer = Buffer(low, high, written, readonly)
    kept.append(buffer)
    return buffer
