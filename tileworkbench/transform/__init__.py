"""Kernel -> Kernel, one pass a file; `lowering.py` is the ordered list: read it first."""
