"""The short way of a repeated call: straight-line Python made for one signature and one kind of arrays.

`arguments.bind` explains every fault and accepts every array; that takes tens of microseconds. Once a call went through, the same checks are written
out as a Python function for the kinds of arrays that came (about 1 us an array). Whatever it does not expect it passes on to the long way.
"""

from __future__ import annotations

import ctypes
import math
import struct
import sys
from collections.abc import Callable
from itertools import combinations
from typing import Any

import numpy as np

from ..base.dtypes import DType
from ..ir.expr import Const
from . import packing
from .expressions import HELPERS, evaluate, python_text
from .fork import LIMIT
from .loader import Entry
from .signature import ScalarSpec, Signature, TensorSpec

Slow = Callable[[tuple[Any, ...], dict[str, Any]], Any]


def make(
    signature: Signature, kinds: tuple[str, ...], entry: Entry, fail: Callable[[int], None], threads: int | None, slow: Slow
) -> Callable[..., Any] | None:
    """A function of the call's positional arguments, or None when this signature or these arrays need the long way every time."""
    if "slow" in kinds or any(not s.is_direct or s.is_stride for s in signature.sources):
        return None
    if any(s.dtype == "uint64" for s in signature.scalars) or any(t.dtype in packing.NAMES for t in signature.tensors):
        return None
    if any(t.strides is not None for t in signature.tensors):
        return None
    writer = Writer(signature, kinds)
    text = writer.function()
    names = {**HELPERS, **writer.names, "_entry": entry, "_fail": fail, "_slow": slow, "_limit": LIMIT, "_threads": LIMIT.of(threads)}
    exec(compile(text, f"<call of {signature.kernel}>", "exec"), names)
    function: Callable[..., Any] = names["call"]
    return function


def pack_format(signature: Signature) -> str:
    """The layout of a kernel's argument block for `struct`: pointers, workspaces and dims as 64-bit integers, float scalars as doubles."""
    scalars = "".join("d" if s.dtype.is_float else "Q" if s.dtype == "uint64" else "q" for s in signature.scalars)
    return f"={'Q' * (len(signature.tensors) + len(signature.workspaces))}{'q' * len(signature.dims)}{scalars}"


class Writer:
    """Writes the function; `names` collects the values that it refers to."""

    def __init__(self, signature: Signature, kinds: tuple[str, ...]) -> None:
        self.signature = signature
        self.kinds = dict(zip((p.name for p in signature.inputs), kinds, strict=True))
        self.index = {p.name: i for i, p in enumerate(signature.params)}
        self.dims = {name: f"d{i}" for i, name in enumerate(signature.dims)}
        self.dims.update({s.name: f"a{self.index[s.name]}" for s in signature.scalars})
        self.names: dict[str, Any] = {"_ndarray": np.ndarray, "_empty": np.empty, "_at": ctypes.addressof, "_view": ctypes.c_char.from_buffer}
        self.names["_pack"] = struct.Struct(pack_format(signature)).pack
        self.lines: list[str] = []
        self.shapes: dict[str, str] = {}  # a shape as text -> the variable of a tensor that is known to have it
        self.ends: dict[str, str] = {}  # a tensor -> the variable of the address behind it
        self.sizes: dict[str, str] = {}  # a number of bytes as text -> its variable
        self.has_torch = "torch" in kinds
        if self.has_torch:
            self.names["_tensor"] = sys.modules["torch"].Tensor

    def function(self) -> str:
        inputs = self.signature.inputs
        args = [f"a{self.index[p.name]}" for p in inputs]
        self.add(f"if len(args) != {len(args)}: return _slow(args, {{}})")
        if args:
            self.add(f"{', '.join(args)}, = args")
        for param in inputs:
            self.check_scalar(param) if isinstance(param, ScalarSpec) else self.check_kind(param)
        for source in self.signature.sources:
            tensor = self.signature.tensors[source.tensor]
            self.add(f"{self.dims[source.name]} = s{self.index[tensor.name]}[{source.axis}]")
        for param in inputs:
            if isinstance(param, TensorSpec):
                self.check_dims(param)
        self.add("try:")
        for param in inputs:
            if isinstance(param, TensorSpec):
                self.pointer(param)
        self.add("  pass")
        self.add("except (TypeError, ValueError, BufferError, RuntimeError): return _slow(args, {})")
        for one, other in combinations([p for p in inputs if isinstance(p, TensorSpec)], 2):
            if one.is_written or other.is_written:
                self.check_overlap(one, other)
        for tensor in self.signature.tensors:
            if tensor.is_output:
                self.output(tensor)
        self.call()
        return "def call(*args):\n" + "\n".join("  " + line for line in self.lines) + "\n"

    def add(self, line: str) -> None:
        self.lines.append(line)

    def text(self, expr: Any) -> str:
        return python_text(expr, self.dims)

    def check_scalar(self, spec: ScalarSpec) -> None:
        a = f"a{self.index[spec.name]}"
        if spec.dtype.is_float:
            self.add(f"if type({a}) is not float: return _slow(args, {{}})")
        elif spec.dtype.is_bool:
            self.add(f"if type({a}) is not bool: return _slow(args, {{}})")
        else:
            self.add(f"if type({a}) is not int or not {int(spec.dtype.min)} <= {a} <= {int(spec.dtype.max)}: return _slow(args, {{}})")

    def check_kind(self, spec: TensorSpec) -> None:
        i = self.index[spec.name]
        if self.kinds[spec.name] == "torch":
            self.names[f"_t{i}"] = getattr(sys.modules["torch"], plain_name(spec.dtype))
            tests = f"type(a{i}) is not _tensor or a{i}.dtype is not _t{i} or not a{i}.is_cpu or a{i}.is_neg()"
        else:
            self.names[f"_t{i}"] = spec.numpy_dtype()
            tests = f"type(a{i}) is not _ndarray or a{i}.dtype != _t{i}"
        self.add(f"if {tests}: return _slow(args, {{}})")
        self.add(f"s{i} = a{i}.shape")
        self.check_rank(spec)

    def check_rank(self, spec: TensorSpec) -> None:
        """Where a dim is read from this tensor: it has as many as it should. The comparison of whole shapes sees to the others."""
        if any(self.signature.tensors[source.tensor].name == spec.name for source in self.signature.sources):
            self.add(f"if len(s{self.index[spec.name]}) != {spec.rank}: return _slow(args, {{}})")

    def check_dims(self, spec: TensorSpec) -> None:
        i = self.index[spec.name]
        if all(isinstance(d, Const) for d in spec.shape):
            self.names[f"_s{i}"] = tuple(evaluate(d, {}) for d in spec.shape)
            self.add(f"if s{i} != _s{i}: return _slow(args, {{}})")
            return
        wanted = f"({', '.join(self.text(d) for d in spec.shape)},)"
        if not self.names_its_dims(spec):
            self.add(f"if s{i} != {self.shapes.get(wanted, wanted)}: return _slow(args, {{}})")
        self.shapes.setdefault(wanted, f"s{i}")

    def names_its_dims(self, spec: TensorSpec) -> bool:
        """Whether each dim of this tensor was read from it, so that there is nothing to compare."""
        read = {(self.signature.tensors[s.tensor].name, s.axis): self.dims[s.name] for s in self.signature.sources if not s.is_stride}
        return all(read.get((spec.name, axis)) == self.text(d) for axis, d in enumerate(spec.shape))

    def pointer(self, spec: TensorSpec) -> None:
        i, mask = self.index[spec.name], int(spec.numpy_dtype().itemsize) - 1
        kind = self.kinds[spec.name]
        if kind == "torch":
            self.add(f"  if not a{i}.is_contiguous(): return _slow(args, {{}})")
            self.add(f"  p{i} = a{i}.data_ptr()")
        elif kind == "buffer":
            self.add(f"  p{i} = _at(_view(a{i}))")
        elif kind == "bits":  # ml_dtypes' types export no buffer, their bits do
            self.names[f"_bits{i}"] = f"u{mask + 1}"
            self.add(f"  p{i} = _at(_view(a{i}.view(_bits{i})))")
        else:
            self.add(f"  n{i} = a{i}.__array_interface__")
            self.add(f"  p{i}, r{i} = n{i}['data']")
            read_only = f" or r{i}" if spec.is_written else ""
            self.add(f"  if n{i}['strides'] is not None{read_only}: return _slow(args, {{}})")
        if mask:
            self.add(f"  if p{i} & {mask}: return _slow(args, {{}})")

    def check_overlap(self, one: TensorSpec, other: TensorSpec) -> None:
        """As `overlap.check_overlap`: what shares a part of another array is for the long way to refuse."""
        (p, p_end), (q, q_end) = self.extent(one), self.extent(other)
        self.add(f"if {p} < {q_end} and {q} < {p_end} and ({p} != {q} or {p_end} != {q_end}): return _slow(args, {{}})")

    def extent(self, spec: TensorSpec) -> tuple[str, str]:
        """The variables of a tensor's address and of the one behind it."""
        i = self.index[spec.name]
        if spec.name not in self.ends:
            self.ends[spec.name] = f"e{i}"
            size = self.nbytes(spec)
            if size not in self.sizes:
                self.sizes[size] = size if size.isdigit() else f"b{i}"
                if not size.isdigit():
                    self.add(f"b{i} = {size}")
            self.add(f"e{i} = p{i} + {self.sizes[size]}")
        return f"p{i}", self.ends[spec.name]

    def nbytes(self, spec: TensorSpec) -> str:
        itemsize = int(spec.numpy_dtype().itemsize)
        if all(isinstance(d, Const) for d in spec.shape):
            return str(itemsize * math.prod(int(evaluate(d, {})) for d in spec.shape))
        return " * ".join([str(itemsize), *(f"({self.text(d)})" for d in spec.shape)])

    def output(self, spec: TensorSpec) -> None:
        i = self.index[spec.name]
        shape = f"({', '.join(self.text(d) for d in spec.shape)}{',' if spec.rank == 1 else ''})"
        first = next((k for k in self.kinds.values() if k != "scalar"), "buffer")
        if first == "torch":
            torch = sys.modules["torch"]
            self.names["_torch_empty"] = torch.empty
            self.names[f"_t{i}"] = getattr(torch, plain_name(spec.dtype))
            self.add(f"a{i} = _torch_empty({shape}, dtype=_t{i}, device='cpu')")
            self.add(f"p{i} = a{i}.data_ptr()")
            return
        dtype = self.names[f"_t{i}"] = spec.numpy_dtype()
        self.add(f"a{i} = _empty({shape}, _t{i})")
        view = f"_view(a{i})" if dtype.isbuiltin == 1 else f"_view(a{i}.view(_bits{i}))"
        self.names[f"_bits{i}"] = f"u{dtype.itemsize}"
        known = all(isinstance(d, Const) and d.value for d in spec.shape)
        self.add(f"p{i} = _at({view})" if known else f"p{i} = _at({view}) if a{i}.size else 0")

    def call(self) -> None:
        slots = [f"p{self.index[t.name]}" for t in self.signature.tensors]
        for n, buffer in enumerate(self.signature.workspaces):
            count = " * ".join(["1", *(self.text(d) for d in buffer.shape)])
            self.add(f"w{n} = _empty(({count}) * {buffer.type.bits} // 8 + 64, 'u1')")
            self.add(f"q{n} = w{n}.__array_interface__['data'][0] + 63 & -64")
            slots.append(f"q{n}")
        slots += [self.dims[name] for name in self.signature.dims]
        slots += [f"a{self.index[s.name]}" for s in self.signature.scalars]
        self.add("n = _limit.cap")
        self.add(f"n = _entry(_pack({', '.join(slots)}), _threads if _threads < n else n)")
        self.add("if n: _fail(n)")
        outs = [f"a{self.index[t.name]}" for t in self.signature.outputs]
        if outs:
            self.add(f"return {', '.join(outs)}{',' if self.signature.returns_tuple else ''}")


def plain_name(dtype: DType) -> str:
    return "float32" if dtype == "tfloat32" else str(dtype)


__all__ = ["make", "pack_format"]
