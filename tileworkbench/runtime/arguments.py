"""Check a call against the kernel's signature, and bind it.

Everything that is wrong is found before anything runs, and reported together: the kernel, the argument, what was expected, what came, what to change.
Nothing is copied, with two exceptions that the caller asked for: int4 arrays with one element to a byte are packed, and an int8 array given for a
bool tensor is brought to 0 and 1 when it holds other values.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from ..base.errors import ArgumentError, raise_all
from . import packing
from .arrays import HostArray, allocate, describe, hand_over
from .checks import Checker
from .expressions import evaluate
from .overlap import check_overlap
from .signature import ScalarSpec, Signature, TensorSpec


class Memory(Protocol):
    """Where a target's arrays live."""

    def describe(self, value: Any) -> HostArray:
        """Look at an array; raises NotAnArray for one that lives elsewhere."""

    def allocate(self, shape: tuple[int, ...], dtype: np.dtype[Any], library: str, like: Any) -> tuple[np.ndarray[Any, Any], Any]:
        """A new array: its view, and what to hand to the caller."""

    def kind(self, param: TensorSpec | ScalarSpec, host: HostArray | None) -> str:
        """How a repeated call can find this input's pointer; "slow" if only the long way can."""

    def fetch(self, value: Any) -> np.ndarray[Any, Any]:
        """The elements of an array, where the host can read them."""


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
    origin: Any = None  # the caller's array, for an input

    @property
    def given(self) -> Any:
        """The caller's array, or the one that was made for it."""
        return self.origin if self.origin is not None else self.result

    @property
    def pointer(self) -> int:
        return int(self.array.__array_interface__["data"][0])

    @property
    def nbytes(self) -> int:
        return int(self.array.nbytes)


@dataclass(slots=True)
class BoundCall:
    """A checked call: memory for every tensor parameter, a value for every dim and scalar."""

    signature: Signature
    tensors: list[BoundTensor]
    scalars: dict[str, Any]
    dims: dict[str, int]
    threads: int = 1
    kinds: tuple[str, ...] = field(default=())  # per input: how a repeated call can find its pointer, for `fastcall`
    memory: Memory | None = None  # where the arrays are, if not in the host's memory

    def inputs(self) -> list[Any]:
        """What the caller gave, in order: the call that this is, to be made again."""
        given = {b.spec.name: b.given for b in self.tensors}
        return [given[p.name] if p.name in given else self.scalars[p.name] for p in self.signature.inputs]

    def readable(self) -> Mapping[str, np.ndarray[Any, Any]]:
        """Every tensor by name, where the host can read it: the array itself, or a copy of one in a GPU's memory, made when somebody looks."""
        return _Readable(self.tensors, self.memory)

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


class _Readable(Mapping[str, np.ndarray[Any, Any]]):
    """Tensors by name; those of another memory are fetched once each, when they are asked for."""

    def __init__(self, tensors: Sequence[BoundTensor], memory: Memory | None) -> None:
        self._tensors = {b.spec.name: b for b in tensors}
        self._memory = memory
        self._fetched: dict[str, np.ndarray[Any, Any]] = {}

    def __getitem__(self, name: str) -> np.ndarray[Any, Any]:
        bound = self._tensors[name]
        if self._memory is None or bound.given is None:
            return bound.array
        if name not in self._fetched:
            self._fetched[name] = self._memory.fetch(bound.given)
        return self._fetched[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._tensors)

    def __len__(self) -> int:
        return len(self._tensors)


def bind(signature: Signature, args: Sequence[Any], kwargs: Mapping[str, Any], threads: int = 1, memory: Memory | None = None) -> BoundCall:
    """Check the arguments and allocate the outputs, in the host's memory unless `memory` says otherwise. Raises ArgumentError (or several)."""
    return _Binder(signature, memory or HOST).bind(_in_order(signature, args, kwargs), threads)


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


class _Binder(Checker):
    """One call: checked, then bound to memory."""

    def __init__(self, signature: Signature, memory: Memory) -> None:
        super().__init__(signature, memory.describe)
        self.place = memory

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
        raise_all([*self.errors, *check_overlap(self.signature.kernel, tensors)])
        dims = {name: self.known[name] for name in self.signature.dims}
        kinds = tuple(self.place.kind(p, hosts.get(p.name)) for p in self.signature.inputs)
        return BoundCall(self.signature, tensors, scalars, dims, threads, kinds, None if self.place is HOST else self.place)

    # ------------------------------------------------------------------ memory
    def memory(self, spec: TensorSpec, host: HostArray | None, is_packed: bool, model: HostArray | None, any_packed: bool) -> BoundTensor:
        shape = tuple(evaluate(d, self.known) for d in spec.shape)
        if spec.is_output:
            return self.output(spec, shape, model, any_packed)
        if host is None:
            return BoundTensor(spec, np.empty(0, np.uint8), shape)
        if spec.dtype in packing.NAMES and not is_packed:
            return BoundTensor(spec, packing.pack(host.array), shape, unpacked=host.array if spec.is_written else None)
        if spec.dtype.is_bool and host.dtype != "bool" and not host.is_readable:
            self.fault(spec.name, f"expected a bool array, got {host.dtype}", f"pass {spec.name} != 0")
            return BoundTensor(spec, np.empty(0, np.uint8), shape)
        if spec.dtype.is_bool and host.dtype != "bool" and host.array.size and not _is_zero_or_one(host.array):
            if spec.is_written:
                self.fault(spec.name, f"expected a bool array, got {host.dtype} with values other than 0 and 1", f"pass {spec.name} != 0")
            return BoundTensor(spec, host.array != 0, shape)
        return BoundTensor(spec, host.array, shape, origin=host.origin)

    def output(self, spec: TensorSpec, shape: tuple[int, ...], model: HostArray | None, any_packed: bool) -> BoundTensor:
        if min(shape, default=1) < 0:
            self.fault(spec.name, f"the output would have the shape {shape}")
            return BoundTensor(spec, np.empty(0, np.uint8), shape)
        library = model.library if model is not None else "numpy"
        like = model.origin if model is not None else None
        if spec.dtype in packing.NAMES and not any_packed and library == "numpy" and self.place is HOST:
            unpacked: np.ndarray[Any, Any] = np.empty(shape, spec.numpy_dtype())
            return BoundTensor(spec, np.empty((math.prod(shape) + 1) // 2, np.uint8), shape, unpacked, unpacked)
        if spec.dtype in packing.NAMES:
            array, result = self.place.allocate((*shape[:-1], (shape[-1] + 1) // 2), np.dtype(np.int8), library, like)
        else:
            array, result = self.place.allocate(shape, spec.numpy_dtype(), library, like)
        return BoundTensor(spec, array, shape, result, like=like)


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


class _Host:
    """The memory of this machine's processor."""

    describe = staticmethod(describe)
    allocate = staticmethod(allocate)
    kind = staticmethod(_kind)

    @staticmethod
    def fetch(value: Any) -> np.ndarray[Any, Any]:
        return describe(value).array


HOST: Memory = _Host()
