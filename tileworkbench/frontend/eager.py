"""Eager kernels: a function that opens `T.Kernel` itself, specialised by the sizes of the tensors it is called with.

    def add(A, B, block: int):                       signature_of(add).runtime == ("A", "B"); block is a build-time constant
        N = T.const("N")
        A: T.Tensor((N,), T.float32)
        B: T.Tensor((N,), T.float32)
        C = T.empty((N,), T.float32)
        with T.Kernel(T.ceildiv(N, block)) as bx: ...
        return C

The function is traced twice. `template` runs it with stand-ins for `N` until every parameter is annotated, and so learns from which
argument each constant is read. `EagerTemplate.specialise({"N": 1024})` traces all of it with the numbers in place.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from types import FunctionType
from typing import Any

import numpy as np

from ..base.dtypes import DType
from ..base.errors import JITNoBuilderError, TileRuntimeError, TileSyntaxError, TileTypeError, TileValueError
from ..base.span import Span
from ..ir.expr import Var
from ..ir.node import replace
from ..ir.stmt import TensorParam
from ..language.types import StridedTensorWord, TensorType, TensorWord
from .builder import Builder
from .compiled import kernel_function
from .positions import here
from .prim_func import PrimFunc, resolve
from .source import Source, source_of
from .syntax import walk
from .trace import Traced, author_errors, declare, finish, run
from .values import Value, shown


@dataclass(frozen=True, slots=True)
class Signature:
    """The parameters of an eager function: those that arrive at run time, and those that are fixed when it is built."""

    names: tuple[str, ...]
    runtime: tuple[str, ...]
    constants: tuple[str, ...]
    defaults: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ConstSource:
    """Where a `T.const` is read: dim `axis` (or its stride) of the tensor argument `param`."""

    param: str
    axis: int
    kind: str = "dim"  # or "stride"


def lazy_result(function: FunctionType, *args: Any, **kwargs: Any) -> PrimFunc | None:
    """Run `function` without a builder: the PrimFunc that a factory returns, or None if it is an eager kernel.

    Raises: TileTypeError if it is neither; whatever the function itself raises.
    """
    try:
        with author_errors(function.__name__):
            made = function(*args, **kwargs)
    except JITNoBuilderError:
        return None
    if isinstance(made, PrimFunc):
        return made
    place = None
    with suppress(TileSyntaxError):  # a function without source has no place to point at
        place = source_of(function).end()
    raise TileTypeError(
        f"`{function.__name__}` returned {shown(made)}, which is no kernel", span=place,
        hint="end with `return` and the name of the @T.prim_func, or open T.Kernel in the function itself",
    )  # fmt: skip


def signature_of(function: FunctionType) -> Signature:
    """Which parameters arrive at run time: those annotated with a tensor or a `T.` dtype, in the signature or in the body."""
    source = source_of(function)
    found = inspect.signature(function).parameters
    if hasattr(function, "__wrapped__"):
        raise TileSyntaxError(
            f"`{function.__name__}` is the wrapper that another decorator made, not the kernel", span=source.span(source.tree),
            hint="put the decorator of the kernel next to its `def`, below the others",
        )  # fmt: skip
    starred = [n for n, p in found.items() if p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    if starred:
        raise TileSyntaxError(f"the kernel `{function.__name__}` has * parameters", span=source.span(source.tree), hint="name each parameter")
    runtime = tuple(n for n in found if n in source.declared or _is_runtime(resolve(function.__annotations__.get(n), function, {})))
    defaults = {n: p.default for n, p in found.items() if p.default is not p.empty}
    return Signature(tuple(found), runtime, tuple(n for n in found if n not in runtime), defaults)


def template(function: FunctionType, constants: Mapping[str, Any]) -> EagerTemplate:
    """Learn the annotations of `function` for these build-time arguments; missing ones take their defaults.

    Raises: TileError with the author's position: a tensor that is not annotated, a `T.const` that no tensor shows.
    """
    signature = signature_of(function)
    source = source_of(function)
    fixed = {n: constants.get(n, signature.defaults.get(n)) for n in signature.constants}
    for name, value in fixed.items():
        if hasattr(value, "shape") and hasattr(value, "dtype") and not isinstance(value, np.generic):
            raise TileTypeError(
                f"the tensor parameter `{name}` of `{function.__name__}` is not annotated", span=source.parameter(name),
                hint=f"add `{name}: T.Tensor((M, N), T.float16)` to the body, or annotate it in the signature",
            )  # fmt: skip
    builder = _EagerBuilder(function, source, signature, None)
    with author_errors(function.__name__):
        builder.declare_signature()
        if builder.missing:
            with suppress(_Enough):
                run(builder, kernel_function(function), {**builder.arguments(), **fixed})
        builder.require_all()
        return EagerTemplate(function, signature, fixed, builder.annotations, builder.sources())


@dataclass(frozen=True)
class EagerTemplate:
    """An eager function with its build-time arguments fixed. `sources` says where each `T.const` may be read."""

    function: FunctionType
    signature: Signature
    constants: Mapping[str, Any]
    annotations: Mapping[str, Any]  # run-time parameter -> TensorType (dims may be stand-ins) or DType
    sources: Mapping[str, tuple[ConstSource, ...]]

    @cached_property
    def name(self) -> str:
        return self.function.__name__

    def const_span(self, name: str) -> Span | None:
        """The T.const call that declares `name`."""
        source = source_of(self.function)
        for node in walk(source.tree):
            if isinstance(node, ast.Call) and "const" in ast.unparse(node.func) and name in re.findall(r"\w+", ast.unparse(node.args[0])):
                return source.span(node)
        return None

    def specialise(self, values: Mapping[str, int]) -> Traced:
        """The kernel for these values of the `T.const` names. Raises: TileError with the author's position."""
        source = source_of(self.function)
        builder = _EagerBuilder(self.function, source, self.signature, values)
        with author_errors(self.name):
            builder.declare_signature()
            returned = run(builder, kernel_function(self.function), {**builder.arguments(), **self.constants})
            builder.require_all()
            builder.params = [self._with_const_dims(p) if isinstance(p, TensorParam) else p for p in builder.params]
            return finish(builder, returned, self.signature.names, source.end())

    def _with_const_dims(self, param: TensorParam) -> TensorParam:
        annotation = self.annotations.get(param.buffer.name)
        if not isinstance(annotation, TensorType):
            return param
        return replace(param, const_dims=tuple(_const_name(d) for d in annotation.shape))


class _Enough(BaseException):
    """Raised to end the first trace; not an Exception, so no author code catches it."""


class _Unannotated:
    """What a run-time parameter holds before its annotation."""

    __array_ufunc__ = None

    def __init__(self, name: str) -> None:
        object.__setattr__(self, "name", name)

    def _refuse(self, *_: Any) -> Any:
        name = object.__getattribute__(self, "name")
        raise TileTypeError(f"`{name}` is used before it is annotated", span=here(), hint=f"write `{name}: T.Tensor(shape, dtype)` first")

    __getattr__ = __getitem__ = __setitem__ = __iter__ = __bool__ = __add__ = __radd__ = __mul__ = __rmul__ = __len__ = _refuse


class _EagerBuilder(Builder):
    """A builder that declares parameters as the body annotates them. `values` is None in the first trace."""

    def __init__(self, function: FunctionType, source: Source, signature: Signature, values: Mapping[str, int] | None) -> None:
        super().__init__(function.__name__)
        self.function, self.source, self.signature, self.values = function, source, signature, values
        self.annotations: dict[str, Any] = {}
        self.held: dict[str, Any] = {n: _Unannotated(n) for n in signature.runtime}
        self.stand_ins: dict[str, Span | None] = {}

    @property
    def missing(self) -> list[str]:
        return [n for n in self.signature.runtime if n not in self.annotations]

    def arguments(self) -> dict[str, Any]:
        return dict(self.held)

    def declare_signature(self) -> None:
        for name in self.signature.runtime:
            annotation = resolve(self.function.__annotations__.get(name), self.function, {})
            if isinstance(annotation, TensorType | DType):
                self.held[name] = self._declare(name, annotation, self.source.parameter(name))

    def annotate(self, name: str, annotation: Any, value: Any) -> Any:
        if not isinstance(value, _Unannotated):
            return value
        declared = self._declare(name, annotation, here())
        if self.values is None and not self.missing:
            raise _Enough
        return declared

    def _declare(self, name: str, annotation: Any, span: Span | None) -> Any:
        self.annotations[name] = annotation
        return declare(self, name, annotation, span, self.signature.defaults.get(name))

    def constant(self, name: str) -> Any:
        if self.values is None:
            self.stand_ins.setdefault(name, here())
            return Value(Var(name, hint=name))
        if name not in self.values:
            raise TileRuntimeError(f"no value for T.const {name!r}", span=here(), hint=f"pass {name}=... when compiling")
        return int(self.values[name])

    def before_launch(self) -> None:
        if self.values is None:
            raise _Enough

    def require_all(self) -> None:
        for name in self.missing:
            raise TileTypeError(
                f"the parameter `{name}` is not annotated on this path", span=self.source.parameter(name),
                hint=f"write `{name}: T.Tensor(shape, dtype)` before T.Kernel",
            )  # fmt: skip

    def sources(self) -> dict[str, tuple[ConstSource, ...]]:
        """Every place where a `T.const` name stands alone as a dim or stride. Raises: TileRuntimeError for a name without one."""
        found: dict[str, list[ConstSource]] = {name: [] for name in self.stand_ins}
        for param, annotation in self.annotations.items():
            if isinstance(annotation, TensorType):
                for kind, row in (("dim", annotation.shape), ("stride", annotation.strides or ())):
                    for axis, dim in enumerate(row):
                        if (name := _const_name(dim)) in found:
                            found[name].append(ConstSource(param, axis, kind))
        return {name: tuple(places) for name, places in found.items()}


def _const_name(dim: Any) -> str:
    return dim.expr.name if isinstance(dim, Value) and isinstance(dim.expr, Var) else ""


def _is_runtime(annotation: Any) -> bool:
    return isinstance(annotation, TensorType | TensorWord | StridedTensorWord | DType)


def require_sources(made: EagerTemplate, given: Mapping[str, int]) -> None:
    """Raises: TileValueError for a `T.const` that is neither given nor a dim of a tensor."""
    for name, places in made.sources.items():
        if not places and name not in given:
            raise TileValueError(
                f"T.const {name!r} of `{made.name}` is not directly a dim or stride of a tensor argument",
                span=made.const_span(name),
                hint=f"use it alone as a dim of some annotation, or pass {name}=... when compiling",
            )
