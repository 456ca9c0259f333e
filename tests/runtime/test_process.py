"""What outlives or surrounds a kernel: forks, threads, targets from outside, notices, public names, the machine's measurement."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from runtime.programs import matmul_program, scale_program
from tileworkbench.tools import Analyzer, plot_layout

import tileworkbench
from tileworkbench.base.errors import UnsupportedError
from tileworkbench.base.machine import REFERENCE_CPU, Machine
from tileworkbench.language.fp8 import determine_fp8_type
from tileworkbench.runtime import measure as measuring
from tileworkbench.runtime import targets, testing
from tileworkbench.runtime.fork import LIMIT, ThreadLimit
from tileworkbench.runtime.knees import find_plateaus
from tileworkbench.runtime.target_interpret import InterpretTarget

ROOT = Path(__file__).resolve().parents[2]


def python(code: str, **env: str) -> str:
    path = os.pathsep.join([str(ROOT), str(ROOT / "tests")])
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, env={**os.environ, "PYTHONPATH": path, **env}, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


FORK = """
import os, signal
import numpy as np
from runtime.programs import matmul_program, scale_program
import tileworkbench
signal.alarm(100)
N = 1 << 18
kernel = tileworkbench.compile(scale_program(N), num_threads=2, target="c")
assert "omp parallel" in kernel.source
x, y = np.ones(N, np.float32), np.zeros(N, np.float32)
for _ in range(3):
    kernel(x, 2.0, y)
child = os.fork()
if child == 0:
    signal.alarm(30)
    kernel(x, 3.0, y)
    assert y[-1] == 3
    other = tileworkbench.compile(scale_program(N - 1), target="c")
    other(x[1:], 1.0, y[1:])
    os._exit(0 if y[0] == 3 and y[1] == 1 and kernel.num_threads == 1 and other.num_threads == 1 else 3)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), y[0], kernel.num_threads)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_runs_kernels_on_one_thread() -> None:
    assert python(FORK) == "0 2.0 2"


POOL = """
import multiprocessing, signal, threading
import numpy as np
from runtime.programs import scale_program
import tileworkbench
signal.alarm(100)
N = 1 << 18
kernel = tileworkbench.compile(scale_program(N), num_threads=2, target="c")
x = np.ones(N, np.float32)
def work(factor):
    y = np.zeros(N, np.float32)
    kernel(x, float(factor), y)
    return float(y.min() + y.max())
stop = threading.Event()
busy = threading.Thread(target=lambda: [work(1) for _ in iter(stop.is_set, True)])
busy.start()  # forks happen while a region of this thread runs
with multiprocessing.get_context("fork").Pool(2) as pool:
    print(pool.map_async(work, range(6)).get(60), kernel.num_threads)
stop.set()
busy.join()
print(work(5))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_pool_of_forked_processes_runs_kernels() -> None:
    """The children of a process that runs parallel regions, even at the moment of the fork, get right results and never wait for threads."""
    assert python(POOL, PYTHONWARNINGS="ignore").splitlines() == ["[0.0, 2.0, 4.0, 6.0, 8.0, 10.0] 2", "10.0"]


def test_a_forked_child_measures_one_core(fresh_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The probes of a measurement are parallel regions too."""
    asked: list[int] = []

    def pretend(*arguments: Any) -> Machine:
        asked.extend(a for a in arguments if isinstance(a, int))
        return REFERENCE_CPU

    monkeypatch.setattr(measuring, "_with_compiler", pretend)
    monkeypatch.setattr(measuring, "_with_numpy", pretend)
    monkeypatch.setattr(LIMIT, "cap", 1)
    measuring.measure(cores=4)
    assert asked == [1]


def test_threads_from_the_environment() -> None:
    code = "from tileworkbench.runtime.fork import LIMIT; print(LIMIT.of(None), LIMIT.of(5))"
    assert python(code, TILEWORKBENCH_NUM_THREADS="3") == "3 5"


def test_bad_threads_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWORKBENCH_NUM_THREADS", "many")
    with pytest.raises(ValueError, match="TILEWORKBENCH_NUM_THREADS must be a whole number of at least 1, got 'many'"):
        ThreadLimit()


def test_set_num_threads() -> None:
    before = LIMIT.default
    try:
        tileworkbench.set_num_threads(3)
        assert tileworkbench.compile(scale_program(9), target="interpret").num_threads == 3
        with pytest.raises(ValueError, match="at least 1"):
            tileworkbench.set_num_threads(0)
    finally:
        LIMIT.default = before


def test_python_threads_may_call_one_kernel_at_once() -> None:
    kernel = tileworkbench.compile(matmul_program(200, 120, 32), out_idx=-1, num_threads=2)
    assert "omp parallel" in kernel.source
    rng = np.random.default_rng(0)
    pairs = [(rng.standard_normal((200, 32)).astype(np.float32), rng.standard_normal((32, 120)).astype(np.float32)) for _ in range(8)]

    def work(pair: Any) -> float:
        a, b = pair
        return max(float(np.abs(kernel(a, b) - a.astype(np.float64) @ b).max()) for _ in range(20))

    with ThreadPoolExecutor(4) as pool:
        assert max(pool.map(work, pairs)) < 32 * 8 * 2.0**-23


# ------------------------------------------------------------------------------------------- targets
class Counting(InterpretTarget):
    """A target as an outside package would write one."""

    name = "counting"
    compiled = 0

    def compile(self, kernel: Any, options: Any) -> Any:
        Counting.compiled += 1
        return super().compile(kernel, options)


class Broken(InterpretTarget):
    name = "broken"

    def usable(self) -> str:
        return "its device is not plugged in"


def test_a_target_from_outside() -> None:
    targets.register(Counting())
    kernel = tileworkbench.compile(scale_program(9), target="counting")
    assert (kernel.target, Counting.compiled) == ("counting", 1)
    y = np.zeros(9, np.float32)
    kernel(np.ones(9, np.float32), 2.0, y)
    assert (y == 2).all()
    assert "counting" in targets.target_names()


def test_a_target_that_cannot_be_used() -> None:
    targets.register(Broken())
    with pytest.raises(UnsupportedError, match="target 'broken' cannot be used here: its device is not plugged in"):
        tileworkbench.compile(scale_program(9), target="broken")


# ------------------------------------------------------------------------------------------- names
def test_every_public_name_exists() -> None:
    for name in tileworkbench.__all__:
        assert getattr(tileworkbench, name) is not None
    assert set(tileworkbench.__all__) <= set(dir(tileworkbench))
    with pytest.raises(AttributeError, match="has no attribute 'jitt'"):
        tileworkbench.jitt


IMPORTS = """
import tileworkbench as tilelang
import tileworkbench.language as T
from tileworkbench import DataType, PassConfigKey, Profiler, jit, language
from tileworkbench.autotuner import *
from tileworkbench.autotuner import AutoTuner, set_autotune_inputs
from tileworkbench.carver.arch import CDNA, CUDA, driver
from tileworkbench.carver.roller.rasterization import NoRasterization
from tileworkbench.carver.template import MatmulTemplate
from tileworkbench.engine.callback import register_cuda_postproc_callback
from tileworkbench.layout import make_swizzled_layout
from tileworkbench.profiler import do_bench
from tileworkbench.transform import PassConfigKey as other
from tileworkbench.utils.tensor import TensorSupplyType, get_tensor_supply, torch_assert_close
import tileworkbench.testing
from tileworkbench.language.fp8 import determine_fp8_type
from tileworkbench.tools import Analyzer
assert autotune is tilelang.autotune and other is PassConfigKey
assert tilelang.math.next_power_of_2(100) == 128 and tilelang.cdiv(7, 2) == 4
assert tilelang.layout.make_swizzled_layout and tilelang.testing.set_random_seed and tilelang.env.TILELANG_CACHE_DIR
assert driver.get_num_sms() >= 1
tilelang.set_log_level("WARNING"); tilelang.disable_cache(); tilelang.enable_cache()
@register_cuda_postproc_callback
def hook(code, _): return code
print("ok")
"""


def test_names_that_tilelangs_host_code_imports() -> None:
    assert python(IMPORTS) == "ok"


def test_importing_the_language_stays_light() -> None:
    unwanted = ("matplotlib", "ipywidgets", "cupy", "torch", "IPython", "tileworkbench.runtime", "tileworkbench.codegen", "tileworkbench.views")
    assert python(f"import sys, tileworkbench.language; print([m for m in {unwanted!r} if m in sys.modules])") == "[]"


def test_analyzer_counts() -> None:
    result = Analyzer.analysis(matmul_program(64, 48, 32), REFERENCE_CPU)
    assert result.total_flops == 2 * 64 * 48 * 32
    assert result.total_global_bytes == 4 * (64 * 32 + 32 * 48 + 64 * 48)
    with pytest.raises(UnsupportedError, match="fragments have no layout on the CPU targets"):
        plot_layout(None)


def test_8_bit_formats() -> None:
    assert (determine_fp8_type(), determine_fp8_type("e5m2")) == ("float8_e4m3fn", "float8_e5m2")
    with pytest.raises(ValueError, match="there is no 8-bit float format 'e3m4'"):
        determine_fp8_type("e3m4")


def test_helpers_of_tests(capsys: pytest.CaptureFixture[str]) -> None:
    assert [testing.next_power_of_2(n) for n in (0, 1, 2, 3, 64, 65)] == [1, 1, 2, 4, 64, 128]
    assert (testing.cdiv(7, 2), testing.cdiv(8, 2), testing.cdiv(0, 2)) == (4, 4, 0)
    testing.set_random_seed(3)
    first = np.random.rand()
    testing.set_random_seed(3)
    assert np.random.rand() == first
    testing.process_func(lambda n: n + 1, "one more", n=2)
    assert capsys.readouterr().out == "one more: 3\n"
    assert testing.torch_assert_close(np.ones(3), np.ones(3))
    for mark in (testing.requires_cuda, testing.requires_cuda_compute_version(9, 0), testing.requires_package("no_such_package")):

        @mark
        def test() -> None: ...

        assert test.pytestmark[0].name in ("skip", "skipif")


# ------------------------------------------------------------------------------------------- measurement
def test_plateaus_of_a_noisy_curve() -> None:
    rng = np.random.default_rng(0)
    sizes = [2 ** (k / 2) * 8192 for k in range(31)]
    true = [200 if s <= 48 << 10 else 110 if s <= 2 << 20 else 25 if s <= 32 << 20 else 12 for s in sizes]
    found = find_plateaus([int(s) for s in sizes], [t * float(rng.uniform(0.95, 1.05)) for t in true])
    assert [p.capacity is None for p in found] == [False, False, False, True]
    for plateau, (capacity, rate) in zip(found, [(48 << 10, 200), (2 << 20, 110), (32 << 20, 25), (None, 12)], strict=True):
        assert abs(plateau.rate / rate - 1) < 0.06
        if capacity is not None:
            assert capacity / 1.5 < plateau.capacity <= capacity


def test_a_flat_curve_is_one_level() -> None:
    assert [p.capacity for p in find_plateaus([1, 2, 4, 8, 16, 32], [10, 11, 10, 9.5, 10, 10])] == [None]


def test_a_machine_is_measured_once_and_again_when_asked(fresh_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A record is kept; one made on a busy machine says so, and how to make a better one."""
    made: list[str] = []

    def pretend(*_: Any) -> Machine:
        made.append("x")
        return REFERENCE_CPU

    monkeypatch.setattr(measuring, "_with_compiler", pretend)
    monkeypatch.setattr(measuring, "_with_numpy", pretend)
    for load, force, times in ((99.0, False, 1), (0.0, False, 1), (0.0, True, 2), (99.0, False, 2)):
        monkeypatch.setattr(os, "getloadavg", lambda load=load: (load, load, load))
        machine = measuring.measure(force, cores=2)
        assert len(made) == times
        notes = [note for note in machine.notes if note.startswith("other programs were running")]
        assert len(notes) == (times == 1) and all("doctor --measure" in note for note in notes)


@pytest.mark.slow
def test_this_machine_without_a_compiler(fresh_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWORKBENCH_CC", "none")
    machine = Machine.measure()
    assert machine.peak("float32").value > 0
    assert machine.bandwidth("DRAM").value > 0
    assert machine.notes[0].startswith("no C compiler")
