"""Addresses that a GPU's text takes for granted: wide accesses want arrays that begin at a multiple of their bytes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ..base.errors import ArgumentError, raise_all
from .arguments import BoundCall


def strictest(pointers: Iterable[tuple[str, int]]) -> dict[str, int]:
    """The alignment that each array needs, of (name, bytes) pairs; only what is more than a byte."""
    found: dict[str, int] = {}
    for name, wanted in pointers:
        if wanted > 1:
            found[name] = max(wanted, found.get(name, 1))
    return found


def check_alignment(call: BoundCall, wanted: Mapping[str, int]) -> None:
    """Raise ArgumentError for arrays that begin elsewhere."""
    errors = [
        ArgumentError(
            f"kernel {call.signature.kernel}, argument {bound.spec.name}: it begins at an address that is no multiple of "
            f"{wanted[bound.spec.name]} bytes, which this kernel's wide accesses need",
            hint="pass a copy: a slice may begin anywhere, a new array does not",
        )
        for bound in call.tensors
        if bound.array.size and bound.pointer % wanted.get(bound.spec.name, 1)
    ]
    raise_all([*errors])
