"""Annotations of kernel parameters: tensors, references, dtypes.

def main(A: T.Tensor((M, K), T.float16), B: T.StridedTensor((K,), (2,), "float32"), n: T.int32): ...
"""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import Any

from ..base.dtypes import DType
from ..base.errors import TileTypeError, TileValueError
from .tile import view


@dataclass(frozen=True, slots=True)
class TensorType:
    """What `T.Tensor(shape, dtype)` says: dims are ints or kernel values; `strides` count elements, None means row-major."""

    shape: tuple[Any, ...]
    dtype: DType
    strides: tuple[Any, ...] | None = None
    scope: str = "global"


class TensorWord:
    """`T.Tensor(shape, dtype="float32")` or `T.Tensor[[M, K], dtype]`: a contiguous, row-major tensor parameter.

    `shape` is a tuple or list of ints, `T.const` and `T.dynamic` dims, or one int. In a kernel, `T.Tensor(shape, dtype, buf.data)` is a
    view of a buffer.

    >>> TensorWord("Tensor")((64, 32), "float16").shape
    (64, 32)
    """

    def __init__(self, name: str, scope: str = "global") -> None:
        self.__name__ = name
        self.scope = scope

    def __call__(self, shape: Any = None, dtype: Any = "float32", data: Any = None, scope: str | None = None) -> Any:
        if shape is None:
            raise TileTypeError(f"T.{self.__name__} needs a shape", hint=f"write T.{self.__name__}((M, N), T.float16)")
        if data is not None:
            return view(data, shape, dtype)
        return TensorType(as_shape(shape), as_dtype(dtype), None, scope or self.scope)

    def __getitem__(self, item: Any) -> Any:
        if isinstance(item, tuple) and len(item) == 2 and isinstance(item[0], tuple | list):
            return self(item[0], item[1])
        if isinstance(item, tuple) and len(item) > 1 and isinstance(item[-1], str):
            return self(item[:-1], item[-1])
        return self(item)

    def __repr__(self) -> str:
        return f"T.{self.__name__}"


class StridedTensorWord:
    """`T.StridedTensor(shape, strides, dtype="float32")`: a tensor parameter with explicit strides, counted in elements."""

    __name__ = "StridedTensor"

    def __call__(self, shape: Any = None, strides: Any = None, dtype: Any = "float32") -> TensorType:
        if shape is None or strides is None:
            raise TileTypeError("T.StridedTensor needs a shape and strides", hint="write T.StridedTensor((M, N), (stride, 1), T.float16)")
        dims, steps = as_shape(shape), as_shape(strides)
        if len(dims) != len(steps):
            raise TileValueError(f"T.StridedTensor has {len(dims)} dims and {len(steps)} strides")
        return TensorType(dims, as_dtype(dtype), steps)

    def __getitem__(self, item: Any) -> TensorType:
        return self(*item)

    def __repr__(self) -> str:
        return "T.StridedTensor"


class RefWord:
    """`T.Ref`, the annotation of a macro parameter that the macro may assign: the caller's element, variable or region."""

    __name__ = "Ref"

    def __getitem__(self, item: Any) -> RefWord:
        return self

    def __repr__(self) -> str:
        return "T.Ref"


def as_dtype(dtype: Any) -> DType:
    """A dtype from a name, `T.float16`, a NumPy or PyTorch dtype, or a Python type. Raises: TileTypeError for anything else."""
    try:
        return DType(dtype)
    except (ValueError, TypeError):
        raise TileTypeError(f"{dtype!r} is not a dtype", hint="use T.float16, T.float32, T.int32, ... or their names") from None


def as_shape(shape: Any) -> tuple[Any, ...]:
    """A shape as a tuple of ints and kernel values. Raises: TileTypeError, TileValueError for a dim that is not one, or negative."""
    dims = tuple(shape) if isinstance(shape, tuple | list) else (shape,)
    return tuple(_dim(d) for d in dims)


def _dim(dim: Any) -> Any:
    if hasattr(dim, "expr"):  # a kernel value
        return dim
    try:
        number = operator.index(dim)
    except TypeError:
        hint = "dims are integers; use // rather than /" if isinstance(dim, float) else "dims are integers, T.const or T.dynamic names"
        raise TileTypeError(f"{dim!r} cannot be a dim", hint=hint) from None
    if number >= 1 << 63:
        raise TileValueError(f"a dim cannot be as large as {number}", hint="dims are 64-bit integers")
    if number < 0:
        raise TileValueError(f"a dim cannot be negative: {number}")
    return number
