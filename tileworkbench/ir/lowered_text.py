"""Lowered nodes as text: importing this module teaches the printer to show them.

for i: int32 in vector(0i32, 64i32):        a `Loop` with `simd`
  acc@[i] = max(acc@[i], 0.0f32)            `@[...]` is a flat offset
"""

from __future__ import annotations

from ..base.dtypes import INDEX
from .expr import Expr, Var
from .lowered import (
    Address,
    AllocateGlobal,
    Apart,
    AtomicOp,
    CopyElements,
    Declare,
    Element,
    EndIteration,
    Fail,
    GemmCall,
    Grid,
    LibraryCall,
    LoadVector,
    Loop,
    PrintLine,
    SetElement,
    StoreVector,
    Text,
)
from .printer import LATER_STAGES, LaterStage, ShowBuffer, ShowExpr
from .stmt import Body, Evaluate, Stmt


def lowered_expr(e: Expr, show: ShowExpr, name: ShowBuffer) -> str | None:
    """A lowered expression as text; None for another."""
    match e:
        case Element(buffer, offset, anywhere):
            return f"{name(buffer)}@[{show(offset)}]" + ("?" if not anywhere and buffer.scope != "var" else "")
        case Address(buffer, offset):
            return f"&{name(buffer)}@[{show(offset)}]"
        case Apart(a, b):
            return f"{name(a)} is not {name(b)}"
        case LibraryCall(called, args):
            return f"{called}({', '.join(show(a) for a in args)})"
        case AtomicOp(op, buffer, offset, value):
            return f"atomic_{op}({name(buffer)}@[{show(offset)}]{'' if value is None else f', {show(value)}'})"
        case _:
            return None


def lowered_head(s: Stmt, show: ShowExpr, name: ShowBuffer) -> str | None:
    """The first line of a lowered statement; None for another."""
    match s:
        case SetElement(buffer, offset, value):
            return f"{name(buffer)}@[{show(offset)}] = {show(value)}"
        case Declare(buffer, init):
            return f"own {name(buffer)}: {buffer.type}" + ("" if init is None else f" = {show(init)}")
        case Loop(var, start, stop, _, step, simd, reductions, label):
            by = (f", step={step}" if step != 1 else "") + "".join(f", {op} into {name(b)}" for op, b in reductions)
            end = f"  # ends at {label}" if label else ""
            return f"for {_bound(var)} in {'vector' if simd else 'serial'}({show(start)}, {show(stop)}{by}):{end}"
        case CopyElements(dst, dst_offset, src, src_offset, count):
            return f"copy {show(count)} elements {name(dst)}@[{show(dst_offset)}] <- {name(src)}@[{show(src_offset)}]"
        case LoadVector(into, at, buffer, offset, count):
            return f"{name(into)}@[{show(at)} :+ {count}] = {name(buffer)}@[{show(offset)} :+ {count}]"
        case StoreVector(buffer, offset, source, at, count):
            return f"{name(buffer)}@[{show(offset)} :+ {count}] = {name(source)}@[{show(at)} :+ {count}]"
        case GemmCall(m, n, k, a, b, c, lda, ldb, ldc, trans_a, trans_b, clear):
            sides = f"{show(a)}{'.T' * trans_a} (ld {lda}) @ {show(b)}{'.T' * trans_b} (ld {ldb})"
            return f"gemm {m}x{n}x{k} {show(c)} (ld {ldc}) += {sides}, clear={show(clear)}"
        case Fail(number, message):
            return f"fail {number} {message!r}"
        case EndIteration(label):
            return f"end iteration {label}".rstrip()
        case AllocateGlobal(buffer):
            return f"allocate {name(buffer)}: {buffer.type}[{', '.join(show(d) for d in buffer.shape)}]"
        case PrintLine(parts):
            return f"print {', '.join(repr(p.text) if isinstance(p, Text) else show(p) for p in parts)}"
        case Grid(called, grid_vars, extents, tiles, _, scratch_bytes, enough, after=after):
            over = f"({', '.join(_bound(v) for v in grid_vars)}) in ({', '.join(show(e) for e in extents)})"
            places = ", ".join(f"{name(t.buffer)} at {t.offset}" for t in tiles if t.buffer.view_of is None)
            shared = ", on one thread" if enough is None else f", shared from {enough} blocks on" if enough else ""
            end = "".join(f", then {show(s.value)}" for s in after if isinstance(s, Evaluate))
            return f"grid {called!r} {over}, {scratch_bytes} bytes a core{shared}{end}{': ' if places else ''}{places}:"
        case _:
            return None


def lowered_body(s: Stmt) -> Body | None:
    """The body of a lowered statement that has one."""
    return s.body if isinstance(s, (Loop, Grid)) else None


def _bound(var: Var) -> str:
    return var.name if var.type == INDEX else f"{var.name}: {var.type}"


LATER_STAGES.append(LaterStage(lowered_expr, lowered_head, lowered_body))
