"""The prediction benchmark as a value. Nothing here asserts a time."""

from __future__ import annotations

from dataclasses import replace

from tileworkbench.base.machine import REFERENCE_CPU
from tileworkbench.bench.__main__ import BENCHES
from tileworkbench.bench.predictions import Predictions, Row, cases
from tileworkbench.model.report import report


def test_rows_are_judged_by_the_best_run() -> None:
    row = Row("gemm", "64x64x64", 1.2e-3, (1.0e-3, 1.6e-3, 1.5e-3))
    assert (row.best, row.median, row.is_within) == (1.0e-3, 1.5e-3, True)
    assert not Row("gemm", "64x64x64", 1.26e-3, (1e-3,)).is_within
    assert not Row("gemm", "64x64x64", 0.74e-3, (1e-3,)).is_within


def test_the_table_puts_the_worst_last() -> None:
    rows = (Row("b", "2", 2e-3, (1e-3,), "compute"), Row("a", "1", 1.1e-3, (1e-3, 2e-3, 3e-3), "DRAM"))
    found = Predictions(replace(REFERENCE_CPU, name="a CPU", date="2026-11-30", notes=("busy",)), rows)
    assert found.table().splitlines() == [
        "a CPU, 1 thread; measured 2026-11-30",
        "kernel            schedule       predicted        best      median  ratio",
        "a                 1                1.10 ms     1.00 ms     2.00 ms   1.10  DRAM",
        "b                 2                2.00 ms     1.00 ms     1.00 ms   2.00  compute  OVER",
        "1 of 2 within 25% of the best measured time",
        "note: busy",
    ]
    assert not found.is_within
    assert found.as_json()["rows"][0] == {
        "kernel": "b", "schedule": "2", "predicted": 2e-3, "best": 1e-3, "median": 1e-3, "ratio": 2.0, "roof": "compute", "runs": 1,
    }  # fmt: skip


def test_five_schedules_of_each_of_the_demo_s_kernels() -> None:
    found = list(cases(n=64, rows=32, cols=64, heads=1, seq=64))
    kernels = [case.kernel for case in found]
    assert {k: kernels.count(k) for k in kernels} == dict.fromkeys(
        ("gemm f32 + relu", "gemm f16 + relu", "softmax", "attention", "attention causal"), 5
    )  # fmt: skip
    assert len({(case.kernel, case.schedule) for case in found}) == 25
    assert "predictions" in BENCHES
    assert report(found[0].make().ir, REFERENCE_CPU, {}).predicted.value > 0
