"""The page of passes: valid IR after each step, every pass does nothing the second time, and whole printed programs."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from codegen.programs import PROGRAMS, gemm_relu, threads_reduce
from conftest import Golden
from kernel_of_everything import everything

from tileworkbench.ir.lowered import Grid
from tileworkbench.ir.node import walk
from tileworkbench.ir.printer import print_kernel
from tileworkbench.ir.stmt import Kernel
from tileworkbench.ir.verify import verify
from tileworkbench.transform.lowering import C_STEPS, Step, lower, run_steps

KERNELS = [*PROGRAMS, everything]


@pytest.mark.parametrize("program", KERNELS, ids=lambda p: p.__name__)
def test_every_step_leaves_valid_ir(program: Callable[[], Kernel]) -> None:
    def check(step: Step, before: Kernel, after: Kernel) -> None:
        verify(after, "lowered" if step is C_STEPS[-1] else "any")

    lowered = run_steps(program(), observe=check)
    assert any(isinstance(n, Grid) for n in walk(lowered))


@pytest.mark.parametrize("program", KERNELS, ids=lambda p: p.__name__)
def test_every_pass_is_done_after_one_run(program: Callable[[], Kernel]) -> None:
    """A pass returns the kernel itself when there is nothing to do."""

    def check(step: Step, before: Kernel, after: Kernel) -> None:
        assert step.run(after) is after, step.name

    run_steps(program(), observe=check)


@pytest.mark.parametrize("program", KERNELS, ids=lambda p: p.__name__)
def test_lowering_is_deterministic(program: Callable[[], Kernel]) -> None:
    assert print_kernel(lower(program())) == print_kernel(lower(program()))


def test_the_observer_sees_every_step() -> None:
    seen: list[str] = []
    kernel = gemm_relu()
    chain = [kernel]

    def observe(step: Step, before: Kernel, after: Kernel) -> None:
        assert before is chain[-1]
        chain.append(after)
        seen.append(step.name)

    assert run_steps(kernel, observe=observe) is chain[-1]
    assert seen == [step.name for step in C_STEPS]


@pytest.mark.parametrize("program", [gemm_relu, threads_reduce], ids=lambda p: p.__name__)
def test_what_each_step_makes_of_it(program: Callable[[], Kernel], golden: Golden) -> None:
    """The program after every step that changed it."""
    kernel = program()
    text = [print_kernel(kernel)]

    def observe(step: Step, before: Kernel, after: Kernel) -> None:
        if after is not before:
            text.append(f"\n# {step.name}\n{print_kernel(after)}")

    run_steps(kernel, observe=observe)
    golden("\n".join(text) + "\n", f"{program.__name__}.txt")
