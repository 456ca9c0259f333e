"""The machine value: rates by threads, ridges, and its way through JSON."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from tileworkbench.base.errors import TileValueError
from tileworkbench.base.machine import ALIASES, PRESETS, REFERENCE_CPU, Machine, Quantity, find_machine, laptop, machines, preset_of_device

GPUS = [name for name, machine in PRESETS.items() if machine.is_gpu]


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


def test_a_record_of_an_earlier_version_is_read() -> None:
    """Measured machines lie in caches of earlier versions, without peaks' units and GPUs."""
    data = json.loads(REFERENCE_CPU.to_json())
    for key in ("gpu", "theory"):
        del data[key]
    for peak in data["peaks"]:
        del peak["unit"], peak["per_clock"]
    assert Machine.from_json(json.dumps(data)) == REFERENCE_CPU


def test_theory_goes_along_with_a_measurement() -> None:
    machine = replace(REFERENCE_CPU, theory=find_machine("sapphire-rapids"))
    assert Machine.from_json(machine.to_json()) == machine


@pytest.mark.parametrize("name", PRESETS)
def test_every_number_has_a_unit_and_a_source(name: str) -> None:
    for what, quantity in PRESETS[name].quantities.items():
        assert quantity.unit and quantity.value >= 0, what
        assert len(quantity.source) > 4, f"{what} of {name} says not where it comes from"


@pytest.mark.parametrize("name", GPUS)
def test_the_peaks_of_a_gpu_are_units_times_rate_times_clock(name: str) -> None:
    machine = PRESETS[name]
    gpu = machine.gpu
    assert gpu is not None
    for peak in machine.peaks:
        assert peak.per_clock is not None
        clock = gpu.clock if peak.unit != "tensor" or peak.dtype == "float64" else gpu.tensor_clock
        computed = gpu.sms.value * peak.per_clock.value * clock.value / 1e3
        assert peak.machine.value == pytest.approx(computed, rel=0.03), f"{peak.dtype} {peak.unit}"
        assert peak.core.value * machine.cores == pytest.approx(peak.machine.value)


@pytest.mark.parametrize("name", PRESETS)
def test_levels_get_larger_and_slower(name: str) -> None:
    levels = [level for level in PRESETS[name].levels if level.machine is not None]
    rates = [level.machine.value for level in levels if level.machine]
    assert rates == sorted(rates, reverse=True) and levels[-1].name == "DRAM"
    instances = [level.capacity.bytes * (1 if level.is_shared else PRESETS[name].cores) for level in levels if level.capacity]
    assert all(a < 2 * b for a, b in zip(instances, instances[1:], strict=False)) or PRESETS[name].is_gpu


@pytest.mark.parametrize("name", GPUS)
def test_the_ridges_of_gpus_are_sane(name: str) -> None:
    """A matrix product in float16 needs about a hundred to a few hundred FLOP for each byte of memory, ordinary float32 a few tens."""
    machine = PRESETS[name]
    assert 70 < machine.ridge("DRAM", "float16>float32") < 500
    assert 5 < machine.ridge("DRAM", "float32") < 120
    assert machine.ridge("shared", "float16>float32") < machine.ridge("L2", "float16>float32") < machine.ridge("DRAM", "float16>float32")


def test_what_the_h200_is_known_for() -> None:
    h200 = find_machine("h200")
    assert str(h200.peak("float16>float32")) == "989 TFLOP/s"
    assert str(h200.peak("float8_e4m3fn>float32")) == "1.98 PFLOP/s"
    assert str(h200.peak("float32")) == "67 TFLOP/s"
    assert str(h200.bandwidth("DRAM")) == "4.8 TB/s"
    assert h200.gpu is not None and h200.gpu.shared_per_block.bytes == 232_448 and h200.gpu.registers_per_sm.count == 65_536
    assert h200.workers() == "132 SMs" and h200.nearest == "shared" and h200.kind == "gpu"
    assert h200.bandwidth("L2", 1).value == pytest.approx(64 * 1.98)
    rate = h200.special_rate()
    assert rate is not None and rate.value == pytest.approx(16 * 132 * 1.98) and rate.unit == "Gop/s"


def test_products_run_on_the_unit_that_takes_them() -> None:
    a100, t4, h200 = (find_machine(name) for name in ("a100", "t4", "h200"))
    assert h200.find_peak("float16").unit == "fma" and h200.find_peak("float16", "tensor").unit == "tensor"
    assert a100.peak("float8_e4m3fn>float32") == a100.peak("float16>float32"), "no unit takes 8 bits: widened to 16"
    assert t4.find_peak("bfloat16>float32").unit == "fma" and t4.find_peak("bfloat16>float32").dtype == "float32"
    assert h200.find_peak("float32", "tensor").unit == "fma", "a product in full float32 has no tensor unit"
    assert find_machine("sapphire-rapids").find_peak("bfloat16>float32").instruction == "AMX TDPBF16PS"


def test_machines_are_found_by_name_or_nearly() -> None:
    assert find_machine(" NVIDIA H100 ") is PRESETS["h100-sxm"]
    assert find_machine("GeForce RTX 4090") is PRESETS["rtx-4090"]
    assert all(ALIASES[name] in PRESETS for name in ALIASES)
    with pytest.raises(TileValueError, match=r"no machine is called 'h20'") as caught:
        find_machine("h20")
    assert "did you mean 'h200'?" in str(caught.value) and "rtx-4090" in str(caught.value)
    assert set(machines()) == set(PRESETS)
    assert "h200 989 TFLOP/s 67 TFLOP/s 4.8 TB/s NVIDIA H200" in [" ".join(line.split()) for line in str(machines()).splitlines()]


@pytest.mark.parametrize(
    ("device", "preset"),
    [
        ("NVIDIA H200", "h200"), ("NVIDIA H100 PCIe", "h100-pcie"), ("NVIDIA A100-SXM4-40GB", "a100-40"), ("NVIDIA A100-SXM4-80GB", "a100"),
        ("NVIDIA L4", "l4"), ("NVIDIA L40S", "l40s"), ("Tesla T4", "t4"), ("NVIDIA GeForce RTX 3090 Ti", None),
        ("NVIDIA GeForce RTX 5090", "rtx-5090"),
    ],
)  # fmt: skip
def test_a_device_finds_its_preset(device: str, preset: str | None) -> None:
    assert preset_of_device(device) is (PRESETS[preset] if preset else None)


def test_a_gpu_prints_its_limits() -> None:
    text = str(find_machine("h200"))
    assert "NVIDIA H200, 132 SMs, sm_90" in text
    assert "an SM: 65536 registers, 2048 threads, 32 blocks, 228 KiB shared; a block: 227 KiB shared" in text
    assert "float16>float32" in text and "wgmma" in text and "stated, not measured" in text


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
