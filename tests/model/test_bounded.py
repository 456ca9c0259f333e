"""No level moves more of a buffer than the level that it feeds."""

from __future__ import annotations

import pytest
from model.hand import gemm

from tileworkbench.base.machine import REFERENCE_CPU
from tileworkbench.model.bounded import bounded
from tileworkbench.model.report import report
from tileworkbench.model.traffic import Flow, Traffic


def test_a_level_is_cut_to_the_one_above_by_buffer() -> None:
    flows = (Flow("L2", "A", 100.0, 0.0, 0.0), Flow("L3", "A", 60.0, 20.0, 4.0), Flow("DRAM", "A", 75.0, 25.0, 5.0), Flow("DRAM", "B", 0.0, 0.0, 0.0))
    cut = bounded(Traffic(flows, 1, 0, 0, 1.0), REFERENCE_CPU)
    assert cut.bytes("L3") == 80, "what is in order stays"
    assert cut.bytes("DRAM") == 80
    assert next(f for f in cut.flows if f.level == "DRAM").read_bytes == 60, "reads and writes alike"


@pytest.mark.parametrize("threads", [1, 2])
def test_reports_are_in_order(threads: int) -> None:
    r = report(gemm(1024, 1024, 1024, 128, 128, 32), REFERENCE_CPU, {}, threads=threads)
    by_level = {x.name: x.cold_bytes for x in r.levels}
    assert by_level["DRAM"] <= by_level["L3"] * 1.0001 <= by_level["L2"] * 1.0002
    for use in r.by_buffer():
        assert use.bytes["DRAM"] <= use.bytes["L3"] * 1.0001
