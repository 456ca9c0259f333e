"""Ours beside its peers: everybody solves the same small problems alike, ratios are what they say. Nothing here asserts a time."""

from __future__ import annotations

import importlib.util
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tileworkbench.base.machine import REFERENCE_CPU, find_machine
from tileworkbench.bench.__main__ import main
from tileworkbench.bench.cpu.compare import Row, compare
from tileworkbench.bench.cpu.contestants import CONTESTANTS
from tileworkbench.bench.cpu.match import NAMES, judge, play, undisturbed
from tileworkbench.bench.cpu.problems import GROUPS, KINDS, PROBLEMS, Problem
from tileworkbench.bench.cpu.result import Result
from tileworkbench.bench.cpu.roof import roof_of
from tileworkbench.bench.cpu.table import Found, run
from tileworkbench.bench.cpu.worker import Worker
from tileworkbench.runtime import toolchain

SMALL = {
    "gemm": (128, 64, 64), "gemv": (40, 96), "w4": (3, 32, 256), "attention": (1, 2, 48, 16), "softmax": (6, 40), "layernorm": (6, 40),
    "rmsnorm": (6, 40), "add": (100,), "gelu": (100,), "transpose": (40, 24),
}  # fmt: skip
SOME = {"add": "numpy torch", "transpose": "numpy torch", "gemm": "numpy torch tilelang", "gemv": "numpy torch"}


@pytest.mark.skipif(toolchain.default_compiler() is None, reason="needs a C compiler")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("peer", ["numpy", "torch", "tilelang"])
def test_a_peer_solves_the_same_problem_in_every_way_that_it_has(kind: str, peer: str) -> None:
    if importlib.util.find_spec(peer) is None:
        pytest.skip(f"{peer} is not installed")
    problem = Problem(kind, kind, SMALL[kind], "float32", 1, 1.0)
    ours, other = CONTESTANTS["ours"](problem), CONTESTANTS[peer](problem)
    assert ours is not None
    assert (other is not None) == (peer in SOME.get(kind, "torch"))
    if other is None:
        return
    ours.ways[""]()
    mine = ours.result()
    for run_once in other.ways.values():
        run_once()
        theirs = other.result()
        assert mine.shape == theirs.shape
        assert np.abs(mine - theirs).max() <= 2.0**-18 * np.abs(theirs).max()  # both round float32 a few dozen times


def test_a_copy_is_a_copy() -> None:
    problem = Problem("add", "add", (100,), "float32", 1, 0.95)
    entry = CONTESTANTS["copy"](problem)
    assert entry is not None and CONTESTANTS["copy"](replace(problem, kind="softmax", shape=(6, 40))) is None
    results = []
    for way in entry.ways.values():
        way()
        results.append(entry.result())
    assert all(np.array_equal(results[0], r) and r.any() for r in results)


def test_every_group_has_a_floor_and_a_name() -> None:
    assert set(GROUPS) >= {"gemm_f32", "gemm_bf16", "attention_f32", "softmax", "transpose"}
    assert len({(p.name, p.threads) for p in PROBLEMS}) == len(PROBLEMS)
    assert all(p.floor > 0 and p.bytes for p in PROBLEMS)
    assert set(NAMES) == set(CONTESTANTS)


def test_bytes_that_nobody_can_avoid() -> None:
    def count(kind: str, shape: tuple[int, ...], dtype: str = "float32") -> int:
        return Problem(kind, kind, shape, dtype, 1, 1.0).bytes

    assert count("gemm", (2, 3, 5)) == 4 * (10 + 15 + 6)
    assert count("gemm", (2, 3, 5), "int8") == 10 + 15 + 4 * 6
    assert count("gemv", (3, 5), "bfloat16") == 2 * (15 + 3 + 5)
    assert count("w4", (1, 4, 256)) == 4 * 128 + 4 * 8 + 4 * (256 + 4)
    assert count("add", (7,)) == 84 and count("gelu", (7,)) == 56 and count("attention", (1, 2, 3, 4)) == 4 * 4 * 24


def test_the_roof_is_compute_or_the_level_that_holds_the_arrays() -> None:
    machine = find_machine("reference")
    work = roof_of(Problem("gemm", "gemm", (1024, 1024, 1024), "float32", 2, 1.0), machine)
    assert (work.bound, work.seconds) == ("compute", 2 * 1024**3 / 430e9)
    near = roof_of(Problem("softmax", "softmax", (64, 1024), "float32", 1, 1.2), machine)
    far = roof_of(Problem("add", "add", (1 << 24,), "float32", 1, 0.95), machine)
    assert (near.bound, near.seconds) == ("L2", 2 * 4 * 65536 / 150e9)
    assert (far.bound, far.seconds) == ("DRAM", 3 * 4 * 2**24 / 15e9)


FAST = Result(PROBLEMS[0], {"ours": 1.0, "numpy": 3.0, "torch": 2.0}, {"ours": 5, "numpy": 5, "torch": 5}, {"ours": "a", "numpy": "b", "torch": "c"})
ADD = next(p for p in PROBLEMS if p.kind == "add")


def test_the_ratio_is_to_the_best_peer_and_the_worst_comes_last() -> None:
    slow = replace(FAST, problem=PROBLEMS[1], seconds={"ours": 4.0, "torch": 2.0})
    broken = replace(FAST, problem=PROBLEMS[2], seconds={"torch": 2.0}, errors={"ours": "no such kernel"})
    assert (FAST.best_peer, FAST.ratio, slow.ratio, broken.ratio) == ("torch", 2.0, 0.5, None)
    assert broken.reached == 0
    found = Found((broken, slow, FAST), REFERENCE_CPU)
    assert not found.is_within and Found((FAST,), REFERENCE_CPU).is_within
    lines = found.table().splitlines()
    assert [PROBLEMS[0].name in lines[2], PROBLEMS[1].name in lines[3], PROBLEMS[2].name in lines[4]] == [True] * 3
    assert "below" in lines[3] and "failed" in lines[4] and "no such kernel" in lines[5]
    assert found.as_json()["results"][0]["errors"] == {"ours": "no such kernel"}


def test_elementwise_kernels_are_judged_by_the_rate_of_a_copy() -> None:
    """An addition moves three arrays, a copy two: as fast per byte is 1.5 times as long."""
    even = replace(FAST, problem=ADD, seconds={"ours": 3.0, "copy": 2.0, "torch": 9.0})
    assert (even.of_copy, even.ratio, even.best_peer) == (1.0, 3.0, "torch")
    assert replace(even, seconds={"ours": 3.3, "copy": 2.0, "torch": 9.0}).reached < 1 < even.reached
    record = even.as_json()
    assert (record["floor_of"], record["peers"], record["copy"], record["of_copy"]) == ("copy", {"torch": 9.0}, 2.0, 1.0)


def test_a_disturbed_sample_does_not_count() -> None:
    good = {"wall": 1.0, "cpu": 0.99, "clock": 200.0}
    waited, slow = {**good, "cpu": 0.5}, {**good, "clock": 150.0}
    assert undisturbed([good, waited, good, slow, good], 1, 200.0) == [good] * 3
    assert undisturbed([good], 2, 200.0) == [], "two threads have twice the time"
    told = {name: {"version": name, "way": "", "seconds": 1.0} for name in ("ours", "numpy")}
    result = judge(PROBLEMS[0], {"ours": [good, {**good, "wall": 3.0, "cpu": 1.0}], "numpy": [{**good, "clock": 180.0}]}, told, {}, 0.0)
    assert (result.seconds, result.clean, result.clocks) == ({"ours": 1.0, "numpy": 1.0}, {"ours": 1, "numpy": 1}, {"ours": 200.0, "numpy": 180.0})
    assert not result.is_same_clock and "~" in Found((result,), REFERENCE_CPU).table()


def test_calm_moments_count_even_where_most_are_not() -> None:
    """A neighbour on the core slows one contestant more than the other: then only moments without it say how they compare."""
    calm, busy = {"wall": 1.0, "cpu": 1.0, "clock": 200.0}, {"wall": 2.0, "cpu": 2.0, "clock": 120.0}
    peer = {"wall": 1.1, "cpu": 1.1, "clock": 198.0}
    samples = {"ours": [busy] * 6 + [calm] * 3, "torch": [{**busy, "wall": 1.5, "cpu": 1.5}] * 6 + [peer] * 3}
    told = {name: {"version": name, "way": "", "seconds": 1.0} for name in samples}
    result = judge(PROBLEMS[0], samples, told, {}, 0.0)
    assert (result.seconds, result.clean) == ({"ours": 1.0, "torch": 1.1}, {"ours": 3, "torch": 3})
    few = judge(PROBLEMS[0], {**samples, "ours": [busy] * 6 + [calm] * 2}, told, {}, 0.0)
    assert few.seconds == {"ours": 2.0, "torch": 1.5}, "too few moments of calm: the usual clock is what there is"


def test_without_a_clean_sample_like_is_compared_with_like() -> None:
    """On one thread processor time with processor time, on two the fastest samples; both are marked."""
    told = {name: {"version": name, "way": "", "seconds": 1.0} for name in ("ours", "numpy")}
    slow = [{"wall": 4.0, "cpu": 1.0, "clock": 200.0}, {"wall": 3.0, "cpu": 1.2, "clock": 200.0}]
    good = [{"wall": 2.0, "cpu": 1.99, "clock": 200.0}]
    one = judge(PROBLEMS[0], {"ours": slow, "numpy": good}, told, {}, 0.0)
    two = judge(replace(PROBLEMS[0], threads=2), {"ours": slow, "numpy": [{"wall": 2.0, "cpu": 3.9, "clock": 200.0}]}, told, {}, 0.0)
    assert (one.seconds, two.seconds) == ({"ours": 1.1, "numpy": 1.99}, {"ours": 3.0, "numpy": 2.0})
    assert all("*" in Found((r,), REFERENCE_CPU).table().splitlines()[2] for r in (one, two))


class Scripted:
    """A contestant whose samples are written down."""

    def __init__(self, name: str, samples: list[float], seconds: float = 1.0) -> None:
        self.name, self.shares, self.seconds, self.asked = name, samples, seconds, 0
        self.sittings = 1

    def restart(self) -> None:
        self.sittings += 1

    def ask(self, command: str) -> dict[str, object]:
        if command.startswith("prepare"):
            np.save(command.split()[2], np.ones(3))
            return {"version": self.name, "way": "", "seconds": self.seconds}
        share = self.shares[self.asked % len(self.shares)]
        self.asked += 1
        return {"wall": self.seconds, "cpu": share * self.seconds, "clock": 200.0}


def test_more_rounds_follow_while_too_few_samples_are_clean() -> None:
    calm, disturbed, slow = Scripted("ours", [1.0]), Scripted("numpy", [0.2, 0.2, 0.2, 0.2, 0.2, 1.0]), Scripted("torch", [1.0], seconds=9.0)
    result = play(0, [calm, disturbed, slow], 6)  # type: ignore[list-item]  # what `play` asks of a contestant
    assert (calm.asked, disturbed.asked, slow.asked) == (12, 12, 3)
    assert result.clean == {"ours": 12, "numpy": 2, "torch": 3} and result.seconds["torch"] == 9.0
    play(0, [calm := Scripted("ours", [1.0])], 6)  # type: ignore[list-item]
    assert calm.asked == 6
    play(0, [never := Scripted("ours", [0.1])], 6)  # type: ignore[list-item]
    assert never.asked == 18


def test_a_match_has_sittings_with_fresh_processes() -> None:
    """One process may have its memory well or badly in the caches: no contestant is judged by a single one."""
    calm, slow = Scripted("ours", [1.0]), Scripted("torch", [1.0], seconds=9.0)
    play(0, [calm, slow], 12)  # type: ignore[list-item]
    assert (calm.sittings, calm.asked, slow.sittings) == (3, 12, 1), "who is far behind is not asked again"


def test_a_worker_takes_the_fastest_way(tmp_path: Path) -> None:
    number = next(i for i, p in enumerate(PROBLEMS) if p.kind == "softmax")
    worker = Worker("numpy")
    assert worker.prepare(number, str(tmp_path / "out.npy")) == {"absent": True}
    told = Worker("copy").prepare(PROBLEMS.index(ADD), str(tmp_path / "out.npy"))
    assert told["calls"] >= 1 and "cop" in told["way"] and np.load(tmp_path / "out.npy").shape == ADD.shape


def test_an_unknown_group_is_named() -> None:
    with pytest.raises(ValueError, match="no group 'gemm'; the groups are gemm_f32"):
        run(["gemm"])


# ---------------------------------------------------------------------------------------------- two runs
def test_a_small_dip_in_one_run_is_noise() -> None:
    verdicts = [Row("", *pair, 1.0).verdict for pair in ((1.0, 1.2), (0.96, 1.0), (0.94, 1.3), (0.99, 0.99), (None, 2.0))]
    assert verdicts == ["holds", "noise", "below", "below", "missing"]


def test_two_files_are_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = []
    for number, ours in enumerate((1.9, 2.05)):
        results = (replace(FAST, seconds={"ours": ours, "torch": 2.0}), replace(FAST, problem=PROBLEMS[1]))
        files.append(tmp_path / f"{number}.json")
        files[-1].write_text(json.dumps(Found(results, REFERENCE_CPU).as_json()))
    found = compare(*map(str, files))
    assert [(r.name, r.verdict) for r in found.rows] == [("gemm_f32 1024x1024x1024", "holds"), ("gemm_f32 512x512x512", "noise")]
    assert main(["cpu", "--compare", *map(str, files)]) == 0
    assert "1.05   0.98   1.00  noise" in capsys.readouterr().out
    files[0].write_text("{}")
    with pytest.raises(ValueError, match="no record"):
        compare(*map(str, files))
