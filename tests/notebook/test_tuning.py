"""`--tune`: its text, the function that made a kernel, and the workbench under a cell."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from benches import HAS_COMPILER, array, bench, bump, make_add, scale
from IPython.core.completer import provisionalcompleter

from tileworkbench.base.errors import TileTypeError, TileValueError
from tileworkbench.notebook.applying import with_schedule
from tileworkbench.notebook.tuning import TuneSyntaxError, arrays_of, maker_of, parse, tunables_of
from tileworkbench.tune.store import Store

KERNEL = """
@tileworkbench.jit
def scale(A, block=256, factor=2):
    n = T.const("n")
    A: T.Tensor((n,), T.float32)
    B = T.empty((n,), T.float32)
    with T.Kernel(T.ceildiv(n, block)) as bx:
        for i in T.Parallel(block):
            B[bx * block + i] = A[bx * block + i] * factor
    return B
B = scale(A, block=128)
"""


# ------------------------------------------------------------------------------------------- the text
def test_values_are_typed_and_ranges_are_powers_of_two():
    assert parse("BM = 32, 64 ; order=row,column; x=0.5; swizzle=True,False; BN=16..128;") == {
        "BM": (32, 64), "order": ("row", "column"), "x": (0.5,), "swizzle": (True, False), "BN": (16, 32, 64, 128),
    }  # fmt: skip
    assert parse("") == {}


@pytest.mark.parametrize(
    ("text", "at", "message"),
    [
        ("BM=32; BN", "BN", "cannot read 'BN'"),
        ("2x=3", "2x=3", "cannot read"),
        ("BM=", "BM=", "cannot read"),
        ("a=1; BM=32,-x-", "BM=32,-x-", "neither a number nor a word"),
        ("BM=33..34", "BM=33..34", "no range of powers of two"),
        ("BM=a..b", "BM=a..b", "no range of powers of two"),
    ],
)
def test_what_cannot_be_read_is_pointed_at(text: str, at: str, message: str):
    with pytest.raises(TuneSyntaxError, match=message) as caught:
        parse(text)
    assert text[caught.value.start : caught.value.stop] == at


# ------------------------------------------------------------------------------------------- finding the function
def test_the_function_that_made_a_kernel_is_found_among_others():
    eager, lazy = scale.compile(array(), block=64), make_add.compile(256, lanes=2)
    space = {"x": 1, "bump": bump, "scale": scale, "make_add": make_add}
    assert maker_of(eager, space) == (scale, {"block": 64, "factor": 2})
    assert maker_of(lazy, space) == (make_add, {"n": 256, "block": 128, "lanes": 2})
    with pytest.raises(TileTypeError, match="cannot make scale again"):
        maker_of(eager, {"bump": bump})


def test_tunables_that_were_asked_for_are_lists_and_the_others_stay():
    assert tunables_of(make_add, {"n": 256, "block": 128, "lanes": 2}, {"block": (64, 128)}) == {"n": 256, "lanes": 2, "block": [64, 128]}
    assert tunables_of(make_add, {"n": 256, "block": 128, "lanes": 2}, {}) == {"n": 256}, "what has a default may be turned"
    with pytest.raises(TileValueError, match="no build-time parameter A"):
        tunables_of(scale, {"block": 64, "factor": 2}, {"A": (1,)})


def test_the_arrays_of_a_call_in_its_order():
    data = array()
    assert [np.shares_memory(x, data) for x in arrays_of(scale.compile(data).bind(data))] == [True]


# ------------------------------------------------------------------------------------------- back into the text
def test_numbers_in_the_text_are_replaced_and_nothing_else_is():
    text = with_schedule(f"%%tile --tune\n{KERNEL}", "scale", {"block": 512, "factor": 3})
    assert text == f"%%tile --tune\n{KERNEL}".replace("block=256, factor=2", "block=512, factor=3").replace("block=128", "block=512")
    assert with_schedule("def other(a=1): ...", "scale", {"a": 2}) == ""
    assert with_schedule("this is no python", "scale", {"a": 2}) == ""
    assert with_schedule("scale(Ä, block=1)", "scale", {"block": 22}) == "scale(Ä, block=22)"


def test_apply_without_a_cell_is_a_call():
    made = bench(block=[64, 128])
    assert made.move(block=128).apply() == "result = scale(A, block=128)"
    made.close()


# ------------------------------------------------------------------------------------------- in the shell
@pytest.fixture
def tuned(notebook: Any, monkeypatch: Any, tmp_path: Any) -> Any:
    monkeypatch.setattr("tileworkbench.notebook.workbench.Store", lambda: Store(tmp_path / "results.sqlite"))
    notebook.run("%load_ext tileworkbench")
    notebook.run("%config TileMagics.target = ''")  # other tests of this shell run on the interpreter
    notebook.run("import numpy as np, tileworkbench, tileworkbench.language as T\nA = np.arange(4096, dtype=np.float32)")
    return notebook


@pytest.mark.skipif(not HAS_COMPILER, reason="needs a C compiler")
def test_a_cell_shows_the_workbench_of_its_last_kernel(tuned: Any):
    ran = tuned.run(f'%%tile -o --tune "block=64..256" --check "A * 2"{KERNEL}')
    assert ran.success, ran.text
    made = ran.value.bench
    assert dict(made.schedule) == {"block": 128}, "it stands where the author's call stood"
    assert made.log[1].report.measured == ran.value.report.measured, "the cell's own run is the first"
    text = next(d["text/plain"] for d in ran.displays if d["text/plain"].startswith("workbench:"))
    assert "block  64  [128]  256" in text
    assert made.move(block=64).truth is not None, made.reason
    assert made.run.is_right
    assert "def scale(A, block=64, factor=2)" in made.apply()
    made.close()


@pytest.mark.skipif(not HAS_COMPILER, reason="needs a C compiler")
def test_bare_tune_finds_the_tunables(tuned: Any):
    ran = tuned.run(f"%%tile -o --tune{KERNEL}")
    assert ran.success, ran.text
    assert ran.value.bench.space.names == ("block", "factor")
    assert dict(ran.value.bench.schedule) == {"block": 128, "factor": 2}
    ran.value.bench.close()


def test_a_bad_tunable_is_pointed_at_and_the_cell_has_run(tuned: Any):
    ran = tuned.run(f'%%tile --show none --tune "blok=64"{KERNEL}')
    assert not ran.success
    assert "scale has no build-time parameter blok" in ran.text
    assert '%%tile --show none --tune "blok=64"\n' in ran.text
    assert "B" in tuned


def test_text_that_cannot_be_read_fails_before_the_cell_runs(tuned: Any):
    ran = tuned.run(f'%%tile --tune "block:64"{KERNEL}')
    assert not ran.success
    assert "cannot read 'block:64'" in ran.text
    assert "^^^^^^^^" in ran.text
    assert "B" not in tuned


def test_tune_is_documented_and_completed(tuned: Any):
    assert "--tune" in tuned.run("%%tile?").text or "--tune" in tuned.shell.magics_manager.magics["cell"]["tile"].__doc__
    with provisionalcompleter():
        found = [c.text for c in tuned.shell.Completer.completions("%%tile --tu", 11)]
    assert any(text.endswith("tune") for text in found)
