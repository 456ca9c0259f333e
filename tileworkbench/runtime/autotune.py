"""A plain grid search: compile every configuration, time each on copies of one set of inputs, keep the fastest.

    @autotune(configs=[{"block": 64}, {"block": 128}])
    @jit(out_idx=-1)
    def scale(N, block=64): ...
    kernel = scale(4096)            # searches once; kernel.config, kernel.latency

A candidate that does not compile, does not run, differs from the reference or takes too long is dropped, and the result lists it with the reason.
"""

from __future__ import annotations

import functools
import inspect
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..base.entry import entry
from ..base.errors import TileError, TileTypeError, TileValueError
from ..frontend.prim_func import PrimFunc
from .arrays import library_of
from .freezing import frozen
from .jit import JITFunction, compile_program, jit
from .kernel import JITKernel, TuningResult
from .options import Options, make_options
from .profiler import assert_close
from .supply import TensorSupplyType, get_tensor_supply
from .timing import measure

Config = Mapping[str, Any]
Configs = Sequence[Config] | Callable[..., Sequence[Config]]
_given_inputs: list[tuple[Any, ...]] = []


@dataclass(frozen=True, slots=True)
class Failure:
    """A configuration that was dropped, and why."""

    config: Config
    reason: str


@dataclass(frozen=True, slots=True)
class Candidate:
    """A configuration that ran, with its median time."""

    config: Config
    latency: float


@dataclass(frozen=True)
class AutotuneResult:
    """What a search found. `latency` and `ref_latency` in milliseconds; `kernel` is the winner, compiled."""

    config: Config
    latency: float
    ref_latency: float | None
    kernel: JITKernel
    candidates: tuple[Candidate, ...] = ()
    failures: tuple[Failure, ...] = ()

    @property
    def libcode(self) -> str:
        return self.kernel.source

    @property
    def func(self) -> Any:
        return self.kernel.ir


@dataclass(frozen=True, slots=True)
class Search:
    """How to search: times in milliseconds; `early_stop` drops a candidate after three runs slower than `early_stop_factor` times the best so far."""

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

    def with_known(self, options: Mapping[str, Any]) -> Search:
        """These settings with the known ones among `options` replaced."""
        known = {k: v for k, v in options.items() if k in self.__slots__ and v is not None}
        return Search(**{**{k: getattr(self, k) for k in self.__slots__}, **known})


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


# ------------------------------------------------------------------------------------------- searching
def grid_search(
    make: Callable[[Config], JITKernel], configs: Sequence[Config], search: Search, inputs: Sequence[Any] | None = None
) -> AutotuneResult:
    """Compile `make(config)` for each configuration side by side, then time them one after the other.

    Raises: TileValueError listing every reason if no configuration works.
    """
    failures: list[Failure] = []
    with ThreadPoolExecutor(max_workers=None) as pool:
        compiled = list(pool.map(lambda config: _attempt(lambda: make(config)), configs))
    candidates: list[tuple[Candidate, JITKernel]] = []
    held: Sequence[Any] | None = inputs
    expected: list[Any] | None = None
    for config, (kernel, reason) in zip(configs, compiled, strict=True):
        if kernel is None:
            failures.append(Failure(config, reason))
            continue
        if held is None or (not search.cache_input_tensors and inputs is None and _sizes(kernel) != _sizes_of(held)):
            held = _make_inputs(kernel, search)
        if search.ref_prog is not None and expected is None and not search.skip_check:
            expected = _as_list(search.ref_prog(*_copies(held)))
        best = min((c.latency for c, _ in candidates), default=None)
        latency, reason = _attempt(functools.partial(_time, kernel, held, expected, search, best))
        if latency is None:
            failures.append(Failure(config, reason))
        else:
            candidates.append((Candidate(config, latency), kernel))
    if not candidates:
        reasons = "\n".join(f"  {dict(f.config)}: {f.reason}" for f in failures)
        raise TileValueError(f"no configuration works ({len(failures)} tried):\n{reasons}" if failures else "there is no configuration to try")
    best_one, kernel = min(candidates, key=lambda pair: pair[0].latency)
    reference = None
    if search.ref_prog is not None and held is not None:
        reference = measure(functools.partial(search.ref_prog, *held), warmup_ms=search.warmup, rep_ms=search.rep).median_ms
    kernel.tuning = TuningResult(best_one.config, best_one.latency, reference)
    return AutotuneResult(best_one.config, best_one.latency, reference, kernel, tuple(c for c, _ in candidates), tuple(failures))


def _attempt(work: Callable[[], Any]) -> tuple[Any, str]:
    try:
        return work(), ""
    except TileError as error:
        return None, str(error)
    except Exception as error:  # a configuration may fail in any way; the search goes on and the reason is listed
        return None, f"{type(error).__name__}: {error}"


def _time(kernel: JITKernel, inputs: Sequence[Any], expected: list[Any] | None, search: Search, best: float | None) -> float:
    """Median milliseconds of one candidate, after checking it. It runs on copies: kernels may write their arguments."""
    copies = _copies(inputs)
    start = time.perf_counter()
    got = _as_list(kernel(*copies))
    spent = time.perf_counter() - start
    if spent > search.timeout:
        raise TileValueError(f"one run took {spent:.1f} s, more than the limit of {search.timeout:g} s")
    if search.manual_check_prog is not None and not search.skip_check:
        search.manual_check_prog(got, expected)
    elif expected is not None:
        for i, (g, w) in enumerate(zip(got, expected, strict=True)):
            assert_close(g, w, rtol=search.rtol, atol=search.atol, max_mismatched_ratio=search.max_mismatched_ratio, name=f"output {i}")
    timing = measure(
        functools.partial(kernel, *copies), warmup_ms=search.warmup, rep_ms=search.rep,
        baseline_ms=best if search.early_stop else None, stop_factor=search.early_stop_factor,
    )  # fmt: skip
    if timing.was_stopped:
        raise TileValueError(f"stopped early at {timing.best_ms:.4g} ms: more than {search.early_stop_factor:g} times the best so far")
    return timing.median_ms


def _make_inputs(kernel: JITKernel, search: Search) -> list[Any]:
    given = get_autotune_inputs()
    if given is not None:
        return list(given)
    inputs = [p for p in kernel.params if not p.is_output]
    if search.supply_prog is not None:
        return list(search.supply_prog(inputs))
    supply = get_tensor_supply(search.supply_type, seed=0)
    return [supply(p) for p in inputs]


def _sizes(kernel: JITKernel) -> list[tuple[int | str, ...] | None]:
    return [p.shape for p in kernel.params if not p.is_output]


def _sizes_of(inputs: Sequence[Any]) -> list[Any]:
    return [tuple(x.shape) if hasattr(x, "shape") else None for x in inputs]


def _copies(inputs: Sequence[Any]) -> list[Any]:
    return [x.clone() if library_of(x) == "torch" else x.copy() if isinstance(x, np.ndarray) else x for x in inputs]


def _as_list(value: Any) -> list[Any]:
    return [] if value is None else list(value) if isinstance(value, (list, tuple)) else [value]


# ------------------------------------------------------------------------------------------- TileLang's two ways to ask
class AutoTuner:
    """Search for a function that takes a configuration and returns a `T.prim_func`.

    AutoTuner.from_kernel(kernel=make, configs=configs).set_compile_args(out_idx=[-1]).set_profile_args(ref_prog=ref).run(warmup=3, rep=20)
    """

    def __init__(self, fn: Callable[..., Any], configs: Configs) -> None:
        self.fn = fn
        self.configs = configs
        self.options = Options()
        self.search = Search()

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
        """Settings of `Search`: `supply_type`, `ref_prog`, `skip_check`, `rtol`, ...; others are ignored."""
        self.search = self.search.with_known(options)
        return self

    @entry
    def run(
        self, warmup: float = 25, rep: float = 100, timeout: float = 30, early_stop: bool = False, early_stop_factor: float = 1.2, **_: Any
    ) -> AutotuneResult:
        """Search. Raises TileValueError if nothing works."""
        search = self.search.with_known(
            {"warmup": warmup, "rep": rep, "timeout": timeout, "early_stop": early_stop, "early_stop_factor": early_stop_factor}
        )
        configs = self.configs() if callable(self.configs) else self.configs
        return grid_search(self._make, [_as_config(c, self.fn) for c in configs], search)

    def _make(self, config: Config) -> JITKernel:
        if isinstance(self.fn, JITFunction):
            return self.fn.compile(**config)
        made = self.fn(**config)
        if isinstance(made, JITKernel):
            return made
        if not isinstance(made, PrimFunc):
            raise TileTypeError(f"the factory returned {type(made).__name__}, not a T.prim_func")
        return compile_program(made, self.options, dict(config))


class Autotuned:
    """What `autotune` makes of a jitted function: called without its tunables it searches, once for each set of other arguments."""

    def __init__(self, function: JITFunction, configs: Configs, search: Search) -> None:
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
        return self.jitted(*args, **{**kwargs, **result.config}) if self._is_eager(args) else result.kernel

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
            return [_as_config(c, self.jitted.function) for c in self.configs]
        try:
            inspect.signature(self.configs).bind(*args, **kwargs)
        except TypeError:
            return [_as_config(c, self.jitted.function) for c in self.configs()]
        return [_as_config(c, self.jitted.function) for c in self.configs(*args, **kwargs)]

    def _all_given(self, configs: Sequence[Config], args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
        tunables = {name for config in configs for name in config}
        given = set(self.jitted.signature.bind_partial(*args, **{k: v for k, v in kwargs.items() if k in self.jitted.signature.parameters}).arguments)
        return bool(tunables) and tunables <= given | set(kwargs)

    def _is_eager(self, args: Sequence[Any]) -> bool:
        return self.jitted.is_eager or any(hasattr(a, "shape") and hasattr(a, "dtype") for a in args)

    def _result(self, configs: Sequence[Config], args: Sequence[Any], kwargs: Mapping[str, Any]) -> AutotuneResult:
        key = self.jitted.captured.key(), tuple(_shape_or_value(a) for a in args), tuple((k, _shape_or_value(v)) for k, v in sorted(kwargs.items()))
        found = self.results.get(key)
        if found is None:
            arrays = [a for a in args if hasattr(a, "shape") and hasattr(a, "dtype")]
            found = self.results[key] = grid_search(
                lambda config: self.jitted.compile(*args, **{**kwargs, **config}), configs, self.search, arrays or None
            )
        return found


def autotune(func: Any = None, *, configs: Configs | None = None, **options: Any) -> Any:
    """Decorator above `jit`: search over `configs` (a list, or a function of the call's arguments) for the fastest.

    `options` are the settings of `Search`. `@autotune(configs)` works too.
    """
    if configs is None and func is not None and not isinstance(func, JITFunction):
        configs, func = func, None

    def decorate(function: Any) -> Autotuned:
        jitted = function if isinstance(function, JITFunction) else jit(function)
        return Autotuned(jitted, configs or (), Search().with_known(options))

    return decorate if func is None else decorate(func)


def _as_config(config: Any, function: Callable[..., Any]) -> Config:
    """A configuration as a mapping; a list gives the function's last parameters in order."""
    if isinstance(config, Mapping):
        return dict(config)
    names = list(inspect.signature(function).parameters)[-len(config) :]
    return dict(zip(names, config, strict=True))


def _shape_or_value(value: Any) -> Any:
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        return ("array", tuple(value.shape), str(value.dtype))
    return frozen(value)
