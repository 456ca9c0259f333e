"""Wavefronts of transposes: the emulator's beside counted or recorded ones, and what is said where there are none."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from tileworkbench.base.errors import UnsupportedError
from tileworkbench.bench.gpu import model
from tileworkbench.bench.gpu.model_cases import cases
from tileworkbench.bench.gpu.wavefronts import ALL, LOADS, STORES, bank_cases, bank_rows, bank_table, emulated
from tileworkbench.model.recorded import Origin, RecordedRun, Recording
from tileworkbench.runtime import toolchain

ORIGIN = Origin("NVIDIA H200", "2026-12-01", "580.95", "13.0", "python -m tileworkbench.bench model")
CASES = bank_cases(cases())
COUNTED = {LOADS: 4096.0, STORES: 512.0, ALL: 4700.0}
needs_compiler = pytest.mark.skipif(toolchain.default_compiler() is None, reason="needs a host C++ compiler")


def run(case: object, counters: dict[str, float], note: str = "") -> RecordedRun:
    return RecordedRun(case.kernel, case.shape, case.schedule, counters=counters, note=note)  # type: ignore[attr-defined]


@needs_compiler
def test_emulated_wavefronts_follow_the_layout() -> None:
    """A tile of 32 x 32 floats has 32 rows to write, in 128 bytes each; columns are read at once, or lane by lane. 16 tiles."""
    said = [emulated(case)[0] for case in CASES[:3]]
    assert [(s[LOADS], s[STORES]) for s in said] == [(16 * 32 * 8, 16 * 32), (16 * 32, 16 * 32), (16 * 32, 16 * 32)]
    large = next(c for c in CASES if c.schedule == "32x32 t256")
    seen = emulated(large)[0]
    assert large.times == 256 * 256 // 4 and seen[STORES] == seen[LOADS] == 256 * 256 * 32, "what 2 x 2 blocks do, for all blocks"


def test_rows_compare_loads_and_stores_apart_where_both_were_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tileworkbench.bench.gpu.wavefronts.emulated", lambda case: ({LOADS: 4096.0, STORES: 512.0, ALL: 4608.0}, ""))
    apart, in_all, lacking, silent = bank_rows(
        CASES[:4], [run(CASES[0], COUNTED), run(CASES[1], {ALL: 4608.0 * 2}), run(CASES[2], {}, "no counters: no ncu")], "not recorded yet"
    )
    assert apart.ratios == {LOADS: 1.0, STORES: 1.0} and in_all.ratios == {ALL: 0.5}
    assert (lacking.why, silent.why) == ("no counters: no ncu", "not recorded yet")
    text = "\n".join(bank_table((apart, in_all, lacking, silent), ORIGIN.badge))
    assert "4096 / 4096  1.000" in text and "4608 / 9216  0.500" in text and "4096 / -      -" in text and "(no counters: no ncu)" in text
    assert "counters recorded on NVIDIA H200, 2026-12-01" in text and "ncu counted what the emulator counts in 1 of 2 transposes" in text
    assert bank_table((lacking,), "")[-1] == "nothing was counted"


def test_the_bench_prints_recorded_wavefronts_as_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of the newest recording that has them; a machine without a C++ compiler says that nothing was emulated."""
    monkeypatch.setattr("tileworkbench.bench.gpu.wavefronts.emulated", lambda case: ({}, "not emulated: no compiler"))
    row = next(c for c in cases() if c.problem.kind == "transpose")
    main = RecordedRun(row.kernel, row.shape, row.schedule, (1.0,), {**COUNTED, "DRAM read": 1.0, "DRAM written": 1.0})
    old = Recording(replace(ORIGIN, date="2025-01-01"), (run(CASES[0], {ALL: 1.0}),))
    monkeypatch.setattr(model, "recordings", lambda: {"old": old, "new": Recording(ORIGIN, (main, run(CASES[0], COUNTED)))})
    found = model.recorded("no GPU here")
    assert [r.name for r, _ in found.rows] == [row.name], "a transpose that is only counted is no row of bytes and times"
    first = found.banks[0]
    assert first.counted == COUNTED and first.why == "not emulated: no compiler" and ORIGIN.badge in found.banks_where
    assert "- / 4096" in found.table() and found.as_json()["runs"][0]["kernel"] == row.kernel and len(found.as_json()["runs"]) == 1


def test_a_measured_run_is_read_back_as_a_recording(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tileworkbench.bench.gpu.wavefronts.emulated", lambda case: ({}, ""))
    rows = bank_rows(CASES[:2], [run(CASES[0], COUNTED)], "not counted")
    kept = Recording.from_json(Recording.from_json(json.dumps(model.ModelFound(Recording(ORIGIN), (), banks=rows).as_json())).to_json())
    assert [(r.name, dict(r.counters)) for r in kept.runs] == [(CASES[0].name, COUNTED)]


class _Numpy:
    """What `layout_calls` takes of PyTorch, on NumPy."""

    float32, float16 = np.float32, np.float16
    zeros_like, equal = staticmethod(np.zeros_like), staticmethod(np.array_equal)

    class Tensor(np.ndarray):
        def to(self, dtype: object) -> np.ndarray:
            return np.ascontiguousarray(np.asarray(self).astype(dtype))  # type: ignore[call-overload]

    @staticmethod
    def arange(n: int, device: str) -> np.ndarray:
        return np.arange(n).view(_Numpy.Tensor)


def test_only_right_transposes_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    programs: list[object] = []

    def compiled(program: object, target: str) -> object:
        programs.append(program)
        if len(programs) == 2:
            raise UnsupportedError("no such layout")
        return lambda given, out: out.__setitem__(..., given.T if len(programs) == 1 else given)

    monkeypatch.setattr(model, "compile", compiled)
    right, refused, wrong = model.layout_calls(_Numpy, CASES[:3])
    assert right[0].note == "" and right[1] is not None and right[2][0].shape == (128, 128)
    assert refused[0].note.endswith("no such layout") and refused[1] is None
    assert wrong[0].note == "WRONG: no transpose" and wrong[1] is None
