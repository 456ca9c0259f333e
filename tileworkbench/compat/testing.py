"""`tileworkbench.testing`: helpers of TileLang's tests. Tests for a GPU are marked as skipped."""

from __future__ import annotations

from tileworkbench.runtime.testing import (
    main,
    process_func,
    requires_cuda,
    requires_cuda_compute_version,
    requires_cuda_compute_version_eq,
    requires_cuda_compute_version_ge,
    requires_cuda_compute_version_gt,
    requires_cuda_compute_version_le,
    requires_cuda_compute_version_lt,
    requires_metal,
    requires_package,
    requires_rocm,
    set_random_seed,
    torch_assert_close,
)

__all__ = [
    "main",
    "process_func",
    "requires_cuda",
    "requires_cuda_compute_version",
    "requires_cuda_compute_version_eq",
    "requires_cuda_compute_version_ge",
    "requires_cuda_compute_version_gt",
    "requires_cuda_compute_version_le",
    "requires_cuda_compute_version_lt",
    "requires_metal",
    "requires_package",
    "requires_rocm",
    "set_random_seed",
    "torch_assert_close",
]
