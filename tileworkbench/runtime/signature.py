"""What a kernel wants from its caller: tensors, scalars, and where each symbolic dim comes from.

Made once from the IR. `arguments` checks a call against it and `fastcall` turns it into straight-line Python.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import DTypeLike

from ..base.dtypes import DType
from ..base.errors import TileValueError
from ..ir.expr import AddressOf, Buffer, Const, Expr, Load, Var
from ..ir.node import Node, walk
from ..ir.stmt import Atomic, Copy, Fill, Gemm, Kernel, Reduce, Region, ScalarParam, Scan, Store, TensorParam
from .expressions import is_linear, unknowns


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """A tensor parameter. `strides` is None for a contiguous tensor; `is_used` is False when no statement touches it (it may be None then)."""

    name: str
    shape: tuple[Expr, ...]
    dtype: DType
    strides: tuple[Expr, ...] | None
    is_output: bool
    is_written: bool
    is_used: bool
    const_names: tuple[str, ...] = ()  # per dim the `T.const` that it was specialised from, or ""

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def static_shape(self) -> tuple[int | None, ...]:
        """The shape with None for every symbolic dim."""
        return tuple(int(d.value) if isinstance(d, Const) else None for d in self.shape)

    def numpy_dtype(self) -> np.dtype[np.generic]:
        """The dtype of a NumPy array for this tensor."""
        as_dtype: DTypeLike = self.dtype.to_numpy()
        return np.dtype(as_dtype)


@dataclass(frozen=True, slots=True)
class ScalarSpec:
    """A run-time scalar; `default` is None when the caller must pass it."""

    name: str
    dtype: DType
    default: int | float | None


@dataclass(frozen=True, slots=True)
class Source:
    """How to find dim `name`: `expr` is what tensor `tensor` (index among all tensors) says of its size or stride in `axis`."""

    name: str
    tensor: int
    axis: int
    is_stride: bool
    expr: Expr

    @property
    def is_direct(self) -> bool:
        return isinstance(self.expr, Var)


@dataclass(frozen=True, slots=True)
class Signature:
    """Parameters in call order, and the dims in the order in which they can be solved."""

    kernel: str
    params: tuple[TensorSpec | ScalarSpec, ...]
    dims: tuple[str, ...]
    sources: tuple[Source, ...]
    workspaces: tuple[Buffer, ...]
    output_order: tuple[int, ...]  # indices into `tensors`, in the order in which the results are returned
    returns_tuple: bool = False  # also when there is only one result

    @property
    def tensors(self) -> tuple[TensorSpec, ...]:
        return tuple(p for p in self.params if isinstance(p, TensorSpec))

    @property
    def scalars(self) -> tuple[ScalarSpec, ...]:
        return tuple(p for p in self.params if isinstance(p, ScalarSpec))

    @property
    def inputs(self) -> tuple[TensorSpec | ScalarSpec, ...]:
        """What the caller passes: everything but the outputs."""
        return tuple(p for p in self.params if isinstance(p, ScalarSpec) or not p.is_output)

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        tensors = self.tensors
        return tuple(tensors[i] for i in self.output_order)


def signature_of(kernel: Kernel, outputs: tuple[int, ...] = (), returns_tuple: bool = False) -> Signature:
    """The signature of `kernel`; `outputs` are the positions of its outputs among the parameters, in the order of return (else: their own).

    Raises: TileValueError if a symbolic dim cannot be found from the arguments.
    """
    touched, written = _uses(kernel)
    params: list[TensorSpec | ScalarSpec] = []
    for param in kernel.params:
        match param:
            case TensorParam(buffer=b, is_output=out, const_dims=names):
                if out and b.name not in written:
                    raise TileValueError(
                        f"the kernel `{kernel.name}` never writes its output {b.name}", span=b.span,
                        hint="assigning to the name only binds it: store to its elements, or T.copy a tile to it",
                    )  # fmt: skip
                params.append(TensorSpec(b.name, b.shape, b.type, b.strides, out, out or b.name in written, b.name in touched, names))
            case ScalarParam(var=var, default=default):
                params.append(ScalarSpec(var.name, var.type, default))
    tensors = [p for p in params if isinstance(p, TensorSpec)]
    order = tuple([t.name for t in tensors].index(params[place].name) for place in outputs) or tuple(i for i, t in enumerate(tensors) if t.is_output)
    sources = _find_sources(kernel, tensors)
    return Signature(kernel.name, tuple(params), tuple(v.name for v in kernel.dims), sources, kernel.workspaces, order, returns_tuple)


def _uses(kernel: Kernel) -> tuple[set[str], set[str]]:
    """Names of the root buffers that the body touches, and of those that it writes (or may write)."""
    touched: set[str] = set()
    written: set[str] = set()
    for launch_or_host in kernel.body:
        for node in walk(launch_or_host):
            for buffer in _buffers(node):
                touched.add(buffer.root.name)
            written |= {b.root.name for b in _written(node)}
    return touched, written


def _buffers(node: Node) -> tuple[Buffer, ...]:
    match node:
        case Load(buffer=b) | Store(buffer=b) | Region(buffer=b) | AddressOf(buffer=b):
            return (b,)
        case _:
            found = getattr(node, "buffer", None)
            return (found,) if isinstance(found, Buffer) else ()


def _written(node: Node) -> tuple[Buffer, ...]:
    match node:
        case Store(buffer=b) | AddressOf(buffer=b):
            return (b,)
        case Copy(dst=r) | Fill(dst=r) | Gemm(c=r) | Reduce(dst=r) | Scan(dst=r):
            return (r.buffer,)
        case Atomic(dst=r, op=op):
            return () if op == "load" else (r.buffer,)
        case _:
            return ()


def _find_sources(kernel: Kernel, tensors: list[TensorSpec]) -> tuple[Source, ...]:
    """For each dim a place to read it from, or to solve it from; direct ones first, then what they make solvable."""
    places = [
        Source("", t, axis, is_stride, expr)
        for t, spec in enumerate(tensors)
        if not spec.is_output
        for is_stride, exprs in ((False, spec.shape), (True, spec.strides or ()))
        for axis, expr in enumerate(exprs)
    ]
    scalars = {p.var.name for p in kernel.params if isinstance(p, ScalarParam)}
    sources: dict[str, Source] = {}
    for place in places:
        if isinstance(place.expr, Var) and place.expr.name not in sources and place.expr.name not in scalars:
            sources[place.expr.name] = Source(place.expr.name, place.tensor, place.axis, place.is_stride, place.expr)
    wanted = [v for v in kernel.dims if v.name not in scalars]
    progress = True
    while progress:
        progress = False
        for place in places:
            missing = unknowns(place.expr) - sources.keys() - scalars
            name = next(iter(missing), "")
            if len(missing) == 1 and is_linear(place.expr, name):
                sources[name] = Source(name, place.tensor, place.axis, place.is_stride, place.expr)
                progress = True
    for var in wanted:
        if var.name not in sources:
            raise TileValueError(
                f"the symbolic dim {var.hint or var.name} of kernel {kernel.name} cannot be found from its arguments", span=var.span,
                hint="it must be a size or stride of a tensor argument, or the only unknown in a linear one such as m + 1",
            )  # fmt: skip
    return tuple(sources.values())
