"""The generators by name."""
from __future__ import annotations

import random

from differential.cases import Case, Maker
from differential.copies import CopyMaker, symbolic_extents

FAMILIES = {
    "copy": lambda rng, name: CopyMaker(rng, name).make(),
    "symbolic": lambda rng, name: symbolic_extents(Maker(rng, name)),
}


def make(family: str, seed: int) -> Case:
    """The case of a seed, always the same."""
    return FAMILIES[family](random.Random(f"{family} {seed}"), f"{family}{seed}")
