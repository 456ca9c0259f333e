"""Host arrays of any library, seen without a copy.

NumPy (with ml_dtypes' bfloat16, float8 and int4), PyTorch, and whatever speaks the array interface or DLPack (JAX, CuPy, ...). `describe` looks at an
array, `allocate` makes an output in the same library. Nothing here imports PyTorch: an argument that is a tensor proves that it is there.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..base.dtypes import DType

_CPU_DEVICES = (1, 3)  # DLPack's kDLCPU and kDLCUDAHost (pinned host memory)
_TORCH_BITS = {"bfloat16": "int16", "float8_e4m3fn": "uint8", "float8_e5m2": "uint8"}


class NotAnArray(Exception):
    """The object is no host array; the message says what it is, as the end of "got ..."."""

    def __init__(self, got: str, hint: str = "") -> None:
        super().__init__(got)
        self.hint = hint


@dataclass(frozen=True, slots=True)
class HostArray:
    """An array in host memory. `array` is a NumPy view of it; strides count elements; `library` is "numpy", "torch" or another module's name.

    One in a GPU's memory has a view too, for its shape, strides and address; it is not `is_readable`: nobody may look at an element.
    """

    array: np.ndarray[Any, Any]
    dtype: str
    writable: bool
    library: str
    origin: Any
    is_readable: bool = True

    @property
    def shape(self) -> tuple[int, ...]:
        shape: tuple[int, ...] = self.array.shape
        return shape

    @property
    def pointer(self) -> int:
        return int(self.array.__array_interface__["data"][0])

    @property
    def is_contiguous(self) -> bool:
        return bool(self.array.flags.c_contiguous)

    @property
    def strides(self) -> tuple[int, ...] | None:
        """Element strides; None if a byte stride is no whole number of elements."""
        size = max(1, self.array.itemsize)
        if any(s % size for s in self.array.strides):
            return None
        return tuple(s // size for s in self.array.strides)

    @property
    def is_aligned(self) -> bool:
        return bool(self.array.flags.aligned) and self.pointer % max(1, self.array.itemsize) == 0


def library_of(value: Any) -> str:
    """The module that `value`'s type comes from: "numpy", "torch", "jax", "cupy", "builtins", ..."""
    if isinstance(value, np.ndarray):
        return "numpy"
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        return "torch"
    name = type(value).__module__.partition(".")[0]
    return "jax" if name == "jaxlib" else name


def describe(value: Any) -> HostArray:
    """Look at an array without copying it. Raises NotAnArray for anything else, also for an array in a GPU's memory."""
    library = library_of(value)
    if library == "numpy":
        return _describe_numpy(value)
    if library == "torch":
        return _describe_torch(value)
    if hasattr(value, "__cuda_array_interface__") and not hasattr(value, "__array_interface__"):
        raise NotAnArray(f"a {library} array in GPU memory", "move it to the host, for example with cupy.asnumpy")
    if hasattr(value, "__dlpack__") and hasattr(value, "__dlpack_device__"):
        return _describe_dlpack(value, library)
    if hasattr(value, "__array_interface__"):
        view = np.asarray(value)
        return HostArray(view, view.dtype.name, view.flags.writeable, library, value)
    raise NotAnArray(_kind(value), "" if value is None else "pass an array: NumPy, PyTorch, or anything with DLPack or __array_interface__")


def _kind(value: Any) -> str:
    return (
        "None"
        if value is None
        else f"{value!r} ({type(value).__name__})"
        if isinstance(value, (int, float, bool, str))
        else f"a {type(value).__name__}"
    )


def _describe_numpy(value: np.ndarray[Any, Any]) -> HostArray:
    masked = sys.modules.get("numpy.ma")  # not np.ma: naming it imports it, which takes time, and a lock that a forked child may find taken
    if isinstance(value, getattr(masked, "MaskedArray", ())):
        raise NotAnArray("a masked array", "the mask would be lost: pass value.filled(...)")
    view = value.view(np.ndarray)
    name = view.dtype.name if view.dtype.isnative else f"{view.dtype.name} of foreign byte order"
    return HostArray(view, name, view.flags.writeable, "numpy", value)


def _describe_torch(value: Any) -> HostArray:
    torch = sys.modules["torch"]
    if value.device.type != "cpu":
        raise NotAnArray(f"a tensor on {value.device}", "move it to the host with .cpu(); this target runs on the CPU")
    if value.layout != torch.strided:
        raise NotAnArray(f"a tensor of layout {value.layout}", "make it dense with .to_dense()")
    if value.is_neg() or value.is_conj():
        raise NotAnArray("a lazily negated or conjugated tensor", "call .resolve_neg().resolve_conj() first")
    return HostArray(torch_view(value), torch_dtype_name(value), True, "torch", value)


def torch_dtype_name(value: Any) -> str:
    """The dtype of a tensor by its plain name."""
    return str(value.dtype).removeprefix("torch.")


def torch_view(value: Any) -> np.ndarray[Any, Any]:
    """A NumPy view of a CPU tensor, through ml_dtypes for the types that NumPy lacks."""
    torch = sys.modules["torch"]
    name = torch_dtype_name(value)
    plain = value.detach()
    if name not in _TORCH_BITS:
        return plain.numpy()  # type: ignore[no-any-return]  # torch is untyped here
    return plain.view(getattr(torch, _TORCH_BITS[name])).numpy().view(DType(name).to_numpy())  # type: ignore[no-any-return]


def _describe_dlpack(value: Any, library: str) -> HostArray:
    kind, _ = value.__dlpack_device__()
    if int(kind) not in _CPU_DEVICES:
        raise NotAnArray(f"a {library} array on DLPack device {int(kind)}", "move it to the host; this target runs on the CPU")
    try:
        view = np.from_dlpack(value)
    except (BufferError, RuntimeError, TypeError):
        view = np.asarray(value)  # a dtype that NumPy's DLPack lacks, such as JAX's bfloat16
        view.flags.writeable = False  # it may be a copy: it can only be read
    return HostArray(view, view.dtype.name, view.flags.writeable, library, value)


def allocate(shape: tuple[int, ...], dtype: np.dtype[Any], library: str, like: Any) -> tuple[np.ndarray[Any, Any], Any]:
    """A new uninitialised array: its NumPy view, and what to hand to the caller, in `library`. `like` is an argument of that library, or None."""
    if library == "torch":
        torch = sys.modules["torch"]
        tensor = torch.empty(shape, dtype=getattr(torch, dtype.name), device="cpu")
        return torch_view(tensor), tensor
    array: np.ndarray[Any, Any] = np.empty(shape, dtype)
    return array, None if library not in ("numpy", "builtins") and hasattr(like, "__array_namespace__") else array


def hand_over(array: np.ndarray[Any, Any], like: Any) -> Any:
    """A filled NumPy array as an array of `like`'s library, which speaks the array API (JAX copies nothing either)."""
    try:
        return like.__array_namespace__().from_dlpack(array)
    except (BufferError, RuntimeError, TypeError, AttributeError):
        return array
