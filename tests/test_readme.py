"""The README as a reader meets it: its first kernel runs, its commands are single lines, its links lead somewhere."""

from __future__ import annotations

import linecache
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
README = ROOT / "README.md"


def blocks(language: str) -> list[str]:
    """The fenced blocks of one language, in order."""
    return re.findall(rf"^```{language}\n(.*?)^```$", README.read_text(encoding="utf-8"), flags=re.M | re.S)


def run_source(source: str, name: str) -> dict[str, object]:
    """Run `source` as a file called `name` whose lines Python can find again."""
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    space: dict[str, object] = {"__name__": "__readme__"}
    exec(compile(source, name, "exec"), space)
    return space


@pytest.mark.parametrize("target", ["c", "interpret"])
def test_the_first_kernel_runs(target: str, monkeypatch: pytest.MonkeyPatch):
    from tileworkbench.runtime.targets import get_target

    reason = get_target(target).usable()
    if reason:
        pytest.skip(reason)
    monkeypatch.setenv("TILEWORKBENCH_TARGET", target)
    source = blocks("python")[0]
    assert len(source.splitlines()) <= 25
    assert "assert" in source
    run_source(source, f"README.md[{target}]")


def test_the_printed_program_is_the_one_of_the_first_kernel():
    from tileworkbench.ir.printer import print_kernel

    space = run_source(blocks("python")[0], "README.md[printed]")
    kernel = space["matmul"].compile(space["A"], space["B"])
    (printed,) = [text for text in blocks("text") if text.startswith("kernel '")]
    assert printed == print_kernel(kernel.ir).rstrip("\n") + "\n"


def test_the_threads_of_a_gpu_run_here(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
    """The third block: nothing is wrong with the first kernel, and its lines are counted."""
    from tileworkbench.runtime.targets import get_target

    if reason := get_target("emulate").usable():
        pytest.skip(reason)
    monkeypatch.setenv("TILEWORKBENCH_TARGET", "interpret")
    first, _, third = blocks("python")
    run_source(f"{first}\n{third}", "README.md[threads]")
    said = capsys.readouterr().out
    assert "matmul on sm_90a: nothing found" in said and "T.copy(A[by * BM, k * BK], a)" in said


def test_the_sliders_move_without_a_browser(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """The second block goes on from the first, and prints what bounds the kernel there."""
    from tileworkbench.runtime.targets import get_target

    if reason := get_target("c").usable():
        pytest.skip(reason)
    monkeypatch.setenv("TILEWORKBENCH_TARGET", "c")
    first, second, _ = blocks("python")
    space = run_source(f"{first}\n{second}", "README.md[sliders]")
    assert "bound" in capsys.readouterr().out
    assert dict(space["bench"].schedule) == {"BM": 128, "BN": 64}
    space["bench"].close()


def test_a_machine_that_is_not_here_says_what_is_printed(capsys: pytest.CaptureFixture[str]):
    space = run_source(blocks("python")[0], "README.md[elsewhere]")
    (session,) = [text for text in blocks("text") if text.startswith(">>> from tileworkbench import find_machine")]
    lines = session.splitlines()
    exec("\n".join(line[4:] for line in lines if line.startswith(">>> ")), space)
    assert capsys.readouterr().out.splitlines() == [line for line in lines if not line.startswith(">>> ")]


@pytest.mark.parametrize("what", ["run", "test"])
def test_each_command_is_one_line(what: str):
    """The command that a fresh machine runs stands alone in the fenced block after its mark."""
    found = re.findall(rf"^<!-- {what} -->\n```\w*\n(.*?)^```$", README.read_text(encoding="utf-8"), flags=re.M | re.S)
    assert len(found) == 1
    assert len(found[0].strip().splitlines()) == 1
    assert "pip install" in found[0]


def test_links_lead_to_files():
    targets = re.findall(r"\]\(([^)#]+)[^)]*\)", README.read_text(encoding="utf-8"))
    missing = [t for t in targets if not t.startswith(("http:", "https:")) and not (ROOT / t).exists()]
    assert missing == []
    assert targets


def test_every_number_of_a_measurement_has_its_command():
    """A table of measurements stands under a line that says machine and date, and the command that printed it."""
    text = README.read_text(encoding="utf-8")
    for match in re.finditer(r"GFLOP/s \|", text):
        before = text[max(0, match.start() - 1500) : match.start()]
        assert re.search(r"\d{4}-\d{2}-\d{2}", before), "a measured table needs its date"
        assert "tileworkbench" in before, "a measured table needs its command"
