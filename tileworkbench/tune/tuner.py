"""`tune`: find the fastest schedule of a kernel.

result = tune(matmul, (A, B), M=1024, N=1024, K=1024, block_M=[32, 64, 128], num_stages=[1, 2, 3], reference=lambda a, b: a @ b)
print(result)
C = result.kernel(A, B)
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import replace
from enum import Enum
from typing import Any

from ..base.entry import entry
from ..base.errors import TileValueError
from ..base.machine import Machine
from ..runtime import cache
from ..runtime.measure import cpu_name
from ..runtime.measure import measure as this_machine
from ..runtime.timing import measure as time_function
from .plan import Order, Plan
from .problem import Problem
from .result import TuningResult
from .schedule import Schedule
from .search import Event, Search
from .space import Space, Tunable
from .store import Store
from .trial import copied


@entry
def tune(
    kernel: Any,
    args: Sequence[Any] | None = None,
    *,
    reference: Any = None,
    space: Space | Iterable[Mapping[str, Any]] | None = None,
    where: Callable[..., Any] | Sequence[Callable[..., Any]] = (),
    machine: Machine | None = None,
    run: bool | None = None,
    executor: Executor | None = None,
    timeout: float = 30.0,
    order: Order = "model",
    limit: int | None = None,
    time_limit: float | None = None,
    patience: int | None = None,
    store: Store | bool = True,
    reuse: bool = True,
    on_event: Callable[[Event], Any] | None = None,
    plan: Plan = Plan(),
    **choices: Any,
) -> TuningResult:
    """Search the schedules of `kernel` for the fastest.

    Args:
        kernel: a jitted function, lazy or eager.
        args: what the kernel is called with; None makes arrays up.
        choices: lists, ranges, enums and `Tunable`s are what may be chosen; other values are build-time arguments that stay (`M=1024`). With no
            choices and no `space`, they are guessed from the function's defaults and annotations.
        reference: a function that does what the kernel does, or the expected results. None: results are not checked, and the table says so.
        space: a `Space`, or a list of configurations, instead of lists among the choices.
        where: rules that a schedule must keep: `lambda block_M, block_N: block_M >= block_N`.
        machine: whose model predicts; default this machine. A machine that is not here only predicts: `find_machine("h200")`.
        run: whether to run the candidates; default: unless `machine` is another one.
        executor: any `concurrent.futures.Executor`; default: this machine, one kernel at a time. Kernels run in processes of their own either way.
        timeout: seconds that a candidate may run; then it is killed, and the search goes on.
        order: "model" (the cheapest predicted first), "grid" or "random". limit, patience: try so many; end after so many without a better one.
        time_limit: seconds after which no further ones are begun.
        store: where results go; True is the user's, False none. reuse: take known times of the very same code from it.
        on_event: called with each event of the search. plan: everything else (see `Plan`).
    Raises: TileTypeError if `kernel` is no function; TileValueError if there is nothing to choose. Candidates that fail raise nothing: they are in
        `result.failures`. Ctrl-C ends the search; what has finished is in the store.
    """
    steps = {k: v for k, v in choices.items() if is_choice(v)}
    problem = Problem.of(kernel, args, {k: v for k, v in choices.items() if k not in steps})
    chosen = space_of(problem, space, steps, where)
    if machine is not None:
        fits_on = machine
        chosen = chosen.checked(lambda s: problem.why_not(s, fits_on))
    here = machine is None or machine.name == cpu_name()
    made = replace(
        plan, timeout_s=timeout, order=order, limit=limit, time_limit_s=time_limit, patience=patience, reuse=reuse, run=here if run is None else run,
        machine=machine or (this_machine() if order == "model" else plan.machine),
    )  # fmt: skip
    kept = store if isinstance(store, Store) else Store() if store and cache.is_enabled() else None
    return run_search(Search(problem, chosen, reference=reference, store=kept, executor=executor, plan=made), problem, chosen, on_event)


def run_search(hunt: Search, problem: Problem, space: Space, on_event: Callable[[Event], Any] | None = None) -> TuningResult:
    """Run `hunt` to its end, or until it is stopped."""
    began = time.monotonic()
    for event in hunt:
        if on_event is not None:
            on_event(event)
    return result_of(hunt, problem, space, time.monotonic() - began)


def result_of(hunt: Search, problem: Problem, space: Space, seconds: float = 0.0, reference_ms: float | None = None) -> TuningResult:
    """What `hunt` has found so far, as a value."""
    is_complete = not hunt.is_stopped and len(hunt.candidates) == len(space)
    return TuningResult(problem, space, tuple(hunt.candidates), hunt.plan.machine, seconds, reference_ms, is_complete)


def space_of(
    problem: Problem,
    space: Space | Iterable[Mapping[str, Any]] | None,
    steps: Mapping[str, Any],
    where: Callable[..., Any] | Sequence[Callable[..., Any]],
) -> Space:
    """The space of `tune`'s arguments. Raises TileValueError if there is nothing to choose, or it is said twice."""
    if space is not None and steps:
        raise TileValueError(f"both a space and values for {', '.join(steps)} are given", hint="give one of them")
    if space is None:
        made = problem.space(**steps)
    else:
        made = space if isinstance(space, Space) else Space.of_configs(Schedule(s) for s in space)
    for rule in [where] if callable(where) else where:
        made = made.where(rule)
    if not made.tunables:
        raise TileValueError(f"{problem.name} has nothing to choose", hint="give values for a build-time argument: block_M=[32, 64, 128]")
    return made


def is_choice(value: Any) -> bool:
    """Whether a keyword of `tune` says what may be chosen, rather than what is."""
    return isinstance(value, (list, range, Tunable)) or (isinstance(value, type) and issubclass(value, Enum))


def time_reference(reference: Callable[..., Any], args: Sequence[Any], plan: Plan) -> float:
    """The median milliseconds that a reference function takes on copies of the arguments, in this process."""
    settings = plan.settings
    work = functools.partial(reference, *copied(args))
    return time_function(work, warmup_ms=settings.warmup_ms, rep_ms=settings.rep_ms, runs=settings.runs).median_ms
