"""The targets that words are run on, and numbers for them."""

from __future__ import annotations

import numpy as np

from tileworkbench.runtime.targets import get_target

TARGETS = ["interpret", "c"]
rng = np.random.default_rng(5)


def usable_targets() -> list[str]:
    return [name for name in TARGETS if not get_target(name).usable()]


def floats(*shape, scale=1.0, dtype=np.float32):
    return (rng.standard_normal(shape) * scale).astype(dtype)
