"""Record a run of your own kernel and scrub through it; break the kernel on purpose and see where the result goes wrong.

recording = record(kernel, Q, K, V, machine="h200")        # runs in the interpreter, every tile operation kept
Recorder(recording)                                        # the view: query block, key block, operation
wrong = break_it(kernel, "no rescale")(Q, K, V)            # the same kernel without the rescaling of its sums
error_map(wrong, reference, tile=(32, 16))                 # which tiles of the result are wrong, and by how much
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..base.errors import TileValueError
from ..base.machine import Machine, find_machine
from ..model.recording import Recording, record_run
from ..model.report import Report, report
from ..runtime.kernel import JITKernel
from ..views.recorder import Recorder


def record(
    kernel: JITKernel,
    *arguments: Any,
    block: tuple[int, ...] | None = None,
    watch: Sequence[str] | Mapping[str, str] | None = None,
    machine: str | Machine = "h200",
) -> Recording:
    """Run `kernel` in the interpreter and keep what its tiles held after every tile operation.

    Args:
        kernel: a compiled kernel, of any target; its tile program is what runs.
        arguments: as for a call. Arrays that the kernel writes are written.
        block: the one block to keep, (x, y, z); None: every block along x (at most 16), at 0 of the other axes.
        watch: tiles by name, or roles such as {"S": "scores"}; None: found from the kernel's structure.
        machine: whose memory levels the bytes are counted for, and whose on-chip memory is the capacity.
    Raises: ArgumentError for arguments that do not fit; TileValueError for a tile, block or machine that there is not.
    """
    call = kernel.bind(*arguments)
    arrays = [bound.unpacked if bound.unpacked is not None else bound.array for bound in call.tensors]
    facts = modelled(kernel, *arguments, machine=machine)
    try:
        return record_run(kernel.ir, arrays, report=facts, scalars=call.scalars, dims=call.dims, block=block, watch=watch)
    except ValueError as error:
        raise TileValueError(str(error)) from None


def fly(kernel: JITKernel, *arguments: Any, **options: Any) -> Recorder:
    """`Recorder(record(...))`: the recording as a view."""
    return Recorder(record(kernel, *arguments, **options))


def modelled(kernel: JITKernel, *arguments: Any, machine: str | Machine = "h200") -> Report:
    """The model's report on `kernel` for a machine that need not be here: all its cores, nothing measured.

    `arguments` are needed only where sizes or bounds come from them. Raises as `bind` does.
    """
    found = find_machine(machine) if isinstance(machine, str) else machine
    needs_sizes = bool(kernel.signature.dims or kernel.signature.scalars)
    if not arguments and not needs_sizes:
        return report(kernel.ir, found, {}, threads=found.cores, schedule=kernel.schedule)
    call = kernel.bind(*arguments)
    arrays = {bound.spec.name: bound.array for bound in call.tensors}
    return report(kernel.ir, found, call.dims, threads=found.cores, scalars=call.scalars, arrays=arrays, schedule=kernel.schedule)
