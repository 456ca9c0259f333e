"""The checks of one call, and the sentences that explain them.

A `Checker` looks at scalars and arrays one by one, finds the symbolic dims, and then compares every shape and stride. It collects faults in
`errors`; the caller raises them together.
"""

from __future__ import annotations

import numbers
from collections.abc import Callable, Mapping
from typing import Any

from ..base.dtypes import DType
from ..base.errors import ArgumentError, TileError
from . import packing
from .arrays import HostArray, NotAnArray, describe
from .expressions import evaluate, show, solve, unknowns
from .signature import ScalarSpec, Signature, Source, TensorSpec

_SAME_BITS = ({"bool", "int8", "uint8"},)  # host arrays of one of these may stand for another


class Checker:
    """One check of one call; collects faults."""

    def __init__(self, signature: Signature, look: Callable[[Any], HostArray] = describe) -> None:
        self.signature = signature
        self.look = look
        self.errors: list[TileError] = []
        self.known: dict[str, int] = {}
        self.origin: dict[str, str] = {}  # dim -> where its value came from, for messages

    def fault(self, name: str, text: str, hint: str = "") -> None:
        self.errors.append(ArgumentError(f"kernel {self.signature.kernel}, argument {name}: {text}", hint=hint))

    # ------------------------------------------------------------------ scalars
    def scalar(self, spec: ScalarSpec, value: Any) -> int | float | bool:
        dtype = spec.dtype
        plain: Any = value.item() if hasattr(value, "item") and getattr(value, "shape", None) == () else value
        if not isinstance(plain, numbers.Real):
            self.fault(spec.name, f"expected a number ({dtype}), got {'None' if value is None else type(value).__name__}")
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
            host = self.look(value)
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
            name = spec.const_names[axis] if axis < len(spec.const_names) else ""
            shown = next((t for t in self.signature.tensors if name and name in t.const_names), spec)
            if shown is not spec:  # the kernel was chosen by another argument's size
                place = f"{shown.name}.shape[{shown.const_names.index(name)}]"
                return f"dim {axis} is {got[axis]}, but {name} is {want} from {place} (expected shape {_shape_text(spec)}, got {got})"
            kind = "packed bytes of shape" if is_packed else "shape"
            return f"expected {kind} {_shape_text(spec, is_packed)}, got {got}"
        parts = [f"{show_name} is {self.known[name]} from {self.origin[name]}" for name, show_name in _named(expr) if name in self.origin]
        head = f"{show(expr)} is {want}" if len(parts) != 1 or show(expr) != _named(expr)[0][1] else ""
        reason = " and ".join([*([head] if head else []), *parts])
        return f"dim {axis} is {got[axis]}, but {reason} (shape {_shape_text(spec)}, got {got})"

    def _dim_hint(self, spec: TensorSpec, axis: int, is_packed: bool) -> str:
        if is_packed and axis == spec.rank - 1:
            return "an int8 or uint8 array holds two int4 elements to a byte; one with an element to a byte has dtype ml_dtypes.int4"
        if unknowns(spec.shape[axis]) or any(spec.const_names[axis : axis + 1]):
            return "the sizes of the arguments must agree"
        return "the kernel was compiled for these sizes; compile it for others, or use T.dynamic dims"


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
    if host.library == "torch":
        return f"{name}.contiguous()"
    return f"{'cupy' if host.library == 'cupy' else 'np'}.ascontiguousarray({name})"


def _copy_call(name: str, host: HostArray) -> str:
    return f"{name}.clone()" if host.library == "torch" else f"{name}.copy()"
