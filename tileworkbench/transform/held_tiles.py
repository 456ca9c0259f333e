"""Code for tiles that threads hold in registers: where a register's cell lies, whether there is one, and which register a cell is in.

Formulas come from the digits of a fragment (`layout/fragments.py`); `register_at` finds one for a table of registers, or none.
"""

from __future__ import annotations

from math import prod

import numpy as np

from ..base.dtypes import INDEX
from ..ir.build import add, every, index, mul, total
from ..ir.expr import Binary, Const, Expr
from ..layout.algebra import Array
from ..layout.fragments import Digit, Fragment, steps_of


def coordinates(fragment: Fragment, thread: Expr, register: Expr) -> tuple[Expr, ...]:
    """The cell that `register` of `thread` holds, if it holds one."""
    out = []
    for dim in range(len(fragment.shape)):
        moves = [mul(_digit(fragment, d, thread, register), index(d.stride)) for d in fragment.digits if d.dim == dim]
        out.append(total(moves))
    return tuple(out)


def is_live(fragment: Fragment, thread: Expr, cell: tuple[Expr, ...]) -> Expr:
    """The test that a register holds a cell, where `cell` are its coordinates; certain parts are left out."""
    cells, tests = fragment.cells(), list[Expr]()
    used = prod(d.mod for d in fragment.digits if d.source == "thread")
    if used < fragment.threads:
        tests.append(Binary("lt", thread, index(used)))
    for dim, size in enumerate(fragment.shape):
        last = sum((d.mod - 1) * d.stride for d in fragment.digits if d.dim == dim)
        if last >= size:
            tests.append(Binary("lt", cell[dim], index(size)))
    assert tests or np.all(cells >= 0)
    return every(tests)


def is_first(fragment: Fragment, thread: Expr) -> Expr:
    """The test that no thread before this one holds the same cells."""
    copies = [d for d in fragment.digits if d.source == "thread" and d.dim < 0 and d.mod > 1]
    return every(Binary("eq", _digit(fragment, d, thread, index(0)), index(0)) for d in copies)


def register_at(loop: Fragment, registers: Array, register: Expr) -> Expr | None:
    """`registers[register]` as a formula of the digits of the loop's register; None where there is none."""
    if isinstance(register, Const):
        return index(max(0, int(registers[int(register.value)])))
    asked = np.nonzero(registers >= 0)[0]
    if np.array_equal(registers[asked], asked):
        return register
    steps = steps_of(loop, registers)
    if steps is None:
        return None
    return add(total(mul(_digit(loop, d, register, register), index(step)) for d, step in steps.items()), index(int(registers[0])))


def _digit(fragment: Fragment, d: Digit, thread: Expr, register: Expr) -> Expr:
    number, count = (thread, fragment.threads) if d.source == "thread" else (register, fragment.registers)
    if isinstance(number, Const):
        return index(int(number.value) // d.div % d.mod)
    value = Binary("floordiv", number, Const(d.div, INDEX)) if d.div > 1 else number
    return Binary("floormod", value, Const(d.mod, INDEX)) if d.div * d.mod < count else value
