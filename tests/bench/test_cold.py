"""First compilations for a GPU: fresh processes, nothing in a cache, the median against the limit, and what is said of what cannot be compiled."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tileworkbench.bench import child
from tileworkbench.bench.__main__ import main
from tileworkbench.bench.gpu.cold import GROUPS, KERNELS, LIMIT_MS, Cold, Times, in_child, run
from tileworkbench.bench.gpu.problems import PROBLEMS
from tileworkbench.runtime import nvrtc

needs_nvrtc = pytest.mark.skipif(nvrtc.find_nvrtc() is None, reason="needs NVRTC")


def test_each_group_has_kernels_of_4096() -> None:
    assert {p.group for p in KERNELS} == set(GROUPS) and all(4096 in p.shape for p in KERNELS)
    assert sum(p.is_causal for p in KERNELS) == sum(p.kind == "attention" and not p.is_causal for p in KERNELS)


@needs_nvrtc
def test_a_process_compiles_anew_and_nvrtc_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The second round takes NVRTC as long as the first: neither cache serves it. (From its cache NVRTC took a twentieth.)"""
    main(["cold", "--only", "gemm_f16", "--repeat", "2", "--json", str(tmp_path / "found.json")])
    found = json.loads((tmp_path / "found.json").read_text())
    assert found["arch"] == "sm_90a" and [(k["name"], k["way"]) for k in found["kernels"]] == [
        (f"gemm_f16 4096x4096x4096 {order}", way) for order in ("nn", "nt") for way in ("new", "cold")
    ]
    for kernel in found["kernels"]:
        assert not kernel["why"] and len(kernel["ms"]) == 2
        assert kernel["passes_ms"] + kernel["compiler_ms"] <= max(kernel["ms"]) + 1
        assert min(kernel["ms"]) > max(kernel["ms"]) / 4
    assert "kernel for sm_90a, ms" in capsys.readouterr().out


def test_children_have_no_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[dict[str, str]] = []

    class Done:
        stdout, stderr = '{"ms": 10.0, "passes_ms": 4.0, "compiler_ms": 5.0}\n', ""

    def process(command: list[str], env: dict[str, str], **rest: Any) -> Done:
        assert os.listdir(env["TILEWORKBENCH_CACHE_DIR"]) == [], "an empty cache of its own"
        seen.append(env)
        return Done()

    monkeypatch.setattr(child.subprocess, "run", process)
    found = run(["attention_d256"], "sm_90a", 3)
    assert found.is_within and [r.runs for r in found.rows] == [(10.0,) * 3] * 4
    assert len({env["TILEWORKBENCH_CACHE_DIR"] for env in seen}) == len(seen) == 1 + 3 * 4
    assert all(env["CUDA_CACHE_DISABLE"] == "1" for env in seen)


def test_the_median_keeps_the_limit_or_the_command_fails() -> None:
    good = Times("a", "cold", (LIMIT_MS * 2, LIMIT_MS, 10.0), 1.0, 2.0)
    slow = Times("b", "new", (LIMIT_MS + 1,) * 3, 1.0, 2.0)
    none = Times("c", "new", (), 0.0, 0.0, "UnsupportedError: no NVRTC")
    assert good.is_within and not slow.is_within and not none.is_within
    assert Cold("sm_90a", "a CPU", (good,)).is_within and not Cold("sm_90a", "a CPU", (good, slow)).is_within
    text = Cold("sm_90a", "a CPU", (slow, good, none)).table()
    assert "OVER" in str(slow) and "OVER" not in str(good) and "c" in text and "no NVRTC" in text
    assert text.index("\na ") < text.index("\nb "), "the slowest last"


def test_a_kernel_that_cannot_be_compiled_says_why(capsys: pytest.CaptureFixture[str]) -> None:
    in_child(PROBLEMS.index(KERNELS[0]), "sm_12", "new")
    said = json.loads(capsys.readouterr().out)
    assert "sm_12" in said["why"] and "ms" not in said


def test_a_process_that_dies_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    class Done:
        stdout, stderr = "", "Traceback\nMemoryError: none left\n"

    monkeypatch.setattr(child.subprocess, "run", lambda command, **rest: Done())
    assert {r.why for r in run(["gemm_f16"], None, 1).rows} == {"MemoryError: none left"}


@pytest.mark.parametrize("group", ["softmax", "nothing"])
def test_other_groups_are_refused(group: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["cold", "--only", group])
    assert group in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["cold", "--only", "gemm_f16", "--only", group])
    assert group in capsys.readouterr().err, "nor is it left out in silence beside one that is measured"


@pytest.mark.parametrize("count", ["0", "-3"])
def test_no_runs_are_no_measurement(count: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["cold", "--repeat", count])
    assert f"{count} runs measure nothing; at least 1 is needed" in capsys.readouterr().err
