"""Helpers that TileLang's host code and tests use: rounding divisions, seeds, comparisons, and skips for hardware that is not here."""

from __future__ import annotations

import importlib.util
import random
import sys
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from .profiler import assert_close

F = TypeVar("F", bound=Callable[..., Any])


def cdiv(a: int, b: int) -> int:
    """`a / b`, rounded up.

    >>> cdiv(7, 2)
    4
    """
    return -(-a // b)


def next_power_of_2(x: int) -> int:
    """The smallest power of two that is at least `x`; 1 for `x` below 1.

    >>> next_power_of_2(100)
    128
    """
    return 1 << max(0, int(x) - 1).bit_length()


def set_random_seed(seed: int = 42) -> None:
    """Seed Python's, NumPy's and, when it is imported, PyTorch's generator."""
    random.seed(seed)
    np.random.seed(seed)
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(seed)


def torch_assert_close(
    tensor_a: Any,
    tensor_b: Any,
    rtol: float = 1e-2,
    atol: float = 1e-3,
    max_mismatched_ratio: float = 0.001,
    verbose: bool = False,
    equal_nan: bool = True,
    check_device: bool = True,
    check_dtype: bool = True,
    check_stride: bool = True,
    base_name: str = "LHS",
    ref_name: str = "RHS",
) -> bool:
    """True if the two agree but for a small share of elements; raises ExpectationError with the worst place otherwise."""
    del verbose, equal_nan, check_device, check_dtype, check_stride
    assert_close(tensor_a, tensor_b, rtol=rtol, atol=atol, max_mismatched_ratio=max_mismatched_ratio, name=f"{base_name} against {ref_name}")
    return True


def main() -> None:
    """Run the tests of the calling file with pytest, as TileLang's test files do at their end."""
    import pytest  # a test dependency, not one of the package

    file = sys._getframe(1).f_globals.get("__file__", "")
    sys.exit(pytest.main([str(file)]))


def _skip_without_gpu(test: F) -> F:
    import pytest

    marked: F = pytest.mark.skip(reason="needs a CUDA GPU")(test)
    return marked


def requires_cuda(test: F) -> F:
    """Decorator: a test that this machine cannot run."""
    return _skip_without_gpu(test)


def requires_cuda_compute_version(*_version: int, **_mode: Any) -> Callable[[F], F]:
    """Decorator factory: a test for some GPU generations."""
    return _skip_without_gpu


requires_cuda_compute_version_eq = requires_cuda_compute_version
requires_cuda_compute_version_ge = requires_cuda_compute_version
requires_cuda_compute_version_gt = requires_cuda_compute_version
requires_cuda_compute_version_le = requires_cuda_compute_version
requires_cuda_compute_version_lt = requires_cuda_compute_version
requires_rocm = requires_cuda
requires_metal = requires_cuda


def requires_package(name: str) -> Callable[[F], F]:
    """Decorator factory: skip unless the package `name` is installed."""
    import pytest

    missing = importlib.util.find_spec(name) is None
    return pytest.mark.skipif(missing, reason=f"needs {name}")


def process_func(function: Callable[..., Any], name: str | None = None, **arguments: Any) -> Any:
    """Run one benchmark function of an example and print its result."""
    result = function(**arguments)
    print(f"{name or function.__module__}: {result}")  # noqa: T201  # what it is for
    return result
