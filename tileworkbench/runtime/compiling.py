"""From tile IR to a kernel object: marking outputs, choosing a target, compiling."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace as with_fields
from typing import Any

from ..base.errors import TileValueError
from ..base.pass_configs import MEANT
from ..ir.node import replace
from ..ir.stmt import Kernel, ScalarParam, TensorParam
from .code import Code
from .kernel import JITKernel
from .notices import LOGGER
from .observing import WATCH
from .options import Options
from .signature import signature_of
from .targets import choose_target


def compile_ir(
    kernel: Kernel, options: Options, *, outputs: tuple[int, ...] = (), returns_tuple: bool = False, schedule: Mapping[str, Any] | None = None
) -> JITKernel:
    """Compile `kernel`. `options.out_idx` marks outputs; `outputs` are the places of those that the kernel itself declares."""
    marked, places = mark_outputs(kernel, options.out_idx, outputs)
    if meant := tuple(c for c in options.pass_configs if c[0] in MEANT):
        marked = replace(marked, attrs=(*marked.attrs, *meant))
    signature = signature_of(marked, places, returns_tuple)
    target = choose_target(options.target, is_to_run=WATCH.may_launch)
    executable = target.compile(marked, with_fields(options, target=target.name, schedule=schedule or {}))
    made = JITKernel(marked, options, target.name, executable, signature, schedule)
    if options.verbose:
        facts = made.facts
        times = f"passes {facts.passes_ms:.1f} ms, compiler {facts.compiler_ms:.1f} ms{', from the cache' if facts.was_cached else ''}"
        LOGGER.warning("tileworkbench: %s: target %s, %s, %s", made.name, target.name, facts.compiler or "no compiler", times)
    return made


def build(code: Code) -> JITKernel:
    """The kernel that `code` was taken from, built here. Raises what compiling raises."""
    return compile_ir(code.ir, code.options, outputs=code.outputs, returns_tuple=code.returns_tuple, schedule=code.schedule)


def mark_outputs(kernel: Kernel, out_idx: tuple[int, ...], outputs: tuple[int, ...] = ()) -> tuple[Kernel, tuple[int, ...]]:
    """`kernel` with the parameters at `out_idx` (negative: from the end) as outputs, and their places in that order.

    Raises: TileValueError for an index out of range, given twice, or of a scalar, and when the kernel declares outputs itself (`T.empty`).
    """
    if not out_idx:
        return kernel, outputs
    count = len(kernel.params)
    if any(isinstance(p, TensorParam) and p.is_output for p in kernel.params):
        raise TileValueError(
            f"kernel {kernel.name} declares its outputs with T.empty: out_idx cannot be given too", hint="drop out_idx, or make them parameters"
        )
    params = list(kernel.params)
    places: list[int] = []
    for index in out_idx:
        place = index + count if index < 0 else index
        if not 0 <= place < count:
            raise TileValueError(f"out_idx {index} is out of range: kernel {kernel.name} has {count} parameters")
        param = params[place]
        if isinstance(param, ScalarParam):
            raise TileValueError(f"out_idx {index} is the scalar {param.var.name} of kernel {kernel.name}; only tensors are returned")
        if param.is_output:
            raise TileValueError(f"out_idx names parameter {param.buffer.name} of kernel {kernel.name} twice")
        params[place] = replace(param, is_output=True)
        places.append(place)
    return replace(kernel, params=tuple(params)), tuple(places)
