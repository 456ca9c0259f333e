"""Words that need sm_90 end here on other targets, with what to write instead.

Before:  any kernel
After:   the same kernel; UnsupportedError if a launch holds nodes of `ir/explicit.py` that the target has not

Requires: nothing.  Preserves: everything.
"""

from __future__ import annotations

from ..analysis.explicit_words import require_words
from ..ir.stmt import Kernel


def refuse_explicit(kernel: Kernel, arch: int = 0) -> Kernel:
    """Return `kernel`, if compute capability `arch` has all of its words (0: no GPU). Raises: UnsupportedError."""
    require_words(kernel, arch, f"sm_{arch}" if arch else 'target="c"')
    return kernel
