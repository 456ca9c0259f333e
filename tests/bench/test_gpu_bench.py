"""The bench for GPUs without one: timing by a clock that is made up, both sides on the CPU, a worker that is a few lines of Python."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tileworkbench.base.errors import InternalError, UnsupportedError
from tileworkbench.base.machine import find_machine
from tileworkbench.bench.__main__ import main
from tileworkbench.bench.gpu import match, turns
from tileworkbench.bench.gpu.helper import Helper
from tileworkbench.bench.gpu.match import Bench, play
from tileworkbench.bench.gpu.ours import Ours, choose
from tileworkbench.bench.gpu.problems import GROUPS, KINDS, PROBLEMS, Problem, chosen
from tileworkbench.bench.gpu.result import FAILED, GOOD, REFUSED, WRONG, Result
from tileworkbench.bench.gpu.roof import roof_seconds
from tileworkbench.bench.gpu.table import Found, run
from tileworkbench.runtime import toolchain
from tileworkbench.runtime.nvrtc import find_nvrtc


# ------------------------------------------------------------------------------------------- timing
class MadeUp:
    """A stream whose time only runs when something works; `drift` makes all of it slower with time."""

    def __init__(self, drift: float = 0.0) -> None:
        self.now, self.drift, self.launches = 0.0, drift, 0

    def run(self, ms: float) -> turns.Run:
        def work() -> None:
            self.launches += 1
            self.now += ms * (1 + self.drift * self.now)

        return work

    def mark(self) -> float:
        return self.now

    def between(self, first: float, second: float) -> float:
        return second - first

    def has_passed(self, mark: float) -> bool:
        return False

    def wait(self) -> None:
        pass

    def hold(self, microseconds: float) -> None:
        self.now += microseconds / 1e3


class SlowHost(MadeUp):
    """The host takes so long for a launch: the GPU runs it then, unless it is still held back."""

    def __init__(self, launch_ms: float) -> None:
        super().__init__()
        self.launch_ms, self.host = launch_ms, 0.0

    def run(self, ms: float) -> turns.Run:
        def work() -> None:
            self.host += self.launch_ms
            self.now = max(self.now, self.host) + ms

        return work

    def has_passed(self, mark: float) -> bool:
        return self.host >= mark

    def wait(self) -> None:
        self.host = self.now = max(self.host, self.now)

    def hold(self, microseconds: float) -> None:
        self.now = max(self.now, self.host) + microseconds / 1e3


@pytest.mark.parametrize("launch_ms", [0.004, 0.011, 0.04, 0.15])
def test_a_slow_host_is_waited_for(launch_ms: float) -> None:
    """Launches of 5 us, which the host takes up to 150 for: what counts is the GPU's time."""
    clock = SlowHost(launch_ms)
    mine, theirs = [clock.run(0.005)], [clock.run(0.006)]
    assert turns.estimate(clock, mine) == pytest.approx(0.005)
    found = turns.alternate(clock, {"a": mine}, theirs, 0.006)["a"]
    assert (found.ms, found.base_ms, found.ratio) == pytest.approx((0.005, 0.006, 1.2))


@pytest.mark.parametrize("ms", [0.004, 0.2, 3.0, 80.0])
def test_both_methods_give_the_ratio_of_the_times(ms: float) -> None:
    clock = MadeUp()
    mine, theirs = [clock.run(ms)] * 2, [clock.run(1.25 * ms)] * 3
    assert turns.estimate(clock, mine) == pytest.approx(ms)
    found = turns.alternate(clock, {"a": mine, "b": theirs}, theirs, 1.25 * ms)
    assert (found["a"].ms, found["a"].base_ms, found["a"].ratio) == pytest.approx((ms, 1.25 * ms, 1.25))
    assert found["b"].ratio == pytest.approx(1)
    assert turns.segments(clock, mine, theirs, 1.25 * ms).ratio == pytest.approx(1.25)


def test_turns_compare_cycles_while_the_clock_falls() -> None:
    clock = MadeUp(drift=1e-3)
    mine, theirs = [clock.run(1.0)], [clock.run(1.1)]
    assert turns.alternate(clock, {"a": mine}, theirs, 1.1)["a"].ratio == pytest.approx(1.1, rel=3e-3)  # the two of a pair are 2 ms apart
    assert clock.now > 10 * clock.drift


def test_long_work_is_not_timed_for_ever() -> None:
    clock = MadeUp()
    turns.alternate(clock, {"a": [clock.run(500.0)]}, [clock.run(500.0)], 500.0)
    assert clock.launches <= 2 * (turns.FEWEST_ROUNDS + 1)


# ------------------------------------------------------------------------------------------- problems
def test_groups_and_their_floors() -> None:
    assert [PROBLEMS[i].name for i in chosen(["first"])][:4] == [
        "gemm_f16 4096x4096x4096 nn", "gemm_f16 8192x8192x8192 nn", "gemm_f16 4096x4096x4096 nt", "gemm_f16 8192x8192x8192 nt"
    ]  # fmt: skip
    assert chosen([]) == list(range(len(PROBLEMS)))
    assert {PROBLEMS[i].group for i in chosen(["attention"])} == {g for g in GROUPS if g.startswith("attention")}
    assert len({p.name for p in PROBLEMS}) == len(PROBLEMS)
    assert {p.kind for p in PROBLEMS} == set(KINDS)
    with pytest.raises(ValueError, match="there is no group 'gem'; the groups are gemm_f16, "):
        chosen(["gem"])


def test_row_kernels_move_a_quarter_of_a_gibibyte() -> None:
    assert all(p.bytes >= 1 << 29 for p in PROBLEMS if p.is_copy_bound)  # read, and written


def test_operations_and_bytes() -> None:
    gemm, attention = Problem("g", "gemm", (4, 5, 6), "int8", 1), Problem("g", "attention", (2, 8, 16, 4), "float16", 1, is_causal=True, kv_heads=2)
    assert (gemm.flops, gemm.bytes) == (240, 24 + 30 + 4 * 20)
    assert (attention.flops, attention.bytes) == (2 * 2 * 8 * 16 * 16 * 4, 2 * 2 * 16 * 4 * (2 * 8 + 2 * 2))
    h200 = find_machine("h200")
    roof = roof_seconds(Problem("g", "gemm", (8192,) * 3, "float16", 1), h200)
    assert roof == pytest.approx(2 * 8192**3 / 989.4e12, rel=1e-3)
    assert roof_seconds(Problem("g", "add", (1 << 26,), "float32", 1), h200) == pytest.approx(3 * 4 * (1 << 26) / 4.8e12, rel=1e-3)
    assert roof_seconds(gemm, None) is None


@pytest.mark.parametrize("arch", ["sm_90a", "sm_80"])
def test_there_is_a_program_for_every_problem(arch: str) -> None:
    assert all(" t" in choose(p, f"cuda:{arch}")[1] for p in PROBLEMS)


# ------------------------------------------------------------------------------------------- a problem by both sides
SMALL = {
    "gemm": (70, 33, 48), "scaled": (32, 48, 64), "gemv": (40, 96), "attention": (1, 4, 40, 16), "softmax": (70, 40), "layernorm": (70, 40),
    "rmsnorm": (70, 40), "add": (1000,), "gelu": (1000,), "transpose": (70, 24),
}  # fmt: skip
TYPES = {"scaled": "float8_e4m3fn", "gemv": "bfloat16", "attention": "bfloat16", "transpose": "bfloat16"}


def small(kind: str, **changes: Any) -> Problem:
    return dataclasses.replace(Problem(kind, kind, SMALL[kind], TYPES.get(kind, "float32"), 1.0), **changes)


def on_cpu(torch: Any) -> Bench:
    """Kernels of the target c on PyTorch's CPU tensors, timed by the clock that is made up: a run of anything takes no time, so ratios are 1."""
    clock = MadeUp()
    clock.mark = lambda: clock.__dict__.__setitem__("now", clock.now + 1.0) or clock.now  # type: ignore[method-assign]
    return Bench(torch, "cpu", clock, "c", find_machine("h200"))


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Bench:
    torch = pytest.importorskip("torch")
    if toolchain.default_compiler() is None:
        pytest.skip("needs a C compiler")
    monkeypatch.setattr(match, "count_of_sets", lambda p: 2)
    for name, ms in (("HEAT_MS", 2.0), ("ALTERNATE_MS", 20.0), ("SEGMENT_MS", 4.0)):
        monkeypatch.setattr(turns, name, ms)
    return on_cpu(torch)


@pytest.mark.parametrize(
    "problem",
    [
        *(small(kind) for kind in KINDS), small("gemm", dtype="bfloat16", is_nt=True), small("gemm", dtype="int8", is_nt=True),
        small("attention", is_causal=True), small("attention", kv_heads=2),
    ],
    ids=lambda p: p.name,
)  # fmt: skip
def test_both_sides_solve_a_problem(problem: Problem, bench: Bench) -> None:
    found = play(bench, problem)
    assert (found.status, found.why) == (GOOD, "") and found.error is not None and found.error < 0.02
    assert found.peers and found.peer in found.peers and found.us and found.peer_us and found.alt == pytest.approx(1)
    assert found.schedule and found.roof_us and found.compile_ms and found.compile_ms > 0
    assert (found.copy_alt == pytest.approx(1)) if problem.is_copy_bound else found.copy_alt is None
    assert Result.from_data(problem, json.loads(json.dumps(found.data()))) == found


def _spoilt(spoil: Callable[[Any], None]) -> Callable[[Problem, str], Ours]:
    real = match.ours

    def made(p: Problem, target: str) -> Ours:
        kernel = real(p, target)

        def launch(tensors: Any) -> None:
            kernel.launch(tensors)
            spoil(tensors)

        return dataclasses.replace(kernel, launch=launch)

    return made


def _one_term(s: Any) -> None:
    """As if the last k had been left out."""
    s.out.sub_((s.given[0][:, -1:].double() @ s.given[1][-1:].double()).to(s.out.dtype))


@pytest.mark.parametrize(
    ("kind", "spoil", "says"),
    [
        ("gemm", lambda s: s.out[-1].fill_(float("nan")), "are not finite"), ("gemm", _one_term, "units of rounding"),
        ("gemm", lambda s: s.out.copy_(s.out.roll(1, 0)), "units of rounding"), ("attention", lambda s: s.out[:, -1, 5].zero_(), "units of rounding"),
        ("softmax", lambda s: s.out[:, 3].mul_(1.01), "units of rounding"), ("transpose", lambda s: s.out[-1, -1:].add_(1), "units of rounding"),
        ("add", lambda s: s.out[-1:].add_(1), "units of rounding"),
    ],
)  # fmt: skip
def test_a_wrong_kernel_is_not_timed(kind: str, spoil: Callable[[Any], Any], says: str, bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(match, "ours", _spoilt(spoil))
    found = play(bench, small(kind))
    assert found.status == WRONG and says in found.why
    assert found.us is None and found.alt is None and found.reached == 0


def test_a_kernel_that_goes_wrong_later_is_wrong(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Any] = []
    monkeypatch.setattr(match, "ours", _spoilt(lambda s: (calls.append(s), s.out.zero_() if len(calls) > 5 else None)))
    found = play(bench, small("gemm"))
    assert found.status == WRONG and found.why.startswith("after other launches: ") and found.us is None


def test_integers_are_compared_exactly(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(match, "ours", _spoilt(lambda s: s.out[0, 0].add_(1)))
    found = play(bench, small("gemm", dtype="int8", is_nt=True))
    assert (found.status, found.why.partition(" of")[0]) == (WRONG, "1")


@pytest.mark.parametrize(
    ("error", "status"), [(UnsupportedError("no such copy"), REFUSED), (InternalError("oh"), FAILED), (ValueError("oh"), FAILED)]
)
def test_what_does_not_compile_is_a_row(error: Exception, status: str, bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(p: Problem, target: str) -> Ours:
        raise error

    monkeypatch.setattr(match, "ours", refuse)
    found = play(bench, small("gemm"))
    assert found.status == status and str(error).splitlines()[0] in found.why


def test_a_kernel_that_cannot_be_launched_is_a_row(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(s: Any) -> None:
        raise RuntimeError("CUDA error: an illegal memory access")

    monkeypatch.setattr(match, "ours", lambda p, target: Ours(fail, "64x64", 1.0, 2.0))
    found = play(bench, small("gemm"))
    assert (found.status, found.why, found.schedule) == (FAILED, "RuntimeError: CUDA error: an illegal memory access", "64x64")


def test_a_peer_that_cannot_is_named_with_its_reason(bench: Bench) -> None:
    found = play(bench, small("attention"))
    assert found.absent and "cudnn" in found.absent  # it is no CPU's


# ------------------------------------------------------------------------------------------- the worker
WORKER = """
import json, sys, time
print(json.dumps({"gpu": "made up"}), flush=True)
for line in sys.stdin:
    n = int(line)
    if n == 1: time.sleep(60)
    if n == 2: sys.exit(7)
    print(json.dumps({"status": "ok", "schedule": "fine", "us": 2.0, "alt": 1.5, "notes": ["a"], **({"broken": True, "status": "failed"} if n == 3 else {})}), flush=True)
"""  # noqa: E501


def helper(text: str = WORKER, **limits: float) -> Helper:
    return Helper([sys.executable, "-c", text], **{"start_s": 60.0, "play_s": 60.0, **limits})


def test_the_run_goes_on_after_a_hang_a_crash_and_a_lost_context(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tileworkbench.bench.gpu.table.chosen", lambda only: [0, 1, 2, 3, 4])
    found = run((), str(tmp_path / "found.json"), helper(play_s=5.0))
    assert [r.status for r in found.results] == [GOOD, FAILED, FAILED, FAILED, GOOD]
    assert [r.why for r in found.results] == ["", "no answer within 5 s", "its process ended with status 7", "", ""]
    assert found.about["gpu"] == "made up" and found.results[0].notes == ("a",)
    assert found.results[4].problem.floor == 0.97
    kept = json.loads((tmp_path / "found.json").read_text())
    assert [r["status"] for r in kept["results"]] == [r.status for r in found.results] and kept["results"][0]["alt"] == 1.5


def test_a_first_version_has_floors_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    number = chosen(["first"])[2]
    monkeypatch.setattr("tileworkbench.bench.gpu.table.chosen", lambda only: [number])
    found = run(["first"], None, helper(WORKER.replace('"alt": 1.5', '"alt": 0.9')))
    assert found.is_within and found.results[0].problem.floor == 0.85
    assert not run([], None, helper(WORKER.replace('"alt": 1.5', '"alt": 0.9'))).is_within


def test_without_a_gpu_the_command_says_what_it_needs(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(UnsupportedError, match="PyTorch finds no GPU"):
        helper("import json; print(json.dumps({'absent': 'PyTorch finds no GPU'}))").play(0)
    with pytest.raises(UnsupportedError, match="no answer from the process|its process ended"):
        helper("pass").play(0)
    with pytest.raises(SystemExit):
        main(["nothing"])
    assert "invalid choice: 'nothing'" in capsys.readouterr().err
    for name in ("schedules", "cpu"):
        with pytest.raises(SystemExit):
            main([name, "--compile-only", "sm_90a"])
        assert f"--compile-only is an option of gpu and cold, not of {name}" in capsys.readouterr().err


def test_its_modules_need_no_notebook() -> None:
    """The machine with the GPU has PyTorch, NumPy and little else."""
    text = """
import sys
class Block:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("IPython", "matplotlib", "PIL", "pygments", "platformdirs", "ipywidgets", "anywidget", "traitlets", "torch"):
            raise ImportError(name)
sys.meta_path.insert(0, Block())
import tileworkbench.bench.__main__, tileworkbench.bench.gpu.worker, tileworkbench.bench.gpu.table, tileworkbench.runtime.target_cuda
"""
    subprocess.run([sys.executable, "-c", text], check=True, timeout=60)


@pytest.mark.skipif(find_nvrtc() is None, reason="NVRTC is not installed")
def test_kernels_are_compiled_without_a_gpu(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["gpu", "--only", "transpose", "--compile-only", "sm_80", "--json", str(tmp_path / "found.json")]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert (
        lines[0].startswith("kernel for sm_80")
        and lines[2].startswith("transpose 8192x8192 f32")
        and lines[-1] == "2 of 2 without spills and warnings"
    )
    kernels = json.loads((tmp_path / "found.json").read_text())["kernels"]
    assert all(k["registers"] > 8 and k["shared_bytes"] > 8000 and k["spilt_bytes"] == 0 for k in kernels)
    assert main(["gpu", "--only", "transpose", "--compile-only", "sm_12"]) == 1
    assert "there is no GPU architecture 'sm_12'" in capsys.readouterr().out


# ------------------------------------------------------------------------------------------- the table
def test_the_worst_stand_last() -> None:
    first, second, third = (PROBLEMS[i] for i in (0, 1, 2))
    found = Found(
        (
            Result(
                first,
                GOOD,
                us=100.0,
                peer="mm",
                peer_us=90.0,
                alt=0.9,
                seg=0.95,
                schedule="128x256x64",
                registers=168,
                spilt_bytes=0,
                compile_ms=800.0,
            ),
            Result(second, WRONG, "3 of 64 elements looked at are wrong", schedule="64x64x64"),
            Result(third, GOOD, us=100.0, peer="mm", peer_us=120.0, alt=1.2, seg=1.1, schedule="128x256x64"),
        ),
        {"gpu": "NVIDIA H200"},
    )
    lines = found.table().splitlines()
    assert [line.split()[1] for line in lines[2:5]] == ["4096x4096x4096", "1024x1024x1024", "2048x2048x2048"]
    assert lines[3].endswith("below") and "WRONG: 3 of 64" in lines[4]
    assert "gemm_f16             mean 1.039, least 0.900, 2 of 3 ran" in lines
    assert not found.is_within and not Found(found.results[:1], {}).is_within and Found(found.results[2:], {}).is_within
    record = found.as_json()["results"][0]
    assert record["group"] == "gemm_f16" and record["rate"] == pytest.approx(2 * 1024**3 / 100 / 1e6) and record["unit"] == "TF"
