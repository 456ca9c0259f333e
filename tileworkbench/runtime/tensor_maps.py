"""Tensor maps: the 128 bytes that tell the tensor copy engine where a tensor lies and which boxes of it are copied.

The driver encodes them (`cuTensorMapEncodeTiled`). A map depends on the address and the extents, so each is kept and made once.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

from ..base.errors import ArgumentError, InternalError, UnsupportedError
from ..codegen.cuda_source import TensorMap
from .libcuda import Driver

BYTES = 128
MOST_KEPT = 4096
MAX_BOX, MAX_RANK, ALIGNMENT = 256, 5, 16
# CU_TENSOR_MAP_DATA_TYPE_*, with the bytes of an element
TYPES = {
    "uint8": (0, 1), "int8": (0, 1), "bool": (0, 1), "float8_e4m3fn": (0, 1), "float8_e5m2": (0, 1), "uint16": (1, 2), "int16": (1, 2),
    "uint32": (2, 4), "int32": (3, 4), "uint64": (4, 8), "int64": (5, 8), "float16": (6, 2), "float32": (7, 4), "float64": (8, 8), "bfloat16": (9, 2),
    "tfloat32": (11, 4),
}  # fmt: skip
_SWIZZLES, _PROMOTIONS = {0: 0, 32: 1, 64: 2, 128: 3}, {0: 0, 64: 1, 128: 2, 256: 3}


class MapMaker:
    """The maps of one parameter of one kernel. Raises InternalError for a box that no tensor map can have."""

    def __init__(self, driver: Driver, kernel: str, spec: TensorMap, extents: int) -> None:
        """`extents` is how many dims and strides a call brings."""
        self.driver, self.kernel, self.spec = driver, kernel, spec
        if spec.dtype not in TYPES:
            raise UnsupportedError(f"the tensor copy engine knows no {spec.dtype} (kernel {kernel}, {spec.name})")
        self.code, self.itemsize = TYPES[spec.dtype]
        why = why_bad_box(spec, self.itemsize, extents)
        if why:
            raise InternalError(f"kernel {kernel}: the tensor map of {spec.name} {why}")
        self._kept: dict[tuple[int, ...], bytes] = {}

    def __call__(self, pointer: int, *extents: int) -> bytes:
        """The map for a tensor at `pointer`; `extents` are its dims and then its strides in bytes. Raises ArgumentError for what has none."""
        key = (pointer, *extents)
        found = self._kept.get(key)
        if found is None:
            if len(self._kept) >= MOST_KEPT:
                self._kept.clear()
            found = self._kept[key] = self._encode(pointer, extents)
        return found

    def _encode(self, pointer: int, extents: Sequence[int]) -> bytes:
        spec, rank = self.spec, len(self.spec.box)
        dims, strides = extents[:rank], extents[rank:]
        if 0 in dims:  # the engine knows no empty tensors: one zero stands for it, and is as good as what lies outside
            pointer, dims = self.driver.nothing(), [1] * rank
        why = why_bad_tensor(pointer, dims, strides)
        if why:
            raise ArgumentError(f"kernel {self.kernel}, argument {spec.name}: {why}", hint="the tensor copy engine needs it; pass a padded copy")
        space = ctypes.create_string_buffer(BYTES + 64)
        place = ctypes.addressof(space) + 63 & -64
        sizes, steps = (ctypes.c_uint64 * rank)(*dims), (ctypes.c_uint64 * max(1, rank - 1))(*strides)
        box, every = (ctypes.c_uint32 * rank)(*spec.box), (ctypes.c_uint32 * rank)(*([1] * rank))
        modes = 0, _SWIZZLES[spec.swizzle], _PROMOTIONS[spec.l2_bytes], int(spec.fill_nan)
        self.driver.call("cuTensorMapEncodeTiled", place, self.code, rank, pointer, sizes, steps, box, every, *modes)
        return ctypes.string_at(place, BYTES)


def why_bad_box(spec: TensorMap, itemsize: int, extents: int) -> str:
    """What is wrong with a map's constant part, as the rest of a sentence, or ""."""
    rank, row = len(spec.box), spec.box[0] * itemsize if spec.box else 0
    if not 1 <= rank <= MAX_RANK or extents != 2 * rank - 1:
        return f"has {rank} box sizes, and {extents} dims and strides: 1 to {MAX_RANK} dims, and a stride for all but one"
    if not all(1 <= b <= MAX_BOX for b in spec.box):
        return f"has the box {spec.box}: a side has 1 to {MAX_BOX} elements"
    if row % ALIGNMENT:
        return f"has a box of {row} bytes in its first dim: a multiple of {ALIGNMENT} is needed"
    if spec.swizzle not in _SWIZZLES or spec.l2_bytes not in _PROMOTIONS:
        return f"has the swizzle {spec.swizzle} and reads {spec.l2_bytes} bytes ahead: {tuple(_SWIZZLES)} and {tuple(_PROMOTIONS)} are possible"
    return f"has a box of {row} bytes in its first dim: its swizzle spans {spec.swizzle}" if spec.swizzle and row > spec.swizzle else ""


def why_bad_tensor(pointer: int, dims: Sequence[int], strides: Sequence[int]) -> str:
    """Why the tensor copy engine cannot read a tensor, or ""."""
    if pointer % ALIGNMENT:
        return f"its address {pointer:#x} is no multiple of {ALIGNMENT} bytes"
    odd = [s for s in strides if s % ALIGNMENT or not 0 <= s < 1 << 40]
    if odd:
        return f"its rows lie {odd[0]} bytes apart, which is no multiple of {ALIGNMENT}"
    return "" if all(1 <= d <= 1 << 32 for d in dims) else f"its extents {tuple(dims)} are not all between 1 and 2^32"
