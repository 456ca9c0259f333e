"""The names that rewritten kernel code uses: a kernel function sees this module as `__twb`."""

from __future__ import annotations

import sys

from .branches import branch, check, loop_else, raising, while_loop
from .compiled import set_hidden
from .helpers import call
from .loops import each, loop
from .names import (
    annotate,
    argument,
    assign,
    augment_attribute,
    augment_item,
    augmented,
    context,
    escaping,
    kept,
    named,
    peek,
    place,
    rebind,
    result,
    set_attribute,
    set_item,
    typed,
)
from .operators import both, builtin, chain, choose, either, negate

__all__ = [
    "annotate", "argument", "assign", "augment_attribute", "augment_item", "augmented", "both", "branch", "builtin", "call", "chain",
    "check", "choose", "context", "each", "either", "escaping", "kept", "loop", "loop_else", "named", "negate", "peek", "place", "raising", "rebind",
    "result", "set_attribute", "set_item", "typed", "while_loop",
]  # fmt: skip

set_hidden(sys.modules[__name__])
