"""What a call does around its launches, as lines of Python: bindings, branches and loops over dims and scalars, which targets fill with launches.

    h0 = (d0 // 2)
    for h1 in range(0, s0, 1):
      <launch 0>

Values are those of the interpreter (`interpret.arithmetic`), so that every dtype computes as it does in a kernel; int64 and bool are Python's own.
Names of these lines: dims d0, d1, ..., scalars s0, ..., and h0, ... for what the lines bind.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..base.dtypes import BOOL, INDEX, DType
from ..base.errors import UnsupportedError
from ..codegen.cuda_source import RunKernel
from ..interpret.arithmetic import binary, caster, reinterpreter, rounder, scalar, unary
from ..ir.expr import Binary, Cast, Const, Expr, Reinterpret, Select, Unary, Var
from ..ir.lowered import Fail, Loop, PrintLine, Text
from ..ir.stmt import Body, Break, Continue, If, Let, Stmt, While
from .expressions import HELPERS

_INFIX = {"add": "+", "sub": "-", "mul": "*", "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!=", "and": "and", "or": "or"}
_HELPER = re.compile(r"\b(given|scalar|binary|unary|cast|reinterpret)__(\w+?)(?:__(\w+))?\(")


@dataclass(frozen=True, slots=True)
class HostLine:
    """One line at a depth; with `kernel` from 0 on the place of that kernel's launch."""

    depth: int
    text: str = ""
    kernel: int = -1


def host_lines(body: Body, names: dict[str, str]) -> tuple[HostLine, ...]:
    """The lines of a host program. `names` holds Python's names of dims and scalars, and gets those of what the program binds.

    Raises: UnsupportedError for what can only happen inside a launch.
    """
    scalars = {name for name, python in names.items() if python.startswith("s")}
    return tuple(_Lines(names, scalars).body(body, 0))


class _Lines:
    def __init__(self, names: dict[str, str], scalars: set[str]) -> None:
        self.names, self.scalars = names, scalars

    def body(self, body: Body, depth: int) -> Iterator[HostLine]:
        if not body:
            yield HostLine(depth, "pass")
        for stmt in body:
            yield from self.stmt(stmt, depth)

    def stmt(self, stmt: Stmt, depth: int) -> Iterator[HostLine]:
        match stmt:
            case RunKernel(number):
                yield HostLine(depth, kernel=number)
            case Let(var, value):
                text = self.text(value)
                yield HostLine(depth, f"{self.bind(var)} = {text}")
            case If(cond, then, other):
                yield HostLine(depth, f"if {self.text(cond)}:")
                yield from self.body(then, depth + 1)
                if other:
                    yield HostLine(depth, "else:")
                    yield from self.body(other, depth + 1)
            case Loop(var, start, stop, body, step):
                ends = f"range({self.text(start)}, {self.text(stop)}, {step})"
                yield HostLine(depth, f"for {self.bind(var)} in {ends}:")
                yield from self.body(body, depth + 1)
            case While(cond, body):
                yield HostLine(depth, f"while {self.text(cond)}:")
                yield from self.body(body, depth + 1)
            case Break() | Continue():
                yield HostLine(depth, "break" if isinstance(stmt, Break) else "continue")
            case Fail(index):
                yield HostLine(depth, f"fail({index + 1})")
            case PrintLine(parts):
                yield HostLine(depth, f"show({', '.join(repr(p.text) if isinstance(p, Text) else self.text(p) for p in parts)})")
            case _:
                raise UnsupportedError(f"{type(stmt).__name__} between launches on a GPU", span=stmt.span, hint="put it in `with T.Kernel(...)`")

    def bind(self, var: Var) -> str:
        return self.names.setdefault(var.name, f"h{sum(python.startswith('h') for python in self.names.values())}")

    # ------------------------------------------------------------------------------------------ expressions
    def text(self, e: Expr) -> str:
        match e:
            case Const(value, dtype):
                plain = repr(float(value)) if dtype.is_float else repr(bool(value)) if dtype == BOOL else repr(int(value))
                plain = f'float("{plain}")' if plain.lstrip("-") in ("inf", "nan") else plain
                return plain if dtype in (INDEX, BOOL) else f"scalar__{dtype}({plain})"
            case Var(name, dtype):
                given = name in self.scalars and dtype not in (INDEX, BOOL)
                return f"given__{dtype}({self.names[name]})" if given else self.names[name]
            case Cast(x, to):
                return self.text(x) if caster(x.dtype, to) is None else f"cast__{x.dtype}__{to}({self.text(x)})"
            case Reinterpret(x, to):
                return f"reinterpret__{x.dtype}__{to}({self.text(x)})"
            case Binary(op, a, b) if op in ("and", "or") or op in _INFIX and a.dtype in (INDEX, BOOL):
                return f"({self.text(a)} {_INFIX[op]} {self.text(b)})"
            case Binary(op, a, b):
                return f"binary__{op}__{a.dtype}({self.text(a)}, {self.text(b)})"
            case Unary(op, x):
                return f"unary__{op}__{x.dtype}({self.text(x)})"
            case Select(cond, then, other):
                return f"({self.text(then)} if {self.text(cond)} else {self.text(other)})"
            case _:
                raise UnsupportedError(f"{type(e).__name__} between launches on a GPU", span=e.span, hint="compute it in `with T.Kernel(...)`")


# ------------------------------------------------------------------------------------------- running
def make_run(head: str, lines: tuple[HostLine, ...], launch: Callable[[int], list[str]], known: Mapping[str, Any], name: str) -> Callable[..., None]:
    """The function `def run(head)` of these lines; `launch` gives the lines of a kernel's launch. `known`: what they may name, `fail` among it."""
    helpers = _helpers(lines)
    out = [f"def run({head}):", *(['  with errstate(all="ignore"):'] if helpers else [])]
    for line in lines or (HostLine(0, "pass"),):
        texts = [line.text] if line.kernel < 0 else launch(line.kernel) or ["pass"]
        out += ["  " * (line.depth + 1 + bool(helpers)) + text for text in texts]
    space = {**HELPERS, "show": _show, "errstate": np.errstate, **helpers, **known}
    exec(compile("\n".join(out) + "\n", f"<launch of {name}>", "exec"), space)
    run: Callable[..., None] = space["run"]
    return run


def _helpers(lines: tuple[HostLine, ...]) -> dict[str, Callable[..., Any]]:
    """The functions of arithmetic that the lines call, by name."""
    found: dict[str, Callable[..., Any]] = {}
    for line in lines:
        for match in _HELPER.finditer(line.text):
            kind, first, second = match.groups()
            made = _helper(kind, first, second)
            found[match[0][:-1]] = made
    return found


def _helper(kind: str, first: str, second: str) -> Callable[..., Any]:
    match kind:
        case "scalar":
            return lambda value: scalar(value, DType(first))
        case "given":
            return _given(DType(first))
        case "binary":
            return binary(first, DType(second))
        case "unary":
            return unary(first, DType(second))
        case "cast":
            return caster(DType(first), DType(second)) or (lambda x: x)
        case _:
            return reinterpreter(DType(first), DType(second))


def _given(dtype: DType) -> Callable[[Any], Any]:
    """A scalar of the caller's as a value of its dtype."""
    finish = rounder(dtype)
    return lambda value: scalar(value, dtype) if finish is None else finish(scalar(value, dtype))


def _show(*parts: Any) -> None:
    """Print texts as they are, floats as %f, the rest as %d: as C does."""
    texts = [p if isinstance(p, str) else f"{float(p):f}" if "float" in type(p).__name__ else str(int(p)) for p in parts]
    sys.stdout.write("".join(texts) + "\n")
