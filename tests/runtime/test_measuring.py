"""Measuring this machine: capacities that do not jump, a matrix unit that may be refused, and costs that follow from made-up times."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tileworkbench.base.cpu import AVX512, NEON, Isa
from tileworkbench.base.errors import CompilerError
from tileworkbench.base.machine import REFERENCE_CPU, Machine, Quantity
from tileworkbench.codegen.gemm_plan import plan_gemm
from tileworkbench.runtime import measure as measuring
from tileworkbench.runtime import toolchain
from tileworkbench.runtime.amx_probe import amx_probes, amx_text
from tileworkbench.runtime.cost_probes import cost_probe_text, gemm_specs
from tileworkbench.runtime.costs import PANEL_ROWS, RUN_BYTES, TURNS, _costs_of, _quantile
from tileworkbench.runtime.knees import Plateau, at_most
from tileworkbench.runtime.level_curve import MOST_CACHES, level_capacity, settle
from tileworkbench.views.theme import LIGHT_PAGE

MIB = 1 << 20
AMX = Isa("avx512", AVX512.flags | {"amx_tile", "amx_bf16", "amx_int8"}, 64, 32, AVX512.march)


# ------------------------------------------------------------------------------------------- capacities
def capacity(found: int, stated: tuple[int, ...] = (), *, shared: bool = True, before: int = 0) -> float:
    known = Quantity(before / MIB, "MiB", "where the read rate falls", True) if before else None
    got = level_capacity(Plateau(found, 1.0), stated, shared=shared, before=known)
    assert got is not None
    return got.bytes / MIB


def test_a_shared_cache_is_what_the_curve_says_unless_the_system_says_nearly_the_same() -> None:
    assert capacity(128 * MIB, (300 * MIB,)) == 128, "a virtual machine states the whole chip's"
    assert capacity(30 * MIB, (32 * MIB,)) == 32
    assert capacity(1448 << 10, (2 * MIB,), shared=False) == 2, "an own cache is what is stated, a step of the curve aside"
    assert level_capacity(Plateau(None, 1.0), (), shared=True) is None


def test_a_capacity_near_the_last_record_s_stays() -> None:
    assert capacity(128 * MIB, before=96 * MIB) == 96
    assert capacity(64 * MIB, before=96 * MIB) == 96
    assert capacity(16 * MIB, before=96 * MIB) == 16, "another machine, or another share of it"


def test_two_sweeps_settle_on_the_middle() -> None:
    sizes = [2**k for k in range(14, 26)]

    def sweep(*steps: int) -> list[float]:
        return [100.0] * steps[0] + [30.0] * (steps[1] - steps[0]) + [10.0] * (12 - steps[1])

    rates, found = settle(sizes, [sweep(4, 8), sweep(4, 9)])
    assert rates == sweep(4, 9), "the better of the two"
    assert [p.capacity for p in found] == [2**17, 2**22, None]
    disturbed = sweep(4, 8)
    disturbed[2] = 3.0
    assert settle(sizes, [disturbed, sweep(4, 8)])[0] == sweep(4, 8)


# ------------------------------------------------------------------------------------------- the matrix unit
def test_amx_is_probed_where_the_processor_has_it() -> None:
    assert [p.dtype for p in amx_probes(AMX)] == ["bfloat16>float32", "int8>int32"]
    assert amx_probes(AVX512) == () == amx_probes(NEON)
    assert "tdpbf16ps" in amx_text(AMX) and "tdpbssd" in amx_text(AMX)


def test_amx_that_the_system_or_the_assembler_refuses_is_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    compiler: Any = type("Gcc", (), {"name": "gcc 9"})()
    monkeypatch.setattr(measuring, "build_probes", lambda *_: Path("x"))
    monkeypatch.setattr(measuring, "load", lambda *_: lambda args, threads: 1)
    peaks, note = measuring._amx_peaks(compiler, AMX, 1)
    assert peaks == [] and "the operating system does not let this process use its tiles" in note

    def fails(*_: Any) -> Path:
        raise CompilerError("no such instruction: ldtilecfg")

    monkeypatch.setattr(measuring, "build_probes", fails)
    assert measuring._amx_peaks(compiler, AMX, 1)[1].endswith("gcc 9's assembler does not know it")
    assert measuring._amx_peaks(compiler, AVX512, 1) == ([], "")


# ------------------------------------------------------------------------------------------- costs
def raw_times(fma: float, kernel: float) -> dict[str, float]:
    """What the probes would take if a multiply-add took `fma` and a start `kernel` nanoseconds, and everything else one an item."""
    out: dict[str, float] = {}
    for name, spec in gemm_specs(AVX512).items():
        vectors = spec.m * spec.n * spec.k / 16
        out[f"gemm.{name}"] = vectors * fma + spec.m / PANEL_ROWS * kernel + (2.0 * spec.n * spec.k if spec.trans_b else 0.0)
    out |= {name: 4096 * ns for name, ns in {"pass": 1.0, "exp": 4.0, "log": 5.0, "div": 3.0, "fill": 0.5, "widen": 1.0, "narrow": 2.0}.items()}
    out |= {"sums.64": 2 * 4096 * 1.0 + 2 * 64 * 10.0, "sums.512": 2 * 4096 * 1.0 + 2 * 8 * 10.0}
    out |= {f"load.L1.{n}": 0.1 for n in RUN_BYTES} | {f"load.L2.{n}": 0.2 for n in RUN_BYTES} | {f"store.L2.{n}": 0.5 for n in RUN_BYTES}
    return {**out, "call": 900.0, "fork": 1000.0, "forks": 1000.0 + 63 * 20.0}


def test_costs_follow_from_the_probes_times() -> None:
    found = _costs_of(raw_times(fma=0.2, kernel=12.0), AVX512)
    assert found["fma"] == pytest.approx(0.2) and found["kernel"] == pytest.approx(12.0) and found["turn"] == pytest.approx(2.0)
    assert (found["exp"], found["log"], found["div"], found["pass"]) == (3.0, 4.0, 2.0, 1.0), "beyond a plain pass"
    assert found["reduce"] == pytest.approx(1.0) and found["reduce.row"] == pytest.approx(10.0)
    assert found["load.L2.128"] == 0.2 and found["store.L2.128"] == pytest.approx(0.3), "what storing adds"
    assert (found["call"], found["fork"], found["block"]) == (900.0, 1000.0, pytest.approx(20.0))


def test_micro_kernels_of_the_probes_are_the_widest(monkeypatch: pytest.MonkeyPatch) -> None:
    plans = [plan_gemm(spec) for spec in gemm_specs(AVX512).values()]
    assert all(run.size == PANEL_ROWS for plan in plans[:2] for run in plan.panels)
    assert all(strip.size == 4 for plan in plans for strip in plan.strips)
    assert TURNS > 1 and _quantile("fork") == 0.0 < _quantile("exp") < _quantile("load.DRAM.128") <= 0.5


def test_probes_compile_and_costs_are_complete(fresh_cache: Path) -> None:
    compiler = toolchain.default_compiler()
    if compiler is None:
        pytest.skip("no C compiler on this machine")
    for isa in (measuring.host_isa(),):
        assert measuring.build_probes(compiler, isa, cost_probe_text(isa), *measuring.FLAGS).exists()


@pytest.mark.slow
def test_this_machine(fresh_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Measured anew, once for all that is asked here, since it takes eight seconds: levels, peaks, what is kept, and every cost."""
    machine = Machine.measure()
    assert machine.levels[0].name == "registers"
    assert machine.levels[1].name == "L1"
    assert machine.levels[-1].name == "DRAM"
    rates = [level.core.value for level in machine.levels[1:] if level.core is not None]
    assert rates == sorted(rates, reverse=True)
    assert {"float32", "float64"} <= {p.dtype for p in machine.peaks}
    assert all(p.core.value > 0 and p.core.measured for p in machine.peaks)
    monkeypatch.setattr(measuring, "is_busy", lambda cores: True)
    assert measuring.measure() == machine, "read back from the cache"
    assert len(list(fresh_cache.glob("machine-*.json"))) == 1
    if toolchain.default_compiler() is None:  # costs are measured in C
        return
    known = {name for name in _costs_of(raw_times(0.2, 12.0), AVX512) if not name.startswith(("load", "store"))}
    names = {c.name for c in machine.costs}
    assert known <= names
    for level in machine.levels[2:]:
        assert {f"{way}.{level.name}.{n}" for way in ("load", "store") for n in RUN_BYTES} <= names
    assert all(c.value.unit == "ns" and c.value.measured for c in machine.costs)
    assert machine.cost("exp") is not None and REFERENCE_CPU.cost("exp") is None


def test_a_busy_machine_gets_no_fourth_cache() -> None:
    """Five falls of a disturbed curve are three caches and memory, and a level that somebody names L4 has a colour all the same."""
    sizes = [2**k for k in range(14, 30)]
    rates = [400.0] * 3 + [380.0] * 3 + [150.0] * 3 + [60.0] * 3 + [14.0] * 4
    rates[3:6] = [330.0] * 3
    rates[9:12] = [70.0, 69.0, 68.0]
    _, found = settle(sizes, [rates, rates])
    assert len([p for p in found if p.capacity is not None]) <= MOST_CACHES
    assert LIGHT_PAGE["L4"] == LIGHT_PAGE["L3"]
    five = [Plateau(2**k, rate) for k, rate in ((15, 400.0), (17, 330.0), (21, 150.0), (25, 60.0))] + [Plateau(None, 14.0)]
    assert [p.rate for p in at_most(five, MOST_CACHES)] == [330.0, 150.0, 60.0, 14.0]
