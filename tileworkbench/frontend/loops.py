"""Loops: those of the kernel, whose body is traced once, and those of Python, which run while the kernel is built.

A kernel loop (`T.serial(n)`, `T.Parallel(m, n)`, ...) is an object that a `for` statement iterates over: it opens a body, yields its
variables once, and emits the loop statement when Python asks for the next element. So it works in functions that were not
rewritten, too; the rewriter adds the names of the variables, and `break` and `continue`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from ..base.errors import TileError, TileSyntaxError, TileTypeError, TileValueError
from ..base.span import Span
from ..ir.expr import Expr, Var, const
from ..ir.node import walk
from ..ir.stmt import Body, Break, Continue, For, If, ParallelFor, PipelinedFor, Stmt
from . import arith
from .builder import Builder, active, current
from .positions import here
from .values import Value, as_expr, plain


def index_expr(value: Any, what: str = "a loop bound") -> Expr:
    """A loop bound as an index expression. Raises: TileTypeError for floats and tiles, which calls the value `what`."""
    found = as_expr(value)
    if found.dtype.is_float:
        got = value if isinstance(value, float) else f"{found.dtype}"
        hint = 'divide with // or T.ceildiv rather than /, or convert with T.cast(x, "int32")'
        raise TileTypeError(f"{what} must be an integer, got {got}", hint=hint)
    return arith.as_index(found)


class KernelLoop:
    """Base of the loops of a kernel: one body, traced once."""

    is_kernel = True
    kind = "serial"
    word = "T.serial"
    names: tuple[str, ...] = ()
    span: Span | None = None  # of the iterable; in a function that was not rewritten, found when iteration starts

    def __iter__(self) -> Iterator[Any]:
        builder = current(self.word)
        self.check(builder)
        return self.trace(builder, self.span or here())

    def trace(self, builder: Builder, span: Span | None) -> Iterator[Any]:
        """Open the body, give the variables once, and emit the loop."""
        variables = self.variables(builder)
        self.check_names(len(variables), span)
        scope = builder.open(self.kind, span)
        try:
            yield Value(variables[0]) if len(variables) == 1 else tuple(Value(v) for v in variables)
        except GeneratorExit:
            builder.fault = _left(self.word, span)
            raise
        builder.emit(self.statement(variables, builder.close(scope), span))

    def check(self, builder: Builder) -> None:
        """Raise if this loop may not stand here."""

    def check_names(self, count: int, span: Span | None) -> None:
        """Raise if the `for` statement unpacks another number of variables than the loop has."""
        if len(self.names) > 1 and len(self.names) != count:
            what = "extent" if count == 1 else "extents"
            names, hint = ", ".join(self.names), "give one name per extent"
            raise TileValueError(f"{self.word} has {count} {what}, but {len(self.names)} loop variables: {names}", span=span, hint=hint)

    def variables(self, builder: Builder) -> tuple[Var, ...]:
        raise NotImplementedError

    def statement(self, variables: tuple[Var, ...], body: Body, span: Span | None) -> Stmt:
        raise NotImplementedError

    def fresh(self, builder: Builder, count: int) -> tuple[Var, ...]:
        """Variables named as in the source, or i, j, k."""
        hints = self.names if len(self.names) == count else tuple("ijklmn"[d % 6] for d in range(count))
        return tuple(Var(builder.fresh(h), hint=h) for h in hints)

    def leave(self) -> bool:
        """`break`: emitted; tracing goes on behind it, so Python does not break."""
        jump("break", self.word).emit(Break())
        return False

    def skip(self) -> bool:
        jump("continue", self.word).emit(Continue())
        return False


class SerialLoop(KernelLoop):
    """`T.serial`, `T.unroll`, `T.vectorized` and `range`."""

    def __init__(self, word: str, form: str, start: Any, stop: Any = None, step: Any = None) -> None:
        self.word = word
        self.form = form
        self.start, self.stop = (const(0), index_expr(start)) if stop is None else (index_expr(start), index_expr(stop))
        size = arith.const_int(index_expr(1 if step is None else step, f"the step of {word}"))
        if size is None or size == 0:
            raise TileValueError(f"the step of {word} must be a constant other than 0", hint="multiply the loop variable instead")
        self.step = size

    def variables(self, builder: Builder) -> tuple[Var, ...]:
        return self.fresh(builder, 1)

    def statement(self, variables: tuple[Var, ...], body: Body, span: Span | None) -> Stmt:
        return For(variables[0], self.start, self.stop, body, self.step, self.form, span=span)


class PipelinedLoop(KernelLoop):
    """`T.Pipelined`."""

    kind = "pipelined"
    word = "T.Pipelined"

    def __init__(self, start: Any, stop: Any, num_stages: Any, order: Any, stage: Any) -> None:
        self.start, self.stop = (const(0), index_expr(start)) if stop is None else (index_expr(start), index_expr(stop))
        stages = arith.const_int(index_expr(num_stages or 0, "num_stages"))
        if stages is None or stages < 0:
            raise TileValueError("num_stages of T.Pipelined must be a constant of 0 or more", hint="it is the number of buffers: 0, 1, 2, ...")
        self.num_stages = stages
        self.order, self.stage = tuple(int(o) for o in order or ()), tuple(int(s) for s in stage or ())

    def check(self, builder: Builder) -> None:
        if builder.in_parallel:
            raise TileValueError(
                "T.Pipelined cannot stand inside T.Parallel", span=self.span or here(), hint="put the T.Parallel loop inside the T.Pipelined one"
            )

    def variables(self, builder: Builder) -> tuple[Var, ...]:
        return self.fresh(builder, 1)

    def statement(self, variables: tuple[Var, ...], body: Body, span: Span | None) -> Stmt:
        return PipelinedFor(variables[0], self.start, self.stop, body, self.num_stages, self.order, self.stage, span=span)


class ParallelLoop(KernelLoop):
    """`T.Parallel`. Directly nested ones become one loop over all their variables."""

    kind = "parallel"
    word = "T.Parallel"

    def __init__(self, extents: tuple[Any, ...]) -> None:
        if not extents:
            raise TileValueError("T.Parallel needs at least one extent", hint="write `for i, j in T.Parallel(M, N)`")
        self.extents = tuple(index_expr(e) for e in extents)

    def check(self, builder: Builder) -> None:
        builder.require_launch("T.Parallel")

    def variables(self, builder: Builder) -> tuple[Var, ...]:
        return self.fresh(builder, len(self.extents))

    def statement(self, variables: tuple[Var, ...], body: Body, span: Span | None) -> Stmt:
        inner = next((n for s in body for n in walk(s) if isinstance(n, ParallelFor)), None)
        if inner is None:
            return ParallelFor(variables, self.extents, body, span=span)
        dependent = any(n in variables for e in inner.extents for n in walk(e))
        if body != (inner,) or dependent:
            what = "an inner T.Parallel extent depends on the outer variable" if dependent else "nested T.Parallel loops with statements between them"
            raise TileValueError(what, span=inner.span, hint="write one loop, `for i, j in T.Parallel(M, N)`, or make the inner one T.serial")
        return ParallelFor((*variables, *inner.vars), (*self.extents, *inner.extents), inner.body, span=span)


class GridLoop(KernelLoop):
    """`T.grid`: nested serial loops."""

    word = "T.grid"

    def __init__(self, extents: tuple[Any, ...]) -> None:
        if not extents:
            raise TileValueError("T.grid needs at least one extent", hint="write `for i, j in T.grid(M, N)`")
        self.extents = tuple(index_expr(e) for e in extents)

    def variables(self, builder: Builder) -> tuple[Var, ...]:
        return self.fresh(builder, len(self.extents))

    def statement(self, variables: tuple[Var, ...], body: Body, span: Span | None) -> Stmt:
        for var, extent in zip(reversed(variables[1:]), reversed(self.extents[1:]), strict=True):
            body = (For(var, const(0), extent, body, span=span),)
        return For(variables[0], const(0), self.extents[0], body, span=span)

    def leave(self) -> bool:
        if len(self.extents) > 1:
            raise TileSyntaxError("`break` would leave only the innermost loop of T.grid", span=here(), hint="write nested T.serial loops")
        return super().leave()


class PersistentLoop(KernelLoop):
    """`T.Persistent`: the tiles of one persistent block, wave by wave; `group_size` rows of tiles are visited column by column."""

    word = "T.Persistent"

    def __init__(self, domain: Any, wave_size: Any, index: Any, group_size: Any) -> None:
        self.domain = tuple(Value(index_expr(d)) for d in (domain if isinstance(domain, tuple | list) else (domain,)))
        self.wave, self.index, self.group = Value(index_expr(wave_size)), Value(index_expr(index)), group_size

    def trace(self, builder: Builder, span: Span | None) -> Iterator[Any]:
        self.check_names(len(self.domain), span)
        names = self.names if len(self.names) == len(self.domain) else ("m", "n", "k", "l")[: len(self.domain)]
        total = self.domain[0]
        for extent in self.domain[1:]:
            total = total * extent
        wave = Var(builder.fresh("wave"))
        loop = builder.open("serial", span)
        tile = Value(builder.bind((Value(wave) * self.wave + self.index).expr, "tile"))
        inside = builder.open("if", span)
        coordinates = tuple(Value(builder.bind(c.expr, n)) for n, c in zip(names, self._coordinates(tile), strict=True))
        try:
            yield coordinates if len(coordinates) > 1 else coordinates[0]
        except GeneratorExit:
            builder.fault = _left(self.word, span)
            raise
        builder.emit(If((tile < total).expr, builder.close(inside), span=span))
        waves = (total + self.wave - 1) // self.wave
        builder.emit(For(wave, const(0), waves.expr, builder.close(loop), span=span))

    def _coordinates(self, tile: Value) -> list[Value]:
        out: list[Value] = []
        for extent in reversed(self.domain[2:]):
            out.insert(0, tile % extent)
            tile = tile // extent
        if len(self.domain) == 1:
            return [tile]
        rows, columns = self.domain[:2]
        first = tile // (columns * self.group) * self.group
        height = Value(arith.binary("min", (rows - first).expr, index_expr(self.group)))
        place = tile % (columns * self.group)
        return [first + place % height, place // height, *out]


class PythonLoop:
    """A loop over Python values: it runs while the kernel is built, once per element."""

    is_kernel = False

    def __init__(self, values: Iterable[Any]) -> None:
        self.values = values
        self.depth = 0

    def __iter__(self) -> Iterator[Any]:
        builder = active()
        self.depth = len(builder.scopes) if builder is not None else 0
        return iter(self.values)

    def leave(self) -> bool:
        return leave_python_loop("break", self.depth)

    def skip(self) -> bool:
        return leave_python_loop("continue", self.depth)


def loop(iterable: Any, names: tuple[str, ...] = ()) -> KernelLoop | PythonLoop:
    """What a `for` statement iterates over; `range` inside a launch is a serial loop of the kernel."""
    if type(iterable) is range:
        builder = active()
        if builder is None or builder.launch is None:
            return PythonLoop(iterable)
        iterable = SerialLoop("range", "serial", iterable.start, iterable.stop, iterable.step)
    if isinstance(iterable, KernelLoop):
        iterable.names, iterable.span = names, here()
        return iterable
    return PythonLoop(iterable)


def each(iterable: Any, names: tuple[str, ...] = ()) -> KernelLoop | PythonLoop:
    """As `loop`, in a helper function: `range` over Python ints stays a loop of Python."""
    return PythonLoop(iterable) if type(iterable) is range else loop(iterable, names)


def kernel_range(*bounds: Any) -> range | SerialLoop:
    """`range` with kernel values: a serial loop; with Python ints: `range`."""
    if not any(isinstance(b, Value) for b in bounds):
        return range(*bounds)
    numbers = [plain(b.expr) if isinstance(b, Value) else b for b in bounds]
    return SerialLoop("range", "serial", *numbers)


def jump(statement: str, word: str) -> Builder:
    """The builder to emit a `break` or `continue` into. Raises: TileSyntaxError in T.Parallel, whose iterations are independent."""
    builder = current(statement)
    inner = next((s for s in reversed(builder.scopes) if s.kind != "if"), None)
    if inner is not None and inner.kind == "parallel":
        raise TileSyntaxError(f"`{statement}` in T.Parallel, whose iterations are independent", span=here(), hint="guard the statements with `if`")
    return builder


def leave_python_loop(statement: str, depth: int) -> bool:
    """True: Python leaves its loop. Raises: TileSyntaxError under a kernel condition, because the loop has run before the kernel does."""
    if len(current().scopes) > depth:
        raise TileSyntaxError(
            f"`{statement}` depends on a kernel value, but its loop runs while the kernel is built", span=here(),
            hint="loop with T.serial(n), so that the loop belongs to the kernel",
        )  # fmt: skip
    return True


def _left(word: str, span: Span | None) -> TileError:
    return TileSyntaxError(
        f"the {word} loop was left early by Python", span=span, hint="decorate the function with @T.macro, so that `break` belongs to the kernel"
    )
