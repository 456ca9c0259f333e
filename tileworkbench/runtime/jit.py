"""`jit`: a Python function that makes kernels, compiled when it is called and remembered by what it was called with.

Two styles, told apart at the first call. *Lazy*: the function builds and returns a `T.prim_func`; calling it gives the kernel.

    @jit(out_idx=-1)
    def matmul(M, N, K): ...
    kernel = matmul(128, 128, 64)
    C = kernel(A, B)

*Eager*: the function is the kernel and opens `T.Kernel` itself; calling it with arrays compiles, runs, and returns what `T.empty` declared.

    @jit
    def double(A): ...
    B = double(A)

What a function reads from globals and closures is part of what its kernels are remembered by (see `captured`).
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import FunctionType
from typing import Any, overload

from ..base.collecting import no_collection
from ..base.entry import entry, shorten
from ..base.errors import ArgumentError, TileTypeError, TileValueError
from ..frontend.eager import lazy_result, signature_of
from ..frontend.prim_func import PrimFunc
from ..ir.stmt import Kernel
from .captured import Captured
from .compiling import compile_ir, mark_outputs
from .eager import EagerFunction
from .fork import fork_safe_lock
from .freezing import frozen
from .kernel import JITKernel
from .options import Options, OutIdx, make_options
from .signature import Signature
from .signature import signature_of as signature_of_kernel


class JITFunction:
    """What `jit` makes of a function. Call it; or ask for a kernel without running one: `compile`, `par_compile`, `get_tir`, `get_kernel_source`."""

    def __init__(self, function: FunctionType, options: Options) -> None:
        functools.update_wrapper(self, function)
        self.function = function
        self.options = options
        self.captured = Captured(function)
        self.signature = inspect.signature(function)
        self._lock = fork_safe_lock()
        self._eager: EagerFunction | None = None
        self._is_lazy = False
        self._kernels: dict[Any, JITKernel] = {}
        self._arguments: dict[Any, Mapping[str, Any]] = {}  # of a lazy function: key of a kernel -> what it was made with
        self._quick: Callable[..., Any] = self._first

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Lazy: the kernel for these build-time arguments. Eager: run it on these arrays and return its outputs."""
        try:
            try:
                return self._quick(*args, **kwargs)
            except TypeError as error:
                if type(error) is TypeError:  # perhaps the call itself: then this raises, and says what the function takes
                    self._bound(args, {k: v for k, v in kwargs.items() if k in self.signature.parameters or not self._eager})
                raise
        except (Exception, KeyboardInterrupt) as error:
            shorten(error)
            raise

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def __repr__(self) -> str:
        style = "lazy" if self._is_lazy else "eager" if self._eager else "not called yet"
        return f"<jit function {self.function.__name__} ({style})>"

    @property
    def is_eager(self) -> bool:
        """Whether the function opens `T.Kernel` itself; known after the first call."""
        return self._eager is not None

    # ------------------------------------------------------------------ deciding the style
    def _first(self, *args: Any, **kwargs: Any) -> Any:
        self._decide(args, kwargs)
        return self._quick(*args, **kwargs)

    def _decide(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        """Call the function as it is: a lazy one returns a program, an eager one stops at its first word."""
        with self._lock, no_collection():
            if self._is_lazy or self._eager is not None:
                return
            program = self._trial(args, kwargs)
            if program is None:
                if self.options.out_idx:
                    raise TileValueError(
                        f"{self.function.__name__} opens T.Kernel itself, so out_idx cannot be given",
                        hint="declare its outputs with T.empty and return them",
                    )
                self._eager = EagerFunction(self.function, self.captured, self.options)
                self._quick = self._eager
                return
            self._is_lazy = True
            self._quick = self._lazy
            self._remember(self._key(args, kwargs), program, args, kwargs)

    def _trial(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> PrimFunc | None:
        try:
            self._bound(args, kwargs)
        except ArgumentError:
            if not signature_of(self.function).runtime:
                raise
            return None  # an eager function asked to compile by the names of its sizes
        return lazy_result(self.function, *args, **kwargs)

    # ------------------------------------------------------------------ lazy
    def _lazy(self, *args: Any, **kwargs: Any) -> JITKernel:
        key = self._key(args, kwargs)
        found = self._kernels.get(key)
        if found is not None:
            return found
        # no lock: `par_compile` builds side by side, and the disk cache sees to it that one kernel is built once
        with no_collection():
            return self._remember(key, self._made(args, kwargs), args, kwargs)

    def _made(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> PrimFunc:
        self._bound(args, kwargs)
        program = lazy_result(self.function, *args, **kwargs)
        if program is None:
            raise TileTypeError(
                f"{self.function.__name__} returned a T.prim_func before, and opens T.Kernel itself now", hint="make it one or the other"
            )
        return program

    def _bound(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> inspect.BoundArguments:
        """The arguments by parameter. Raises: ArgumentError if there are too many, too few, or unknown ones."""
        try:
            return self.signature.bind(*args, **kwargs)
        except TypeError as error:
            raise ArgumentError(f"{self.function.__name__}: {error}", hint=f"it takes {self.signature}") from None

    def _key(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        return self.captured.key(), tuple(map(frozen, args)), tuple((k, frozen(v)) for k, v in sorted(kwargs.items()))

    def _remember(self, key: Any, program: PrimFunc, args: Sequence[Any], kwargs: Mapping[str, Any]) -> JITKernel:
        bound = self._bound(args, kwargs)
        bound.apply_defaults()
        self._arguments[key] = bound.arguments
        schedule = {k: v for k, v in bound.arguments.items() if isinstance(v, (int, float, str, bool))}
        return self._kernels.setdefault(key, compile_program(program, self.options, schedule))

    # ------------------------------------------------------------------ kernels without a call
    @entry
    def compile(self, *args: Any, **kwargs: Any) -> JITKernel:
        """The kernel for these arguments, not run. An eager function takes arrays, `T.Tensor` placeholders, or its `T.const` dims by name."""
        self._decide(args, kwargs)
        return self._eager.compile(args, kwargs) if self._eager is not None else self._lazy(*args, **kwargs)

    @entry
    def par_compile(
        self, configs: Iterable[Mapping[str, Any] | Sequence[Any]], num_workers: int | None = None, ignore_error: bool = False
    ) -> list[JITKernel | None]:
        """Kernels for several sets of arguments, compilers running side by side. With `ignore_error` a failing one becomes None."""
        asked = [((), c) if isinstance(c, Mapping) else (tuple(c), {}) for c in configs]

        def one(arguments: tuple[tuple[Any, ...], Mapping[str, Any]]) -> JITKernel | None:
            try:
                return self.compile(*arguments[0], **arguments[1])
            except Exception:
                if ignore_error:
                    return None
                raise

        with ThreadPoolExecutor(num_workers) as pool:
            return list(pool.map(one, asked))

    @entry
    def get_tir(self, *args: Any, **kwargs: Any) -> Any:
        """The program for these arguments: a `T.prim_func` of a lazy function, the tile IR of an eager one."""
        self._decide(args, kwargs)
        if self._eager is not None:
            return self._eager.program(args, kwargs)
        return self._made(args, kwargs)

    @entry
    def trace(self, *args: Any, **kwargs: Any) -> tuple[Kernel, Signature]:
        """The tile program for these arguments and what it takes, as `compile` would make it, but not compiled: what a prediction needs."""
        self._decide(args, kwargs)
        made = self._eager.trace(args, kwargs) if self._eager is not None else self._made(args, kwargs)
        kernel, places = mark_outputs(made.kernel, self.options.out_idx, made.outputs)
        return kernel, signature_of_kernel(kernel, places, made.returns_tuple)

    def arguments_of(self, kernel: JITKernel) -> dict[str, Any] | None:
        """The build-time arguments, defaults included, with which this function made `kernel`; None if it did not make it."""
        if self._eager is not None:
            return self._eager.arguments_of(kernel)
        for key, made in list(self._kernels.items()):
            if made is kernel:
                return dict(self._arguments[key])
        return None

    @entry
    def get_kernel_source(self, *args: Any, **kwargs: Any) -> str:
        """The emitted text for these arguments."""
        return self.compile(*args, **kwargs).get_kernel_source()


def compile_program(program: PrimFunc | Kernel, options: Options, schedule: Mapping[str, Any] | None = None) -> JITKernel:
    """Compile a `T.prim_func`, or tile IR."""
    if isinstance(program, PrimFunc):
        return compile_ir(program.kernel, options, outputs=program.outputs, returns_tuple=program.returns_tuple, schedule=schedule)
    return compile_ir(program, options, schedule=schedule)


@overload
def jit(func: Callable[..., Any], /) -> JITFunction: ...
@overload
def jit(
    func: None = None,
    /,
    *,
    out_idx: OutIdx = None,
    target: Any = None,
    num_threads: int | None = None,
    pass_configs: Mapping[Any, Any] | None = None,
    compile_flags: str | Iterable[str] | None = None,
    verbose: bool | None = None,
    target_host: Any = None,
    execution_backend: Any = None,
    debug_root_path: str | None = None,
    mode: str | None = None,
) -> Callable[[Callable[..., Any]], JITFunction]: ...
@entry
def jit(
    func: Callable[..., Any] | None = None,
    /,
    *,
    out_idx: OutIdx = None,
    target: Any = None,
    num_threads: int | None = None,
    pass_configs: Mapping[Any, Any] | None = None,
    compile_flags: str | Iterable[str] | None = None,
    verbose: bool | None = None,
    target_host: Any = None,
    execution_backend: Any = None,
    debug_root_path: str | None = None,
    mode: str | None = None,
) -> Any:
    """Decorator: compile the kernels that a function makes, on demand.

    Args:
        out_idx: which parameters are outputs (an index or a list; negative from the end): the call allocates and returns them. Lazy style only.
        target: "c", "interpret", "cuda", "emulate:sm_90a", or another registered target; "sm_90a" is CUDA for that architecture. Default:
            $TILEWORKBENCH_TARGET, else C if there is a compiler.
        num_threads: threads of a launch. Default: $TILEWORKBENCH_NUM_THREADS, else all cores.
        pass_configs: as for `T.annotate_pass_configs`, of the whole kernel; other names are listed on the kernel as `ignored_configs`.
        compile_flags: more flags for the compiler: of C, or NVRTC for a GPU.
        verbose: print what was compiled and how long it took.
    `target_host`, `execution_backend`, `debug_root_path` and `mode` are accepted for TileLang's sake.

    Raises, when the function is called: the errors of the language at the author's line; CompilerError; TileValueError for a bad out_idx.
    """
    del target_host, execution_backend, debug_root_path, mode
    options = make_options(
        target=target, out_idx=out_idx, num_threads=num_threads, pass_configs=pass_configs, compile_flags=compile_flags, verbose=verbose
    )
    if func is None:
        return lambda function: JITFunction(_plain_function(function), options)
    return JITFunction(_plain_function(func), options)


lazy_jit = jit


def _plain_function(function: Any) -> FunctionType:
    if isinstance(function, JITFunction):
        raise TileTypeError(f"{function.function.__name__} is decorated with jit twice")
    if isinstance(function, PrimFunc):
        raise TileTypeError("jit takes the function that makes the program", hint="use tileworkbench.compile for a T.prim_func")
    if not isinstance(function, FunctionType):
        raise TileTypeError(f"jit takes a function, got {type(function).__name__}")
    return function


@entry
def compile(
    func: Any = None,
    out_idx: OutIdx = None,
    execution_backend: Any = None,
    target: Any = None,
    target_host: Any = None,
    verbose: bool | None = None,
    pass_configs: Mapping[Any, Any] | None = None,
    compile_flags: str | Iterable[str] | None = None,
    *,
    num_threads: int | None = None,
) -> JITKernel:
    """Compile a `T.prim_func` (or tile IR). The arguments mean the same as those of `jit`.

    >>> tileworkbench.compile(program, out_idx=-1, target="c")(A, B)      # doctest: +SKIP
    """
    del execution_backend, target_host
    options = make_options(
        target=target, out_idx=out_idx, num_threads=num_threads, pass_configs=pass_configs, compile_flags=compile_flags, verbose=verbose
    )
    if not isinstance(func, (PrimFunc, Kernel)):
        raise TileTypeError(f"compile takes a T.prim_func, got {type(func).__name__}", hint="call a jitted function instead, or its .compile(...)")
    return compile_program(func, options)


@entry
def par_compile(funcs: Iterable[Any], num_workers: int | None = None, **options: Any) -> list[JITKernel]:
    """Compile several programs, compilers running side by side; options as for `compile`."""
    with ThreadPoolExecutor(num_workers) as pool:
        return list(pool.map(lambda f: compile(f, **options), funcs))
