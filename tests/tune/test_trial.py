"""One kernel in a process of its own: what it may do there, and what is said of it."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tune.programs import TARGET, double, dying, increment, matmul

from tileworkbench.runtime.code import Code
from tileworkbench.runtime.compiling import build
from tileworkbench.runtime.kernel import JITKernel
from tileworkbench.tune import sandbox
from tileworkbench.tune.sandbox import run_trial, stop_trials
from tileworkbench.tune.trial import Inputs, Outcome, Settings, Trial, calls_of

QUICK = Settings(warmup_ms=0.0, rep_ms=0.0, runs=3)
ROOT = Path(__file__).resolve().parents[2]
needs_c = pytest.mark.skipif(TARGET != "c", reason="needs a C compiler")


def array(count: int = 20) -> np.ndarray[Any, Any]:
    return np.arange(count, dtype=np.float32)


def twice(a: Any) -> Any:
    return a * 2


def outcome(kernel: Any, *args: Any, reference: Any = None, **options: Any) -> Outcome:
    return run_trial(Trial.of(kernel, Inputs.of(args, reference), settings=QUICK, **options))


def mode(name: str) -> JITKernel:
    kernel: JITKernel = double.compile(array(), mode=name)
    return kernel


def test_a_kernel_travels() -> None:
    kernel = matmul.compile(5, 6, 7, block=16)
    again = build(pickle.loads(pickle.dumps(Code.of(kernel))))
    a, b = np.ones((5, 7), np.float32), np.ones((7, 6), np.float32)
    np.testing.assert_array_equal(again(a, b), kernel(a, b))
    assert (again.source, again.schedule, again.num_threads) == (kernel.source, kernel.schedule, kernel.num_threads)


@pytest.mark.parametrize("is_isolated", [True, False])
def test_right_and_wrong(is_isolated: bool) -> None:
    ran = outcome(mode("right"), array(), reference=twice, is_isolated=is_isolated)
    assert (ran.status, len(ran.times_ms)) == ("ran", 3)
    wrong = outcome(mode("wrong"), array(), reference=twice, is_isolated=is_isolated)
    assert wrong.status == "wrong result"
    assert wrong.reason.startswith("output 0 differs in 19 of 20 elements, most at (19,): got 57, expected 38")
    failed = outcome(mode("assert"), array(), is_isolated=is_isolated)
    assert failed.status == "raised"
    assert "the first element is large" in failed.reason
    misfit = outcome(mode("right"), array().astype(np.float64), is_isolated=is_isolated)
    assert misfit.status == "raised"
    assert "float64" in misfit.reason


def test_a_hanging_kernel_is_killed() -> None:
    began = time.monotonic()
    hung = outcome(mode("hang"), array(), timeout_s=0.5)
    assert hung == Outcome("timed out", "killed after 0.5 s")
    assert time.monotonic() - began < 60
    assert outcome(mode("right"), array()).status == "ran", "the next one has a process again"


@needs_c
@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("signal", "crashed with signal 11 (SIGSEGV)"),
        ("abort", "crashed with signal 6 (SIGABRT): the heap is gone"),
        ("exit", "ended its process with exit code 3"),
    ],
)
def test_a_crash_is_told(how: str, said: str) -> None:
    assert outcome(dying.compile(array(), mode=how), array()) == Outcome("crashed", said)
    assert outcome(dying.compile(array()), array(), reference=lambda a: a).status == "ran"


def test_arguments_are_copies() -> None:
    kept = array()
    inputs = Inputs.of((kept,), _increment)
    for block in (4, 8):
        ran = run_trial(Trial.of(increment.compile(kept, block=block), inputs, settings=QUICK))
        assert ran.status == "ran", ran.reason
    np.testing.assert_array_equal(kept, array())
    wrong = outcome(increment.compile(kept), kept, reference=_increment_twice)
    assert wrong.status == "wrong result"
    assert wrong.reason.startswith("argument A differs in 20 of 20 elements")


def _increment(a: Any) -> None:
    a += 1


def _increment_twice(a: Any) -> None:
    a += 2


def test_an_in_place_reference_may_return_the_values() -> None:
    assert outcome(increment.compile(array()), array(), reference=lambda a: a + 1).status == "ran"
    wrong = outcome(increment.compile(array()), array(), reference=lambda a: a + 2)
    assert (wrong.status, wrong.reason.split(",")[0]) == ("wrong result", "output 0 differs in 20 of 20 elements")


def test_expected_values_instead_of_a_reference() -> None:
    assert outcome(mode("right"), array(), reference=array() * 2).status == "ran"
    assert outcome(mode("right"), array(), reference=(array() * 2, array())).reason == "it gives 1 results, the reference 2"


def test_tensors_of_pytorch_travel() -> None:
    torch = pytest.importorskip("torch")
    x = torch.arange(20, dtype=torch.float32)
    ran = outcome(mode("right"), x, reference=lambda a: a * 2, keep=True)
    assert ran.status == "ran", ran.reason
    assert isinstance(ran.returned[0], torch.Tensor)
    inputs = Inputs.of((x,), _increment)
    assert run_trial(Trial.of(increment.compile(x), inputs, settings=QUICK)).status == "ran"
    assert x[0] == 0


def test_kept_results_come_back() -> None:
    ran = outcome(mode("wrong"), array(), reference=twice, keep=True)
    assert ran.status == "ran", "the caller compares"
    np.testing.assert_array_equal(ran.returned[0], array() * 3)
    np.testing.assert_array_equal(ran.arguments[0], array())


def test_several_kernels_take_turns() -> None:
    ran = outcome([mode("right"), mode("wrong")], array())
    assert [len(times) for times in ran.all_times_ms] == [24, 24]


def test_stopping_kills() -> None:
    timer = threading.Timer(0.5, stop_trials, ["the owner"])
    timer.start()
    assert outcome(mode("hang"), array(), timeout_s=100, owner="the owner").status == "stopped"
    timer.join()
    assert outcome(mode("right"), array(), owner="the owner").status == "stopped", "nothing starts for it again"
    assert outcome(mode("right"), array()).status == "ran"


@needs_c
def test_a_damaged_process_is_not_held_against_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    """The process was used before and dies under a kernel: that kernel gets a second chance, in a new one."""
    assert outcome(mode("right"), array()).status == "ran"
    real = sandbox.Sandbox.run

    def dies_once(self: sandbox.Sandbox, trial: Trial) -> Outcome:
        if self.trials:
            self.kill()
        return real(self, trial)

    monkeypatch.setattr(sandbox.Sandbox, "run", dies_once)
    assert outcome(mode("right"), array()).status == "ran"


@pytest.mark.parametrize("is_isolated", [True, False])
def test_measurements_of_a_machine_take_turns(is_isolated: bool) -> None:
    kernel = mode("right")
    assert outcome(kernel, array(), is_isolated=is_isolated).status == "ran", "its process is warm"
    ended: list[str] = []
    thread = threading.Thread(target=lambda: ended.append(outcome(kernel, array(), is_isolated=is_isolated).status))
    with sandbox.machines_turn():
        thread.start()
        thread.join(0.5)
        assert not ended, "it waits while another one measures"
    thread.join()
    assert ended == ["ran"]


HANGS = """
import sys, numpy as np
from tune.programs import double
from tileworkbench.tune import sandbox
from tileworkbench.tune.trial import Inputs, Trial
send = sandbox.Sandbox._send
def told(self, message):
    send(self, message)
    if message == "go":
        print(self.process.pid, flush=True)
sandbox.Sandbox._send = told
x = np.arange(8, dtype=np.float32)
sandbox.run_trial(Trial.of(double.compile(x, mode="hang"), Inputs.of((x,)), timeout_s=100))
"""


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs /proc")
def test_the_process_ends_with_its_owner() -> None:
    path = os.pathsep.join([str(ROOT), str(ROOT / "tests")])
    owner = subprocess.Popen([sys.executable, "-c", HANGS], stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": path})
    assert owner.stdout is not None
    pid = int(owner.stdout.readline())
    time.sleep(1.0)  # into the kernel
    owner.kill()
    owner.wait()
    owner.stdout.close()
    for _ in range(600):
        if not _lives(pid):
            return
        time.sleep(0.1)
    pytest.fail(f"process {pid} outlives its owner")


def _lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def test_calls_take_sets_of_arguments_in_turns() -> None:
    """So many that a cache holds none of them when its turn comes; each a copy, and no more than a few."""
    seen: list[int] = []
    a = array(1000)

    def kernel(x: Any) -> None:
        seen.append(x.__array_interface__["data"][0])

    call = calls_of(kernel, (a,), rotate_bytes=3 * a.nbytes)  # type: ignore[arg-type]  # all that is asked of a kernel
    for _ in range(6):
        call()
    assert len(set(seen)) == 3 and seen[:3] == seen[3:] and a.__array_interface__["data"][0] not in seen
    seen.clear()
    one = calls_of(kernel, (a,), rotate_bytes=0)  # type: ignore[arg-type]
    one(), one()
    assert len(set(seen)) == 1


def test_a_trial_rotates_and_is_still_checked() -> None:
    settings = replace(QUICK, rotate_bytes=1 << 12)
    ran = run_trial(Trial.of(mode("right"), Inputs.of((array(),), twice), settings=settings))
    assert (ran.status, len(ran.times_ms)) == ("ran", 3)
