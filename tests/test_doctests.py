"""Every example in a docstring of the package runs and prints what it says."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path

import pytest

import tileworkbench

ROOT = Path(tileworkbench.__file__).resolve().parent


def modules_with_examples() -> list[str]:
    files = [p for p in sorted(ROOT.rglob("*.py")) if ">>> " in p.read_text(encoding="utf-8")]
    return [".".join(p.relative_to(ROOT.parent).with_suffix("").parts).removesuffix(".__init__") for p in files]


@pytest.mark.parametrize("name", modules_with_examples())
def test_examples(name: str):
    result = doctest.testmod(importlib.import_module(name), optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    assert result.failed == 0
