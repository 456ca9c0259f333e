"""A GPU's counters: with a made-up ncu, a driver that remembers, and what ncu says where it may not count. No GPU is needed."""

from __future__ import annotations

import os
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from runtime.cuda_fakes import FakeArray, FakeDriver, scale_add_program, scale_add_text

import tileworkbench
from tileworkbench.base.machine import find_machine
from tileworkbench.model.counters import Counters
from tileworkbench.runtime import counting_process, ncu, targets
from tileworkbench.runtime.counters_cuda import by_call, count_calls
from tileworkbench.runtime.ncu import METRICS, Launched, find_ncu, read_csv, why_not
from tileworkbench.runtime.saved_calls import READER, is_in_memory, load_calls, save_calls
from tileworkbench.runtime.target_cuda import CudaTarget
from tileworkbench.tune.trial import has_shape

NAMES = ("DRAM read", "DRAM written", "L2 sectors read")
HEAD = ",".join(f'"{c}"' for c in ("ID", "Kernel Name", *(METRICS[n] for n in NAMES)))
CSV = f"""==PROF== Connected to process 12
{HEAD}
"","","byte","byte","sector"
"0","pad","1,000","0","10"
"1","gemm","3000","500","90"
"2","{READER}","99000","1500","7"
"3","gemm","2000","n/a","64"
"4","{READER}","99000","2500","7"
==PROF== Disconnected"""
NCU = """#!{python}
import sys
from pathlib import Path
folder = Path(__file__).parent
with (folder / "asked").open("a") as file:
    print(*sys.argv[1:], file=file)
said = (folder / "said").read_text()
unknown = "lts__t_bytes.sum"
if "unknown" in said and any(unknown in a for a in sys.argv):
    print("==ERROR== Failed to find metric", unknown)
    sys.exit(1)
Path(sys.argv[sys.argv.index("--log-file") + 1]).write_text(said)
"""


@pytest.fixture
def made_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder whose `ncu` writes what the file `said` holds, and keeps its arguments in `asked`."""
    program = tmp_path / "ncu"
    program.write_text(NCU.format(python=sys.executable))
    program.chmod(0o755)
    monkeypatch.setenv(ncu.WHERE, str(program))
    return tmp_path


@pytest.fixture
def call(driver: FakeDriver, monkeypatch: pytest.MonkeyPatch, fresh_cache: Path) -> Any:
    """A kernel of the target "cuda" and its arguments; the second and the third are one array."""
    monkeypatch.setitem(targets._added, "cuda", CudaTarget(scale_add_text))
    driver.expect(8, 8, 8, 4, 8)
    a, b = (FakeArray(np.arange(256, dtype=np.float32) + i) for i in range(2))
    return tileworkbench.compile(scale_add_program(), target="cuda"), (a, b, b, 1.5)


def test_counters_of_two_calls(made_up: Path, call: Any) -> None:
    """Launches up to the reader are one call; what is written while it reads was left in L2 by the call; its reads are its own."""
    (made_up / "said").write_text(CSV)
    first, second = count_calls([call, call])
    assert first.values == {"DRAM read": 4000, "DRAM written": 2000, "L2 read": 3200}
    assert second.values == {"DRAM read": 2000, "DRAM written": 2500, "L2 read": 2048}
    assert (first.bytes("DRAM"), first.written("DRAM"), first.bytes("L2"), first.written("L2")) == (4000, 2000, 3200, None)
    assert first.is_first and first.source == "ncu" and not first.missing and first.instructions_per_cycle is None
    asked = (made_up / "asked").read_text()
    for option in ("--clock-control none", "--cache-control none", "--replay-mode application", "--profile-from-start off", "dram__bytes_read.sum"):
        assert option in asked
    assert asked.count("counting_process") == 1, "one process for all calls"


def test_a_metric_that_this_gpu_does_not_know_is_left_out(made_up: Path, call: Any) -> None:
    (made_up / "said").write_text(CSV + "\n==unknown==")
    assert count_calls([call])[0].values["DRAM read"] == 4000
    once, again = (made_up / "asked").read_text().splitlines()
    assert "lts__t_bytes.sum" in once and "lts__t_bytes.sum" not in again and "dram__bytes_read.sum" in again


def test_a_process_that_ends_early_leaves_later_calls_uncounted(made_up: Path, call: Any) -> None:
    (made_up / "said").write_text("\n".join(CSV.splitlines()[:-3]))
    first, second = count_calls([call, call])
    assert first.values["DRAM read"] == 4000 and second == Counters(missing="no counters: the process that ncu watched ended before this call")


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ("==ERROR== ERR_NVGPUCTRPERM - The user does not have permission", "NVreg_RestrictProfilingToAdminUsers=0"),
        ("==ERROR== Failed to initialize the profiler: LibraryNotLoaded", "a sandbox (gVisor) or a virtual machine hides it"),
        ("==ERROR== ERR_NVGPUCTRUNSUPPORTED", "does not let ncu count"),
        ("==ERROR== The application returned an error code (1).", "ncu said: The application returned"),
        ("==PROF== Connected", "ncu ran and saw no launch"),
    ],
)
def test_one_line_says_why_and_what_to_do(said: str, words: str, made_up: Path, call: Any) -> None:
    (made_up / "said").write_text(said)
    (found,) = count_calls([call])
    assert found.values == {} and found.missing.startswith("no counters: ") and words in found.missing and "\n" not in found.missing
    assert why_not(said) == found.missing


def test_without_ncu_nothing_runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv(ncu.WHERE, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(ncu, "PLACES", (f"{tmp_path}/*/bin/ncu",))
    assert "comes with the CUDA toolkit" in count_calls([None])[0].missing  # type: ignore[list-item]
    for version in ("cuda-12", "cuda-13"):
        place = tmp_path / version / "bin" / "ncu"
        place.parent.mkdir(parents=True)
        place.write_text("")
        place.chmod(0o755)
    assert find_ncu() == f"{tmp_path}/cuda-13/bin/ncu", "the newest of the usual places"
    monkeypatch.setenv(ncu.WHERE, str(tmp_path / "nothing"))
    assert find_ncu() is None and "which is no program" in ncu.why_absent()


def test_ncu_s_other_form_has_a_line_for_each_metric() -> None:
    text = '"ID","Kernel Name","Metric Name","Metric Unit","Metric Value"\n"0","g","dram__bytes_read.sum","byte","1,024"\n"0","g","x","","5"'
    assert list(read_csv(text)) == [Launched("g", {"DRAM read": 1024.0})]
    assert list(by_call([Launched("g", {"DRAM read": 1.0})])) == [], "a call that nobody read out behind is not whole"


def test_calls_travel_and_are_made_between_two_readings(
    driver: FakeDriver, call: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    """The process under ncu, here with a driver that remembers: one launch of ours is watched, on the same bytes, and the reader behind it."""
    assert save_calls(tmp_path, [call]) == ""
    (saved,) = load_calls(tmp_path)
    assert saved.args[1] is saved.args[2] or saved.args[1] == saved.args[2]
    assert sorted(p.name for p in tmp_path.glob("*.bin")) == ["0.bin", "1.bin"] and saved.args[3] == 1.5
    events: list[str] = []
    fake: Any = sys.modules["cupy"]
    fake.zeros = lambda size, dtype: FakeArray(np.zeros(4096, dtype))
    fake.float32 = np.float32
    monkeypatch.setattr(FakeArray, "nbytes", 4096, raising=False)
    read = lambda grid, block, args: events.append(f"read, {driver.get('launches')} launched, {driver.get('profiled')} watched")
    fake.RawModule = lambda code, options: types.SimpleNamespace(
        get_function=lambda name: read if f"void __launch_bounds__(512) {name}(" in code else None
    )
    fake.cuda.Device = lambda *_: types.SimpleNamespace(use=lambda: None, attributes={"L2CacheSize": 1 << 20})
    fake.cuda.runtime = types.SimpleNamespace(deviceSynchronize=lambda: None)
    counting_process.main(tmp_path)
    assert events == ["read, 1 launched, 0 watched", "read, 2 launched, 1 watched"]
    pointers = driver.arguments("QQQfq")
    assert pointers[1] == pointers[2] != pointers[0] and pointers[3:] == (1.5, 256)


def test_a_number_of_numpy_is_no_array_to_fetch() -> None:
    """It has a shape and a dtype, which a tuner copies and compares it by, and no bytes that a saved call would have to bring."""
    assert [(has_shape(x), is_in_memory(x)) for x in (np.ones(3), np.float32(2), 2.0)] == [(True, True), (True, False), (False, False)]


def test_arguments_with_gaps_are_refused(driver: FakeDriver, call: Any, tmp_path: Path) -> None:
    kernel, args = call
    gaps = FakeArray(np.zeros((4, 8), np.float32)[:, ::2])
    assert "not contiguous" in save_calls(tmp_path, [(kernel, (gaps, *args[1:]))])


def test_a_report_counts_on_a_gpu_when_it_is_asked_to(made_up: Path, call: Any) -> None:
    (made_up / "said").write_text(CSV)
    kernel, args = call
    plain = kernel.report(find_machine("h200"), args=args)
    assert plain.counters is None and not (made_up / "asked").exists(), "it takes seconds, so nobody counts unasked"
    r = kernel.report(find_machine("h200"), args=args, counters=True)
    assert r.counters is not None and r.counters.written("DRAM") == 2000
    assert "counted: DRAM read 0.004 MB, DRAM written 0.002 MB, L2 read 0.0032 MB; by ncu" in str(r).replace(", by ncu", "; by ncu")
    assert os.environ[ncu.WHERE]
