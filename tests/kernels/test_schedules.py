"""Declared spaces, the search of them, and where `default_schedule` takes a schedule from."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cache_folders import fresh_cache, session_cache
from runtime.cuda_fakes import FakeDriver, build_fake_driver

from tileworkbench.base.errors import ExpectationError, UnsupportedError
from tileworkbench.bench.gpu.problems import PROBLEMS
from tileworkbench.bench.gpu.schedules import searched, subject_of
from tileworkbench.kernels import attention, gemm, searching, tuned
from tileworkbench.kernels.searching import Subject, attention_of, choose, product
from tileworkbench.kernels.spaces import attention_space, gemm_space, schedule_of
from tileworkbench.runtime import libcuda
from tileworkbench.tune import Candidate, Outcome, Place, Schedule, Settings, Store

__all__ = ["fresh_cache", "session_cache"]

HOPPER, EMULATED = "cuda:sm_90a", "emulate:sm_90a"
ONE = {"block_m": 128, "block_n": 256, "block_k": 64, "stages": 4, "threads": 256, "panel": 8, "cluster_n": 1, "cluster_m": 1, "split_k": 1}
OLDER = {**ONE, "block_n": 128, "block_k": 32, "stages": 3}
TWO = {"block_m": 128, "block_n": 128, "stages": 2, "threads": 256, "in_turn": False}
QUICK = replace(searching.PLAN, settings=Settings(warmup_ms=0.0, rep_ms=0.0, runs=3, atol=0.05), early_stop_factor=None)


# ------------------------------------------------------------------------------------------- spaces
@pytest.mark.parametrize("number", searched([]), ids=lambda i: PROBLEMS[i].name)
def test_the_rules_schedule_is_one_of_the_space(number: int) -> None:
    for target in (HOPPER, "cuda:sm_80"):
        subject = subject_of(PROBLEMS[number], target)
        assert subject.space.broken(subject.rule) == ""
        assert all(subject.space.broken(s) == "" for s in (*subject.seeds, *subject.near(subject.rule)))


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"stages": 5}, "the tiles of all stages need more shared memory than a block may have"),
        ({"threads": 128}, "a thread would hold more than 128 sums"),
        ({"block_m": 64, "block_n": 64, "threads": 256}, "each warp group multiplies 64 rows or 128"),
        ({"cluster_n": 2, "cluster_m": 2}, "a cluster is two blocks along one axis, of a product in one part"),
        ({"cluster_n": 2, "split_k": 2}, "a cluster is two blocks along one axis, of a product in one part"),
        ({"split_k": 16}, "a part of k would be too short"),
        ({"block_n": 100}, "block_n=100 is no step of block_n: 64, 96, 128, 160, 192, 224, 256"),
    ],
)
def test_a_product_that_cannot_run_is_told_why(change: dict[str, int], why: str) -> None:
    space = gemm_space(4096, 4096, 4096, target=HOPPER)
    assert space.broken(ONE) == "" and space.broken({**ONE, **change}) == why


def test_blocks_that_do_not_fill_clusters() -> None:
    odd = gemm_space(4096, 768, 4096, target=HOPPER)
    assert odd.broken({**ONE, "cluster_n": 2}) == "the blocks are no multiple of a cluster" and odd.broken({**ONE, "cluster_m": 2}) == ""


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"block_m": 64}, "each warp group has 64 queries"),
        ({"block_m": 192, "threads": 384}, "scores, weights and outputs need more registers than a thread has"),
        ({"block_m": 64, "threads": 128, "in_turn": True}, "one warp group has nobody to take turns with"),
    ],
)
def test_attention_that_cannot_run_is_told_why(change: dict[str, Any], why: str) -> None:
    space = attention_space(4096, 128, target=HOPPER)
    assert space.broken(TWO) == "" and space.broken({**TWO, **change}) == why
    assert "more shared memory" in attention_space(4096, 256, target=HOPPER).broken({**TWO, "block_n": 96})
    assert "no queries" in attention_space(60, 64, target=HOPPER).broken(TWO)


def test_a_cpu_has_no_declared_space() -> None:
    with pytest.raises(UnsupportedError, match="the declared spaces are those of GPUs"):
        gemm_space(64, 64, 64, target="c")


def test_a_step_gives_or_takes_stages() -> None:
    subject = product(4096, 4096, 4096, target=HOPPER)
    near = subject.near(subject.rule)
    assert subject.rule == ONE
    assert Schedule({**ONE, "block_n": 224, "stages": 5}) in near, "narrower tiles leave room for a stage"
    assert Schedule({**ONE, "block_k": 128, "stages": 2}) in near, "deeper tiles need the room of two"


# ------------------------------------------------------------------------------------------- searching
def factors(n: int) -> list[Any]:
    return list(np.random.default_rng(n).standard_normal((2, n, n)).astype(np.float16))


def square(a: Any, b: Any) -> Any:
    return a.astype(np.float64) @ b.astype(np.float64)


def test_a_search_keeps_what_it_chose(fresh_cache: Path) -> None:
    """Emulated, so the times mean nothing: what counts is the course of it."""
    subject = replace(
        product(128, 128, 128, target=EMULATED, args=factors(128)), seeds=(Schedule({**ONE, "block_m": 64, "block_n": 128, "threads": 128}),)
    )
    found = choose(subject, reference=square, plan=QUICK, steps=0)
    assert found.tried == 2 and found.rule == subject.rule and found.schedule in (subject.rule, *subject.seeds)
    assert (found.gain > searching.BETTER) == (found.schedule != subject.rule), "the rule's stays unless the other gains"
    candidates = Store().results("gemm 128x128x128 half nn, candidates").candidates
    assert {c.schedule for c in candidates} == {subject.rule, *subject.seeds} and all(c.is_checked for c in candidates)
    (chosen,) = Store().results("gemm 128x128x128 half nn").candidates
    assert chosen.schedule == found.schedule


def test_a_search_climbs_until_no_step_is_better(fresh_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On made-up times that fall with the keys of a step: from 64 up to 176, and no further."""
    subject = attention_of(1, 1, 512, 64, target=HOPPER)
    begin = replace(subject, rule=Schedule({**TWO, "block_n": 96}), seeds=())
    rounds: list[list[int]] = []

    class Made:
        def __init__(self, problem: Any, schedules: list[Schedule], **_: Any) -> None:
            rounds.append([s["block_n"] for s in schedules])
            self.candidates = [Candidate(s, "ran", times_ms=(200.0 - s["block_n"],)) for s in schedules]

        def run(self) -> Made:
            return self

    monkeypatch.setattr(searching, "Search", Made)
    monkeypatch.setattr(searching, "_decided", lambda subject, best, *_: best)
    best: Any = choose(begin, steps=9)
    assert best.schedule["block_n"] == 176 and [max(r) for r in rounds] == [96, 112, 128, 144, 160, 176, 176]
    assert choose(begin, steps=2).schedule["block_n"] == 128  # type: ignore[attr-defined]


@pytest.mark.parametrize(("ms", "is_chosen"), [(0.995, False), (0.985, True), (1.2, False)])
def test_the_rules_schedule_stays_unless_another_gains_a_hundredth(
    fresh_cache: Path, monkeypatch: pytest.MonkeyPatch, ms: float, is_chosen: bool
) -> None:
    """By the times of both in turns, whatever each took alone."""
    subject = product(128, 128, 128, target=EMULATED, args=factors(128))
    other = Schedule({**subject.rule, "block_n": 128})
    monkeypatch.setattr(searching, "run_trial", lambda trial: Outcome("ran", all_times_ms=((1.0, 1.0, 9.0), (ms, ms, 9.0))))
    found = searching._decided(subject, Candidate(other, "ran", times_ms=(0.5,)), Store(), QUICK, 7)
    assert found == tuned.Tuned(subject.key, other if is_chosen else subject.rule, ms if is_chosen else 1.0, subject.rule, 1.0, 7)
    (kept,) = Store().results(subject.key).candidates
    assert (kept.schedule, kept.median_ms) == (found.schedule, found.ms)


def test_a_rule_that_gives_a_wrong_result_ends_the_search(fresh_cache: Path) -> None:
    subject = replace(product(64, 64, 64, target=EMULATED, args=factors(64)), seeds=())
    with pytest.raises(ExpectationError, match=r"gemm 64x64x64 half nn: the rule's schedule .* does not run: wrong result, output 0 differs"):
        choose(subject, reference=lambda a, b: square(a, b) + 1, plan=QUICK)


# ------------------------------------------------------------------------------------------- where a schedule comes from
@pytest.fixture
def record(monkeypatch: pytest.MonkeyPatch) -> tuned.Record:
    """A record of one product, in place of the package's."""
    other = Schedule({**ONE, "block_n": 192, "stages": 5})
    entry = tuned.Tuned("gemm 4096x4096x4096 half nn", other, 0.2, Schedule(ONE), 0.21, 7)
    found = tuned.Record("sm_90a", "NVIDIA H200", "2026-12-01", "580", "a command", (entry,))
    monkeypatch.setattr(tuned, "recorded", lambda arch: found if arch == "sm_90a" else tuned.Record(arch, "", "", "", ""))
    return found


def test_a_record_stands_before_the_rule(record: tuned.Record) -> None:
    assert gemm.default_schedule(4096, 4096, 4096, "bfloat16", target=HOPPER) == gemm.Schedule(**record.schedules[0].schedule)
    for other in ({"is_nt": True}, {"dtype": "int8"}):
        asked: dict[str, Any] = {"dtype": "float16", **other}
        assert gemm.default_schedule(4096, 4096, 4096, target=HOPPER, **asked).block_n == 256
    assert gemm.default_schedule(4096, 4096, 4096, "float16", target="cuda:sm_80").block_n == 128


def test_a_record_that_the_space_no_longer_has_is_passed_over(record: tuned.Record, monkeypatch: pytest.MonkeyPatch) -> None:
    stale = replace(record.schedules[0], schedule=Schedule({**ONE, "stages": 8}))
    monkeypatch.setattr(tuned, "recorded", lambda _: replace(record, schedules=(stale,)))
    assert gemm.default_schedule(4096, 4096, 4096, "float16", target=HOPPER) == gemm.Schedule(**ONE)


def test_a_record_reads_back_and_prints(record: tuned.Record) -> None:
    again = tuned.Record.from_json(record.to_json())
    assert again == record and again.find("gemm 1x1x1 half nn") is None
    assert "1.050" in str(again) and "block_n 256 -> 192, stages 4 -> 5" in str(again)
    assert str(again).endswith("NVIDIA H200, sm_90a, 2026-12-01, driver 580: a command")
    for damaged in (json.dumps({"schema": 99}), json.dumps({"schema": 1}), "[]"):
        with pytest.raises(ValueError, match="another schema|no record of schedules"):
            tuned.Record.from_json(damaged)


def test_the_packages_records_are_of_their_spaces() -> None:
    """Each names its machine, and no entry has gone stale."""
    record = tuned.recorded("sm_90a")
    assert record.machine == "NVIDIA H200" and record.date and record.driver and record.command and len(record) >= 30
    subjects = {s.key: s for s in (subject_of(PROBLEMS[i], HOPPER) for i in searched([]))}
    for entry in record:
        subject = subjects[entry.problem]
        assert subject.space.broken(entry.schedule) == "" and entry.gain >= 1
        assert entry.schedule == entry.rule or entry.gain > searching.BETTER
    assert len(tuned.recorded("sm_80")) == 0


@pytest.fixture
def gpu(tmp_path: Path, fresh_cache: Path, monkeypatch: pytest.MonkeyPatch) -> FakeDriver:
    """A driver that says it is an H200's, and no store."""
    built = build_fake_driver(tmp_path)
    monkeypatch.setenv("TILEWORKBENCH_LIBCUDA", str(built.path))
    libcuda._open.cache_clear()
    return built


def keep(problem: str, schedule: Schedule, machine: str = "NVIDIA H200", date: str = "2026-12-01T00:00:00+00:00") -> None:
    Store().put(Place(problem, "tunable", machine, "cuda"), Candidate(schedule, "ran", times_ms=(1.0,), date=date))


def test_what_was_measured_here_stands_before_the_record(gpu: FakeDriver, record: tuned.Record) -> None:
    mine = Schedule({**ONE, "panel": 4})
    keep("gemm 4096x4096x4096 half nn", Schedule({**ONE, "panel": 16}), date="2026-01-01T00:00:00+00:00")
    keep("gemm 4096x4096x4096 half nn", mine)
    assert gemm.default_schedule(4096, 4096, 4096, "float16", target="cuda") == gemm.Schedule(**mine), "the newest"
    assert gemm.default_schedule(4096, 4096, 4096, "float16", target=EMULATED).block_n == 192, "the emulator is no machine that measures"
    keep("gemm 512x512x512 half nn", Schedule({**OLDER, "stages": 2}))
    assert gemm.default_schedule(512, 512, 512, "float16", target="cuda:sm_80").stages == 3, "the GPU here is another architecture's"
    keep("attention 4096x128 half", Schedule({**TWO, "block_n": 112}))
    assert attention.default_schedule(4096, 128, "float16", target="cuda").block_n == 112
    libcuda._open.cache_clear()


def test_what_another_machine_measured_says_nothing_here(gpu: FakeDriver, record: tuned.Record) -> None:
    keep("gemm 4096x4096x4096 half nn", Schedule({**ONE, "panel": 4}), machine="NVIDIA H100")
    assert gemm.default_schedule(4096, 4096, 4096, "float16", target="cuda").panel == 8
    libcuda._open.cache_clear()


def test_the_rules_record_has_the_tunables_of_the_space() -> None:
    assert set(schedule_of(gemm.Schedule(1, 1, 1))) == set(gemm_space(64, 64, 64, target=HOPPER).names)
    assert set(schedule_of(attention.Schedule(1, 1))) == set(attention_space(64, 64, target=HOPPER).names)
    assert isinstance(product(64, 64, 64, target=HOPPER), Subject)
