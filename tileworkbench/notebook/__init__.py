"""The thin edge to Jupyter: `%load_ext tileworkbench`, then `%%tile`."""

from .magic import load as load_ipython_extension
from .magic import unload as unload_ipython_extension

__all__ = ["load_ipython_extension", "unload_ipython_extension"]
