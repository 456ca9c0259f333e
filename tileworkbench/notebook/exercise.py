"""Exercises that check the answer *and* its bytes.

    task = exercise("attention.causal")      # prints what is asked
    task.check(my_kernel)                    # runs it on the exercise's inputs: is the result right, and are the goals met?
    task.hint()                              # one hint more

A check compares every output with a float64 reference, within a tolerance derived from dtypes and lengths, then holds the kernel's counted bytes and
FLOP against goals in the language of `%%tile --expect`. It raises nothing, so that `Run All` goes on; `strict=True` raises, for homework and CI.
"""

from __future__ import annotations

import html
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..base.errors import TileError
from ..model.report import Report
from ..runtime.jit import JITFunction
from ..runtime.kernel import JITKernel
from . import expect
from .amount import Amount
from .facts import facts_of
from .flight import modelled
from .judge import coarsest_epsilon, longest_sum
from .reference import Comparison, compare

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Goal:
    """What a right answer must also do: a condition of `--expect`, and what it means in words."""

    condition: str
    words: str


@dataclass(slots=True)
class Exercise:
    """A question with a reference, goals and hints. `inputs()` makes the arrays (always the same), `reference` takes them as float64.

    `facts` are more names for goals, such as the bytes of another version, in base units with their unit: ("naive.bytes", (1e6, "B")).
    """

    name: str
    question: str
    inputs: Callable[[], Sequence[Array]]
    reference: Callable[..., Any]
    goals: tuple[Goal, ...] = ()
    hints: tuple[str, ...] = ()
    machine: str = "reference"
    facts: Mapping[str, Amount] = field(default_factory=dict)
    hinted: int = 0

    def __str__(self) -> str:
        lines = [f"{self.name}: {self.question}"]
        if self.goals:
            lines += ["The answer must be right, and:", *(f"  - {goal.words}  [{goal.condition}]" for goal in self.goals)]
        return "\n".join([*lines, "Check it with .check(kernel); .hint() helps."])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        goals = "".join(f"<li>{html.escape(g.words)} <code>{html.escape(g.condition)}</code></li>" for g in self.goals)
        asked = f"<p><b>{html.escape(self.name)}</b>: {html.escape(self.question)}</p>"
        return asked + (f"<p>The answer must be right, and:</p><ul>{goals}</ul>" if goals else "")

    def hint(self) -> str:
        """The next hint; the last one again when there are no more."""
        if not self.hints:
            return "there are no hints for this one"
        place = min(self.hinted, len(self.hints) - 1)
        self.hinted += 1
        return f"hint {place + 1} of {len(self.hints)}: {self.hints[place]}"

    def check(self, kernel: JITFunction | JITKernel | Callable[..., Any], *arguments: Any, strict: bool = False, **schedule: Any) -> Verdict:
        """Run `kernel` and judge it.

        Args:
            kernel: a jitted function, or a compiled kernel.
            arguments: inputs to use instead of the exercise's own, if any.
            strict: raise AssertionError with the verdict's text unless everything holds.
            schedule: build-time choices to call a jitted function with, such as BM=64.
        """
        verdict = self._judge(kernel, arguments, schedule)
        if strict and not verdict.passed:
            raise AssertionError(str(verdict))
        return verdict

    def _judge(self, kernel: Any, arguments: tuple[Any, ...], schedule: Mapping[str, Any]) -> Verdict:
        inputs = arguments or tuple(self.inputs())
        if not isinstance(kernel, JITFunction | JITKernel):
            return Verdict(self.name, error=f"this is a {type(kernel).__name__}, not a kernel: pass the function under @tilelang.jit")
        try:
            made = kernel.compile(*inputs, **schedule) if isinstance(kernel, JITFunction) else kernel
            comparisons = _compared(made, inputs, self.reference)
            report = modelled(made, *inputs, machine=self.machine)
            outcomes = [(goal, _outcome(goal, report, self.facts)) for goal in self.goals]
        except TileError as error:
            return Verdict(self.name, error=str(error))
        except Exception as error:  # the reader's kernel may raise anything; the notebook goes on
            return Verdict(self.name, error=f"{type(error).__name__}: {error}")
        return Verdict(self.name, tuple(comparisons), tuple(outcomes), report, hints_left=max(len(self.hints) - self.hinted, 0))


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a check found. `error` is why the kernel did not run, else "". It prints as one line for each thing that was checked."""

    name: str
    comparisons: tuple[Comparison, ...] = ()
    goals: tuple[tuple[Goal, expect.Outcome], ...] = ()
    report: Report | None = None
    error: str = ""
    hints_left: int = 0

    @property
    def is_right(self) -> bool:
        """Whether every output agrees with the reference."""
        return not self.error and bool(self.comparisons) and all(c.holds for c in self.comparisons)

    @property
    def passed(self) -> bool:
        """Whether the answer is right and every goal is met."""
        return self.is_right and all(outcome.holds for _, outcome in self.goals)

    def __bool__(self) -> bool:
        return self.passed

    @property
    def rows(self) -> list[tuple[bool, str]]:
        """(whether it holds, in words) of everything that was checked."""
        if self.error:
            return [(False, f"it did not run: {self.error}")]
        answers = [(c.holds, str(c)) for c in self.comparisons]
        return answers + [(o.holds, f"{goal.words}: {o.numbers}") for goal, o in self.goals]

    @property
    def headline(self) -> str:
        """The verdict in a few words."""
        if self.error:
            return "it does not run yet"
        if self.passed:
            return "solved: right, and within its bytes" if self.goals else "solved"
        if not self.is_right:
            return "not right yet; look at the first wrong element"
        missed = sum(1 for _, o in self.goals if not o.holds)
        return f"right, but {missed} goal{'s are' if missed > 1 else ' is'} not met yet"

    def __str__(self) -> str:
        lines = [f"{self.name}: {self.headline}", *(f"  {'ok ' if holds else 'no '} {words}" for holds, words in self.rows)]
        if not self.passed and self.hints_left:
            lines.append(f"  {self.hints_left} hint{'s' if self.hints_left > 1 else ''} left: .hint()")
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        rows = "".join(
            f'<li style="list-style: none">{"&#10003; ok" if holds else "&#10007; not yet"}: {html.escape(words)}</li>' for holds, words in self.rows
        )
        more = self.hints_left if not self.passed else 0
        left = f"<p>{more} more hint{'s' if more > 1 else ''}: <code>.hint()</code></p>" if more else ""
        return f'<p><b>{html.escape(self.name)}: {html.escape(self.headline)}</b></p><ul style="padding-left: 8px">{rows}</ul>{left}'


def _compared(kernel: JITKernel, inputs: Sequence[Any], reference: Callable[..., Any]) -> list[Comparison]:
    got = kernel(*inputs)
    call = kernel.bind(*inputs)
    names = [t.spec.name for t in call.tensors if t.spec.is_output]
    results = list(got) if isinstance(got, tuple) else [got]
    wanted = reference(*(np.asarray(x, dtype=np.float64) for x in inputs))
    wanted = list(wanted) if isinstance(wanted, tuple) else [wanted]
    if len(results) != len(wanted) or any(r is None for r in results):
        raise TypeError(f"the kernel returns {len([r for r in results if r is not None])} arrays, the exercise asks for {len(wanted)}")
    epsilon, length = coarsest_epsilon(kernel.ir), longest_sum(call)
    return [
        compare(name, np.asarray(a), np.asarray(b), epsilon=epsilon, length=length)
        for name, a, b in zip(names or ["result"] * len(results), results, wanted, strict=True)
    ]


def _outcome(goal: Goal, report: Report, more: Mapping[str, Amount]) -> expect.Outcome:
    return expect.check(goal.condition, {**facts_of(report), **more})[0]
