"""Searching the kernel library's schedules on a GPU: what `tune` does for a reader's kernel, for products and attention of the library.

    chosen = choose(product(4096, 4096, 4096, "float16", target="cuda"), reference=lambda a, b: a @ b)      # a tuned.Tuned
    print(chosen.schedule, chosen.gain)       # from now on `gemm.default_schedule` gives it for this size, on this machine

The spaces (`kernels.spaces`) are large, and what the rule takes is near the best. So the search climbs: it tries the rule's schedule and what else
costs least by the rule's own count, then whatever lies one step from the best so far, until no step is better. At the end the best and the rule's run
in turns, and the rule's stays unless the other is faster by a hundredth.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..base.errors import ExpectationError
from ..tune.candidate import Candidate, best_of
from ..tune.naming import machine_name
from ..tune.plan import Plan
from ..tune.problem import Problem
from ..tune.sandbox import run_trial
from ..tune.schedule import Schedule
from ..tune.search import Check, Search
from ..tune.space import Space
from ..tune.store import Place, Store, now
from ..tune.trial import Inputs, Settings, Trial
from . import attention, gemm
from .choice import compiled, gpu_of
from .spaces import attention_space, gemm_space, schedule_of
from .tuned import Tuned, attention_key, gemm_key

ROTATE_BYTES = 160 << 20  # several times the L2 of any GPU here
PLAN = Plan(settings=Settings(warmup_ms=10.0, rep_ms=50.0, rotate_bytes=ROTATE_BYTES), early_stop_factor=1.5)
BETTER = 1.01  # what a schedule must gain on the rule's, in turns with it, to take its place
STEPS, SEEDS = 3, 6  # rounds of climbing; schedules that the rule's count puts first


@dataclass(frozen=True, slots=True)
class Subject:
    """What is searched: `key` is what `default_schedule` asks for; the declared space, the rule's schedule, and others to begin with."""

    key: str
    problem: Problem
    space: Space
    rule: Schedule
    seeds: tuple[Schedule, ...] = ()

    def near(self, schedule: Schedule) -> list[Schedule]:
        """The allowed schedules one step from this one. A step that needs more shared memory takes stages from it, one that needs less gives some."""
        found = []
        for tunable in self.space.tunables:
            for value in tunable.around(schedule[tunable.name]):
                step = schedule.replace(**{tunable.name: value})
                found += [s for s in (step, self._filled(step)) if not self.space.broken(s)]
        return list(dict.fromkeys(found))

    def _filled(self, schedule: Schedule) -> Schedule:
        """The schedule with as many stages as are allowed."""
        stages = sorted(self.space.tunable("stages").values, reverse=True)
        return next((s for n in stages if not self.space.broken(s := schedule.replace(stages=n))), schedule)


def product(
    m: int, n: int, k: int, dtype: str = "float16", *, target: Any = None, is_nt: bool = False, out_dtype: str = "", args: Sequence[Any] | None = None
) -> Subject:  # fmt: skip
    """A product of the library (`gemm.gemm`) on a GPU; `args` are A and B, made up if there are none. Raises UnsupportedError for a CPU's target."""
    space = gemm_space(m, n, k, dtype, target=target, is_nt=is_nt)
    fixed = {"m": m, "n": n, "k": k, "dtype": dtype, "out_dtype": out_dtype, "is_nt": is_nt}
    first, *others = map(schedule_of, gemm.gpu_schedules(m, n, k, dtype, gpu_of(target), SEEDS, is_nt))
    key = gemm_key(m, n, k, dtype, is_nt)
    return Subject(key, _problem(gemm.tunable, target, args, fixed, key), space, first, tuple(s for s in others if not space.broken(s)))


def attention_of(
    batch: int, heads: int, seq: int, dim: int, dtype: str = "float16", *, causal: bool = False, target: Any = None, args: Sequence[Any] | None = None
) -> Subject:  # fmt: skip
    """Attention of the library (`attention.attention`) on a GPU; `args` are Q, K and V, made up if there are none. Raises as `product` does."""
    space = attention_space(seq, dim, dtype, target=target)
    fixed = {"batch": batch, "heads": heads, "seq": seq, "dim": dim, "causal": causal, "dtype": dtype}
    key = attention_key(seq, dim, dtype, causal)
    rule = schedule_of(attention.gpu_schedule(seq, dim, dtype, gpu_of(target), causal))
    largest = {s["threads"]: s for s in sorted(space, key=lambda s: (s["stages"], s["block_n"])) if not s["in_turn"]}
    return Subject(key, _problem(attention.program, target, args, fixed, key), space, rule, tuple(largest.values()))


def _problem(function: Any, target: Any, args: Sequence[Any] | None, fixed: dict[str, Any], key: str) -> Problem:
    return Problem(compiled(function, target), fixed, tuple(args) if args is not None else None, known_as=f"{key}, candidates")


def choose(
    subject: Subject, *, reference: Any = None, check: Check | None = None, store: Store | None = None, plan: Plan = PLAN, steps: int = STEPS
) -> Tuned:
    """Search, and keep what was found in `store`.

    Args:
        reference: what results are compared with; `check` a function that compares them (see `tune.search.Search`).
        store: where results go; default: the user's, which `default_schedule` asks.
        steps: rounds of climbing, at most.
    Raises: ExpectationError if the rule's own schedule does not run, or gives a wrong result.
    """
    kept = store or Store()
    tried: list[Candidate] = []
    best: Candidate | None = None
    waiting = list(dict.fromkeys([subject.rule, *subject.seeds]))
    for _ in range(steps + 1):
        hunt = Search(subject.problem, waiting, reference=reference, check=check, store=kept, plan=plan).run()
        tried += hunt.candidates
        rule = next(c for c in tried if c.schedule == subject.rule)
        best = best_of(tried) if rule.ran else None
        if best is None:
            raise ExpectationError(f"{subject.key}: the rule's schedule {subject.rule} does not run: {rule.status}, {rule.first_line}")
        known = {c.schedule for c in tried}
        waiting = [s for s in subject.near(best.schedule) if s not in known]
        if not waiting or best not in hunt.candidates:
            break
    return _decided(subject, best or rule, kept, plan, len(tried))


def _decided(subject: Subject, best: Candidate, store: Store, plan: Plan, tried: int) -> Tuned:
    """The best against the rule's, in turns; the one that is chosen is kept under the problem's own name."""
    sides = list(dict.fromkeys([subject.rule, best.schedule]))
    kernels = [subject.problem.compile(s) for s in sides]
    inputs = Inputs.of(subject.problem.arguments(kernels[0]))
    settings = replace(plan.settings, rep_ms=8 * plan.settings.rep_ms)
    outcome = run_trial(Trial.of(kernels, inputs, settings=settings, timeout_s=plan.timeout_s * len(sides)))
    if outcome.status != "ran":
        raise ExpectationError(f"{subject.key}: {sides[-1]} in turns with {sides[0]}: {outcome.status}, {outcome.reason}")
    times = outcome.all_times_ms or (outcome.times_ms,)
    rule_ms, ms = statistics.median(times[0]), statistics.median(times[-1])
    at = -1 if rule_ms > BETTER * ms else 0
    target = kernels[0].target
    place = Place(subject.key, subject.problem.name, machine_name(target), target)
    store.put(place, Candidate(sides[at], "ran", times_ms=times[at], checked_by=best.checked_by, date=now()))
    return Tuned(subject.key, sides[at], min(ms, rule_ms) if at else rule_ms, subject.rule, rule_ms, tried)
