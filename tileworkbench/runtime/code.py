"""A kernel as what it is made of, which another process builds again: from this machine's disk cache, or for another machine's processor."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ..ir.stmt import Kernel
from .options import Options

if TYPE_CHECKING:
    from .kernel import JITKernel


@dataclass(frozen=True, slots=True)
class Code:
    """A kernel's parts, which travel by pickle; `compiling.build` makes a kernel of them again."""

    ir: Kernel
    options: Options
    outputs: tuple[int, ...]
    returns_tuple: bool
    schedule: Mapping[str, Any]

    @staticmethod
    def of(kernel: JITKernel) -> Code:
        """The parts of `kernel`. Its threads are settled here: another process may count other cores."""
        options = replace(kernel.options, target=kernel.target, out_idx=(), num_threads=kernel.num_threads, verbose=False)
        return Code(kernel.ir, options, tuple(kernel.out_idx), kernel.signature.returns_tuple, dict(kernel.schedule))
