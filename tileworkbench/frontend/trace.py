"""Running a rewritten kernel function: parameters in, a `Kernel` out, and errors that show the author's line.

`prim_func` and `eager` differ in where the annotations come from; what they share is here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import FunctionType, TracebackType
from typing import Any

from ..base.dtypes import INDEX, DType
from ..base.errors import InternalError, TileError, TileRuntimeError, TileTypeError, TileValueError
from ..base.span import Span
from ..ir.expr import Buffer, Const, Expr, Var
from ..ir.node import walk
from ..ir.stmt import Kernel, ScalarParam, TensorParam
from ..language.types import StridedTensorWord, TensorType, TensorWord
from . import arith
from .builder import Builder, building
from .positions import is_ours, span_of_traceback, stop_at
from .rules import check_rules
from .values import BufferValue, Value, as_expr
from .visible import check_visible


@dataclass(frozen=True, slots=True)
class Traced:
    """A kernel and, for each value it returns, the position of the output among `kernel.params`."""

    kernel: Kernel
    outputs: tuple[int, ...]
    returns_tuple: bool


def run(builder: Builder, function: FunctionType, arguments: Mapping[str, Any]) -> Any:
    """Call the rewritten `function` with `builder` active and return what it returns. Errors get the author's position."""
    with building(builder), author_errors(function.__name__):
        return function(**arguments)


stop_at(run.__code__)


class author_errors:  # used like a function
    """`with author_errors(name):` gives errors the author's position and drops our frames from the end of their traceback."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __enter__(self) -> None: ...

    def __exit__(self, kind: Any, error: BaseException | None, trace: TracebackType | None) -> None:
        if isinstance(error, RecursionError):
            raise _endless(span_of_traceback(trace), self.name).with_traceback(_authors(trace)) from None
        if isinstance(error, TileError):
            raise error.at(span_of_traceback(trace)).with_traceback(_authors(trace)) from None
        if isinstance(error, Exception) and not isinstance(error, InternalError):
            span = span_of_traceback(trace)
            if span is not None and not getattr(error, "__notes__", None):
                error.add_note(span.render(f"while building the kernel `{self.name}`"))
            raise error.with_traceback(_authors(trace) or trace)


def _endless(span: Span | None, name: str) -> TileError:
    """The error for calls without an end: shown where the cycle was entered first, however deep the stack was when it gave out."""
    chain: list[Span] = []
    while span is not None:
        chain.insert(0, span)
        span = span.call_site
    seen: list[tuple[str, int, int]] = []
    for place in chain:
        if (place.file, place.line, place.col) in seen:
            break
        seen.append((place.file, place.line, place.col))
    last = chain[len(seen) - 1] if chain else None
    what = last.function if last is not None and last.function else name
    hint = "recursion must stop on a value that Python knows; a branch on a kernel value is traced on both sides"
    return TileRuntimeError(f"`{what}` calls itself without an end", span=last, hint=hint)


def _authors(trace: TracebackType | None) -> TracebackType | None:
    """The traceback without frames of this package; the innermost frame stays if it is all there is."""
    frames = []
    while trace is not None:
        if not is_ours(trace.tb_frame.f_code):
            frames.append(trace)
        trace = trace.tb_next
    found: TracebackType | None = None
    for frame in reversed(frames):
        found = TracebackType(found, frame.tb_frame, frame.tb_lasti, frame.tb_lineno)
    return found


# ---------------------------------------------------------------------------------------------- parameters
def declare(builder: Builder, name: str, annotation: Any, span: Span | None, default: Any = None) -> Any:
    """Declare a run-time parameter: a tensor or a scalar. Returns what the kernel's body sees.

    Raises: TileTypeError if the annotation is neither a tensor nor a dtype.
    """
    if isinstance(annotation, TensorType):
        return declare_tensor(builder, name, annotation, span)
    if isinstance(annotation, DType) or annotation in (int, float, bool):
        dtype = DType(annotation)
        if any(isinstance(p, ScalarParam) and p.var.name == name for p in builder.params):
            raise TileValueError(f"the parameter `{name}` is annotated twice", span=span)
        var = Var(builder.fresh(name), dtype, name, span=span)
        builder.params.append(ScalarParam(var, default, span=span))
        return Value(var)
    if isinstance(annotation, TensorWord | StridedTensorWord):
        raise TileTypeError(f"the annotation of `{name}` has no shape", span=span, hint=f"write `{name}: T.Tensor((M, N), T.float16)`")
    raise TileTypeError(
        f"the parameter `{name}` has no usable annotation: {_shown(annotation)}", span=span,
        hint=f"write `{name}: T.Tensor((M, N), T.float16)` for a tensor, `{name}: T.int32` for a scalar",
    )  # fmt: skip


def declare_tensor(builder: Builder, name: str, annotation: TensorType, span: Span | None, *, is_output: bool = False) -> BufferValue:
    """Declare a tensor parameter, or an output that the kernel allocates."""
    shape = dims(builder, annotation.shape)
    size = math.prod(int(d.value) for d in shape if isinstance(d, Const)) * annotation.dtype.bits // 8
    if size >= 1 << 63:
        raise TileValueError(f"the tensor `{name}` would have {size >> 50} PiB", span=span, hint="check its shape")
    strides = dims(builder, annotation.strides) if annotation.strides is not None else None
    buffer = Buffer(builder.fresh(name), shape, annotation.dtype, strides=strides, span=span)
    builder.params.append(TensorParam(buffer, is_output, span=span))
    return BufferValue(buffer)


def dims(builder: Builder, shape: tuple[Any, ...]) -> tuple[Expr, ...]:
    """Shape expressions; symbolic dims that are new join `builder.dims`, in order of first appearance."""
    exprs = tuple(Const(d) if isinstance(d, int) else arith.as_index(as_expr(d)) for d in shape)
    scalars = {p.var for p in builder.params if isinstance(p, ScalarParam)}
    for expr in exprs:
        for node in walk(expr):
            if isinstance(node, Var) and node.type == INDEX and node not in builder.dims and node not in scalars:
                if builder.fresh(node.name) != node.name:
                    raise TileValueError(f"the dim `{node.name}` has the name of something else in the kernel", hint="rename one of them")
                builder.dims.append(node)
    return exprs


def _shown(annotation: Any) -> str:
    return "none" if annotation is None else repr(annotation)


# ---------------------------------------------------------------------------------------------- the result
def finish(builder: Builder, returned: Any, order: tuple[str, ...], span: Span | None) -> Traced:
    """The kernel, its parameters in the order of the signature with outputs last, checked for names used out of their block."""
    position = {name: i for i, name in enumerate(order)}
    inputs = [p for p in builder.params if not _is_output(p)]
    outputs = [p for p in builder.params if _is_output(p)]
    inputs.sort(key=lambda p: position.get(_name(p), len(position)))
    builder.params = [*inputs, *outputs]
    places = tuple(_output_place(builder, value, span) for value in _returned(returned))
    forgotten = [p.buffer for i, p in enumerate(builder.params) if isinstance(p, TensorParam) and p.is_output and i not in places]
    if forgotten:
        names = ", ".join(b.name for b in forgotten)
        every = ", ".join(_name(p) for p in outputs)
        place = forgotten[0].span or span
        raise TileValueError(f"not all tensors allocated with T.empty are returned: {names}", span=place, hint=f"end with `return {every}`")
    kernel = builder.finish()
    if not kernel.launches:
        hint = "put the body into `with T.Kernel(blocks, threads=128) as bx:`"
        raise TileValueError(f"the kernel `{kernel.name}` has no T.Kernel, so nothing runs", span=span, hint=hint)
    check_visible(kernel)
    check_rules(kernel)
    return Traced(kernel, places, isinstance(returned, tuple | list))


def _returned(value: Any) -> tuple[Any, ...]:
    return () if value is None else tuple(value) if isinstance(value, tuple | list) else (value,)


def _output_place(builder: Builder, value: Any, span: Span | None) -> int:
    if isinstance(value, BufferValue):
        for i, p in enumerate(builder.params):
            if isinstance(p, TensorParam) and p.buffer is value.buffer and p.is_output:
                return i
    raise TileTypeError(f"a kernel returns tensors from T.empty, not {value!r}", span=span, hint="allocate the result with T.empty(shape, dtype)")


def _is_output(param: TensorParam | ScalarParam) -> bool:
    return isinstance(param, TensorParam) and param.is_output


def _name(param: TensorParam | ScalarParam) -> str:
    return param.buffer.name if isinstance(param, TensorParam) else param.var.name
