"""`--check`: find the reference in the notebook's namespace and compare the outputs of a launch with it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from ..base.dtypes import DType
from ..base.errors import TileTypeError, TileValueError
from ..ir.expr import Buffer
from ..ir.node import walk
from ..ir.stmt import Kernel, Launch, TensorParam
from ..runtime.arguments import BoundCall, BoundTensor
from .reference import Comparison, compare


class Judged(Protocol):
    """A launch: what ran, and on what."""

    @property
    def kernel(self) -> Any: ...
    @property
    def call(self) -> BoundCall: ...


def judge(launch: Judged, text: str, space: dict[str, Any], tolerance: float | None) -> tuple[Comparison, ...]:
    """Compare each tensor that the kernel wrote with the value of the expression `text`.

    The value is an array, a tuple of arrays, or a function of the tensors that the kernel only reads and its scalars, in call order.
    Raises: TileTypeError or TileValueError if it cannot be evaluated or does not fit.
    """
    try:
        wanted = eval(compile(text, "<check>", "eval"), space)
        references = references_of(wanted, launch.call)
    except Exception as error:
        raise TileTypeError(f"the reference {text!r} raised {type(error).__name__}: {error}") from None
    return judge_outputs(launch, references, tolerance)


def references_of(wanted: Any, call: BoundCall) -> list[Any]:
    """An array for each output: `wanted` itself, or what it gives for the call's inputs. Raises what `wanted` raises."""
    if callable(wanted):
        wanted = wanted(*(_host(t) for t in call.tensors if not t.spec.is_written), *call.scalars.values())
    return list(wanted) if isinstance(wanted, tuple | list) else [wanted]


def judge_outputs(launch: Judged, references: Sequence[Any], tolerance: float | None) -> tuple[Comparison, ...]:
    """Compare each tensor that the kernel wrote with its reference. Raises TileTypeError or TileValueError if they do not fit."""
    call, kernel = launch.call, launch.kernel.ir
    outputs = [t for t in call.tensors if t.spec.is_written]
    if len(references) != len(outputs):
        names = ", ".join(t.spec.name for t in outputs) or "none"
        raise TileValueError(f"the reference has {_count(len(references))}, but {kernel.name} writes {len(outputs)} ({names})")
    epsilon, length = coarsest_epsilon(kernel), longest_sum(call)
    return tuple(_compare(t, r, epsilon, length, tolerance) for t, r in zip(outputs, references, strict=True))


def _compare(tensor: BoundTensor, reference: Any, epsilon: float, length: int, tolerance: float | None) -> Comparison:
    got = _host(tensor)
    try:
        want = np.asarray(reference)
        if want.dtype == object:
            raise TypeError
    except (TypeError, ValueError):
        raise TileTypeError(f"the reference for {tensor.spec.name} is no array but {type(reference).__name__}") from None
    if want.shape != got.shape:
        raise TileValueError(f"the reference for {tensor.spec.name} has shape {want.shape}, the kernel wrote {got.shape}")
    exact = not tensor.spec.dtype.is_float
    return compare(tensor.spec.name, got, want, epsilon=0.0 if exact else epsilon, length=length, tolerance=tolerance)


def _host(tensor: BoundTensor) -> np.ndarray[Any, Any]:
    """The tensor's elements, with int4 unpacked."""
    return tensor.unpacked if tensor.unpacked is not None else tensor.array


def coarsest_epsilon(kernel: Kernel) -> float:
    """Relative rounding of the narrowest float type that the kernel holds in any buffer, at least that of float64."""
    buffers: list[Buffer] = [p.buffer for p in kernel.params if isinstance(p, TensorParam)]
    buffers += [b for node in walk(kernel) if isinstance(node, Launch) for b in node.allocs]
    return max((epsilon(b.dtype) for b in buffers if b.dtype.is_float), default=float(np.finfo(np.float64).eps))


def epsilon(dtype: DType) -> float:
    """Distance from 1 to the next larger value of a float type."""
    import ml_dtypes

    return float(ml_dtypes.finfo(dtype.to_numpy()).eps)


def longest_sum(call: BoundCall) -> int:
    """No sum of the kernel is taken to have more terms than the largest extent of its tensors."""
    return max((n for t in call.tensors for n in _host(t).shape), default=1)


def _count(n: int) -> str:
    return "1 array" if n == 1 else f"{n} arrays"
