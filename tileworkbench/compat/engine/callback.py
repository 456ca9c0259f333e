"""`tileworkbench.engine.callback`: hooks that edit generated GPU code before it is compiled.

The CPU targets generate none, so a hook is accepted and never called.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])


def register_cuda_postproc_callback(func: F | bool | None = None, override: bool = True) -> Any:
    """Decorator, with or without arguments: accepted, for a CUDA target to come."""
    del override
    return func if callable(func) else lambda function: function


register_hip_postproc_callback = register_cuda_postproc_callback
register_c_postproc_callback = register_cuda_postproc_callback


def register_cuda_postproc(func: F, override: bool = True) -> F:
    """As the decorator, called with the function."""
    del override
    return func


__all__ = ["register_c_postproc_callback", "register_cuda_postproc", "register_cuda_postproc_callback", "register_hip_postproc_callback"]
