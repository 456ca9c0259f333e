"""Integer arithmetic with the language's rules, in the words of the C library (`codegen.clib.integer`): nothing traps, nothing is undefined."""

from __future__ import annotations

from ..codegen.clib.integer import integer_functions as c_functions
from .function import DeviceFunction, pair

_ON_GPU = (("__builtin_popcountll(", "__popcll("), ("__builtin_popcount(", "__popc("), ("__builtin_clzll(", "__clzll("), ("__builtin_clz(", "__clz("))


def integer_functions() -> tuple[DeviceFunction, ...]:
    """Division, remainder, shifts, power, bit counts, abs, min and max of every integer type."""
    out = []
    for f in c_functions():
        gpu = f.body
        for ours, theirs in _ON_GPU:
            gpu = gpu.replace(ours, theirs)
        out.append(
            pair(f.head, gpu, f.body, f"{f.name.split('_')[1]} with the rules of the language: division by zero gives 0, nothing traps.", *f.needs)
        )
    return tuple(out)
