"""The CPU time model: bars that add up, times that grow with the work, and made-up costs that come out as they went in."""

from __future__ import annotations

from dataclasses import replace
from math import ceil

import pytest

import tileworkbench.language as T
from tileworkbench.base.machine import REFERENCE_CPU, Cost, Machine, Quantity, machines
from tileworkbench.ir.stmt import Kernel
from tileworkbench.kernels import attention, elementwise, gemm, softmax
from tileworkbench.model.counts import count
from tileworkbench.model.cpu_costs import cpu_costs
from tileworkbench.model.cpu_time import cpu_waterfall, idle_share
from tileworkbench.model.cpu_work import cpu_work
from tileworkbench.model.traffic import predict_traffic
from tileworkbench.model.waterfall import Waterfall

# mypy: disable-error-code="valid-type"
F32, F16 = "float32", "float16"
CPUS = [name for name, machine in machines().items() if not machine.is_gpu]
KERNELS: dict[str, Kernel] = {
    "gemm": gemm.program(128, 128, 128, 64, 64, 32, 2, F32, F32, True).kernel,
    "gemm, ragged": gemm.program(100, 70, 37, 32, 32, 16, 2, F32, F32, True).kernel,
    "gemm, float16": gemm.program(128, 128, 128, 64, 64, 32, 2, F16, F16, True).kernel,
    "softmax": softmax.program(64, 512, 4, F32).kernel,
    "attention": attention.program(1, 2, 128, 32, False, 32, 64, F32).kernel,
    "attention, causal": attention.program(1, 2, 128, 32, True, 32, 64, F32).kernel,
}


def waterfall(kernel: Kernel, machine: Machine = REFERENCE_CPU, threads: int = 1) -> Waterfall:
    counts = count(kernel, {})
    return cpu_waterfall(kernel, counts, predict_traffic(kernel, counts, machine, {}, threads=threads), machine, {}, threads=threads)


def bars(found: Waterfall) -> dict[str, float]:
    return {bar.name: bar.seconds for bar in found.bars}


@pytest.mark.parametrize("threads", [1, 2, 4])
@pytest.mark.parametrize("name", KERNELS)
def test_bars_add_up_from_the_roof(name: str, threads: int) -> None:
    for cpu in CPUS:
        machine = machines()[cpu]
        found = waterfall(KERNELS[name], machine, threads)
        assert found.roof.seconds > 0
        assert all(bar.seconds > 0 for bar in found.bars)
        assert len({bar.name for bar in found.bars}) == len(found.bars)
        assert found.seconds == pytest.approx(found.roof.seconds + sum(bar.seconds for bar in found.bars))
        assert all(bar.why for bar in (found.roof, *found.bars))


def test_more_work_takes_longer_and_more_threads_less_long() -> None:
    sizes = [waterfall(gemm.program(n, n, n, 64, 64, 64, 2, F32, F32, False).kernel).seconds for n in (128, 256, 512)]
    assert 6 < sizes[1] / sizes[0] < 9 and 6 < sizes[2] / sizes[1] < 9
    rows = [waterfall(softmax.program(n, 1024, 4, F32).kernel).seconds for n in (64, 256, 1024)]
    assert rows[0] < rows[1] < rows[2]
    one, two = (waterfall(gemm.program(512, 512, 512, 64, 64, 64, 2, F32, F32, False).kernel, threads=t).seconds for t in (1, 2))
    assert 0.45 * one < two < 0.6 * one
    full, half = (waterfall(attention.program(1, 1, 512, 64, causal, 64, 64, F32).kernel).seconds for causal in (False, True))
    assert 0.5 * full < half < 0.75 * full


# ------------------------------------------------------------------------------------------- made-up costs
def priced(**ns: float) -> Machine:
    """The reference CPU where every step costs nothing but those named, in nanoseconds; caches hold everything, so nothing waits."""
    names = cpu_costs(REFERENCE_CPU).ns
    found = {**dict.fromkeys(names, 0.0), **ns}
    fast = tuple(replace(level, core=Quantity(1e9, "GB/s"), machine=Quantity(1e9, "GB/s")) if level.core else level for level in REFERENCE_CPU.levels)
    quick = tuple(replace(p, core=Quantity(1e9, "GFLOP/s"), machine=Quantity(2e9, "GFLOP/s")) for p in REFERENCE_CPU.peaks)
    return replace(REFERENCE_CPU, levels=fast, peaks=quick, costs=tuple(Cost(n, Quantity(v, "ns", "made up", True)) for n, v in found.items()))


def test_made_up_costs_come_out_as_they_went_in() -> None:
    kernel = gemm.program(96, 128, 64, 48, 64, 32, 2, F32, F32, False).kernel
    blocks, steps = 4, 2
    assert waterfall(kernel, priced(fma=1.0)).seconds == pytest.approx(96 * 128 * 64 / 16 * 1e-9)
    assert waterfall(kernel, priced(kernel=7.0)).seconds == pytest.approx(blocks * steps * 48 / 6 * 7e-9, rel=1e-3)
    copied = blocks * steps * 32 * 64 * 4  # b is packed; a is read and c summed in place
    near = {f"load.L1.{size}": 0.5 for size in (128, 2048, 16384)}
    assert waterfall(kernel, priced(**near)).seconds == pytest.approx(copied * 0.5e-9, rel=1e-3)
    assert waterfall(kernel, priced(call=900.0)).seconds == pytest.approx(900e-9)


def test_made_up_costs_of_row_work() -> None:
    kernel = softmax.program(64, 512, 4, F32).kernel
    assert bars(waterfall(kernel, priced(exp=1.0)))["exp and division"] == pytest.approx(64 * 512 * 1e-9, rel=1e-3)
    assert bars(waterfall(kernel, priced(reduce=1.0)))["passes and reductions"] == pytest.approx(2 * 64 * 512 * 1e-9, rel=1e-3)
    per_row = {"reduce.row": 1.0}
    assert bars(waterfall(kernel, priced(**per_row)))["passes and reductions"] == pytest.approx(2 * 64 * 1e-9, rel=2e-2)


def test_what_a_product_needs_beside_its_arithmetic() -> None:
    half = bars(waterfall(KERNELS["gemm, float16"], priced(widen=1.0)))
    assert half["conversion"] == pytest.approx(4 * 4 * 2 * 64 * 32 * 1e-9, rel=1e-3), "each tile of a and b is widened in front of each product"
    assert "conversion" not in bars(waterfall(KERNELS["gemm"], priced(widen=1.0)))
    turned = bars(waterfall(KERNELS["attention"], priced(turn=1.0)))
    assert turned["packing"] == pytest.approx(2 * 4 * 2 * 64 * 32 * 1e-9, rel=1e-3), "k is transposed once for each tile of scores"


def test_lanes_that_nothing_needs_are_a_bar_of_their_own() -> None:
    assert "masked lanes" not in bars(waterfall(gemm.program(60, 64, 64, 60, 64, 64, 2, F32, F32, False).kernel, priced(fma=1.0)))
    ragged = bars(waterfall(gemm.program(60, 65, 64, 60, 65, 64, 2, F32, F32, False).kernel, priced(fma=1.0)))
    assert ragged["masked lanes"] == pytest.approx(60 * 15 * 64 / 16 * 1e-9)


def test_a_slim_product_waits_for_its_own_results() -> None:
    """One row of 16 columns has one accumulator: eight multiply-adds could start while it waits for one."""
    kernel = gemm.program(1, 16, 64, 1, 16, 64, 2, F32, F32, False).kernel
    assert waterfall(kernel, priced(fma=1.0)).seconds == pytest.approx(64 * 8e-9, rel=1e-3)


def test_reasons_are_in_numbers() -> None:
    found = {bar.name: bar.why for bar in waterfall(KERNELS["gemm, float16"], priced(widen=0.5, narrow=2.0, call=900.0), threads=2).bars}
    assert found["conversion"].startswith("65.5 k elements widened at 0.5 ns, 16.4 k elements narrowed at 2 ns")
    assert found["launch"] == "one call, 900 ns"
    few = {bar.name: bar.why for bar in waterfall(softmax.program(12, 512, 4, F32).kernel, priced(exp=1.0), threads=2).bars}
    assert few["tail"] == "3 blocks on 2 threads leave cores idle at the end"


def test_blocks_left_over_make_a_tail() -> None:
    three = softmax.program(12, 512, 4, F32).kernel
    found = bars(waterfall(three, priced(exp=1.0), threads=2))
    assert found["tail"] == pytest.approx(12 * 512 / 2 * (ceil(3 / 2) * 2 / 3 - 1) * 1e-9, rel=1e-3)
    assert "tail" not in bars(waterfall(softmax.program(16, 512, 4, F32).kernel, priced(exp=1.0), threads=2))
    assert idle_share(0, 2) == 0.0
    assert bars(waterfall(three, priced(fork=1000.0, block=10.0), threads=2))["fork"] == pytest.approx(1015e-9)


def test_bytes_that_no_cache_holds_are_waited_for() -> None:
    """The same program on data that L2 holds, and on data that only memory does."""
    far = {f"load.DRAM.{size}": 1.0 for size in (128, 2048, 16384)}

    def wait(rows: int) -> float:
        kernel = elementwise.transpose_program(rows, 4096, 32, 32, F32).kernel
        machine = priced(**far)
        small = tuple(replace(x, capacity=Quantity(2, "MiB")) if x.name == "L3" else x for x in machine.levels)
        return bars(waterfall(kernel, replace(machine, levels=small))).get("DRAM wait", 0.0)

    assert wait(32) == 0.0
    assert wait(1024) == pytest.approx(1024 * 4096 * 4 * 1e-9, rel=0.02)


# ------------------------------------------------------------------------------------------- costs
def test_costs_are_measured_or_assumed_and_slow_down_with_sharers() -> None:
    assert set(cpu_costs(REFERENCE_CPU).assumed) == set(cpu_costs(REFERENCE_CPU).ns), "nothing is measured on paper"
    one = replace(REFERENCE_CPU, costs=(Cost("exp", Quantity(0.25, "ns", "timed", True)),))
    assert cpu_costs(one).of("exp") == 0.25 and "exp" not in cpu_costs(one).assumed
    assert cpu_costs(one).words("exp", 3e6) == "3 M exponentials at 0.25 ns" and cpu_costs(one).words("div", 1).endswith("(assumed)")
    full = tuple(replace(x, machine=x.core) if x.name == "DRAM" else x for x in REFERENCE_CPU.levels)  # one core takes all that memory delivers
    sharing = replace(REFERENCE_CPU, levels=full)
    assert cpu_costs(sharing, 2).extra("load", "DRAM", 2048) > 2 * cpu_costs(sharing).extra("load", "DRAM", 2048)
    assert Machine.from_json(one.to_json()) == one


def test_copied_bytes_cost_more_from_further_away_and_in_short_rows() -> None:
    costs = cpu_costs(REFERENCE_CPU)
    extra = [costs.extra("load", level, 2048) for level in ("L2", "L3", "DRAM")]
    assert all(x > 0 for x in extra)
    assert costs.of("copy", 128) > costs.of("copy", 2048)
    assert costs.of("copy", 16) == costs.of("copy", 128), "no guess beyond what is timed"


def test_work_of_threads_that_speak_for_themselves() -> None:
    """A thread-level program has no parallel loop: its threads become the vector loop."""

    @T.prim_func
    def scale(X: T.Tensor((4096,), F32), Y: T.Tensor((4096,), F32)):  # type: ignore[no-untyped-def]
        with T.Kernel(32, threads=128) as bx:
            tx = T.get_thread_binding()
            Y[bx * 128 + tx] = X[bx * 128 + tx] * 2.0

    work = cpu_work(scale.kernel, {}, "avx512")
    assert [w.kind for w in work.statements] == ["pass"] and work.blocks == 32
    assert work.statements[0].amounts["pass"] == 4096
