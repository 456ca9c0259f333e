"""TileLang's two ways to ask for a search, on the search of this room.

    @autotune(configs=[{"block": 64}, {"block": 128}], ref_prog=lambda a, b: a @ b)
    @jit(out_idx=-1)
    def matmul(M, N, K, block=64): ...
    kernel = matmul(1024, 1024, 1024)            # searches once; kernel.config, kernel.latency

A candidate that does not compile, hangs, crashes, differs from the reference or is too slow is dropped, and the result lists it with the reason.
Results are kept in the store, so the next session starts with them.
"""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from ..base.entry import entry
from ..base.errors import TileTypeError, TileValueError
from ..base.machine import Machine
from ..frontend.prim_func import PrimFunc
from ..model.limits import limit_of
from ..model.report import Report, report
from ..runtime import cache
from ..runtime import kernel as kernels
from ..runtime.freezing import frozen
from ..runtime.jit import JITFunction, compile_program, jit
from ..runtime.kernel import JITKernel
from ..runtime.options import Options, make_options
from ..runtime.supply import KernelParam, TensorSupplyType, get_tensor_supply
from .candidate import Candidate
from .plan import Plan
from .problem import Problem, Searchable, stable
from .result import no_winner
from .schedule import Schedule
from .search import Search
from .space import Space
from .store import Store
from .trial import Expected, Settings
from .tuner import time_reference

Config = Mapping[str, Any]
Configs = Sequence[Config] | Callable[..., Sequence[Config]]
Failure = Candidate  # what a dropped configuration is: `.config`, `.reason`
_given_inputs: list[tuple[Any, ...]] = []


@dataclass(frozen=True)
class AutotuneResult:
    """What a search found. `latency` and `ref_latency` in milliseconds; `kernel` is the winner, compiled."""

    config: Config
    latency: float
    ref_latency: float | None
    kernel: JITKernel
    candidates: tuple[Candidate, ...] = ()
    failures: tuple[Candidate, ...] = ()

    @property
    def libcode(self) -> str:
        return self.kernel.source

    @property
    def func(self) -> Any:
        return self.kernel.ir


@dataclass(frozen=True, slots=True)
class SearchOptions:
    """TileLang's settings: times in milliseconds, `timeout` in seconds; a candidate that runs longer is killed.

    `early_stop` drops a candidate after three runs slower than `early_stop_factor` times the best so far.
    """

    warmup: float = 25
    rep: float = 100
    timeout: float = 30
    supply_type: TensorSupplyType = TensorSupplyType.Auto
    supply_prog: Callable[..., Any] | None = None
    ref_prog: Callable[..., Any] | None = None
    manual_check_prog: Callable[..., Any] | None = None
    rtol: float = 1e-2
    atol: float = 1e-2
    max_mismatched_ratio: float = 0.01
    skip_check: bool = False
    cache_input_tensors: bool = False
    early_stop: bool = False
    early_stop_factor: float = 1.2
    backend: str = "event"

    def with_known(self, options: Mapping[str, Any]) -> SearchOptions:
        """These settings with the known ones among `options` replaced."""
        known = {k: v for k, v in options.items() if k in self.__slots__ and v is not None}
        return SearchOptions(**{**{k: getattr(self, k) for k in self.__slots__}, **known})

    @property
    def plan(self) -> Plan:
        """The same as a plan of this room."""
        settings = Settings(self.warmup, self.rep, rtol=self.rtol, atol=self.atol, mismatched=self.max_mismatched_ratio)
        return Plan(settings, self.timeout, early_stop_factor=self.early_stop_factor if self.early_stop else None)

    def supply(self, params: Sequence[KernelParam]) -> Sequence[Any]:
        """Inputs for a kernel's parameters: the ones set around the call, those of `supply_prog`, or made-up ones."""
        given = get_autotune_inputs()
        if given is not None:
            return given
        if self.supply_prog is not None:
            return list(self.supply_prog(list(params)))
        make = get_tensor_supply(self.supply_type, seed=0)
        return [make(p) for p in params]


@contextmanager
def set_autotune_inputs(*args: Any) -> Iterator[None]:
    """Searches inside the `with` block time their candidates on these arrays."""
    inputs = args[0] if len(args) == 1 and isinstance(args[0], (list, tuple)) else args
    _given_inputs.append(tuple(inputs))
    try:
        yield
    finally:
        _given_inputs.pop()


def get_autotune_inputs() -> tuple[Any, ...] | None:
    """The arrays of the innermost `set_autotune_inputs`, or None."""
    return _given_inputs[-1] if _given_inputs else None


def find_best(problem: Searchable, configs: Sequence[Config], options: SearchOptions) -> AutotuneResult:
    """Search `configs`. Raises: TileValueError listing every reason if none works."""
    reference = None if options.skip_check else options.ref_prog
    by_hand = None if options.skip_check or options.manual_check_prog is None else options.manual_check_prog

    def check(returned: list[Any], _after: list[Any], expected: Expected | None) -> None:
        assert by_hand is not None
        by_hand(returned, list(expected.returned) if expected is not None else None)

    store = Store() if cache.is_enabled() else None
    own = check if by_hand is not None else None
    hunt = Search(problem, Space.of_configs(configs), reference=reference, store=store, plan=options.plan, check=own).run()
    found = hunt.best
    if found is None or found.median_ms is None:
        raise TileValueError(no_winner(tuple(hunt.candidates)))
    kernel = problem.compile(found.schedule)
    spent = time_reference(options.ref_prog, problem.arguments(kernel), options.plan) if options.ref_prog is not None else None
    config = next(dict(c) for c in configs if Schedule(c) == found.schedule)
    kernel.tuning = kernels.TuningResult(config, found.median_ms, spent)
    return AutotuneResult(config, found.median_ms, spent, kernel, tuple(c for c in hunt.candidates if c.ran), hunt.failures)


# ------------------------------------------------------------------------------------------- a factory
@dataclass(frozen=True, slots=True)
class Factory:
    """The problem of a function that takes a configuration and returns a `T.prim_func` or a kernel."""

    fn: Callable[..., Any]
    options: Options
    search: SearchOptions

    @property
    def name(self) -> str:
        return str(getattr(self.fn, "__name__", "kernel"))

    @property
    def program(self) -> str:
        inner = self.fn.function if isinstance(self.fn, JITFunction) else self.fn
        return Problem(jit(inner)).program if isinstance(inner, types.FunctionType) else stable((self.name, self.options.out_idx))

    @property
    def given(self) -> None:
        """Nothing: arguments are made up for each kernel."""

    def compile(self, schedule: Schedule) -> JITKernel:
        """The kernel of a configuration. Raises TileTypeError if the function returns something else."""
        choices = without_pass_configs(schedule, self.fn)
        if isinstance(self.fn, JITFunction):
            return self.fn.compile(**choices)
        made = self.fn(**choices)
        if isinstance(made, JITKernel):
            return made
        if not isinstance(made, PrimFunc):
            raise TileTypeError(f"the factory returned {type(made).__name__}, not a T.prim_func")
        return compile_program(made, self.options, dict(schedule))

    def report(self, schedule: Schedule, machine: Machine) -> Report:
        """The model's view of a configuration."""
        kernel = self.compile(schedule)
        return report(kernel.ir, machine, {}, threads=kernel.num_threads, schedule=dict(schedule))

    def limit(self, schedule: Schedule, machine: Machine) -> str:
        """What a configuration asks too much of, or ""."""
        limit = limit_of(self.compile(schedule).ir, machine, schedule)
        return str(limit) if limit is not None else ""

    def arguments(self, kernel: JITKernel) -> tuple[Any, ...]:
        """Made-up or given inputs."""
        return tuple(self.search.supply([p for p in kernel.params if not p.is_output]))


class AutoTuner:
    """Search for a function that takes a configuration and returns a `T.prim_func`.

    AutoTuner.from_kernel(kernel=make, configs=configs).set_compile_args(out_idx=[-1]).set_profile_args(ref_prog=ref).run(warmup=3, rep=20)
    """

    def __init__(self, fn: Callable[..., Any], configs: Configs) -> None:
        self.fn = fn
        self.configs = configs
        self.options = Options()
        self.search = SearchOptions()

    @classmethod
    def from_kernel(cls, kernel: Callable[..., Any], configs: Configs) -> AutoTuner:
        """A search over `configs` for the factory `kernel`."""
        return cls(kernel, configs)

    def set_compile_args(self, **options: Any) -> AutoTuner:
        """Options as for `tileworkbench.compile`."""
        known = ("target", "out_idx", "num_threads", "pass_configs", "compile_flags", "verbose")
        self.options = make_options(**{k: v for k, v in options.items() if k in known})
        return self

    def set_profile_args(self, **options: Any) -> AutoTuner:
        """Settings of `SearchOptions`: `supply_type`, `ref_prog`, `skip_check`, `rtol`, ...; others are ignored."""
        self.search = self.search.with_known(options)
        return self

    @entry
    def run(
        self, warmup: float = 25, rep: float = 100, timeout: float = 30, early_stop: bool = False, early_stop_factor: float = 1.2, **_: Any
    ) -> AutotuneResult:
        """Search. Raises TileValueError if nothing works."""
        options = replace(self.search, warmup=warmup, rep=rep, timeout=timeout, early_stop=early_stop, early_stop_factor=early_stop_factor)
        configs = self.configs() if callable(self.configs) else self.configs
        return find_best(Factory(self.fn, self.options, options), [as_config(c, self.fn) for c in configs], options)


# ------------------------------------------------------------------------------------------- a decorator
class Autotuned:
    """What `autotune` makes of a jitted function: called without its tunables it searches, once for each set of other arguments."""

    def __init__(self, function: JITFunction, configs: Configs, search: SearchOptions) -> None:
        functools.update_wrapper(self, function)
        self.jitted = function
        self.configs = configs
        self.search = search
        self.results: dict[Any, AutotuneResult] = {}

    @entry
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Lazy: the winning kernel. Eager: runs the winning configuration on these arrays. With every tunable given, nothing is searched."""
        configs = self._configs(args, kwargs)
        if self._all_given(configs, args, kwargs):
            return self.jitted(*args, **kwargs)
        result = self._result(configs, args, kwargs)
        chosen = without_pass_configs(result.config, self.jitted.function)
        return self.jitted(*args, **{**kwargs, **chosen}) if self._is_eager(args) else result.kernel

    @entry
    def compile(self, *args: Any, **kwargs: Any) -> JITKernel:
        """The kernel for these arguments: as given if every tunable is, else the winner of a search."""
        configs = self._configs(args, kwargs)
        return self.jitted.compile(*args, **kwargs) if self._all_given(configs, args, kwargs) else self._result(configs, args, kwargs).kernel

    def get_tir(self, *args: Any, **kwargs: Any) -> Any:
        """The program for these arguments, without a search."""
        return self.jitted.get_tir(*args, **kwargs)

    def get_kernel_source(self, *args: Any, **kwargs: Any) -> str:
        """The emitted text for these arguments."""
        return self.compile(*args, **kwargs).get_kernel_source()

    def _configs(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Config]:
        if not callable(self.configs):
            return [as_config(c, self.jitted.function) for c in self.configs]
        try:
            inspect.signature(self.configs).bind(*args, **kwargs)
        except TypeError:
            return [as_config(c, self.jitted.function) for c in self.configs()]
        return [as_config(c, self.jitted.function) for c in self.configs(*args, **kwargs)]

    def _all_given(self, configs: Sequence[Config], args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
        tunables = {name for config in configs for name in without_pass_configs(config, self.jitted.function)}
        given = set(self.jitted.signature.bind_partial(*args, **{k: v for k, v in kwargs.items() if k in self.jitted.signature.parameters}).arguments)
        return bool(tunables) and tunables <= given | set(kwargs)

    def _is_eager(self, args: Sequence[Any]) -> bool:
        return self.jitted.is_eager or any(hasattr(a, "shape") and hasattr(a, "dtype") for a in args)

    def _result(self, configs: Sequence[Config], args: Sequence[Any], kwargs: Mapping[str, Any]) -> AutotuneResult:
        key = self.jitted.captured.key(), tuple(_shape_or_value(a) for a in args), tuple((k, _shape_or_value(v)) for k, v in sorted(kwargs.items()))
        found = self.results.get(key)
        if found is None:
            problem = replace(Problem.of_call(self.jitted, args, kwargs), supply=self.search.supply, not_arguments=("pass_configs",))
            found = self.results[key] = find_best(problem, configs, self.search)
        return found


def autotune(func: Any = None, *, configs: Configs | None = None, **options: Any) -> Any:
    """Decorator above `jit`: search over `configs` (a list, or a function of the call's arguments) for the fastest.

    `options` are the settings of `SearchOptions`. `@autotune(configs)` works too.
    """
    if configs is None and func is not None and not isinstance(func, JITFunction):
        configs, func = func, None

    def decorate(function: Any) -> Autotuned:
        jitted = function if isinstance(function, JITFunction) else jit(function)
        return Autotuned(jitted, configs or (), SearchOptions().with_known(options))

    return decorate if func is None else decorate(func)


def as_config(config: Any, function: Callable[..., Any]) -> Config:
    """A configuration as a mapping; a list gives the function's last parameters in order."""
    if isinstance(config, Mapping):
        return dict(config)
    names = list(inspect.signature(function).parameters)[-len(config) :]
    return dict(zip(names, config, strict=True))


def without_pass_configs(config: Config, function: Callable[..., Any]) -> dict[str, Any]:
    """`config` without the entry "pass_configs", which is TileLang's place for options of its compiler: they change nothing here."""
    takes = function.signature if isinstance(function, JITFunction) else inspect.signature(function)
    return {k: v for k, v in config.items() if k != "pass_configs" or k in takes.parameters}


def _shape_or_value(value: Any) -> Any:
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        return ("array", tuple(value.shape), str(value.dtype))
    return frozen(value)
