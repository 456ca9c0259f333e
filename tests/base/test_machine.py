"""The machine value: rates by threads, ridges, and its way through JSON."""

from __future__ import annotations

import json

import pytest

from tileworkbench.base.machine import PRESETS, REFERENCE_CPU, Machine, Quantity, laptop


def test_rates_grow_with_threads_up_to_the_machine() -> None:
    machine = laptop(cores=8)
    assert machine.bandwidth("DRAM").value == 25
    assert machine.bandwidth("DRAM", 2).value == 50
    assert machine.bandwidth("DRAM", 4).value == machine.bandwidth("DRAM", 8).value == machine.bandwidth("DRAM", 99).value == 76.8
    assert machine.peak("float32", 2).value == 2 * machine.peak("float32").value
    assert "2 x one core" in machine.bandwidth("DRAM", 2).source


def test_a_dtype_without_a_peak_is_that_of_what_computes_it() -> None:
    assert REFERENCE_CPU.peak("float16>float32") == REFERENCE_CPU.peak("float32")
    assert REFERENCE_CPU.peak("bfloat16") == REFERENCE_CPU.peak("float32")
    assert REFERENCE_CPU.peak("float64").value == 107


def test_the_ridge_is_peak_over_bandwidth() -> None:
    assert REFERENCE_CPU.ridge("DRAM", "float32") == 215 / 15
    assert REFERENCE_CPU.ridge("DRAM", "float32", threads=2) == 430 / 30


def test_an_unknown_level_is_named_with_those_there_are() -> None:
    with pytest.raises(KeyError, match="no level 'L4', only registers, L1, L2, L3, DRAM"):
        REFERENCE_CPU.level("L4")
    with pytest.raises(KeyError, match="states no bandwidth for registers"):
        REFERENCE_CPU.bandwidth("registers")


@pytest.mark.parametrize("name", PRESETS)
def test_json_round_trip(name: str) -> None:
    assert Machine.from_json(PRESETS[name].to_json()) == PRESETS[name]


@pytest.mark.parametrize("text", ["", "{}", "[1]", '{"schema": 99}', json.dumps({**json.loads(REFERENCE_CPU.to_json()), "levels": [{"name": "L1"}]})])
def test_a_damaged_record_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        Machine.from_json(text)


def test_capacities_are_bytes_and_rates_are_not() -> None:
    assert Quantity(48, "KiB").bytes == 49152
    assert Quantity(1.25, "MiB").bytes == 1310720
    with pytest.raises(ValueError, match="15 GB/s is not a capacity"):
        _ = Quantity(15, "GB/s").bytes


def test_it_prints_as_a_table_that_says_what_was_measured() -> None:
    text = str(REFERENCE_CPU)
    assert "L2              2 MiB     150 GB/s     290 GB/s" in text
    assert "(stated, not measured)" in text
    measured = Machine.from_json(REFERENCE_CPU.to_json().replace('"measured": false', '"measured": true'))
    assert "(measured)" in str(measured)


def test_measuring_needs_a_runtime(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Machine, "measurer", None)
    with pytest.raises(RuntimeError, match="import tileworkbench first"):
        Machine.measure()
    monkeypatch.setattr(Machine, "measurer", lambda **options: REFERENCE_CPU)
    assert Machine.measure(force=True) is REFERENCE_CPU
