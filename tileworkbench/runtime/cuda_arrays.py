"""Arrays in a GPU's memory, seen without a copy: CuPy's, PyTorch's, and what speaks `__cuda_array_interface__` or DLPack (JAX, Numba, ...).

Nothing here imports CuPy or PyTorch for an argument: an array of theirs proves that they are there. Only an output that no argument gives a library
for needs CuPy. A `HostArray` from here holds a view with the array's address, shape and strides; its elements cannot be read from the host.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterable
from typing import Any

import ml_dtypes
import numpy as np

from ..base.errors import UnsupportedError
from . import arrays, packing
from .arrays import HostArray, NotAnArray, library_of, torch_dtype_name
from .libcuda import DRIVER, why_no_driver
from .signature import ScalarSpec, TensorSpec

CUPY = "pip install cupy-cuda13x (cupy-cuda12x for a driver of CUDA 12)"
_DLPACK_CUDA = (2, 13)  # kDLCUDA, kDLCUDAManaged
BYTE = np.dtype(np.uint8)


class _Window:
    """Memory as NumPy's array interface describes it."""

    def __init__(self, interface: dict[str, Any]) -> None:
        self.__array_interface__ = interface


def window(
    pointer: int, shape: tuple[int, ...], strides: tuple[int, ...] | None, dtype: np.dtype[Any], writable: bool = True
) -> np.ndarray[Any, Any]:
    """A view of memory that must not be read; `strides` count bytes, None: contiguous."""
    if 0 in shape:
        return np.empty(shape, dtype)
    bits = {"shape": shape, "typestr": f"|V{dtype.itemsize}", "data": (pointer, not writable), "strides": strides, "version": 3}
    return np.asarray(_Window(bits)).view(dtype)


def describe(value: Any) -> HostArray:
    """Look at an array in a GPU's memory. Raises NotAnArray for anything else, also for an array of the host."""
    library = library_of(value)
    if library == "torch":
        return _describe_torch(value)
    if hasattr(value, "__cuda_array_interface__"):
        return _describe_interface(value, library)
    if library != "numpy" and hasattr(value, "__dlpack__") and hasattr(value, "__dlpack_device__"):
        return _describe_dlpack(value, library)
    if hasattr(value, "__array_interface__"):
        why = why_no_driver()
        hint = (
            f"no kernel can run on a GPU here: {why}; {DRIVER}"
            if why
            else "this target runs on the GPU: move it there, for example with cupy.asarray"
        )
        raise NotAnArray(f"a {library} array in the host's memory", hint)
    got = "None" if value is None else f"{value!r} ({type(value).__name__})" if isinstance(value, (int, float, str)) else f"a {type(value).__name__}"
    raise NotAnArray(got, "" if value is None else "pass an array on the GPU: CuPy, PyTorch, or anything with DLPack or __cuda_array_interface__")


def describe_anywhere(value: Any) -> HostArray:
    """Look at an array, wherever it lives; raises NotAnArray for what is none."""
    return describe(value) if is_on_gpu(value) else arrays.describe(value)


def is_on_gpu(value: Any) -> bool:
    """Whether an array says that it lies in a GPU's memory."""
    return _on_gpu(value) if library_of(value) == "torch" else hasattr(value, "__cuda_array_interface__")


def _on_gpu(tensor: Any) -> bool:
    return bool(tensor.is_cuda)


def _describe_torch(value: Any) -> HostArray:
    if not _on_gpu(value):
        raise NotAnArray(f"a tensor on {value.device}", "this target runs on the GPU: move it there with .cuda()")
    if value.layout != sys.modules["torch"].strided or value.is_neg() or value.is_conj():
        raise NotAnArray("a sparse, lazily negated or conjugated tensor", "make it dense and resolved: .to_dense().resolve_neg().resolve_conj()")
    name = torch_dtype_name(value)
    dtype = np.dtype(getattr(ml_dtypes, name, name))
    strides = tuple(s * dtype.itemsize for s in value.stride())
    contiguous = None if value.is_contiguous() else strides
    return HostArray(window(value.data_ptr(), tuple(value.shape), contiguous, dtype), name, True, "torch", value, is_readable=False)


def _describe_interface(value: Any, library: str) -> HostArray:
    known = value.__cuda_array_interface__
    pointer, read_only = known["data"]
    own = getattr(value, "dtype", None)
    dtype = own if isinstance(own, np.dtype) else np.dtype(known["typestr"])
    view = window(pointer, tuple(known["shape"]), known.get("strides"), dtype, not read_only)
    return HostArray(view, dtype.name, not read_only, library, value, is_readable=False)


def _describe_dlpack(value: Any, library: str) -> HostArray:
    kind, _ = value.__dlpack_device__()
    if int(kind) not in _DLPACK_CUDA:
        raise NotAnArray(
            f"a {library} array on DLPack device {int(kind)}", "this target runs on the GPU: move it there, for example with cupy.asarray"
        )
    array = _cupy("an array that has only DLPack").from_dlpack(value)
    seen = _describe_interface(array, library)
    return HostArray(seen.array, seen.dtype, seen.writable, library, array, is_readable=False)


def allocate(shape: tuple[int, ...], dtype: np.dtype[Any], library: str, like: Any) -> tuple[np.ndarray[Any, Any], Any]:
    """A new uninitialised array on the GPU: its view, and the array, of PyTorch where `library` says so, else of CuPy."""
    if library == "torch":
        torch = sys.modules["torch"]
        tensor = torch.empty(shape, dtype=getattr(torch, dtype.name), device=like.device)
        return _describe_torch(tensor).array, tensor
    cupy = _cupy("an output")
    where = like.device if library == "cupy" and like is not None else contextlib.nullcontext()
    with where:
        array = cupy.empty(shape, dtype)
    return _describe_interface(array, "cupy").array, array


def fetch(value: Any) -> np.ndarray[Any, Any]:
    """A copy of an array in the host's memory; waits for what the array's stream still has to do."""
    if library_of(value) == "torch":
        return arrays.torch_view(value.cpu())
    copied: np.ndarray[Any, Any] = (value if library_of(value) == "cupy" else _cupy("reading an array").asarray(value)).get()
    return copied


def send(value: Any) -> Any:
    """A copy of an array of the host in the GPU's memory, of PyTorch for a tensor, else of CuPy."""
    return value.cuda() if library_of(value) == "torch" else _cupy("an input").asarray(value)


def _cupy(what: str) -> Any:
    found = sys.modules.get("cupy")
    if found is not None:
        return found
    try:
        import cupy
    except ImportError:
        raise UnsupportedError(f"{what} on the GPU needs CuPy, which is not installed", hint=f"{CUPY}, or pass PyTorch's tensors") from None
    return cupy


def kind(param: TensorSpec | ScalarSpec, host: HostArray | None) -> str:
    """How a repeated call finds this input's pointer: "cupy", "torch", "scalar", or "slow"."""
    if isinstance(param, ScalarSpec):
        return "scalar"
    if host is None or param.dtype in packing.NAMES or host.dtype != ("float32" if param.dtype == "tfloat32" else param.dtype):
        return "slow"
    whole = param.strides is None and host.array.size > 0
    return host.library if whole and host.library in ("cupy", "torch") and _is_plain(host) else "slow"


def _is_plain(host: HostArray) -> bool:
    """Not of a derived class, whose attributes may mean something else."""
    module = sys.modules[host.library]
    return type(host.origin) is (module.Tensor if host.library == "torch" else module.ndarray)


# ------------------------------------------------------------------------------------------- devices and streams
def ordinals(given: Iterable[Any]) -> set[int]:
    """The numbers of the devices that these arrays lie on, as far as they say."""
    found = set()
    for array in given:
        device = getattr(array, "device", None)
        number = getattr(device, "index", None) if library_of(array) == "torch" else getattr(device, "id", None)
        if isinstance(number, int):
            found.add(number)
    return found


def current_stream(library: str, ordinal: int) -> int:
    """The current stream of CuPy or PyTorch on a device."""
    module = sys.modules[library]
    if library == "cupy":
        return int(module.cuda.get_current_stream().ptr)
    raw = _raw_stream(module)
    return int(raw(ordinal) if raw is not None else module.cuda.current_stream(ordinal).cuda_stream)


def stream_text(library: str, ordinal: int) -> tuple[str, Callable[..., Any]]:
    """`current_stream` as a Python expression, and the function that it calls `_stream`."""
    module = sys.modules[library]
    if library == "cupy":
        return "_stream().ptr", module.cuda.get_current_stream
    raw = _raw_stream(module)
    return (f"_stream({ordinal})", raw) if raw is not None else (f"_stream({ordinal}).cuda_stream", module.cuda.current_stream)


def _raw_stream(torch: Any) -> Callable[[int], int] | None:
    """What PyTorch's own compiler calls; it takes a tenth of the time of the public way."""
    found: Callable[[int], int] | None = getattr(torch._C, "_cuda_getCurrentRawStream", None)
    return found


def stream_of(given: Iterable[Any], ordinal: int) -> int:
    """The stream to launch on: PyTorch's current one if there is a tensor, else CuPy's; for others the one that their array interface names."""
    libraries = {library_of(a): a for a in given}
    for library in ("torch", "cupy"):
        if library in libraries:
            return current_stream(library, ordinal)
    named = [getattr(a, "__cuda_array_interface__", {}).get("stream") for a in libraries.values()]
    stream = next((s for s in named if isinstance(s, int)), 0)
    return 0 if stream == 1 else stream  # the protocol's 1 is the legacy default stream; 2 is the driver's name for the per-thread one
