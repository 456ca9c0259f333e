"""Step through a kernel: run one block in the interpreter and show what each tile operation did to the tiles that one watches."""

from __future__ import annotations

from typing import Any

from ..base.errors import TileValueError
from ..interpret import TraceOptions
from ..interpret import run as interpret
from ..runtime.kernel import JITKernel
from ..views.steps import Stepping, stepping
from . import live


def step_through(
    kernel: JITKernel, *arguments: Any, watch: tuple[str, ...], at: tuple[int, ...] = (0,), block: tuple[int, ...] = (0,), limit: int = 60
) -> None:
    """Show the steps of one block as a table and as curves.

    Args:
        kernel: a compiled kernel, of any target; its tile program is what runs here.
        arguments: as for a call. Outputs are not returned; arrays that the kernel writes are written.
        watch: names of tiles, as the author wrote them.
        at: the element of each watched tile to show; dims beyond it are taken at 0.
        block: the block's indices (x, y, z).
        limit: show at most this many steps.
    Raises: ArgumentError for arguments that do not fit; TileValueError if no step writes a watched tile.
    """
    live.show(steps_of(kernel, *arguments, watch=watch, at=at, block=block).first(limit))


def steps_of(kernel: JITKernel, *arguments: Any, watch: tuple[str, ...], at: tuple[int, ...] = (0,), block: tuple[int, ...] = (0,)) -> Stepping:
    """What `step_through` shows, as a value."""
    call = kernel.bind(*arguments)
    arrays = [bound.unpacked if bound.unpacked is not None else bound.array for bound in call.tensors]
    trace = interpret(kernel.ir, arrays, call.scalars, call.dims, trace=TraceOptions(values=True, blocks={block}))
    assert trace is not None
    try:
        return stepping(trace, watch, at)
    except ValueError as error:
        raise TileValueError(str(error)) from None
