"""Conditions over a report: units, names, what does not hold, and what cannot be read."""

from __future__ import annotations

import pytest

from tileworkbench.base.errors import TileSyntaxError
from tileworkbench.notebook.amount import BANDWIDTH, BYTES, NONE, RATE, SECONDS, UNITS, Amount, UnitError
from tileworkbench.notebook.expect import check

FACTS = {
    "dram.bytes": Amount(3.2e6, BYTES),
    "compulsory": Amount(3.0e6, BYTES),
    "time": Amount(2.1e-3, SECONDS),
    "roof": Amount(0.71),
    "global.bytes": Amount(4e6, BYTES),  # a word of Python's, too
    "dram.bandwidth": Amount(3.2e6 / 2.1e-3, BANDWIDTH),
}


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("dram.bytes <= 1.1*compulsory", True),
        ("dram.bytes <= 1.05*compulsory", False),
        ("dram.bytes <= 3.2 MB", True),
        ("dram.bytes < 3.1MiB", True),
        ("dram.bytes <= 4e6", True),
        ("time < 2 ms", False),
        ("time < 2101us", True),
        ("1 ms < time < 3 ms", True),
        ("1 ms < time < 2 ms", False),
        ("roof >= 60%", True),
        ("roof >= 60 % + 12 %", False),
        ("dram.bandwidth > 1.5 GB/s", True),
        ("dram.bytes/time > 1.5 GB/s", True),
        ("max(dram.bytes, compulsory) == dram.bytes", True),
        ("-roof < 0", True),
        ("global.bytes == 4 MB", True),
        ("dram.bytes - compulsory != 0 B", True),
    ],
)
def test_conditions(text: str, holds: bool):
    (outcome,) = check(text, FACTS)
    assert outcome.holds is holds


def test_several_conditions_keep_their_place():
    text = " roof > 0 ;; time < 1 s;"
    outcomes = check(text, FACTS)
    assert [text[o.start : o.start + len(o.text)] for o in outcomes] == ["roof > 0", "time < 1 s"]


def test_what_a_failure_says():
    (outcome,) = check("dram.bytes <= 1.05*compulsory", FACTS)
    assert str(outcome) == "dram.bytes <= 1.05*compulsory does not hold: 3.2 MB > 3.15 MB"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("dram.byte < 3", "the report has no value 'dram.byte'"),
        ("time < 2", "'time < 2': a value in s cannot be compared with a number without a unit"),
        ("time < 2 MB", "'time < 2 MB': a value in s cannot be compared with a value in B"),
        ("time + roof < 2 s", "'time + roof < 2 s': a value in s cannot be added to a number without a unit"),
        ("dram.bytes", "'dram.bytes' compares nothing"),
        ("time <", "cannot read 'time <'"),
        ("(((", "cannot read '((('"),
        ("time in (3 s)", "uses a comparison that means nothing"),
        ("time / 0 < 1", "divides by zero"),
        ("__import__('os').system('true') < 1", "has no meaning in a condition"),
        ("roof.__class__ < 1", "the report has no value 'roof.__class__'"),
        ("roof < 'a'", "cannot read"),
        ("roof < True", "is not a number"),
        ("[x for x in (1,)] < 1", "has no meaning in a condition"),
    ],
)
def test_what_cannot_be_read(text: str, message: str):
    with pytest.raises(TileSyntaxError) as caught:
        check(text, FACTS)
    assert message in caught.value.message


def test_a_name_nearly_right_is_suggested():
    with pytest.raises(TileSyntaxError) as caught:
        check("dram.byte < 3", FACTS)
    assert caught.value.hint.startswith("did you mean 'dram.bytes'?")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (Amount(0.0, SECONDS), "0 s"),
        (Amount(1.5e-7, SECONDS), "150 ns"),
        (Amount(12.0, SECONDS), "12 s"),
        (Amount(512.0, BYTES), "512 B"),
        (Amount(2.5e9, RATE), "2.5 GFLOP/s"),
        (Amount(0.5), "0.5"),
        (Amount(1.0, (2, 1, 0)), "1 B^2 s^1"),
    ],
)
def test_amounts_print_with_a_prefix(value: Amount, text: str):
    assert str(value) == text


def test_every_unit_is_one_of_its_kind():
    for name, unit in UNITS.items():
        assert unit.value > 0, name
        assert unit / unit == Amount(1.0, NONE)


def test_unlike_amounts_do_not_add():
    with pytest.raises(UnitError):
        Amount(1.0, BYTES) + Amount(1.0, SECONDS)
