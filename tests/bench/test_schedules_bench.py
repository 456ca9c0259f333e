"""`bench schedules`: which problems are searched, what they are compared with, and what is kept when some fail."""

from __future__ import annotations

import types
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tileworkbench.bench.gpu import schedules
from tileworkbench.bench.gpu.arrays import make_sets
from tileworkbench.bench.gpu.check import check
from tileworkbench.bench.gpu.problems import PROBLEMS, Problem
from tileworkbench.kernels.tuned import Record, Tuned
from tileworkbench.tune import Schedule


def test_each_name_of_a_record_is_searched_once() -> None:
    """float16 and bfloat16 share one, and heads that share keys and values share their attention's."""
    numbers = schedules.searched([])
    keys = [schedules.key_of(PROBLEMS[i]) for i in numbers]
    assert len(keys) == len(set(keys)) == 40 and "gemm 4096x4096x4096 half nn" in keys and "attention 16384x256 half causal" in keys
    assert schedules.searched(["gemm_bf16"]) != [] and schedules.searched(["softmax"]) == schedules.searched(["attention_gqa"]) == []


@pytest.mark.parametrize(
    "p",
    [
        Problem("x", "gemm", (5, 7, 33), "float16", 1.0),
        Problem("x", "gemm", (5, 7, 33), "int8", 1.0, is_nt=True),
        Problem("x", "attention", (1, 2, 40, 16), "float16", 1.0, is_causal=True),
    ],
    ids=lambda p: f"{p.kind} {p.dtype}",
)
def test_the_reference_is_the_formula(p: Problem) -> None:
    torch = pytest.importorskip("torch")
    (tensors,) = make_sets(torch, p, "cpu", 1)
    tensors.out.copy_(schedules.reference(torch, p, tensors.given).to(tensors.out.dtype))
    assert check(torch, p, tensors).why == ""


def test_what_is_found_is_kept_and_what_fails_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    pytest.importorskip("torch")
    first, second, third = schedules.searched(["awkward"])
    one = Schedule(block_m=1)

    def search(number: int) -> Tuned | str:
        if number == second:
            raise MemoryError("all of it")
        return Tuned(schedules.key_of(PROBLEMS[number]), one, 1.0, one, 1.0, 3) if number == first else "wrong result"

    device = types.SimpleNamespace(arch="sm_90a", name="NVIDIA H200")
    monkeypatch.setattr(schedules, "require_driver", lambda: types.SimpleNamespace(device=lambda _: device))
    monkeypatch.setattr(schedules, "ProcessPoolExecutor", lambda count, mp_context: ThreadPoolExecutor(count))
    monkeypatch.setattr(schedules, "search_one", search)
    found = schedules.run(["awkward"], str(tmp_path / "f.json"))
    assert not found.is_within and [t.problem for t in found.record] == [schedules.key_of(PROBLEMS[first])]
    assert sorted(found.failed) == sorted([(PROBLEMS[second].name, "MemoryError: all of it"), (PROBLEMS[third].name, "wrong result")])
    assert Record.from_json((tmp_path / "f.json").read_text()) == found.record
    assert found.record.command == "python -m tileworkbench.bench schedules --only awkward" and "wrong result" in found.table()
    assert capsys.readouterr().err.count("awkward") == 2
