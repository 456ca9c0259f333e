"""Words and their meanings cannot drift apart, and a word explains itself."""

from __future__ import annotations

import inspect

import pytest

import tileworkbench  # noqa: F401  # binds the words
import tileworkbench.language as T
from tileworkbench.base.errors import JITNoBuilderError, TileNameError, TileTypeError, UnsupportedError
from tileworkbench.language import _dispatch
from tileworkbench.language._dispatch import WORDS, alias, impl, is_word, word


@pytest.fixture
def pair(monkeypatch):
    monkeypatch.setattr(_dispatch, "WORDS", {})

    @word
    def scale(x, by=2, *, offset=0):
        """Multiply."""

    return scale


def test_a_word_runs_its_meaning(pair):
    @impl(pair)
    def meaning(x, by=2, *, offset=0):
        return x * by + offset

    assert (pair(3), pair(3, offset=1), pair(x=3, by=5)) == (6, 7, 15)
    assert (pair.__name__, pair.__doc__, str(inspect.signature(pair))) == ("scale", "Multiply.", "(x, by=2, *, offset=0)")


@pytest.mark.parametrize("meaning", [lambda x, by=2: 0, lambda x, by=3, *, offset=0: 0, lambda y, by=2, *, offset=0: 0, lambda x, by, *, offset=0: 0])
def test_a_meaning_with_another_signature_is_refused(pair, meaning):
    with pytest.raises(TypeError, match=r"meaning of T.scale: .* does not agree with its stub \(x, by=2, \*, offset=0\)"):
        impl(pair)(meaning)


def test_a_word_without_meaning(pair):
    with pytest.raises(JITNoBuilderError) as caught:
        pair(1)
    assert str(caught.value) == "no kernel: T.scale has no meaning here\n  hint: import tileworkbench, which loads the frontend"


def test_wrong_arguments_name_the_word(pair):
    impl(pair)(lambda x, by=2, *, offset=0: x)
    with pytest.raises(TileTypeError) as caught:
        pair(1, 2, 3)
    assert str(caught.value) == "type error: T.scale: too many positional arguments\n  hint: the signature is T.scale(x, by=2, *, offset=0)"


def test_a_type_error_inside_the_meaning_is_not_the_authors(pair):
    def meaning(x, by=2, *, offset=0):
        return x + None

    impl(pair)(meaning)
    with pytest.raises(TypeError, match="unsupported operand") as caught:
        pair(1)
    assert not isinstance(caught.value, TileTypeError)


def test_every_word_has_a_meaning_a_docstring_and_a_signature():
    for name, stub in WORDS.items():
        assert is_word(stub), name
        assert stub.__doc__, name
        bound = dict(zip(stub.__code__.co_freevars, (c.cell_contents for c in stub.__closure__), strict=True))
        assert bound["meaning"] is not None, f"T.{name} has no meaning"


def test_aliases_are_the_same_object(pair):
    assert alias("twice", pair) is pair
    assert T.Serial is T.serial
    assert T.symbolic is T.dynamic


def test_dtypes_and_their_aliases():
    assert T.float is T.float32
    assert (T.half, T.int, T.uint, T.dtype("double")) == ("float16", "int32", "uint32", "float64")
    assert T.dtype("float16") is T.float16


def test_unknown_words_suggest_the_nearest():
    for wrong, hint in {"Copy": "did you mean T.copy?", "alloc_fragmnt": "did you mean T.alloc_fragment?", "zzzzz": "dir(T) lists the words"}.items():
        with pytest.raises(TileNameError) as caught:
            getattr(T, wrong)
        assert str(caught.value) == f"name error: `T.{wrong}` is not a word of the language\n  hint: {hint}"
    assert not hasattr(T, "zzzzz")
    with pytest.raises(UnsupportedError, match="no target here can hold float8_e8m0fnu"):
        T.float8_e8m0fnu  # looking it up raises


def test_dir_lists_the_words_for_completion():
    assert {"copy", "Kernel", "float16", "Tensor", "GemmWarpPolicy"} <= set(dir(T))
    assert not any(name.startswith("_") for name in dir(T))


def test_import_from_the_language():
    scope = {}
    exec("from tileworkbench.language import copy, Kernel, float16", scope)
    assert scope["copy"] is T.copy
    with pytest.raises(ImportError):
        exec("from tileworkbench.language import cpoy", scope)
