"""Calling an eager kernel: which specialisation fits these arrays, and running it.

Two keys, as in TileLang: the build-time arguments and everything captured select a *template*; the values of its `T.const` names, read from the
arrays' sizes, select the kernel. A call like the one before costs one check of the captured values, one dictionary look-up and the short call.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from types import FunctionType
from typing import Any

import numpy as np

from ..base.errors import ArgumentError
from ..frontend.eager import ConstSource, EagerTemplate, require_sources, signature_of, template
from ..frontend.trace import Traced
from ..frontend.values import Value
from ..ir.stmt import Kernel
from ..language.types import TensorType
from . import packing
from .arrays import NotAnArray
from .captured import Captured
from .compiling import compile_ir
from .cuda_arrays import describe_anywhere
from .expressions import show
from .fork import fork_safe_lock
from .freezing import frozen
from .kernel import JITKernel
from .observing import WATCH
from .options import Options


class EagerFunction:
    """The kernels of one eager function, and its calls."""

    def __init__(self, function: FunctionType, captured: Captured, options: Options) -> None:
        self.function = function
        self.captured = captured
        self.options = options
        self.signature = signature_of(function)
        self.parameters = inspect.signature(function)
        self.sites: dict[Any, _Site] = {}
        self.lock = fork_safe_lock()
        self.quick: dict[Any, _Site] = {}  # build-time arguments as they are -> site, for as long as nothing captured changes
        self._dispatch = self._make_dispatch()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the kernel on these arguments; compiles it first if it is new."""
        if WATCH.seen is not None:  # the short way would pass the observer by
            own = {k: v for k, v in kwargs.items() if k in self.signature.names}
            return self._miss(self._bound(args, own), {k: v for k, v in kwargs.items() if k not in own})
        return self._dispatch(*args, **kwargs)

    def _make_dispatch(self) -> Callable[..., Any]:
        """A function with the author's parameters that finds the site of a call: straight-line Python, so that it costs little."""
        names = self.signature.names
        runtime, fixed = self.signature.runtime, self.signature.constants
        heads: list[str] = []
        scope: dict[str, Any] = {"_same": self.captured.is_same, "_quick": self.quick, "_miss": self._miss}
        for name, parameter in self.parameters.parameters.items():
            scope[f"_d_{name}"] = parameter.default
            star = "*, " if parameter.kind is parameter.KEYWORD_ONLY and "*" not in "".join(heads) else ""
            heads.append(f"{star}{name}" if parameter.default is parameter.empty else f"{star}{name}=_d_{name}")
        key = "".join(f"{n}, {n}.__class__, " for n in fixed)
        values = ", ".join(f"{n!r}: {n}" for n in names)
        text = f"""def {self.function.__name__}({", ".join(heads)}):
  try: site = _quick[({key})] if _same() else None
  except (KeyError, TypeError): site = None
  if site is None: return _miss({{{values}}}, {{}})
  return site.short({", ".join(runtime)})
"""
        exec(compile(text, f"<call of {self.function.__name__}>", "exec"), scope)
        call: Callable[..., Any] = scope[self.function.__name__]
        return self._checked(call)

    def _checked(self, call: Callable[..., Any]) -> Callable[..., Any]:
        """`call`, with the `T.const` names as further keywords: those that the function itself does not take."""
        own = set(self.signature.names)

        def with_keywords(*args: Any, **kwargs: Any) -> Any:
            if kwargs and not own.issuperset(kwargs):
                sizes = {k: v for k, v in kwargs.items() if k not in own}
                return self._miss(self._bound(args, {k: v for k, v in kwargs.items() if k in own}), sizes)
            return call(*args, **kwargs)

        return with_keywords

    def _bound(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        try:
            bound = self.parameters.bind_partial(*args, **kwargs)
        except TypeError as error:
            raise ArgumentError(f"{self.function.__name__}: {error}", hint=f"its parameters are {', '.join(self.signature.names)}") from None
        bound.apply_defaults()
        return dict(bound.arguments)

    def _miss(self, values: Mapping[str, Any], sizes: Mapping[str, int]) -> Any:
        """The long way: find or make the site, then the kernel, and run it."""
        site = self.site(values)
        args = [values[n] for n in self.signature.runtime if n in values]
        return site.dispatch(*args) if not sizes else site.kernel(dict(zip(self.signature.runtime, args, strict=False)), sizes)(*args)

    def site(self, values: Mapping[str, Any]) -> _Site:
        """The site for the build-time arguments among `values`."""
        constants = {n: values[n] for n in self.signature.constants if n in values}
        changed = not self.captured.is_same()
        key = self.captured.key(), tuple((n, frozen(v)) for n, v in constants.items())
        with self.lock:
            if changed:
                self.quick.clear()
            found = self.sites.get(key)
            if found is None:
                found = self.sites[key] = _Site(template(self.function, constants), self.options)
            with contextlib.suppress(TypeError):  # an unhashable build-time argument is found by its frozen form at each call
                self.quick[tuple(x for n in self.signature.constants for x in (constants.get(n), constants.get(n).__class__))] = found
            return found

    def arguments_of(self, kernel: JITKernel) -> dict[str, Any] | None:
        """The build-time arguments of `kernel`; None if it was not made here."""
        for site in list(self.sites.values()):
            if any(made is kernel for made in list(site.kernels.values())):
                return dict(site.template.constants)
        return None

    def compile(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> JITKernel:
        """The kernel for arrays, `T.Tensor` placeholders or the `T.const` names as keywords."""
        own = {k: v for k, v in kwargs.items() if k in self.signature.names}
        sizes = {k: v for k, v in kwargs.items() if k not in own}
        values = self._bound(args, own)
        return self.site(values).kernel(values, sizes)

    def trace(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Traced:
        """The program for the same arguments, not compiled."""
        own = {k: v for k, v in kwargs.items() if k in self.signature.names}
        values = self._bound(args, own)
        return self.site(values).trace(values, {k: v for k, v in kwargs.items() if k not in own})

    def program(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Kernel:
        """The tile IR for the same arguments."""
        return self.trace(args, kwargs).kernel


class _Site:
    """One template and its kernels. `short` is what a repeated call runs."""

    def __init__(self, made: EagerTemplate, options: Options) -> None:
        self.template = made
        self.options = options
        self.schedule = {k: v for k, v in made.constants.items() if isinstance(v, (int, float, str, bool))}
        self.kernels: dict[tuple[int, ...], JITKernel] = {}
        self.names = made.signature.runtime
        self.last: JITKernel | None = None
        self.short: Callable[..., Any] = self.dispatch

    def dispatch(self, *args: Any) -> Any:
        """Find the kernel by the sizes of the arrays and run it. The second call in a row of one kernel prepares the short way."""
        kernel = self.kernel(dict(zip(self.names, args, strict=False)), {})
        result = kernel(*args)
        if kernel is self.last and WATCH.seen is None:
            self.short = kernel.short_way(self._missed) or self.dispatch
        self.last = kernel
        return result

    def _missed(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        del kwargs
        self.last = None
        return self.dispatch(*args)

    def kernel(self, values: Mapping[str, Any], sizes: Mapping[str, int]) -> JITKernel:
        """The kernel for the sizes of these run-time arguments; `sizes` overrides them by `T.const` name."""
        key = self._sizes(values, sizes)
        found = self.kernels.get(key)
        if found is not None:
            return found
        traced = self.template.specialise(dict(zip(self.template.sources, key, strict=True)))
        schedule = {**self.schedule, **dict(zip(self.template.sources, key, strict=True))}
        made = compile_ir(traced.kernel, self.options, outputs=traced.outputs, returns_tuple=traced.returns_tuple, schedule=schedule)
        return self.kernels.setdefault(key, made)

    def trace(self, values: Mapping[str, Any], sizes: Mapping[str, int]) -> Traced:
        """The program that `kernel` would compile."""
        return self.template.specialise(dict(zip(self.template.sources, self._sizes(values, sizes), strict=True)))

    def _sizes(self, values: Mapping[str, Any], sizes: Mapping[str, int]) -> tuple[int, ...]:
        """The value of each `T.const`, in order. Raises ArgumentError for one that nothing shows, or that cannot be."""
        unknown = [name for name in sizes if name not in self.template.sources]
        if unknown:
            known = ", ".join(self.template.sources) or "none"
            raise ArgumentError(f"{self.template.name} has no parameter or T.const named {unknown[0]!r}", hint=f"its T.const names are: {known}")
        require_sources(self.template, sizes)
        for name, size in sizes.items():
            if isinstance(size, bool) or not isinstance(size, int | np.integer) or size < 0:
                raise ArgumentError(f"{self.template.name}: {name} must be a whole number of at least 0, got {size!r}")
        return tuple(sizes[name] if name in sizes else self._read(name, places, values) for name, places in self.template.sources.items())

    def _read(self, name: str, places: Sequence[ConstSource], values: Mapping[str, Any]) -> int:
        """The value of a `T.const`, from the first argument that shows it."""
        for place in places:
            value = values.get(place.param)
            if value is None:
                continue
            if place.kind == "dim" and isinstance(shape := getattr(value, "shape", None), tuple):
                self._check_rank(place, len(shape))
                size = shape[place.axis]
                if isinstance(size, int):
                    return size * 2 if self._is_packed(place, value, len(shape)) else size
            elif place.kind == "stride" and not isinstance(value, TensorType):
                return self._stride(place, value)
            elif not isinstance(value, TensorType):
                self._refuse(place, value)
        raise ArgumentError(
            f"{self.template.name}: nothing says how large {name} is",
            hint=f"pass {name}=..., or an array for {' or '.join(dict.fromkeys(p.param for p in places))}",
        )

    def _check_rank(self, place: ConstSource, rank: int) -> None:
        wanted = self.template.annotations[place.param]
        if isinstance(wanted, TensorType) and rank != len(wanted.shape):
            shown = ", ".join(show(d.expr) if isinstance(d, Value) else str(d) for d in wanted.shape)
            dims = f"{len(wanted.shape)} dim{'' if len(wanted.shape) == 1 else 's'}"
            raise ArgumentError(f"kernel {self.template.name}, argument {place.param}: expected {dims} ({shown}), got {rank}")

    def _is_packed(self, place: ConstSource, value: Any, rank: int) -> bool:
        wanted = self.template.annotations[place.param]
        is_nibbles = isinstance(wanted, TensorType) and wanted.dtype in packing.NAMES
        return is_nibbles and place.axis == rank - 1 and str(getattr(value, "dtype", "")).removeprefix("torch.") in ("int8", "uint8")

    def _stride(self, place: ConstSource, value: Any) -> int:
        try:
            strides = describe_anywhere(value).strides
        except NotAnArray as error:
            raise ArgumentError(f"kernel {self.template.name}, argument {place.param}: expected an array, got {error}", hint=error.hint) from None
        if strides is None or place.axis >= len(strides):
            raise ArgumentError(f"kernel {self.template.name}, argument {place.param}: no stride {place.axis} in elements")
        return strides[place.axis]

    def _refuse(self, place: ConstSource, value: Any) -> None:
        try:
            describe_anywhere(value)
        except NotAnArray as error:
            raise ArgumentError(f"kernel {self.template.name}, argument {place.param}: expected an array, got {error}", hint=error.hint) from None
