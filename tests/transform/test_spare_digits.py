"""A function whose value is rounded to 16 bits at once has as many digits, and no fewer where the value decides more."""

# mypy: disable-error-code="no-untyped-def, valid-type, untyped-decorator"
from __future__ import annotations

import math

import ml_dtypes
import numpy as np
import pytest

import tileworkbench
import tileworkbench.language as T
from tileworkbench.frontend.prim_func import PrimFunc
from tileworkbench.kernels.elementwise import gelu_program
from tileworkbench.runtime import toolchain
from tileworkbench.transform.cuda_lowering import cuda_steps

SIZE = 1 << 16


@pytest.mark.skipif(toolchain.default_compiler() is None, reason="needs a host C++ compiler")
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_gelu_of_every_number(dtype: str) -> None:
    """Beside float64: half a unit in the last place and little more; as good as float32 beside 1 where 1 + erf is almost 0."""
    x = np.arange(SIZE, dtype=np.uint16).view(np.float16 if dtype == "float16" else ml_dtypes.bfloat16)
    y = np.zeros_like(x)
    kernel = tileworkbench.compile(gelu_program(SIZE, 4096, dtype, 128), target="emulate:sm_90a")
    assert "twb_erf_short_f32(x" in kernel.source
    kernel(x, y)
    with np.errstate(invalid="ignore"):  # some of the NaN are signalling ones
        wide, got = x.astype(np.float32).astype(np.float64), y.astype(np.float32).astype(np.float64)
    numbers = np.isfinite(wide)
    right = 0.5 * wide[numbers] * np.array([math.erfc(-v * math.sqrt(0.5)) for v in wide[numbers]])
    with np.errstate(over="ignore"):
        unit = np.spacing(np.abs(right).astype(x.dtype)).astype(np.float64)
    assert (np.abs(got[numbers] - right) <= 0.55 * unit + 2.5e-7 * (wide[numbers] < -3)).all()
    assert np.isnan(got[np.isnan(wide)]).all() and got[wide == np.inf] == np.inf


def erf_of(result: str, dtype: str) -> PrimFunc:
    values = {
        "factor": lambda x: T.erf(x) * 3.0,
        "tail": lambda x: x / (1.0 - T.erf(x)),
        "swish": lambda x: x * T.sigmoid(x),
        "bend": lambda x: 0.5 * x * (1.0 + T.tanh(x)),
        "below": lambda x: x * (1.0 - T.sigmoid(x)),
        "rest": lambda x: (T.erf(x) - 0.5) * 1e4,
        "beside": lambda x: T.erf(x) + x,
    }
    value = values[result]

    @T.prim_func
    def kernel(X: T.Tensor((64,), "float32"), Y: T.Tensor((64,), dtype)):
        with T.Kernel(1, threads=64):
            for i in T.Parallel(64):
                Y[i] = T.cast(value(X[i]), dtype)

    made: PrimFunc = kernel
    return made


@pytest.mark.parametrize(
    ("result", "dtype", "is_short"),
    [
        ("factor", "float16", True), ("tail", "bfloat16", True), ("factor", "float8_e5m2", True), ("factor", "float32", False),
        ("swish", "float16", True), ("bend", "float16", True), ("rest", "float16", False), ("beside", "float16", False),
        ("below", "float16", False),
    ],
)  # fmt: skip
def test_which_values_are_short(result: str, dtype: str, is_short: bool) -> None:
    """A difference may be all that is left of two large terms, and float32 shows every digit."""
    kernel = erf_of(result, dtype).kernel
    for step in cuda_steps(90):
        kernel = step.run(kernel)
    assert ("_short_f32" in str(kernel)) == is_short
