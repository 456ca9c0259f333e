"""A kernel as text: Python-like, indented, stable.

The text is complete: two kernels that pass the verifier and differ in anything but spans and hints print differently, so the text serves as the
key of the compile cache. Conventions: literals carry their dtype (`1.0f32`, `3i32`), except index integers (`3`) and `True`/`False`; variables
show a dtype where they are bound, unless it is the index dtype; a region prints `start :+ extent` per dim, or only its buffer's name when it
covers the whole; a cast prints as a call of its dtype.

>>> from ..base.dtypes import FLOAT32
>>> print_expr(Binary("mul", Binary("add", Var("i"), Const(1)), Cast(Const(0.5, FLOAT32), INDEX)))
'(i + 1) * int64(0.5f32)'
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, fields
from typing import Any

from ..base.dtypes import INDEX, DType
from ..base.span import Span
from .expr import AddressOf, Binary, Buffer, CallExtern, Cast, Const, Expr, Load, Reinterpret, Select, Unary, Var
from .node import Node, walk
from .stmt import (
    Assert,
    Atomic,
    Body,
    Break,
    Collective,
    Continue,
    Copy,
    Evaluate,
    Fill,
    For,
    Gemm,
    If,
    Kernel,
    Launch,
    Let,
    ParallelFor,
    PipelinedFor,
    Print,
    Reduce,
    Region,
    Return,
    ScalarParam,
    Scan,
    Stmt,
    Store,
    Sync,
    TensorParam,
    While,
)

Line = tuple[str, Span | None]  # a printed line, and where it was written
ShowExpr = Callable[[Expr], str]
ShowBuffer = Callable[[Buffer], str]


@dataclass(frozen=True, slots=True)
class LaterStage:
    """How a module with nodes of a later stage prints them; each function gives None for a node that is not its own."""

    expr: Callable[[Expr, ShowExpr, ShowBuffer], str | None]
    head: Callable[[Stmt, ShowExpr, ShowBuffer], str | None]
    body: Callable[[Stmt], Body | None]


LATER_STAGES: list[LaterStage] = []  # filled by the modules themselves, so that a traced kernel can be printed without loading them

_SUFFIX = {
    "float64": "f64", "float32": "f32", "tfloat32": "tf32", "float16": "f16", "bfloat16": "bf16", "float8_e4m3fn": "e4m3", "float8_e5m2": "e5m2",
    **{f"int{b}": f"i{b}" for b in (4, 8, 16, 32, 64)}, **{f"uint{b}": f"u{b}" for b in (4, 8, 16, 32, 64)},
}  # fmt: skip
# op: (spelling, how tightly it binds); Python's order
_INFIX = {
    "or": ("or", 2), "and": ("and", 3),
    "lt": ("<", 5), "le": ("<=", 5), "gt": (">", 5), "ge": (">=", 5), "eq": ("==", 5), "ne": ("!=", 5),
    "bitor": ("|", 6), "bitxor": ("^", 7), "bitand": ("&", 8), "shl": ("<<", 9), "shr": (">>", 9),
    "add": ("+", 10), "sub": ("-", 10), "mul": ("*", 11), "div": ("/", 11), "floordiv": ("//", 11), "floormod": ("%", 11),
}  # fmt: skip
_PREFIX = {"not": ("not ", 4), "neg": ("-", 12), "bitnot": ("~", 12)}
_TERNARY, _COMPARE, _ATOM = 1, 5, 20


def _later_body(s: Stmt) -> Body | None:
    return next((body for stage in LATER_STAGES if (body := stage.body(s)) is not None), None)


def print_kernel(kernel: Kernel, spans: bool = False) -> str:
    """The whole kernel as text, without a newline at the end; with `spans`, each statement ends in a comment with its file and line."""
    return "\n".join(text for text, _ in _Printer(_name_buffers(kernel), spans).kernel(kernel))


def print_lines(kernel: Kernel) -> tuple[Line, ...]:
    """The lines of `print_kernel`, each with the span that it was written at; None for lines of no statement."""
    return tuple(_Printer(_name_buffers(kernel), False).kernel(kernel))


def print_stmt(stmt: Stmt, spans: bool = False) -> str:
    """One statement and its body as text; buffers show as their names only."""
    return "\n".join(text for text, _ in _Printer({}, spans).stmt(stmt, 0))


def print_expr(expr: Expr) -> str:
    """An expression, or a region, as text on one line."""
    printer = _Printer({}, False)
    return printer.region(expr) if isinstance(expr, Region) else printer.expr(expr)


def _name_buffers(kernel: Kernel) -> dict[Buffer, str]:
    """A text name per buffer. Names are unique in a kernel; a second buffer of one name gets a number all the same, so no two texts coincide."""
    names: dict[Buffer, str] = {}
    used: dict[str, int] = {}
    stack: list[Buffer] = []
    for node in walk(kernel):
        if isinstance(node, Buffer):
            stack.append(node)
            while stack[-1].view_of is not None:
                stack.append(stack[-1].view_of)
            while stack:  # the owner of the storage first
                buffer = stack.pop()
                if buffer not in names:
                    count = used[buffer.name] = used.get(buffer.name, 0) + 1
                    names[buffer] = _word(buffer.name) + (f"#{count}" if count > 1 else "")
    return names


def _word(name: str) -> str:
    return name if name.isidentifier() else repr(name)


class _Printer:
    """Names of buffers, and whether to show spans."""

    def __init__(self, names: dict[Buffer, str], spans: bool) -> None:
        self.names = names
        self.spans = spans

    # ------------------------------------------------------------------------------------------ expressions
    def expr(self, e: Expr, tight: int = 0) -> str:
        """`e`, in parentheses if it binds less tightly than `tight`."""
        match e:
            case Const():
                return _literal(e)
            case Var():
                return _word(e.name)
            case Binary(op, a, b) if op in _INFIX:
                word, rank = _INFIX[op]
                # comparisons would chain, so neither side of one may be another
                text = f"{self.expr(a, rank + (rank == _COMPARE))} {word} {self.expr(b, rank + 1)}"
                return f"({text})" if rank < tight else text
            case Load(buffer, indices):
                return f"{self.buffer(buffer)}[{self.list(indices)}]"
            case Binary(op, a, b):
                return f"{op}({self.expr(a)}, {self.expr(b)})"
            case Cast(x, to):
                return f"{to}({self.expr(x)})"
            case Unary(op, x) if op in _PREFIX:
                word, rank = _PREFIX[op]
                inner = f"({self.expr(x)})" if isinstance(x, Const) else self.expr(x, rank)
                return f"({word}{inner})" if rank < tight else word + inner
            case Unary(op, x):
                return f"{op}({self.expr(x)})"
            case Select(cond, then, other):
                text = f"{self.expr(then, _TERNARY + 1)} if {self.expr(cond, _TERNARY + 1)} else {self.expr(other, _TERNARY)}"
                return f"({text})" if tight > _TERNARY else text
            case Reinterpret(x, to):
                return f"reinterpret({self.expr(x)}, {to})"
            case CallExtern(name, args, to):
                return f"extern[{name!r}, {to}]({self.list(args)})"
            case AddressOf(buffer, indices):
                return f"address_of({self.buffer(buffer)}[{self.list(indices)}])"
            case _:
                return self.later(e) or self.generic(e)

    def later(self, e: Expr) -> str | None:
        """An expression of a later stage, if some stage knows it."""
        return next((text for stage in LATER_STAGES if (text := stage.expr(e, self.expr, self.buffer)) is not None), None)

    def list(self, items: Iterable[Expr]) -> str:
        return ", ".join([self.expr(i) for i in items])

    def buffer(self, buffer: Buffer) -> str:
        return self.names.get(buffer) or _word(buffer.name)

    def region(self, r: Region) -> str:
        if r.extents == r.buffer.shape and all(isinstance(s, Const) and s == _ZERO for s in r.starts) and len(r.starts) == r.buffer.rank:
            return self.buffer(r.buffer)
        starts, extents = list(r.starts), list(r.extents)
        parts = [f"{self.expr(s)} :+ {self.expr(e)}" for s, e in zip(starts, extents, strict=False)]
        parts += [f"{self.expr(s)} :+ ?" for s in starts[len(parts) :]] + [f"? :+ {self.expr(e)}" for e in extents[len(parts) :]]
        return f"{self.buffer(r.buffer)}[{', '.join(parts)}]"

    def operand(self, value: Expr | Region | None) -> str:
        return "none" if value is None else self.region(value) if isinstance(value, Region) else self.expr(value)

    def bound(self, var: Var) -> str:
        """A variable where it is bound."""
        return _word(var.name) if var.type == INDEX else f"{_word(var.name)}: {var.type}"

    def generic(self, node: Any) -> str:
        """A node that this module does not know (one of a later stage), field by field."""
        if isinstance(node, Expr) and type(node) in _KNOWN_EXPR:
            return self.expr(node)
        if isinstance(node, Expr) and (text := self.later(node)) is not None:
            return text
        if isinstance(node, Region):
            return self.region(node)
        if isinstance(node, Buffer):
            return self.buffer(node)
        if isinstance(node, tuple):
            return "(" + "".join(f"{self.generic(item)}, " for item in node) + ")"
        if isinstance(node, Node):
            shown = [f"{f.name}={self.generic(getattr(node, f.name))}" for f in fields(node) if f.name != "span"]
            return f"{type(node).__name__}({', '.join(shown)})"
        return repr(node)

    # ------------------------------------------------------------------------------------------ statements
    def body(self, body: tuple[Stmt, ...], depth: int) -> Iterator[Line]:
        for stmt in body:
            yield from self.stmt(stmt, depth)
        if not body:
            yield "  " * depth + "pass", None

    def stmt(self, s: Stmt, depth: int) -> Iterator[Line]:
        head = "  " * depth + self.head(s)
        if self.spans and s.span is not None:
            head += f"  # {s.span.label or s.span.file}:{s.span.line}"
        yield head, s.span
        match s:
            case If(_, then, other):
                yield from self.body(then, depth + 1)
                if other:
                    yield "  " * depth + "else:", None
                    yield from self.body(other, depth + 1)
            case Launch(allocs=allocs, body=body):
                for buffer in allocs:
                    yield "  " * (depth + 1) + f"alloc {self.declaration(buffer)}", buffer.span
                yield from self.body(body, depth + 1)
            case ParallelFor(body=body) | For(body=body) | PipelinedFor(body=body) | While(body=body):
                yield from self.body(body, depth + 1)
            case _ if (inside := _later_body(s)) is not None:
                yield from self.body(inside, depth + 1)
            case _ if type(s) not in _KNOWN_STMT:
                for name, value in _bodies(s):
                    yield "  " * (depth + 1) + f"{name}:", None
                    yield from self.body(value, depth + 2)

    def head(self, s: Stmt) -> str:
        """The first line of a statement, without indentation."""
        match s:
            case Let(var, value):
                return f"let {self.bound(var)} = {self.expr(value)}"
            case Store(buffer, indices, value):
                return f"{self.buffer(buffer)}[{self.list(indices)}] = {self.expr(value)}"
            case Copy(src, dst, is_async, pieces):
                by = f", {pieces} bytes at a time, not waited for" if pieces else ""
                return f"{'async_' if is_async else ''}copy {self.region(dst)} <- {self.region(src)}{by}"
            case Fill(dst, value):
                return f"fill {self.region(dst)} <- {self.expr(value)}"
            case Gemm(a, b, c, trans_a, trans_b, clear, policy, is_async, unit, apart):
                left, right = self.region(a) + ".T" * trans_a, self.region(b) + ".T" * trans_b
                how = (f", by {unit}" if unit else "") + ("" if apart == (0, 0) else f", apart {apart}")
                return f"{'async_' * is_async}gemm {self.region(c)} += {left} @ {right}, clear={self.expr(clear)}, policy={policy!r}{how}"
            case Reduce(op, src, dst, dim, clear, nan, share):
                flags = ("" if clear else ", keep") + (", nan" if nan else "") + (f", {share}" if share else "")
                return f"reduce {self.region(dst)} <- {op!r} of {self.region(src)} over {dim}{flags}"
            case Scan(op, src, dst, dim, reverse):
                return f"scan {self.region(dst)} <- {op!r} of {self.region(src)} along {dim}" + (", reverse" if reverse else "")
            case Atomic(op, dst, value, result, order):
                into = f"let {self.bound(result)} = " if result is not None else ""
                return f"{into}atomic {op!r} {self.region(dst)} <- {self.operand(value)}, {order!r}"
            case ParallelFor(loop_vars, extents):
                return f"for {', '.join([self.bound(v) for v in loop_vars])} in parallel({self.list(extents)}):"
            case For(var, start, stop, _, step, kind):
                by = f", step={step}" if step != 1 else ""
                return f"for {self.bound(var)} in {kind}({self.expr(start)}, {self.expr(stop)}{by}):"
            case PipelinedFor(var, start, stop, _, num_stages, order, stage):
                plan = f", order={order}, stage={stage}" if order or stage else ""
                return f"for {self.bound(var)} in pipelined({self.expr(start)}, {self.expr(stop)}, num_stages={num_stages}{plan}):"
            case While(cond):
                return f"while {self.expr(cond)}:"
            case If(cond):
                return f"if {self.expr(cond)}:"
            case Break():
                return "break"
            case Continue():
                return "continue"
            case Return():
                return "return"
            case Sync(scope):
                return f"sync {scope!r}"
            case Collective(op, result, args, width):
                return f"let {self.bound(result)} = collective {op!r} ({self.list(args)}), width={width}"
            case Print(message, values, buffer):
                return f"print {message!r} ({self.list(values)})" + (f" of {self.buffer(buffer)}" if buffer is not None else "")
            case Assert(cond, message):
                return f"assert {self.expr(cond)}, {message!r}"
            case Evaluate(value):
                return f"evaluate {self.expr(value)}"
            case Launch():
                return self.launch(s)
            case _ if texts := [text for stage in LATER_STAGES if (text := stage.head(s, self.expr, self.buffer)) is not None]:
                return texts[0]
            case _:
                shown = [f"{f.name}={self.generic(getattr(s, f.name))}" for f in fields(s) if f.name != "span" and not _is_body(getattr(s, f.name))]
                return f"{type(s).__name__}({', '.join(shown)})"

    def launch(self, s: Launch) -> str:
        blocks = f"({', '.join([self.bound(v) for v in s.block_vars])}) in ({self.list(s.grid)})"
        threads = f"({', '.join([self.bound(v) for v in s.thread_vars])}) in {s.threads}{' visible' if s.threads_used else ''}"
        clusters = f", clusters {s.cluster}" if s.cluster != (1, 1, 1) else ""
        return f"launch blocks {blocks}{clusters}, threads {threads}{''.join(f', {k!r}={v!r}' for k, v in s.hints)}:"

    # ------------------------------------------------------------------------------------------ kernels
    def declaration(self, b: Buffer) -> str:
        text = f"{self.buffer(b)}: {b.scope} {b.type}[{self.list(b.shape)}]"
        if b.strides is not None:
            text += f", strides=[{self.list(b.strides)}]"
        if b.safe_value is not None:
            text += f", safe_value={b.safe_value!r}"
        if b.view_of is not None:
            text += f", view of {self.buffer(b.view_of)}"
        return text + (f", offset={self.expr(b.offset)}" if b.offset is not None else "")

    def kernel(self, k: Kernel) -> Iterator[Line]:
        yield f"kernel {k.name!r}:", k.span
        for source in k.imports:
            yield f"  import {source!r}", None
        for key, value in k.attrs:
            yield f"  attr {key!r} = {value!r}", None
        for dim in k.dims:
            yield f"  dim {self.bound(dim)}", dim.span
        for param in k.params:
            match param:
                case TensorParam(buffer, is_output, const_dims):
                    baked = f", const_dims={const_dims}" if const_dims else ""
                    yield f"  {'output' if is_output else 'tensor'} {self.declaration(buffer)}{baked}", param.span or buffer.span
                case ScalarParam(var, default):
                    yield f"  scalar {_word(var.name)}: {var.type}" + (f" = {default!r}" if default is not None else ""), param.span or var.span
        for buffer in k.workspaces:
            yield f"  workspace {self.declaration(buffer)}", buffer.span
        shown = {p.buffer for p in k.params if isinstance(p, TensorParam)} | set(k.workspaces) | {b for launch in k.launches for b in launch.allocs}
        for buffer in self.names:
            if buffer not in shown:  # views of arguments, and anything that nobody declared
                yield f"  buffer {self.declaration(buffer)}", buffer.span
        yield from self.body(k.body, 1)


_ZERO = Const(0)
_KNOWN_EXPR = (Const, Var, Load, Unary, Binary, Select, Cast, Reinterpret, CallExtern, AddressOf)
_KNOWN_STMT = (
    Let, Store, Copy, Fill, Gemm, Reduce, Scan, Atomic, ParallelFor, For, PipelinedFor, While, If, Break, Continue, Return,
    Sync, Collective, Print, Assert, Evaluate, Launch,
)  # fmt: skip


def _literal(c: Const) -> str:
    kind: DType = c.type
    if kind.is_bool:
        return "True" if c.value else "False"
    if not kind.is_float:
        return f"{int(c.value)}" + ("" if kind == INDEX else _SUFFIX[kind])
    text = repr(float(c.value))
    return f"{text}.{_SUFFIX[kind]}" if text[-1] in "fn" else text + _SUFFIX[kind]  # inf and nan need a dot, or they would read as names


def _is_body(value: Any) -> bool:
    return isinstance(value, tuple) and bool(value) and isinstance(value[0], Stmt)


def _bodies(s: Stmt) -> Iterator[tuple[str, tuple[Stmt, ...]]]:
    for f in fields(s):
        value = getattr(s, f.name)
        if _is_body(value):
            yield f.name, value
