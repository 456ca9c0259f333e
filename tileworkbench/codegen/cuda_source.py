"""What the CUDA emitter hands to the runtime: text, and how each kernel of it is launched."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ..base.errors import ArgumentError
from ..base.span import Span
from ..ir.device import SMS
from ..ir.expr import Buffer, Expr
from ..ir.stmt import Body, Stmt

MAP_ALIGNMENT = 16  # bytes: what a tensor map asks of an array's address. Source: CUDA driver API, cuTensorMapEncodeTiled


@dataclass(frozen=True, slots=True)
class Pointer:
    """A parameter of 8 bytes: the address of a tensor parameter or a workspace, by name; a multiple of `alignment` bytes."""

    name: str
    alignment: int = 1


@dataclass(frozen=True, slots=True)
class Number:
    """A parameter that holds the value of an expression over dims and scalars; `dtype` its type in the kernel ("int32", "float32", "bool")."""

    value: Expr
    dtype: str


@dataclass(frozen=True, slots=True)
class TensorMap:
    """A parameter of 128 bytes, by value and `__grid_constant__`: how the tensor copy engine sees the tensor or workspace `name`.

    `dims` are its extents in elements, the contiguous one first; `strides` the bytes from one element to the next in all but that one; `box` the
    elements of one copy. `swizzle` is a span in bytes (0, 32, 64, 128), `l2_bytes` what L2 reads ahead (0, 64, 128, 256). Elements outside the tensor
    read as zero, or as NaN with `fill_nan`.
    """

    name: str
    dtype: str
    dims: tuple[Expr, ...]
    strides: tuple[Expr, ...]
    box: tuple[int, ...]
    swizzle: int = 0
    l2_bytes: int = 256
    fill_nan: bool = False


Parameter = Pointer | Number | TensorMap


def misaligned(name: str, kernel: str, needed: int) -> ArgumentError:
    """The error for an array whose address is no multiple of what a kernel needs."""
    hint = "pass a copy of the array, or a view that begins at such an address"
    return ArgumentError(f"kernel {kernel}: the address of {name} has to be a multiple of {needed} bytes", hint=hint)


def alignments(kernels: Iterable[CudaKernel]) -> dict[str, int]:
    """What the addresses of a call's arrays, by name, have to be multiples of; only those of which it is more than 1."""
    found: dict[str, int] = {}
    for kernel in kernels:
        for param in kernel.params:
            needed = param.alignment if isinstance(param, Pointer) else MAP_ALIGNMENT if isinstance(param, TensorMap) else 1
            if needed > 1:
                assert not isinstance(param, Number)
                found[param.name] = max(found.get(param.name, 1), needed)
    return found


@dataclass(frozen=True, slots=True)
class CudaKernel:
    """One `extern "C" __global__` function of the text and its launch.

    `grid` counts blocks, over dims, scalars and SMS; `block` counts threads; `cluster` blocks. `shared_bytes` are dynamic ones. `params` in the order
    of the function's own. `is_programmatic`: it may start before the kernel ahead of it in the stream has ended, and waits for that itself.
    `is_cooperative`: all blocks run at once.
    """

    name: str
    grid: tuple[Expr, Expr, Expr]
    block: tuple[int, int, int]
    params: tuple[Parameter, ...]
    shared_bytes: int = 0
    cluster: tuple[int, int, int] = (1, 1, 1)
    is_programmatic: bool = False
    is_cooperative: bool = False


@dataclass(frozen=True, slots=True)
class RunKernel(Stmt):
    """Launch kernel `number` of the text: what stands for a `Grid` in a host program."""

    number: int


@dataclass(frozen=True, slots=True)
class CudaSource:
    """A kernel of the author's as CUDA text: `kernels` run in order, on one stream, unless `host` says otherwise.

    host: what a call does where that is more than one launch after the other: bindings, branches and loops over dims and scalars around `RunKernel`.
    workspaces: memory of a call beside the kernel's own workspaces; sizes over dims and scalars.
    status: the name of a `__device__ unsigned` variable of the text, 0 until an assertion fails and then 1 + its index in `asserts`; "": there is
    none.
    flags: options of NVRTC that the text needs. lines: line of `text` (from 1) -> where it comes from.
    """

    text: str
    kernels: tuple[CudaKernel, ...]
    status: str = ""
    flags: tuple[str, ...] = ()
    asserts: tuple[tuple[str, Span | None], ...] = ()
    lines: Mapping[int, Span] = field(default_factory=dict, compare=False, repr=False)
    host: Body = ()
    workspaces: tuple[Buffer, ...] = ()


__all__ = ["SMS", "CudaKernel", "CudaSource", "Number", "Parameter", "Pointer", "RunKernel", "TensorMap"]
