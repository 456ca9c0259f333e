"""`tileworkbench.utils`: made-up tensors and comparisons."""

from __future__ import annotations

from . import tensor
from .tensor import TensorSupplyType, get_tensor_supply, torch_assert_close

__all__ = ["TensorSupplyType", "get_tensor_supply", "tensor", "torch_assert_close"]
