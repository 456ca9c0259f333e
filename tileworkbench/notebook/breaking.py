"""Break a kernel on purpose: a copy of it with one thing left out or changed, found from its structure.

Before:  m = max(m, rows of S);  P = exp(S - m);  l = l * fade + sum(P);  O = O * fade;  O += P V
After "no rescale":    the factor `fade` of l and O is left out
After "wrong maximum": m is the maximum of this step's scores alone, and what came before is not scaled to it
After "no maximum":    m stays 0, so exp takes the scores as they are

Requires: a kernel of two products in a loop, the second on what became of the first (see `model/roles.py`).  Preserves: everything else.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace as with_fields

from ..base.errors import TileValueError
from ..ir.expr import Binary, Buffer, Const, Expr, Load
from ..ir.node import Node, replace, rewrite, walk
from ..ir.stmt import Fill, For, Kernel, ParallelFor, PipelinedFor, Reduce, Store
from ..model.roles import Roles, find_roles
from ..runtime.compiling import compile_ir
from ..runtime.kernel import JITKernel

Change = Callable[[Kernel, Roles], Kernel]


def break_it(kernel: JITKernel, fault: str) -> JITKernel:
    """`kernel` with a fault built in, compiled for the same target. Run it to see what the part that is missing was for.

    Raises: TileValueError for a fault that there is not (`FAULTS` lists them), or a kernel that has no such part.
    """
    change = _CHANGES.get(fault)
    if change is None:
        raise TileValueError(f"no fault is called {fault!r}", hint=f"the faults are {', '.join(FAULTS)}")
    roles = find_roles(kernel.ir)
    if any(roles.of(name) is None for name in ("m", "l", "O")):
        raise TileValueError(f"{kernel.name} is not attention: it has no running maximum, sum and result to break")
    broken = change(kernel.ir, roles)
    if broken is kernel.ir:
        raise TileValueError(f"{kernel.name} has nothing that {fault!r} would change")
    name = f"{broken.name}_{fault.replace(' ', '_')}"
    params = [i for i, p in enumerate(kernel.signature.params) if getattr(p, "is_output", False)]
    options = with_fields(kernel.options, out_idx=(), target=kernel.target)
    return compile_ir(replace(broken, name=name), options, outputs=tuple(params), schedule=kernel.schedule)


def _no_rescale(kernel: Kernel, roles: Roles) -> Kernel:
    running = {roles.of("l").buffer, roles.of("O").buffer}  # type: ignore[union-attr]  # break_it checked them
    return _in_loop(kernel, roles, lambda node: _unscaled(node, running))


def _wrong_maximum(kernel: Kernel, roles: Roles) -> Kernel:
    top = roles.of("m").buffer  # type: ignore[union-attr]  # break_it checked it
    return _no_rescale(_in_loop(kernel, roles, lambda n: replace(n, clear=True) if isinstance(n, Reduce) and n.dst.buffer.name == top else n), roles)


def _no_maximum(kernel: Kernel, roles: Roles) -> Kernel:
    top = roles.of("m").buffer  # type: ignore[union-attr]  # break_it checked it

    def change(node: Node) -> Node | None:
        match node:
            case Reduce(dst=dst) if dst.buffer.name == top:
                return None
            case Fill(dst, value) if dst.buffer.name == top:
                return replace(node, value=Const(0.0, value.dtype))
            case _:
                return node

    return rewrite(kernel, change)


def _in_loop(kernel: Kernel, roles: Roles, change: Callable[[Node], Node | None]) -> Kernel:
    """`kernel` with `change` applied to the statements of its tile loop."""
    loop = roles.loop

    def enter(node: Node) -> Node | None:
        return rewrite(node, change) if isinstance(node, For | PipelinedFor) and loop is not None and node.var == loop.var else node

    return rewrite(kernel, enter)


def _unscaled(node: Node, running: set[str]) -> Node | None:
    """A store to a running buffer without the factor of its old value; nothing, where only the factor was there."""
    match node:
        case Store(buffer, indices, value) if buffer.name in running:
            without = rewrite(value, lambda e: _without_factor(e, buffer))
            return None if isinstance(without, Load) and without.buffer == buffer and without.indices == indices else replace(node, value=without)
        case ParallelFor(body=body) if not any(isinstance(s, Store) for s in walk(node)) and len(body) == 0:
            return None
        case _:
            return node


def _without_factor(expr: Node, buffer: Buffer) -> Node:
    match expr:
        case Binary("mul", Load() as old, Expr()) if old.buffer == buffer:
            return old
        case Binary("mul", Expr(), Load() as old) if old.buffer == buffer:
            return old
        case _:
            return expr


_CHANGES: dict[str, Change] = {"no rescale": _no_rescale, "wrong maximum": _wrong_maximum, "no maximum": _no_maximum}
FAULTS = tuple(_CHANGES)
