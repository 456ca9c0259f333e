"""Each error names its stage, keeps the built-in type that TileLang raises, and renders span and hint."""

import pytest

from tileworkbench.base import errors
from tileworkbench.base.span import Span

SPAN = Span("gemm.py", 21, 6, 21, 9, text="      foo(b_s)")
FAMILY = [
    c for c in vars(errors).values() if isinstance(c, type) and issubclass(c, errors.TileError) and c not in (errors.TileError, errors.ErrorGroup)
]


@pytest.mark.parametrize("kind", FAMILY, ids=lambda c: c.__name__)
def test_text_has_place_stage_line_carets_and_hint(kind: type[errors.TileError]) -> None:
    text = str(kind("b_s is used twice", span=SPAN, hint="copy it first"))
    assert text.splitlines() == [
        f"gemm.py:21:7: {kind.stage}: b_s is used twice",
        "      foo(b_s)",
        "      ^^^",
        "  hint: copy it first",
    ]


@pytest.mark.parametrize(
    ("kind", "builtin"),
    [
        (errors.TileSyntaxError, ValueError),
        (errors.TileTypeError, TypeError),
        (errors.TileValueError, ValueError),
        (errors.TileNameError, AttributeError),
        (errors.TileNameError, RuntimeError),
        (errors.TileBoundsError, IndexError),
        (errors.TileRuntimeError, RuntimeError),
        (errors.UnsupportedError, NotImplementedError),
        (errors.ArgumentError, TypeError),
        (errors.ArgumentError, ValueError),
        (errors.CompilerError, RuntimeError),
        (errors.DeviceAssertError, AssertionError),
    ],
)
def test_except_clauses_written_for_the_builtin_type_keep_working(kind: type[errors.TileError], builtin: type[Exception]) -> None:
    with pytest.raises(builtin):
        raise kind("x")


def test_stages_are_distinct() -> None:
    assert len({c.stage for c in FAMILY}) == len(FAMILY)


def test_at_keeps_the_first_span() -> None:
    other = Span("x.py", 1, 0, 1, 1)
    assert errors.TileError("m", span=SPAN).at(other).span is SPAN
    assert errors.TileError("m").at(other).span is other


def test_several_faults_are_reported_together() -> None:
    faults = [errors.TileValueError("one", span=SPAN), errors.TileTypeError("two")]
    with pytest.raises(errors.ErrorGroup) as caught:
        errors.raise_all(list(faults))
    assert str(caught.value) == f"{faults[0]}\n{faults[1]}"


def test_a_single_fault_is_raised_as_it_is() -> None:
    fault = errors.TileValueError("one")
    with pytest.raises(errors.TileValueError) as caught:
        errors.raise_all([fault])
    assert caught.value is fault
    errors.raise_all([])
