"""Reference semantics: runs tile IR on NumPy, block by block, and can trace every tile operation."""

from .launch import Program, run
from .trace import Compulsory, Operand, TileStep, Trace, TraceOptions, Traffic

__all__ = ["Compulsory", "Operand", "Program", "TileStep", "Trace", "TraceOptions", "Traffic", "run"]
