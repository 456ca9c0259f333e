"""Types, compilers and values that tests of the C library share."""

from __future__ import annotations

import re

import ml_dtypes
import numpy as np
import pytest
from codegen.c_harness import COMPILERS, MARCHES

from tileworkbench.codegen import clib

NARROW = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2}
INTEGERS = ["i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64"]
ROUNDING = [f"twb_{a}_to_{b}" for n in NARROW for a, b in (("f32", n), (n, "f32"))]
EVERYWHERE = pytest.mark.parametrize(("compiler", "isa"), [(c, i) for c in COMPILERS for i in MARCHES], ids=lambda x: getattr(x, "name", x))
SPECIAL = np.array(
    [0, -0.0, 1, -1, np.inf, -np.inf, np.nan, 1e-45, -1e-45, 1e-40, 1.17549435e-38, 3.4028235e38, -3.4028235e38, 88.72, 88.73, -87.3, -103.9,
     -104, 0.5,
     -0.5, 2, 10, 128, 127.99, -126, -149, -150, 38.6, -45, 89.4, 90, 1 - 2**-24, 1 + 2**-23, -1 + 2**-24, 2.0**31, -(2.0**31), 2.0**63],
    np.float32,
)  # fmt: skip


def random_floats(seed: int, low: float, high: float, count: int = 1 << 15) -> np.ndarray:
    """Values of a range, values of every exponent, and the special ones."""
    rng = np.random.default_rng(seed)
    return np.concatenate([rng.uniform(low, high, count).astype(np.float32), rng.integers(0, 2**32, count, np.uint32).view(np.float32), SPECIAL])


def plain_names() -> list[str]:
    return [n for n, head in clib.FUNCTIONS.items() if re.fullmatch(r"(u?int\d+_t|float|double) \w+\(((u?int\d+_t|float|double) \w+(, )?)+\)", head)]
