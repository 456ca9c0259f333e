"""The latency benchmark: its values, and one run of it. Nothing here asserts a time."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tileworkbench.bench.__main__ import main
from tileworkbench.bench.latency import LIMITS, Figure, Latency
from tileworkbench.runtime import toolchain


def test_a_figure_is_the_median_and_knows_its_limit() -> None:
    assert Figure("x", (3.0, 1.0, 2.0), limit=2.0).is_within
    assert not Figure("x", (3.0, 1.0, 2.1), limit=2.0).is_within
    assert Figure("x", (9.0,)).is_within


def test_table_and_json() -> None:
    found = Latency([Figure("fast", (0.004,), 0.008, note="three arrays"), Figure("slow", (50.0,), 30.0, tilelang=600.0)], "CPU", "gcc 12")
    assert found.table().splitlines() == [
        "CPU; gcc 12",
        "                              measured       limit    TileLang",
        "fast                           4.00 us     8.00 us              three arrays",
        "slow                           50.0 ms     30.0 ms    600.0 ms  OVER",
    ]
    assert not found.is_within
    row = found.as_json()["figures"][1]
    assert (row["ms"], row["limit_ms"], row["tilelang_ms"], row["within"]) == (50.0, 30.0, 600.0, False)


@pytest.mark.slow
def test_one_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    if toolchain.default_compiler() is None:
        pytest.skip("no C compiler on this machine")
    main(["latency", "--repeat", "1", "--json", str(tmp_path / "latency.json")])
    assert "import language" in capsys.readouterr().out
    rows = {row["name"]: row for row in json.loads((tmp_path / "latency.json").read_text())["figures"]}
    assert set(LIMITS) <= set(rows)
    assert all(row["ms"] > 0 for name, row in rows.items() if name != "call overhead")
    assert rows["import language"]["note"].startswith("none of"), "importing the language imports nothing heavy"
    assert "NOT CACHED" not in rows["hit gemm"]["note"]
