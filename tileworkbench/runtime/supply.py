"""Inputs made up for a kernel, by its signature: for profilers, searches and quick checks.

They are PyTorch tensors when PyTorch is already imported (the reference programs of TileLang's examples work on those), else NumPy arrays.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np

from ..base.dtypes import DType
from ..base.errors import ArgumentError
from . import packing
from .arrays import allocate


class TensorSupplyType(Enum):
    """How made-up tensors are filled. Auto: small integers for integer types, a normal distribution for floats."""

    Integer = 1
    Uniform = 2
    Normal = 3
    Randn = 4
    Zero = 5
    One = 6
    Auto = 7


@dataclass(frozen=True, slots=True)
class KernelParam:
    """A parameter of a kernel: `shape` holds numbers and the texts of symbolic dims; None for a scalar."""

    name: str
    dtype: DType
    shape: tuple[int | str, ...] | None
    is_output: bool

    def is_scalar(self) -> bool:
        return self.shape is None

    def __str__(self) -> str:
        return str(self.dtype) if self.shape is None else f"{self.dtype}[{', '.join(map(str, self.shape))}]"


def get_tensor_supply(supply_type: TensorSupplyType = TensorSupplyType.Auto, seed: int | None = None) -> Callable[[KernelParam], Any]:
    """A function that makes a tensor for a parameter. Raises ArgumentError for a symbolic dim: only the caller knows its size."""
    generator = np.random.default_rng(seed)

    def supply(param: KernelParam) -> Any:
        if param.shape is None:
            raise ArgumentError(f"the value of the scalar {param.name} cannot be made up", hint="pass input_tensors")
        if any(isinstance(d, str) for d in param.shape):
            raise ArgumentError(f"the size of {param.name} ({param}) is only known at run time", hint="pass input_tensors")
        shape = tuple(d for d in param.shape if isinstance(d, int))
        return _as_tensor(_values(supply_type, param.dtype, shape, generator), param.dtype)

    return supply


def _values(kind: TensorSupplyType, dtype: DType, shape: tuple[int, ...], generator: np.random.Generator) -> np.ndarray[Any, Any]:
    if kind in (TensorSupplyType.Zero, TensorSupplyType.One):
        return np.full(shape, int(kind is TensorSupplyType.One))
    if dtype.is_bool:
        return generator.integers(0, 2, shape)
    if dtype.is_int:
        return generator.integers(0 if dtype.kind == "u" else -2, 4 if dtype.kind == "u" else 3, shape)
    if kind is TensorSupplyType.Integer:
        return generator.integers(-2, 3, shape)
    if kind is TensorSupplyType.Uniform:
        return generator.uniform(-1.0, 1.0, shape)
    return generator.standard_normal(shape)


def _as_tensor(values: np.ndarray[Any, Any], dtype: DType) -> Any:
    array = values.astype(np.float32 if dtype.is_float and dtype.bits < 32 else values.dtype).astype(dtype.to_numpy())
    if "torch" not in sys.modules:
        return array
    if dtype in packing.NAMES:
        array = packing.pack(array).view(np.int8).reshape(*array.shape[:-1], -1)
    view, tensor = allocate(array.shape, array.dtype, "torch", None)
    view[...] = array
    return tensor
