"""Memory of the interpreter: buffers as NumPy arrays that share storage where the IR says so.

A `Storage` holds one buffer. Its `array` has shape `lanes + shape`: `lanes` is () for what the block owns and the iteration or thread space
for "local" and "var" buffers, so that the elements of one lane are contiguous and can be viewed as another dtype. 4-bit buffers are packed
two to a byte, low half first; for them `array` holds the position of each element, counted in halves of bytes of `flat`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..base.dtypes import DType
from ..base.errors import InternalError, UnsupportedError
from ..ir.expr import Buffer
from .arithmetic import Value, from_storage, storage_dtype, to_storage

Lanes = tuple[int, ...]
READ, WRITTEN = 1, 2  # marks of a byte in a shadow: read before it was written; written


class Storage:
    """The elements of one buffer. Indices must be inside; `access` guards them."""

    __slots__ = ("array", "buffer", "dtype", "flat", "lanes", "shadow", "shape")

    def __init__(self, buffer: Buffer, array: np.ndarray[Any, Any], lanes: Lanes = (), flat: np.ndarray[Any, Any] | None = None) -> None:
        self.buffer, self.dtype, self.array, self.lanes, self.flat = buffer, buffer.dtype, array, lanes, flat
        self.shape: tuple[int, ...] = array.shape[len(lanes) :]
        self.shadow: Storage | None = None  # marks per byte of a global buffer, when a trace wants them

    def read(self, index: Any) -> Value:
        """The elements at a NumPy index, as values; perhaps a view of memory."""
        if self.flat is None:
            return from_storage(self.array[index], self.dtype)
        at = self.array[index]
        return from_storage(np.asarray((self.flat[at >> 1] >> ((at & 1) * 4).astype(np.uint8)) & np.uint8(15)), self.dtype)[()]

    def write(self, index: Any, value: Value) -> None:
        """Store values at a NumPy index; `value` broadcasts."""
        if self.flat is None:
            self.array[index] = value
            return
        at, bits = np.broadcast_arrays(self.array[index], to_storage(value, self.dtype))
        for half in (0, 1):  # a byte holds two elements, so never update both in one indexed assignment
            chosen = (at & 1) == half
            where = at[chosen] >> 1
            self.flat[where] = (self.flat[where] & np.uint8(0xF0 if half == 0 else 0x0F)) | (bits[chosen] << np.uint8(4 * half))

    def bytes(self) -> np.ndarray[Any, Any]:
        """The memory as bytes, shape `lanes + (n,)`; a view."""
        if self.flat is not None:
            return self.flat.reshape((*self.lanes, -1))
        if not self.array.flags.c_contiguous:
            raise UnsupportedError(f"{self.buffer.name} is not contiguous, so it cannot be viewed as another dtype", hint="pass a contiguous array")
        count = 1
        for extent in self.shape:
            count *= extent
        return self.array.reshape((*self.lanes, count)).view(np.uint8)

    def in_lanes(self, lanes: Lanes) -> Storage:
        """A copy for each lane of a space whose last axes are the lanes of this storage."""
        if self.flat is None:
            rank = len(lanes) - len(self.lanes)
            old = self.array.reshape((1,) * rank + self.array.shape)
            return Storage(self.buffer, np.broadcast_to(old, lanes + self.shape).copy(), lanes)
        fresh = allocate(self.buffer, self.shape, lanes)
        fresh.write(..., self.read(...))
        return fresh

    def mark(self, index: Any, bit: int) -> None:
        """Note in the shadow that the elements at `index` were read or written."""
        if self.shadow is None:
            return
        marks, ones = self.shadow.array, int.from_bytes(b"\x01" * self.shadow.array.dtype.itemsize, "little")
        if self.flat is not None:
            index = self.array[index] >> 1
        one = marks.dtype.type(ones)
        old = marks[index]
        marks[index] = old | (one << marks.dtype.type(1) if bit == WRITTEN else one & ~(old >> marks.dtype.type(1)))


def allocate(buffer: Buffer, shape: tuple[int, ...], lanes: Lanes = (), strides: tuple[int, ...] | None = None) -> Storage:
    """New storage of zeros."""
    count = _span(shape, strides)
    nbytes = (count * buffer.dtype.bits + 7) // 8
    return view_bytes(buffer, np.zeros((*lanes, nbytes), np.uint8), shape, strides, 0, lanes)


def view(buffer: Buffer, root: Storage, shape: tuple[int, ...], strides: tuple[int, ...] | None, offset: int) -> Storage:
    """`root`'s memory seen as `buffer`, starting `offset` elements (of buffer's dtype) into it."""
    if strides is not None and offset == 0 and buffer.dtype == root.dtype and root.flat is None and not root.array.flags.c_contiguous:
        steps = tuple(s * root.array.itemsize for s in strides)
        return Storage(buffer, _strided(root.array, shape, steps))
    made = view_bytes(buffer, root.bytes(), shape, strides, offset, root.lanes)
    if root.shadow is not None:
        made.shadow = shadow_of(made, view_bytes(buffer, root.shadow.bytes(), shape, strides, offset, ()))
    return made


def view_bytes(buffer: Buffer, memory: Any, shape: tuple[int, ...], strides: tuple[int, ...] | None, offset: int, lanes: Lanes) -> Storage:
    """A buffer over bytes of shape `lanes + (n,)`."""
    count = _span(shape, strides)
    if (offset + count) * buffer.dtype.bits > memory.shape[-1] * 8 or offset < 0:
        raise InternalError(f"view {buffer.name} is larger than the storage it shares")
    if buffer.dtype.bits == 4:
        places = offset + np.arange(count, dtype=np.int64)
        total = 1
        for extent in lanes:
            total *= extent
        lane = np.arange(total, dtype=np.int64).reshape((*lanes, 1)) * (2 * memory.shape[-1])
        places = lane + places
        return Storage(buffer, _reshape(places, lanes, shape, strides), lanes, memory.reshape(-1))
    element = storage_dtype(buffer.dtype)
    whole = memory[..., : memory.shape[-1] // element.itemsize * element.itemsize]
    typed = whole.view(element)[..., offset : offset + count]
    return Storage(buffer, _reshape(typed, lanes, shape, strides), lanes)


def from_host(buffer: Buffer, array: np.ndarray[Any, Any], shape: tuple[int, ...]) -> Storage:
    """An argument. 4-bit tensors come packed in bytes, or as ml_dtypes arrays of one byte an element (then `to_host` writes back)."""
    element = storage_dtype(buffer.dtype)
    if buffer.dtype.bits == 4:
        if array.shape != shape or array.dtype.name not in ("int4", "uint4"):
            return view_bytes(buffer, array.reshape(-1).view(np.uint8), shape, None, 0, ())
        packed = allocate(buffer, shape)
        packed.write(..., array.astype(np.int8) if buffer.dtype.kind == "i" else array.astype(np.uint8))
        return packed
    if array.dtype != element:
        if array.dtype.itemsize != element.itemsize:
            raise InternalError(f"{buffer.name} is {buffer.dtype}, the array is {array.dtype}")
        array = array.view(element)
    return Storage(buffer, array)


def to_host(storage: Storage, array: np.ndarray[Any, Any]) -> None:
    """Write a 4-bit argument that `from_host` had to pack back into the caller's array."""
    if storage.flat is not None and array.size and not np.shares_memory(storage.flat, array):
        array[...] = storage.read(...).astype(array.dtype)


def with_shadow(storage: Storage) -> Storage:
    """`storage`, marked from now on."""
    of = storage.buffer
    plane = Storage(of, storage.array, (), np.zeros_like(storage.flat)) if storage.flat is not None else Storage(of, np.zeros_like(storage.array))
    storage.shadow = shadow_of(storage, plane)
    return storage


def shadow_of(storage: Storage, plane: Storage) -> Storage:
    """The marks in `plane`, which has the form of `storage`, as unsigned integers of one element each (4-bit: of one byte)."""
    array = plane.array if plane.flat is None else plane.flat
    unsigned = DType(f"uint{array.dtype.itemsize * 8}")
    return Storage(Buffer(storage.buffer.name, (), unsigned), array.view(unsigned.to_numpy()))


def _span(shape: tuple[int, ...], strides: tuple[int, ...] | None) -> int:
    """Elements from the first to behind the last."""
    count = 1
    for extent in shape:
        count *= max(extent, 0)
    if strides is None or count == 0:
        return count
    return 1 + sum((extent - 1) * stride for extent, stride in zip(shape, strides, strict=True))


def _reshape(flat: Any, lanes: Lanes, shape: tuple[int, ...], strides: tuple[int, ...] | None) -> Any:
    """`lanes + (count,)` as `lanes + shape`, without a copy."""
    if strides is None:
        return flat.reshape(lanes + shape)
    size = flat.itemsize
    return _strided(flat, lanes + shape, flat.strides[:-1] + tuple(s * size for s in strides))


def _strided(array: Any, shape: tuple[int, ...], steps: tuple[int, ...]) -> Any:
    """The memory of `array` with another shape and strides in bytes; NumPy's own function does not know the dtypes of ml_dtypes."""
    bits = array.view(f"u{array.itemsize}")
    return np.lib.stride_tricks.as_strided(bits, shape, steps).view(array.dtype)
