"""A product without a matrix instruction: each thread sums up the results that it holds.

Before:  gemm acc += A_tile @ B_tile                       (64 x 64 x 16 float32, acc in 8 x 4 registers of each of 128 threads)
After:   for k in 0..4: left[8, 4] = A_tile[rows, k * 4 :+ 4]
                        for x in unroll(0, 4): right[4] = B_tile[k * 4 + x, columns]; acc_r += left[:, x] * right

A step of k reads every row and every column of the thread's results once. Factors that lie along k are read for several steps at a time, which may
be one access.
"""

from __future__ import annotations

from ..base.dtypes import FLOAT32
from ..ir.build import TRUE, add, cast, every, index, mul
from ..ir.expr import Binary, Const, Expr, Load, Select, is_const
from ..ir.stmt import Body, For, Gemm, If, Region, Store, Sync
from ..layout.fragments import Fragment, own_registers
from .held_tiles import coordinates, is_first, is_live, register_at
from .spread_tiles import Spreading, guarded, moved

_STEPS = (4, 2)
_MOST_REGISTERS = 32  # for a factor of several steps


def spread_product(stmt: Gemm, s: Spreading) -> Body:
    """`stmt` for a thread."""
    k = stmt.a.static_extents()[-2 if stmt.trans_a else -1]
    held = s.place.fragments.get(stmt.c.buffer)
    cells = held if held is not None else s.place.units[id(stmt)].c
    dtype = stmt.c.buffer.type
    work = FLOAT32 if dtype.is_float and dtype.bits < 32 else dtype
    in_place = held is not None and work == dtype
    sums = s.arrays[stmt.c.buffer] if in_place else s.array("sums", cells.registers, work)
    lead = tuple(index(0) for _ in stmt.c.extents[:-2])

    def start(register: Expr) -> Body | None:
        cell = coordinates(cells, s.thread, register)
        old = Load(s.arrays[stmt.c.buffer], (register,)) if held is not None else Load(stmt.c.buffer, moved(stmt.c, (*lead, *cell)))
        zero = Const(0.0 if work.is_float else 0, work)
        value = Select(stmt.clear, zero, cast(old, work)) if not isinstance(stmt.clear, Const) else zero if stmt.clear.value else cast(old, work)
        alone = TRUE if held is not None else is_first(cells, s.thread)  # the one that will write it
        return guarded(every([is_live(cells, s.thread, cell), alone]), Store(sums, (register,), value))

    rows, columns = cells.drop(1), cells.drop(0)
    along = [(not stmt.trans_a, rows.registers), (stmt.trans_b, columns.registers)]
    steps = next((n for n in _STEPS if k % n == 0 and any(lies and count * n <= _MOST_REGISTERS for lies, count in along)), 1)
    deep = [steps if lies and count * steps <= _MOST_REGISTERS else 1 for lies, count in along]
    depth, turn = s.names.var("k"), s.names.var("x") if steps > 1 else index(0)
    sides = _Side(stmt, stmt.a, rows, stmt.trans_a, deep[0], s), _Side(stmt, stmt.b, columns, not stmt.trans_b, deep[1], s)
    tables = own_registers(cells, rows, cells.cells()[:1]), own_registers(cells, columns, cells.cells()[1:])

    def sum_up(register: Expr) -> Body | None:
        factors = []
        for side, table in zip(sides, tables, strict=True):
            at = None if table is None else register_at(cells, table, register)
            if at is None:
                return None
            factors.append(side.at(at, turn))
        value = Binary("add", Load(sums, (register,)), Binary("mul", factors[0], factors[1]))
        return guarded(is_live(cells, s.thread, coordinates(cells, s.thread, register)), Store(sums, (register,), value))

    def finish(register: Expr) -> Body | None:
        cell = coordinates(cells, s.thread, register)
        value = cast(Load(sums, (register,)), dtype)
        if held is not None:
            return guarded(is_live(cells, s.thread, cell), Store(s.arrays[stmt.c.buffer], (register,), value))
        test = every([is_live(cells, s.thread, cell), is_first(cells, s.thread)])
        return guarded(test, Store(stmt.c.buffer, moved(stmt.c, (*lead, *cell)), value))

    first = mul(depth, index(steps))
    once = tuple(x for side in sides if side.steps == steps for x in side.take(first))
    each = (*(x for side in sides if side.steps < steps for x in side.take(add(first, turn))), *s.each(cells, sum_up, stmt))
    inside = each if isinstance(turn, Const) else (For(turn, index(0), index(steps), each, kind="unroll", span=stmt.span),)
    walk = For(depth, index(0), index(k // steps), (*once, *inside), span=stmt.span)
    meet = (Sync(),) if stmt.c.buffer.root in (stmt.a.buffer.root, stmt.b.buffer.root) else ()  # the factors are read before a result is written
    before = () if in_place and is_const(stmt.clear, False) else s.each(cells, start, stmt)
    return (*before, walk, *meet, *(() if in_place else s.each(cells, finish, stmt)))


class _Side:
    """One factor: the lines (rows of the left one, columns of the right one) of a thread's results, `steps` elements of each at a time."""

    def __init__(self, stmt: Gemm, region: Region, lines: Fragment, turned: bool, steps: int, s: Spreading) -> None:
        self.stmt, self.region, self.lines, self.turned, self.steps, self.s = stmt, region, lines, turned, steps, s
        dtype = stmt.c.buffer.type
        self.work = FLOAT32 if dtype.is_float and dtype.bits < 32 else dtype
        self.array = s.array("right" if region is stmt.b else "left", lines.registers * steps, self.work)

    def take(self, first: Expr) -> Body:
        """Read the steps from `first` on."""
        lead = tuple(index(0) for _ in self.region.extents[:-2])
        further = self.s.names.var("x") if self.steps > 1 else index(0)

        def read(register: Expr) -> Body:
            cell = coordinates(self.lines, self.s.thread, register)
            k = add(first, further)
            value = cast(Load(self.region.buffer, moved(self.region, (*lead, *((k, *cell) if self.turned else (*cell, k))))), self.work)
            body: Body = (Store(self.array, (add(mul(register, index(self.steps)), further),), value),)
            if not isinstance(further, Const):
                body = (For(further, index(0), index(self.steps), body, kind="unroll", span=self.stmt.span),)
            test = is_live(self.lines, self.s.thread, cell)
            return body if test == TRUE else (If(test, body),)

        return self.s.each(self.lines, read, self.stmt)

    def at(self, line: Expr, turn: Expr) -> Expr:
        """The element of a line for a step."""
        return Load(self.array, (add(mul(line, index(self.steps)), turn) if self.steps > 1 else line,))
