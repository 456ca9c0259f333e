"""Check a call against the kernel's signature, and bind it.

Everything that is wrong is found before anything runs, and reported together: the kernel, the argument, what was expected, what came, what to change.
Nothing is copied, with two exceptions that the caller asked for: int4 arrays with one element to a byte are packed, and an int8 array given for a
bool tensor is brought to 0 and 1 when it holds other values.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..base.dtypes import DType
from ..base.errors import ArgumentError, TileError, raise_all
from . import packing
from .arrays import HostArray, NotAnArray, allocate, describe, hand_over
from .expressions import evaluate, show, solve, unknowns
from .signature import ScalarSpec, Signature, Source, TensorSpec

_SAME_BITS = ({"bool", "int8", "uint8"},)  # host arrays of one of these may stand for another


@dataclass(slots=True)
class BoundTensor:
    """A tensor of a call: `array` is the memory that the kernel works on, `shape` the tensor's shape as the kernel sees it.

    `unpacked` is the int4 array to fill from it afterwards, or None.
    """

    spec: TensorSpec
    array: np.ndarray[Any, Any]
    shape: tuple[int, ...]
    result: Any = None  # what the caller gets for an output
    unpacked: np.ndarray[Any, Any] | None = None
    like: Any = None

    @property
    def pointer(self) -> int:
        return int(self.array.__array_interface__["data"][0])


@dataclass(slots=True)
class BoundCall:
    """A checked call: memory for every tensor parameter, a value for every dim and scalar."""

    signature: Signature
    tensors: list[BoundTensor]
    scalars: dict[str, Any]
    dims: dict[str, int]
    threads: int = 1
    kinds: tuple[str, ...] = field(default=())  # per input: how a repeated call can find its pointer, for `fastcall`

    def results(self) -> Any:
        """The outputs as the caller's kind of arrays: None, the one, or a tuple. Also writes int4 arguments back."""
        for bound in self.tensors:
            if bound.unpacked is not None:
                bound.unpacked[...] = packing.unpack(bound.array, bound.unpacked.shape, bound.unpacked.dtype)
        outs = []
        for index in self.signature.output_order:
            bound = self.tensors[index]
            outs.append(bound.result if bound.result is not None else hand_over(bound.array, bound.like))
        return None if not outs else outs[0] if len(outs) == 1 and not self.signature.returns_tuple else tuple(outs)


def bind(signature: Signature, args: Sequence[Any], kwargs: Mapping[str, Any], threads: int = 1) -> BoundCall:
    """Check the arguments and allocate the outputs. Raises ArgumentError (or several as a group)."""
    return _Binder(signature).bind(_in_order(signature, args, kwargs), threads)


def _in_order(signature: Signature, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
    """One value per input: positions first, then names, then the defaults of scalars."""
    inputs = signature.inputs
    names = [p.name for p in inputs]
    if len(args) > len(inputs):
        outputs = [t.name for t in signature.outputs]
        hint = f"the outputs ({', '.join(outputs)}) are allocated and returned: do not pass them" if outputs else ""
        raise ArgumentError(f"kernel {signature.kernel} takes {_count(len(inputs))} ({', '.join(names)}), got {len(args)}", hint=hint)
    values: dict[str, Any] = dict(zip(names, args, strict=False))
    for name, value in kwargs.items():
        if name not in names:
            raise ArgumentError(f"kernel {signature.kernel} has no argument {name!r}", hint=f"its arguments are {', '.join(names)}")
        if name in values:
            raise ArgumentError(f"kernel {signature.kernel} got argument {name} twice")
        values[name] = value
    for param in inputs:
        if isinstance(param, ScalarSpec) and param.default is not None:
            values.setdefault(param.name, param.default)
    missing = [name for name in names if name not in values]
    if missing:
        raise ArgumentError(
            f"kernel {signature.kernel} takes {_count(len(inputs))} ({', '.join(names)}), got {len(args)}", hint=f"missing: {', '.join(missing)}"
        )
    return [values[name] for name in names]


def _count(n: int) -> str:
    return "1 argument" if n == 1 else f"{n} arguments"


class _Binder:
    """One check of one call; collects faults."""

    def __init__(self, signature: Signature) -> None:
        self.signature = signature
        self.errors: list[TileError] = []
        self.known: dict[str, int] = {}
        self.origin: dict[str, str] = {}  # dim -> where its value came from, for messages

    def bind(self, values: list[Any], threads: int) -> BoundCall:
        scalars: dict[str, Any] = {}
        hosts: dict[str, HostArray | None] = {}
        packed: set[str] = set()
        for param, value in zip(self.signature.inputs, values, strict=True):
            if isinstance(param, ScalarSpec):
                scalars[param.name] = self.scalar(param, value)
            else:
                hosts[param.name] = self.tensor(param, value, packed)
        raise_all(self.errors)
        self.known.update({k: v for k, v in scalars.items() if isinstance(v, int)})
        self.solve_dims(hosts, packed)
        raise_all(self.errors)
        for spec in self.signature.tensors:
            host = hosts.get(spec.name)
            if host is not None:
                self.check_shape(spec, host, spec.name in packed)
        raise_all(self.errors)
        model = next((h for h in hosts.values() if h is not None), None)
        tensors = [self.memory(s, hosts.get(s.name), s.name in packed, model, bool(packed)) for s in self.signature.tensors]
        raise_all(self.errors)
        dims = {name: self.known[name] for name in self.signature.dims}
        kinds = tuple(_kind(p, hosts.get(p.name)) for p in self.signature.inputs)
        return BoundCall(self.signature, tensors, scalars, dims, threads, kinds)

    def fault(self, name: str, text: str, hint: str = "") -> None:
        self.errors.append(ArgumentError(f"kernel {self.signature.kernel}, argument {name}: {text}", hint=hint))

    # ------------------------------------------------------------------ scalars
    def scalar(self, spec: ScalarSpec, value: Any) -> int | float | bool:
        dtype = spec.dtype
        plain: Any = value.item() if hasattr(value, "item") and getattr(value, "shape", None) == () else value
        if not isinstance(plain, numbers.Real):
            self.fault(spec.name, f"expected a number ({dtype}), got {type(value).__name__}")
            return 0
        real = float(plain) if not isinstance(plain, numbers.Integral) else int(plain)
        if dtype.is_float:
            return float(real)
        if dtype.is_bool:
            return bool(real)
        if isinstance(real, float) and not real.is_integer():
            self.fault(spec.name, f"expected a whole number ({dtype}), got {value!r}", "round it yourself, or declare the argument as T.float32")
            return 0
        number = int(real)
        if not dtype.min <= number <= dtype.max:
            self.fault(spec.name, f"{number} does not fit {dtype} ({dtype.min} to {dtype.max})", "declare the argument with a wider type")
        return number

    # ------------------------------------------------------------------ tensors, one at a time
    def tensor(self, spec: TensorSpec, value: Any, packed: set[str]) -> HostArray | None:
        if value is None and not spec.is_used:
            return None
        try:
            host = describe(value)
        except NotAnArray as error:
            self.fault(spec.name, f"expected {_wanted(spec)}, got {error}", error.hint)
            return None
        if spec.dtype in packing.NAMES and host.dtype in ("int8", "uint8"):
            packed.add(spec.name)
        elif not _dtype_fits(spec.dtype, host.dtype):
            self.fault(spec.name, f"expected dtype {spec.dtype}, got {host.dtype}", _dtype_hint(spec, host))
            return None
        if len(host.shape) != spec.rank:
            self.fault(
                spec.name, f"expected {_rank(spec.rank)} {_shape_text(spec)}, got {_rank(len(host.shape))} {host.shape}", f"reshape {spec.name}"
            )
            return None
        if spec.is_written and not host.writable:
            what = "read-only" if host.library == "numpy" else f"a {host.library} array, which cannot be written"
            self.fault(
                spec.name,
                f"the kernel writes it, but it is {what}",
                f"pass a copy: {spec.name}.copy()" if host.library == "numpy" else "return it as an output",
            )
            return None
        if host.array.size and not host.is_aligned:
            self.fault(spec.name, "its elements are not aligned in memory", f"pass a copy: {_copy_call(spec.name, host)}")
            return None
        return host

    # ------------------------------------------------------------------ dims
    def solve_dims(self, hosts: Mapping[str, HostArray | None], packed: set[str]) -> None:
        tensors = self.signature.tensors
        for source in self.signature.sources:
            spec = tensors[source.tensor]
            host = hosts.get(spec.name)
            if host is None:
                self.solve_elsewhere(source, hosts)
                continue
            value = _extent(host, source, spec.name in packed)
            if value is None:
                self.fault(
                    spec.name, f"its byte strides {host.array.strides} are no whole number of elements", f"pass a copy: {_copy_call(spec.name, host)}"
                )
                self.known[source.name] = 0
                continue
            place = f"{spec.name}.{'strides' if source.is_stride else 'shape'}[{source.axis}]"
            solved = value if source.is_direct else solve(source.expr, source.name, value, self.known)
            if solved is None:
                self.fault(
                    spec.name, f"dim {source.axis} is {value}, but {show(source.expr)} cannot have that value", f"{source.name} is found from {place}"
                )
                solved = 0
            self.known[source.name] = solved
            self.origin[source.name] = place

    def solve_elsewhere(self, source: Source, hosts: Mapping[str, HostArray | None]) -> None:
        """The tensor that names this dim is None: take the first other one that does."""
        for spec in self.signature.tensors:
            host = hosts.get(spec.name)
            for axis, expr in enumerate(spec.shape if host is not None else ()):
                if host is not None and getattr(expr, "name", None) == source.name:
                    self.known[source.name] = host.shape[axis]
                    self.origin[source.name] = f"{spec.name}.shape[{axis}]"
                    return
        self.known[source.name] = 0

    def check_shape(self, spec: TensorSpec, host: HostArray, is_packed: bool) -> None:
        want = tuple(evaluate(d, self.known) for d in spec.shape)
        got = host.shape
        if is_packed:
            want = (*want[:-1], (want[-1] + 1) // 2)
        for axis, (w, g) in enumerate(zip(want, got, strict=True)):
            if w != g:
                self.fault(spec.name, self._dim_text(spec, axis, w, got, is_packed), self._dim_hint(spec, axis, is_packed))
                return
        if 0 in got:
            return
        if spec.strides is None:
            if not host.is_contiguous:
                self.fault(
                    spec.name, f"it is not contiguous: shape {got} with strides {host.strides or host.array.strides}, expected {_row_major(got)}",
                    f"pass {_contiguous_call(spec.name, host)}, or declare it as T.StridedTensor",
                )  # fmt: skip
            return
        self.check_strides(spec, host)

    def check_strides(self, spec: TensorSpec, host: HostArray) -> None:
        assert spec.strides is not None
        have = host.strides
        if have is None:
            self.fault(
                spec.name, f"its byte strides {host.array.strides} are no whole number of elements", f"pass a copy: {_copy_call(spec.name, host)}"
            )
            return
        for axis, expr in enumerate(spec.strides):
            want = evaluate(expr, self.known)
            if host.shape[axis] > 1 and have[axis] != want:
                why = "" if not unknowns(expr) else f" = {show(expr)}"
                self.fault(
                    spec.name,
                    f"expected stride {want}{why} in dim {axis}, got {have[axis]} (strides {have})",
                    "strides count elements; a T.dynamic stride takes any",
                )
                return

    def _dim_text(self, spec: TensorSpec, axis: int, want: int, got: tuple[int, ...], is_packed: bool) -> str:
        expr = spec.shape[axis]
        if not unknowns(expr):
            kind = "packed bytes of shape" if is_packed else "shape"
            return f"expected {kind} {_shape_text(spec, is_packed)}, got {got}"
        parts = [f"{show_name} is {self.known[name]} from {self.origin[name]}" for name, show_name in _named(expr) if name in self.origin]
        head = f"{show(expr)} is {want}" if len(parts) != 1 or show(expr) != _named(expr)[0][1] else ""
        reason = " and ".join([*([head] if head else []), *parts])
        return f"dim {axis} is {got[axis]}, but {reason} (shape {_shape_text(spec)}, got {got})"

    def _dim_hint(self, spec: TensorSpec, axis: int, is_packed: bool) -> str:
        if is_packed and axis == spec.rank - 1:
            return "an int8 or uint8 array holds two int4 elements to a byte; one with an element to a byte has dtype ml_dtypes.int4"
        if unknowns(spec.shape[axis]):
            return f"the sizes of {spec.name} and of the other tensor must agree"
        return "the kernel was compiled for these sizes; compile it for others, or use T.dynamic dims"

    # ------------------------------------------------------------------ memory
    def memory(self, spec: TensorSpec, host: HostArray | None, is_packed: bool, model: HostArray | None, any_packed: bool) -> BoundTensor:
        shape = tuple(evaluate(d, self.known) for d in spec.shape)
        if spec.is_output:
            return self.output(spec, shape, model, any_packed)
        if host is None:
            return BoundTensor(spec, np.empty(0, np.uint8), shape)
        if spec.dtype in packing.NAMES and not is_packed:
            return BoundTensor(spec, packing.pack(host.array), shape, unpacked=host.array if spec.is_written else None)
        if spec.dtype.is_bool and host.dtype != "bool" and host.array.size and not _is_zero_or_one(host.array):
            if spec.is_written:
                self.fault(spec.name, f"expected a bool array, got {host.dtype} with values other than 0 and 1", f"pass {spec.name} != 0")
            return BoundTensor(spec, host.array != 0, shape)
        return BoundTensor(spec, host.array, shape)

    def output(self, spec: TensorSpec, shape: tuple[int, ...], model: HostArray | None, any_packed: bool) -> BoundTensor:
        if min(shape, default=1) < 0:
            self.fault(spec.name, f"the output would have the shape {shape}")
            return BoundTensor(spec, np.empty(0, np.uint8), shape)
        library = model.library if model is not None else "numpy"
        like = model.origin if model is not None else None
        if spec.dtype in packing.NAMES and not any_packed and library == "numpy":
            unpacked: np.ndarray[Any, Any] = np.empty(shape, spec.numpy_dtype())
            return BoundTensor(spec, np.empty((math.prod(shape) + 1) // 2, np.uint8), shape, unpacked, unpacked)
        if spec.dtype in packing.NAMES:
            array, result = allocate((*shape[:-1], (shape[-1] + 1) // 2), np.dtype(np.int8), library, like)
        else:
            array, result = allocate(shape, spec.numpy_dtype(), library, like)
        return BoundTensor(spec, array, shape, result, like=like)


# ---------------------------------------------------------------------- small texts
def _extent(host: HostArray, source: Source, is_packed: bool) -> int | None:
    if source.is_stride:
        strides = host.strides
        return None if strides is None else strides[source.axis]
    size = host.shape[source.axis]
    return size * 2 if is_packed and source.axis == len(host.shape) - 1 else size


def _dtype_fits(want: DType, got: str) -> bool:
    name = "float32" if want == "tfloat32" else str(want)
    return name == got or any(name in same and got in same for same in _SAME_BITS)


def _dtype_hint(spec: TensorSpec, host: HostArray) -> str:
    if host.library == "torch":
        return f"convert it: {spec.name}.to(torch.{spec.dtype})"
    name = f"np.{spec.dtype}" if spec.dtype.to_numpy().isbuiltin == 1 else f"ml_dtypes.{spec.dtype}"
    if host.array.dtype.itemsize == spec.dtype.nbytes and host.array.dtype.kind in "iu" and spec.dtype.is_float:
        return f"if it holds the bits of {spec.dtype}: {spec.name}.view({name}); if it holds numbers: {spec.name}.astype({name})"
    return f"convert it: {spec.name}.astype({name})"


def _wanted(spec: TensorSpec) -> str:
    return f"a {spec.dtype} array of shape {_shape_text(spec)}"


def _shape_text(spec: TensorSpec, is_packed: bool = False) -> str:
    dims = [show(d) for d in spec.shape]
    if is_packed and dims:
        dims[-1] = str(((spec.static_shape[-1] or 0) + 1) // 2)
    return f"({', '.join(dims)}{',' if len(dims) == 1 else ''})"


def _rank(n: int) -> str:
    return "1 dim" if n == 1 else f"{n} dims"


def _named(expr: Any) -> list[tuple[str, str]]:
    """(name, what to call it) of the variables of an expression, sorted."""
    return [(name, name) for name in sorted(unknowns(expr))]


def _row_major(shape: tuple[int, ...]) -> tuple[int, ...]:
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= size
    return tuple(reversed(strides))


def _contiguous_call(name: str, host: HostArray) -> str:
    return f"{name}.contiguous()" if host.library == "torch" else f"np.ascontiguousarray({name})"


def _copy_call(name: str, host: HostArray) -> str:
    return f"{name}.clone()" if host.library == "torch" else f"{name}.copy()"


def _is_zero_or_one(array: np.ndarray[Any, Any]) -> bool:
    return bool(((array == 0) | (array == 1)).all())


def _kind(param: TensorSpec | ScalarSpec, host: HostArray | None) -> str:
    """How a repeated call finds this input's pointer: "buffer", "bits", "interface", "torch", "scalar", or "slow"."""
    if isinstance(param, ScalarSpec):
        return "scalar"
    if host is None or param.dtype in packing.NAMES or host.dtype != ("float32" if param.dtype == "tfloat32" else param.dtype):
        return "slow"
    if host.library == "torch":
        return "torch"
    if host.library != "numpy" or type(host.origin) is not np.ndarray:
        return "slow"
    if not host.writable or host.array.size == 0 or param.strides is not None:
        return "interface"
    return "buffer" if host.array.dtype.isbuiltin == 1 else "bits"
