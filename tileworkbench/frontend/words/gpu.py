"""Meaning of the words that need a particular GPU: an error that says what to write instead."""

from __future__ import annotations

from typing import Any

from ...base.errors import UnsupportedError
from ...language._dispatch import impl
from ...language.gpu import INSTEAD, STUBS


def _bind(name: str, generation: str, instead: str) -> None:
    @impl(STUBS[name])
    def meaning(*args: Any, **kwargs: Any) -> Any:
        raise UnsupportedError(f"T.{name} needs a GPU of generation {generation}", hint=instead)


for _generation, _group in INSTEAD.items():
    for _instead, _names in _group.items():
        for _name in _names:
            _bind(_name, _generation, _instead)
