"""The demo and the command line."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import tileworkbench.demo as demo
from tileworkbench.base.machine import REFERENCE_CPU
from tileworkbench.bench import peers
from tileworkbench.cli import PASSED_ON, main
from tileworkbench.runtime.libcuda import Device, find_driver


@pytest.fixture(autouse=True)
def _quiet_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """No measurement and no peers in these tests: they take seconds and are not what is tested."""
    monkeypatch.setattr(demo, "measure_machine", lambda: REFERENCE_CPU)
    monkeypatch.setattr(peers, "measure_peers", lambda: {"numpy": {"version": "9.9", "gemm": [0.02, 0.016]}})


def test_demo_without_a_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """One line says so; every kernel still runs and is right; the report opens offline."""
    monkeypatch.setenv("TILEWORKBENCH_CC", "none")
    monkeypatch.setenv("TILEWORKBENCH_TARGET", "interpret")  # as the demo sets it; undone after the test
    page = tmp_path / "report.html"
    assert main(["demo", "--out", str(page), "--threads", "1"]) == 0
    out = capsys.readouterr().out
    lines = out.splitlines()
    assert lines[0].startswith("No C compiler found: the kernels run through the interpreter at small sizes.")
    rows = [line for line in lines if line.endswith("  ok")]
    assert [r.split("  ")[0] for r in rows] == ["gemm f32 + relu", "gemm f16 + relu", "softmax", "attention", "attention causal"]
    html = page.read_text(encoding="utf-8")
    assert "<script" not in html and "http" not in html.replace("http-equiv", "")
    assert html.count("<h2") == 5


@pytest.mark.slow
def test_demo_with_a_compiler(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    if demo.get_target("c").usable():
        pytest.skip("no C compiler")
    assert main(["demo", "--quick", "--threads", "1", "--out", str(tmp_path / "r.html")]) == 0
    out = capsys.readouterr().out
    assert out.count("  ok") == 5
    assert "512 x 512 x 512" in out and "reference CPU" in out
    row = next(line for line in out.splitlines() if line.startswith("gemm f32"))
    assert "compute" in row or "L" in row
    assert (tmp_path / "r.html").stat().st_size < 1_500_000


def test_a_wrong_result_is_shown_and_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("TILEWORKBENCH_CC", "none")
    monkeypatch.setenv("TILEWORKBENCH_TARGET", "interpret")  # as the demo sets it; undone after the test
    real = demo.cases(small=True)[2]
    broken = demo.Case(real.name, real.shape, real.schedule, real.make, real.inputs, lambda: (real.judge()[0] + 1e-3, real.judge()[1]), real.flops)
    monkeypatch.setattr(demo, "cases", lambda **_: [broken])
    assert main(["demo", "--out", str(tmp_path / "r.html")]) == 1
    assert "WRONG" in capsys.readouterr().out


def test_nan_is_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWORKBENCH_CC", "none")
    monkeypatch.setenv("TILEWORKBENCH_TARGET", "interpret")  # as the demo sets it; undone after the test
    real = demo.cases(small=True)[2]
    broken = demo.Case(real.name, real.shape, real.schedule, real.make, real.inputs, lambda: (real.judge()[0] * np.nan, real.judge()[1]), real.flops)
    monkeypatch.setattr(demo, "cases", lambda **_: [broken])
    assert demo.run_demo(tmp_path / "r.html") == 1


def test_the_ratio_to_a_peer_is_of_the_best_times() -> None:
    case = demo.cases(quick=True)[0]
    one = demo.Case(case.name, case.shape, case.schedule, case.make, case.inputs, case.judge, 2 * 10**9, peer="numpy.gemm")
    outcome = demo.Outcome(one, None, 0.0, 0.0, 0.0, None, one_thread_s=[0.03, 0.02])  # type: ignore[arg-type]  # only the times are looked at
    assert demo._peers([outcome]) == ["gemm f32 + relu 512 x 512 x 512, one thread each: 0.80 x numpy 9.9 matmul (100 against 125 GFLOP/s)"]


def test_demo_on_the_emulator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """A GPU's columns, no rates, and results that are right."""
    real = demo.cases(small=True, target="emulate:sm_80")[2]
    monkeypatch.setattr(demo, "cases", lambda **how: [real] if how["small"] and how["target"] == "emulate:sm_80" else [])
    assert main(["demo", "--target", "emulate:sm_80", "--out", str(tmp_path / "r.html")]) == 0
    out = capsys.readouterr().out
    lines = out.splitlines()
    assert lines[0].startswith("NVIDIA A100") and "shared" in lines[1] and "TFLOP/s" in lines[1]
    assert lines[3].endswith("  ok") and " 64 x 256 " in lines[3] and "it says nothing about a GPU" in out


@pytest.mark.parametrize("target", ["cuda", "cuda:sm_80"])
def test_demo_on_a_gpu_that_is_not_here(target: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("TILEWORKBENCH_LIBCUDA", "libno_such_driver.so")
    assert main(["demo", "--target", target]) == 1
    said = capsys.readouterr().err
    assert "install" in said and ("there is no CUDA driver" in said or "NVRTC" in said)


def test_demo_on_a_target_that_does_not_exist(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--target", "cudo"]) == 1
    assert "there is no target 'cudo'" in capsys.readouterr().err


@pytest.mark.cuda
def test_demo_on_a_gpu(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    if find_driver() is None:
        pytest.skip("no GPU")
    pytest.importorskip("cupy")
    assert main(["demo", "--target", "cuda", "--quick", "--out", str(tmp_path / "r.html")]) == 0
    out = capsys.readouterr().out
    assert out.count("  ok") == 5 and "TFLOP/s" in out and "says nothing about a GPU" not in out


@pytest.mark.parametrize("text", ["0", "-1", "two"])
def test_a_bad_number_of_threads_is_refused(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["demo", "--threads", text])
    assert caught.value.code == 2
    assert f"expected a number of threads, 1 or more, got '{text}'" in capsys.readouterr().err


def test_cache_says_where_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cache"]) == 0
    assert "kernels" in capsys.readouterr().out


def test_doctor_names_targets_and_cores(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("tileworkbench.cli.measure", lambda force: REFERENCE_CPU)
    main(["doctor"])
    out = capsys.readouterr().out
    assert "target   interpret: ready" in out
    assert "reference CPU" in out


def test_doctor_names_compiler_and_gpus(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    asked: list[dict[str, object]] = []
    monkeypatch.setattr("tileworkbench.cli.measure", lambda **how: asked.append(how) or REFERENCE_CPU)
    monkeypatch.setenv("TILEWORKBENCH_LIBCUDA", "libno_such_driver.so")
    monkeypatch.setenv("TILEWORKBENCH_NVRTC", "none")
    main(["doctor", "--measure"])
    out = capsys.readouterr().out
    assert "gpu      none: there is no CUDA driver (libno_such_driver.so is not found)" in out
    assert "nvrtc    none (NVRTC, which compiles for GPUs, is not installed); pip install tileworkbench[cuda]" in out
    assert "target   cuda: NVRTC, which compiles for GPUs, is not installed" in out
    assert asked == [{"force": True}]
    device = Device(0, "NVIDIA H200", (9, 0), 132, 1024, (1, 1, 1), 232448, 65536)
    driver = SimpleNamespace(count=1, version=(13, 0), device=lambda number: device)
    monkeypatch.setattr("tileworkbench.cli.find_driver", lambda: driver)
    main(["doctor", "--measure"])
    assert "gpu 0    NVIDIA H200, sm_90a, 132 SMs, 227 KiB of shared memory a block; driver of CUDA 13.0" in capsys.readouterr().out
    assert asked[-1] == {"force": True, "device": "cuda"}


def test_lab_without_jupyterlab_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("tileworkbench.cli.importlib.util.find_spec", lambda name: None)
    assert main(["lab"]) == 1
    assert "pip install 'tileworkbench[lab]'" in capsys.readouterr().err


def test_lab_and_bench_pass_their_options_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Options in front, behind and between are JupyterLab's and the benchmark's to read."""
    started: list[list[str]] = []
    monkeypatch.setattr("tileworkbench.cli.importlib.util.find_spec", lambda name: object())
    monkeypatch.setattr("tileworkbench.cli.subprocess.call", lambda command: started.append(command) or 0)
    assert main(["lab", "--no-browser", "--port=9"]) == 0
    assert started[0][1:3] == ["-m", "jupyterlab"] and started[0][-2:] == ["--no-browser", "--port=9"]
    assert Path(started[0][3].removeprefix("--notebook-dir=")).is_dir()
    seen: list[list[str]] = []
    monkeypatch.setitem(PASSED_ON, "bench", lambda rest: seen.append(rest) or 0)
    assert main(["bench", "--json", "F", "latency"]) == 0
    assert seen == [["--json", "F", "latency"]]


@pytest.mark.parametrize("command", ["demo", "doctor", "cache", "lab", "bench"])
def test_every_command_has_help(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main([command, "--help"])
    assert caught.value.code == 0
    assert f"usage: tileworkbench {command}" in capsys.readouterr().out


def test_a_command_is_needed(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main([])
    assert "COMMAND" in capsys.readouterr().err
