"""The clock of a GPU's stream: the stream is held until every launch stands in it, and held longer where the host was too slow."""

from __future__ import annotations

from pathlib import Path

import pytest
from runtime.cuda_fakes import FakeDriver, build_fake_driver

from tileworkbench.runtime.device_clock import LAUNCH_US, PATIENCE, DeviceClock
from tileworkbench.runtime.libcuda import Driver


@pytest.fixture
def fake(tmp_path: Path) -> FakeDriver:
    return build_fake_driver(tmp_path)


@pytest.mark.parametrize(("early", "runs"), [(0, 1), (1, 2), (2, 3), (9, 3)])
def test_a_stream_that_was_through_too_early_is_held_longer(fake: FakeDriver, early: int, runs: int) -> None:
    clock = DeviceClock(Driver(str(fake.path)), 0, 7)
    for name, value in (("early", early), ("held", 0), ("loaded", 0)):
        fake.set(name, value)
    done: list[int] = []
    assert clock(lambda: done.append(1), 10) == 250_000, "what the driver's events say"
    assert len(done) == 10 * runs
    assert fake.get("held") == sum(LAUNCH_US * p * 10 for p in PATIENCE[:runs]) and fake.get("event_stream") == 7
    clock(lambda: None, 1)
    assert fake.get("loaded") == 1, "the kernel that holds is loaded once"


def test_a_hold_has_an_end(fake: FakeDriver) -> None:
    clock = DeviceClock(Driver(str(fake.path)), 0, 7)
    fake.set("held", 0)
    clock.hold(1e9)
    assert fake.get("held") == 50_000
