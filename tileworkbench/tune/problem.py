"""What is tuned: a kernel function, the build-time arguments that stay, and the arguments that it runs on.

    problem = Problem.of(matmul, args=(A, B), fixed={"M": 1024, "N": 1024, "K": 1024})
    problem.compile(Schedule(block_M=64))            # the kernel
    problem.report(Schedule(block_M=64), machine)    # the model's view of it, without compiling or running anything
    problem.why_not(Schedule(block_M=0))             # "value error: ..."
    problem.program                                  # names the program in the store, the same in every session

`kernel` is a jitted function, lazy or eager. A lazy one takes its build-time arguments by name (`fixed` and the schedule), and `args` are what the
kernel is called with; for an eager one `args` are those of its call. Without `args` they are made up, which needs shapes that are known.
`num_threads`, where the function has no parameter of that name, is the number of CPU threads of a launch, a tunable like any other.
"""

from __future__ import annotations

import ast
import enum
import hashlib
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any, Protocol

import numpy as np

from ..base.errors import ArgumentError, TileError, TileSyntaxError, TileTypeError
from ..base.machine import Machine
from ..frontend.eager import signature_of
from ..frontend.source import source_of
from ..ir.stmt import Kernel
from ..model.limits import limit_of
from ..model.report import Report, report
from ..runtime.arguments import bind
from ..runtime.compiling import compile_ir
from ..runtime.fork import LIMIT
from ..runtime.freezing import ATOMS
from ..runtime.jit import JITFunction, jit
from ..runtime.kernel import JITKernel
from ..runtime.options import make_options
from ..runtime.signature import Signature
from ..runtime.supply import KernelParam, TensorSupplyType, get_tensor_supply
from .schedule import Schedule
from .space import Space
from .trial import has_shape

Supply = Callable[[Sequence[KernelParam]], Sequence[Any]]


class Searchable(Protocol):
    """What is searched for; `Problem` is one."""

    @property
    def name(self) -> str:
        """The kernel's name."""

    @property
    def program(self) -> str:
        """What the store knows it by."""

    @property
    def given(self) -> tuple[Any, ...] | None:
        """The arguments to run with, if they are the same for every schedule."""

    def compile(self, schedule: Schedule) -> JITKernel:
        """The kernel of a schedule; raises if there is none."""

    def report(self, schedule: Schedule, machine: Machine) -> Report:
        """The model's view of a schedule; raises if it cannot be built."""

    def limit(self, schedule: Schedule, machine: Machine) -> str:
        """Why a schedule does not fit on `machine`, or ""; raises if it cannot be built."""

    def arguments(self, kernel: JITKernel) -> tuple[Any, ...]:
        """What to call `kernel` with."""


@dataclass(frozen=True, slots=True, eq=False)
class Problem:
    """See the module. `fixed` holds the build-time arguments that stay (and the arrays of an eager kernel) by name, `build_args` those without;
    `given` is what the kernel is called with, or None to make it up with `supply`.
    """

    function: JITFunction
    fixed: Mapping[str, Any] = field(default_factory=dict)
    given: tuple[Any, ...] | None = None
    supply: Supply | None = None
    build_args: tuple[Any, ...] = ()
    not_arguments: tuple[str, ...] = ()  # names of a schedule that are no arguments of the function
    known_as: str = ""  # what the store knows it by; "": a digest of all of the above

    @staticmethod
    def of(kernel: Any, args: Sequence[Any] | None = None, fixed: Mapping[str, Any] | None = None) -> Problem:
        """The problem of a jitted function (or one under `autotune`, or a plain function, which is jitted).

        Raises: TileTypeError for anything else; ArgumentError for arguments that an eager function does not take.
        """
        function = jitted(kernel)
        if not _runtime(function):
            return Problem(function, dict(fixed or {}), tuple(args) if args is not None else None)
        return Problem.of_call(function, tuple(args or ()), dict(fixed or {}))

    @staticmethod
    def of_call(function: JITFunction, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Problem:
        """The problem that a call of `function` poses: its build-time arguments, and the arrays if it is eager. Raises ArgumentError."""
        parameters = function.signature.parameters
        if any(p.kind in (p.VAR_POSITIONAL, p.POSITIONAL_ONLY) for p in parameters.values()):
            return Problem(function, dict(kwargs), build_args=tuple(args))
        try:
            bound = function.signature.bind_partial(*args, **{k: v for k, v in kwargs.items() if k in parameters}).arguments
        except TypeError as error:
            raise ArgumentError(f"{function.function.__name__}: {error}", hint=f"it takes {function.signature}") from None
        runtime = _runtime(function)
        is_complete = bool(runtime) and all(n in bound for n in runtime)
        return Problem(function, {**kwargs, **bound}, tuple(bound[n] for n in runtime) if is_complete else None)

    @property
    def name(self) -> str:
        return self.function.function.__name__

    # ------------------------------------------------------------------ building
    def compile(self, schedule: Mapping[str, Any]) -> JITKernel:
        """The kernel of a schedule. Raises what compiling raises."""
        made = self.function.compile(*self.build_args, **self._names(schedule))
        return with_threads(made, schedule["num_threads"]) if self._launches(schedule) else made

    def trace(self, schedule: Mapping[str, Any]) -> tuple[Kernel, Signature]:
        """The tile program of a schedule and what it takes, not compiled."""
        self.threads(schedule)
        return self.function.trace(*self.build_args, **self._names(schedule))

    def threads(self, schedule: Mapping[str, Any]) -> int:
        """CPU threads of a launch: the schedule's `num_threads`, or those that the function was jitted with. Raises TileValueError for a bad one."""
        options = make_options(num_threads=schedule["num_threads"]) if self._launches(schedule) else self.function.options
        return LIMIT.of(options.num_threads)

    def _names(self, schedule: Mapping[str, Any]) -> dict[str, Any]:
        gone = {n for n in self.not_arguments if n not in self.function.signature.parameters}
        gone |= {"num_threads"} if self._launches(schedule) else set()
        return {k: v for k, v in {**self.fixed, **schedule}.items() if k not in gone}

    def _launches(self, schedule: Mapping[str, Any]) -> bool:
        """Whether `num_threads` is a tunable of the launch, since the function has no such parameter."""
        return "num_threads" in schedule and "num_threads" not in self.function.signature.parameters

    def why_not(self, schedule: Mapping[str, Any], machine: Machine | None = None) -> str:
        """Why the frontend refuses a schedule, in one line with the hint, or why a block of it does not fit on `machine`; "" if neither.

        Passes and the C compiler are not asked.
        """
        try:
            kernel, _ = self.trace(schedule)
            limit = limit_of(kernel, machine, schedule) if machine is not None else None
        except Exception as error:  # an author's factory may raise anything
            return one_line(error)
        return str(limit) if limit is not None else ""

    def limit(self, schedule: Mapping[str, Any], machine: Machine) -> str:
        """What of `machine` a block of this schedule asks too much of, in a sentence with numbers; "" if it fits. Raises what tracing raises."""
        limit = limit_of(self.trace(schedule)[0], machine, schedule)
        return str(limit) if limit is not None else ""

    def report(self, schedule: Mapping[str, Any], machine: Machine) -> Report:
        """What the model says of a schedule on `machine`; nothing is compiled or run. Raises what tracing raises."""
        kernel, signature = self.trace(schedule)
        threads = self.threads(schedule)
        if not signature.dims and not signature.scalars:
            return report(kernel, machine, {}, threads=threads, schedule=dict(schedule))
        if self.given is None:
            raise ArgumentError(f"{self.name}: the model needs values for {', '.join([*signature.dims, *(s.name for s in signature.scalars)])}")
        call = bind(signature, self.given, {}, threads)
        arrays = {b.spec.name: b.array for b in call.tensors}
        return report(kernel, machine, call.dims, threads=threads, scalars=call.scalars, arrays=arrays, schedule=dict(schedule))

    def arguments(self, kernel: JITKernel) -> tuple[Any, ...]:
        """What to call `kernel` with: the given arguments, or made-up ones. Raises ArgumentError where only the caller can know a size."""
        if self.given is not None:
            return self.given
        inputs = [p for p in kernel.params if not p.is_output]
        if self.supply is not None:
            return tuple(self.supply(inputs))
        make = get_tensor_supply(TensorSupplyType.Auto, seed=0)
        return tuple(make(p) for p in inputs)

    def space(self, **steps: Any) -> Space:
        """The space of `steps`, with the frontend's refusals as `why_not`; without any, the one guessed from the function (`Space.of_function`)."""
        made = Space.of(**steps) if steps else self._guessed()
        return made.checked(lambda s: self.why_not(s))

    def _guessed(self) -> Space:
        signature = self.function.signature.parameters
        taken = dict.fromkeys([*self.fixed, *_runtime(self.function)])
        return Space.of_function(self.function.function, **{n: None for n in taken if n in signature})

    # ------------------------------------------------------------------ naming
    @property
    def program(self) -> str:
        """20 hexadecimal digits for the program and its problem: the function's source and what it captures, the fixed arguments, and the shapes and
        dtypes of the arrays. Comments and line numbers do not count. The same in another session, which `id`-based keys are not. Or `known_as`.
        """
        if self.known_as:
            return self.known_as
        parts = [text_of_function(self.function.function), stable(self.function.options.out_idx), *(stable(v) for v in self.build_args)]
        parts += [f"{k}={stable(self.fixed[k])}" for k in sorted(self.fixed)]
        parts += [f"{name}={stable(value)}" for name, value in self.function.captured.values()]
        parts += [stable(v) for v in self.given or ()]
        return hashlib.sha256("\x1f".join(parts).encode()).hexdigest()[:20]


def with_threads(kernel: JITKernel, count: int) -> JITKernel:
    """The same kernel, launched on `count` CPU threads; the compiled code is shared. Raises TileValueError for no whole number of at least 1."""
    options = replace(make_options(num_threads=count), target=kernel.target, compile_flags=kernel.options.compile_flags)
    schedule = {**kernel.schedule, "num_threads": count}
    return compile_ir(kernel.ir, options, outputs=tuple(kernel.out_idx), returns_tuple=kernel.signature.returns_tuple, schedule=schedule)


def one_line(error: BaseException) -> str:
    """An error in one line: the message and the hint, without the place."""
    if not isinstance(error, TileError):
        return (f"{type(error).__name__}: {error}".strip().splitlines() or [""])[0]
    first = f"{error.stage}: {error.message}".splitlines()[0]
    return f"{first} ({error.hint})" if error.hint else first


def jitted(kernel: Any) -> JITFunction:
    if isinstance(kernel, JITFunction):
        return kernel
    inner = getattr(kernel, "jitted", None)
    if isinstance(inner, JITFunction):
        return inner
    if isinstance(kernel, types.FunctionType):
        return jit(kernel)
    hint = "pass the function that makes it" if isinstance(kernel, JITKernel) else "decorate it with tileworkbench.jit"
    raise TileTypeError(f"tuning takes a jitted function, got {type(kernel).__name__}", hint=hint)


def _runtime(function: JITFunction) -> tuple[str, ...]:
    """The parameters that an eager function takes at run time; a lazy one has none."""
    try:
        return signature_of(function.function).runtime
    except TileSyntaxError:  # * parameters: an eager kernel cannot have them
        return ()


# ------------------------------------------------------------------------------------------- names that last
def text_of_function(function: types.FunctionType) -> str:
    """The text of a function without comments and positions; its byte code where there is no text."""
    try:
        tree = source_of(function).take_tree()
        tree.decorator_list = []  # how it is compiled and searched is no part of the program
        return ast.dump(tree)
    except TileError:
        code = function.__code__
        constants = [c for c in code.co_consts if isinstance(c, ATOMS)]
        return hashlib.sha256(code.co_code + repr((code.co_names, constants)).encode()).hexdigest()


def stable(value: Any, depth: int = 6) -> str:
    """A text that is equal for values of equal meaning in every session; where that cannot be known, the name of the type."""
    if isinstance(value, ATOMS):
        return f"{type(value).__name__}:{value!r}"
    if depth == 0:
        return type(value).__qualname__
    if isinstance(value, enum.Enum):
        return f"{type(value).__qualname__}.{value.name}"
    if isinstance(value, (list, tuple)):
        return f"{type(value).__name__}({','.join(stable(v, depth - 1) for v in value)})"
    if isinstance(value, Mapping):
        return f"map({','.join(f'{stable(k, depth - 1)}:{stable(v, depth - 1)}' for k, v in value.items())})"
    if isinstance(value, (set, frozenset)):
        return f"set({','.join(sorted(stable(v, depth - 1) for v in value))})"
    if isinstance(value, (types.ModuleType, type)):
        return value.__name__
    if has_shape(value) and not isinstance(value, np.generic):
        return f"array({tuple(value.shape)},{value.dtype})"
    if isinstance(value, types.FunctionType):
        return text_of_function(value)
    if is_dataclass(value):
        return f"{type(value).__qualname__}({','.join(f'{f.name}={stable(getattr(value, f.name, None), depth - 1)}' for f in fields(value))})"
    inner = getattr(value, "__wrapped__", None) or getattr(value, "function", None)
    if isinstance(inner, types.FunctionType):
        return text_of_function(inner)
    return str(value) if isinstance(value, np.generic) else type(value).__qualname__
