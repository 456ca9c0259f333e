"""Counters around a launch: with a made-up processor that counts, and with systems that do not."""

from __future__ import annotations

import errno
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tileworkbench.model.counters import Counters
from tileworkbench.runtime import counters
from tileworkbench.runtime.counters import EVENTS, count_launches

KINDS = {pair: name for name, pair in EVENTS.items()}


@dataclass
class Processor:
    """Counts `per_launch` of each event for every launch while it is switched on; `refuse` maps an event to an error number."""

    per_launch: dict[str, int]
    refuse: dict[str, int] = field(default_factory=dict)
    share: float = 1.0
    running: dict[int, str] = field(default_factory=dict)
    counts: dict[int, int] = field(default_factory=dict)
    names: dict[int, str] = field(default_factory=dict)
    closed: list[int] = field(default_factory=list)
    launches: int = 0

    def open(self, kind: int, config: int, thread: int) -> int:
        name = KINDS[kind, config]
        if name in self.refuse:
            raise OSError(self.refuse[name], "refused")
        handle = 100 + len(self.names)
        self.names[handle], self.counts[handle] = name, 7  # whatever it held before
        return handle

    def command(self, handle: int, what: int) -> None:
        if what == 0x2403:
            self.counts[handle] = 0
        elif what == 0x2400:
            self.running[handle] = self.names[handle]
        else:
            self.running.pop(handle)

    def read(self, handle: int) -> tuple[int, int, int]:
        return self.counts[handle], 1000, int(1000 * self.share)

    def close(self, handle: int) -> None:
        self.closed.append(handle)

    def launch(self) -> None:
        self.launches += 1
        for handle, name in self.running.items():
            self.counts[handle] += int(self.per_launch.get(name, 0) * self.share)


@pytest.fixture
def one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counters, "threads", lambda: [1])


def test_the_mean_of_the_launches_without_the_first(one_thread: None) -> None:
    cpu = Processor({"cycles": 1000, "instructions": 3000, "LLC misses": 10, "L1D misses": 40})
    found = count_launches(cpu.launch, 4, cpu)
    assert cpu.launches == 5
    assert found.values == {"cycles": 1000, "instructions": 3000, "L1D loads": 0, "L1D misses": 40, "LLC loads": 0, "LLC misses": 10}
    assert (found.launches, found.missing) == (4, "")
    assert found.bytes("DRAM") == 640 and found.bytes("L2") == 2560 and found.bytes("L3") is None
    assert found.instructions_per_cycle == 3
    assert sorted(cpu.closed) == sorted(cpu.names), "every handle is given back"


def test_all_threads_are_added(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counters, "threads", lambda: [1, 2, 3])
    cpu = Processor({"cycles": 100})
    assert count_launches(cpu.launch, 2, cpu).values["cycles"] == 300


def test_events_that_shared_a_counter_are_scaled_up(one_thread: None) -> None:
    cpu = Processor({"cycles": 1000}, share=0.5)
    found = count_launches(cpu.launch, 2, cpu)
    assert found.values["cycles"] == pytest.approx(1000)
    assert found.counted == 0.5


def test_some_events_only(one_thread: None) -> None:
    cpu = Processor({"cycles": 5, "instructions": 9}, refuse=dict.fromkeys(("LLC loads", "LLC misses"), errno.ENOENT))
    found = count_launches(cpu.launch, 1, cpu)
    assert found.bytes("DRAM") is None and found.values["instructions"] == 9
    assert found.missing == "not counted: LLC loads, LLC misses; this machine has no such counter; a virtual machine often has none at all"
    assert "1.80 instructions a cycle" in str(found)


@pytest.mark.parametrize(
    ("code", "paranoid", "words"),
    [
        (errno.EACCES, "4\n", "kernel.perf_event_paranoid is 4; `sudo sysctl kernel.perf_event_paranoid=2` lets"),
        (errno.EPERM, "2\n", "a container's seccomp profile may forbid it"),
        (errno.EACCES, None, "the system refuses perf_event_open"),
        (errno.ENOENT, "2\n", "a virtual machine often has none at all"),
        (errno.ENOSYS, "2\n", "built without perf events"),
        (errno.EMFILE, "2\n", "perf_event_open failed: "),
    ],
)
def test_one_line_says_why(
    code: int, paranoid: str | None, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, one_thread: None
) -> None:  # fmt: skip
    if paranoid is not None:
        (tmp_path / "paranoid").write_text(paranoid)
    monkeypatch.setattr(counters, "PARANOID", tmp_path / "paranoid")
    cpu = Processor({}, refuse=dict.fromkeys(EVENTS, code))
    found = count_launches(cpu.launch, 1, cpu)
    assert cpu.launches == 0, "nothing runs for nothing"
    assert found.values == {} and words in found.missing and "\n" not in found.missing
    assert str(found) == found.missing


def test_a_machine_that_only_pretends(one_thread: None) -> None:
    cpu = Processor({})
    assert "stayed at zero" in count_launches(cpu.launch, 1, cpu).missing


def test_another_system_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr("platform.system", lambda: "Darwin")
    runs: list[int] = []
    assert count_launches(lambda: runs.append(1)) == Counters(missing="no counters: they are read with Linux's perf, and this is Darwin")
    assert not runs, "nothing runs for nothing"


def test_a_launch_that_fails_gives_the_counters_back(one_thread: None) -> None:
    cpu = Processor({"cycles": 1})

    def launch() -> None:
        if cpu.running:
            raise RuntimeError("the kernel failed")

    with pytest.raises(RuntimeError):
        count_launches(launch, 1, cpu)
    assert sorted(cpu.closed) == sorted(cpu.names)


def test_this_machine_counts_or_says_why_not() -> None:
    found = count_launches(lambda: sum(range(10_000)), 1)
    assert bool(found.values) != (found.missing.startswith("no counters: "))
