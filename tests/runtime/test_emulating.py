"""How a kernel of the emulator is linked: C++'s library is named and not read, and where that does not do, it is linked the ordinary way."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from tileworkbench.emulator import Program
from tileworkbench.runtime import emulating, toolchain

pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")
TEXT = """\
extern "C" __global__ void fill(twb_global<int32_t> A) {{ A[twb_thread_x()] = {value}; }}
"""


def filled(value: int) -> Program:
    """A kernel that nobody has compiled, run; its library is the newest in the cache."""
    program = emulating.load(TEXT.format(value=value), "sm_80")
    out = np.zeros(32, np.int32)
    program["fill"](1, 32, [out])
    assert (out == value).all()
    return program


def is_gcc() -> bool:
    compiler = toolchain.default_compiler()
    return compiler is not None and compiler.kind == "gcc"


@pytest.fixture
def links(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The commands that link, in the order given."""
    seen: list[list[str]] = []
    run = emulating.run

    def watched(command: list[str], timeout_s: float) -> tuple[int, str]:
        if "-shared" in command and "-nostdlib" not in command:
            seen.append(command)
        return run(command, timeout_s)

    monkeypatch.setattr(emulating, "run", watched)
    return seen


@pytest.mark.skipif(not is_gcc(), reason="the default compiler is not gcc")
def test_the_library_of_cxx_is_named_and_not_read(links: list[list[str]]) -> None:
    program = filled(4711)
    (command,) = links
    stand_in = next(Path(word) for word in command if word.endswith(emulating.CXX_LIBRARY))
    assert stand_in.stat().st_size < 20_000
    assert emulating.CXX_LIBRARY.encode() in Path(program._library._name).read_bytes(), "the loader looks for the true one"


def test_what_does_not_load_is_linked_the_ordinary_way(links: list[list[str]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(emulating, "why_not_loadable", lambda library: "there is no such library")
    filled(4712)
    assert not any(word.endswith(emulating.CXX_LIBRARY) for word in links[-1])


def test_a_linker_that_wants_every_symbol_links_the_ordinary_way(links: list[list[str]], monkeypatch: pytest.MonkeyPatch) -> None:
    """What C++'s library would give is not defined then, so the link without it fails, and nobody has to know."""
    run = emulating.run
    strict = ("-Wl,-z,defs",)
    monkeypatch.setattr(emulating, "run", lambda command, timeout_s: run([*command, *(strict if "-Wl,--no-as-needed" in command else ())], timeout_s))
    filled(4713)
    assert not any(word.endswith(emulating.CXX_LIBRARY) for word in links[-1])
