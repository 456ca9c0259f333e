"""What stands between launches: bindings, branches and loops on the host, for the emulator with numbers and for CUDA up to the driver."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import tileworkbench
import tileworkbench.language as T
from tileworkbench.base.errors import DeviceAssertError, UnsupportedError
from tileworkbench.codegen.cuda_source import CudaSource, RunKernel
from tileworkbench.frontend.prim_func import PrimFunc
from tileworkbench.ir.build import index
from tileworkbench.ir.expr import Binary, Buffer, Cast, Const, Reinterpret, Select, Unary, Var, const
from tileworkbench.ir.lowered import Fail, LibraryCall, Loop, PrintLine, Text
from tileworkbench.ir.stmt import Break, Continue, Evaluate, If, Let, While
from tileworkbench.runtime.cuda_plan import Plan, plan_of
from tileworkbench.runtime.host_program import host_lines, make_run

n = T.dynamic("n")


def branching() -> PrimFunc:
    @T.prim_func
    def branches(X: T.Tensor((n,), "float32"), Y: T.Tensor((n,), "float32"), turns: T.int32, s: T.float32):
        W = T.alloc_global((n,), "float32")
        half = n // 2
        for j in T.serial(turns):
            if s > 0.5:
                with T.Kernel(T.ceildiv(half, 32), threads=32) as b:
                    for i in T.Parallel(32):
                        if b * 32 + i < half:
                            Y[b * 32 + i] = Y[b * 32 + i] + X[b * 32 + i] * j
            else:
                with T.Kernel(T.ceildiv(n, 32), threads=32) as b:
                    for i in T.Parallel(32):
                        W[b * 32 + i] = s
                with T.Kernel(T.ceildiv(n, 32), threads=32) as b:
                    for i in T.Parallel(32):
                        Y[b * 32 + i] = Y[b * 32 + i] + W[b * 32 + i]

    return branches


def halving() -> PrimFunc:
    """A tree sum in place: the stride of each launch is a variable of the host."""

    @T.prim_func
    def halves(X: T.Tensor((64,), "float32"), factor: T.float16):
        for level in T.serial(6):
            stride = 1 << (5 - level)
            with T.Kernel(1, threads=32):
                for i in T.Parallel(32):
                    if i < stride:
                        X[i] = X[i] + X[i + stride] * factor

    return halves


def guarded() -> PrimFunc:
    @T.prim_func
    def guards(X: T.Tensor((n,), "float32")):
        T.device_assert(n > 2, "n is more than two")
        with T.Kernel(1, threads=32):
            X[0] = n

    return guards


@pytest.mark.parametrize("target", ["interpret", "c", "emulate:sm_80"])
@pytest.mark.parametrize(("turns", "s"), [(3, 0.75), (2, 0.25), (0, 1.0), (-1, 1.0)])
def test_branches_and_loops_around_launches(target: str, turns: int, s: float) -> None:
    x, y = np.arange(77, dtype=np.float32), np.zeros(77, np.float32)
    tileworkbench.compile(branching(), target=target)(x, y, turns, s)
    want = np.zeros(77)
    for j in range(turns):
        want[:38] += x[:38] * j if s > 0.5 else 0
        want += 0 if s > 0.5 else s
    np.testing.assert_array_equal(y, want)


@pytest.mark.parametrize("target", ["c", "emulate:sm_80"])
def test_variables_of_the_host_reach_the_kernels(target: str) -> None:
    x = np.random.default_rng(0).integers(-9, 9, 64).astype(np.float32)
    want = x.astype(np.float64)
    for stride in (32, 16, 8, 4, 2, 1):
        want[:stride] += want[stride : 2 * stride] * 0.5
    tileworkbench.compile(halving(), target=target)(x, 0.5)
    assert x[0] == pytest.approx(want[0], rel=1e-6)


def test_a_narrow_scalar_is_rounded_once() -> None:
    """0.1 as a float16 is 0.0999756."""
    x = np.zeros(64, np.float32)
    x[1] = 1
    tileworkbench.compile(halving(), target="emulate:sm_80")(x, 0.1)
    assert x[0] == np.float32(np.float16(0.1))


@pytest.mark.parametrize("target", ["c", "emulate:sm_80"])
def test_an_assertion_between_launches(target: str) -> None:
    kernel = tileworkbench.compile(guarded(), target=target)
    kernel(np.zeros(3, np.float32))
    with pytest.raises(DeviceAssertError, match="n is more than two") as caught:
        kernel(np.zeros(2, np.float32))
    assert caught.value.span is not None


def test_memory_of_the_call_starts_unwritten() -> None:
    """A workspace that the second launch reads where the first wrote nothing."""

    @T.prim_func
    def reads(Y: T.Tensor((64,), "float32"), count: T.int32):
        W = T.alloc_global((64,), "float32")
        if count > 0:
            with T.Kernel(1, threads=32):
                for i in T.Parallel(64):
                    W[i] = 1.0
        with T.Kernel(1, threads=32):
            for i in T.Parallel(64):
                Y[i] = W[i]

    kernel = tileworkbench.compile(reads, target="emulate:sm_80")
    y = np.zeros(64, np.float32)
    for count, kinds in ((1, set()), (0, {"uninitialised"})):
        results = kernel.executable.run(kernel.bind(y, count), sanitize=True)  # type: ignore[attr-defined]
        assert {f.kind for _, r in results for f in r.findings} == kinds


# ------------------------------------------------------------------------------------------- lines
D, S, F = Var("d"), Var("s", T.int32), Var("f", T.float32)
H = Var("h", T.float16)


def run_lines(body: Any, *values: Any) -> tuple[list[tuple[int, Any]], list[int]]:
    """(launches with what is bound, failures) of a host program over d: int64, s: int32, f: float32, h: float16."""
    names = {"d": "d0", "s": "s0", "f": "s1", "h": "s2"}
    lines = host_lines(body, names)
    seen: list[tuple[int, Any]] = []
    failed: list[int] = []
    bound = [p for p in names.values() if p.startswith("h")]

    def launch(number: int) -> list[str]:
        return [f"seen(({number}, {{k: v for k, v in locals().items() if k in {bound!r}}}))"]

    run = make_run("d0, s0, s1, s2", lines, launch, {"seen": seen.append, "fail": failed.append}, "test")
    run(*values)
    return seen, failed


def value_of(expr: Any, *values: Any) -> Any:
    """The value of an expression of the host."""
    seen, _ = run_lines((Let(Var("out", expr.dtype), expr), RunKernel(0)), *values)
    return seen[0][1]["h0"]


TINY = np.float32(2.0**-24)


@pytest.mark.parametrize(
    ("expr", "want"),
    [
        (Binary("mul", D, index(3)), 21), (Binary("floordiv", Unary("neg", D), index(2)), -4), (Binary("truncdiv", Unary("neg", D), index(2)), -3),
        (Binary("floormod", D, index(0)), 0), (Binary("min", D, index(3)), 3), (Binary("shl", D, index(2)), 28),
        (Binary("mul", S, const(3, T.int32)), np.int32(3 * 2**30 - 2**32)), (Binary("add", F, Const(TINY, T.float32)), np.float32(1.0)),
        (Binary("gt", H, Const(0.1, T.float16)), False), (Cast(F, T.int32), 1), (Unary("exp", F), np.exp(np.float32(1))),
        (Select(Binary("lt", D, index(3)), index(1), index(2)), 2), (Binary("and", Binary("gt", D, index(3)), Binary("lt", D, index(9))), True),
        (Reinterpret(F, T.int32), 0x3F800000), (Unary("not", Binary("gt", D, index(3))), False), (Cast(S, T.int64), 2**30),
        (Const(float("inf"), T.float32), np.inf), (Binary("div", F, Const(0.0, T.float32)), np.inf), (Cast(S, T.uint8), 0),
    ],
    ids=str,
)  # fmt: skip
def test_values_are_those_of_a_kernel(expr: Any, want: Any) -> None:
    """Integers wrap and floats round as their dtype does; d = 7, s = 2**30, f = 1, h = 0.1."""
    found = value_of(expr, 7, 2**30, 1.0, 0.1)
    assert found == want
    if expr.dtype == "float32":
        assert type(found) is np.float32


def test_statements_of_the_host(capsys: pytest.CaptureFixture[str]) -> None:
    i, x = Var("i"), Var("x")
    even = Binary("eq", Binary("floormod", i, index(2)), index(0))
    body = (
        Let(x, Binary("add", D, index(1))),
        Loop(i, index(0), x, (If(even, (Continue(),)), If(Binary("gt", i, index(4)), (Break(),)), RunKernel(1)), step=1),
        Loop(i, index(3), index(0), (RunKernel(2),), step=-2),
        If(Binary("lt", D, index(3)), (RunKernel(3),), (Fail(4, "why"),)),
        While(const(False, T.bool), (RunKernel(5),)),
        PrintLine((Text("d is "), D, Text(", f is "), F)),
        If(Binary("lt", D, index(3)), ()),
    )
    seen, failed = run_lines(body, 7, 0, 1.5, 0.0)
    assert [(number, bound.get("h1")) for number, bound in seen] == [(1, 1), (1, 3), (2, 3), (2, 1)]
    assert failed == [5]
    assert capsys.readouterr().out == "d is 7, f is 1.500000\n"


@pytest.mark.parametrize("stmt", [Evaluate(D), Let(Var("y"), LibraryCall("strlen", (), T.int64))], ids=["statement", "expression"])
def test_what_only_a_launch_can_do_is_refused(stmt: Any) -> None:
    with pytest.raises(UnsupportedError, match="between launches on a GPU"):
        host_lines((stmt,), {"d": "d0"})


def test_a_plan_goes_through_json_whole() -> None:
    host = (Let(Var("x"), Binary("mul", D, index(2))), RunKernel(0))
    work = Buffer("w", (Binary("add", D, index(3)),), T.float16)
    plan = plan_of(CudaSource("", (), host=host, workspaces=(work,)), ("d",), (), "sm_80")
    assert Plan.from_data(json.loads(json.dumps(plan.data()))) == plan
    assert [line.text for line in plan.lines] == ["h0 = (d0 * 2)", ""]
    ((name, size),) = plan.workspaces
    assert (name, eval(size, {"d0": 5, "max": max})) == ("w", 16)


def test_launches_in_a_row_stay_as_they_were() -> None:
    """The fast path: no host program where there is none."""

    @T.prim_func
    def two(X: T.Tensor((n,), "float32")):
        for _ in range(2):
            with T.Kernel(1, threads=32):
                X[0] = X[0] + 1

    made = tileworkbench.compile(two, target="emulate:sm_80").executable.made  # type: ignore[attr-defined]
    assert made.host == () and len(made.kernels) == 2
