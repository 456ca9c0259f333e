"""Many short rows are done in strips of 16; rows that look at each other, few rows and long rows are not."""

from __future__ import annotations

import pytest
from codegen.differ import agree, random_array
from codegen.ir_kit import F32, Cast, Unary, Var, add, at, block, const, ix, kernel, lt, mul, op, put, tensor, tile, whole

from tileworkbench.analysis.uses import uses
from tileworkbench.ir.expr import Buffer, Select
from tileworkbench.ir.lowered import CopyElements, Loop
from tileworkbench.ir.node import walk
from tileworkbench.ir.printer import print_kernel
from tileworkbench.ir.stmt import Copy, Fill, For, If, Kernel, ParallelFor, Reduce, Stmt
from tileworkbench.transform.lowering import C_STEPS, run_steps
from tileworkbench.transform.strip_rows import strip_rows

BX, STEP = Var("bx"), Var("step")
_count = 0


def over(make, sizes: tuple[int, ...]) -> ParallelFor:
    """A parallel loop over fresh variables."""
    global _count
    _count += 1
    loop_vars = tuple(Var(f"v{_count}_{d}") for d in range(len(sizes)))
    return ParallelFor(loop_vars, tuple(ix(n) for n in sizes), tuple(make(*loop_vars)))


def tiles(rows: int, cols: int) -> dict[str, Buffer]:
    found = {n: tile(n, (rows, cols)) for n in ("s", "t")}
    found |= {n: tile(n, (rows,)) for n in ("top", "before", "fade", "total", "here")}
    return found | {
        "p": tile("p", (rows, cols), "bfloat16"),
        "X": tensor("X", (rows, cols)),
        "Y": tensor("Y", (rows, cols)),
        "R": tensor("R", (rows,)),
    }


def program(b: dict[str, Buffer], body: list[Stmt]) -> Kernel:
    return kernel("k", [b["X"], b["Y"], b["R"]], [block((1,), (BX,), body, tuple(b[n] for n in b if n not in "XYR"))])


def stripped(kern: Kernel) -> tuple[Kernel, int]:
    """The kernel after the pass, and how many loops over strips it has."""
    names = [step.name for step in C_STEPS]
    first = run_steps(kern, C_STEPS[: names.index("strip_rows")])
    after = strip_rows(first)
    strips = [n for n in walk(after) if isinstance(n, Loop) and n.var.hint == "strip"]
    assert strip_rows(after) is after and (strips or after is first)
    return after, len(strips)


def check(kern: Kernel, strips: int) -> Kernel:
    after, found = stripped(kern)
    assert found == strips, print_kernel(after)
    agree(
        kern, [random_array(tuple(int(d.value) for d in p.buffer.shape), p.buffer.type, n) for n, p in enumerate(kern.params)], rtol=1e-5, atol=1e-3
    )
    return after


def online_softmax(rows: int, cols: int) -> tuple[dict[str, Buffer], list[Stmt]]:
    """What attention does between its two products, twice over the same tile."""
    b = tiles(rows, cols)
    s, t, p, top, before, fade, total, here = (b[n] for n in ("s", "t", "p", "top", "before", "fade", "total", "here"))
    low = const(-1e30, F32)
    step: list[Stmt] = [
        Copy(whole(b["X"]), whole(s)),
        If(lt(STEP, 1), (over(lambda i, j: [put(s, i, j, Select(lt(j, add(i, 1)), at(s, i, j), low))], (rows, cols)),)),
        Copy(whole(top), whole(before)),
        Reduce("max", whole(s), whole(top), 1, clear=False),
        over(lambda i: [put(fade, i, Unary("exp2", op("sub", at(before, i), at(top, i))))], (rows,)),
        over(lambda i, j: [put(s, i, j, Unary("exp2", op("sub", at(s, i, j), at(top, i))))], (rows, cols)),
        Reduce("sum", whole(s), whole(here), 1),
        over(lambda i: [put(total, i, add(mul(at(total, i), at(fade, i)), at(here, i)))], (rows,)),
        over(lambda i, j: [put(t, i, j, mul(at(t, i, j), at(fade, i)))], (rows, cols)),
        Copy(whole(s), whole(p)),
        over(lambda i, j: [put(t, i, j, add(at(t, i, j), Cast(at(p, i, j), F32)))], (rows, cols)),
    ]
    start = [Fill(whole(t), const(0.0, F32)), Fill(whole(total), const(0.0, F32)), Fill(whole(top), const(-1e30, F32))]
    return b, [*start, For(STEP, ix(0), ix(2), tuple(step)), Copy(whole(t), whole(b["Y"])), Copy(whole(total), whole(b["R"]))]


@pytest.mark.parametrize("rows", [32, 48, 128])
def test_everything_between_two_products_is_one_strip(rows: int) -> None:
    b, body = online_softmax(rows, 32)
    after = check(program(b, body), 1)
    strip = next(n for n in walk(after) if isinstance(n, Loop) and n.var.hint == "strip")
    assert int(strip.stop.value) == rows // 16
    kinds = [type(s).__name__ for s in strip.body]
    assert kinds.count("Loop") >= 8 and "If" in kinds and any(isinstance(s, CopyElements) for s in strip.body)
    simd = [s for s in strip.body if isinstance(s, Loop) and s.simd]
    assert {int(s.stop.value) for s in simd} == {16, 16 * 32}  # scalars of rows, and whole tiles


@pytest.mark.parametrize(("rows", "cols"), [(16, 32), (40, 32), (32, 8), (32, 1024)], ids=str)
def test_few_rows_and_very_short_or_long_ones_are_left_alone(rows: int, cols: int) -> None:
    b, body = online_softmax(rows, cols)
    _, strips = stripped(program(b, body))
    assert strips == 0


def two_loops(b: dict[str, Buffer], second) -> list[Stmt]:
    rows, cols = (int(d.value) for d in b["s"].shape)
    s, t = b["s"], b["t"]
    return [
        Copy(whole(b["X"]), whole(s)),
        over(lambda i, j: [put(s, i, j, add(at(s, i, j), 1.0))], (rows, cols)),
        over(lambda i, j: [put(t, i, j, second(s, i, j))], (rows, cols)),
        Copy(whole(t), whole(b["Y"])),
    ]


def strips_with(kern: Kernel, *names: str) -> int:
    """Strips in which all of these buffers are used."""
    after, _ = stripped(kern)
    strips = [n for n in walk(after) if isinstance(n, Loop) and n.var.hint == "strip"]
    return sum({*names} <= {b.name for b in uses(n).buffers} for n in strips)


@pytest.mark.parametrize(
    "reader", [lambda s, i, j: at(s, op("floormod", add(i, 1), 32), j), lambda s, i, j: at(s, j, i)], ids=["next row", "columns"]
)
def test_rows_that_read_other_rows_wait_for_them(reader) -> None:
    """In the last row of a strip the second loop reads what the first has yet to make in the next strip."""
    b = tiles(32, 32)
    kern = program(b, two_loops(b, reader))
    assert strips_with(kern, "s", "t") == 0
    check(kern, stripped(kern)[1])


def test_a_strip_ends_before_what_it_may_not_pass() -> None:
    """Two loops keep to their rows; the third reads columns of what the second makes."""
    b = tiles(32, 32)
    s, t = b["s"], b["t"]
    kern = program(
        b,
        [
            Copy(whole(b["X"]), whole(s)),
            over(lambda i, j: [put(s, i, j, mul(at(s, i, j), 2.0))], (32, 32)),
            over(lambda i, j: [put(t, i, j, at(s, i, op("sub", 31, j)))], (32, 32)),
            over(lambda i, j: [put(s, i, j, at(t, j, i))], (32, 32)),
            Copy(whole(s), whole(b["Y"])),
        ],
    )
    assert strips_with(kern, "s", "t") == 1
    check(kern, 1)
