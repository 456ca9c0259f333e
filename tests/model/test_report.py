"""What a report says: bounds, shares, verdicts, facts, tables."""

from __future__ import annotations

from dataclasses import replace

import pytest
from model.hand import gemm, rows

from tileworkbench.base.machine import REFERENCE_CPU
from tileworkbench.model.report import Report, report
from tileworkbench.model.values import Measured, Predicted, show

N = 512
GEMM = report(gemm(N, N, N, 64, 64, 64), REFERENCE_CPU, {})
ROWS = report(rows(8192, 4096, 4), REFERENCE_CPU, {})  # 192 MiB: more than the last cache


def timed(r: Report, *seconds: float) -> Report:
    return replace(r, measured=Measured.of(seconds))


def test_a_prediction_starts_at_the_slowest_part_and_adds_up() -> None:
    assert GEMM.bound == GEMM.waterfall.roof.name == "compute"
    assert GEMM.waterfall.roof.seconds == pytest.approx(2 * N**3 / 215e9)
    assert GEMM.predicted.value == pytest.approx(GEMM.waterfall.roof.seconds + sum(b.seconds for b in GEMM.waterfall.bars))
    assert GEMM.predicted.value > 1.1 * GEMM.waterfall.roof.seconds
    assert max(GEMM.shares.values()) <= 1 and max(ROWS.shares.values()) <= 1, "no prediction lies above a roof"
    assert GEMM.verdict.endswith(f"predicted, {GEMM.predicted}") and "215 GFLOP/s (float32)" in GEMM.verdict


def test_without_a_breakdown_the_roof_is_the_prediction() -> None:
    first = GEMM.first_launch
    assert first.predicted.value == pytest.approx(2 * N**3 / 215e9)
    assert first.verdict == "compute-bound: 100 % of 215 GFLOP/s (float32); predicted, ~1.25 ms"
    assert ROWS.bound == "DRAM"
    assert ROWS.first_launch.predicted.value == pytest.approx(8192 * 4096 * 6 / 15e9)
    assert not first.is_warm and GEMM.is_warm


def test_verdicts_of_measured_times() -> None:
    """Near a roof, far from all, and above one."""
    seconds = 8192 * 4096 * 6 / 15e9
    assert timed(ROWS, seconds / 0.71).verdict == "DRAM-bound: 71 % of 15 GB/s"
    assert timed(GEMM, 1.248e-3 / 0.66).verdict == "compute-bound: 66 % of 215 GFLOP/s (float32)"
    assert timed(GEMM, 1.248e-3 / 0.31).verdict == "latency-bound: the nearest roof is compute, 31 % of 215 GFLOP/s (float32)"
    assert timed(ROWS, seconds / 1.5).verdict.startswith("above the DRAM roof: 150 % of 15 GB/s; ")


def test_an_unstable_time_is_judged_by_its_best_run() -> None:
    r = timed(GEMM, 1.6e-3, 3e-3, 9e-3, 9e-3, 2e-3)
    assert r.verdict == "compute-bound: 78 % of 215 GFLOP/s (float32); best of 5 runs, which vary by more than twice their median"
    assert r.rate.value == pytest.approx(2 * N**3 / 3e-3), "the rate that is shown stays the median's"


def test_repeated_launches_find_small_data_in_the_cache() -> None:
    """3 MiB fit in L3: the first launch moves them at DRAM, a repeated one, measured or predicted, nothing."""
    cold = {level.name: level.bytes for level in GEMM.first_launch.levels}
    assert [level.bytes for level in GEMM.levels] == [level.bytes for level in timed(GEMM, 0.002).levels], "a prediction is made to be compared"
    warm = {level.name: (level.bytes, level.cold_bytes) for level in timed(GEMM, 0.002).levels}
    assert cold["DRAM"] == 3 * N * N * 4
    assert warm["DRAM"] == (0, 3 * N * N * 4)
    assert [p.level for p in timed(GEMM, 0.002).points] == ["L1", "L2", "L3"]
    assert {level.name: level.bytes for level in timed(ROWS, 0.02).levels}["DRAM"] == 8192 * 4096 * 6, "192 MiB do not fit"


def test_exp_and_division_cost_time_but_are_no_flop() -> None:
    assert ROWS.counts.flops == {"float32": 8192 * 4096}
    assert ROWS.counts.special == {"exp": 8192 * 4096, "div": 8192 * 4096}
    assert ROWS.compute_seconds == pytest.approx(8192 * 4096 * (1 + 2 * (12 + 4)) / 215e9)


def test_facts_have_units_and_the_names_of_assertions() -> None:
    facts = timed(GEMM, 0.002).facts
    assert facts["dram.bytes"] == (3 * N * N * 4, "B")
    assert facts["compulsory"] == (3 * N * N * 4, "B")
    assert facts["time"] == (0.002, "s")
    assert facts["flops"] == (2 * N**3, "FLOP")
    assert facts["rate"] == (2 * N**3 / 0.002, "FLOP/s")
    assert facts["roof"][0] == pytest.approx(0.624, abs=1e-3)
    assert {unit for _, unit in facts.values()} == {"B", "s", "FLOP", "FLOP/s", "B/s", "FLOP/B", ""}
    assert facts["l2.worst"][0] >= facts["l2.bytes"][0] >= facts["compulsory"][0]


def test_tables_add_up() -> None:
    """Bytes by buffer and by line are two cuts of the same bytes, at every level."""
    for level in ("L2", "L3", "DRAM"):
        total = GEMM.traffic.bytes(level)
        assert sum(u.bytes[level] for u in GEMM.by_buffer()) == pytest.approx(total)
        assert sum(u.bytes[level] for u in GEMM.by_line()) == pytest.approx(total)
    assert sum(u.asked_bytes for u in GEMM.by_buffer()) == sum(u.asked_bytes for u in GEMM.by_line()) == GEMM.counts.asked_bytes
    assert sum(u.flops for u in GEMM.by_line()) == GEMM.counts.total_flops
    assert [u.buffer for u in GEMM.by_buffer()][:3] == ["A", "B", "C"], "arguments first"


def test_predictions_and_measurements_print_differently() -> None:
    first = GEMM.first_launch
    assert (str(first.time), str(timed(GEMM, 0.002).time)) == ("~1.25 ms", "2 ms")
    assert "time ~1.25 ms, predicted" in str(first)
    assert f"time 2 ms, measured; predicted {GEMM.predicted}" in str(timed(GEMM, 0.002))
    assert str(Measured.of([1.0, 1.1, 3.0])) == "1.1 s (median of 3, best 1 s)"
    assert not isinstance(Predicted(1, "s"), Measured)


def test_numbers_show_three_digits_and_a_prefix() -> None:
    assert [show(v, "B") for v in (0, 1, 999, 1000, 999_999, 1.5e9)] == ["0 B", "1 B", "999 B", "1 kB", "1 MB", "1.5 GB"]
    assert [show(v, "s") for v in (1.5, 0.0021, 4.2e-5, 3e-10)] == ["1.5 s", "2.1 ms", "42 us", "0.3 ns"]


def test_no_samples_are_no_measurement() -> None:
    with pytest.raises(ValueError, match="no samples"):
        Measured.of([])


def test_an_empty_grid_says_so() -> None:
    r = report(gemm(0, 64, 64, 64, 64, 64), REFERENCE_CPU, {})
    assert r.verdict == "nothing runs: the grid is empty"
    assert r.points == ()
    assert "work no FLOP" in str(r)
