"""Feasibility maps: what forbids a position, what a legal one costs, and how runs fill in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from tileworkbench.base.machine import find_machine
from tileworkbench.ir.stmt import Kernel
from tileworkbench.kernels import gemm
from tileworkbench.model.contours import contour, levels_between
from tileworkbench.model.feasibility import Axis, FeasibilityMap, Position, empty_map, feasibility, judge
from tileworkbench.model.report import report

H200 = find_machine("h200")
X, Y = Axis("block_m", (64, 128, 512)), Axis("block_n", (64, 128, 512))


def build(c: Mapping[str, Any]) -> Kernel:
    if c["block_m"] == c["block_n"] == 128:
        raise ValueError("made to fail")
    return gemm.program(1024, 1024, 1024, c["block_m"], c["block_n"], 64, c["stages"], "float16", "float16", False).kernel


@pytest.fixture(scope="module")
def found() -> FeasibilityMap:
    return feasibility(build, X, Y, machine=H200, fixed={"stages": 3, "block_m": 1}, current={"block_m": 128, "block_n": 64})


def test_every_position_is_judged(found: FeasibilityMap) -> None:
    assert {(p.x, p.y) for p in found.positions} == {(x, y) for x in X.values for y in Y.values}
    assert not list(found.unjudged())
    assert found.kernel == "gemm" and found.fixed == {"stages": 3}


def test_limits_have_a_name_and_numbers(found: FeasibilityMap) -> None:
    """3 stages of (512 + 512) x 64 float16 are 384 KiB of shared memory; 512 x 64 float32 over 128 threads are 256 registers."""
    limit = found.at(512, 512).limit  # type: ignore[union-attr]  # it is judged
    assert limit is not None and limit.name == "shared memory" and "384 KiB" in limit.why and "227 KiB" in limit.why
    wide = found.at(512, 64).limit  # type: ignore[union-attr]  # it is judged
    assert wide is not None and wide.name == "registers"
    broken = found.at(128, 128).limit  # type: ignore[union-attr]  # it is judged
    assert broken is not None and str(broken) == "does not compile: ValueError: made to fail"
    assert sum(map(len, found.limits.values())) == sum(not p.is_legal for p in found.positions)


def test_legal_positions_cost_what_the_report_says(found: FeasibilityMap) -> None:
    r = report(build({"block_m": 64, "block_n": 128, "stages": 3}), H200, {})
    here = found.at(64, 128)
    assert here is not None and here.seconds == pytest.approx(r.predicted.value)
    assert here.bytes == pytest.approx({level.name: level.bytes for level in r.levels})
    assert found.value(here) == here.seconds
    best = found.best
    assert best is not None and all(best.seconds <= p.seconds for p in found.positions if p.seconds)  # type: ignore[operator]  # legal ones have seconds


def test_a_cpu_forbids_nothing() -> None:
    m = feasibility(build, Axis("block_m", (512,)), Axis("block_n", (512,)), machine=find_machine("reference"), fixed={"stages": 3}, metric="DRAM")
    position = m.positions[0]
    assert position.is_legal and m.value(position) == position.bytes["DRAM"] and m.unit == "B"
    assert "L2" in position.note or "L3" in position.note


def test_a_rule_forbids_before_anything_is_built() -> None:
    m = empty_map(X, Y, machine=H200, fixed={"stages": 2})

    def never(_: Mapping[str, Any]) -> Kernel:
        raise AssertionError("it was built")

    name, p = judge(never, m, m.candidate(64, 64), machine=H200, rule=lambda c: f"{c['block_m']} does not divide 100")
    assert name == "" and p.limit is not None and (p.limit.name, p.limit.why) == ("rule", "64 does not divide 100")


def test_runs_fill_in(found: FeasibilityMap) -> None:
    m = found.with_measured({"block_m": 64, "block_n": 64, "stages": 3}, seconds=2e-3).with_measured({"block_m": 64, "block_n": 128}, seconds=1e-3)
    m = m.with_measured({"block_m": 128, "block_n": 64}, why="killed after 5 s")
    assert [t.seconds for t in m.trials] == [2e-3, 1e-3, None]
    assert m.best_measured is m.trials[1]
    assert m.with_measured({"block_m": 64, "block_n": 64, "stages": 4}, seconds=1.0) is m  # another plane
    assert m.with_measured({"block_m": 65, "block_n": 64}, seconds=1.0) is m  # off the axis
    assert m.moved({"block_m": 512, "block_n": 64}).current == (512, 64)


def test_unjudged_positions_come_nearest_first() -> None:
    m = empty_map(X, Y, machine=H200, current={"block_m": 512, "block_n": 512}).with_position(Position(512, 512))
    assert next(m.unjudged()) in ((128, 512), (512, 128))


def test_contours_lie_where_the_value_is() -> None:
    grid = [[float(x + 10 * y) for x in range(4)] for y in range(3)]
    for level in (0.5, 7.25, 15.0, 21.5):
        for line in contour(grid, level):
            assert len(line) >= 2
            assert all(x + 10 * y == pytest.approx(level) for x, y in line)
    assert len(contour(grid, 15.0)) == 1  # pieces of one line are joined
    assert contour([[0.0, 1.0], [None, 1.0]], 0.5) == ()
    assert contour([[0.0, 1.0], [1.0, 0.0]], 0.4) != contour([[0.0, 1.0], [1.0, 0.0]], 0.6)  # a saddle
    assert levels_between(0.0, 4.0, 3) == (1.0, 2.0, 3.0)
