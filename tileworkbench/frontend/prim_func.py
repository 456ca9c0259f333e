"""`T.prim_func`: a Python function, traced into tile IR when it is decorated."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from types import FrameType, FunctionType
from typing import Any

from ..base.dtypes import DType
from ..base.errors import TileError, TileSyntaxError, TileTypeError, raise_all
from ..ir.stmt import Kernel, ScalarParam, TensorParam
from ..language import structure
from ..language._dispatch import impl
from .builder import Builder, active
from .compiled import compiled, kernel_function
from .source import Source
from .trace import Traced, author_errors, declare, finish, run


class PrimFunc:
    """A kernel in tile IR: `.kernel`, `.name`, `.params`, `.attrs`; compile it with `tileworkbench.compile` or return it from a `jit` factory.

    `outputs` are the positions of the tensors that the kernel returns (from `T.empty`), in the order of its return statement.
    """

    def __init__(self, function: FunctionType, traced: Traced, scope: Mapping[str, Any]) -> None:
        self.function = function
        self.kernel: Kernel = traced.kernel
        self.outputs = traced.outputs
        self.returns_tuple = traced.returns_tuple
        self._scope = scope
        self.__name__ = function.__name__
        self.__doc__ = function.__doc__

    @property
    def name(self) -> str:
        return self.kernel.name

    @property
    def params(self) -> tuple[TensorParam | ScalarParam, ...]:
        return self.kernel.params

    @property
    def attrs(self) -> dict[str, str]:
        return dict(self.kernel.attrs)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """In another kernel: run the body there. Elsewhere it cannot run: it has not been compiled."""
        if active() is None:
            raise TileTypeError(
                f"`{self.name}` is a kernel that has not been compiled", hint=f"kernel = tileworkbench.compile({self.name}), then call kernel(...)"
            )
        return kernel_function(self.function, self._scope)(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<T.prim_func {self.name}({', '.join(_param_name(p) for p in self.params)})>"


@impl(structure.prim_func)
def prim_func(func: Any = None, **attrs: Any) -> Any:
    if func is None:
        return lambda function: build(function, attrs, _scope_around(sys._getframe(1)))
    return build(func, attrs, _scope_around(sys._getframe(2)))


def build(function: Any, attrs: Mapping[str, Any], scope: Mapping[str, Any]) -> PrimFunc:
    """Trace `function` into a PrimFunc. Raises: TileError with the author's position."""
    if not isinstance(function, FunctionType):
        raise TileTypeError(f"T.prim_func decorates functions, not {type(function).__name__}")
    name = str(attrs.get("name", function.__name__))
    with author_errors(name):
        rewritten = kernel_function(function, scope)
        source = compiled(function).source
        builder = Builder(name)
        builder.attrs += [(k, str(v)) for k, v in attrs.items() if k != "name" and isinstance(v, str | int | bool)]
        order, arguments = _declare_all(builder, function, source, scope)
        returned = run(builder, rewritten, arguments)
        return PrimFunc(function, finish(builder, returned, order, source.end()), scope)


def _declare_all(builder: Builder, function: FunctionType, source: Source, scope: Mapping[str, Any]) -> tuple[tuple[str, ...], dict[str, Any]]:
    """Declare every parameter from its annotation; all faults are reported together."""
    code = function.__code__
    if code.co_flags & 0x0C:
        raise TileSyntaxError(f"the kernel `{builder.name}` has * parameters", span=source.span(source.tree), hint="name each parameter")
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    positional = code.co_varnames[: code.co_argcount]
    defaults = dict(zip(reversed(positional), reversed(function.__defaults__ or ()), strict=False)) | (function.__kwdefaults__ or {})
    arguments, errors = {}, []
    for name in names:
        try:
            annotation = resolve(function.__annotations__.get(name), function, scope)
            if annotation is None and name in source.declared:
                raise TileTypeError(f"`{name}` is annotated in the body", hint="in a T.prim_func, annotate it in the signature")
            arguments[name] = declare(builder, name, annotation, source.parameter(name), defaults.get(name))
        except TileError as error:
            errors.append(error.at(source.parameter(name)))
    raise_all(errors)
    return names, arguments


def resolve(annotation: Any, function: FunctionType, scope: Mapping[str, Any]) -> Any:
    """The annotation object; a string (`from __future__ import annotations`) is evaluated where the function was defined."""
    if not isinstance(annotation, str) or isinstance(annotation, DType):
        return annotation
    cells = {n: c.cell_contents for n, c in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True) if _is_filled(c)}
    return eval(annotation, function.__globals__, {**scope, **cells})  # the author's own annotation


def _is_filled(cell: Any) -> bool:
    try:
        cell.cell_contents  # noqa: B018  # raises if empty
    except ValueError:
        return False
    return True


def _scope_around(frame: FrameType) -> Mapping[str, Any]:
    """The local variables where the function is being defined; at module level its globals do."""
    return {} if frame.f_locals is frame.f_globals else dict(frame.f_locals)


def _param_name(param: TensorParam | ScalarParam) -> str:
    return param.buffer.name if isinstance(param, TensorParam) else param.var.name
