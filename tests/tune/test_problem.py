"""What is tuned: lazy and eager functions, what the model says of a schedule, and names that last."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tune.programs import TARGET, double, matmul

import tileworkbench
import tileworkbench.language as T
from tileworkbench.base.errors import ArgumentError, TileTypeError
from tileworkbench.base.machine import REFERENCE_CPU
from tileworkbench.tune.problem import Problem
from tileworkbench.tune.schedule import Schedule

ROOT = Path(__file__).resolve().parents[2]
SIZES = {"M": 5, "N": 6, "K": 7}


def array(count: int = 20) -> np.ndarray[Any, Any]:
    return np.arange(count, dtype=np.float32)


def matrices() -> tuple[Any, Any]:
    return np.ones((5, 7), np.float32), np.ones((7, 6), np.float32)


def test_a_lazy_function() -> None:
    problem = Problem.of(matmul, matrices(), SIZES)
    kernel = problem.compile(Schedule(block=32))
    assert kernel.schedule == {**SIZES, "block": 32, "relu": False}
    np.testing.assert_array_equal(kernel(*problem.arguments(kernel)), np.full((5, 6), 7))
    traced, signature = problem.trace({"block": 32})
    assert traced.name == kernel.ir.name
    assert [p.name for p in signature.inputs] == ["A", "B"]
    assert problem.name == "matmul"


def test_an_eager_function() -> None:
    for problem in (Problem.of(double, (array(),)), Problem.of(double, None, {"A": array()}), Problem.of(double, (array(), "right"))):
        kernel = problem.compile({"block": 4})
        assert kernel.schedule["block"] == 4
        np.testing.assert_array_equal(kernel(*problem.arguments(kernel)), array() * 2)
    by_size = Problem.of(double, None, {"N": 12})
    (made,) = by_size.arguments(by_size.compile({"block": 4}))
    assert made.shape == (12,)


def test_a_plain_function_and_one_under_autotune() -> None:
    @tileworkbench.autotune(configs=[{"block": 4}])
    @tileworkbench.jit(target=TARGET)
    def negate(A, block=8):
        N = T.const("N")
        A: T.Tensor((N,), T.float32)
        B = T.empty((N,), T.float32)
        with T.Kernel(T.ceildiv(N, block), threads=1) as bx:
            for i in T.Parallel(block):
                B[bx * block + i] = -A[bx * block + i]
        return B

    for function in (negate, negate.jitted.function):
        problem = Problem.of(function, (array(),))
        np.testing.assert_array_equal(problem.compile({"block": 4})(array()), -array())
    assert Problem.of(negate, (array(),)).program == Problem.of(negate.jitted.function, (array(),)).program


def test_what_cannot_be_tuned() -> None:
    with pytest.raises(TileTypeError, match="tuning takes a jitted function, got JITKernel\n  hint: pass the function that makes it"):
        Problem.of(matmul(5, 6, 7))
    with pytest.raises(TileTypeError, match="got int\n  hint: decorate it with tileworkbench.jit"):
        Problem.of(3)
    with pytest.raises(ArgumentError, match="double: too many positional arguments\n  hint: it takes"):
        Problem.of(double, (array(), "right", 8, 9))


def test_why_not() -> None:
    problem = Problem.of(matmul, matrices(), SIZES)
    assert problem.why_not({"block": 16}) == ""
    assert problem.why_not({"block": 0}) == "type error: T.ceildiv(6, 0): integer division or modulo by zero"
    assert problem.why_not({"blocks": 16}).startswith("argument error: matmul: got an unexpected keyword argument 'blocks' (it takes (M")
    assert Problem.of(double, (array(),)).why_not({"mode": "refused"}) == "ValueError: this mode is refused"
    space = problem.space(block=[0, 16])
    assert [space.why_not(s)[:10] for s in space] == ["type error", ""]


def test_the_guessed_space_leaves_out_what_is_fixed() -> None:
    assert str(Problem.of(matmul, matrices(), SIZES).space()) == "block: 8, 16, 32, 64\nrelu: False, True"
    assert str(Problem.of(matmul, matrices(), {**SIZES, "relu": True}).space()) == "block: 8, 16, 32, 64"
    assert str(Problem.of(double, (array(),)).space()) == "block: 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16"


def test_a_report_runs_nothing() -> None:
    problem = Problem.of(double, (array(),), {"mode": "hang"})
    with_model = problem.report({"block": 8}, REFERENCE_CPU)
    assert with_model.measured is None
    assert with_model.schedule == {"block": 8}
    lazy = Problem.of(matmul, matrices(), SIZES)
    assert lazy.report({"block": 16}, REFERENCE_CPU).predicted == lazy.compile({"block": 16}).report(REFERENCE_CPU).predicted


def test_symbolic_sizes_come_from_the_arguments() -> None:
    @tileworkbench.jit(target=TARGET)
    def copy(block=8):
        n = T.dynamic("n")

        @T.prim_func
        def main(A: T.Tensor((n,), T.float32), B: T.Tensor((n,), T.float32)):
            with T.Kernel(T.ceildiv(n, block), threads=1) as bx:
                for i in T.Parallel(block):
                    B[bx * block + i] = A[bx * block + i]

        return main

    small = Problem.of(copy, (array(64), array(64)))
    assert small.report({"block": 8}, REFERENCE_CPU).dims == {"n": 64}
    with pytest.raises(ArgumentError, match="copy: the model needs values for n"):
        Problem.of(copy).report({"block": 8}, REFERENCE_CPU)


def test_threads_of_a_launch_are_a_tunable() -> None:
    problem = Problem.of(matmul, matrices(), SIZES)
    one, two = problem.compile({"block": 16, "num_threads": 1}), problem.compile({"block": 16, "num_threads": 2})
    assert (one.num_threads, two.num_threads, two.schedule["num_threads"]) == (1, 2, 2)
    assert problem.compile({"block": 16}).options.num_threads is None, "the function's own kernel stays as it is"
    np.testing.assert_array_equal(two(*matrices()), one(*matrices()))
    assert problem.report({"block": 16, "num_threads": 2}, REFERENCE_CPU).threads == 2
    assert problem.report({"block": 16, "num_threads": 1}, REFERENCE_CPU).threads == 1
    assert problem.why_not({"block": 16, "num_threads": 0}) == "value error: num_threads must be a whole number of at least 1, got 0"


# ------------------------------------------------------------------------------------------- names
NAME = """
import numpy as np
from tune.programs import double, matmul
from tileworkbench.tune.problem import Problem
print(Problem.of(double, (np.arange(20, dtype=np.float32),)).program, Problem.of(matmul, None, {"M": 5, "N": 6, "K": 7}).program)
"""


def test_the_name_is_the_same_in_another_session() -> None:
    path = os.pathsep.join([str(ROOT), str(ROOT / "tests")])
    env = {**os.environ, "PYTHONPATH": path, "PYTHONHASHSEED": "7"}
    done = subprocess.run([sys.executable, "-c", NAME], capture_output=True, text=True, timeout=120, check=True, env=env)
    problem = Problem.of(double, (array(),))
    problem.compile({"block": 8})  # the frontend has rewritten the function by now
    assert done.stdout.split() == [problem.program, Problem.of(matmul, None, SIZES).program]


HELPER = """
def helper(x):{comment}
    return x * {factor}

@tileworkbench.jit(target={target!r})
def scaled(A, block=8):
    N = T.const("N")
    A: T.Tensor((N,), T.float32)
    B = T.empty((N,), T.float32)
    with T.Kernel(T.ceildiv(N, block), threads=1) as bx:{comment}
        for i in T.Parallel(block):
            B[bx * block + i] = helper(A[bx * block + i]) + OFFSET
    return B
"""


def test_the_name_follows_the_meaning(tmp_path: Path) -> None:
    def program(count: int = 20, offset: float = 1.0, fixed: dict[str, Any] | None = None, **holes: Any) -> str:
        text = HELPER.format(**{"comment": "", "factor": 2, "target": TARGET, **holes})
        path = tmp_path / f"{len(list(tmp_path.iterdir()))}.py"
        path.write_text(text)
        scope: dict[str, Any] = {"tileworkbench": tileworkbench, "T": T, "OFFSET": offset, "__name__": "__main__"}
        exec(compile(text, str(path), "exec"), scope)
        return Problem.of(scope["scaled"], (array(count),), fixed).program

    first = program()
    assert program(comment="  # a remark") == first
    assert program(target="interpret") == program(target="c") == first, "how it is compiled is another question"
    names = {first, program(factor=3), program(offset=2.0), program(count=24), program(fixed={"block": 16})}
    assert len(names) == 5
