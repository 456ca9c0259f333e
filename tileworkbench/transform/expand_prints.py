"""Printing becomes lines of text and numbers.

Before:  print "s" s                      (s: shared int32[4])
After:   for i in 0..4: print line "s [", i, "] = ", s[i]

Requires: flat accesses.  Preserves: everything else.
"""

from __future__ import annotations

from ..ir.bodies import statements
from ..ir.node import Node, rewrite
from ..ir.stmt import Kernel, Print
from .names import Names
from .print_lines import print_lines


def expand_prints(kernel: Kernel) -> Kernel:
    """Return `kernel` without `Print`."""
    if not any(isinstance(n, Print) for n in statements(kernel)):
        return kernel
    names = Names(kernel)

    def change(node: Node) -> Node | tuple[Node, ...]:
        return print_lines(node, names) if isinstance(node, Print) else node

    return rewrite(kernel, change)
