"""The budgets of the interaction: their values, and one short run without a browser. Nothing here asserts a time."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tileworkbench.bench import lab
from tileworkbench.bench.__main__ import main
from tileworkbench.bench.interaction import Budget, Interaction
from tileworkbench.runtime import toolchain


def test_a_budget_is_the_median_and_knows_its_limit() -> None:
    assert Budget("x", (3.0, 1.0, 2.0), 2.0).is_within
    assert not Budget("x", (3.0, 1.0, 2.1), 2.0).is_within
    assert Budget("x", (900.0,)).is_within
    assert Budget("x", (), 2.0, note="no browser").is_within, "what was not measured is not over"


def test_table_and_json() -> None:
    found = Interaction(
        [Budget("ghost", (4.0,), 120.0), Budget("truth", (), 500.0, note="chromium not installed"), Budget("size", (250.0,), 200.0, "kB")], "CPU"
    )
    assert found.table().splitlines() == [
        "CPU",
        "                                          measured     limit",
        "ghost                                       4.0 ms    120 ms",
        "truth                                 not measured    500 ms  chromium not installed",
        "size                                      250.0 kB    200 kB  OVER",
    ]
    assert not found.is_within
    row = found.as_json()["budgets"][2]
    assert (row["value"], row["limit"], row["unit"], row["within"]) == (250.0, 200.0, "kB", False)


def test_only_strict_fails_the_command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("tileworkbench.bench.__main__.BENCHES", {"interaction": lambda _: Interaction([Budget("slow", (9.0,), 1.0)])})
    assert main(["interaction"]) == 0
    assert main(["interaction", "--strict"]) == 1
    assert "OVER" in capsys.readouterr().out


@pytest.mark.slow
def test_one_run(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    if toolchain.default_compiler() is None:
        pytest.skip("no C compiler on this machine")
    monkeypatch.setattr(lab, "missing", lambda: "chromium not installed")
    main(["interaction", "--repeat", "1", "--json", str(tmp_path / "interaction.json")])
    assert "truth, in the kernel" in capsys.readouterr().out
    rows: dict[str, Any] = {row["name"]: row for row in json.loads((tmp_path / "interaction.json").read_text())["budgets"]}
    for name in ("ghost, in the kernel", "truth, in the kernel: compile and run", "layout 256x128, in Python", "first paint of a cell's result"):
        assert rows[name]["value"] > 0
        assert rows[name]["limit"] is not None
    assert rows["ghost, in the browser"]["value"] is None
    assert rows["ghost, in the browser"]["note"] == "chromium not installed"
    sizes = [row for name, row in rows.items() if name.startswith("size of")]
    assert len(sizes) >= 6
    assert all(row["within"] for row in sizes), "a size does not hang on the machine's speed"
