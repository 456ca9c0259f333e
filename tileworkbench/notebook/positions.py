"""Where a workbench stands in its space: a place is one step of every tunable, by number, as the sliders show it.

>>> space = Space.of(block=[32, 64, 128], stages=[1, 2])
>>> schedule_at(space, (2, 0)), place_of(space, {"block": 64}, (0, 1))
(Schedule(block=128, stages=1), (1, 1))
>>> list(nearest(space, (0, 0)))[:4]
[(0, 0), (0, 1), (1, 0), (1, 1)]
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..base.errors import TileValueError
from ..tune.schedule import Schedule, text_of
from ..tune.space import Space

Place = tuple[int, ...]
MOST = 512  # places of which anything is worked out ahead


def schedule_at(space: Space, place: Place) -> Schedule:
    """The value of every tunable at `place`."""
    return Schedule({t.name: t.values[i] for t, i in zip(space.tunables, place, strict=True)})


def place_of(space: Space, values: Mapping[str, Any], start: Place | None = None) -> Place:
    """Where these values stand; tunables that are not named stay as at `start` (default: the first steps).

    Raises: TileValueError for a name that is no tunable, or a value that is none of its steps.
    """
    now = list(start or (0,) * len(space.tunables))
    for name, value in values.items():
        if name not in space.names:
            raise TileValueError(f"no tunable is called {name}", hint=f"there are {', '.join(space.names)}")
        tunable = space.tunable(name)
        found = [i for i, step in enumerate(tunable.values) if step == value and isinstance(step, bool) == isinstance(value, bool)]
        if not found:
            raise TileValueError(f"{name} cannot be {text_of(value)}", hint=f"its steps are {', '.join(map(text_of, tunable.values))}")
        now[space.names.index(name)] = found[0]
    return tuple(now)


def nearest(space: Space, place: Place) -> Iterator[Place]:
    """Every place, those a few steps from `place` first; of very many only the nearest."""
    sizes = [len(t.values) for t in space.tunables]
    rings = (at for distance in range(sum(sizes)) for at in _at_distance(place, sizes, distance))
    return itertools.islice(rings, MOST)


def _at_distance(place: Place, sizes: Sequence[int], distance: int) -> Iterator[Place]:
    """Places exactly `distance` steps away."""
    if not place:
        if distance == 0:
            yield ()
        return
    for step in range(-distance, distance + 1):
        at = place[0] + step
        if 0 <= at < sizes[0]:
            for rest in _at_distance(place[1:], sizes[1:], distance - abs(step)):
                yield (at, *rest)


def forbidden(space: Space, schedule: Schedule) -> str:
    """Why the space's own rules forbid `schedule`, or "": quick, nothing is built."""
    if space.listed and schedule not in space.listed:
        return "not among the configurations that were given"
    return space.broken(schedule)
