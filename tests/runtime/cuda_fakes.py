"""A driver that remembers launches (`fake_libcuda.c`), a small CuPy over the host's memory, and CUDA text written by hand for a kernel of ours."""

from __future__ import annotations

import ctypes
import struct
import subprocess
import types
from pathlib import Path
from typing import Any

import numpy as np

import tileworkbench.language as T
from tileworkbench.codegen.cuda_source import CudaKernel, CudaSource, Number, Pointer
from tileworkbench.ir.expr import Binary, const
from tileworkbench.ir.node import walk
from tileworkbench.ir.stmt import Assert, Kernel
from tileworkbench.runtime.executable import PassRecord
from tileworkbench.runtime.toolchain import require_compiler

ADD_TEXT = """extern "C" __global__ void __launch_bounds__(128) scale_add(const float *a, const float *b, float *c, float factor, long long n) {
  long long i = blockIdx.x * 128ll + threadIdx.x;
  if (i < n) c[i] = a[i] * factor + b[i];
}
"""


class FakeDriver:
    """The fake library, as tests look at it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.library = ctypes.CDLL(str(path))

    def expect(self, *sizes: int) -> None:
        """The bytes of each argument of the launches to come."""
        self.library.fake_expect((ctypes.c_uint * max(1, len(sizes)))(*sizes), len(sizes))

    def set(self, name: str, value: int) -> None:
        assert self.library.fake_set(name.encode(), value) == 0

    def get(self, name: str) -> int:
        return int(self.library.fake_get(name.encode()))

    def shape(self) -> tuple[int, ...]:
        """Grid and block of the last launch."""
        six = (ctypes.c_uint * 6)()
        self.library.fake_shape(six)
        return tuple(six)

    def attribute(self, index: int) -> tuple[int, ...]:
        """Number and first values of an attribute of the last launch."""
        four = (ctypes.c_uint * 4)()
        self.library.fake_attribute(index, four)
        return tuple(four)

    def arguments(self, form: str) -> tuple[Any, ...]:
        """The last launch's arguments, one after the other."""
        raw = ctypes.create_string_buffer(4096)
        self.library.fake_arguments(raw)
        return struct.unpack_from(f"={form}", raw.raw)


def build_fake_driver(folder: Path) -> FakeDriver:
    """Compile the fake driver."""
    path = folder / "libfakecuda.so"
    source = Path(__file__).with_name("fake_libcuda.c")
    subprocess.run([*require_compiler().command, "-O1", "-shared", "-fPIC", "-o", str(path), str(source)], check=True, capture_output=True)
    return FakeDriver(path)


class _Pointer:
    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        self.ptr, self.device_id = array.__array_interface__["data"][0], 0


class _Device:
    def __init__(self, number: int) -> None:
        self.id = number

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: Any) -> None:
        pass


class FakeArray:
    """What the runtime asks of a CuPy array, over memory of the host."""

    def __init__(self, host: np.ndarray[Any, Any], device: int = 0) -> None:
        self.host, self.shape, self.dtype, self.flags = host, host.shape, host.dtype, types.SimpleNamespace(c_contiguous=host.flags.c_contiguous)
        self.data = _Pointer(host)
        self.data.device_id = device
        self.device = _Device(device)

    def __setitem__(self, key: Any, value: Any) -> None:
        self.host[key] = value

    def get(self) -> np.ndarray[Any, Any]:
        return self.host.copy()

    def copy(self) -> FakeArray:
        return FakeArray(self.host.copy(), self.device.id)

    @property
    def nbytes(self) -> int:
        return self.host.nbytes

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {**self.host.__array_interface__, "stream": 1}


FakeArray.__module__ = "cupy"


def arrays(n: int) -> list[FakeArray]:
    """Three of `n` numbers each."""
    return [FakeArray(np.arange(n, dtype=np.float32) + i) for i in range(3)]


def fake_cupy() -> types.ModuleType:
    """A module to stand for CuPy, whose current stream is number 5."""
    module: Any = types.ModuleType("cupy")
    module.ndarray, module.uint8 = FakeArray, np.uint8
    module.asarray = FakeArray
    module.empty = lambda shape, dtype: FakeArray(np.empty(shape, dtype))
    stream = types.SimpleNamespace(ptr=5)
    module.cuda = types.SimpleNamespace(get_current_stream=lambda: stream)
    return module  # type: ignore[no-any-return]


def scale_add_program(status: bool = False) -> Any:
    """c = a * factor + b; `status`: with an assertion."""
    n = T.dynamic("n")

    @T.prim_func
    def scale_add(a: T.Tensor((n,), "float32"), b: T.Tensor((n,), "float32"), c: T.Tensor((n,), "float32"), factor: T.float32):
        with T.Kernel(T.ceildiv(n, 128), threads=128) as bx:
            for i in T.Parallel(128):
                if status:
                    T.device_assert(factor > 0, "factor is positive")
                c[bx * 128 + i] = a[bx * 128 + i] * factor + b[bx * 128 + i]

    return scale_add


def scale_add_text(kernel: Kernel, arch: str) -> tuple[CudaSource, tuple[PassRecord, ...]]:
    """What an emitter would make of `scale_add_program`."""
    (dim,) = kernel.dims
    names = [p.buffer.name for p in kernel.params[:3]]  # type: ignore[union-attr]
    factor = kernel.params[3].var  # type: ignore[union-attr]
    status = any(isinstance(n, Assert) for launch in kernel.launches for n in walk(launch))
    text = ("__device__ unsigned twb_status;\n" if status else "") + ADD_TEXT
    text = text.replace("if (i < n)", "if (!(factor > 0)) twb_status = 1;\n  if (i < n)") if status else text
    params = (*map(Pointer, names), Number(factor, "float32"), Number(dim, "int64"))
    grid = (Binary("floordiv", Binary("add", dim, const(127)), const(128)), const(1), const(1))
    launch = CudaKernel("scale_add", grid, (128, 1, 1), params)
    return CudaSource(text, (launch,), "twb_status" if status else "", asserts=(("factor is positive", None),) if status else ()), ()


__all__ = ["FakeArray", "FakeDriver", "build_fake_driver", "fake_cupy", "scale_add_program", "scale_add_text"]
