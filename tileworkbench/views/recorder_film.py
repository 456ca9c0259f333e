"""The recorder's frames for the browser, packed: a frame is a list of numbers into a pool of parts, and parts repeat.

A run that is too long for a notebook's output is thinned to every n-th block, and then every n-th step; the pair that the static picture shows
is kept.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from .marks import AnyMark
from .scene import mark_json

BUDGET = 90_000  # characters of a packed film
Marks = tuple[AnyMark, ...]


@dataclass(frozen=True, slots=True)
class Film:
    """The packed frames, where the film begins (places of block, step and operation in it), and how much was left out."""

    packed: str
    at: tuple[int, int, int]
    every_block: int
    every_step: int

    @property
    def note(self) -> str:
        """What was left out, in words; "" for nothing."""
        left = [f"every {n}. {what}" for n, what in ((self.every_block, "block"), (self.every_step, "step")) if n > 1]
        return f"the run is long: {' and '.join(left)} can be scrubbed" if left else ""


@dataclass(frozen=True, slots=True)
class Reel:
    """What a film is made of: `blocks` with their steps, words for both, the operations' words of a pair, and the marks of a frame, slot by slot."""

    blocks: Sequence[Sequence[int]]
    block_words: Callable[[int], str]
    step_words: Callable[[int, int], str]
    op_words: Callable[[int, int], list[str]]
    slots: Callable[[int, int, int], tuple[Marks, ...]]


def film_of(reel: Reel, place: tuple[int, int, int], budget: int = BUDGET) -> Film:
    """The film of a recording, thinned until it keeps the budget (or one pair is left)."""
    every_block = every_step = 1
    while True:
        film = _shoot(reel, place, every_block, every_step)
        excess = -(-len(film.packed) // budget)
        if excess <= 1:
            return film
        blocks, steps = len(reel.blocks), max(len(steps) for steps in reel.blocks)
        if every_block < blocks:
            every_block = min(blocks, every_block * excess)
        elif every_step < steps:
            every_step = min(steps, every_step * excess)
        else:
            return film


@dataclass(slots=True)
class _Pool:
    """Parts by their text; `known` remembers tuples that the recorder hands out again and again."""

    texts: dict[str, int] = field(default_factory=dict)
    known: dict[int, tuple[Marks, int]] = field(default_factory=dict)

    def __call__(self, marks: Marks) -> int:
        if id(marks) not in self.known:
            text = json.dumps([mark_json(mark) for mark in marks], separators=(",", ":"))
            self.known[id(marks)] = marks, self.texts.setdefault(text, len(self.texts))
        return self.known[id(marks)][1]


def _shoot(reel: Reel, place: tuple[int, int, int], every_block: int, every_step: int) -> Film:
    pool = _Pool()
    kept = [b for b in range(len(reel.blocks)) if b % every_block == place[0] % every_block]
    blocks: list[dict[str, Any]] = []
    at = (0, 0, 0)
    for block in kept:
        walk = reel.blocks[block]
        phase = walk.index(place[1]) % every_step if block == place[0] else 0
        steps: list[dict[str, Any]] = []
        for step in walk[phase::every_step]:
            if (block, step) == place[:2]:
                at = (len(blocks), len(steps), place[2])
            words = reel.op_words(block, step)
            frames = [[pool(slot) for slot in reel.slots(block, step, n)] for n in range(len(words))]
            steps.append({"label": reel.step_words(block, step), "step": step, "ops": words, "frames": frames})
        blocks.append({"label": reel.block_words(block), "block": block, "steps": steps})
    film = f'{{"parts":[{",".join(pool.texts)}],"blocks":{json.dumps(blocks, separators=(",", ":"))}}}'
    return Film(base64.b64encode(zlib.compress(film.encode(), 9)).decode("ascii"), at, every_block, every_step)
