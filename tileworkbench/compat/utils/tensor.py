"""`tileworkbench.utils.tensor`: made-up tensors and comparisons."""

from __future__ import annotations

from tileworkbench.runtime.supply import TensorSupplyType, get_tensor_supply
from tileworkbench.runtime.testing import torch_assert_close

__all__ = ["TensorSupplyType", "get_tensor_supply", "torch_assert_close"]
