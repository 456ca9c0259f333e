"""`%%tile` in a real shell: what it runs, shows and leaves behind, and what each mistake gets."""

from __future__ import annotations

import json

import numpy as np
import pytest

from tileworkbench.base.errors import ArgumentError, ExpectationError, TileSyntaxError, TileValueError
from tileworkbench.notebook.live import VIEW_MIME
from tileworkbench.notebook.run import CellRun
from tileworkbench.runtime.targets import get_target

SETUP = """\
import numpy as np
import tileworkbench as tilelang
import tileworkbench.language as T
A = np.arange(1000, dtype="float32")
"""

SCALE = """\
@tilelang.jit
def scale(A, factor: T.float32):
    N = T.const("N")
    A: T.Tensor((N,), "float32")
    B = T.empty((N,), "float32")
    with T.Kernel(T.ceildiv(N, 256), threads=128) as bx:
        for i in T.Parallel(256):
            B[bx * 256 + i] = A[bx * 256 + i] * factor
    return B
"""


TILES = """\
@tilelang.jit
def twice(A, block=128):
    N = T.const("N")
    A: T.Tensor((N,), "float32")
    B = T.empty((N,), "float32")
    with T.Kernel(T.ceildiv(N, block), threads=128) as bx:
        tile = T.alloc_shared((block,), "float32")
        mine = T.alloc_fragment((block,), "float32")
        T.copy(A[bx * block], tile)
        T.copy(tile, mine)
        for i in T.Parallel(block):
            mine[i] = 2 * mine[i]
        T.copy(mine, B[bx * block])
    return B
"""


@pytest.fixture
def lesson(notebook):
    """A notebook with the extension loaded, that runs on the interpreter unless a cell says otherwise."""
    assert notebook.run("%load_ext tileworkbench").success
    assert notebook.run("%config TileMagics.target = 'interpret'").success
    assert notebook.run(SETUP).success
    return notebook


def test_a_cell_defines_runs_and_shows_one_panel(lesson):
    ran = lesson.run(f"%%tile\n{SCALE}B = scale(A, 2.0)\n")
    assert ran.success, ran.text
    np.testing.assert_array_equal(lesson["B"], 2 * lesson["A"])
    (panel,) = ran.displays
    assert "scale" in panel["text/plain"] and "scale" in panel["text/html"]
    assert panel["image/png"][:4] == b"\x89PNG"
    assert lesson["scale"](np.ones(3, "float32"), 4.0).tolist() == [4, 4, 4]  # a function of arrays afterwards


def test_nothing_is_shown_that_an_untrusted_viewer_would_drop(lesson):
    ran = lesson.run(f"%%tile --show all\n{SCALE}B = scale(A, 2.0)\n")
    assert ran.success, ran.text
    for bundle in ran.displays:
        markup = bundle.get("text/html", "")
        for tag in ("<script", "<style", "<svg", "<iframe", "<link", "onclick", "class=", "http:", "https:"):
            assert tag not in markup
        assert set(bundle) <= {"text/html", "text/plain", "image/png", VIEW_MIME}  # the last is data for the exporter, which no viewer shows
        assert bundle["text/plain"].strip()


def test_a_cell_that_only_defines_says_so(lesson):
    (output,) = lesson.run(f"%%tile\n{SCALE}").displays
    assert output["text/plain"] == "defined scale; call it in this cell to compile and run it"


def test_a_kernel_with_known_sizes_is_predicted_without_a_run(lesson):
    ran = lesson.run(f"%%tile -o --show none --expect 'compulsory == 512 B; flops == 64'\n{DOUBLE}")
    assert ran.success, ran.text
    assert ran.value.launches == ()
    assert ran.value.kernels == (lesson["double"],)


def test_the_panel_tells_what_it_shows(lesson):
    ran = lesson.run(f"%%tile --show summary --check '2 * A' --expect 'flops > 1'\n{SCALE}C = scale(A, 5.0)\nB = scale(A, 2.0)\n")
    text = ran.displays[0]["text/plain"]
    assert "ok   B: 1000 elements agree with the reference" in text
    assert "ok   flops > 1 holds" in text
    assert "target interpret" in text


def test_show_none(lesson):
    ran = lesson.run(f"%%tile --show none\n{SCALE}B = scale(A, 2.0)\n")
    assert ran.success and ran.displays == []


def test_output_returns_the_value(lesson):
    ran = lesson.run(f"%%tile -o --show none\n{SCALE}B = scale(A, 2.0)\n")
    run = ran.value
    assert isinstance(run, CellRun)
    assert [launch.kernel.name for launch in run.launches] == ["scale"]
    assert run.report is not None and run.report.counts.compulsory_bytes == 2 * 4 * 1000
    assert repr(run) == "<Cell In[4] ran scale: 1 launches, 0 failures>"


def test_many_launches_keep_one_call(lesson):
    ran = lesson.run(f"%%tile -o --show none\n{SCALE}for n in range(20):\n    B = scale(A, float(n))\n")
    (launch,) = ran.value.launches
    assert list(launch.call.scalars.values()) == [19.0]
    assert repr(ran.value).endswith("ran scale: 20 launches, 0 failures>")


@pytest.mark.parametrize("reference", ["2 * A", "lambda A, f: A * f", "'2 * A'[0:0] or 2 * A"])
def test_check_accepts_a_right_result(lesson, reference):
    assert lesson.run(f'%%tile --check "{reference}" --show none\n{SCALE}B = scale(A, 2.0)\n').success


def test_check_names_the_wrong_elements(lesson):
    ran = lesson.run(f"%%tile --check '3 * A' --show none\n{SCALE}B = scale(A, 2.0)\n")
    assert isinstance(ran.error, ExpectationError)
    lines = ran.text.strip().splitlines()
    assert lines[0].startswith("Cell In[4]:1:17: expectation failed: B[999] is 1998, the reference says 2997")
    assert "999 of 1000 elements are wrong, all within B[1:1000]" in lines[0]
    assert lines[1:] == ["      %%tile --check '3 * A' --show none", "                      ^^^^^"]
    assert "B" in lesson  # the cell ran; its results are there to be looked at


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ("nothing_like_it", "the reference 'nothing_like_it' raised NameError"),
        ("A[:10]", "the reference for B has shape (10,), the kernel wrote (1000,)"),
        ("(A, A)", "the reference has 2 arrays, but scale writes 1 (B)"),
        ("1 +", "the reference '1 +' raised SyntaxError"),
    ],
)
def test_a_reference_that_does_not_fit(lesson, reference, message):
    ran = lesson.run(f"%%tile --check '{reference}' --show none\n{SCALE}B = scale(A, 2.0)\n")
    assert not ran.success
    assert message in ran.text
    assert "tileworkbench/" not in ran.text


def test_expect_holds_and_fails(lesson):
    assert lesson.run(f"%%tile --expect 'dram.bytes <= 1.05*compulsory; compulsory == 8 kB' --show none\n{SCALE}B = scale(A, 2.0)\n").success
    ran = lesson.run("%%tile --expect 'flops > 0; compulsory < 4 kB; time < 1 ns' --show none\nB = scale(A, 2.0)\n")
    assert not ran.success
    assert "compulsory < 4 kB does not hold: 8 kB >= 4 kB" in ran.text
    assert "time < 1 ns does not hold" in ran.text
    assert "flops > 0" not in ran.text.replace("--expect 'flops > 0;", "")


def test_a_condition_that_cannot_be_read_points_at_itself(lesson):
    ran = lesson.run(f"%%tile --show none --expect 'flops > 0; dram.byte < 1'\n{SCALE}B = scale(A, 2.0)\n")
    assert isinstance(ran.error, TileSyntaxError)
    lines = ran.text.strip().splitlines()
    assert lines[:3] == [
        "Cell In[4]:1:39: syntax error: the report has no value 'dram.byte'",
        "      %%tile --show none --expect 'flops > 0; dram.byte < 1'",
        "                                              ^^^^^^^^^^^^^",
    ] or lines[0].startswith("Cell In[4]:1:41: syntax error: the report has no value 'dram.byte'")
    assert "did you mean 'dram.bytes'?" in ran.text


def test_checks_without_a_launch_fail(lesson):
    assert "ran no kernel" in lesson.run("%%tile --expect 'flops > 0'\nx = 1").text
    assert "ran no kernel" in lesson.run("%%tile --check A\nx = 1").text


def test_compile_only_launches_nothing(lesson):
    ran = lesson.run(f"%%tile --compile-only -o --show none\n{SCALE}B = scale(A, 2.0)\n")
    assert ran.success, ran.text
    assert np.isnan(lesson["B"]).all()
    assert ran.value.report.measured is None
    assert "ran no kernel" in lesson.run("%%tile --compile-only --check A --show none\nscale(A, 2.0)").text


DOUBLE = """\
@T.prim_func
def double(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32")):
    with T.Kernel(1, threads=64) as bx:
        for i in T.Parallel(64):
            B[i] = A[i] * 2
"""


def test_a_prim_func_becomes_a_kernel(lesson):
    assert lesson.run(f"%%tile --show none\n{DOUBLE}").success
    out = np.zeros(64, "float32")
    lesson["double"](np.ones(64, "float32"), out)
    assert out.tolist() == [2.0] * 64


def test_two_cells_may_define_the_same_name(lesson):
    assert lesson.run(f"%%tile --show none\n{SCALE}B = scale(A, 2.0)\nfirst = scale\n").success
    assert lesson.run(f"%%tile --show none\n{SCALE.replace('* factor', '+ factor')}C = scale(A, 2.0)\n").success
    np.testing.assert_array_equal(lesson["C"], lesson["A"] + 2)
    assert lesson.run("%%tile --show none\nD = first(A, 3.0)\n").success
    np.testing.assert_array_equal(lesson["D"], lesson["A"] * 3)


def test_a_mistake_in_the_kernel_has_the_line_of_the_cell(lesson):
    assert lesson.run(f"%%tile --show none\n{SCALE}B = scale(A, 2.0)\n").success
    old = lesson["scale"], lesson["B"]
    ran = lesson.run(f"%%tile --show none\n{SCALE.replace('T.Parallel', 'T.Paralel')}B = scale(A, 3.0)\n")
    assert not ran.success
    lines = ran.text.strip().splitlines()
    assert lines[0] == "Cell In[5]:11:5: in <module>"
    assert any(line.startswith("Cell In[5]:8:18: name error:") for line in lines)
    assert "did you mean" in ran.text and "Parallel" in ran.text
    assert "tileworkbench/" not in ran.text
    assert (lesson["scale"], lesson["B"]) == old or (lesson["scale"] is old[0] and lesson["B"] is old[1])


def test_a_wrong_argument_has_the_line_of_the_call(lesson):
    ran = lesson.run(f"%%tile --show none\n{SCALE}B = scale(A.astype('float64'), 2.0)\n")
    assert isinstance(ran.error, ArgumentError)
    assert ran.text.startswith("Cell In[4]:11:5: in <module>\n      B = scale(A.astype('float64'), 2.0)\n          ^^^^")
    assert "expected dtype float32, got float64" in ran.text
    assert "tileworkbench/" not in ran.text


def test_wrong_options(lesson):
    assert "unrecognized arguments: --taget" in lesson.run("%%tile --taget c\nx = 1").text
    ran = lesson.run("%%tile --target nowhere\nx = 1")
    assert isinstance(ran.error, TileValueError) and "there is no target 'nowhere'" in ran.text
    ran = lesson.run("%%tile --threads -3\nx = 1")
    assert isinstance(ran.error, TileValueError) and "at least 1" in ran.text
    ran = lesson.run(f"%%tile --show rooflin\n{SCALE}B = scale(A, 2.0)")
    assert isinstance(ran.error, TileValueError) and "'rooflin'" in ran.text
    assert "B" not in lesson  # a wrong option is found before the cell runs


def test_threads_hold_for_the_cell_only(lesson):
    from tileworkbench.runtime.fork import LIMIT

    before = LIMIT.default
    ran = lesson.run(f"%%tile --threads 1 -o --show none\n{SCALE}B = scale(A, 2.0)\n")
    assert ran.value.last.call.threads == 1
    assert LIMIT.default == before


def test_target_holds_for_the_cell_only(lesson, monkeypatch):
    monkeypatch.delenv("TILEWORKBENCH_TARGET", raising=False)
    import os

    assert lesson.run(f"%%tile --target interpret -o --show none\n{SCALE}B = scale(A, 2.0)\n").value.last.kernel.target == "interpret"
    assert "TILEWORKBENCH_TARGET" not in os.environ


def test_the_magic_documents_itself(lesson):
    assert lesson.run("%config TileMagics").text.count("TileMagics.") >= 5
    help_text = lesson.run("%%tile?").text
    for word in ("--target", "--threads", "--show", "--check", "--expect", "--compile-only", "Examples", "dram.bytes <= 1.05*compulsory"):
        assert word in help_text


def test_options_are_completed(lesson):
    from IPython.core.completer import provisionalcompleter

    def found(line: str) -> list[str]:
        with provisionalcompleter():
            return [line[: c.start] + c.text for c in lesson.shell.Completer.completions(line, len(line))]

    assert found("%%tile --ta") == ["%%tile --target"]
    assert {"%%tile --expect", "%%tile --check", "%%tile --compile-only"} <= set(found("%%tile --"))
    assert "%%tile --target interpret" in found("%%tile --target ")
    assert found("%%tile --target int") == ["%%tile --target interpret"]
    assert found("%%tile --show summary,roof") == ["%%tile --show summary,roofline"]
    assert found("%%tile --compile-only --expe") == ["%%tile --compile-only --expect"]
    assert not any("--target" in match for match in found("x = 1 --ta"))


def test_loading_twice_and_unloading(lesson):
    assert lesson.run("%reload_ext tileworkbench").success
    assert lesson.run("%load_ext tileworkbench").success
    names = [type(c).__name__ for c in lesson.shell.configurables]
    assert names.count("TileMagics") == 1
    assert lesson.run("%unload_ext tileworkbench").success
    assert "not found" in lesson.run("%%tile\nx = 1").text


def test_an_error_in_an_ordinary_cell_shows_no_frame_of_ours(lesson):
    assert lesson.run(SCALE).success
    ran = lesson.run("B = scale(A[::2], 2.0)")
    assert isinstance(ran.error, ArgumentError)
    assert ran.text.startswith("Cell In[5]:1:5: in <module>\n      B = scale(A[::2], 2.0)\n          ^^^^")
    assert "not contiguous" in ran.text
    assert "tileworkbench/" not in ran.text


def test_nothing_is_sent_and_no_port_is_opened(lesson, monkeypatch):
    import socket

    def refuse(*args, **kwargs):
        raise AssertionError("a socket was opened")

    monkeypatch.setattr(socket, "socket", refuse)
    assert lesson.run(f"%%tile --show all\n{SCALE}B = scale(A, 2.0)\n").success


def test_the_output_is_small(lesson):
    ran = lesson.run(f"%%tile --show all\n{SCALE}B = scale(A, 2.0)\n")
    for bundle in ran.displays:
        size = sum(len(part) if isinstance(part, str | bytes) else len(json.dumps(part)) for part in bundle.values())
        assert size < 200 * 1024


@pytest.mark.skipif(bool(get_target("c").usable()), reason="needs a C compiler")
def test_the_compiled_target_measures_and_shows_its_text(lesson):
    ran = lesson.run(f"%%tile --target c --show all --check '2 * A' -o\n{SCALE}B = scale(A, 2.0)\n")
    assert ran.success, ran.text
    assert ran.value.report.measured is not None and ran.value.report.measured.runs == 5
    assert any("int32_t" in json.dumps(bundle[VIEW_MIME]) for bundle in ran.displays)
    assert "measured" in ran.displays[0]["text/plain"].splitlines()[2]


def test_a_report_on_a_machine_that_is_not_here(lesson):
    """`--machine` asks the model about a preset: nothing is measured, and the roofs are the preset's."""
    ran = lesson.run("%%tile --machine laptop -o\n" + SCALE + "B = scale(A, 2.0)")
    assert ran.success
    assert ran.value.report.machine.name.startswith("a laptop")
    assert ran.value.report.measured is None
    wrong = lesson.run("%%tile --machine toaster\nB = scale(A, 2.0)")
    assert isinstance(wrong.error, TileValueError)
    assert "toaster" in str(wrong.error) and "laptop" in str(wrong.error)


def test_the_pipeline_of_an_emulated_cell_is_the_runs(lesson, monkeypatch):
    """Order from the run where the cell ran in the emulator; a prediction, marked as one with the reason, where a block would take too long."""
    cell = f"%%tile --show pipeline --target emulate\n{TILES}B = twice(A)\n"
    words = json.dumps(lesson.run(cell).displays[-1][VIEW_MIME])
    assert "emulated: order from the run, durations from the model of NVIDIA H200" in words
    monkeypatch.setattr("tileworkbench.runtime.timelines.MOST_BYTES", 1)
    words = json.dumps(lesson.run(cell).displays[-1][VIEW_MIME])
    assert "predicted: order and durations from the model of NVIDIA H200" in words and "not emulated: twice: the emulator would run" in words


def test_views_beside_the_panel_are_outputs_of_their_own(lesson):
    """Layouts, the pipeline and the passes each come as one output that an exporter can draw, of the cell's own kernel, and small enough."""
    ran = lesson.run(f"%%tile --show layout,pipeline,passes --machine h200\n{TILES}B = twice(A)\n")
    assert ran.success, ran.text
    titles = [bundle[VIEW_MIME]["title"] for bundle in ran.displays]
    assert len(titles) == 4  # the panel's head, then one for each
    assert "where its tiles lie" in titles[1]
    layouts = ran.displays[1][VIEW_MIME]
    assert {view["tab"].partition(" ")[0] for view in layouts["views"]} == {"tile", "mine"}
    for bundle in ran.displays:
        assert len(json.dumps({k: v if isinstance(v, str | dict) else len(v) for k, v in bundle.items()})) < 200 * 1024
