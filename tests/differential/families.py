"""The generators by name."""

from __future__ import annotations

import random

from differential.cases import Case, Maker
from differential.copies import CopyMaker, symbolic_extents
from differential.parallel import ParallelMaker
from differential.pipelines import PipelineMaker
from differential.threads import ThreadMaker
from differential.tiles import TileMaker
from differential.whole import arithmetic, functions, launches

FAMILIES = {
    "copy": lambda rng, name: CopyMaker(rng, name).make(),
    "parallel": lambda rng, name: ParallelMaker(rng, name).make(),
    **{way: lambda rng, name, way=way: getattr(TileMaker(rng, name), way)() for way in ("reduce", "scan", "gemm", "alias", "atomic")},
    "threads": lambda rng, name: ThreadMaker(rng, name).make(),
    "arithmetic": lambda rng, name: arithmetic(Maker(rng, name)),
    "functions": lambda rng, name: functions(Maker(rng, name)),
    "launches": lambda rng, name: launches(Maker(rng, name)),
    "pipelines": lambda rng, name: PipelineMaker(rng, name).make(),
    "symbolic": lambda rng, name: symbolic_extents(Maker(rng, name)),
}


def make(family: str, seed: int) -> Case:
    """The case of a seed, always the same."""
    return FAMILIES[family](random.Random(f"{family} {seed}"), f"{family}{seed}")
