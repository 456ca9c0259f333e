"""The edit that a report proposes, and whether following it does what it says."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from model.hand import gemm, rows

from tileworkbench.base.dtypes import FLOAT16
from tileworkbench.base.machine import find_machine
from tileworkbench.model.advice import tunable
from tileworkbench.model.report import Report, report
from tileworkbench.model.values import show

H200 = find_machine("h200")
H100 = find_machine("h100")  # nobody has timed its copies: products of one step ahead are not held back by their latency


def at(bm: int, bn: int) -> Report:
    return report(gemm(4096, 4096, 4096, bm, bn, 32, FLOAT16), H100, {}, schedule={"block_M": bm, "block_N": bn, "block_K": 32})


def test_the_edit_names_the_tunable_and_following_it_gives_the_promised_bytes() -> None:
    now = at(128, 64)
    assert now.bound == "L2"
    found = re.fullmatch(r"(\w+)=(\d+): L2 bytes fall from (.+) to (.+), since (.+) read again for each bx", now.edit)
    assert found, now.edit
    assert found[1] == "block_N" and found[2] == "128"
    after = at(128, 128)
    assert (found[3], found[4]) == (show(now.traffic.bytes("L2"), "B"), show(after.traffic.bytes("L2"), "B"))
    assert found[5] == "A (line 3) is"


def test_two_tunables_of_one_value_are_not_guessed() -> None:
    assert at(64, 64).edit.startswith("tiles of 128 instead of 64 along b")
    assert tunable({"a": 64, "b": 64, "c": 32, "d": True}, 64) == "" and tunable({"c": 32}, 32) == "c"


def test_an_edit_that_would_not_fit_says_what_it_takes() -> None:
    """Twice 128 x 256 accumulators are 296 registers a thread of 128."""
    now = at(256, 64)
    assert "block_N=128, with more threads: L2 bytes fall" in now.edit
    wide = report(gemm(4096, 4096, 4096, 64, 128, 256, FLOAT16), H100, {}, schedule={"block_M": 64, "block_N": 128})
    assert "with fewer stages or a smaller step" in wide.edit, wide.edit


def test_full_float32_products_are_told_of_the_tensor_units() -> None:
    r = report(gemm(2048, 2048, 2048, 128, 128, 32), H200, {})
    assert r.bound == "compute"
    assert r.edit == "float16 or bfloat16 tiles summed in float32: 989 TFLOP/s on the tensor units instead of 67 TFLOP/s"


def test_bytes_that_move_once_cannot_be_saved_by_a_schedule() -> None:
    r = report(rows(65536, 4096, 4), H200, {})
    assert r.edit == "a narrower type, or one kernel with its neighbour: DRAM moves each byte about once already"


def test_a_large_gap_comes_first() -> None:
    r = report(gemm(256, 256, 8192, 128, 128, 64, FLOAT16), H200, {})
    assert r.waterfall.largest_gap.name in r.edit and "of the predicted" in r.edit
    assert r.verdict.startswith(f"held back by {r.waterfall.largest_gap.name}: the nearest roof is ")


def test_copies_that_come_late_want_more_stages() -> None:
    r = report(gemm(4096, 4096, 4096, 128, 64, 32, FLOAT16), H200, {})
    assert r.edit.startswith("num_stages=3: exposed latency takes "), r.edit


def test_why_says_who_moves_the_bytes_and_how_far_a_measurement_is_off() -> None:
    r = at(64, 64)
    assert re.search(r"[AB] \(line [34]\) has \d\d % of the .* at L2, needed once, moved 64 times", r.why)
    timed = replace(r, measured=report(gemm(64, 64, 64, 64, 64, 64), H200, {}, seconds=[2 * r.predicted.value]).measured)
    assert "measured is 2 times the prediction" in timed.why


@pytest.mark.parametrize("name", ["reference", "laptop", "zen4", "h200", "t4"])
def test_every_machine_gets_an_edit(name: str) -> None:
    assert report(gemm(512, 512, 512, 64, 64, 32, FLOAT16), find_machine(name), {}).edit
