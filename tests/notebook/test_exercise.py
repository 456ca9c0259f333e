"""Exercises: the answer and its bytes, hints in steps, nothing raised unless asked."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

import tileworkbench as tilelang
import tileworkbench.language as T
from tileworkbench.base.errors import TileValueError
from tileworkbench.notebook.exercise import Exercise, Goal
from tileworkbench.notebook.exercises import asked_by_tiles, attention_reference, exercise, names

LESSONS = Path(__file__).resolve().parents[2] / "notebooks"


@tilelang.jit
def double(X, passes=1, factor=2.0):
    N = T.const("N")
    X: T.Tensor((N,), "float32")
    Y = T.empty((N,), "float32")
    with T.Kernel(T.ceildiv(N, 64), threads=64) as bx:
        x = T.alloc_shared((64,), "float32")
        for _ in range(passes):
            T.copy(X[bx * 64], x)
        for i in T.Parallel(64):
            Y[bx * 64 + i] = factor * x[i]
    return Y


def doubling(**changes):
    base = {
        "name": "t.double",
        "question": "Double X.",
        "inputs": lambda: (np.arange(256, dtype=np.float32),),
        "reference": lambda X: 2 * X,
        "goals": (Goal("global.bytes <= 1.01*compulsory", "X is read once"),),
        "hints": ("Use a tile.", "Copy it once."),
    }
    return Exercise(**{**base, **changes})


def test_a_right_answer_within_its_bytes_passes():
    verdict = doubling().check(double)
    assert verdict and verdict.is_right
    assert "solved" in str(verdict) and "X is read once: 2.048 kB <= 2.068 kB" in str(verdict)


def test_a_right_answer_with_too_many_bytes_does_not():
    verdict = doubling().check(double, passes=2)
    assert verdict.is_right and not verdict.passed
    assert "right, but 1 goal is not met yet" in str(verdict)
    assert "no  X is read once: 3.072 kB > 2.068 kB" in str(verdict)


def test_a_wrong_answer_names_the_first_wrong_element():
    verdict = doubling().check(double, factor=3.0)
    assert not verdict.is_right
    assert "Y[255] is 765, the reference says 510" in str(verdict)


def test_nothing_is_raised_unless_asked():
    task = doubling()
    assert not task.check(double, factor=3.0)
    with pytest.raises(AssertionError, match="not right yet"):
        task.check(double, factor=3.0, strict=True)
    assert task.check(double, strict=True)
    assert task.check(double.compile(np.zeros(256, np.float32)))  # a compiled kernel does as well


def test_what_does_not_run_says_why():
    task = doubling()
    assert "this is a int, not a kernel" in str(task.check(3))
    assert "it does not run yet" in str(task.check(double, no_such_choice=1))

    @tilelang.jit
    def broken(X):
        N = T.const("N")
        X: T.Tensor((N,), "float32")
        Y = T.empty((N,), "float32")
        with T.Kernel(1):
            T.no_such_word(X)
        return Y

    assert "no_such_word" in str(task.check(broken))


def test_a_kernel_with_other_outputs_is_no_answer():
    task = doubling(reference=lambda X: (X, X))
    assert "the kernel returns 1 arrays, the exercise asks for 2" in str(task.check(double))


def test_hints_come_one_by_one():
    task = doubling()
    assert "2 hints left" in str(task.check(double, factor=3.0))
    assert task.hint() == "hint 1 of 2: Use a tile."
    assert "1 hint left" in str(task.check(double, factor=3.0))
    assert [task.hint(), task.hint()] == ["hint 2 of 2: Copy it once."] * 2
    assert doubling(hints=()).hint() == "there are no hints for this one"


def test_the_html_has_no_style_that_a_theme_would_fight():
    verdict = doubling().check(double)
    assert "not yet" not in verdict._repr_html_() and "color:" not in verdict._repr_html_()
    assert "<code>" in doubling()._repr_html_()


def test_unknown_names_list_what_there_is():
    with pytest.raises(TileValueError, match=r"(?s)no exercise is called 'x'.*attention.causal"):
        exercise("x")


@pytest.mark.parametrize("name", names())
def test_each_exercise_prints_and_has_hints(name):
    task = exercise(name)
    assert task.hints and task.goals
    assert task.question in str(task)
    assert all(np.isfinite(x).all() for x in task.inputs())


def test_the_references_agree_with_a_plain_loop():
    rng = np.random.default_rng(0)
    q, k, v = (rng.standard_normal((12, 4)) for _ in range(3))
    for options, sees in (({}, lambda i, j: True), ({"causal": True}, lambda i, j: j <= i), ({"window": 3}, lambda i, j: i - 3 < j <= i)):
        want = np.zeros((12, 4))
        for i in range(12):
            weights = [np.exp(q[i] @ k[j] / 2) if sees(i, j) else 0.0 for j in range(12)]
            want[i] = sum(w * v[j] for j, w in enumerate(weights)) / sum(weights)
        np.testing.assert_allclose(attention_reference(q, k, v, **options), want)


def test_bytes_of_tiles_by_hand():
    """Two blocks of 4 queries, key tiles of 2, of 8 numbers: Q and O once (2 x 8 x 8), K and V 4 tiles each block, or 2 and 4 with causal."""
    assert asked_by_tiles(8, 8, 4, 2) == 4 * (2 * 8 * 8 + 2 * 8 * 8 * 2)
    assert asked_by_tiles(8, 8, 4, 2, causal=True) == 4 * (2 * 8 * 8 + 2 * (2 + 4) * 2 * 8)


# ---------------------------------------------------------------------------------------------- the lessons' solutions
def _solution(lesson: str, *, also: tuple[str, ...] = ()) -> dict:
    """The namespace after a lesson's folded solution, with the cells that hold `also`."""
    notebook = json.loads((LESSONS / lesson).read_text())
    sources = ["".join(cell["source"]) for cell in notebook["cells"]]
    code = [s for s, cell in zip(sources, notebook["cells"], strict=True) if cell["cell_type"] == "code" and any(s.startswith(a) for a in also)]
    folded = next(m[1] for s in sources if (m := re.search(r"<summary>A solution</summary>\s+```python\n(.*?)```", s, re.S)))
    return {"text": "\n\n".join(["import tileworkbench as tilelang\nimport tileworkbench.language as T", *code, folded])}


@pytest.mark.parametrize(
    ("lesson", "name", "function", "also"),
    [
        ("05_roofline.ipynb", "roofline.reuse", "row_stats", ()),
        ("06_flash_attention.ipynb", "attention.window", "windowed", ("def softmax_step",)),
    ],
)
def test_the_folded_solution_solves_the_exercise(tmp_path, monkeypatch, lesson, name, function, also):
    path = tmp_path / f"solution_{function}.py"
    path.write_text(_solution(lesson, also=also)["text"])
    monkeypatch.syspath_prepend(str(tmp_path))
    module = __import__(path.stem)
    assert exercise(name).check(getattr(module, function), strict=True)
