"""Predict first: the number stays hidden until a guess, and nothing of it is in what the browser gets."""

from __future__ import annotations

import json
import math

import pytest

from tileworkbench.base.errors import TileValueError
from tileworkbench.notebook.predict import predict_first, read_guess

SECRET = 4321987.0


def asked():
    return predict_first(SECRET, "How many bytes?", unit="B")


def test_the_number_is_nowhere_before_a_guess():
    question = asked()
    with pytest.raises(TileValueError, match="hidden until you guess"):
        _ = question.value
    seen = json.dumps(question.live()) + repr(question)
    assert "4321987" not in seen and "4.32" not in seen
    assert question.live()["is_open"]


def test_a_function_is_not_even_called():
    predict_first(lambda: pytest.fail("asked too early"), "How many?").live()


def test_a_guess_reveals_the_number_and_the_factor():
    question = asked()
    reveal = question.guess("2 MB")
    assert question.value == SECRET
    assert reveal.factor == pytest.approx(2e6 / SECRET)
    assert "2.16 times too low" in str(reveal)
    assert "4.322 MB" in repr(question)
    live = question.live()
    assert not live["is_open"] and "4.322 MB" in live["text"]


@pytest.mark.parametrize(
    ("guess", "words"),
    [(SECRET, "right"), (SECRET * 1.05, "right, within 5 %"), (SECRET * 1.5, "close, 1.5 times too high"), (SECRET * 100, "100 times too high")],
)
def test_the_verdict_in_words(guess, words):
    assert asked().guess(guess).verdict == words


def test_giving_up_reveals_without_a_guess():
    reveal = asked().give_up()
    assert reveal.guessed is None and math.isnan(reveal.factor)
    assert "It is 4.322 MB." in str(reveal)
    assert reveal.scene().svg().startswith("<svg")


def test_zero_and_nonsense():
    assert asked().guess(0).verdict == "off by more than a factor can say"
    assert predict_first(0, "How many conflicts?").guess(0).verdict == "right"
    with pytest.raises(TileValueError, match="cannot read 'many' as a number"):
        asked().guess("many")
    with pytest.raises(TileValueError, match="the answer is in B, not in ms"):
        asked().guess("3 ms")
    with pytest.raises(TileValueError, match="no unit is called 'furlong'"):
        read_guess("3 furlong", "B")
    with pytest.raises(TileValueError, match="no unit is called 'furlong'"):
        predict_first(1, "?", unit="furlong")


def test_a_bad_guess_reveals_nothing():
    question = asked()
    with pytest.raises(TileValueError):
        question.guess("lots")
    assert question.revealed is None


def test_in_a_notebook_it_shows_a_form_and_then_the_number(notebook):
    notebook.run("from tileworkbench.notebook.predict import predict_first\np = predict_first(4321987.0, 'How many bytes?', unit='B')")
    before = notebook.run("p").displays
    assert before and all("4321987" not in json.dumps(bundle, default=str) for bundle in before)
    after = notebook.run("p.guess('4 MB')\np").displays
    assert any("4.322 MB" in bundle.get("text/plain", "") for bundle in after)
